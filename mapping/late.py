"""Readers that come too late: whether each value in the buffer is still there when it is wanted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

import numpy as np

from accel.errors import Problem
from accel.expression import Access
from accel.schedule import INSTANCE, Level
from mapping.bound import Step
from mapping.excerpt import Bools, Excerpt, Ints, excerpts

if TYPE_CHECKING:
    from mapping.tiling import Tiling

__all__ = ["late_problems"]

_NEVER = np.iinfo(np.int64).max // 2


@dataclass(frozen=True, kw_only=True, eq=False)
class _Wait:
    """A reader, and how long what it wants is there at least.

    Parameters
    ----------
    reader, maker : Step
        The first Einsum in time that takes the value from the buffer, and the one that puts a newer value there.
    access : Access
        What is read.
    slack : int
        Epochs from the reader's to that of the newer value, at least; below 0 the value is gone.
    excerpt : Excerpt
        Where that is so.
    epochs : tuple of int
        Epochs in which both meet: of those that have the same kinds of tiles in flight one.
    """

    reader: Step
    maker: Step
    access: Access
    slack: int
    excerpt: Excerpt
    epochs: tuple[int, ...]


def late_problems(tiling: Tiling) -> Iterator[Problem]:
    """Yield each value in the buffer that a newer one has replaced before an Einsum takes it."""
    told: set[tuple[str, str]] = set()
    for wait in _waits(tiling):
        late = -wait.slack if wait.slack < 0 else int(_tie_is_late(tiling, wait))
        if late and (wait.reader.name, wait.maker.name) not in told:
            told.add((wait.reader.name, wait.maker.name))
            yield _problem(wait, late + (wait.slack < 0 and not _may_share(wait)))


def _problem(wait: _Wait, late: int) -> Problem:
    reader, maker = wait.reader, wait.maker
    keep = f"keep {maker.name!r} in more copies or within an outer loop"
    if reader.name == maker.name:
        return Problem(
            message=f"the sum {maker.name!r} must be kept until its next tile goes on with it, but another takes its "
            "place before",
            hint=keep,
        )
    lower = f"lower the offset of {reader.name!r} to {reader.offset - late}, or " if reader.offset >= late else ""
    return Problem(
        message=f"{reader.name!r} must read {wait.access} before {maker.name!r} puts a newer value in its place, but "
        f"its tile offset is {reader.offset}",
        hint=lower + keep,
    )


# How long values are there -------------------------------------------------------------------------------------------


def _waits(tiling: Tiling) -> tuple[_Wait, ...]:
    """Return all waits whose slack is 0 or less. They hang on loop counts alone, and are kept for other tile sizes."""
    bound = tiling.bound
    found: list[_Wait] = []
    for excerpt in excerpts(tiling, bound.plan.depth + 2):
        if tiling.masked is not None:
            found += _waits_in(tiling, excerpt)
            continue
        waits = bound.shelf.get(excerpt)
        if waits is None:
            waits = bound.shelf[excerpt] = tuple(_waits_in(tiling, excerpt))
        assert isinstance(waits, tuple)
        found += waits
    return tuple(found)


def _waits_in(tiling: Tiling, excerpt: Excerpt) -> Iterator[_Wait]:
    bound, depth = tiling.bound, tiling.bound.plan.depth
    in_buffer = {
        name for name, home in bound.plan.residency.items() if home.level is Level.BUFFER and name not in bound.inputs
    }
    runs = {name: excerpt.runs(bound.missing(step)) for name, step in bound.steps.items()}
    newer = {name: _next_there(tiling, excerpt, bound.steps[name], runs[name]) for name in in_buffer}
    for access, readers in bound.stored_reads.items():
        if access.tensor not in in_buffer:
            continue
        maker = bound.steps[access.tensor]
        source = _source(tiling, excerpt, maker, access, runs[maker.name])
        before = np.zeros(len(excerpt), dtype=np.bool_)
        for reader in readers:
            first = runs[reader.name] & ~before
            before |= runs[reader.name]
            yield from _wait(
                excerpt, reader, maker, access, np.where(first, source, -1), newer[maker.name], depth=depth
            )
    for name in sorted(in_buffer):
        step = bound.steps[name]
        if bound.reduced_ranks(step):
            source = np.where(runs[name], _previous(excerpt, _piece(tiling, excerpt, step), runs[name], 1), -1)
            yield from _wait(excerpt, step, step, step.einsum.output, source, newer[name], depth=depth, own=True)


def _wait(
    excerpt: Excerpt,
    reader: Step,
    maker: Step,
    access: Access,
    source: Ints,
    newer: Ints,
    *,
    depth: int,
    own: bool = False,
) -> Iterator[_Wait]:
    tiles = np.flatnonzero(source >= 0)
    if not tiles.size:
        return
    replaced = newer[source[tiles]]
    slack = replaced + maker.offset - tiles - reader.offset
    least = int(slack.min())
    if least < 0 or (least == 0 and not own):  # a sum is read where it begins, and put back where it ends
        epochs = _different(excerpt, tiles[slack == 0] + reader.offset, depth)
        yield _Wait(reader=reader, maker=maker, access=access, slack=least, excerpt=excerpt, epochs=epochs)


def _different(excerpt: Excerpt, epochs: Ints, depth: int) -> tuple[int, ...]:
    """Return one epoch for each kind of tiles that are in flight in ``epochs``, up to ``depth`` of them."""
    if not excerpt.opens:
        epochs = epochs[epochs >= depth]
    if not excerpt.closes:
        epochs = epochs[epochs < len(excerpt)]
    kind = np.pad(excerpt.kinds + 1, (depth, depth))  # 0 where no tile is, before the first and after the last
    window = np.zeros(epochs.size, dtype=np.int64)
    for offset in range(depth + 1):
        _, window = np.unique(window * (int(kind.max()) + 1) + kind[epochs - offset + depth], return_inverse=True)
    _, first = np.unique(window, return_index=True)
    return tuple(epochs[first].tolist())


def _piece(tiling: Tiling, excerpt: Excerpt, step: Step) -> Ints:
    """Return a number for each tile, equal where the tile of the output of ``step`` is."""
    return excerpt.key([excerpt.numbers[rank] for rank in tiling.split_ranks(step.name)])


def _next_there(tiling: Tiling, excerpt: Excerpt, step: Step, runs: Bools) -> Ints:
    """Return for each tile the next one whose output of ``step`` is put at the same address of the buffer."""
    plan = tiling.bound.plan
    residence = plan.residency[step.name]
    own = tiling.split_ranks(step.name)
    outside = () if residence.within in (None, INSTANCE) else plan.loops[: plan.loops.index(residence.within) + 1]
    region, position = [], []
    for rank in own:
        loops = [loop for loop in outside if plan.split_of[loop] == rank]
        size = excerpt.per_iteration[loops[-1]] if loops else _NEVER
        region.append(excerpt.numbers[rank] // size)
        position.append(excerpt.numbers[rank] % size)
    where = np.flatnonzero(runs)
    _, first, inverse = np.unique(excerpt.key(region)[where], return_index=True, return_inverse=True)
    order = np.empty(first.size, dtype=np.int64)
    order[np.argsort(first)] = np.arange(first.size)
    copy = np.zeros(len(excerpt), dtype=np.int64)
    copy[where] = order[inverse] % residence.copies
    return _following(excerpt.joined([copy, *position]), runs)


def _following(key: Ints, among: Bools) -> Ints:
    """Return for each tile of ``among`` the next of them with the same key."""
    found = np.full(key.size, _NEVER, dtype=np.int64)
    where = np.flatnonzero(among)
    order = where[np.argsort(key[where], kind="stable")]
    same = key[order[1:]] == key[order[:-1]]
    found[order[:-1][same]] = order[1:][same]
    return found


def _previous(excerpt: Excerpt, key: Ints, among: Bools, steps: int) -> Ints:
    """Return for each tile the ``steps``-th before it, of those of ``among`` with the same key; -1 if there is none."""
    size = len(excerpt)
    where = np.flatnonzero(among)
    codes = np.sort(key[where] * size + where)
    at = np.searchsorted(codes, key * size + excerpt.places) - steps
    known = codes[np.maximum(at, 0)] if codes.size else np.zeros(size, dtype=np.int64)
    return np.where((at >= 0) & (known // size == key), known % size, -1)


def _source(tiling: Tiling, excerpt: Excerpt, maker: Step, access: Access, runs: Bools) -> Ints:
    """Return for each tile the one in which the value was made that an access reads there; -1 for an initial value."""
    bound = tiling.bound
    rank = maker.einsum.iterative_rank
    if rank is None or rank not in bound.plan.split_of or access.final_ranks:
        return np.where(runs, excerpt.places, -1)
    return _previous(excerpt, _piece(tiling, excerpt, maker), runs, bound.steps_back(maker, access))


# Within an epoch -----------------------------------------------------------------------------------------------------


def _may_share(wait: _Wait) -> bool:
    """Return whether the reader may run in the very epoch of the newer value, whatever the cycles."""
    reader, maker = wait.reader, wait.maker
    if reader.group != maker.group:
        return reader.group < maker.group
    return reader.slot == maker.slot and reader.array == maker.array and reader.order < maker.order


def _tie_is_late(tiling: Tiling, wait: _Wait) -> bool:
    """Return whether the value is gone where reader and newer value share an epoch."""
    if _may_share(wait) or not wait.epochs:
        return False
    if wait.reader.group != wait.maker.group:
        return True
    bound = tiling.bound
    readers = [
        step
        for step in bound.stored_reads[wait.access]
        if (step.offset, step.group) == (wait.reader.offset, wait.reader.group)
    ]
    for epoch in wait.epochs:
        times = _times(tiling, wait.excerpt, epoch, wait.reader.group)
        begins = [times[step.name][0] for step in readers if step.name in times]
        if min(begins) >= times[wait.maker.name][1]:
            return True
    return False


def _times(tiling: Tiling, excerpt: Excerpt, epoch: int, group: int) -> dict[str, tuple[int, int]]:
    """Return when each Einsum of a group begins and is done in an epoch."""
    bound = tiling.bound
    slots: list[dict[str, list[tuple[Step, int]]]] = []
    for slot in bound.plan.epoch[group].slots:
        queues: dict[str, list[tuple[Step, int]]] = {}
        for array, names in slot.items():
            for name in names:
                step = bound.steps[name]
                at = epoch - step.offset
                if 0 <= at < len(excerpt) and all(excerpt.final[rank][at] for rank in bound.missing(step)):
                    cycles = tiling.cycles(step, tiling.extents_at(excerpt, at))
                    queues.setdefault(array, []).append((step, cycles))
        slots.append(queues)
    lengths = [max((sum(cycles for _, cycles in queue) for queue in slot.values()), default=0) for slot in slots]
    order = _turns(tiling, slots)
    times: dict[str, tuple[int, int]] = {}

    def turn(slot: int, number: int) -> int:
        """Return the cycle of a turn of a slot; those before it in a round have had one more."""
        others = (other for other in range(len(slots)) if other != slot)
        ahead = (min(lengths[other], number + (order.index(other) < order.index(slot))) for other in others)
        return number + sum(ahead)

    for number, queued in enumerate(slots):
        for queue in queued.values():
            at = 0
            for step, cycles in queue:
                times[step.name] = turn(number, at), turn(number, at + cycles - 1) + 1
                at += cycles
    return times


def _turns(tiling: Tiling, slots: list[dict[str, list[tuple[Step, int]]]]) -> list[int]:
    """Return the order in which slots take their turns: makers of a tile's values before readers."""
    bound = tiling.bound
    where = {step.name: slot for slot, queues in enumerate(slots) for queue in queues.values() for step, _ in queue}
    before: dict[int, set[int]] = {slot: set() for slot in range(len(slots))}
    for name, slot in where.items():
        step = bound.steps[name]
        for access in step.einsum.reads:
            maker = bound.steps.get(access.tensor)
            if maker is None or maker.name not in where or maker.offset != step.offset or where[maker.name] == slot:
                continue
            if not maker.einsum.iterative_rank or bound.is_fresh(access) or access.final_ranks:
                before[slot].add(where[maker.name])
    try:
        return list(TopologicalSorter(before).static_order())
    except CycleError:
        return list(range(len(slots)))
