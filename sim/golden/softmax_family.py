"""Golden models of the softmax family beside the default, by the contracts of ``accel.softmax_family``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.numerics import Rounding, round_shift
from accel.softmax_family import (
    BlockSkipUnit,
    IntegerSoftmaxUnit,
    Log2SoftmaxUnit,
    LogSumExpUnit,
    OnlineSoftmaxUnit,
    ReluAttentionUnit,
    SigmoidAttentionUnit,
    SoftermaxUnit,
    SoftpickUnit,
    TopKSoftmaxUnit,
    TwoPassSoftmaxUnit,
    UnifiedMaxUnit,
)
from accel.softmax_family.elementwise import ElementwiseUnit
from accel.softmax_family.logarithm import LN2, LN2_FRACTION_BITS
from accel.softmax_family.online import EXACT_SUMS
from accel.softmax_unit import SoftmaxUnit
from sim.golden.activation import activation
from sim.golden.mantissa import mantissa_function
from sim.golden.softmax import exact_softmax, softmax
from sim.golden.softmax_steps import (
    Codes,
    accumulate,
    check_row,
    exponentials,
    reciprocal,
    round_weights,
    scaled,
)
from sim.golden.unified_max import unified_max

__all__ = ["GoldenRow", "exact_row", "golden_rows"]


@dataclass(frozen=True, kw_only=True)
class GoldenRow:
    """What a block must answer to a row.

    Parameters
    ----------
    codes : ndarray[places], int64
        Output codes, one for each place: beats times lanes; 0 where none is kept.
    keep : ndarray[places], bool
        Which places hold one.
    """

    codes: Codes
    keep: NDArray[np.bool_]


def golden_rows(unit: Any, rows: Sequence[Codes]) -> list[GoldenRow]:
    """Return the answers of any unit of the family to ``rows`` of score codes (ndarray[row length], int64).

    Raises
    ------
    InputError
        A row is empty or too long, or a code is outside the input format.
    """
    model = _MODELS[type(unit)]
    answers = []
    for index, row in enumerate(rows):
        check_row(unit, index, row)
        places = -(-len(row) // unit.lanes) * unit.lanes
        codes, keep = np.zeros(places, np.int64), np.zeros(places, bool)
        where, found = model(unit, row.astype(np.int64))
        codes[where], keep[where] = found, True
        answers.append(GoldenRow(codes=codes, keep=keep))
    return answers


def _weights(unit: SoftmaxUnit, row: Codes) -> tuple[Codes, Codes]:
    return np.arange(len(row)), softmax(unit, [row]).weights[0]


def _factors(unit: OnlineSoftmaxUnit, rises: Codes) -> list[tuple[int, int, int]]:
    """Return each rise with the mantissa and halvings of its exponential."""
    mantissa, halvings = exponentials(unit, unit.input_format.max_code - rises)
    return list(zip(rises.tolist(), mantissa.tolist(), halvings.tolist(), strict=True))


def _rescaled(unit: OnlineSoftmaxUnit, total: int, factor: tuple[int, int, int]) -> int:
    rise, mantissa, halvings = factor
    return total * mantissa >> (unit.mantissa_fraction_bits + halvings) if rise else total


def _online(unit: OnlineSoftmaxUnit, row: Codes) -> tuple[Codes, Codes]:
    top = unit.input_format.max_code
    grow = unit.sum_fraction_bits - unit.mantissa_fraction_bits
    running = np.maximum.accumulate(np.maximum.reduceat(row, np.arange(0, len(row), unit.lanes)))
    # A distance d has the exponential of the score d below the largest code.
    mantissa, halvings = exponentials(unit, top - (np.repeat(running, unit.lanes)[: len(row)] - row))
    added = np.add.reduceat((mantissa << grow) >> np.minimum(halvings, 62), np.arange(0, len(row), unit.lanes))
    sums = [int(beat) for beat in added]
    rises = running[EXACT_SUMS:] - running[:-EXACT_SUMS]
    for beat, factor in enumerate(_factors(unit, rises), EXACT_SUMS):
        sums[beat] += _rescaled(unit, sums[beat - EXACT_SUMS], factor)
    others = range(max(len(sums) - EXACT_SUMS, 0), len(sums) - 1)
    factors = _factors(unit, running[-1] - running[others.start : others.stop])
    total = sums[-1] + sum(_rescaled(unit, sums[beat], factor) for beat, factor in zip(others, factors, strict=True))
    largest = int(running[-1])
    y, e = reciprocal(unit, total)
    mantissa, halvings = exponentials(unit, top - (largest - row))
    shifts = (
        unit.mantissa_fraction_bits
        + unit.reciprocal_fraction_bits
        - unit.output_format.fraction_bits
        + halvings
        + (e + unit.sum_drop_bits - unit.sum_fraction_bits)
    )
    return np.arange(len(row)), round_weights(unit, mantissa * y, shifts, mantissa, halvings)


def _softpick(unit: SoftpickUnit, row: Codes) -> tuple[Codes, Codes]:
    (one,), (level,) = exponentials(unit, np.zeros(1, np.int64))
    mantissa, halvings = exponentials(unit, row)
    above = row > 0
    # Each difference counts in steps of the larger of the two exponentials.
    value = np.where(
        above,
        mantissa - (one >> np.clip(level - halvings, 0, 62)),
        one - (mantissa >> np.clip(halvings - level, 0, 62)),
    )
    halvings = np.minimum(halvings, level)
    fewest, total, _ = accumulate(unit, value, halvings)
    if not total:
        return np.arange(len(row)), np.zeros(len(row), np.int64)
    y, e = reciprocal(unit, total)
    shifts = (
        unit.mantissa_fraction_bits
        + unit.reciprocal_fraction_bits
        - unit.output_format.fraction_bits
        + (halvings - fewest)
        + (e + unit.sum_drop_bits - unit.sum_fraction_bits)
    )
    weights = round_weights(unit, value * y, shifts, value, halvings)
    return np.arange(len(row)), np.where(above, weights, 0)


def _elementwise(unit: ElementwiseUnit, row: Codes) -> tuple[Codes, Codes]:
    shifted = row + math.floor(math.ldexp(unit.bias, unit.input_format.fraction_bits) + 0.5)
    if isinstance(unit, SigmoidAttentionUnit):
        result, fraction_bits = activation(unit.activation, shifted), unit.output_format.fraction_bits + 1
    else:
        result, fraction_bits = np.maximum(shifted, 0), unit.input_format.fraction_bits
    factor = math.floor(math.ldexp(1 / unit.divisor, unit.factor_fraction_bits) + 0.5)
    return np.arange(len(row)), unit.output_format.convert(result * factor, fraction_bits + unit.factor_fraction_bits)


def _top_k(unit: TopKSoftmaxUnit, row: Codes) -> tuple[Codes, Codes]:
    weights = softmax(unit, [row]).weights[0]
    mantissa, halvings = exponentials(unit, row)
    order = np.lexsort((np.arange(len(row)), -mantissa, halvings))[: unit.k]
    return order, weights[order]


def _logarithm(unit: Log2SoftmaxUnit | LogSumExpUnit, row: Codes) -> int:
    """Step 5: L."""
    fewest, total, _ = accumulate(unit, *exponentials(unit, row))
    e, y = mantissa_function(unit.log2, total)
    return ((e - unit.sum_fraction_bits - fewest) << unit.log_fraction_bits) + y


def _log2_weights(unit: Log2SoftmaxUnit, row: Codes) -> tuple[Codes, Codes]:
    k = unit.log_fraction_bits
    cut = round_shift(scaled(unit, row), unit.mantissa_fraction_bits - k, Rounding.TRUNCATE)
    codes = round_shift(cut + _logarithm(unit, row), k, Rounding.NEAREST_UP)
    return np.arange(len(row)), np.clip(codes, 0, unit.output_format.max_code)


def _log_sum_exp(unit: LogSumExpUnit, row: Codes) -> tuple[Codes, Codes]:
    target = unit.output_format
    bits = unit.log_fraction_bits + LN2_FRACTION_BITS
    exact = (unit.input_format.max_code << (bits - unit.input_format.fraction_bits)) + _logarithm(unit, row) * LN2
    code = target.fit(round_shift(exact, bits - target.fraction_bits, target.rounding))
    return np.array([(-(-len(row) // unit.lanes) - 1) * unit.lanes]), code.reshape(1)


def _skip(unit: BlockSkipUnit, row: Codes) -> tuple[Codes, Codes]:
    size = unit.block_beats * unit.lanes
    starts = np.arange(0, len(row), size)
    largest = np.maximum.reduceat(row, starts)
    flags = (np.maximum.accumulate(largest) - largest > unit.distance_code).astype(np.int64)
    ends = np.minimum(starts + size, -(-len(row) // unit.lanes) * unit.lanes)
    return ends - unit.lanes, flags


_MODELS: Mapping[type, Callable[[Any, Codes], tuple[Codes, Codes]]] = {
    SoftmaxUnit: _weights,
    SoftermaxUnit: _weights,
    IntegerSoftmaxUnit: _weights,
    TwoPassSoftmaxUnit: _weights,
    OnlineSoftmaxUnit: _online,
    TopKSoftmaxUnit: _top_k,
    Log2SoftmaxUnit: _log2_weights,
    LogSumExpUnit: _log_sum_exp,
    BlockSkipUnit: _skip,
    SoftpickUnit: _softpick,
    UnifiedMaxUnit: lambda unit, row: (np.arange(len(row)), unified_max(unit, row)),
    SigmoidAttentionUnit: _elementwise,
    ReluAttentionUnit: _elementwise,
}


def exact_row(unit: Any, row: Codes) -> NDArray[np.float64]:
    """Return in float64 what a unit of the family approximates: a row's weights, or its log-sum-exp."""
    x = unit.input_format.to_real(row)
    if isinstance(unit, ElementwiseUnit):
        shifted = x + math.ldexp(unit.bias_code, -unit.input_format.fraction_bits)
        sigmoid = isinstance(unit, SigmoidAttentionUnit)
        found = (np.exp(-np.logaddexp(0.0, -shifted)) if sigmoid else np.maximum(shifted, 0.0)) / unit.divisor
        weights: NDArray[np.float64] = found if sigmoid else np.minimum(found, unit.output_format.max_value)
        return weights
    if isinstance(unit, SoftpickUnit):
        largest = max(0.0, float(x.max()))
        scale = np.exp(-largest)
        # (e**x - 1) * scale, near 0 without cancellation.
        terms: NDArray[np.float64] = np.where(
            x > 0, -np.exp(x - largest) * np.expm1(-x), np.expm1(np.minimum(x, 0)) * scale
        )
        total = float(np.abs(terms).sum())
        return np.maximum(terms, 0.0) / total if total else np.zeros_like(terms)
    if isinstance(unit, LogSumExpUnit):
        result = np.array([x.max() + math.log(np.exp(x - x.max()).sum())])
        clipped: NDArray[np.float64] = np.clip(result, unit.output_format.min_value, unit.output_format.max_value)
        return clipped
    return exact_softmax(x * (math.log(2) if unit.scale[0] == 1 else 1.0))
