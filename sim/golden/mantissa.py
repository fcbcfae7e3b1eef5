"""Golden model of the mantissa functions, by the contract of ``accel.mantissa_unit``: plain integers, one by one."""

from __future__ import annotations

from accel.mantissa_unit import MantissaUnit

__all__ = ["mantissa_function"]


def _half_up(number: int, shift: int) -> int:
    """Return ``number / 2**shift`` rounded half up."""
    return number << -shift if shift <= 0 else (number + (1 << (shift - 1))) >> shift


def mantissa_function(unit: MantissaUnit, value: int) -> tuple[int, int]:
    """Return ``e`` and ``y`` of a positive ``value``."""
    r, table = unit.fraction_bits, unit.table
    e = value.bit_length() - 1
    f = min(_half_up(value, e - r), 2 ** (r + 1) - 1)
    u = f - 2**r
    start = table.parts[0] if unit.function == "rsqrt" and e % 2 else 0
    segment, place = divmod(u, 2**table.low_bits)
    c0, c1, *c2 = table.coefficients[start + segment]
    slope = c1 + (c2[0] * place) // 2**table.low_bits if c2 else c1
    return e, _half_up(c0 * 2**table.low_bits + slope * place, table.value_fraction_bits - unit.result_fraction_bits)
