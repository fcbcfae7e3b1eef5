"""No row overflows a width of the norms, at the corners of their parameters: exact integers of the worst rows."""

from __future__ import annotations

import itertools

import pytest

from accel.errors import InputError
from accel.norm_unit import NORMS, NormUnit
from accel.numerics import FixedPoint

CORNERS = list(itertools.product((1, 5, 1024, 16384), (1, 7, 64), (4, 12, 18), (0.0, 1.0)))


@pytest.mark.parametrize("function", NORMS)
def test_no_row_overflows_sums_denominator_or_distance(function: str) -> None:
    checked = 0
    for max_length, lanes, width, epsilon in CORNERS:
        try:
            unit = NormUnit(
                function=function,
                max_length=max_length,
                lanes=lanes,
                input_format=FixedPoint.parse(f"s{width}f{width // 2},truncate,saturate"),
                output_format=FixedPoint.parse("s12f8,nearest_even,saturate"),
                epsilon=epsilon,
            )
        except InputError as error:
            assert "the denominator must fit" in str(error)
            continue
        low, high, n = unit.input_format.min_code, unit.input_format.max_code, unit.capacity
        for lows in {0, 1, n // 2, n - 1, n}:  # a row of ends of the range: what is inside is nearer to every bound
            total, squares = lows * low + (n - lows) * high, lows * low**2 + (n - lows) * high**2
            mean = total if unit.centred else 0
            denominator = n * squares - mean**2 + n**2 * unit.epsilon_code
            assert n < 1 << unit.count_bits
            assert -(1 << unit.sum_bits - 1) <= total < 1 << unit.sum_bits - 1
            assert squares < 1 << unit.square_sum_bits
            assert 1 <= denominator < 1 << unit.rsqrt.value_bits
            for x in (low, high):
                assert -(1 << unit.centre_bits - 1) <= n * x - mean < 1 << unit.centre_bits - 1
        assert unit.square_sum_bits <= (n * low**2).bit_length()
        checked += 1
    assert checked > len(CORNERS) // 2
