"""Golden model of the reordered attention unit: bits and actions by the contract of ``accel.reordered_unit``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accel.errors import InputError
from accel.numerics import FixedPoint, LinearTable, Rounding, round_shift
from accel.reordered_schedule import AttentionJob
from accel.reordered_unit import REORDERED_ACTIONS, ReorderedUnit

__all__ = ["GoldenAttention", "Head", "exact_attention", "reordered_attention"]

Codes = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Head:
    """One head: its settings and its numbers.

    Parameters
    ----------
    job : AttentionJob
        Lengths and mask.
    queries : ndarray[queries, E], int64
        Codes of the query format.
    keys : ndarray[keys, E], int64
        Codes of the key format.
    values : ndarray[keys, F], int64
        Codes of the value format.
    """

    job: AttentionJob
    queries: Codes
    keys: Codes
    values: Codes


@dataclass(frozen=True, kw_only=True)
class GoldenAttention:
    """What the hardware must answer.

    Parameters
    ----------
    outputs : tuple of ndarray[queries, F], int64
        Codes of the output format, head by head.
    actions : dict of str to int
        How often each action of ``REORDERED_ACTIONS`` happens over all heads.
    """

    outputs: tuple[Codes, ...]
    actions: dict[str, int]


def _look_up(table: LinearTable, argument: Codes) -> Codes:
    segment = argument >> table.low_bits
    low = argument & ((1 << table.low_bits) - 1)
    base, drop = np.array(table.base, np.int64)[segment], np.array(table.drop, np.int64)[segment]
    return round_shift((base << table.low_bits) - drop * low, table.low_bits + table.guard_bits, Rounding.NEAREST_UP)


def _mantissa_exponent(unit: ReorderedUnit, scores: Codes) -> tuple[Codes, Codes]:
    """Steps 1 and 2: e**score as ``mantissa * 2**exponent``."""
    m = unit.weight_fraction_bits
    fractions = unit.query_format.fraction_bits + unit.key_format.fraction_bits + unit.log2_factor_fraction_bits
    scaled = round_shift(scores * unit.log2_factor, fractions - m, Rounding.NEAREST_UP)
    exponent = -(-scaled >> m)
    return _look_up(unit.exp2, (exponent << m) - scaled), exponent


def _floor_shift(numbers: Codes, amount: Codes) -> Codes:
    return round_shift(numbers, amount, Rounding.TRUNCATE)


def _accumulate(unit: ReorderedUnit, head: Head) -> tuple[Codes, Codes, int]:
    """Step 3 for all rows side by side, each in its own rotated order: A, S, and the number of rescales."""
    order, job = unit.schedule(head.job), head.job
    mantissa, exponent = _mantissa_exponent(unit, head.queries @ head.keys.T)
    visits = [[key for key in order.keys_of(query) if job.sees(query, key)] for query in range(job.queries)]
    total = np.zeros(job.queries, np.int64)
    outputs = np.zeros((job.queries, unit.value_features), np.int64)
    highest = np.array([exponent[query, seen[0]] for query, seen in enumerate(visits)])
    rescales = 0
    for step in range(max(map(len, visits))):
        rows = np.array([query for query, seen in enumerate(visits) if step < len(seen)])
        keys = np.array([visits[query][step] for query in rows])
        risen = np.maximum(highest[rows], exponent[rows, keys])
        rise = risen - highest[rows]
        rescales += int((rise > 0).sum())
        weight = _floor_shift(mantissa[rows, keys] << unit.guard_bits, risen - exponent[rows, keys])
        total[rows] = _floor_shift(total[rows], rise) + weight
        outputs[rows] = _floor_shift(outputs[rows], rise[:, None]) + weight[:, None] * head.values[keys]
        highest[rows] = risen
    return outputs, total, rescales


def _reciprocal(unit: ReorderedUnit, total: Codes) -> tuple[Codes, Codes]:
    """Step 4: 1 / total as ``y * 2**-r * 2**-e``."""
    r, k = unit.reciprocal_fraction_bits, unit.reciprocal.result_fraction_bits
    e = np.array([int(number).bit_length() - 1 for number in total], np.int64)
    f = np.minimum(round_shift(total, e - r, Rounding.NEAREST_UP), (2 << r) - 1)
    guess = _look_up(unit.reciprocal, f - (1 << r))
    doubled = ((1 << (r + k + 1)) - f * guess) >> k
    return round_shift(guess * doubled, k, Rounding.NEAREST_UP), e


def _one_head(unit: ReorderedUnit, head: Head) -> tuple[Codes, int]:
    outputs, total, rescales = _accumulate(unit, head)
    y, e = _reciprocal(unit, total)
    h = unit.quotient_fraction_bits
    quotient = _floor_shift(outputs, (e - h)[:, None])
    fractions = unit.value_format.fraction_bits - unit.output_format.fraction_bits
    shift = h + unit.reciprocal_fraction_bits + fractions
    return unit.output_format.fit(round_shift(quotient * y[:, None], shift, unit.output_format.rounding)), rescales


def reordered_attention(unit: ReorderedUnit, heads: Sequence[Head]) -> GoldenAttention:
    """Return the bits and actions of the unit for ``heads``.

    Raises
    ------
    InputError
        A job is longer than ``unit.max_length``, an array has another shape, or a code is out of its format's range.
    """
    actions = dict.fromkeys(REORDERED_ACTIONS, 0)
    outputs = []
    for index, head in enumerate(heads):
        _check_head(unit, index, head)
        found, rescales = _one_head(unit, head)
        outputs.append(found)
        for action, count in unit.actions(head.job, rescales=rescales).items():
            actions[action] += count
    return GoldenAttention(outputs=tuple(outputs), actions=actions)


def _check_head(unit: ReorderedUnit, index: int, head: Head) -> None:
    for name, length, features, element in (
        ("queries", head.job.queries, unit.key_features, unit.query_format),
        ("keys", head.job.keys, unit.key_features, unit.key_format),
        ("values", head.job.keys, unit.value_features, unit.value_format),
    ):
        codes: Codes = getattr(head, name)
        if codes.shape != (length, features):
            raise InputError(
                f"{name} of head {index} must have the shape ({length}, {features}), not {codes.shape}",
                hint="as its job and the unit say",
            )
        _check_range(f"{name} of head {index}", codes, element)


def _check_range(what: str, codes: Codes, element: FixedPoint) -> None:
    if codes.min() < element.min_code or codes.max() > element.max_code:
        raise InputError(
            f"{what} must have codes from {element.min_code} to {element.max_code}, "
            f"not {int(codes.min())} to {int(codes.max())}",
            hint=f"quantize them by {element}",
        )


def exact_attention(
    queries: NDArray[np.float64],
    keys: NDArray[np.float64],
    values: NDArray[np.float64],
    job: AttentionJob,
    scale: float,
) -> NDArray[np.float64]:
    """Return the float64 attention that the unit approximates, ndarray[queries, F].

    Parameters
    ----------
    queries, keys, values : ndarray, float64
        As in ``Head``, real numbers.
    job : AttentionJob
        The mask.
    scale : float
        Factor of the scores.
    """
    scores = queries @ keys.T * scale
    if job.causal:
        rows, columns = np.indices(scores.shape)
        scores = np.where(columns <= rows + job.offset, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    result: NDArray[np.float64] = weights @ values / weights.sum(axis=1, keepdims=True)
    return result
