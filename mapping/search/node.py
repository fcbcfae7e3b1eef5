"""The numbers of one choice of tile sizes and axes: what each step costs on each array, and what each home moves."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from accel.cost import CostTable
from accel.schedule import Axis, Residence
from accel.workload import Workload
from mapping.bound import Bound, bind, operators
from mapping.model import count_actions
from mapping.search.form import AXES, Form, Pipeline
from mapping.search.pipeline import Held, ModuloProblem
from mapping.search.sizes import Needed, whole_tiling
from mapping.tiling import TileClass, Tiling

__all__ = ["Configurations", "Kept", "Node", "PointCosts", "References", "Role"]

_MEMORIES = ("dram", "buffer")


@dataclass(frozen=True, kw_only=True)
class Configurations:
    """All bindings, each with all homes of the tiles between Einsums.

    Parameters
    ----------
    arrays : ndarray[configurations, steps], int8
        Array of each step.
    buffered : ndarray[configurations, tensors], bool
        Whether a tile between Einsums passes through the buffer, in the order of ``Form.tiles``.
    form : Form
        The form.
    """

    arrays: NDArray[np.int8]
    buffered: NDArray[np.bool_]
    form: Form

    @classmethod
    def of(cls, form: Form) -> Configurations:
        """Return those of a form: a tile may stay in registers where one array makes and reads it."""
        bindings = np.array(list(product(*form.choices)), dtype=np.int8)
        patterns = np.array(list(product((False, True), repeat=len(form.tiles))), dtype=np.bool_)
        patterns = patterns.reshape(2 ** len(form.tiles), len(form.tiles))
        arrays = np.repeat(bindings, len(patterns), axis=0)
        buffered = np.tile(patterns, (len(bindings), 1))
        legal = np.ones(len(arrays), dtype=np.bool_)
        for column, maker in enumerate(form.tiles):
            for reader in form.readers(maker):
                legal &= buffered[:, column] | (arrays[:, maker] == arrays[:, reader])
        return cls(arrays=arrays[legal], buffered=buffered[legal], form=form)

    @cached_property
    def on_array(self) -> tuple[NDArray[np.float64], ...]:
        """For each array which steps it runs: ndarray[configurations, steps], float64."""
        return tuple((self.arrays == array).astype(np.float64) for array in range(int(self.arrays.max()) + 1))

    @cached_property
    def bindings(self) -> tuple[NDArray[np.float64], ...]:
        """The same for each binding once, whatever the homes."""
        unique = np.unique(self.arrays, axis=0)
        return tuple((unique == array).astype(np.float64) for array in range(int(self.arrays.max()) + 1))

    @cached_property
    def held(self) -> tuple[tuple[int, tuple[NDArray[np.bool_], ...]], ...]:
        """Steps whose output registers must hold, whatever the pipeline: for each array in which configurations."""
        found = []
        for maker in range(len(self.form.steps)):
            readers = self.form.readers(maker)
            if maker in self.form.accumulators or not readers:
                continue
            reads = tuple(np.any(on[:, readers] > 0, axis=1) for on in self.on_array)
            if maker in self.form.tiles:
                held = ~self.buffered[:, self.form.tiles.index(maker)]
            elif self.form.is_row_scalar(maker):  # a reader of the same array takes it from there
                own = [read & (on[:, maker] > 0) for read, on in zip(reads, self.on_array, strict=True)]
                held = np.any(own, axis=0)
            else:
                continue
            found.append((maker, tuple(held & read for read in reads)))
        return tuple(found)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.arrays)


@dataclass(frozen=True, kw_only=True)
class Role:
    """How a step depends on the sizes of a tile; pairs are for the key rank and the rank of rows.

    Parameters
    ----------
    tiles : tuple of bool
        Whether it has a point for each element of a tile along the rank.
    loops : tuple of bool
        Whether it runs for each tile along the rank, not only for the last.
    made : tuple of bool
        Whether its output has a value for each element of a tile along the rank.
    others, other_made : int
        Product of the other ranks, of its points and of its output.
    """

    tiles: tuple[bool, bool]
    loops: tuple[bool, bool]
    made: tuple[bool, bool]
    others: int
    other_made: int


@dataclass(frozen=True, kw_only=True)
class PointCosts:
    """What one point of each step costs on each array; 0 where the array cannot run it.

    Parameters
    ----------
    point_cycles : ndarray[steps, arrays], int64
        Cycles of one PE.
    point_energy_pj : ndarray[steps, arrays], float64
        Energy.
    """

    point_cycles: NDArray[np.int64]
    point_energy_pj: NDArray[np.float64]

    @classmethod
    def of(cls, form: Form, table: CostTable) -> PointCosts:
        """Return those of a form."""
        cycles = np.zeros((len(form.steps), len(form.arrays)), dtype=np.int64)
        energy = np.zeros(cycles.shape)
        for number, einsum in enumerate(form.steps):
            for array in form.choices[number]:
                shape = form.architecture.arrays[form.arrays[array]]
                for name, count in operators(einsum, shape).items():
                    used = shape.operators[name]
                    cycles[number, array] += count * used.cycles
                    energy[number, array] += count * sum(
                        times * table.energy_pj(shape.component, action) for action, times in used.actions.items()
                    )
        return cls(point_cycles=cycles, point_energy_pj=energy)


class References:
    """What all choices of sizes share: plans from which the model's own counts are taken, and what one point costs."""

    def __init__(self, form: Form, workload: Workload, costs: CostTable) -> None:
        self.form, self.workload, self.table = form, workload, costs
        choice = tuple(options[0] for options in form.choices)
        nothing = tuple([0] * len(form.steps))
        self._pipelines = {
            buffered: Pipeline(
                arrays=choice,
                stages=nothing,
                offsets=nothing,
                groups=(0,),
                buffered=frozenset(form.tiles) if buffered else frozenset(),
            )
            for buffered in (False, True)
        }
        self._bounds: dict[tuple[object, ...], Bound] = {}
        self.moves: dict[tuple[tuple[int, int], int], dict[tuple[str | None, int], tuple[int, float]]] = {}
        self.occupations: dict[tuple[tuple[int, int], int], dict[tuple[str | None, int], int]] = {}
        self.passing: dict[tuple[int, int], dict[int, float]] = {}
        self.whole = whole_tiling(self.bound(AXES[0], 0, False), workload)
        self.needed = Needed.of(self.whole)
        self.wholes = (self.whole.size(form.key), self.whole.size(form.row))
        self.costs = PointCosts.of(form, costs)
        self.shapes = tuple(form.architecture.arrays.values())
        self.filtered = any(step.conditions for step in form.steps)
        self.roles = tuple(self._role(number) for number in range(len(form.steps)))

    def _role(self, number: int) -> Role:
        step, form = self.form.steps[number], self.form
        splits = [(rank, parts) for rank, parts in form.splits.items()]
        missing = self.whole.bound.missing(self.whole.bound.steps[step.name])
        cut = {rank for rank, _ in splits} | {part for _, parts in splits for part in parts}

        def others(ranks: tuple[str, ...]) -> int:
            return math.prod(self.whole.size(rank) for rank in ranks if rank not in cut)

        def pair(ranks: tuple[str, ...]) -> tuple[bool, bool]:
            one, two = (bool({rank, parts[-1]} & set(ranks)) for rank, parts in splits)
            return one, two

        return Role(
            tiles=pair(step.ranks),
            loops=(form.key not in missing, form.row not in missing),
            made=pair(step.output.ranks),
            others=others(step.ranks),
            other_made=others(step.output.ranks),
        )

    def least_points(self, step: int) -> int:
        """Return the points of a step with one tile along every rank, where what runs once a tile runs least often."""
        einsum = self.whole.bound.steps[self.form.steps[step].name]
        points = self.whole.points(einsum, self.whole.full_extents)
        return self.workload.instances * self.needed.least(einsum.einsum.ranks, points)

    def bound(self, axes: tuple[Axis, Axis], level: int, buffered: bool) -> Bound:
        """Return the plan in which each input has the home of number ``level``, or its last."""
        place = axes, level, buffered
        if place not in self._bounds:
            options = {name: self.form.homes(name) for name in self.form.inputs}
            homes = {name: each[min(level, len(each) - 1)] for name, each in options.items()}
            plan = self.form.plan(axes, homes, self._pipelines[buffered])
            self._bounds[place] = bind(self.form.cascade, self.form.architecture, plan)
        return self._bounds[place]


@dataclass(frozen=True, kw_only=True)
class Kept:
    """How many tiles are kept on chip and where the inputs live, with what follows for memory.

    Parameters
    ----------
    tiles : mapping of str to int
        All tile sizes.
    homes : mapping of str to Residence
        Home of each input.
    memory_cycles : float
        Time of DRAM.
    energy_pj : float
        Energy of DRAM and buffer, tiles between Einsums left out.
    occupancy_bits : int
        Bits of the buffer, tiles between Einsums left out.
    """

    tiles: Mapping[str, int]
    homes: Mapping[str, Residence]
    memory_cycles: float
    energy_pj: float
    occupancy_bits: int


class Node:
    """One choice of axes and of the tile proper."""

    def __init__(
        self,
        references: References,
        axes: tuple[Axis, Axis],
        sizes: tuple[int, int],
    ) -> None:
        self.form, self.references, self.axes, self.sizes = references.form, references, axes, sizes
        self.workload, self.costs = references.workload, references.table

    def tiling(self, kept: int, level: int = 0, *, buffered: bool = False) -> Tiling:
        """Return a tiling of reference with ``kept`` tiles of rows on chip."""
        form = self.form
        tiles = {form.digits[-1]: self.sizes[0], form.rows[1]: kept, form.rows[2]: self.sizes[1]}
        return Tiling(bound=self.references.bound(self.axes, level, buffered), tiles=tiles, workload=self.workload)

    @cached_property
    def _classes(self) -> Counter[TileClass]:
        windows = self.tiling(1).sequence(0).windows
        return Counter({tile: count for (tile,), count in windows.items() if tile is not None})

    @cached_property
    def loads(self) -> NDArray[np.int64]:
        """Cycles of each step on each array over all tiles: ndarray[steps, arrays], int64."""
        costs = self.references.costs
        if self.references.filtered:
            return self._loads_tile_by_tile()
        turns = np.array(
            [
                [self._sum(step, array) for array in range(len(self.form.arrays))]
                for step in range(len(self.form.steps))
            ],
            dtype=np.int64,
        )
        return costs.point_cycles * turns * self.workload.instances

    def _sum(self, step: int, array: int) -> int:
        """Return the points of the fullest PE of a step over all tiles of one instance."""
        shape, role = self.references.shapes[array], self.references.roles[step]
        total = role.others
        whole = self.references.wholes
        for which, (axis, size) in enumerate(zip(self.axes, self.sizes, strict=True)):
            length = shape.rows if axis is Axis.ROWS else shape.columns
            full, rest = divmod(whole[which], size)
            if role.tiles[which]:
                total *= full * -(-size // length) + -(-rest // length)
            elif role.loops[which]:
                total *= full + (rest > 0)
        return total

    def _loads_tile_by_tile(self) -> NDArray[np.int64]:
        """Return the same where filters make tiles differ."""
        tiling = self.tiling(1)
        found = np.zeros_like(self.references.costs.point_cycles)
        for number, einsum in enumerate(self.form.steps):
            step = tiling.bound.steps[einsum.name]
            own = self.form.arrays.index(step.array)
            for tile, count in self._classes.items():
                if tiling.runs(step, tile):
                    extents = tiling.extents(tile)
                    for array in self.form.choices[number]:
                        if array == own:
                            found[number, array] += count * tiling.cycles(step, extents)
                        else:
                            found[number, array] += count * self._one_tile(tiling, number, array, extents)
        return found

    def _one_tile(self, tiling: Tiling, step: int, array: int, extents: Mapping[str, int]) -> int:
        shape = self.references.shapes[array]
        ranks = self.form.steps[step].ranks
        turns = math.prod(tiling.per_pe(rank, extents, shape) for rank in ranks)
        return int(self.references.costs.point_cycles[step, array]) * turns

    @cached_property
    def peaks(self) -> NDArray[np.int64]:
        """Cycles of each step on each array for a full tile: ndarray[steps, arrays], int64."""
        return self.references.costs.point_cycles * self._fullest(lambda role: role.tiles, others=True)

    @cached_property
    def registers(self) -> NDArray[np.int64]:
        """Registers of one tile of each step's output in the fullest PE: ndarray[steps, arrays], int64."""
        return self._fullest(lambda role: role.made, others=False)

    def _fullest(self, tiles: Callable[[Role], tuple[bool, bool]], *, others: bool) -> NDArray[np.int64]:
        """Return the values of one full tile in the fullest PE: ndarray[steps, arrays], int64."""
        found = np.ones((len(self.form.steps), len(self.form.arrays)), dtype=np.int64)
        for step, role in enumerate(self.references.roles):
            for array, shape in enumerate(self.references.shapes):
                found[step, array] = role.others if others else role.other_made
                for which, (axis, size) in enumerate(zip(self.axes, self.sizes, strict=True)):
                    if tiles(role)[which]:
                        extent = min(size, self.references.wholes[which])
                        found[step, array] *= -(-extent // (shape.rows if axis is Axis.ROWS else shape.columns))
        return found

    @cached_property
    def energies(self) -> NDArray[np.float64]:
        """Energy of each step on each array over all tiles, pJ: ndarray[steps, arrays], float64."""
        points = [self._points(step) for step in range(len(self.form.steps))]
        return self.references.costs.point_energy_pj * np.array(points, dtype=np.float64)[:, None]

    def _points(self, step: int) -> int:
        """Return the points of a step over all tiles."""
        if self.references.filtered:
            tiling = self.tiling(1)
            own = tiling.bound.steps[self.form.steps[step].name]
            return sum(
                count * tiling.points(own, tiling.extents(tile))
                for tile, count in self._classes.items()
                if tiling.runs(own, tile)
            )
        role, total = self.references.roles[step], self.workload.instances
        for which, size in enumerate(self.sizes):
            whole = self.references.wholes[which]
            total *= whole if role.tiles[which] else -(-whole // size) if role.loops[which] else 1
        return total * role.others

    @cached_property
    def room(self) -> tuple[int, ...]:
        """Registers for tensors in each PE of each array."""
        return tuple(each.registers_per_pe - each.working_registers for each in self.form.architecture.arrays.values())

    # Tiles between Einsums in the buffer --------------------------------------------------------------------------

    @cached_property
    def buffer_energy(self) -> Mapping[int, float]:
        """Step to the energy of passing its tiles through the buffer, pJ."""
        passing = self.references.passing
        if self.sizes not in passing:
            tiling = self.tiling(1, buffered=True)
            found = dict.fromkeys(self.form.tiles, 0.0)
            for each in count_actions(tiling, self._classes, self.costs):
                number = self.form.index.get(each.tensor)
                if each.unit == "buffer" and number in found:
                    found[number] += each.energy_pj
                if each.unit in self.form.architecture.arrays:
                    break
            passing[self.sizes] = found
        return passing[self.sizes]

    @cached_property
    def buffer_bits(self) -> Mapping[int, int]:
        """Step to the bits of one of its tiles in the buffer."""
        occupancy = self.tiling(1, buffered=True).occupancy_bits
        return {number: occupancy[self.form.steps[number].name] for number in self.form.tiles}

    # Memory --------------------------------------------------------------------------------------------------------

    def _moved(self, count: int) -> dict[tuple[str | None, int], tuple[int, float]]:
        """Return input and number of its home to its traffic and energy; those of all other tensors at None.

        Traffic in bits of DRAM, energy of DRAM and buffer in pJ.
        """
        moves = self.references.moves  # the same whichever axis a rank is spread along
        if (self.sizes, count) in moves:
            return moves[self.sizes, count]
        form, found = self.form, dict[tuple[str | None, int], tuple[int, float]]()
        word_bits = form.architecture.dram.word_bits
        for level in range(self._levels):
            bits: dict[str | None, int] = dict.fromkeys((*form.inputs, None), 0)
            energies: dict[str | None, list[float]] = {name: [] for name in bits}
            for each in count_actions(self.tiling(count, level), self._classes, self.costs):
                if each.unit in form.architecture.arrays:
                    break  # memories come first
                if each.unit in _MEMORIES:
                    name = each.tensor if each.tensor in form.inputs else None
                    bits[name] += each.count * word_bits if each.unit == "dram" else 0
                    energies[name].append(each.energy_pj)
            found |= {(name, level): (bits[name], math.fsum(energies[name])) for name in bits}
        moves[self.sizes, count] = found
        return found

    def _occupied(self, count: int) -> dict[tuple[str | None, int], int]:
        """Return as ``_moved`` the bits of the buffer."""
        occupations = self.references.occupations
        if (self.sizes, count) not in occupations:
            form, found = self.form, dict[tuple[str | None, int], int]()
            for level in range(self._levels):
                found |= {(name, level): 0 for name in (*form.inputs, None)}
                for tensor, bits in self.tiling(count, level).occupancy_bits.items():
                    found[tensor if tensor in form.inputs else None, level] += bits
            occupations[self.sizes, count] = found
        return occupations[self.sizes, count]

    @property
    def _levels(self) -> int:
        """The most homes that an input has."""
        return max((len(self.form.homes(name)) for name in self.form.inputs), default=1)

    def least(self, count: int, fewest: int) -> Kept:
        """Return what memory costs at least with from ``fewest`` to ``count`` tiles of rows on chip.

        More tiles move less, and fewer take less of the buffer: of the homes that fit with the fewest the least
        traffic and the least energy with the most tiles, each for itself.
        """
        moved, occupied = self._moved(count), self._occupied(fewest)
        traffic, energy = [], []
        for choice in product(*(range(len(self.form.homes(name))) for name in self.form.inputs)):
            places = [(None, 0), *zip(self.form.inputs, choice, strict=True)]
            if sum(occupied[each] for each in places) <= self.form.architecture.buffer.size_bits:
                traffic.append(sum(moved[each][0] for each in places))
                energy.append(math.fsum(moved[each][1] for each in places))
        return Kept(
            tiles={},
            homes={},
            memory_cycles=self.form.architecture.memory_cycles(min(traffic)) if traffic else math.inf,
            energy_pj=min(energy, default=math.inf),
            occupancy_bits=0,
        )

    def least_occupancy(self, count: int) -> int:
        """Return the bits of the buffer that ``count`` tiles of rows on chip or more take at least."""
        occupied = self._occupied(count)
        homes = ((name, range(len(self.form.homes(name)))) for name in self.form.inputs)
        return occupied[None, 0] + sum(min(occupied[name, level] for level in levels) for name, levels in homes)

    def kept(self, count: int) -> Iterator[Kept]:
        """Yield the homes of the inputs for ``count`` tiles of rows on chip, those that others dominate left out."""
        form = self.form
        moved, occupied = self._moved(count), self._occupied(count)
        size = form.architecture.buffer.size_bits
        found: list[tuple[int, float, int, tuple[int, ...]]] = []
        for choice in product(*(range(len(form.homes(name))) for name in form.inputs)):
            places = [(None, 0), *zip(form.inputs, choice, strict=True)]
            total = sum(moved[each][0] for each in places), math.fsum(moved[each][1] for each in places)
            bits = sum(occupied[each] for each in places)
            if bits <= size:
                found.append((*total, bits, choice))
        for each in found:
            if not any(_dominates(other, each) for other in found):
                homes = {name: form.homes(name)[level] for name, level in zip(form.inputs, each[3], strict=True)}
                yield Kept(
                    tiles=self.tiling(count).tiles,
                    homes=homes,
                    memory_cycles=form.architecture.memory_cycles(each[0]),
                    energy_pj=each[1],
                    occupancy_bits=each[2],
                )

    # The pipeline --------------------------------------------------------------------------------------------------

    def distance(self, count: int) -> int | None:
        """Return the tiles between two that follow each other along the key rank; None if there is one along it."""
        return self.tiling(count).recurrence_tiles(self.form.key)

    def problem(
        self, arrays: tuple[int, ...], buffered: frozenset[int], distance: int | None, free_bits: int
    ) -> ModuloProblem:
        """Return the modulo schedule that is asked for.

        Parameters
        ----------
        arrays : tuple of int
            Array of each step.
        buffered : frozenset of int
            Steps whose tiles pass through the buffer.
        distance : int, optional
            As ``distance`` returns it.
        free_bits : int
            Bits of the buffer for those tiles.
        """
        form = self.form
        held = []
        for maker in range(len(form.steps)):
            if maker in form.accumulators:
                continue
            if maker in buffered:
                held.append(
                    Held(
                        maker=maker,
                        readers=form.readers(maker),
                        array=len(form.arrays),
                        registers=self.buffer_bits[maker],
                        streams=-1,
                    )
                )
                continue
            for array in dict.fromkeys(arrays[reader] for reader in form.readers(maker)):
                readers = tuple(reader for reader in form.readers(maker) if arrays[reader] == array)
                always = maker in form.tiles
                held.append(
                    Held(
                        maker=maker,
                        readers=readers,
                        array=array,
                        registers=int(self.registers[maker, array]),
                        streams=-1 if always else form.streams(maker, arrays, array),
                    )
                )
        steps = range(len(form.steps))
        return ModuloProblem(
            arrays=arrays,
            loads=tuple(int(self.loads[step, arrays[step]]) for step in steps),
            peaks=tuple(int(self.peaks[step, arrays[step]]) for step in steps),
            dependences=form.dependences(distance),
            held=tuple(held),
            room=(*self.room, free_bits),
        )


def _dominates(one: tuple[int, float, int, object], other: tuple[int, float, int, object]) -> bool:
    """Return whether ``one`` is better in traffic, energy or occupancy and nowhere worse, or equal and before."""
    if one is other:
        return False
    no_worse = one[0] <= other[0] and one[1] <= other[1] and one[2] <= other[2]
    return no_worse and (one[:3] != other[:3] or str(one[3]) < str(other[3]))
