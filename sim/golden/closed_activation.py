"""Golden model of the activation units without a table, by the contract of ``accel.closed_activation_unit``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accel.checks import check_codes
from accel.closed_activation_unit import ClosedActivationUnit

__all__ = ["closed_activation"]

Codes = NDArray[np.int64]


def closed_activation(unit: ClosedActivationUnit, codes: Codes) -> Codes:
    """Return the output codes of the unit for input ``codes`` (ndarray[...], int64).

    Raises
    ------
    InputError
        A code is outside the input format.
    """
    check_codes(codes, unit.input_format)
    each, place = np.unique(codes, return_inverse=True)
    totals = np.array([_total(unit, int(code)) for code in each], np.int64)
    return unit.output_format.convert(totals, unit.value_fraction_bits)[place].reshape(codes.shape)


def _total(unit: ClosedActivationUnit, x: int) -> int:
    form, places, finer = unit.activation, unit.value_fraction_bits, unit.edge_fraction_bits
    a = -x if x < 0 else x
    d = max(unit.edge_code - a * 2 ** (finer - unit.input_format.fraction_bits), 0)
    value, value_bits = 0, places
    if form.edge_power:
        value, value_bits = (d, finer) if form.edge_power == 1 else (d * d // (1 << finer), finer)
        if form.distance_power:
            value, value_bits = a * value, value_bits + unit.input_format.fraction_bits
        value = value * unit.factor_code // (1 << (value_bits + unit.factor_fraction_bits - places))
    half = form.halves[x < 0]
    line = half.slope * x * (1 << (places - unit.input_format.fraction_bits)) + half.offset * (1 << places)
    return line + half.sign * value
