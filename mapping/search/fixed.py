"""The best tile sizes of one plan, exhaustive over the sizes of ``mapping.search.sizes``, pruned by bounds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from accel.cost import CostTable
from accel.errors import InputError, Problem
from accel.result import Result
from accel.workload import Workload
from mapping.bound import Bound
from mapping.legal import order_problems, problems, shortfalls
from mapping.model import count_actions, price_tiling
from mapping.search.certificate import Objective, SearchResult
from mapping.search.sizes import Branch, check_fixed, floors, space
from mapping.tiling import Tiling

__all__ = ["improve", "nothing_fits", "search_tiles"]


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
                self.visit(self.tiling(point))

    def visit(self, tiling: Tiling) -> None:
        """Price a tiling if it is legal and may be best."""
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


def improve(
    bound: Bound, best: Result, objective: Objective, branches: Iterable[Branch], costs: CostTable, most: int
) -> tuple[Result, int]:
    """Return ``best`` or what tile sizes of a plan have that is better, and how many schedules were priced.

    Of each branch, the most promising first, the largest numbers of tiles that the buffer can keep are built, until
    ``most`` schedules were.
    """
    state = _Search(bound, best.workload, objective, costs)
    state.best, state.best_key = best, state.key(best)
    for branch in branches:
        low, high = -1, len(branch.points)
        while high - low > 1:  # more tiles take more of the buffer
            middle = (low + high) // 2
            fits = all(each.memory != "buffer" for each in shortfalls(state.tiling(branch.points[middle])))
            low, high = (middle, high) if fits else (low, middle)
        for point in reversed(branch.points[max(low - _NEXT, 0) : low + 1]):
            if state.priced + state.illegal >= most:
                return state.best, state.priced
            tiling = state.tiling(point)
            if state.least(tiling) < state.best_key[0]:
                state.visit(tiling)
    return state.best, state.priced


_NEXT = 7
"""Numbers of tiles below the largest that fits that are tried too."""


def search_tiles(
    bound: Bound, workload: Workload, objective: Objective, fixed: Mapping[str, int], costs: CostTable
) -> SearchResult:
    """Return the schedule with the best tile sizes for one plan.

    Raises
    ------
    InputError
        A fixed tile size is unknown or below 1, or no schedule of the space is legal: then the message says what binds
        the closest one and by how much.
    """
    check_fixed(bound.plan.splits, fixed)
    branches = space(bound, workload, fixed)
    state = _Search(bound, workload, objective, costs)
    state.go_through(branches)
    if state.best is None:
        assert state.closest is not None
        raise nothing_fits(state.closest[1])
    points = [point for branch in branches for point in branch.points]
    return SearchResult(
        objective=objective,
        result=state.best,
        space={part: tuple(sorted({point[part] for point in points})) for part in points[0]},
        points_considered=len(points),
        points_illegal=state.illegal,
        points_pruned=state.pruned,
        points_priced=state.priced,
        floors=floors(bound, workload),
        optimal=True,
        proven_bound=state.best_key[0],
        cascade=bound.cascade,
    )


def nothing_fits(tiling: Tiling, way_out: str | None = None) -> InputError:
    """Return the error that says what binds the closest schedule, by how much, and the way out if it is another."""
    sizes = ", ".join(f"{part}={size}" for part, size in tiling.tiles.items())
    found = problems(tiling)
    return InputError.of(
        [
            Problem(
                message=f"no tile sizes of the space make a legal schedule on architecture "
                f"{tiling.bound.architecture.name!r}; closest is {sizes}, where {each.message}",
                hint=way_out or each.hint,
            )
            for each in found
        ]
    )
