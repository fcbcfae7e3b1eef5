"""Modulo schedules: which stage of the epoch each step takes, and which tile it works on, so that no epoch is shorter.

An epoch has K stages. All arrays begin and end a stage together, so it takes as long as its busiest array. A step in
stage s with offset o works on the tile that came in o epochs ago: relative to its tile it runs at time ``o*K + s``.
Given the stages, dependences are differences of offsets, and the least offsets that meet them are longest paths.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

__all__ = [
    "Budget",
    "Dependence",
    "Held",
    "ModuloProblem",
    "ModuloSchedule",
    "latest_offsets",
    "least_offsets",
    "solve",
]


@dataclass(frozen=True, kw_only=True)
class Dependence:
    """A step that must not begin before another is done.

    Parameters
    ----------
    maker, reader : int
        The steps.
    tiles : int
        How many tiles ago the maker did what the reader needs; 0 for the same tile.
    """

    maker: int
    reader: int
    tiles: int


@dataclass(frozen=True, kw_only=True)
class Held:
    """A tensor between its maker and its readers of one array.

    Parameters
    ----------
    maker : int
        The step that makes it.
    readers : tuple of int
        Those that read it on ``array``.
    array : int
        Whose registers hold it; the number behind the last array stands for the buffer.
    registers : int
        Those that one tile of it takes in the fullest PE, or bits of the buffer.
    streams : int
        Epochs that it may spend on the way without registers: -1 if it is always held, 0 if its readers take it in
        the epoch that makes it, 1 if a link carries it into the next.
    """

    maker: int
    readers: tuple[int, ...]
    array: int
    registers: int
    streams: int


@dataclass(frozen=True, kw_only=True)
class ModuloProblem:
    """What a modulo schedule must respect.

    Parameters
    ----------
    arrays : tuple of int
        Array of each step. Steps stand in an order in which makers come first.
    loads : tuple of int
        Cycles of each step over all tiles.
    peaks : tuple of int
        Cycles of each step for one full tile for which all steps run.
    dependences : tuple of Dependence
        The order.
    held : tuple of Held
        Tensors that take registers, or of which the buffer keeps as many tiles as are alive.
    room : tuple of int
        Registers for tensors in each PE of each array, and then bits of the buffer, if anything is held there.
    """

    arrays: tuple[int, ...]
    loads: tuple[int, ...]
    peaks: tuple[int, ...]
    dependences: tuple[Dependence, ...]
    held: tuple[Held, ...]
    room: tuple[int, ...]

    @property
    def floor(self) -> int:
        """Cycles that no schedule goes below: those of the busiest array over all tiles."""
        return max(self.loads_by_array)

    @cached_property
    def loads_by_array(self) -> tuple[int, ...]:
        """Cycles of each array over all tiles."""
        return tuple(
            sum(load for load, where in zip(self.loads, self.arrays, strict=True) if where == array)
            for array in range(len(self.room))
        )

    def waits(self, dependence: Dependence, stages: tuple[int, ...]) -> int:
        """Return 1 if the reader may not follow its maker within one epoch, else 0."""
        maker, reader = dependence.maker, dependence.reader
        if stages[maker] != stages[reader]:
            return int(stages[maker] > stages[reader])
        return int(not (self.arrays[maker] == self.arrays[reader] and maker < reader))

    def cost(self, stages: tuple[int, ...], loads: tuple[int, ...]) -> int:
        """Return the sum over the stages of the load of the busiest array."""
        busy: dict[tuple[int, int], int] = {}
        for step, stage in enumerate(stages):
            place = stage, self.arrays[step]
            busy[place] = busy.get(place, 0) + loads[step]
        longest: dict[int, int] = {}
        for (stage, _), load in busy.items():
            longest[stage] = max(longest.get(stage, 0), load)
        return sum(longest.values())

    def offsets(self, stages: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """Yield the least offsets that meet all dependences, and the latest in as many epochs; none if none meet them.

        Late ones keep what is made early for a late reader out of the registers.
        """
        edges = [(each.maker, each.reader, self.waits(each, stages) - each.tiles) for each in self.dependences]
        least = least_offsets(len(stages), edges)
        if least is not None:
            yield least
            late = latest_offsets(least, edges)
            if late != least:
                yield late

    def fitting(self, stages: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the first of ``offsets`` for which everything fits; None if there are none."""
        return next((each for each in self.offsets(stages) if self.fits(stages, each)), None)

    @cached_property
    def held_together(self) -> tuple[tuple[Held, ...], ...]:
        """What is held of each maker: a tensor that one reader needs held is held on every array that reads it."""
        found: dict[int, list[Held]] = {}
        for each in self.held:
            found.setdefault(each.maker, []).append(each)
        return tuple(tuple(each) for each in found.values())

    def fits(self, stages: tuple[int, ...], offsets: tuple[int, ...]) -> bool:
        """Return whether the registers of every array, and the buffer, hold what is alive."""
        left = list(self.room)
        for group in self.held_together:
            made, is_held, alive = offsets[group[0].maker], False, []
            for each in group:
                last = max((offsets[reader], stages[reader]) for reader in each.readers)
                is_held |= last[0] - made > each.streams
                alive.append(max(last[0] - made + (last[1] >= stages[each.maker]), 1))
            if is_held:
                for each, tiles in zip(group, alive, strict=True):
                    left[each.array] -= each.registers * tiles
        return min(left) >= 0


@dataclass(frozen=True, kw_only=True)
class ModuloSchedule:
    """A schedule that respects its problem.

    Parameters
    ----------
    bound : int
        Cycles of all epochs that no order of tiles goes below: for each stage those of its busiest array.
    stages, offsets : tuple of int
        Stage and tile offset of each step.
    """

    bound: int
    stages: tuple[int, ...]
    offsets: tuple[int, ...]


def least_offsets(steps: int, edges: Iterable[tuple[int, int, int]]) -> tuple[int, ...] | None:
    """Return the least offsets, 0 or more, for which each reader is at least so many epochs behind its maker.

    Parameters
    ----------
    steps : int
        How many steps there are.
    edges : iterable of (int, int, int)
        Maker, reader, and the least difference of their offsets, which may be negative.

    Returns
    -------
    tuple of int
        None where a circle of edges adds up to more than 0, so that no offsets will do.
    """
    found, edges = [0] * steps, tuple(edges)
    for _ in range(steps + 1):
        changed = False
        for maker, reader, least in edges:
            if found[maker] + least > found[reader]:
                found[reader] = found[maker] + least
                changed = True
        if not changed:
            return tuple(found)
    return None


def latest_offsets(least: tuple[int, ...], edges: Iterable[tuple[int, int, int]]) -> tuple[int, ...]:
    """Return offsets in which each step, from the last on, is as late as its readers permit; those that end stay."""
    found, edges = list(least), tuple(edges)
    for step in reversed(range(len(found))):
        limits = [found[reader] - wait for maker, reader, wait in edges if maker == step and reader != step]
        if limits:
            found[step] = max(found[step], min(min(limits), max(least)))
    return tuple(found)


class Budget:
    """Partial schedules that may still be visited.

    Parameters
    ----------
    nodes : int, optional
        How many; None for any number.
    whole : Budget, optional
        What this budget is a part of.
    """

    def __init__(self, nodes: int | None, whole: Budget | None = None) -> None:
        self.left, self.whole = nodes, whole

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self.left is not None and self.left <= 0

    def take(self, nodes: int = 1) -> bool:
        """Visit one more, or do what takes as long as ``nodes`` of them, and return whether that is allowed."""
        if self.is_spent or not (self.whole is None or self.whole.take(nodes)):
            return False
        if self.left is not None:
            self.left -= nodes
        return True


def solve(
    problem: ModuloProblem, stages: int, below: Callable[[], float] = lambda: math.inf, budget: Budget | None = None
) -> Iterator[ModuloSchedule | None]:
    """Yield the schedules of at most ``stages`` stages with a bound not above ``below``; None if the budget is spent.

    Those at the floor of the problem come first, among them those that stay there when every step runs; then the
    others. Within each kind fewer stages come first. Rotating all stages changes nothing but the numbering, so the
    first step stands in the first stage.

    Parameters
    ----------
    problem : ModuloProblem
        What must be respected.
    stages : int
        The most stages.
    below : callable
        Returns the cycles above which a schedule is of no use, which may fall from one schedule to the next.
    budget : Budget, optional
        Partial schedules to visit.
    """
    budget = budget or Budget(None)
    counts = range(1, min(stages, len(problem.arrays)) + 1)
    busiest = max(range(len(problem.room)), key=lambda array: problem.loads_by_array[array])
    floor, later = problem.floor, list[tuple[int, ...]]()
    if below() < floor:
        return
    for count in counts:
        for found in _Tree(problem, count, lambda: floor, budget).leaves():
            if found is None:
                yield None
                return
            if not _stays(problem, found, busiest):
                later.append(found)
            elif (offsets := problem.fitting(found)) is not None:
                yield ModuloSchedule(bound=floor, stages=found, offsets=offsets)
    for found in later:
        if (offsets := problem.fitting(found)) is not None:
            yield ModuloSchedule(bound=floor, stages=found, offsets=offsets)
    for count in counts:
        for found in _Tree(problem, count, below, budget).leaves():
            if found is None:
                yield None
                return
            cost = problem.cost(found, problem.loads)
            if floor < cost <= below() and (offsets := problem.fitting(found)) is not None:
                yield ModuloSchedule(bound=cost, stages=found, offsets=offsets)


def _stays(problem: ModuloProblem, stages: tuple[int, ...], busiest: int) -> bool:
    """Return whether one array is the busiest of each stage also for a full tile for which every step runs."""
    own = sum(peak for peak, array in zip(problem.peaks, problem.arrays, strict=True) if array == busiest)
    return problem.cost(stages, problem.peaks) == own


class _Tree:
    """The tree of partial schedules with a given number of stages: step after step takes a stage."""

    def __init__(self, problem: ModuloProblem, count: int, limit: Callable[[], float], budget: Budget) -> None:
        self.problem, self.count, self.limit, self.budget = problem, count, limit, budget
        size = len(problem.arrays)
        self.stages = [0] * size
        self.busy = [[0] * len(problem.room) for _ in range(count)]
        self.makers: list[list[int]] = [[] for _ in range(size)]
        for each in problem.dependences:
            if each.tiles == 0 and each.maker < each.reader:
                self.makers[each.reader].append(each.maker)
        certain = (group for group in problem.held_together if any(each.streams < 0 for each in group))
        self.always = [each for group in certain for each in group]
        # Least epochs from each tensor's maker to each step that depends on it; -1 where none does.
        self.since = [[-1] * size for _ in self.always]

    def leaves(self) -> Iterator[tuple[int, ...] | None]:
        """Yield the stages of every schedule within the limit, in lexicographic order; None if the budget is spent."""
        yield from self._assign(0, 0)

    def _assign(self, step: int, used: int) -> Iterator[tuple[int, ...] | None]:
        """Yield as ``leaves`` with the steps before ``step`` in their stages, ``used`` of which are not empty."""
        if step == len(self.stages):
            yield tuple(self.stages)
            return
        array, load = self.problem.arrays[step], self.problem.loads[step]
        for stage in range(self.count if step else 1):
            filled = used | 1 << stage
            if self.count - filled.bit_count() > len(self.stages) - step - 1:
                continue  # too few steps are left for the stages that are empty
            if not self.budget.take():
                yield None
                return
            self.stages[step] = stage
            self.busy[stage][array] += load
            # Work of an array that is still to come may fill the room that longer arrays leave: the floor bounds that.
            if sum(map(max, self.busy)) <= self.limit() and self._enough_registers(step):
                for found in self._assign(step + 1, filled):
                    yield found
                    if found is None:
                        self.busy[stage][array] -= load
                        return
            self.busy[stage][array] -= load

    def _enough_registers(self, step: int) -> bool:
        """Return whether tensors that are always held may still fit, by the longest paths so far."""
        left, stages, own = list(self.problem.room), self.stages, self.stages[step]
        for index, each in enumerate(self.always):
            since, maker = self.since[index], each.maker
            since[step] = -1
            if step == maker:
                since[step] = 0
            elif step > maker:
                for source in self.makers[step]:
                    if since[source] >= 0:
                        if stages[source] != own:
                            waits = stages[source] > own
                        else:
                            waits = self.problem.arrays[source] != self.problem.arrays[step]
                        since[step] = max(since[step], since[source] + waits)
            alive = 1
            for reader in each.readers:
                if maker < reader <= step and since[reader] >= 0:
                    alive = max(alive, since[reader] + (stages[reader] >= stages[maker]))
            left[each.array] -= alive * each.registers
        return min(left) >= 0
