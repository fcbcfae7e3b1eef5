"""Branch and bound over the map space: sizes, axes, what is kept, homes, bindings and the software pipeline."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accel.arch import PipelineFill
from accel.cost import CostTable
from accel.result import Result
from mapping.bound import bind
from mapping.legal import problems
from mapping.model import price_tiling
from mapping.search.certificate import Objective
from mapping.search.form import Pipeline
from mapping.search.mapspace import MapSpace
from mapping.search.node import Kept, Node, References
from mapping.search.pipeline import Budget, ModuloSchedule, solve
from mapping.search.sizes import memory_floor
from mapping.tiling import Tiling

__all__ = ["COUNT_NODES", "ROUNDING", "Point", "Progress", "Search", "StoppedError", "Watch", "apart", "is_worse"]


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a search is.

    Parameters
    ----------
    done, open : int
        Choices of axes and tile sizes gone through, and those left.
    best, bound : float
        Value of the objective of the best schedule so far (infinite without one), and what none can go below.
    priced : int
        Schedules priced.
    """

    done: int
    open: int
    best: float
    bound: float
    priced: int


Watch = Callable[[Progress], None]


class StoppedError(Exception):
    """The budget of the search is spent."""


@dataclass(frozen=True, kw_only=True)
class _Bounds:
    """What no pipeline of each configuration can go below."""

    objective: NDArray[np.float64]
    latency: NDArray[np.float64]
    energy: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Point:
    """One schedule of the space."""

    node: Node
    kept: Kept
    pipeline: Pipeline


def apart(arrays: tuple[int, ...], buffered: frozenset[int], found: ModuloSchedule) -> Pipeline:
    """Return a pipeline in which each stage is a group of its own."""
    count = max(found.stages) + 1
    return Pipeline(
        arrays=arrays, stages=found.stages, offsets=found.offsets, groups=tuple(range(count)), buffered=buffered
    )


class Search:
    """The state of a search."""

    def __init__(
        self,
        space: MapSpace,
        objective: Objective,
        costs: CostTable,
        watch: Watch | None,
        rival: Search | None = None,
    ) -> None:
        self.space, self.objective, self.costs, self.watch = space, objective, costs, watch
        self.form, self.limits = space.form, space.limits
        self.configurations = space.configurations
        self.references = References(space.form, space.workload, costs)
        self.floor = memory_floor(self.references.whole, self.references.needed)
        self.memory = self.floor.cycles
        self.visits = Budget(space.limits.visits)
        self.begin = time.monotonic()
        self.priced = self.illegal = self.ties = self.tie_tries = 0
        self.priced_before = 0
        self.interrupted = False
        self.best: Result | None = None
        self.best_point: Point | None = None
        self.best_key: tuple[float, float, float] = (math.inf, math.inf, math.inf)
        if rival is not None:  # what a search of another form found must be beaten, with what it left of the budget
            self.best, self.best_key, self.begin = rival.best, rival.best_key, rival.begin
            self.priced_before = rival.priced_before + rival.priced + rival.illegal
            self.visits, self.interrupted = rival.visits, rival.interrupted
        self.bound = math.inf  # of what was left open
        self.done = self.open = 0
        self.closest: Tiling | None = None

    # Bounds --------------------------------------------------------------------------------------------------------

    def compute(self, node: Node) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
        """Return for each configuration the least compute cycles, its energy on arrays, and whether it may fit."""
        each = self.configurations
        # Sums of cycles are whole numbers below 2**53 and exact in float64.
        loads = np.stack([on @ node.loads[:, array] for array, on in enumerate(each.on_array)], axis=1)
        energy: NDArray[np.float64] = np.zeros(len(each))
        for array, on in enumerate(each.on_array):
            energy = energy + on @ node.energies[:, array]
        for column, maker in enumerate(self.form.tiles):
            energy = energy + each.buffered[:, column] * node.buffer_energy[maker]
        demand = np.zeros(loads.shape)
        for maker, where in each.held:
            for array, held in enumerate(where):
                demand[:, array] += held * node.registers[maker, array]
        fits = np.all(demand <= np.array(node.room[: loads.shape[1]]), axis=1)
        return loads.max(axis=1), energy, fits

    def bounds(self, compute: NDArray[np.float64], energy: NDArray[np.float64], kept: Kept) -> _Bounds:
        """Return what the configurations of a node cannot go below with certain tiles kept."""
        latency = self.latency(compute, kept.memory_cycles)
        total = energy + kept.energy_pj
        if self.objective is Objective.LATENCY:
            objective = latency
        else:
            objective = total if self.objective is Objective.ENERGY else total * latency
        return _Bounds(objective=objective, latency=latency, energy=total)

    def latency(self, compute: NDArray[np.float64], memory_cycles: float) -> NDArray[np.float64]:
        """Return latencies from compute and memory cycles."""
        if self.form.architecture.memory_overlaps_compute:
            return np.maximum(compute, memory_cycles)
        return compute + memory_cycles

    def first_bound(self, node: Node) -> tuple[float, float]:
        """Return what the objective and the latency cannot go below whatever is kept and wherever tiles live."""
        nothing = Kept(tiles={}, homes={}, memory_cycles=self.memory, energy_pj=0.0, occupancy_bits=0)
        bounds = self.bounds(*self._of_bindings(node), nothing)
        return float(bounds.objective.min()), float(bounds.latency.min())

    def _of_bindings(self, node: Node) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return for each binding the least compute cycles and the energy of the arrays."""
        bindings = self.configurations.bindings
        loads = np.stack([on @ node.loads[:, array] for array, on in enumerate(bindings)], axis=1)
        energy = sum(on @ node.energies[:, array] for array, on in enumerate(bindings))
        return loads.max(axis=1), np.asarray(energy, dtype=np.float64)

    def estimate(self, node: Node, least: float) -> float:
        """Return a guess of the objective: what it cannot go below, and what partial tiles and the fill add to it."""
        padded = 1.0
        for size, whole in zip(node.sizes, self.references.wholes, strict=True):
            padded *= -(-whole // size) * min(size, whole) / whole
        if self.form.architecture.pipeline_fill is PipelineFill.HIDDEN:
            return least * padded
        once = [on @ node.peaks[:, array] for array, on in enumerate(self.configurations.bindings)]
        fill = _FILL_EPOCHS * float(np.max(once, axis=0).min())
        return least * padded * (1 + fill / max(least, 1.0)) if self.objective is Objective.LATENCY else least * padded

    def better_bound(self, node: Node) -> tuple[float, float]:
        """Return as ``first_bound``, with what memory costs at least."""
        first = self.first_bound(node)
        if self.objective is Objective.LATENCY:
            return first  # the bound of DRAM is in it
        compute, energy, fits = self.compute(node)
        if not fits.any():
            return math.inf, math.inf
        bounds = self.bounds(compute[fits], energy[fits], self._least(node))
        return max(float(bounds.objective.min()), first[0]), max(float(bounds.latency.min()), first[1])

    # Branch and bound ----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Go through the space, the most promising choice of axes and tile first."""
        nodes = [Node(self.references, axes, sizes) for axes, sizes in self.space.nodes()]
        bounds = [self.first_bound(node) for node in nodes]
        self.current = min(bounds)[0]
        if self.interrupted:
            self.bound = self.current
            return
        try:
            bounds = [self.better_bound(node) for node in nodes]
            order = sorted((*bound, index) for index, bound in enumerate(bounds))
            self.current = order[0][0]
            for _, index in sorted((self.estimate(nodes[index], least), index) for least, _, index in order)[:_DIVES]:
                self._dive(nodes[index])
            for self.done, (objective, latency, index) in enumerate(order):
                self.open = len(order) - self.done
                if is_worse((objective, latency), self.best_key) or (
                    self._ties_are_done and is_worse((objective,), self.best_key, ties=True)
                ):
                    break
                self.current = objective
                self._report()
                self._branch(nodes[index])
        except StoppedError:
            self.bound = min(self.bound, self.current)
        except KeyboardInterrupt:
            if not self.limits.interruptible or self.best is None:
                raise
            self.bound, self.interrupted = min(self.bound, self.current), True

    def _dive(self, node: Node) -> None:
        """Price the first pipeline of the most promising configuration, to prune early by a good schedule."""
        compute, energy, fits = self.compute(node)
        count = self._most_kept(node)
        if self._hopeless(self.bounds(compute, energy, self._least(node))):
            return
        choices = list(node.kept(count))
        if not fits.any() or not choices:
            return
        by_energy = self.objective is Objective.ENERGY
        kept = min(choices, key=lambda each: (each.energy_pj * by_energy, each.memory_cycles, each.energy_pj))
        bounds = self.bounds(compute, energy, kept)
        chosen = np.flatnonzero(fits & (self.extra(node) + kept.occupancy_bits <= self.buffer_bits))
        keys = np.stack((bounds.objective, bounds.latency, bounds.energy))
        peaks = [on @ node.peaks[:, array] for array, on in enumerate(self.configurations.on_array)]
        full = self.latency(np.max(peaks, axis=0), 0.0)  # of a tile for which every step runs
        first = keys[0] if by_energy else full
        bound, priced = self.bound, self.priced
        order = chosen[np.lexsort((*keys[::-1, chosen], first[chosen]))]
        modest = order[np.argsort(-self.configurations.buffered[order].sum(axis=1), kind="stable")]
        for index in (*order[:_DIVE_CONFIGURATIONS], *modest[:1]):  # that with the least in registers is the last
            self._pipelines(node, kept, int(index), node.distance(count), float(bounds.energy[index]), most=1)
            if self.priced > priced:
                break
        self.bound = bound  # the branch that follows comes back to it

    def _least(self, node: Node) -> Kept:
        """Return what memory costs at least with as many tiles of rows on chip as fit."""
        return node.least(self._most_kept(node), self.space.counts(node.sizes[1])[0])

    def _most_kept(self, node: Node) -> int:
        """Return the largest number of tiles of rows that the buffer can keep, or the least there is."""
        counts = self.space.counts(node.sizes[1])
        low, high = 0, len(counts)
        while high - low > 1:  # more tiles take more of the buffer
            middle = (low + high) // 2
            fits = node.least_occupancy(counts[middle]) <= self.buffer_bits
            low, high = (middle, high) if fits else (low, middle)
        return counts[low]

    def extra(self, node: Node) -> NDArray[np.int64]:
        """Return the bits of the buffer that tiles between Einsums take at least, for each configuration."""
        bits = np.array([node.buffer_bits[tile] for tile in self.form.tiles], dtype=np.int64)
        return np.asarray(self.configurations.buffered @ bits, dtype=np.int64)

    @property
    def buffer_bits(self) -> int:
        """Bits of the buffer."""
        return self.form.architecture.buffer.size_bits

    def _report(self) -> None:
        if self.watch is not None:
            self.watch(
                Progress(
                    done=self.done,
                    open=self.open,
                    best=self.best_key[0],
                    bound=min(self.current, self.bound, self.best_key[0]),
                    priced=self.priced,
                )
            )

    def _branch(self, node: Node) -> None:
        compute, energy, fits = self.compute(node)
        if not fits.any() or self._hopeless(self.bounds(compute[fits], energy[fits], self._least(node))):
            return
        counts = self.space.counts(node.sizes[1])
        extra = self.extra(node)
        for count in reversed(counts):
            if not self.visits.take(COUNT_NODES) and self.best:
                raise StoppedError
            distance = node.distance(count)
            for kept in sorted(node.kept(count), key=lambda each: (each.memory_cycles, each.energy_pj)):
                bounds = self.bounds(compute, energy, kept)
                keys = np.stack((bounds.objective, bounds.latency, bounds.energy))
                useful = (
                    fits
                    & (extra + kept.occupancy_bits <= self.buffer_bits)
                    & (bounds.objective <= self.best_key[0] * (1 + ROUNDING))
                )
                chosen = np.flatnonzero(useful)
                for index in chosen[np.lexsort(keys[::-1, chosen])]:
                    if is_worse(tuple(keys[:, index]), self.best_key, ties=True) or (
                        self._ties_are_done and is_worse((keys[0, index],), self.best_key, ties=True)
                    ):
                        break
                    self._pipelines(node, kept, int(index), distance, float(bounds.energy[index]))

    def _hopeless(self, bounds: _Bounds) -> bool:
        """Return whether no configuration with these bounds is better than the best."""
        keys = np.stack((bounds.objective, bounds.latency, bounds.energy))
        return is_worse(tuple(keys[:, np.lexsort(keys[::-1])[0]]), self.best_key, ties=True)

    def _pipelines(
        self, node: Node, kept: Kept, index: int, distance: int | None, energy: float, most: int | None = None
    ) -> None:
        """Price the pipelines of one configuration until none can be better than the best."""
        arrays = tuple(int(each) for each in self.configurations.arrays[index])
        pairs = zip(self.form.tiles, self.configurations.buffered[index], strict=True)
        buffered = frozenset(maker for maker, flag in pairs if flag)
        problem = node.problem(arrays, buffered, distance, self.buffer_bits - kept.occupancy_bits)
        floor = self._value(problem.floor, kept, energy)
        self.tie_tries += floor >= self.best_key[0] * (1 - ROUNDING)
        tried = 0
        nodes = self.limits.nodes if most is None else _DIVE_NODES
        budget = Budget(nodes, self.visits if self.best else None)
        for found in solve(problem, self.limits.stages, lambda: self._most_compute(kept, energy), budget):
            may_tie_only = floor >= self.best_key[0] * (1 - ROUNDING)
            if may_tie_only and self._ties_are_done:
                return
            if found is None or tried == (1 if may_tie_only else most or self.limits.pipelines):
                self.bound = min(self.bound, floor)
                if self.visits.is_spent and self.best:
                    raise StoppedError
                return
            least = self._value(found.bound, kept, energy)
            if least > self.best_key[0]:
                continue
            self._spend()
            tried += 1
            self.ties += may_tie_only
            point = Point(node=node, kept=kept, pipeline=apart(arrays, buffered, found))
            result = self.price(point)
            if result is None:
                continue
            self._offer(result, point)
            if self._value(result.compute_cycles, kept, energy) <= floor:
                return  # nothing in this configuration is better

    @property
    def _ties_are_done(self) -> bool:
        """Whether enough was tried for lower latency or energy at the best value of the objective."""
        return self.ties >= _TIES or self.tie_tries >= _TIE_TRIES

    def _value(self, compute: float, kept: Kept, energy: float) -> float:
        latency = float(self.latency(np.array(float(compute)), kept.memory_cycles))
        return self.objective.value_of(latency, energy)

    def _most_compute(self, kept: Kept, energy: float) -> float:
        """Return compute cycles beyond which a schedule cannot be better than the best."""
        best, latency, _ = self.best_key
        if self.objective is Objective.EDP:
            latency = best / energy
        elif self.objective is Objective.ENERGY and energy < best:
            return math.inf
        return latency if self.form.architecture.memory_overlaps_compute else latency - kept.memory_cycles

    def _spend(self) -> None:
        built = self.priced_before + self.priced + self.illegal
        if self.limits.points is not None and built >= self.limits.points and self.best:
            raise StoppedError
        if self.limits.seconds is not None and self.best and time.monotonic() - self.begin > self.limits.seconds:
            raise StoppedError

    def tiling(self, point: Point) -> Tiling:
        """Return the tiling of a point."""
        plan = self.form.plan(point.node.axes, point.kept.homes, point.pipeline)
        bound = bind(self.form.cascade, self.form.architecture, plan)
        return Tiling(bound=bound, tiles=point.kept.tiles, workload=self.space.workload)

    def price(self, point: Point) -> Result | None:
        """Return the price of a point; None if it is illegal."""
        tiling = self.tiling(point)
        if problems(tiling):
            self.illegal += 1
            return None
        self.priced += 1
        return price_tiling(tiling, self.costs)

    def key(self, result: Result) -> tuple[float, float, float]:
        """Return what is compared."""
        latency, energy = result.latency_cycles, result.energy_pj
        return self.objective.value_of(latency, energy), latency, energy

    def _offer(self, result: Result, point: Point) -> None:
        if self.key(result) < self.best_key:
            self.best, self.best_point, self.best_key = result, point, self.key(result)


COUNT_NODES = 500
"""Partial pipelines that are visited in the time that the costs of a number of tiles kept take."""

_DIVES = 32
"""Choices of axes and tile that are tried once before all of them are gone through."""

_DIVE_CONFIGURATIONS = 8
"""Configurations of such a choice that are tried until one has a pipeline that fits."""

_DIVE_NODES = 1000
"""Partial pipelines that are visited for one of them."""

_TIES = 24
"""Schedules priced for no more than a tie with the best, which lower energy would win."""

_TIE_TRIES = 96
"""Configurations of which pipelines are looked for to no more than a tie."""

_FILL_EPOCHS = 4
"""Epochs in which a pipeline fills, for estimates."""

ROUNDING = 1e-12
"""Sums are rounded in another order than the model's: what differs by less is equal."""


def is_worse(bounds: tuple[float, ...], best: tuple[float, ...], *, ties: bool = False) -> bool:
    """Return whether bounds show that nothing is better than ``best``, or with ``ties`` as good, first values first."""
    for bound, value in zip(bounds, best, strict=False):
        if bound < value * (1 - ROUNDING):
            return False
        if bound > value * (1 + ROUNDING):
            return True
    return ties
