"""What a plan for a cascade in one pass is made of: its tiles, its tensors' homes, its bindings and its dependences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from accel.arch import Architecture
from accel.cascade import Cascade, Einsum
from accel.errors import InputError
from accel.expression import Access
from accel.schedule import INSTANCE, Axis, Group, Level, Plan, Residence
from mapping.bound import operators
from mapping.passes import default_rank, passes
from mapping.search.pipeline import Dependence, latest_offsets, least_offsets

__all__ = ["AXES", "Form", "Pipeline"]

AXES: tuple[tuple[Axis, Axis], ...] = ((Axis.ROWS, Axis.COLUMNS), (Axis.COLUMNS, Axis.ROWS))
"""The axes of the tile along the keys and of the tile along the queries."""


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Where and when the steps of a form run.

    Parameters
    ----------
    arrays, stages, offsets : tuple of int
        Of each step.
    groups : tuple of int
        Group of each stage; stages of one group alternate cycle by cycle.
    buffered : frozenset of int
        Steps whose tiles pass through the buffer.
    """

    arrays: tuple[int, ...]
    stages: tuple[int, ...]
    offsets: tuple[int, ...]
    groups: tuple[int, ...]
    buffered: frozenset[int]


@dataclass(frozen=True, kw_only=True)
class Form:
    """A cascade on an architecture, as a pipeline of tiles.

    Parameters
    ----------
    cascade : Cascade
        The cascade.
    architecture : Architecture
        Where it runs.
    whole_keys : bool
        Whether a tile holds all keys of its rows, so that as many passes as it takes go over what is on chip.

    Raises
    ------
    InputError
        The cascade needs several passes and a tile does not hold all keys, or it has no rank of rows, or no array has
        the operators of an Einsum.
    """

    cascade: Cascade
    architecture: Architecture
    whole_keys: bool = False

    def __post_init__(self) -> None:
        """Check that a pipeline of tiles can run it."""
        found = 1 if self.whole_keys else passes(self.cascade, self.key).passes
        if found != 1:
            raise InputError(
                f"cascade {self.cascade.name!r} must need one pass over rank {self.key!r} to run as a pipeline of "
                f"tiles, but needs {found}",
                hint="derive the form that needs one (einrtl derive)",
            )
        for einsum, choice in zip(self.steps, self.choices, strict=True):
            if not choice:
                needed = ", ".join(operators(einsum, next(iter(self.architecture.arrays.values()))))
                raise InputError(
                    f"an array of architecture {self.architecture.name!r} must have all operators of Einsum "
                    f"{einsum.name!r} ({needed}), but none has",
                    hint="add the missing operator to an array",
                )

    # Ranks and steps ------------------------------------------------------------------------------------------------

    @cached_property
    def key(self) -> str:
        """The rank over which passes count, along which running values are updated."""
        return next(iter(self.cascade.partitions.values()), None) or default_rank(self.cascade)

    @cached_property
    def digits(self) -> tuple[str, ...]:
        """The parts of the key rank, the tile last."""
        own = next((digits for digits, whole in self.cascade.partitions.items() if whole == self.key), None)
        return own or (f"{self.key}1", f"{self.key}0")

    @cached_property
    def row(self) -> str:
        """The rank of independent rows (queries): that of the outputs which most Einsums have."""
        outputs = [set(self.cascade.tensors[name].ranks) for name in self.cascade.outputs]
        shared = [rank for rank in self.cascade.ranks if all(rank in ranks for ranks in outputs)]
        counts = {rank: sum(rank in step.ranks for step in self.steps) for rank in shared if rank != self.key}
        if not counts:
            raise InputError(
                f"cascade {self.cascade.name!r} must have a rank of rows in all its outputs to run as a pipeline of "
                f"tiles",
                hint="give it a rank for the queries",
            )
        return max(counts, key=lambda rank: counts[rank])

    @cached_property
    def rows(self) -> tuple[str, str, str]:
        """The parts of the rank of rows: groups, tiles of a group, the tile."""
        return f"{self.row}2", f"{self.row}1", f"{self.row}0"

    @cached_property
    def splits(self) -> Mapping[str, tuple[str, ...]]:
        """The splits of every plan."""
        return {self.key: self.digits, self.row: self.rows}

    @cached_property
    def loops(self) -> tuple[str, ...]:
        """The loops of every plan: groups of rows, all keys, the rows of the group."""
        return (self.rows[0], *self.digits[:-1], self.rows[1])

    @cached_property
    def steps(self) -> tuple[Einsum, ...]:
        """Einsums without initial values, makers before readers, else in the order of the cascade."""
        plain = {einsum.name: einsum for einsum in self.cascade.einsums if not einsum.is_initial}
        sources = {
            name: {read.tensor for read in einsum.reads if read.tensor in plain and self.is_new(plain, read)} - {name}
            for name, einsum in plain.items()
        }
        order: list[str] = []
        while len(order) < len(plain):
            ready = (name for name in plain if name not in order and sources[name] <= set(order))
            order.append(next(ready))
        return tuple(plain[name] for name in order)

    @staticmethod
    def is_new(plain: Mapping[str, Einsum], access: Access) -> bool:
        """Return whether an access reads what its maker makes for the same tile, not what an earlier one left."""
        maker = plain[access.tensor]
        return maker.iterative_rank is None or access.indices == maker.output.indices or bool(access.final_ranks)

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Einsum to its number."""
        return {step.name: number for number, step in enumerate(self.steps)}

    @cached_property
    def arrays(self) -> tuple[str, ...]:
        """Names of the arrays."""
        return tuple(self.architecture.arrays)

    @cached_property
    def choices(self) -> tuple[tuple[int, ...], ...]:
        """Arrays that have the operators of each step."""
        arrays = self.architecture.arrays.values()
        return tuple(
            tuple(
                number for number, array in enumerate(arrays) if operators(step, array).keys() <= set(array.operators)
            )
            for step in self.steps
        )

    # Tensors --------------------------------------------------------------------------------------------------------

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return tuple(tensor.name for tensor in self.cascade.inputs)

    def homes(self, tensor: str) -> tuple[Residence, ...]:
        """Return where an input may live: streamed; as little as one iteration needs; all of an instance."""
        ranks = {rank for step in self.steps for read in step.reads if read.tensor == tensor for rank in read.ranks}
        keyed, rowed = bool(ranks & {self.key, *self.digits}), bool(ranks & {self.row, *self.rows})
        within = [self.loops[-1]] if keyed and rowed else []
        if keyed and not rowed:
            within = [self.digits[-2], INSTANCE]
        elif rowed and not keyed:
            within = [self.rows[0]]
        elif not within:
            within = [INSTANCE]
        stream = Residence(level=Level.STREAM)
        return (stream, *(Residence(level=Level.BUFFER, within=each) for each in within))

    @cached_property
    def accumulators(self) -> frozenset[int]:
        """Steps that go on from one tile of the key rank to the next: running values and sums over tiles."""
        parts = {self.key, *self.digits[:-1]}
        return frozenset(
            number
            for number, step in enumerate(self.steps)
            if step.iterative_rank in parts or (step.reduction is not None and parts & set(step.reduction.ranks))
        )

    @cached_property
    def tiles(self) -> tuple[int, ...]:
        """Steps that make a value for every row and every key: scores, numerators."""
        own = {self.key, self.digits[-1]}
        return tuple(
            number
            for number, step in enumerate(self.steps)
            if number not in self.accumulators and own & set(step.output.ranks) and self.readers(number)
        )

    def readers(self, maker: int) -> tuple[int, ...]:
        """Return the steps that read what a step makes, itself left out."""
        name = self.steps[maker].name
        return tuple(
            number
            for number, step in enumerate(self.steps)
            if number != maker and any(read.tensor == name for read in step.reads)
        )

    def is_row_scalar(self, maker: int) -> bool:
        """Return whether a step makes one value for each row of a tile."""
        own = {self.key, *self.digits[:-1], self.row}
        return set(self.steps[maker].output.ranks) <= own

    # Order ----------------------------------------------------------------------------------------------------------

    def dependences(self, distance: int | None) -> tuple[Dependence, ...]:
        """Return what must wait for what.

        Parameters
        ----------
        distance : int, optional
            Tiles between two that follow each other along the key rank; None if there is one tile along it.
        """
        return tuple(dict.fromkeys(self._dependences(distance)))

    def _dependences(self, distance: int | None) -> Iterator[Dependence]:
        plain = {step.name: step for step in self.steps}
        for reader, step in enumerate(self.steps):
            for access in step.reads:
                maker = self.index.get(access.tensor)
                if maker is None:
                    continue
                if self.is_new(plain, access):
                    yield Dependence(maker=maker, reader=reader, tiles=0)
                elif distance is not None:
                    yield Dependence(maker=maker, reader=reader, tiles=distance)
                # What goes on from tile to tile is updated in place: whoever reads it must be done before.
                if maker in self.accumulators and maker != reader:
                    yield Dependence(maker=reader, reader=maker, tiles=distance or 1)

    def alternating_offsets(
        self, pipeline: Pipeline, groups: tuple[int, ...], distance: int | None
    ) -> tuple[tuple[int, ...], ...]:
        """Return the least and the latest offsets where stages of one group alternate cycle by cycle; empty if none do.

        Then a reader waits for the next epoch, but for a value of the same tile that it takes point by point.
        """
        edges = []
        for each in self.dependences(distance):
            maker, reader = pipeline.stages[each.maker], pipeline.stages[each.reader]
            if groups[maker] != groups[reader]:
                waits = groups[maker] > groups[reader]
            elif maker == reader:
                waits = pipeline.arrays[each.maker] != pipeline.arrays[each.reader] or each.maker > each.reader
            else:
                waits = each.tiles > 0 or not self._point_by_point(each.maker, each.reader, pipeline)
            edges.append((each.maker, each.reader, int(waits) - each.tiles))
        least = least_offsets(len(self.steps), edges)
        return () if least is None else tuple(dict.fromkeys((least, latest_offsets(least, edges))))

    def _point_by_point(self, maker: int, reader: int, pipeline: Pipeline) -> bool:
        """Return whether a reader in the other slot may take each value in the cycle after it is made."""
        one, other = self.steps[maker], self.steps[reader]
        shape = self.architecture.arrays[self.arrays[pipeline.arrays[maker]]]
        cycles = [
            sum(count * shape.operators[name].cycles for name, count in operators(step, shape).items())
            for step in (one, other)
            if operators(step, shape).keys() <= set(shape.operators)
        ]
        place = pipeline.stages[maker], pipeline.arrays[maker]
        first = next(n for n, p in enumerate(zip(pipeline.stages, pipeline.arrays, strict=True)) if p == place)
        return (
            pipeline.arrays[maker] == pipeline.arrays[reader]
            and maker not in pipeline.buffered | self.accumulators
            and one.reduction is None
            and one.ranks == other.ranks
            and first == maker
            and cycles[0] <= cycles[1]
        )

    # Plans ----------------------------------------------------------------------------------------------------------

    def plan(self, axes: tuple[Axis, Axis], homes: Mapping[str, Residence], pipeline: Pipeline) -> Plan:
        """Return the plan of one point of the space."""
        return Plan(
            splits=self.splits,
            loops=self.loops,
            axes={self.digits[-1]: axes[0], self.rows[-1]: axes[1]},
            epoch=tuple(self._epoch(pipeline)),
            offsets={step.name: pipeline.offsets[number] for number, step in enumerate(self.steps)},
            residency={
                **{name: homes[name] for name in self.inputs},
                **{step.name: self.home(number, pipeline) for number, step in enumerate(self.steps)},
            },
        )

    def _epoch(self, pipeline: Pipeline) -> Iterator[Group]:
        for group in sorted(set(pipeline.groups)):
            slots: list[Mapping[str, tuple[str, ...]]] = []
            for stage in (number for number, own in enumerate(pipeline.groups) if own == group):
                slot: dict[str, tuple[str, ...]] = {}
                for number, step in enumerate(self.steps):
                    if pipeline.stages[number] == stage:
                        array = self.arrays[pipeline.arrays[number]]
                        slot[array] = (*slot.get(array, ()), step.name)
                slots.append(slot)
            yield Group(slots=tuple(slots))

    def streams(self, maker: int, arrays: tuple[int, ...], array: int) -> int:
        """Return how many epochs a value for a row may be on its way to readers of ``array``; -1 if it is held."""
        if arrays[maker] != array:
            return 1
        return -1 if self.is_row_scalar(maker) else 0

    def home(self, number: int, pipeline: Pipeline) -> Residence:
        """Return where what a step makes lives: what a pipeline can do without is not held."""
        readers = self.readers(number)
        if number in self.accumulators:
            return Residence(level=Level.BUFFER, within=self.rows[0])
        if not readers:
            return Residence(level=Level.STREAM)
        group = [pipeline.groups[stage] for stage in pipeline.stages]
        if number in pipeline.buffered:
            last = max((pipeline.offsets[reader], group[reader]) for reader in readers)
            alive = last[0] - pipeline.offsets[number] + (last[1] >= group[number])
            return Residence(level=Level.BUFFER, within=self.loops[-1], copies=max(alive, 1))
        held = number in self.tiles or any(
            pipeline.offsets[reader] - pipeline.offsets[number]
            > self.streams(number, pipeline.arrays, pipeline.arrays[reader])
            for reader in readers
        )
        return Residence(level=Level.REGISTERS if held else Level.STREAM)
