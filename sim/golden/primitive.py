"""Golden model of the primitive units, by the contract of ``accel.primitive_unit``: plain integers, one by one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accel.checks import check_codes
from accel.numerics import FixedPoint, Overflow, Rounding
from accel.numerics.segments import SegmentTable
from accel.primitive_unit import PRIMITIVES, PrimitiveUnit

__all__ = ["exact_primitive", "primitive"]

Codes = NDArray[np.int64]


def primitive(unit: PrimitiveUnit, codes: Codes) -> Codes:
    """Return the output codes of the unit for input ``codes`` (ndarray[...], int64).

    Raises
    ------
    InputError
        A code is outside the input format.
    """
    check_codes(codes, unit.input_format)
    each, place = np.unique(codes, return_inverse=True)
    page = _Page(
        argument_bits=unit.argument_bits,
        exponents=(unit.lowest_exponent, unit.highest_exponent),
        multiplier=(unit.multiplier, unit.multiplier_fraction_bits) if unit.function == "exp" else (0, 0),
    )
    results = np.array([_one(unit, page, int(code)) for code in each], np.int64)
    return results[place].reshape(codes.shape)


class _Page(NamedTuple):
    """What the contract derives, read once for all numbers."""

    argument_bits: int
    exponents: tuple[int, int]
    multiplier: tuple[int, int]
    """log2(e), and its fraction bits."""


def _one(unit: PrimitiveUnit, page: _Page, x: int) -> int:
    target, bits, fraction_bits = unit.output_format, page.argument_bits, unit.input_format.fraction_bits
    part = exponent = base = 0
    if unit.function in ("exp2", "exp"):
        t = x * 2 ** (bits - fraction_bits)
        if unit.function == "exp":
            t = x * page.multiplier[0] // 2 ** (fraction_bits + page.multiplier[1] - bits)
        exponent, u = divmod(t, 2**bits)
    elif x == 0:
        return target.min_code if unit.function == "log2" else target.max_code
    else:
        e = x.bit_length() - 1
        u, c = x * 2 ** (bits - e) - 2**bits, e - fraction_bits
        if unit.function == "log2":
            base = c
        elif unit.function == "reciprocal":
            exponent = -c
        else:
            exponent, part = -(c // 2), c % 2
    exponent = min(max(exponent, page.exponents[0]), page.exponents[1])
    value, places = _value(unit.table, part, u), unit.table.value_fraction_bits - exponent
    return _fitted(target, base * 2**places + value, places - target.fraction_bits)


def _value(table: SegmentTable, part: int, u: int) -> int:
    segment, place = divmod(u, 1 << table.low_bits)
    c0, c1, *c2 = table.coefficients[segment + sum(table.parts[:part])]
    slope = c1 + c2[0] * place // (1 << table.low_bits) if c2 else c1
    return c0 * (1 << table.low_bits) + slope * place


def _fitted(target: FixedPoint, number: int, shift: int) -> int:
    """Return ``number / 2**shift`` rounded and fitted; the shift is 0 or more."""
    whole, rest = divmod(number, 1 << shift)
    doubled = 2 * rest
    if target.rounding is Rounding.NEAREST_UP:
        whole += doubled >= 1 << shift
    elif target.rounding is Rounding.NEAREST_EVEN:
        whole += doubled > 1 << shift or (doubled == 1 << shift and whole % 2 == 1)
    if target.overflow is Overflow.SATURATE:
        return min(max(whole, target.min_code), target.max_code)
    assert target.min_code <= whole <= target.max_code, "the description was checked"
    return whole


def exact_primitive(unit: PrimitiveUnit, codes: Codes) -> NDArray[np.float64]:
    """Return the float64 function of the coded inputs, in the range of the output: the truth that is approximated.

    At 0 a function of a mantissa is infinite, and so at an end of that range.
    """
    with np.errstate(divide="ignore"):
        exact = PRIMITIVES[unit.function].exact(unit.input_format.to_real(codes))
    return np.clip(exact, unit.output_format.min_value, unit.output_format.max_value)
