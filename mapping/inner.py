"""What a plan moves through the inner levels of its architecture, and what it takes of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from accel.errors import Problem, did_you_mean
from accel.expression import Access
from accel.schedule import INSTANCE, Level
from mapping.bound import Bound, Step
from mapping.levels import Crossing, access_width, inward, outward
from mapping.tiling import TileClass, Tiling

__all__ = ["Rows", "level_occupancy_bits", "level_problems", "passed", "read_rows", "written_rows"]


class Rows(NamedTuple):
    """Accesses of one memory, each a row wide."""

    unit: str
    action: str
    tensor: str
    einsum: str
    number: int


# Movement ------------------------------------------------------------------------------------------------------------


def read_rows(tiling: Tiling, step: Step, access: Access, tiles: Counter[TileClass], row_bits: int) -> int:
    """Return the rows of one access of ``step`` over all tiles for which it is the first to read them."""
    return sum(
        count * tiling.rows(access.ranks, tiling.extents(tile), row_bits)
        for tile, count in tiles.items()
        if tiling.takes(step, access, tile)
    )


def written_rows(tiling: Tiling, step: Step, tiles: Counter[TileClass], row_bits: int) -> int:
    """Return the rows that ``step`` makes, each tile at its own size, over all tiles for which it runs."""
    ranks = step.einsum.output.ranks
    return sum(
        count * tiling.rows(ranks, tiling.extents(tile), row_bits)
        for tile, count in tiles.items()
        if tiling.runs(step, tile)
    )


def passed(tiling: Tiling, step: Step, tiles: Counter[TileClass]) -> Iterator[Rows]:
    """Yield the accesses of the buffer and of the levels on the way by what an Einsum reads and makes.

    Parameters
    ----------
    tiling : Tiling
        The tiling.
    step : Step
        The Einsum.
    tiles : Counter
        Class of tiles to how many there are.
    """
    bound = tiling.bound
    path = bound.architecture.path(step.array)
    for access in step.reads:
        if bound.plan.residency[access.tensor].level is Level.BUFFER:
            kept = _kept(tiling, step, access)
            for each in inward(path, "buffer"):
                rows = _crossing_in(tiling, step, access, kept[each.border], tiles, _row_bits(bound, each))
                if rows:
                    yield Rows(each.unit, each.action, access.tensor, step.name, rows)
    if bound.plan.residency[step.name].level is Level.BUFFER:
        for each in outward(path, "buffer"):
            row_bits = _row_bits(bound, each)
            rows = written_rows(tiling, step, tiles, row_bits)
            if each.again:  # each tile but the first of a sum reads what the one before left
                summed = bool(bound.reduced_ranks(step))
                begun = tiling.workload.instances * tiling.made_rows(step.name, row_bits) if summed else rows
                rows -= begun
            if rows:
                yield Rows(each.unit, each.action, step.name, step.name, rows)


def _row_bits(bound: Bound, crossing: Crossing) -> int:
    return access_width(bound.architecture, crossing.unit)[1]


def _kept(tiling: Tiling, step: Step, access: Access) -> list[tuple[str, ...] | None]:
    """Return for each border on the way of what a step reads how the level inside of it keeps it.

    That are the loops for one iteration of which it does, or None where each tile crosses the border.
    """
    levels, found = tiling.bound.plan.residency[access.tensor].levels, list[tuple[str, ...] | None]([None])
    for level in tiling.bound.architecture.path(step.array):
        found.append(tiling.outside(levels[level]) if level in levels else found[-1])
    return found


def _crossing_in(
    tiling: Tiling, step: Step, access: Access, kept: tuple[str, ...] | None, tiles: Counter[TileClass], row_bits: int
) -> int:
    """Return the rows of what a step reads that cross a border, inside of which it is kept for some loops."""
    if kept is None:
        return read_rows(tiling, step, access, tiles, row_bits)
    if tiling.bound.read_before(step, access):  # that one reads it for every tile (``level_problems``)
        return 0
    idle = frozenset(tiling.bound.missing(step))
    return tiling.workload.instances * tiling.brought_rows(access.tensor, kept, row_bits, idle)


# Capacity ------------------------------------------------------------------------------------------------------------


def level_occupancy_bits(tiling: Tiling) -> dict[str, dict[str, int]]:
    """Return inner level to tensor to the bits that it takes there, in whole rows.

    What an Einsum reads has a place of its own, of one tile or of what the level keeps. So has what it makes; a running
    value or a sum that it reads itself is updated there in place.
    """
    bound = tiling.bound
    found: dict[str, dict[str, int]] = {level: {} for level in bound.architecture.levels}
    for step in bound.steps.values() if found else ():  # searches ask this for every size
        for level in bound.architecture.path(step.array):
            for tensor, bits in _places(tiling, step, level):
                found[level][tensor] = found[level].get(tensor, 0) + bits
    return found


def _places(tiling: Tiling, step: Step, level: str) -> Iterator[tuple[str, int]]:
    """Yield what an Einsum's tensors take of a level on its way."""
    bound, row_bits = tiling.bound, tiling.bound.architecture.levels[level].row_bits
    for access in step.reads:
        residence = bound.plan.residency[access.tensor]
        if residence.level is not Level.BUFFER or access.tensor == step.name or _never_takes(bound, step, access):
            continue
        if level in residence.levels:
            kept = residence.levels[level]
            rows = kept.copies * tiling.region_rows(access.tensor, tiling.kept(tiling.outside(kept)), row_bits)
        else:
            rows = tiling.rows(access.ranks, tiling.full_extents, row_bits)
        yield access.tensor, rows * row_bits
    if bound.plan.residency[step.name].level is Level.BUFFER:
        yield step.name, tiling.rows(step.einsum.output.ranks, tiling.full_extents, row_bits) * row_bits


def _never_takes(bound: Bound, step: Step, access: Access) -> bool:
    """Return whether some other Einsum reads an access first for each tile for which ``step`` runs."""
    own = set(bound.missing(step))
    return any(set(bound.missing(other)) <= own for other in bound.read_before(step, access))


# What does not fit ---------------------------------------------------------------------------------------------------


def level_problems(bound: Bound) -> Iterator[Problem]:
    """Yield what is wrong with the levels that a plan names, whatever its tile sizes."""
    for tensor, residence in bound.plan.residency.items():
        for level in residence.levels:
            yield from _level_problem(bound, tensor, level)
        if residence.levels and tensor in bound.inputs:
            yield from _nested_problems(bound, tensor)
            yield from _reader_problems(bound, tensor)


def _level_problem(bound: Bound, tensor: str, level: str) -> Iterator[Problem]:
    levels = bound.architecture.levels
    if level not in levels:
        yield Problem(
            message=f"tensor {tensor!r} must be kept in levels of architecture {bound.architecture.name!r}, but "
            f"{level!r} is none",
            hint=did_you_mean(level, levels) if levels else "the architecture has none: remove levels",
        )
        return
    if tensor not in bound.inputs:
        yield Problem(
            message=f"a level must keep an input of the cascade, but {level!r} is to keep {tensor!r}, which changes",
            hint="remove it: the tiles of the tensor pass through the level all the same",
        )
        return
    arrays = sorted({step.array for step, _ in bound.readers(tensor)})
    if levels[level].array not in (None, *arrays):
        yield Problem(
            message=f"level {level!r} must serve an array that reads tensor {tensor!r}, but serves "
            f"{levels[level].array!r} and it is read on {', '.join(arrays)}",
            hint="leave the level out for this tensor",
        )


def _nested_problems(bound: Bound, tensor: str) -> Iterator[Problem]:
    """Yield each level that keeps a tensor for longer than the memory around it does."""
    plan, residence = bound.plan, bound.plan.residency[tensor]

    def depth(within: str | None) -> int:
        return plan.loops.index(within) if within in plan.loops else -1

    found: dict[str, Problem] = {}
    for array in dict.fromkeys(step.array for step, _ in bound.readers(tensor)):
        around, shortest = "the buffer", residence.within
        for level in bound.architecture.path(array)[::-1]:
            if level not in residence.levels:
                continue
            within = residence.levels[level].within
            if depth(within) < depth(shortest):
                found[level] = Problem(
                    message=f"level {level!r} must keep {tensor!r} no longer than {around}, which keeps it within "
                    f"{shortest!r}, but keeps it within {within or INSTANCE!r}",
                    hint=f"use within: {shortest}",
                )
            else:
                around, shortest = f"level {level!r}", within
    yield from found.values()


def _reader_problems(bound: Bound, tensor: str) -> Iterator[Problem]:
    """Yield each Einsum that reads a kept tensor first for some of the tiles only."""
    for access, steps in bound.stored_reads.items():
        first = steps[0]
        for other in steps[1:]:
            if access.tensor == tensor and not set(bound.missing(first)) <= set(bound.missing(other)):
                yield Problem(
                    message=f"{access} must be read first by the same Einsum for every tile to be kept in a level, but "
                    f"is by {first.name!r} for some and by {other.name!r} for others",
                    hint="remove levels for this tensor",
                )
