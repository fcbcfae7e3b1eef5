"""Whether every value is there when it is read, in an array whose links reach neighbours only.

Cycles here are *logical*: PE (r, c) works on a micro-operation r + c cycles after PE (0, 0), and the vector row as if
it were row R. A value that goes down or right arrives in the same logical cycle. One that goes up, the running maximum,
needs ``2 R + 1`` logical cycles to the top row and 3 to the bottom row. ``LATENCIES`` holds the others. The rules are
checked on every micro-operation of small jobs that contain every kind of neighbouring tiles.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from accel.attention_array.program import Issue, Job, is_lone, issues
from accel.attention_array.unit import AttentionArray
from accel.errors import InputError
from accel.schedule import Group

__all__ = ["CLIMB_CYCLES", "Late", "check_timing", "depths", "lates", "with_stalls"]

CLIMB_CYCLES = 3
"""Logical cycles from the running maximum to the subtraction in the bottom row; each row above adds 2."""

RECIPROCAL_CYCLES = 13
"""From a row's last sum to the first division: the sum is written, read back, and its reciprocal found."""

LATENCIES = {
    ("BQK", "LM"): 1,
    ("LM", "RM"): 1,
    ("RM", "PRM"): 1,
    ("SLN", "SLD"): 1,
    ("SLN", "SLNV"): 2,
    ("PRM", "SPD"): 1,
    ("PRM", "SPNV"): 1,
    ("SPD", "RD"): 2,
    ("SLD", "RD"): 1,
    ("SLNV", "RNV"): 2,
    ("SPNV", "RNV"): 2,
    ("RNV", "AV"): 2,
    ("RD", "AV"): RECIPROCAL_CYCLES,
    ("RM", "RM"): 2,
    ("RD", "SPD"): 2,
    ("RNV", "SPNV"): 2,
}
"""(Maker, reader) to the least logical cycles from the micro-operation that makes a value to the one that reads it.

Steps that make and read a value for each f are compared f by f; others from the last to the first micro-operation. The
last three concern the running values of the tile before, of the same queries."""

_BY_FEATURE = ("SLNV", "SPNV", "RNV", "AV")

_STORED = {
    "BQK": ("SLN",),
    "LM": ("RM",),
    "SLN": ("SLD", "SLNV"),
    "SLD": ("RD",),
    "SLNV": ("RNV",),
    "PRM": ("SPD", "SPNV"),
    "SPD": ("RD",),
    "SPNV": ("RNV",),
}
"""What is kept in as many places as tiles are alive, and who reads it."""


def _groups(unit: AttentionArray) -> dict[str, int]:
    """Return Einsum to the group that it stands in."""
    return {
        name: index
        for index, group in enumerate(unit.plan.epoch)
        for slot in group.slots
        for names in slot.values()
        for name in names
    }


def depths(unit: AttentionArray) -> dict[str, int]:
    """Return for each value between two steps the tiles that are kept of it: a power of two; place = number mod it."""
    group_of, found = _groups(unit), {}
    for maker, readers in _STORED.items():
        first = (unit.plan.offsets[maker], group_of[maker])
        alive = max(unit.plan.offsets[reader] - first[0] + (group_of[reader] >= first[1]) for reader in readers)
        found[maker] = 1 << (max(alive, 1) - 1).bit_length()
    return found


@dataclass(frozen=True, kw_only=True)
class Late:
    """A value that is read too early, or a place that is taken too early.

    Parameters
    ----------
    first, second : str
        The Einsum that must come first, and the one that came too soon after it.
    needed_cycles, given_cycles : int
        Logical cycles that must lie between them, and those that do.
    """

    first: str
    second: str
    needed_cycles: int
    given_cycles: int

    @property
    def missing_cycles(self) -> int:
        """By how much it is too early."""
        return self.needed_cycles - self.given_cycles


class _Times:
    """When each step of each tile issues: first and last cycle, and the last cycle for each outer iteration."""

    def __init__(self, found: Iterator[Issue]) -> None:
        self.first: dict[tuple[str, int], int] = {}
        self.last: dict[tuple[str, int], int] = {}
        self.at: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
        self.before: dict[int, int | None] = {}
        self.next_group: dict[int, int] = {}
        self.tiles: dict[int, Issue] = {}
        for issue in found:
            key = (issue.einsum, issue.tile.number)
            self.first.setdefault(key, issue.cycle)
            self.last[key] = issue.cycle
            self.at[key][issue.outer] = issue.cycle
            self.tiles.setdefault(issue.tile.number, issue)
        ends: dict[int, int] = {}
        for number in sorted(self.tiles):
            tile = self.tiles[number].tile
            self.before[number] = None if tile.first else ends[tile.place]
            if tile.first and tile.place in ends:
                self.next_group[ends[tile.place]] = number
            ends[tile.place] = number


def _gaps(times: _Times, maker: str, made: int, reader: str, read: int) -> Iterator[int]:
    """Yield the cycles from making to reading, f by f where both go through f."""
    if (maker, made) not in times.last or (reader, read) not in times.last:
        return
    if maker in _BY_FEATURE and reader in _BY_FEATURE:
        other = times.at[reader, read]
        for f, cycle in times.at[maker, made].items():
            yield other[f] - cycle
    else:
        yield times.first[reader, read] - times.last[maker, made]


def _rules(unit: AttentionArray, times: _Times, number: int) -> Iterator[tuple[str, str, int, int]]:
    """Yield (first, second, cycles needed, cycles given) of everything that concerns a tile."""
    climb = CLIMB_CYCLES + 2 * (unit.rows - 1)
    for gap in _gaps(times, "RM", number, "SLN", number):
        yield "RM", "SLN", climb, gap
    for (maker, reader), needed in LATENCIES.items():
        made: int | None = number
        if (maker, reader) in (("RM", "RM"), ("RD", "SPD"), ("RNV", "SPNV")):
            made = times.before[number]
        if made is not None:
            for gap in _gaps(times, maker, made, reader, number):
                yield maker, reader, needed, gap
    # Places that the next tile, or the next row, takes.
    for maker, depth in depths(unit).items():
        if (maker, number + depth) in times.first:
            for reader in _STORED[maker]:
                yield (
                    reader,
                    maker,
                    1,
                    times.first[maker, number + depth] - times.last[reader, number]
                    if (maker not in _BY_FEATURE)
                    else min(
                        times.at[maker, number + depth][f] - times.at[reader, number][f] for f in range(unit.value_dim)
                    ),
                )
    if ("RM", number + 1) in times.first:
        for reader in ("SLN", "PRM"):
            yield reader, "RM", 1, times.first["RM", number + 1] - times.last[reader, number]
    after = times.next_group.get(number)
    if after is not None:
        for gap in _gaps(times, "AV", number, "RNV", after):
            yield "AV", "RNV", 1, gap
    if ("AV", number) in times.last:
        later = next((n for n in range(number + 1, max(times.tiles) + 1) if times.tiles[n].tile.last), None)
        if later is not None:
            yield "AV", "RD", 1 - RECIPROCAL_CYCLES + 2, times.last["RD", later] - times.last["AV", number]


def _probes(unit: AttentionArray, lone: bool) -> Iterator[Job]:
    """Yield jobs that contain every kind of neighbouring tiles: one to three key tiles, the last of every length."""
    p0, m0 = unit.queries_per_tile, unit.keys_per_tile
    queries = sorted({1, min(2, unit.query_tiles), unit.query_tiles + 1})
    rests = sorted({m0, *range(1, m0, unit.rows)})  # each number of turns
    for query_tiles, key_tiles, rest, heads in product(queries, (1, 2, 3), rests, (1, 2)):
        job = Job(queries=query_tiles * p0, keys=(key_tiles - 1) * m0 + rest, heads=heads)
        if is_lone(unit, job) == lone:
            yield job


def lates(unit: AttentionArray, *, lone: bool = False) -> tuple[Late, ...]:
    """Return everything that comes too early in some job, the worst of each pair of Einsums.

    Parameters
    ----------
    unit : AttentionArray
        The array.
    lone : bool
        Whether in jobs of a single tile, or in all others.
    """
    worst: dict[tuple[str, str], Late] = {}
    for job in _probes(unit, lone):
        times = _Times(issues(unit, job))
        for number in times.tiles:
            for first, second, needed, given in _rules(unit, times, number):
                late = Late(first=first, second=second, needed_cycles=needed, given_cycles=given)
                known = worst.get((first, second))
                if late.missing_cycles > (known.missing_cycles if known else 0):
                    worst[first, second] = late
    return tuple(sorted(worst.values(), key=lambda late: -late.missing_cycles))


def check_timing(unit: AttentionArray) -> None:
    """Check that every value is there when it is read.

    Raises
    ------
    InputError
        One is not, or is replaced before.
    """
    for lone in (False, True):
        for worst in lates(unit, lone=lone)[:1]:
            raise InputError(
                f"{worst.second} must come at least {worst.needed_cycles} cycles after {worst.first} in an array of "
                f"{unit.rows} rows, but comes {worst.given_cycles} after it{' in a job of one tile' if lone else ''}",
                hint=f"raise lone_stall_cycles by {worst.missing_cycles}"
                if lone
                else "raise stall_cycles of the group before, or the offset of the later Einsum",
                field=("lone_stall_cycles",) if lone else ("plan", "epoch"),
            )


def with_stalls(unit: AttentionArray) -> AttentionArray:
    """Return the array with the stalls that are missing, after groups whose values climb or settle too late.

    Those that only a job of a single tile needs go to ``lone_stall_cycles``.

    Raises
    ------
    InputError
        No stall helps.
    """
    group_of = _groups(unit)
    for _ in range(2 * len(LATENCIES)):
        found = lates(unit)
        if not found:
            break
        epoch = list(unit.plan.epoch)
        at = group_of[found[0].first]
        stall = epoch[at].stall_cycles + found[0].missing_cycles
        epoch[at] = Group(slots=epoch[at].slots, stall_cycles=stall)
        unit = dataclasses.replace(unit, plan=dataclasses.replace(unit.plan, epoch=tuple(epoch)))
    for late in lates(unit, lone=True)[:1]:
        unit = dataclasses.replace(unit, lone_stall_cycles=unit.lone_stall_cycles + late.missing_cycles)
    check_timing(unit)
    return unit
