"""The clock of one group: which cycles each slot gets, and which of them each Einsum works in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

import numpy as np

from sim.events.points import Array
from sim.events.tiles import Tile
from sim.events.work import Work

__all__ = ["Job", "schedule_group", "turn_order"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """One Einsum that runs for one tile in one epoch.

    Parameters
    ----------
    work : Work
        What it does.
    tile : Tile
        For which tile.
    array : str
        On which array.
    busy : ndarray[cycles], int
        The cycles in which it works, in order.
    """

    work: Work
    tile: Tile
    array: str
    busy: Array

    @property
    def begin(self) -> int:
        """The first cycle."""
        return int(self.busy[0])

    @property
    def done(self) -> int:
        """The cycle after the last."""
        return int(self.busy[-1]) + 1

    @property
    def point_begins(self) -> Array:
        """For each point the cycle in which its PE takes it up."""
        return np.asarray(self.busy[self.work.grid.ordinals * self.work.point_cycles])

    @property
    def point_ends(self) -> Array:
        """For each point the cycle after its PE is done with it."""
        return np.asarray(self.busy[(self.work.grid.ordinals + 1) * self.work.point_cycles - 1] + 1)


Slot = Mapping[str, Sequence[tuple[Work, Tile]]]


def turn_order(slots: Sequence[Slot]) -> list[int]:
    """Return the order in which slots that alternate take their turns: makers of a tile's values before readers.

    If two slots read from each other for the same tile there is no such order, and they stay as they are.
    """
    makers = {(work.einsum.name, tile.number): (k, work) for k, slot in enumerate(slots) for work, tile in _all(slot)}
    before: dict[int, set[int]] = {k: set() for k in range(len(slots))}
    for k, slot in enumerate(slots):
        for work, tile in _all(slot):
            for access in work.einsum.reads:
                maker, made = makers.get((access.tensor, tile.number), (k, work))
                if maker != k and np.isin(work.reads[access], made.makes).any():
                    before[k].add(maker)
    try:
        return list(TopologicalSorter(before).static_order())
    except CycleError:
        return list(range(len(slots)))


def _all(slot: Slot) -> list[tuple[Work, Tile]]:
    return [each for queue in slot.values() for each in queue]


def schedule_group(slots: Sequence[Slot], start: int) -> tuple[list[Job], int]:
    """Return the jobs of a group that begins in cycle ``start``, and the cycle in which it is over.

    The slots take turns of one cycle until they are done. In a turn of its slot an array works on the first Einsum of
    its queue that is not finished.
    """
    lengths = [max((sum(work.cycles for work, _ in queue) for queue in slot.values()), default=0) for slot in slots]
    turns: list[list[int]] = [[] for _ in slots]
    order = turn_order(slots)
    cycle = start
    while any(len(turns[k]) < lengths[k] for k in order):
        for k in order:
            if len(turns[k]) < lengths[k]:
                turns[k].append(cycle)
                cycle += 1
    jobs = []
    for k, slot in enumerate(slots):
        for array, queue in slot.items():
            at = 0
            for work, tile in queue:
                jobs.append(Job(work=work, tile=tile, array=array, busy=np.array(turns[k][at : at + work.cycles])))
                at += work.cycles
    return jobs, cycle
