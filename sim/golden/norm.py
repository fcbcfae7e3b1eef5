"""Golden model of the normalisation units, by the contract of ``accel.norm_unit``."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from accel.errors import InputError
from accel.norm_unit import NormUnit
from accel.numerics import round_shift
from sim.golden.mantissa import mantissa_function

__all__ = ["exact_norm", "norm"]

Codes = NDArray[np.int64]


def norm(unit: NormUnit, rows: Sequence[Codes]) -> tuple[Codes, ...]:
    """Return the output codes for ``rows`` of input codes (ndarray[row length], int64).

    Raises
    ------
    InputError
        A row is empty or too long, or a code is outside the input format.
    """
    return tuple(_row(unit, index, row) for index, row in enumerate(rows))


def _row(unit: NormUnit, index: int, row: Codes) -> Codes:
    if not 1 <= len(row) <= unit.capacity:
        raise InputError(f"row {index} must have 1 to {unit.capacity} numbers, not {len(row)}", hint="raise max_length")
    low, high = unit.input_format.min_code, unit.input_format.max_code
    if row.min() < low or row.max() > high:
        raise InputError(
            f"row {index} must have codes from {low} to {high}, not {int(row.min())} to {int(row.max())}",
            hint="quantize the numbers by the input format",
        )
    count, total, squares = _statistics(unit, row)
    exponent, y = mantissa_function(unit.rsqrt, count * squares - total**2 + count**2 * unit.epsilon_code)
    target = unit.output_format
    shift = unit.rsqrt.result_fraction_bits + exponent // 2 - target.fraction_bits
    return target.fit(round_shift((count * row.astype(np.int64) - total) * y, shift, target.rounding))


def _statistics(unit: NormUnit, row: Codes) -> tuple[int, int, int]:
    """Return n, S and Q."""
    numbers = row.astype(np.int64)
    return len(row), int(numbers.sum()) if unit.function == "layernorm" else 0, int((numbers * numbers).sum())


def exact_norm(unit: NormUnit, row: Codes) -> NDArray[np.float64]:
    """Return the float64 function of a row, in two passes as textbooks do, brought into the range of the output."""
    x = unit.input_format.to_real(row)
    if unit.function == "layernorm":
        x = x - x.mean()
    epsilon = math.ldexp(unit.epsilon_code, -2 * unit.input_format.fraction_bits)
    result = x / math.sqrt((x * x).mean() + epsilon)
    return np.clip(result, unit.output_format.min_value, unit.output_format.max_value)
