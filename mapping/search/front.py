"""Branch and bound for the Pareto front over latency, energy and occupancy of the buffer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accel.cost import CostTable
from accel.result import Result
from mapping.search.certificate import Objective
from mapping.search.engine import COUNT_NODES, ROUNDING, Point, Search, StoppedError, Watch, apart
from mapping.search.mapspace import MapSpace
from mapping.search.node import Kept, Node
from mapping.search.pipeline import Budget, solve

__all__ = ["FrontPoint", "FrontSearch"]


@dataclass(frozen=True, kw_only=True)
class FrontPoint:
    """A schedule of the front.

    Parameters
    ----------
    result : Result
        Its price.
    measures : tuple of float
        Latency in cycles, energy in pJ, occupancy in bits.
    """

    result: Result
    measures: tuple[float, float, float]


class FrontSearch(Search):
    """A search that prunes by dominance: what bounds show to be beaten in all measures by one point of the front."""

    def __init__(self, space: MapSpace, objective: Objective, costs: CostTable, watch: Watch | None) -> None:
        super().__init__(space, objective, costs, watch)
        self.points: list[FrontPoint] = []
        self.complete = True
        self._front = np.empty((0, 3))

    def beaten(self, measures: tuple[float, float, float]) -> bool:
        """Return whether a point of the front is at least as good in every measure."""
        return bool(np.any(np.all(self._front <= np.array(measures) * (1 + ROUNDING), axis=1)))

    def run(self) -> None:
        """Go through the space, lowest latency first."""
        nodes = [Node(self.references, axes, sizes) for axes, sizes in self.space.nodes()]
        order = sorted((*self.first_bound(node), index) for index, node in enumerate(nodes))
        try:
            for self.done, (self.current, _, index) in enumerate(order):
                self.open = len(order) - self.done
                self._report()
                self._branch(nodes[index])
        except StoppedError:
            self.complete = False
        except KeyboardInterrupt:
            if not self.limits.interruptible or not self.points:
                raise
            self.complete = False

    def _branch(self, node: Node) -> None:
        compute, energy, fits = self.compute(node)
        counts = self.space.counts(node.sizes[1])
        bounds = self.bounds(compute, energy, self._least(node))
        occupancy = node.least_occupancy(counts[0])
        if not self._open(bounds.latency, bounds.energy, np.full(len(compute), occupancy), fits).any():
            return
        extra = self.extra(node)
        for count in reversed(counts):
            if not self.visits.take(COUNT_NODES) and self.points:
                raise StoppedError
            distance = node.distance(count)
            for kept in node.kept(count):
                bounds = self.bounds(compute, energy, kept)
                occupied = extra + kept.occupancy_bits
                useful = fits & (occupied <= self.buffer_bits)
                chosen = np.flatnonzero(self._open(bounds.latency, bounds.energy, occupied, useful))
                for index in chosen[np.lexsort((occupied[chosen], bounds.energy[chosen], bounds.latency[chosen]))]:
                    least = float(bounds.energy[index]), float(occupied[index])
                    if not self.beaten((float(bounds.latency[index]), *least)):
                        self._pipelines_of(node, kept, int(index), distance, least)

    def _open(
        self,
        latency: np.ndarray[tuple[int], np.dtype[np.float64]],
        energy: np.ndarray[tuple[int], np.dtype[np.float64]],
        occupied: np.ndarray[tuple[int], np.dtype[np.int64]],
        useful: np.ndarray[tuple[int], np.dtype[np.bool_]],
    ) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return which configurations no point of the front beats by their bounds."""
        left = useful.copy()
        for one in self._front:
            left &= ~(
                (one[0] <= latency * (1 + ROUNDING))
                & (one[1] <= energy * (1 + ROUNDING))
                & (one[2] <= occupied * (1 + ROUNDING))
            )
        return left

    def _pipelines_of(
        self, node: Node, kept: Kept, index: int, distance: int | None, least: tuple[float, float]
    ) -> None:
        """Price the pipelines of one configuration until one is as fast as any can be."""
        arrays = tuple(int(each) for each in self.configurations.arrays[index])
        pairs = zip(self.form.tiles, self.configurations.buffered[index], strict=True)
        buffered = frozenset(maker for maker, flag in pairs if flag)
        problem = node.problem(arrays, buffered, distance, self.buffer_bits - kept.occupancy_bits)
        tried = 0
        budget = Budget(self.limits.nodes, self.visits if self.best else None)
        for found in solve(problem, self.limits.stages, budget=budget):
            if found is None or tried == self.limits.pipelines:
                self.complete = False
                if self.visits.is_spent and self.points:
                    raise StoppedError
                return
            bound = float(self.latency(np.array(float(found.bound)), kept.memory_cycles))
            if self.beaten((bound, *least)):
                continue
            self._spend()
            tried += 1
            result = self.price(Point(node=node, kept=kept, pipeline=apart(arrays, buffered, found)))
            if result is None:
                continue
            self._add(result)
            floor = self.latency(np.array(float(problem.floor)), kept.memory_cycles)
            if result.latency_cycles <= floor and sum(result.occupancy_bits.values()) <= least[1]:
                return

    def _add(self, result: Result) -> None:
        occupancy = sum(result.occupancy_bits.values())
        measures = result.latency_cycles, result.energy_pj, float(occupancy)
        if self.beaten(measures):
            return
        keep = [index for index, each in enumerate(self.points) if not _at_least(each.measures, measures)]
        self.points = [*(self.points[index] for index in keep), FrontPoint(result=result, measures=measures)]
        self._front = np.array([each.measures for each in self.points])
        self.best = self.best or result


def _at_least(one: tuple[float, float, float], other: tuple[float, float, float]) -> bool:
    return all(a >= b for a, b in zip(one, other, strict=True))
