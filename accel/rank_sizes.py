"""Sizes of ranks: which follow from which, and how many points an Einsum has."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from accel.errors import InputError, Problem
from accel.expression import Condition, size_symbol

if TYPE_CHECKING:
    from accel.cascade import Cascade, Einsum

__all__ = ["complete", "index_relations", "merged_symbols", "points"]

_CHUNK_POINTS = 1 << 22
_COMPARE = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
}


def complete(cascade: Cascade, given: Mapping[str, int]) -> dict[str, int]:
    """Return every size of ``cascade``; see ``Cascade.sizes``.

    Raises
    ------
    InputError
        A size is missing, is not a whole number of at least 1, or contradicts another.
    """
    defaults = {each.name: int(each.default) for each in cascade.parameters if each.is_size}
    known = {symbol: given[symbol] for symbol in cascade.symbols if symbol in given}
    wrong = [
        Problem(
            message=f"size {symbol} must be a whole number of at least 1, not {value!r}",
            hint="count its coordinates",
            field=(symbol,),
        )
        for symbol, value in known.items()
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1
    ]
    if wrong:
        raise InputError.of(wrong)
    known = {symbol: int(value) for symbol, value in known.items()}
    known.update({symbol: value for symbol, value in defaults.items() if symbol not in known})
    relations = cascade.index_relations
    derived = True
    while derived:
        derived = False
        for rank, digits in relations:
            derived = _derive(known, rank, digits) or derived
    _refuse_missing(cascade, known, given)
    _refuse_contradictions(known, relations, given)
    return {symbol: known[symbol] for symbol in cascade.symbols}


def index_relations(cascade: Cascade) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return (rank of a tensor, digits that index it) for each access; one digit is a plain other name."""
    found: dict[tuple[str, tuple[str, ...]], None] = {}
    for einsum in cascade.einsums:
        for read in einsum.reads:
            tensor = cascade.tensors[read.tensor]
            for index, rank in zip(read.indices, tensor.ranks, strict=True):
                digits = (index.rank,) if index.rank is not None else index.digits
                if digits is not None and digits != (rank,) and rank != tensor.iterative_rank:
                    found[rank, digits] = None
    return tuple(found)


def _derive(known: dict[str, int], rank: str, digits: tuple[str, ...]) -> bool:
    """Fill in one size that follows from ``rank`` being made up of ``digits``; return whether one did."""
    whole, outer = size_symbol(rank), size_symbol(digits[0])
    inner = [size_symbol(digit) for digit in digits[1:]]
    if not all(symbol in known for symbol in inner):
        return False
    tile = math.prod(known[symbol] for symbol in inner)
    if whole in known and outer not in known:
        known[outer] = -(-known[whole] // tile)
        return True
    if outer in known and whole not in known:
        known[whole] = known[outer] * tile
        return True
    return False


def _refuse_missing(cascade: Cascade, known: Mapping[str, int], given: Mapping[str, int]) -> None:
    missing = [symbol for symbol in cascade.symbols if symbol not in known]
    if not missing:
        return
    ranks = {size_symbol(rank): rank for rank in cascade.ranks}
    # The outermost digit follows from the rest, so asking for it as well would ask for too much.
    outermost = {size_symbol(digits[0]) for digits in cascade.partitions}
    asked = [symbol for symbol in missing if symbol not in outermost] or missing
    what = [
        f"rank {ranks[symbol]!r} has no size" if symbol in ranks else f"parameter {symbol} has no value"
        for symbol in asked
    ]
    unknown = sorted(set(given) - set(cascade.symbols))
    spare = f" ({', '.join(unknown)}: no rank of this cascade)" if unknown else ""
    wanted = ", ".join(f"{symbol}=NUMBER" for symbol in asked)
    raise InputError(f"cascade {cascade.name}: {', '.join(what)}{spare}", hint=f"give {wanted}")


def _refuse_contradictions(
    known: Mapping[str, int], relations: Sequence[tuple[str, tuple[str, ...]]], given: Mapping[str, int]
) -> None:
    for rank, digits in relations:
        symbols = [size_symbol(digit) for digit in digits]
        whole, outer = size_symbol(rank), known[symbols[0]]
        tile = math.prod(known[symbol] for symbol in symbols[1:])
        needed = -(-known[whole] // tile)
        if outer == needed:
            continue
        if len(digits) == 1:
            raise InputError(
                f"{symbols[0]} and {whole} must be equal, because {digits[0]!r} and {rank!r} index the same rank of a "
                f"tensor, but are {outer} and {known[whole]}",
                hint=f"give one of the two, or use {rank!r} for both",
            )
        raise InputError(
            f"{symbols[0]} must be {needed} = ceil({whole} / {'*'.join(symbols[1:])}) = ceil({known[whole]} / {tile}), "
            f"not {outer}",
            hint=f"leave {symbols[0]} out" if symbols[0] in given else f"give {whole} alone",
        )


def merged_symbols(cascade: Cascade, given: Iterable[str]) -> tuple[str, ...]:
    """Return the size symbols of ranks, all digits of a partition replaced by the rank they make up."""
    ranks = list(given)
    merged = True
    while merged:
        merged = False
        for digits, whole in cascade.partitions.items():
            if set(digits) <= set(ranks):
                ranks[ranks.index(digits[0])] = whole
                ranks = [rank for rank in ranks if rank not in digits[1:]]
                merged = True
    return tuple(size_symbol(rank) for rank in ranks)


def _flat_partitions(cascade: Cascade, ranks: Iterable[str]) -> dict[tuple[str, ...], str]:
    """Return the partitions whose digits are all among ``ranks``, partitioned digits spelled out."""
    there = set(ranks)
    found = dict(cascade.partitions)
    for _ in cascade.partitions:
        for digits, whole in list(found.items()):
            for inner, middle in cascade.partitions.items():
                if middle in digits:
                    place = digits.index(middle)
                    found.setdefault((*digits[:place], *inner, *digits[place + 1 :]), whole)
    return {digits: whole for digits, whole in found.items() if set(digits) <= there}


def points(cascade: Cascade, einsum: Einsum, sizes: Mapping[str, int]) -> int:
    """Return the number of points that ``einsum`` touches, its filter and partial tiles taken into account.

    The number is exact. Its cost grows with the product of the filtered ranks but the largest, not with all points.
    """
    filtered = {rank for condition in einsum.conditions for rank in condition.ranks}
    for condition in einsum.conditions:
        if not condition.ranks and not _COMPARE[condition.comparison](condition.difference(sizes)[1], 0):
            return 0
    partial = _flat_partitions(cascade, einsum.ranks) if filtered else {}
    for digits in partial:
        # A filter on one digit ties up its whole partition, whose last tile may be partial.
        if filtered & set(digits):
            filtered |= set(digits)
    free = merged_symbols(cascade, (rank for rank in einsum.ranks if rank not in filtered))
    outside = math.prod(sizes[symbol] for symbol in free)
    return outside * _filtered_points(sorted(filtered), einsum.conditions, partial, sizes) if filtered else outside


def _filtered_points(
    ranks: list[str],
    conditions: tuple[Condition, ...],
    partial: Mapping[tuple[str, ...], str],
    sizes: Mapping[str, int],
) -> int:
    """Count the points of ``ranks`` that pass: enumerate all ranks but the largest, whose points form an interval."""
    extents = {rank: sizes[size_symbol(rank)] for rank in ranks}
    inner = max(ranks, key=lambda rank: (extents[rank], rank))
    outer = [rank for rank in ranks if rank != inner]
    number = math.prod(extents[rank] for rank in outer)
    tests: list[tuple[dict[str, int], int, str]] = []
    for condition in conditions:
        coefficients, constant = condition.difference(sizes)
        tests.append((coefficients, constant, condition.comparison))
    for digits, whole in partial.items():
        if set(digits) <= set(ranks):
            strides = {
                digit: math.prod(sizes[size_symbol(later)] for later in digits[place + 1 :])
                for place, digit in enumerate(digits)
            }
            tests.append((strides, -sizes[size_symbol(whole)], "<"))
    total = 0
    for start in range(0, number, _CHUNK_POINTS):
        flat = np.arange(start, min(start + _CHUNK_POINTS, number), dtype=np.int64)
        grid = np.unravel_index(flat, [extents[rank] for rank in outer]) if outer else ()
        coordinates = dict(zip(outer, grid, strict=True))
        total += _count_intervals(coordinates, flat.size, inner, extents[inner], tests)
    return total


def _count_intervals(
    coordinates: Mapping[str, np.ndarray[tuple[int], np.dtype[np.intp]]],
    number: int,
    inner: str,
    extent: int,
    tests: list[tuple[dict[str, int], int, str]],
) -> int:
    """Count (outer point, inner coordinate) pairs that pass all ``tests``: affine values compared with 0."""
    low = np.zeros(number, dtype=np.int64)
    high = np.full(number, extent - 1, dtype=np.int64)
    holes: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
    for coefficients, constant, comparison in tests:
        rest = np.full(number, constant, dtype=np.int64)
        for rank, factor in coefficients.items():
            if rank != inner:
                rest += factor * coordinates[rank]
        slope = coefficients.get(inner, 0)
        # slope * x + rest OP 0 with whole numbers: strict comparisons move by one, equalities are both bounds.
        bounds = {"<=": [(1, 0)], "<": [(1, 1)], ">=": [(-1, 0)], ">": [(-1, 1)], "==": [(1, 0), (-1, 0)], "!=": []}
        for sign, strict in bounds[comparison]:
            a, b = sign * slope, sign * rest + strict  # a * x + b <= 0
            if a > 0:
                high = np.minimum(high, -b // a)
            elif a < 0:
                low = np.maximum(low, -(-b // -a))
            else:
                high = np.where(b <= 0, high, -1)
        if comparison == "!=":
            if slope == 0:
                high = np.where(rest != 0, high, -1)
            else:
                holes.append(np.where(-rest % slope == 0, -rest // slope, -1))
    total = int(np.maximum(high - low + 1, 0).sum())
    if holes:
        stacked = np.sort(np.stack(holes), axis=0)
        distinct = np.ones_like(stacked, dtype=bool)
        distinct[1:] = stacked[1:] != stacked[:-1]
        total -= int((distinct & (stacked >= low) & (stacked <= high)).sum())
    return total
