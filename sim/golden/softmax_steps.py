"""The steps that the golden models of the softmax family share; contracts: ``accel.softmax_rows``, ``softmax_unit``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accel.errors import InputError
from accel.numerics import LinearTable, Rounding, round_shift
from accel.softmax_rows import PowerRows, ScoreRows
from accel.softmax_unit import SoftmaxUnit

__all__ = ["Codes", "accumulate", "check_row", "exponentials", "look_up", "reciprocal", "round_weights", "scaled"]

Codes = NDArray[np.int64]


def check_row(unit: ScoreRows, index: int, scores: Codes) -> None:
    """Check one row of score codes.

    Raises
    ------
    InputError
        It is empty or too long, or a code is outside the input format.
    """
    if not 1 <= len(scores) <= unit.capacity:
        raise InputError(
            f"row {index} must have 1 to {unit.capacity} scores, not {len(scores)}", hint="raise max_length"
        )
    low, high = unit.input_format.min_code, unit.input_format.max_code
    if scores.min() < low or scores.max() > high:
        raise InputError(
            f"row {index} must have codes from {low} to {high}, not {int(scores.min())} to {int(scores.max())}",
            hint="quantize the scores by the input format",
        )


def look_up(table: LinearTable, argument: Codes) -> Codes:
    """Return the results of a table."""
    segment = argument >> table.low_bits
    low = argument & ((1 << table.low_bits) - 1)
    base, drop = np.array(table.base, np.int64)[segment], np.array(table.drop, np.int64)[segment]
    return round_shift((base << table.low_bits) - drop * low, table.low_bits + table.guard_bits, Rounding.NEAREST_UP)


def scaled(unit: PowerRows, scores: Codes) -> Codes:
    """Step 1: t of each score."""
    factor, fraction_bits = unit.scale
    distance = unit.input_format.max_code - scores.astype(np.int64)
    shift = unit.input_format.fraction_bits + fraction_bits - unit.mantissa_fraction_bits
    return round_shift(distance * factor, shift, Rounding.NEAREST_UP)


def exponentials(unit: PowerRows, scores: Codes) -> tuple[Codes, Codes]:
    """Steps 1 to 3: mantissa w and halvings h of each score."""
    m = unit.mantissa_fraction_bits
    t = scaled(unit, scores)
    halvings = t >> m
    return (look_up(unit.exp2, t - (halvings << m)) if m else np.ones_like(t)), halvings


def accumulate(unit: PowerRows, mantissa: Codes, halvings: Codes) -> tuple[int, int, int]:
    """Step 4 for one row: the fewest halvings, the sum, and how many beats lowered them (raised the maximum).

    Between two beats that lower H the terms of all beats are shifted by the same H and simply added.
    """
    beats = -(-len(mantissa) // unit.lanes)
    padded = np.full(beats * unit.lanes, unit.max_halvings)
    padded[: len(halvings)] = halvings
    running = np.minimum.accumulate(padded.reshape(beats, unit.lanes).min(axis=1))
    behind = np.minimum(halvings - np.repeat(running, unit.lanes)[: len(halvings)], 62)
    terms = (mantissa << (unit.sum_fraction_bits - unit.mantissa_fraction_bits)) >> behind
    starts = np.concatenate([[0], 1 + np.flatnonzero(np.diff(running))])
    sums = np.add.reduceat(terms, starts * unit.lanes)
    total = 0
    for index, start in enumerate(starts):
        if index:
            total >>= int(running[starts[index - 1]] - running[start])
        total += int(sums[index])
    return int(running[-1]), total, len(starts) - 1


def reciprocal(unit: SoftmaxUnit, total: int) -> tuple[int, int]:
    """Step 5: 1/total as ``y * 2**-r * 2**-(e + sum_drop_bits)``, with total a plain integer."""
    r, k = unit.reciprocal_fraction_bits, unit.reciprocal.result_fraction_bits
    value = total >> unit.sum_drop_bits
    e = value.bit_length() - 1
    f = min(int(round_shift(value, e - r, Rounding.NEAREST_UP)), (2 << r) - 1)
    guess = int(look_up(unit.reciprocal, np.array([f - (1 << r)], np.int64))[0])
    doubled = ((1 << (r + k + 1)) - f * guess) >> k
    return int(round_shift(guess * doubled, k, Rounding.NEAREST_UP)), e


def round_weights(unit: SoftmaxUnit, products: Codes, shifts: Codes, mantissa: Codes, halvings: Codes) -> Codes:
    """Round ``products / 2**shifts`` to weights (the end of step 6)."""
    target = unit.output_format
    largest_code = min(1 << target.fraction_bits, target.max_code)
    if not unit.keep_row_sum:
        return np.minimum(round_shift(products, shifts, target.rounding), largest_code)
    q = unit.residue_bits
    v = round_shift(products, shifts - q, Rounding.TRUNCATE)
    largest = np.where(halvings == halvings.min(), mantissa, -1)
    top = int(largest.argmax())
    weights = np.empty_like(v)
    for lane in range(unit.lanes):
        places = np.arange(lane, len(v), unit.lanes)
        places = places[places != top]
        # Each weight is what the whole lane so far adds up to, less what was given before.
        gone = np.concatenate([[0], ((1 << (q - 1)) + np.cumsum(v[places])) >> q])
        weights[places] = np.diff(gone)
    weights[top] = -(-v[top] >> q)
    return np.minimum(weights, largest_code)
