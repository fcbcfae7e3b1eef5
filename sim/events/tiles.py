"""The tiles of a schedule with their loops written out: every tile, one after the other, with its real coordinates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from accel.schedule import INSTANCE, LevelStore, Plan, Residence, Schedule

__all__ = ["Tile", "tiles_in_order"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Tile:
    """One tile.

    Parameters
    ----------
    number : int
        Place in the sequence.
    run, instance : int
        Repetition of the whole workload, and the batch element and key/value head in it.
    begin, end : mapping of str to int
        Split rank to its first coordinate and to the one after its last.
    entered : mapping of str to int
        Loop to the first coordinate, along its split rank, of the iteration that the tile is in.
    steps : mapping of str to int
        Loop to the number of that iteration within the loop of the same rank around it.
    sizes : mapping of str to int
        Split rank to its whole size.
    before : mapping of str to tuple of Tile
        Split rank to the tiles that run before it along that rank, at the same place along the others, in their order.
    last : mapping of str to bool
        Split rank to whether none runs behind it.
    """

    number: int
    run: int
    instance: int
    begin: Mapping[str, int]
    end: Mapping[str, int]
    entered: Mapping[str, int]
    steps: Mapping[str, int]
    sizes: Mapping[str, int]
    before: Mapping[str, tuple[Tile, ...]] = field(default_factory=dict)
    last: Mapping[str, bool] = field(default_factory=dict)

    def copy(self, instances: int) -> int:
        """Return the number of its instance, those of repetitions before included."""
        return self.run * instances + self.instance

    def extent(self, rank: str) -> int:
        """Return the coordinates along a split rank."""
        return self.end[rank] - self.begin[rank]

    def is_first(self, rank: str) -> bool:
        """Return whether no tile runs before it along a split rank."""
        return not self.before[rank]

    def is_last(self, rank: str) -> bool:
        """Return whether no tile runs behind it along a split rank."""
        return self.last[rank]

    def step_before(self, loop: str, rank: str, steps: int) -> int:
        """Return where the value stands that the loop's rank had ``steps`` tiles ago: behind that tile, or at 0.

        The value passes by tiles that do not run.
        """
        trail = (*self.before[rank], self)
        place = len(trail) - 1 - steps
        return trail[place].steps[loop] + 1 if place >= 0 else 0

    def region(self, plan: Plan, store: Residence | LevelStore, own: tuple[str, ...]) -> tuple[int, ...]:
        """Return where the region begins, along each of the split ranks ``own``, that a memory keeps of a tensor.

        It is what one iteration of the store's ``within`` loop touches.
        """
        within = store.within
        around = () if within in (None, INSTANCE) else plan.loops[: plan.loops.index(within) + 1]
        starts = dict.fromkeys(own, 0)
        for loop in around:
            if plan.split_of[loop] in starts:
                starts[plan.split_of[loop]] = self.entered[loop]
        return tuple(starts.values())


def tiles_in_order(schedule: Schedule, sizes: Mapping[str, int], instances: int, runs: int) -> list[Tile]:
    """Return every tile of ``runs`` repetitions of ``instances``, in the order in which they come in.

    Parameters
    ----------
    schedule : Schedule
        Its loops and tile sizes.
    sizes : mapping of str to int
        Split rank to its whole size.
    instances, runs : int
        How often the cascade runs in a workload, and how often the workload.
    """
    plan = schedule.plan
    found: list[Tile] = []

    def nest(
        loops: tuple[str, ...], bounds: Mapping[str, tuple[int, int]], entered: dict[str, int], steps: dict[str, int]
    ) -> Iterator[tuple[Mapping[str, tuple[int, int]], dict[str, int], dict[str, int]]]:
        if not loops:
            yield bounds, entered, steps
            return
        loop = loops[0]
        rank = plan.split_of[loop]
        parts = plan.splits[rank]
        span = math.prod(schedule.tiles[part] for part in parts[parts.index(loop) + 1 :])
        begin, end = bounds[rank]
        for step, start in enumerate(range(begin, end, span)):
            inner = {**bounds, rank: (start, min(start + span, end))}
            yield from nest(loops[1:], inner, {**entered, loop: start}, {**steps, loop: step})

    for run in range(runs):
        for instance in range(instances):
            for bounds, entered, steps in nest(plan.loops, {rank: (0, sizes[rank]) for rank in plan.splits}, {}, {}):
                found.append(
                    Tile(
                        number=len(found),
                        run=run,
                        instance=instance,
                        begin={rank: low for rank, (low, _) in bounds.items()},
                        end={rank: high for rank, (_, high) in bounds.items()},
                        entered=entered,
                        steps=steps,
                        sizes=sizes,
                    )
                )
    return found
