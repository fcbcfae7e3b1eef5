"""A first search: the best tile sizes of a plan, exhaustive over a stated space, pruned by bounds that cannot err."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from accel.arch import Architecture
from accel.cascade import Cascade
from accel.cost import CostTable, load_cost_table
from accel.errors import InputError, Problem, did_you_mean
from accel.result import Result
from accel.schedule import Axis, Plan, Schedule
from accel.workload import Workload
from mapping.bound import Bound, bind
from mapping.legal import order_problems, problems, shortfalls
from mapping.model import count_actions, price_tiling
from mapping.templates import find_plan
from mapping.tiling import Tiling

__all__ = ["Branch", "Floor", "Objective", "SearchResult", "floors", "search", "space"]


class Objective(StrEnum):
    """What the best schedule has least of; ties go to lower latency, energy, buffer use, tile sizes, in this order."""

    LATENCY = "latency"
    ENERGY = "energy"
    EDP = "edp"
    """Energy times latency."""


@dataclass(frozen=True, kw_only=True)
class Floor:
    """A latency that no tile sizes can go below.

    Parameters
    ----------
    resource : str
        ``dram`` or the name of an array.
    cycles : float
        Least cycles for which it is busy.
    """

    resource: str
    cycles: float


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """The best schedule of a space, with the certificate of the search.

    Parameters
    ----------
    objective : Objective
        What was minimised.
    result : Result
        The price of the best schedule, which it holds.
    space : mapping of str to tuple of int
        Tile rank to the sizes that were considered for it, in all combinations with the others.
    points_considered : int
        Schedules in the space.
    points_illegal : int
        Those of them that were found not to fit, or to break an order.
    points_pruned : int
        Those whose bound is worse than the best schedule.
    points_priced : int
        The others.
    floors : tuple of Floor
        For each resource the latency that no tile sizes can go below.
    """

    objective: Objective
    result: Result
    space: Mapping[str, tuple[int, ...]]
    points_considered: int
    points_illegal: int
    points_pruned: int
    points_priced: int
    floors: tuple[Floor, ...]

    @property
    def schedule(self) -> Schedule:
        """The best schedule."""
        return self.result.schedule

    @property
    def lower_bound_cycles(self) -> float:
        """Latency that no tile sizes of the plan can go below."""
        return max(floor.cycles for floor in self.floors)

    @property
    def gap(self) -> float:
        """Latency above the lower bound, as a part of it."""
        return self.result.latency_cycles / self.lower_bound_cycles - 1

    @property
    def optimal(self) -> bool:
        """Whether no other schedule of the space is better: always, for the search goes through all of it."""
        return self.points_considered == self.points_illegal + self.points_pruned + self.points_priced


def _inner_sizes(bound: Bound, rank: str, whole: int) -> tuple[int, ...]:
    """Return sizes of the tile along a split rank: parts of the longest array axis by halves, and multiples of it.

    Multiples end where a single row or column of tiles outgrows the registers, or the rank is covered.
    """
    part = bound.plan.splits[rank][-1]
    axis = bound.plan.axes.get(part)
    arrays = bound.architecture.arrays.values()
    length = max(1 if axis is None else array.rows if axis is Axis.ROWS else array.columns for array in arrays)
    halves = sorted({max(length >> shift, 1) for shift in range(length.bit_length())})
    below = [size for size in halves if size < whole]
    above: list[int] = []
    for multiple in range(1, -(-whole // length) + 1):
        if above and not _fits_registers(bound, part, multiple * length):
            break
        above.append(multiple * length)
    return tuple(dict.fromkeys([*below, *above]))


def _fits_registers(bound: Bound, part: str, size: int) -> bool:
    """Return whether a tile of ``size`` along one rank and 1 along the others fits the registers of every array."""
    tiles = {each: 1 for parts in bound.plan.splits.values() for each in parts[1:]} | {part: size}
    workload = Workload(
        name="probe", batch=1, heads=1, kv_heads=1, queries=size, keys=size, query_key_dim=1, value_dim=1
    )
    return all(each.memory == "buffer" for each in shortfalls(Tiling(bound=bound, tiles=tiles, workload=workload)))


def _group_sizes(count: int) -> tuple[int, ...]:
    """Return for each number of groups of ``count`` tiles the smallest group that gives it, in ascending order."""
    sizes, size = [], 1
    while True:
        sizes.append(size)
        groups = -(-count // size)
        if groups == 1:
            return tuple(sizes)
        size = -(-count // (groups - 1))


@dataclass(frozen=True, kw_only=True)
class Branch:
    """Schedules that share the tiles proper and differ in how many are kept on chip.

    Parameters
    ----------
    points : tuple of mapping of str to int
        Tile sizes, with more tiles kept on chip towards the end: traffic falls and occupancy grows.
    """

    points: tuple[Mapping[str, int], ...]


def space(bound: Bound, workload: Workload, fixed: Mapping[str, int]) -> tuple[Branch, ...]:
    """Return all tile sizes to consider, those in ``fixed`` as given.

    A tile spread along an axis of the arrays has the length of the axis, a multiple or a power-of-two part of it. A
    count of tiles kept on chip is the smallest that gives its number of groups, as a larger one would only occupy more.
    """
    per_rank = []
    for rank, parts in bound.plan.splits.items():
        whole = workload.sizes[rank.upper()]
        inner = parts[-1]
        sizes = (fixed[inner],) if inner in fixed else _inner_sizes(bound, rank, whole)
        options = []
        for size in sizes:
            points: list[dict[str, int]] = [{inner: size}]
            for part in reversed(parts[1:-1]):
                count = -(-whole // size)
                choices = (fixed[part],) if part in fixed else _group_sizes(count)
                points = [{**point, part: choice} for choice in choices for point in points]
            options.append(points)
        per_rank.append(options)
    return tuple(
        Branch(
            points=tuple(
                {part: size for point in points for part, size in point.items()} for points in product(*options)
            )
        )
        for options in product(*per_rank)
    )


def floors(bound: Bound, workload: Workload) -> tuple[Floor, ...]:
    """Return for each array and for DRAM the latency that no tile sizes can go below.

    An array is busy at least for its points spread evenly over all PEs, with one tile along every rank for the Einsums
    that run once a tile. DRAM moves each input and each output at least once.
    """
    plan, architecture = bound.plan, bound.architecture
    one_tile = {part: 1 for parts in plan.splits.values() for part in parts[1:-1]}
    one_tile |= {parts[-1]: workload.sizes[rank.upper()] for rank, parts in plan.splits.items()}
    whole = Tiling(bound=bound, tiles=one_tile, workload=workload)
    found = []
    for name, array in architecture.arrays.items():
        work = sum(
            step.point_cycles * whole.points(step, whole.full_extents)
            for step in bound.steps.values()
            if step.array == name
        )
        found.append(Floor(resource=name, cycles=workload.instances * work / array.pes))
    values = sum(
        math.prod(whole.extent(rank, whole.full_extents) for rank in whole.tensor_ranks(tensor))
        for tensor in (*(each.name for each in bound.cascade.inputs), *bound.cascade.outputs)
    )
    bits = workload.instances * values * architecture.width_bits
    found.append(Floor(resource="dram", cycles=architecture.memory_cycles(bits)))
    return tuple(found)


def _compute_bound(tiling: Tiling) -> int:
    """Return cycles that the epochs cannot go below: no slot beats its busiest array over all tiles together."""
    tiles = tiling.sequence(0).windows
    count = sum(tiles.values())
    bound = tiling.bound
    total = 0
    for group in bound.plan.epoch:
        total += group.stall_cycles * count
        for slot in group.slots:
            busy = [0]
            for names in slot.values():
                steps = [bound.steps[name] for name in names]
                busy.append(
                    sum(
                        number * tiling.cycles(step, tiling.extents(tile))
                        for (tile,), number in tiles.items()
                        if tile is not None
                        for step in steps
                        if tiling.runs(step, tile)
                    )
                )
            total += max(busy)
    return total


def _memory_bound(tiling: Tiling) -> float:
    """Return cycles that DRAM cannot go below: inputs as often as fetched, outputs once, words not rounded up."""
    bound = tiling.bound
    values = 0
    for tensor in (*(each.name for each in bound.cascade.inputs), *bound.cascade.outputs):
        if bound.plan.residency[tensor].within is not None and tensor in bound.inputs:
            values += tiling.fetched_rows(tensor, bound.architecture.width_bits)
        else:
            wholes = {rank: tiling.size(rank) for rank in bound.plan.splits}
            values += math.prod(tiling.extent(rank, wholes) for rank in tiling.tensor_ranks(tensor))
    bits = tiling.workload.instances * values * bound.architecture.width_bits
    return bound.architecture.memory_cycles(bits)


class _Search:
    """The state of a search: the best result so far, and what became of the points gone through."""

    def __init__(self, bound: Bound, workload: Workload, objective: Objective, costs: CostTable) -> None:
        self.bound = bound
        self.workload = workload
        self.objective = objective
        self.costs = costs
        self.best: Result | None = None
        self.best_key: tuple[float, ...] = (math.inf,)
        self.illegal = self.pruned = self.priced = 0
        self.closest: tuple[int, Tiling] | None = None
        self._compute: dict[tuple[int, ...], int] = {}

    def tiling(self, point: Mapping[str, int]) -> Tiling:
        return Tiling(bound=self.bound, tiles=point, workload=self.workload)

    def least(self, tiling: Tiling) -> float:
        """Return a value of the objective that the tiling cannot go below."""
        energy = 1.0
        if self.objective is not Objective.LATENCY:
            tiles = Counter({tile: count for (tile,), count in tiling.sequence(0).windows.items() if tile is not None})
            energy = math.fsum(each.energy_pj for each in count_actions(tiling, tiles, self.costs))
        if self.objective is Objective.ENERGY:
            return energy
        inner = tuple(tiling.tiles[part] for part in self.bound.plan.tile_ranks)
        if inner not in self._compute:  # tiles kept on chip change the order of the tiles, not their number
            self._compute[inner] = _compute_bound(tiling)
        compute, memory = self._compute[inner], _memory_bound(tiling)
        overlapped = self.bound.architecture.memory_overlaps_compute
        return energy * (max(compute, memory) if overlapped else compute + memory)

    def key(self, result: Result) -> tuple[float, ...]:
        """Return what is compared: the objective, then the tie-breaks."""
        latency, energy = result.latency_cycles, result.energy_pj
        value = {Objective.LATENCY: latency, Objective.ENERGY: energy, Objective.EDP: energy * latency}
        occupancy = sum(result.occupancy_bits.values())
        return (value[self.objective], latency, energy, occupancy, *result.schedule.tiles.values())

    def go_through(self, branches: tuple[Branch, ...]) -> None:
        """Price what may be best, the most promising branch first."""
        order = sorted(
            ((self.least(self.tiling(branch.points[-1])), index) for index, branch in enumerate(branches)),
        )
        for least, index in order:
            if least > self.best_key[0]:
                self.pruned += len(branches[index].points)
                continue
            for point in reversed(branches[index].points):
                self._visit(self.tiling(point))

    def _visit(self, tiling: Tiling) -> None:
        missing = sum(each.missing for each in shortfalls(tiling))
        if missing or any(True for _ in order_problems(tiling)):
            self.illegal += 1
            if self.closest is None or missing < self.closest[0]:
                self.closest = missing, tiling
        elif self.least(tiling) > self.best_key[0]:
            self.pruned += 1
        else:
            self.priced += 1
            result = price_tiling(tiling, self.costs)
            if self.best is None or self.key(result) < self.best_key:
                self.best, self.best_key = result, self.key(result)


def search(
    cascade: Cascade,
    architecture: Architecture,
    workload: Workload,
    objective: Objective | str = Objective.LATENCY,
    *,
    plan: Plan | None = None,
    tiles: Mapping[str, int] | None = None,
    costs: CostTable | None = None,
) -> SearchResult:
    """Return the schedule with the best tile sizes.

    Parameters
    ----------
    cascade, architecture, workload
        What is computed, on what, at which sizes.
    objective : Objective
        What to minimise.
    plan : Plan, optional
        Loops, binding and software pipeline; by default those of the template that fits the cascade.
    tiles : mapping of str to int, optional
        Tile sizes to keep fixed. With all of them fixed the space is one point, priced as ``price`` prices it.
    costs : CostTable, optional
        Energies; by default the table that the architecture names.

    Raises
    ------
    InputError
        No template fits the cascade, the plan does not fit cascade and architecture, a fixed tile size is unknown or
        below 1, or no schedule of the space is legal: then the message says what binds the closest one and by how much.
    """
    known = [each.value for each in Objective]
    if objective not in known:
        raise InputError(
            f"the objective must be one of {', '.join(known)}, not {str(objective)!r}",
            hint="use latency",
        )
    bound = bind(cascade, architecture, plan or find_plan(cascade, architecture))
    fixed = dict(tiles or {})
    _check_fixed(bound.plan, fixed)
    table = costs or load_cost_table(architecture.technology)
    branches = space(bound, workload, fixed)
    state = _Search(bound, workload, Objective(objective), table)
    state.go_through(branches)
    if state.best is None:
        raise _nothing_fits(state)
    points = [point for branch in branches for point in branch.points]
    return SearchResult(
        objective=state.objective,
        result=state.best,
        space={part: tuple(sorted({point[part] for point in points})) for part in points[0]},
        points_considered=len(points),
        points_illegal=state.illegal,
        points_pruned=state.pruned,
        points_priced=state.priced,
        floors=floors(bound, workload),
    )


def _check_fixed(plan: Plan, fixed: Mapping[str, int]) -> None:
    parts = [part for split in plan.splits.values() for part in split[1:]]
    for part, size in fixed.items():
        if part not in parts:
            raise InputError(
                f"a tile size must belong to a tile rank of the plan, but {part!r} is none",
                hint=did_you_mean(part, parts),
            )
        if size < 1:
            raise InputError(f"tile size {part} must be at least 1, not {size}", hint=f"use {part}=1")


def _nothing_fits(state: _Search) -> InputError:
    """Return the error that says what binds the closest schedule, and by how much."""
    assert state.closest is not None
    tiling = state.closest[1]
    sizes = ", ".join(f"{part}={size}" for part, size in tiling.tiles.items())
    found = problems(tiling)
    return InputError.of(
        [
            Problem(
                message=f"no tile sizes of the space make a legal schedule on architecture "
                f"{state.bound.architecture.name!r}; closest is {sizes}, where {each.message}",
                hint=each.hint,
            )
            for each in found
        ]
    )
