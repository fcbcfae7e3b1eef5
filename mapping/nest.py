"""The model of nests: what Einsums with loop nests of their own cost, in stages, with spills; closed-form.

Reuse follows from the loops alone. A tile moves the part of each tensor that it touches; a stationary part that the
next tile touches too stays. Values are counted exactly, and divided by the width of a row or word.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from accel.arch import Architecture
from accel.cascade import Cascade, Einsum
from accel.cost import CostTable
from accel.errors import InputError, Problem, did_you_mean
from accel.nest import EinsumNest, Nest, Overflow, Store
from accel.result import NestResult, StageCycles, UnitEnergy
from accel.schedule import Axis
from mapping.bound import operators

__all__ = ["NestModel", "price_nest"]


@dataclass(frozen=True, kw_only=True)
class _Move:
    """Values of one tensor that one Einsum moves, or that pass between DRAM and buffer."""

    unit: str
    action: str
    tensor: str
    stage: int
    values: Fraction


@dataclass(frozen=True, kw_only=True)
class NestModel:
    """A nest on an architecture, for the rank sizes of one instance.

    Parameters
    ----------
    cascade : Cascade
        What is computed; its tensors have plain ranks, without iteration or partition.
    architecture : Architecture
        What computes it.
    nest : Nest
        How.
    sizes : mapping of str to int
        Upper-case rank to its size.

    Raises
    ------
    InputError
        A name of the nest does not fit the cascade or the architecture, an array lacks an operator, an Einsum runs
        before what it reads, or the buffer is too small and may not spill.
    """

    cascade: Cascade
    architecture: Architecture
    nest: Nest
    sizes: Mapping[str, int]

    def __post_init__(self) -> None:
        """Check everything that the descriptions cannot check alone."""
        found = [*self._name_problems()]
        if not found:
            found = [*self._order_problems(), *self._capacity_problems()]
        if found:
            raise InputError.of(found)

    # What does not fit ----------------------------------------------------------------------------------------------

    def _name_problems(self) -> Iterator[Problem]:
        tensors = {tensor.name for tensor in self.cascade.inputs} | set(self.einsums)
        for what, given, known in (("nest", self.nest.einsums, self.einsums), ("tensor", self.nest.tensors, tensors)):
            for name in given:
                if name not in known:
                    yield Problem(
                        message=f"{what} {name!r} must belong to cascade {self.cascade.name!r}",
                        hint=did_you_mean(name, known),
                    )
            for name in known:
                if name not in given:
                    yield Problem(
                        message=f"the nest must say how {name!r} of cascade {self.cascade.name!r} "
                        f"{'runs' if what == 'nest' else 'is stored'}",
                        hint=f"add {name}",
                    )
        ranks = {rank for einsum in self.einsums.values() for rank in einsum.ranks}
        for name, loop in self.nest.loops.items():
            if loop.rank not in ranks:
                yield Problem(
                    message=f"loop {name!r} must run over a rank of cascade {self.cascade.name!r}, not {loop.rank!r}",
                    hint=did_you_mean(loop.rank, ranks),
                )
        for rank in sorted(ranks):
            if rank.upper() not in self.sizes:
                yield Problem(message=f"rank {rank!r} must have a size", hint=f"give {rank.upper()}")
        for name, each in self.nest.einsums.items():
            if name in self.einsums:
                yield from self._array_problems(name, each)

    def _array_problems(self, name: str, each: EinsumNest) -> Iterator[Problem]:
        arrays = self.architecture.arrays
        if each.array not in arrays:
            yield Problem(
                message=f"Einsum {name!r} must run on an array of architecture {self.architecture.name!r}, "
                f"but {each.array!r} is none",
                hint=did_you_mean(each.array, arrays),
            )
            return
        for operator in operators(self.einsums[name], arrays[each.array]):
            if operator not in arrays[each.array].operators:
                yield Problem(
                    message=f"array {each.array!r} must have operator {operator!r} to run Einsum {name!r}",
                    hint="run it on another array",
                )
        if self.einsums[name].conditions:
            yield Problem(message=f"Einsum {name!r} must have no filter in a nest", hint="price the cascade without it")

    def _order_problems(self) -> Iterator[Problem]:
        place = {name: (index, k) for index, stage in enumerate(self.nest.stages) for k, name in enumerate(stage)}
        for name, einsum in self.einsums.items():
            for access in einsum.reads:
                if access.tensor in place and place[access.tensor] >= place[name]:
                    yield Problem(
                        message=f"{name!r} must stand after {access.tensor!r}, which it reads",
                        hint="move it behind, or to a later stage",
                    )

    def _capacity_problems(self) -> Iterator[Problem]:
        held = self.architecture.buffer.size_bits
        if self.needed_bits > held and self.nest.overflow is Overflow.REFUSED:
            parts = ", ".join(f"{name} {bits}" for name, bits in self.fullest.items() if bits)
            yield Problem(
                message=f"the buffer must hold {self.needed_bits} bits ({parts}), but has {held}: "
                f"{self.needed_bits - held} too few",
                hint="choose smaller loops, or overflow: spilled",
            )

    # Loops ----------------------------------------------------------------------------------------------------------

    @cached_property
    def einsums(self) -> Mapping[str, Einsum]:
        """Name to Einsum, initial values left out."""
        return {einsum.name: einsum for einsum in self.cascade.einsums if not einsum.is_initial}

    def size(self, rank: str) -> int:
        """Return the size of a rank."""
        return self.sizes[rank.upper()]

    def _extents(self, rank: str, loops: tuple[str, ...]) -> Counter[int]:
        """Return the sizes of the tiles of a rank to how many there are."""
        tiles = Counter({self.size(rank): 1})
        for loop in loops:
            if self.nest.loops[loop].rank != rank:
                continue
            size, cut = self.nest.loops[loop].size, Counter[int]()
            for extent, count in tiles.items():
                whole, rest = divmod(extent, size)
                cut[size] += whole * count
                cut[rest] += count if rest else 0
            tiles = +cut
        return tiles

    def slice_of(self, ranks: tuple[str, ...], loops: tuple[str, ...]) -> int:
        """Return the values of a tensor that one iteration of all ``loops`` touches, at most."""
        return math.prod(max(self._extents(rank, loops)) for rank in ranks)

    # Compute --------------------------------------------------------------------------------------------------------

    def cycles(self, name: str) -> int:
        """Return the cycles of an Einsum for one instance: those of the fullest PE, tile by tile."""
        einsum, nest = self.einsums[name], self.nest.einsums[name]
        array = self.architecture.arrays[nest.array]
        used = operators(einsum, array)
        cycles = sum(count * array.operators[each].cycles for each, count in used.items())
        for rank in einsum.ranks:
            axis = nest.axes.get(rank)
            width = 1 if axis is None else array.rows if axis is Axis.ROWS else array.columns
            cycles *= sum(-(-extent // width) * count for extent, count in self._extents(rank, nest.loops).items())
        return cycles

    def points(self, name: str) -> int:
        """Return the points of an Einsum for one instance."""
        return math.prod(self.size(rank) for rank in self.einsums[name].ranks)

    # Movement -------------------------------------------------------------------------------------------------------

    def moved(self, name: str, ranks: tuple[str, ...]) -> int:
        """Return the values of a tensor with ``ranks`` that an Einsum moves into or out of its array.

        Each tile moves its part, but a stationary tensor only where the part is another than that of the tile before.
        """
        nest = self.nest.einsums[name]
        stationary = not any(
            rank not in nest.axes and max(self._extents(rank, nest.loops)) > 1
            for rank in ranks
            if rank in self.einsums[name].ranks
        )
        return self._walk(nest.loops, self._whole(name), ranks, stationary)[0]

    def fetched(self, name: str, tensor: str, ranks: tuple[str, ...]) -> int:
        """Return the values of a staged tensor that are brought to the buffer for the loops of one reader."""
        within, loops = self.nest.tensors[tensor].within, self.nest.einsums[name].loops
        outside = loops[: loops.index(within) + 1] if within in loops else ()
        return self._walk(outside, self._whole(name), ranks, True)[0]

    def _whole(self, name: str) -> dict[str, int]:
        return {rank: self.size(rank) for rank in self.einsums[name].ranks}

    def _walk(
        self, loops: tuple[str, ...], extents: Mapping[str, int], ranks: tuple[str, ...], stays: bool
    ) -> tuple[int, bool]:
        """Return the values that all tiles of ``loops`` move, and whether it is one and the same part of the tensor.

        The part of the last tile differs from that of the first as soon as a loop cuts the tensor. A loop around it
        over another rank then moves everything again, and nothing if there is only one part that stays.
        """
        if not loops:
            return math.prod(extents[rank] for rank in ranks), True
        loop = self.nest.loops[loops[0]]
        whole, rest = divmod(extents[loop.rank], loop.size)
        tiles = [(loop.size, whole)] * (whole > 0) + [(rest, 1)] * (rest > 0)
        inner = [self._walk(loops[1:], {**extents, loop.rank: extent}, ranks, stays) for extent, _ in tiles]
        if whole + (rest > 0) == 1 or (stays and loop.rank not in ranks and inner[0][1]):
            return inner[0]
        return sum(values * count for (values, _), (_, count) in zip(inner, tiles, strict=True)), False

    @cached_property
    def passes(self) -> Mapping[str, int]:
        """Einsum to its pass: one more than that of a reduction that it waits for along a rank of its own."""
        found: dict[str, int] = {}
        for name, einsum in self.einsums.items():
            number = 0
            for access in einsum.reads:
                maker = self.einsums.get(access.tensor)
                if maker is None or self.nest.einsums[maker.name].array != self.nest.einsums[name].array:
                    continue
                waits = maker.reduction is not None and set(maker.reduction.ranks) & set(einsum.ranks)
                number = max(number, found[maker.name] + bool(waits))
            found[name] = number
        return found

    def readers(self, tensor: str) -> list[tuple[str, tuple[str, ...]]]:
        """Return the Einsums that read a tensor from its store, with its ranks.

        Einsums of one array and pass share what the first of them reads, and what one of them has just made.
        """
        seen = set()
        maker = self.einsums.get(tensor)
        if maker is not None and not (maker.reduction and self._reduces(tensor)):
            seen.add((self.nest.einsums[tensor].array, self.passes[tensor]))
        found = []
        for name, einsum in self.einsums.items():
            place = (self.nest.einsums[name].array, self.passes[name])
            for access in einsum.reads:
                if access.tensor == tensor and place not in seen:
                    seen.add(place)
                    found.append((name, access.ranks))
        return found

    def _reduces(self, tensor: str) -> bool:
        """Return whether some reader iterates over a rank that making the tensor reduces."""
        reduction = self.einsums[tensor].reduction
        return reduction is not None and any(
            set(reduction.ranks) & set(einsum.ranks)
            for einsum in self.einsums.values()
            if any(access.tensor == tensor for access in einsum.reads)
        )

    # Capacity -------------------------------------------------------------------------------------------------------

    @cached_property
    def occupancy_bits(self) -> Mapping[str, int]:
        """Tensor to the bits of buffer that it takes: what is kept within a loop, or one tile of what streams."""
        found = {}
        for tensor, store in self.nest.tensors.items():
            name, ranks = self._user(tensor)
            loops = self.nest.einsums[name].loops
            if store.store is Store.BUFFER or store.staged:
                loops = loops[: loops.index(store.within) + 1] if store.within in loops else ()
            found[tensor] = store.copies * self.slice_of(ranks, loops) * self.architecture.width_bits
        return found

    @cached_property
    def fullest(self) -> Mapping[str, int]:
        """Tensor to its bits in the stage that takes most of the buffer; stages share it one after the other."""
        stages = []
        for stage in self.nest.stages:
            touched = {*stage, *(access.tensor for name in stage for access in self.einsums[name].reads)}
            stages.append({name: bits for name, bits in self.occupancy_bits.items() if name in touched})
        return max(stages, key=lambda parts: sum(parts.values()))

    @property
    def needed_bits(self) -> int:
        """Bits of the buffer that the fullest stage takes."""
        return sum(self.fullest.values())

    def _user(self, tensor: str) -> tuple[str, tuple[str, ...]]:
        """Return the Einsum whose loops say how a tensor is cut, and the ranks of the tensor: its maker or a reader."""
        users = [(tensor, self.einsums[tensor].output.ranks)] if tensor in self.einsums else []
        users += [
            (name, access.ranks)
            for name, einsum in self.einsums.items()
            for access in einsum.reads
            if access.tensor == tensor
        ]
        within = self.nest.tensors[tensor].within
        return next((user for user in users if within in self.nest.einsums[user[0]].loops), users[0])

    @cached_property
    def spilled(self) -> Fraction:
        """Share of each tensor in the buffer for which there is no room."""
        return max(Fraction(0), 1 - Fraction(self.architecture.buffer.size_bits, max(self.needed_bits, 1)))

    # All movements --------------------------------------------------------------------------------------------------

    def moves(self) -> Iterator[_Move]:
        """Yield every movement of values of one instance to and from DRAM and the buffer."""
        stage_of = {name: index for index, stage in enumerate(self.nest.stages) for name in stage}
        for tensor, store in self.nest.tensors.items():
            kept = store.store is Store.BUFFER or store.staged
            share = self.spilled if kept and store.spills else Fraction(0)
            maker = self.einsums.get(tensor)
            if maker is not None:
                yield from self._made(tensor, maker, stage_of[tensor], share)
            first: int | None = None
            for name, ranks in self.readers(tensor):
                stage, stream = stage_of[name], Fraction(self.moved(name, ranks))
                if not kept:
                    yield _Move(unit="dram", action="read", tensor=tensor, stage=stage, values=stream)
                    continue
                if store.store is Store.DRAM and stage != first:
                    once = Fraction(self.fetched(name, tensor, ranks))
                    yield _Move(unit="dram", action="read", tensor=tensor, stage=stage, values=(1 - share) * once)
                    yield _Move(unit="buffer", action="write", tensor=tensor, stage=stage, values=once)
                first = stage
                yield _Move(unit="dram", action="read", tensor=tensor, stage=stage, values=share * stream)
                yield _Move(unit="buffer", action="read", tensor=tensor, stage=stage, values=stream)

    def _made(self, tensor: str, maker: Einsum, stage: int, share: Fraction) -> Iterator[_Move]:
        """Yield the movements of a tensor by the Einsum that makes it, partial sums that leave the array included."""
        store, ranks = self.nest.tensors[tensor], maker.output.ranks
        whole = Fraction(math.prod(self.size(rank) for rank in ranks))
        leaving = Fraction(self.moved(tensor, ranks))
        accumulates = store.store is Store.BUFFER or (store.staged and tensor in self.cascade.outputs)
        unit = "buffer" if accumulates else "dram"
        yield _Move(unit=unit, action="write", tensor=tensor, stage=stage, values=leaving)
        yield _Move(unit=unit, action="read", tensor=tensor, stage=stage, values=leaving - whole)
        if store.store is Store.BUFFER:
            yield _Move(unit="dram", action="write", tensor=tensor, stage=stage, values=share * leaving)
        elif accumulates:
            yield _Move(unit="dram", action="write", tensor=tensor, stage=stage, values=whole)


def price_nest(model: NestModel, *, instances: int, costs: CostTable) -> NestResult:
    """Return what a nest costs.

    Parameters
    ----------
    model : NestModel
        The nest, checked.
    instances : int
        Times that it runs.
    costs : CostTable
        Energies; those of registers are not in it (see ``accel.configuration.RegisterCount``).

    Raises
    ------
    InputError
        The cost table lacks an entry.
    """
    architecture = model.architecture
    moves = [move for move in model.moves() if move.values]
    width = architecture.width_bits
    stages = []
    for index, stage in enumerate(model.nest.stages):
        busy = dict.fromkeys(architecture.arrays, 0)
        for name in stage:
            busy[model.nest.einsums[name].array] += instances * model.cycles(name)
        traffic = sum((move.values for move in moves if move.unit == "dram" and move.stage == index), Fraction(0))
        bits = instances * traffic * width
        memory = float(bits) * architecture.clock_hz / architecture.dram.bandwidth_bits_per_s
        stages.append(
            StageCycles(
                einsums=stage,
                traffic_bits=float(bits),
                memory_cycles=memory,
                busy_cycles=busy,
                cycles=max(memory, *busy.values()),
            )
        )
    energies: defaultdict[tuple[str, str], float] = defaultdict(float)
    for move in moves:
        if move.unit == "dram":
            component, wide = architecture.dram.component, architecture.dram.word_bits
        else:
            component, wide = architecture.buffer.component, architecture.buffer.row_bits
        count = float(instances * move.values * width / wide)
        energies[move.unit, move.action] += count * costs.energy_pj(component, move.action, bits=wide)
    work = dict.fromkeys(architecture.arrays, 0)
    for name, einsum in model.einsums.items():
        where = model.nest.einsums[name].array
        array = architecture.arrays[where]
        points = instances * model.points(name)
        for operator, number in operators(einsum, array).items():
            work[where] += points * number * array.operators[operator].cycles
            for action, each in array.operators[operator].actions.items():
                energies[where, action] += points * number * each * costs.energy_pj(array.component, action)
    return NestResult(
        clock_hz=architecture.clock_hz,
        technology=costs.name,
        spilled=float(model.spilled),
        stages=tuple(stages),
        work_cycles={name: work[name] / array.pes for name, array in architecture.arrays.items()},
        energies=tuple(UnitEnergy(unit=u, action=a, energy_pj=pj) for (u, a), pj in energies.items()),
    )
