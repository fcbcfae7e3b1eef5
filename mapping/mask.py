"""Filters as masks over tiles: which tiles they empty, and whether those may be skipped."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from accel.cascade import Cascade, Einsum
from accel.errors import InputError, Problem
from accel.expression import Access, Condition, Expression, Number, Operation
from accel.schedule import MaskedTiles, Plan

__all__ = ["Mask", "find_mask", "mask_problems", "spans"]

Ints: TypeAlias = NDArray[np.int64]

_FLIPPED = {"<=": ">=", "<": ">", ">=": "<=", ">": "<", "==": "=="}
_RUN = "set masked_tiles: run in the plan, which runs them like all others"


@dataclass(frozen=True, kw_only=True)
class Mask:
    """The filters of a cascade, seen from the tiles of a plan.

    Parameters
    ----------
    rank : str
        The split rank whose tiles are skipped.
    row : str, optional
        The other rank that filters mention: along each of its tiles those of ``rank`` are one span. None if there is
        none.
    filters : tuple of tuple of Condition
        The filters of the Einsums that have one, each once.
    """

    rank: str
    row: str | None
    filters: tuple[tuple[Condition, ...], ...]


def _filters(cascade: Cascade) -> tuple[tuple[Condition, ...], ...]:
    return tuple(dict.fromkeys(einsum.conditions for einsum in cascade.einsums if einsum.conditions))


def _mentioned(cascade: Cascade, plan: Plan) -> tuple[str, ...]:
    """Return the ranks that filters mention, parts of a split as the rank that is split."""
    ranks = (rank for filter_ in _filters(cascade) for condition in filter_ for rank in condition.ranks)
    return tuple(dict.fromkeys(plan.split_of.get(rank, rank) for rank in ranks))


def find_mask(cascade: Cascade, plan: Plan) -> Mask | None:
    """Return the mask of a cascade that ``mask_problems`` accepts; None if no tile is to be skipped."""
    if not _filters(cascade) or plan.masked_tiles is MaskedTiles.RUN:
        return None
    rank = _masked_rank(cascade, plan)
    if rank is None:
        return None
    row = next((each for each in _mentioned(cascade, plan) if each != rank), None)
    return Mask(rank=rank, row=row, filters=_filters(cascade))


def _masked_rank(cascade: Cascade, plan: Plan) -> str | None:
    """Return the first split rank that filters mention and that no output has: what a tile adds is summed up there."""
    written = {rank for name in cascade.outputs for rank in cascade.einsum(name).output.ranks}
    return next(
        (
            rank
            for rank in _mentioned(cascade, plan)
            if rank in plan.splits and not written & {rank, *plan.splits[rank]}
        ),
        None,
    )


def mask_problems(cascade: Cascade, plan: Plan) -> Iterator[Problem]:
    """Yield why tiles that the filters empty cannot be skipped."""
    if not _filters(cascade) or plan.masked_tiles is MaskedTiles.RUN:
        return
    mentioned = _mentioned(cascade, plan)
    rank = _masked_rank(cascade, plan)
    if rank is None:
        yield Problem(
            message="a filter must mention a split rank that no output has for empty tiles to be skipped, but those of "
            f"cascade {cascade.name!r} mention {', '.join(mentioned)}",
            hint=_RUN,
        )
        return
    if len(mentioned) > 2:
        yield Problem(
            message=f"filters must mention two ranks at most for empty tiles to be skipped, but those of cascade "
            f"{cascade.name!r} mention {', '.join(mentioned)}",
            hint=_RUN,
        )
    for condition in dict.fromkeys(each for filter_ in _filters(cascade) for each in filter_):
        if condition.comparison not in _FLIPPED:
            yield Problem(
                message=f"a filter must compare by {', '.join(_FLIPPED)} for empty tiles to be skipped, but one is "
                f"'{condition}'",
                hint=_RUN,
            )
    others = [each for each in plan.splits if each not in mentioned]
    if others:
        yield Problem(
            message=f"no rank but those of the filters ({', '.join(mentioned)}) may be split for empty tiles to be "
            f"skipped, but {', '.join(others)} {'is' if len(others) == 1 else 'are'}",
            hint=_RUN,
        )
    if len(plan.splits[rank]) > 2:
        yield Problem(
            message=f"rank {rank!r} must be split into two for empty tiles along it to be skipped, not into "
            f"{', '.join(plan.splits[rank])}",
            hint=_RUN,
        )
    yield from _unlike_rows(cascade, plan, rank)
    changed = _changed(cascade, plan, rank)
    if changed is not None:
        yield Problem(
            message=f"{changed!r} must stay as it is where filters leave no point of a tile along {rank!r} for that "
            "tile to be skipped, but this does not follow from its expression",
            hint=f"filter it too, or {_RUN}",
        )


def _unlike_rows(cascade: Cascade, plan: Plan, rank: str) -> Iterator[Problem]:
    """Yield each Einsum over the masked rank alone: its tiles would have to wait for the last row that wants them."""
    for row in (each for each in plan.splits if each != rank):
        parts = {row, *plan.splits[row]}
        for einsum in cascade.einsums:
            if not einsum.is_initial and not parts & set(einsum.ranks):
                yield Problem(
                    message=f"every Einsum must run over rank {row!r} for empty tiles to be skipped, but "
                    f"{einsum.name!r} does not",
                    hint=_RUN,
                )


# What a tile without points does -------------------------------------------------------------------------------------

_Known: TypeAlias = float | str
"""What is known of a value: a number that all its elements are, or the running tensor whose old value they are."""

_IDENTITY = {"add": 0.0, "max": -math.inf, "min": math.inf}


def _changed(cascade: Cascade, plan: Plan, rank: str) -> str | None:
    """Return a tensor that a tile changes in which no filter leaves a point; None if there is none.

    Filtered Einsums give the identity of their reduction there, or 0. From these numbers the others follow, as far as
    they do: ``max(R, -inf)`` is the old R, ``exp(R - R)`` is 1, ``0 + R * 1`` is the old R.
    """
    parts = {rank, *plan.splits[rank]}
    known: dict[str, _Known | None] = {}
    for einsum in cascade.einsums:
        if einsum.is_initial or not parts & set(einsum.ranks):
            continue
        value = _value(einsum, known, parts)
        name, reduction = einsum.name, einsum.reduction
        if einsum.iterative_rank in parts:
            if value != name:
                return name
        elif reduction is not None and not parts & set(einsum.output.ranks):  # summed up over the tiles
            if value != _IDENTITY.get(reduction.operator):
                return name
            continue
        known[name] = value
    return None


def _value(einsum: Einsum, known: Mapping[str, _Known | None], parts: set[str]) -> _Known | None:
    operator = einsum.reduction.operator if einsum.reduction is not None else None
    if einsum.conditions:
        return 0.0 if operator is None else _IDENTITY.get(operator)

    def follow(node: Expression) -> _Known | None:
        if isinstance(node, Number):
            return node.value
        if isinstance(node, Access):
            running = next((i.shift for i in node.indices if i.shift is not None and i.shift[0] in parts), None)
            if running is not None and running[1] == 0 and node.tensor not in known:
                return node.tensor  # where it is no running value the name is equal to nothing that counts
            return known.get(node.tensor)
        return (
            _operate(node.operator, [follow(each) for each in node.operands]) if isinstance(node, Operation) else None
        )

    value = follow(einsum.expression)
    # A sum of zeros is 0, the largest of equal values is that value.
    same = operator is None or (value == 0.0 if operator == "add" else isinstance(value, float))
    return value if same else None


def _operate(operator: str, operands: list[_Known | None]) -> _Known | None:
    """Return what is known of a result; finite values are taken for granted where a factor is 0."""
    first, *rest = operands
    second = rest[0] if rest else None
    if operator == "exp":
        return math.exp(first) if isinstance(first, float) and first <= 0 else None
    if operator == "subtract" and isinstance(first, str) and first == second:
        return 0.0
    if operator in ("subtract", "divide") and second == (0.0 if operator == "subtract" else 1.0):
        return first
    neutral = {"add": 0.0, "multiply": 1.0, "max": -math.inf, "min": math.inf}.get(operator)
    if neutral is None:
        return None
    if operator == "multiply" and 0.0 in (first, second):
        return 0.0
    if first == neutral:
        return second
    return first if second == neutral else None


# Which tiles are empty -----------------------------------------------------------------------------------------------


def spans(mask: Mask, plan: Plan, sizes: Mapping[str, int]) -> tuple[Ints, Ints]:
    """Return for each tile of ``mask.row`` the first and the last tile of ``mask.rank`` that run with it.

    These are the first and the last in which a filter leaves a point; where none does, the last tile of all runs alone.

    Parameters
    ----------
    mask : Mask
        The filters.
    plan : Plan
        The splits.
    sizes : mapping of str to int
        All sizes, those of tiles among them.

    Returns
    -------
    first, last : ndarray[row tiles], int64

    Raises
    ------
    InputError
        A filter takes the parts of a split rank otherwise than as its coordinate.
    """
    conditions = tuple(
        tuple((*_coefficients(mask, plan, condition, sizes), condition.comparison) for condition in filter_)
        for filter_ in mask.filters
    )
    rows = sizes[mask.row.upper()] if mask.row is not None else 1
    split = mask.row is not None and mask.row in plan.splits
    row_tile = sizes[plan.splits[mask.row][-1].upper()] if mask.row is not None and split else rows
    return _spans(conditions, rows, row_tile, sizes[mask.rank.upper()], sizes[plan.splits[mask.rank][-1].upper()])


def _coefficients(mask: Mask, plan: Plan, condition: Condition, sizes: Mapping[str, int]) -> tuple[int, int, int]:
    """Return row coefficient, masked coefficient and constant of ``left - right``, by whole coordinates."""
    coefficients, constant = condition.difference(sizes)
    found = {mask.row: 0, mask.rank: 0}
    for rank in found:
        if rank is None:
            continue
        parts = plan.splits.get(rank, ())
        if rank in coefficients:
            found[rank] = coefficients.pop(rank)
            continue
        strides = [math.prod(sizes[inner.upper()] for inner in parts[place + 1 :]) for place in range(len(parts))]
        given = [coefficients.pop(part, 0) for part in parts]
        unit = given[-1] if given else 0
        if given != [unit * stride for stride in strides]:
            raise InputError(
                f"a filter must take {', '.join(parts)} as the coordinate of {rank!r} for empty tiles to be skipped, "
                f"but one is '{condition}'",
                hint=_RUN,
            )
        found[rank] = unit
    return found[mask.row] if mask.row is not None else 0, found[mask.rank], constant


@lru_cache(maxsize=8)
def _spans(
    filters: tuple[tuple[tuple[int, int, int, str], ...], ...], rows: int, row_tile: int, size: int, tile: int
) -> tuple[Ints, Ints]:
    tiles, count = -(-rows // row_tile), -(-size // tile)
    first, last = np.full(tiles, count - 1, dtype=np.int64), np.full(tiles, -1, dtype=np.int64)
    starts = np.arange(0, rows, row_tile)
    for conditions in filters:
        low, high = _interval(conditions, rows, size)
        there = low <= high
        low = np.where(there, low // tile, count - 1)
        high = np.where(there, high // tile, -1)
        first = np.minimum(first, np.minimum.reduceat(low, starts))
        last = np.maximum(last, np.maximum.reduceat(high, starts))
    last = np.where(last < 0, count - 1, last)
    first.flags.writeable = last.flags.writeable = False  # shared between all who ask
    return first, last


@lru_cache(maxsize=4)
def _interval(conditions: tuple[tuple[int, int, int, str], ...], rows: int, size: int) -> tuple[Ints, Ints]:
    """Return for each row the lowest and the highest coordinate that passes all conditions."""
    row = np.arange(rows, dtype=np.int64)
    low, high = np.zeros(rows, dtype=np.int64), np.full(rows, size - 1, dtype=np.int64)
    for row_factor, factor, constant, comparison in conditions:
        rest = row * row_factor + constant  # factor * x + rest is compared with 0
        if factor < 0:
            factor, rest, comparison = -factor, -rest, _FLIPPED[comparison]
        if factor == 0:
            passed = {"<=": rest <= 0, "<": rest < 0, ">=": rest >= 0, ">": rest > 0, "==": rest == 0}[comparison]
            high = np.where(passed, high, -1)
            continue
        if comparison in ("<=", "<", "=="):
            high = np.minimum(high, -(rest + (comparison == "<")) // factor)
        if comparison in (">=", ">", "=="):
            low = np.maximum(low, -((rest - (comparison == ">")) // factor))
    return low, high
