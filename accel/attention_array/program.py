"""What the array does in each cycle: tiles, epochs, micro-operations; cycles and actions of a job.

The sequencer follows the plan without knowing it. A *step* is one Einsum of one tile, two nested counters that issue
one micro-operation an iteration. An epoch begins with one tile entering; every step whose tile (that of its offset) is
there gets its counters; a step that has nothing to do takes no cycle. In each cycle the first group that has anything
left issues: its slots take turns, in the order of the plan, those that are done left out; in a turn each array issues
the next micro-operation of its queue. After its last micro-operation a group waits for its stall cycles. When nothing
is left the next epoch begins in the very next cycle, if K, V and Q are there and the output has room.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from accel.attention_array.unit import EINSUMS, AttentionArray
from accel.errors import InputError

__all__ = [
    "ACTIONS",
    "START_CYCLES",
    "Issue",
    "Job",
    "Tile",
    "actions",
    "check_job",
    "compute_cycles",
    "end_cycles",
    "epochs",
    "first_to_last_cycles",
    "is_lone",
    "issues",
    "lone_cycles",
    "loops",
    "tiles",
]

START_CYCLES = 2
"""From accepting the last beat that the first epoch needs to its first micro-operation."""

ACTIONS = {
    "multiply_2d": "multiplications of the PEs, those of exponentials included",
    "add_2d": "additions and subtractions of the PEs, those of exponentials included",
    "max_2d": "comparisons of the PEs",
    "exp_2d": "exponentials of the PEs",
    "multiply_1d": "multiplications of the vector row but for divisions, those of exponentials included",
    "add_1d": "additions and subtractions of the vector row, those of exponentials included",
    "max_1d": "comparisons of the vector row",
    "exp_1d": "exponentials of the vector row: correction factors",
    "divide_1d": "divisions, each a multiplication by the row's reciprocal",
    "write_q": "words of Q written to its buffer",
    "write_k": "words of K written to its buffer",
    "write_v": "words of V written to its buffer",
    "read_q": "words of Q read",
    "read_k": "words of K read",
    "read_v": "words of V read",
    "read_rm": "running maxima read",
    "write_rm": "running maxima written",
    "read_rd": "running denominators read, for a correction or for a reciprocal",
    "write_rd": "running denominators written",
    "read_rnv": "words of running numerators read, for a correction or for a division",
    "write_rnv": "words of running numerators written",
}
"""The actions that hardware counts and models predict, with their definitions."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What the array is asked to do at a time: all heads of one length.

    Parameters
    ----------
    queries, keys : int
        P and M, at most ``max_length``.
    heads : int
        Instances, one after the other; 1 to 65535.
    causal : bool
        Whether query p sees keys 0 to p only. Masked points are computed and then left out: they take their cycles.
    """

    queries: int
    keys: int
    heads: int = 1
    causal: bool = False

    __pydantic_config__ = {"extra": "forbid"}


def is_lone(unit: AttentionArray, job: Job) -> bool:
    """Return whether a job is a single tile."""
    return job.heads == 1 and job.queries <= unit.queries_per_tile and job.keys <= unit.keys_per_tile


def lone_cycles(unit: AttentionArray, job: Job) -> int:
    """Return what ``lone_stall_cycles`` add to a job: the only cycles that a schedule's price does not have."""
    return unit.lone_stall_cycles * (unit.plan.depth + 1) if is_lone(unit, job) else 0


def _stalls(unit: AttentionArray, job: Job) -> list[int]:
    """Return the stall cycles of each group in a job."""
    stalls = [group.stall_cycles for group in unit.plan.epoch]
    stalls[-1] += unit.lone_stall_cycles if is_lone(unit, job) else 0
    return stalls


def check_job(unit: AttentionArray, job: Job) -> None:
    """Check that ``unit`` can do ``job``.

    Raises
    ------
    InputError
        A length or the number of heads is out of range.
    """
    for name, value, high in (
        ("queries", job.queries, unit.max_length),
        ("keys", job.keys, unit.max_length),
        ("heads", job.heads, 65535),
    ):
        if not 1 <= value <= high:
            raise InputError(
                f"{name} must be from 1 to {high}, not {value}", hint=f"use {min(max(value, 1), high)}", field=(name,)
            )


@dataclass(frozen=True, kw_only=True)
class Tile:
    """One tile: ``keys`` by ``queries`` points.

    Parameters
    ----------
    number : int
        In the order of the job.
    head, first_query, first_key : int
        Where it lies.
    queries, keys : int
        Its extents.
    turns : int
        Keys that the fullest PE has, ``ceil(keys / R)``.
    place : int
        Which of the p1 query tiles on chip it belongs to.
    first, last : bool
        Whether its key tile is the first, or the last, of its row.
    """

    number: int
    head: int
    first_query: int
    first_key: int
    queries: int
    keys: int
    turns: int
    place: int
    first: bool
    last: bool


def tiles(unit: AttentionArray, job: Job) -> Iterator[Tile]:
    """Yield the tiles of a job in order: heads, then groups of p1 query tiles, then key tiles, then query tiles."""
    number, m0, p0 = 0, unit.keys_per_tile, unit.queries_per_tile
    for head in range(job.heads):
        for group in range(0, job.queries, p0 * unit.query_tiles):
            for key in range(0, job.keys, m0):
                for place, query in enumerate(range(group, min(group + p0 * unit.query_tiles, job.queries), p0)):
                    keys = min(m0, job.keys - key)
                    yield Tile(
                        number=number,
                        head=head,
                        first_query=query,
                        first_key=key,
                        queries=min(p0, job.queries - query),
                        keys=keys,
                        turns=-(-keys // unit.rows),
                        place=place,
                        first=key == 0,
                        last=key + m0 >= job.keys,
                    )
                    number += 1


def epochs(unit: AttentionArray, job: Job) -> Iterator[tuple[Tile | None, ...]]:
    """Yield for each epoch the tile of each offset, the newest first; None where there is none."""
    depth = unit.plan.depth
    window: tuple[Tile | None, ...] = (None,) * (depth + 1)
    for tile in [*tiles(unit, job), *[None] * depth]:
        window = (tile, *window[:-1])
        yield window


def loops(unit: AttentionArray, name: str, tile: Tile | None) -> tuple[int, int]:
    """Return the iterations of the outer and of the inner loop of an Einsum for a tile; (0, 0) if it does not run."""
    if tile is None or (name == "AV" and not tile.last):
        return 0, 0
    counts = {"1": 1, "e": unit.query_key_dim, "f": unit.value_dim, "turn": tile.turns, "stage": unit.stages}
    outer, inner = EINSUMS[name][1]
    return counts[outer], counts[inner]


def _slot_cycles(unit: AttentionArray, window: tuple[Tile | None, ...], slot: Mapping[str, tuple[str, ...]]) -> int:
    def cycles(name: str) -> int:
        outer, inner = loops(unit, name, window[unit.plan.offsets[name]])
        return outer * inner

    return max(sum(map(cycles, names)) for names in slot.values())


def compute_cycles(unit: AttentionArray, job: Job) -> int:
    """Return the cycles of all epochs of a job, filling and draining included: its first issue to its last stall.

    A group takes the sum over its slots of the cycles of the longest queue, and its stall.
    """
    seen: dict[tuple[tuple[int, bool] | None, ...], int] = {}
    total = 0
    for window in epochs(unit, job):
        key = tuple(None if tile is None else (tile.turns, tile.last) for tile in window)
        if key not in seen:
            seen[key] = sum(
                group.stall_cycles + sum(_slot_cycles(unit, window, slot) for slot in group.slots)
                for group in unit.plan.epoch
            )
        total += seen[key]
    return total + lone_cycles(unit, job)


def end_cycles(unit: AttentionArray) -> int:
    """Return the cycles from issuing the last division to delivering its beat.

    Three for the micro-operation and for reading, R + C - 1 to the last column of the vector row, three to multiply,
    shift and round, and three through the output queue.
    """
    return unit.rows + unit.columns + 8


def first_to_last_cycles(unit: AttentionArray, job: Job) -> int:
    """Return the cycles from the first issue to the last beat of AV, nothing having to wait.

    These are ``compute_cycles`` but for the stalls after the last division, plus the constant ``end_cycles``.
    """
    group = next(
        index
        for index, each in enumerate(unit.plan.epoch)
        if any("AV" in names for slot in each.slots for names in slot.values())
    )
    trailing = sum(_stalls(unit, job)[group:])
    return compute_cycles(unit, job) - 1 - trailing + end_cycles(unit)


@dataclass(frozen=True, kw_only=True)
class Issue:
    """One micro-operation.

    Parameters
    ----------
    cycle : int
        In which it is issued, counted from the first of the job.
    einsum : str
        Of which Einsum.
    tile : Tile
        Of which tile.
    outer, inner : int
        Values of its two loops.
    """

    cycle: int
    einsum: str
    tile: Tile
    outer: int
    inner: int


def _queue(unit: AttentionArray, window: tuple[Tile | None, ...], names: tuple[str, ...]) -> list[tuple[str, int, int]]:
    return [
        (name, outer, inner)
        for name in names
        for counts in [loops(unit, name, window[unit.plan.offsets[name]])]
        for outer in range(counts[0])
        for inner in range(counts[1])
    ]


def issues(unit: AttentionArray, job: Job) -> Iterator[Issue]:
    """Yield every micro-operation of a job, in order, nothing having to wait."""
    cycle = 0
    for window in epochs(unit, job):
        for group, stall_cycles in zip(unit.plan.epoch, _stalls(unit, job), strict=True):
            slots = [[_queue(unit, window, names) for names in slot.values()] for slot in group.slots]
            position, turn = [0] * len(slots), 0
            left = [max(map(len, queues)) for queues in slots]
            while any(left):
                while not left[turn]:
                    turn = (turn + 1) % len(slots)
                for queue in slots[turn]:
                    if position[turn] < len(queue):
                        name, outer, inner = queue[position[turn]]
                        tile = window[unit.plan.offsets[name]]
                        assert tile is not None
                        yield Issue(cycle=cycle, einsum=name, tile=tile, outer=outer, inner=inner)
                position[turn] += 1
                left[turn] -= 1
                turn = (turn + 1) % len(slots)
                cycle += 1
            cycle += stall_cycles


def actions(unit: AttentionArray, job: Job) -> dict[str, int]:
    """Return how often each action happens in a job, by the names of ``ACTIONS`` (a closed form).

    Points outside the job (of partial tiles) do nothing; points that the causal mask leaves out are computed.
    """
    p, m, h = job.queries, job.keys, job.heads
    key_tiles = -(-m // unit.keys_per_tile)
    groups = -(-p // (unit.queries_per_tile * unit.query_tiles))
    query_tiles = -(-p // unit.queries_per_tile)
    e, f, exp = unit.query_key_dim, unit.value_dim, unit.exponential.cycles
    scores, updates = h * p * m, h * p * key_tiles
    fetches = h * m * (groups if key_tiles > 1 else 1)
    return {
        "multiply_2d": scores * (e + exp + f),
        "add_2d": scores * (e + 1 + exp + 1 + f),
        "max_2d": scores,
        "exp_2d": scores,
        "multiply_1d": updates * (exp + 1 + f),
        "add_1d": updates * (1 + exp + 1 + f),
        "max_1d": updates,
        "exp_1d": updates,
        "divide_1d": h * p * f,
        "write_q": h * p * e,
        "write_k": fetches * e,
        "write_v": fetches * f,
        "read_q": updates * e,
        "read_k": h * m * query_tiles * e,
        "read_v": h * m * query_tiles * f,
        "read_rm": updates,
        "write_rm": updates,
        "read_rd": updates + h * p,
        "write_rd": updates,
        "read_rnv": (updates + h * p) * f,
        "write_rnv": updates * f,
    }
