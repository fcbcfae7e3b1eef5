"""Which tile sizes are considered, and the latency that none of them can go below."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from accel.arch import Architecture
from accel.errors import InputError, did_you_mean
from accel.schedule import Axis
from accel.workload import Workload
from mapping.bound import Bound
from mapping.legal import shortfalls
from mapping.search.certificate import Floor
from mapping.tiling import Tiling

__all__ = ["Branch", "Needed", "check_fixed", "floors", "group_sizes", "sizes_along", "space"]

_FEW_TURNS = 8
"""Multiples of an axis that is shorter than that of another array."""


@dataclass(frozen=True, kw_only=True)
class Branch:
    """Schedules that share the tiles proper and differ in how many are kept on chip.

    Parameters
    ----------
    points : tuple of mapping of str to int
        Tile sizes, with more tiles kept on chip towards the end: traffic falls and occupancy grows.
    """

    points: tuple[Mapping[str, int], ...]


def _lengths(architecture: Architecture, axis: Axis | None) -> tuple[int, ...]:
    """Return the different lengths of one axis of the arrays, ascending."""
    arrays = architecture.arrays.values()
    return tuple(
        sorted({1 if axis is None else array.rows if axis is Axis.ROWS else array.columns for array in arrays})
    )


def sizes_along(architecture: Architecture, axis: Axis | None, whole: int, turns: int) -> tuple[int, ...]:
    """Return the sizes of a tile along one axis of the arrays.

    Those are for the axis of each array its length, multiples of it up to ``turns`` or until the rank is covered, and
    halves of it down to 1; and for each of them the equal parts of the rank that are as many tiles.
    """
    found: set[int] = set()
    for length in _lengths(architecture, axis):
        found |= {size for shift in range(length.bit_length()) if (size := length >> shift) < whole}
        found |= {length * turn for turn in range(1, min(turns, -(-whole // length)) + 1)}
    covering = [size for size in found if size >= whole]
    found = {size for size in found if size < whole} | ({min(covering)} if covering else set())
    return tuple(sorted(found | {-(-whole // -(-whole // size)) for size in found}))


def _inner_sizes(bound: Bound, rank: str, whole: int) -> tuple[int, ...]:
    """Return sizes of the tile along a split rank: parts of the arrays' axes by halves, and multiples of them.

    Multiples end where a single row or column of tiles outgrows the registers, or the rank is covered; those of shorter
    axes than the longest after a few.
    """
    part = bound.plan.splits[rank][-1]
    found: set[int] = set()
    lengths = _lengths(bound.architecture, bound.plan.axes.get(part))
    for length in lengths:
        found |= {size for shift in range(length.bit_length()) if (size := max(length >> shift, 1)) < whole}
        most = -(-whole // length) if length == lengths[-1] else min(_FEW_TURNS, -(-whole // length))
        for multiple in range(1, most + 1):
            if multiple > 1 and not _fits_registers(bound, part, multiple * length):
                break
            found.add(multiple * length)
    return tuple(sorted(found))


def _fits_registers(bound: Bound, part: str, size: int) -> bool:
    """Return whether a tile of ``size`` along one rank and 1 along the others fits the registers of every array."""
    tiles = {each: 1 for parts in bound.plan.splits.values() for each in parts[1:]} | {part: size}
    workload = Workload(
        name="probe", batch=1, heads=1, kv_heads=1, queries=size, keys=size, query_key_dim=1, value_dim=1
    )
    return all(each.memory == "buffer" for each in shortfalls(Tiling(bound=bound, tiles=tiles, workload=workload)))


def group_sizes(count: int) -> tuple[int, ...]:
    """Return for each number of groups of ``count`` tiles the smallest group that gives it, in ascending order."""
    sizes, size = [], 1
    while True:
        sizes.append(size)
        groups = -(-count // size)
        if groups == 1:
            return tuple(sizes)
        size = -(-count // (groups - 1))


def space(bound: Bound, workload: Workload, fixed: Mapping[str, int]) -> tuple[Branch, ...]:
    """Return all tile sizes to consider for one plan, those in ``fixed`` as given.

    A tile spread along an axis of the arrays has the length of the axis of one of them, a multiple or a power-of-two
    part of it. A count of tiles kept on chip is the smallest that gives its number of groups, as a larger one would
    only occupy more.
    """
    per_rank = []
    for rank, parts in bound.plan.splits.items():
        whole = workload.sizes[rank.upper()]
        inner = parts[-1]
        sizes = (fixed[inner],) if inner in fixed else _inner_sizes(bound, rank, whole)
        options = []
        for size in sizes:
            points: list[dict[str, int]] = [{inner: size}]
            for part in reversed(parts[1:-1]):
                count = -(-whole // size)
                choices = (fixed[part],) if part in fixed else group_sizes(count)
                points = [{**point, part: choice} for choice in choices for point in points]
            options.append(points)
        per_rank.append(options)
    return tuple(
        Branch(
            points=tuple(
                {part: size for point in points for part, size in point.items()} for points in product(*options)
            )
        )
        for options in product(*per_rank)
    )


def floors(bound: Bound, workload: Workload) -> tuple[Floor, ...]:
    """Return for each array and for DRAM the latency that no tile sizes of a plan can go below.

    An array is busy at least for its points spread evenly over all PEs, with one tile along every rank for the Einsums
    that run once a tile. DRAM moves each input and each output at least once. Of what filters hide only the part counts
    that the smallest tiles do not skip.
    """
    architecture = bound.architecture
    whole = whole_tiling(bound, workload)
    needed = Needed.of(whole)
    found = []
    for name, array in architecture.arrays.items():
        work = sum(
            step.point_cycles * needed.least(step.einsum.ranks, whole.points(step, whole.full_extents))
            for step in bound.steps.values()
            if step.array == name
        )
        found.append(Floor(resource=name, cycles=workload.instances * work / array.pes))
    found.append(memory_floor(whole, needed))
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class Needed:
    """What the filters of a cascade leave of it in the smallest tiles, whose union no larger tiles fall below.

    Parameters
    ----------
    rank_parts, row_parts : frozenset of str
        The rank whose tiles are skipped and the row rank, each with its parts; empty where nothing is skipped.
    pairs, columns : Fraction
        Share of all pairs of both ranks that run, and of the coordinates of the skipped rank that any row needs.
    """

    rank_parts: frozenset[str] = frozenset()
    row_parts: frozenset[str] = frozenset()
    pairs: Fraction = Fraction(1)
    columns: Fraction = Fraction(1)

    @classmethod
    def of(cls, whole: Tiling) -> Needed:
        """Return it for the plan and the workload of a tiling."""
        plan, mask = whole.bound.plan, whole.bound.mask
        if mask is None:
            return cls()
        ones = {part: 1 for parts in plan.splits.values() for part in parts[1:]}
        masked = Tiling(bound=whole.bound, tiles=ones, workload=whole.workload).masked
        if masked is None:
            return cls()
        parts = {rank: frozenset({rank, *plan.splits.get(rank, ())}) for rank in (mask.rank, mask.row) if rank}
        return cls(
            rank_parts=parts[mask.rank],
            row_parts=parts.get(mask.row or "", frozenset()),
            pairs=Fraction(int((masked.last - masked.first + 1).sum()), masked.rows * masked.columns),
            columns=Fraction(int(masked.touched.sum()), masked.columns),
        )

    def least(self, ranks: Iterable[str], count: int) -> int:
        """Return how many of ``count`` points or values over ``ranks`` are needed at least."""
        given = set(ranks)
        if not given & self.rank_parts:
            return count
        return math.floor(count * (self.pairs if given & self.row_parts else self.columns))


def whole_tiling(bound: Bound, workload: Workload) -> Tiling:
    """Return the tiling with one tile along every rank, in which Einsums that run once a tile run least often."""
    plan = bound.plan
    one_tile = {part: 1 for parts in plan.splits.values() for part in parts[1:-1]}
    one_tile |= {parts[-1]: workload.sizes[rank.upper()] for rank, parts in plan.splits.items()}
    return Tiling(bound=bound, tiles=one_tile, workload=workload)


def memory_floor(whole: Tiling, needed: Needed) -> Floor:
    """Return the time of DRAM for each input and each output once, of inputs what ``needed`` leaves."""
    bound = whole.bound

    def values_of(tensor: str) -> int:
        ranks = whole.tensor_ranks(tensor)
        return needed.least(ranks, math.prod(whole.extent(rank, whole.full_extents) for rank in ranks))

    values = sum(
        values_of(tensor) for tensor in (*(each.name for each in bound.cascade.inputs), *bound.cascade.outputs)
    )
    bits = whole.workload.instances * values * bound.architecture.width_bits
    return Floor(resource="dram", cycles=bound.architecture.memory_cycles(bits))


def check_fixed(splits: Mapping[str, tuple[str, ...]], fixed: Mapping[str, int]) -> None:
    """Check that fixed tile sizes belong to tile ranks of the splits and are at least 1."""
    parts = [part for split in splits.values() for part in split[1:]]
    for part, size in fixed.items():
        if part not in parts:
            raise InputError(
                f"a tile size must belong to a tile rank of the plan, but {part!r} is none",
                hint=did_you_mean(part, parts),
            )
        if size < 1:
            raise InputError(f"tile size {part} must be at least 1, not {size}", hint=f"use {part}=1")
