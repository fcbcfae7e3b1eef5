"""What makes a schedule illegal: a buffer or a register file too small, an Einsum too early, a value lost."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from accel.errors import Problem
from accel.expression import Access
from accel.schedule import Level
from mapping.bound import Bound, Step
from mapping.inner import level_occupancy_bits, level_problems
from mapping.late import late_problems
from mapping.tiling import Tiling

__all__ = ["Shortfall", "order_problems", "problems", "shortfalls"]


@dataclass(frozen=True, kw_only=True)
class Shortfall:
    """A memory that is too small for the tiles of a schedule.

    Parameters
    ----------
    memory : str
        ``buffer``, the name of an inner level or that of an array.
    unit : str
        ``bits`` of the buffer or of a level, ``registers`` of a PE.
    needed, held : int
        What the schedule takes, and what there is for it.
    parts : mapping of str to int
        Tensor to its part of what is needed.
    """

    memory: str
    unit: str
    needed: int
    held: int
    parts: Mapping[str, int]

    @property
    def missing(self) -> int:
        """How much is too little."""
        return self.needed - self.held

    def message(self) -> str:
        """Return what must hold and what was given."""
        parts = ", ".join(f"{tensor} {size}" for tensor, size in self.parts.items())
        what = f"level {self.memory!r}" if self.unit == "bits" else f"a PE of array {self.memory!r}"
        what = "the buffer" if self.memory == "buffer" else what
        return (
            f"{what} must hold {self.needed} {self.unit} ({parts}), but has {self.held} for them: "
            f"{self.missing} too few"
        )


def shortfalls(tiling: Tiling) -> tuple[Shortfall, ...]:
    """Return every memory that is too small for the tiles."""
    architecture = tiling.bound.architecture
    found = []
    occupancy = tiling.occupancy_bits
    needed = sum(occupancy.values())
    if needed > architecture.buffer.size_bits:
        found.append(
            Shortfall(memory="buffer", unit="bits", needed=needed, held=architecture.buffer.size_bits, parts=occupancy)
        )
    for level, parts in level_occupancy_bits(tiling).items():
        needed, held = sum(parts.values()), architecture.levels[level].size_bits
        if needed > held:
            found.append(Shortfall(memory=level, unit="bits", needed=needed, held=held, parts=parts))
    for array, demand in tiling.register_demand.items():
        shape = architecture.arrays[array]
        held = shape.registers_per_pe - shape.working_registers
        if sum(demand.values()) > held:
            found.append(
                Shortfall(memory=array, unit="registers", needed=sum(demand.values()), held=held, parts=demand)
            )
    return tuple(found)


def _way_out(tiling: Tiling, memory: str) -> str:
    """Return the tile size to lower, and how far, so that a memory suffices; outer tiles first, for they cost least."""
    parts = [part for split in tiling.bound.plan.splits.values() for part in split[1:]]
    parts.sort(key=lambda part: (part in tiling.bound.plan.tile_ranks, part))
    for part in parts:
        low, high = 0, tiling.tiles[part]
        while high - low > 1:  # the demand grows with the tile size
            middle = (low + high) // 2
            trial = dataclasses.replace(tiling, tiles={**tiling.tiles, part: middle})
            low, high = (low, middle) if any(each.memory == memory for each in shortfalls(trial)) else (middle, high)
        if low:
            return f"lower {part} to {low}"
    enlarge = "raise registers_per_pe"
    if memory not in tiling.bound.architecture.arrays:
        enlarge = "enlarge the buffer" if memory == "buffer" else f"enlarge level {memory!r}"
    return enlarge if set(tiling.tiles.values()) == {1} else f"lower several tile sizes, or {enlarge}"


def problems(tiling: Tiling) -> list[Problem]:
    """Return everything that makes the schedule illegal; empty if it is legal."""
    named = list(level_problems(tiling.bound))
    if named:
        return named
    found = [
        Problem(message=shortfall.message(), hint=_way_out(tiling, shortfall.memory))
        for shortfall in shortfalls(tiling)
    ]
    return [*found, *order_problems(tiling)]


def _lost_problems(tiling: Tiling) -> Iterator[Problem]:
    """Yield each running value that is not kept until its next step."""
    bound, plan = tiling.bound, tiling.bound.plan
    for step in bound.steps.values():
        rank = step.einsum.iterative_rank
        if rank is None or rank not in plan.loops or tiling.iterations(rank) == 1:
            continue
        residence = plan.residency[step.name]
        if residence.level is Level.STREAM:
            yield Problem(
                message=f"running tensor {step.name!r} must be kept until the next step of {rank!r}, but is streamed",
                hint="use level buffer",
            )
        if _overwritten(tiling, step, rank):
            yield Problem(
                message=f"running tensor {step.name!r} must be kept until the next step of {rank!r}, but is kept "
                f"within {residence.within!r}, a loop inside it",
                hint=f"keep it within {rank!r} or a loop around it",
            )


def _overwritten(tiling: Tiling, step: Step, rank: str) -> bool:
    """Return whether a running value makes room for one of another tile before the next step of ``rank``."""
    plan = tiling.bound.plan
    within = plan.residency[step.name].within
    if within not in plan.loops:
        return False
    between = plan.loops[plan.loops.index(rank) + 1 : plan.loops.index(within) + 1]
    cut = tiling.split_ranks(step.name)
    # A loop inside another of its rank iterates as often as its tile size says, unless there are fewer tiles in all.
    return any(
        plan.split_of[loop] in cut and min(tiling.tiles.get(loop, math.inf), tiling.iterations(loop)) > 1
        for loop in between
    )


def order_problems(tiling: Tiling) -> Iterator[Problem]:
    """Yield each Einsum that runs before a value that it reads is there, or after it is gone."""
    early = list(_early_problems(tiling))
    lost = list(_lost_problems(tiling))
    yield from early
    yield from lost
    if not early and not lost:
        yield from late_problems(tiling)


def _early_problems(tiling: Tiling) -> Iterator[Problem]:
    """Yield each Einsum that runs before a value that it reads is there."""
    bound = tiling.bound
    for step in bound.steps.values():
        for access in step.einsum.reads:
            maker = bound.steps.get(access.tensor)
            if maker is None:
                continue
            late = _completed_late(tiling, maker, step)
            if late is not None:
                yield Problem(
                    message=f"{step.name!r} must wait for {maker.name!r} over all of rank {late!r}, but runs for every "
                    f"tile of it: that takes another pass",
                    hint=f"use one tile along {late!r} or a cascade that needs one pass over it",
                )
                continue
            distance = _distance(tiling, maker, access)
            if distance is None:
                continue
            soonest = maker.offset - distance + (not _before(bound, maker, step, distance))
            if step.offset < soonest:
                yield _too_early(tiling, maker, step, access, distance, soonest)


def _completed_late(tiling: Tiling, maker: Step, reader: Step) -> str | None:
    """Return the rank over all of whose tiles ``maker`` must run before ``reader`` may run for any of them."""
    bound = tiling.bound
    for rank, parts in bound.plan.splits.items():
        if rank in bound.missing(reader) or tiling.iterations(parts[-2]) == 1:
            continue
        if rank in bound.missing(maker) or rank in bound.reduced_ranks(maker):
            return rank
    return None


def _distance(tiling: Tiling, maker: Step, access: Access) -> int | None:
    """Return how many tiles ago the value was made that an access reads; None if it is an initial value always."""
    written = maker.einsum
    rank = written.iterative_rank
    if rank is None or rank not in tiling.bound.plan.split_of or tiling.bound.is_fresh(access) or access.final_ranks:
        return 0
    tiles = tiling.recurrence_tiles(tiling.bound.plan.split_of[rank])
    return None if tiles is None else tiling.bound.steps_back(maker, access) * tiles


def _before(bound: Bound, maker: Step, reader: Step, distance: int) -> bool:
    """Return whether ``maker`` is done before ``reader`` begins when both run in the same epoch."""
    if maker.group != reader.group:
        return maker.group < reader.group
    if maker.slot == reader.slot:
        return maker.array == reader.array and maker.order < reader.order
    # Slots that alternate take their turns cycle by cycle, makers before readers. Point by point, a reader keeps behind
    # a maker that takes the same points in the same order, begins at once, and takes one turn for each. A tile gets to
    # the buffer only when its maker is done.
    return (
        distance == 0
        and maker.array == reader.array
        and bound.plan.residency[maker.name].level is not Level.BUFFER
        and maker.einsum.reduction is None
        and maker.einsum.ranks == reader.einsum.ranks
        and maker.order == 0
        and maker.point_cycles == 1
        and maker.group not in bound.circular_groups
    )


def _too_early(tiling: Tiling, maker: Step, reader: Step, access: Access, distance: int, soonest: int) -> Problem:
    source = "of the same tile" if distance == 0 else f"of the tile {distance} before"
    hint = f"raise the offset of {reader.name!r} to {soonest}"
    if distance:
        inner = tiling.bound.plan.loops[-1]
        if inner in tiling.tiles:
            hint += f", or let the loop over {inner} run over more tiles"
    return Problem(
        message=f"{reader.name!r} must run after {maker.name!r} {source}, from which it reads {access}, but its tile "
        f"offset is {reader.offset} and must be at least {soonest}",
        hint=hint,
    )
