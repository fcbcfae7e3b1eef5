"""The golden normalisations against real arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.errors import InputError
from accel.norm_unit import NORMS, NormUnit
from accel.numerics import FixedPoint, Overflow, Rounding
from sim.golden.norm import exact_norm, norm


def unit(function: str = "layernorm", **changes: object) -> NormUnit:
    """A unit of 16-bit numbers."""
    settings: dict[str, object] = {
        "function": function,
        "max_length": 768,
        "lanes": 1,
        "input_format": FixedPoint.parse("s16f10,nearest_even,saturate"),
        "output_format": FixedPoint.parse("s16f11,nearest_even,saturate"),
    }
    return NormUnit(**(settings | changes))  # type: ignore[arg-type]


def error_of(one: NormUnit, row: np.ndarray) -> float:
    """Largest distance from the exact function."""
    return float(np.abs(one.output_format.to_real(norm(one, [row])[0]) - exact_norm(one, row)).max())


@pytest.mark.parametrize("function", NORMS)
@pytest.mark.parametrize("mean", [0, 20000, -32000])
@pytest.mark.parametrize("deviation", [0.5, 30, 3000, 20000])
def test_random_rows_stay_within_the_bound_for_any_mean(function: str, mean: int, deviation: float) -> None:
    one = unit(function)
    random = np.random.default_rng(int(deviation))
    for length in (1, 2, 100, 768):
        row = np.clip(np.rint(random.normal(mean, deviation, length)), -32768, 32767).astype(np.int64)
        assert error_of(one, row) <= one.max_error


def test_the_bound_is_not_idle() -> None:
    one = unit()
    random = np.random.default_rng(1)
    rows = [np.rint(random.normal(0, 3000, 768)).astype(np.int64) for _ in range(100)]
    assert max(error_of(one, row) for row in rows) > one.max_error / 4


@st.composite
def units_and_rows(draw: st.DrawFn) -> tuple[NormUnit, np.ndarray]:
    """Any small unit with any legal row for it."""
    width = draw(st.integers(4, 18))
    source = FixedPoint(
        signed=True,
        width_bits=width,
        fraction_bits=draw(st.integers(-4, 18)),
        rounding=Rounding.NEAREST_EVEN,
        overflow=Overflow.SATURATE,
    )
    fraction = draw(st.integers(2, 10))
    target = FixedPoint(
        signed=True,
        width_bits=fraction + draw(st.integers(2, 6)),
        fraction_bits=fraction,
        rounding=draw(st.sampled_from(Rounding)),
        overflow=Overflow.SATURATE,
    )
    length = draw(st.integers(1, 40))
    one = NormUnit(
        function=draw(st.sampled_from(sorted(NORMS))),
        max_length=48,
        lanes=draw(st.sampled_from([1, 5])),
        input_format=source,
        output_format=target,
        epsilon=draw(st.sampled_from([0.0, 1e-5, 0.3])),
    )
    codes = st.integers(source.min_code, source.max_code)
    return one, np.array(draw(st.lists(codes, min_size=length, max_size=length)), np.int64)


@given(units_and_rows())
@settings(max_examples=150)
def test_the_bound_and_the_widths_hold_for_any_unit_and_any_row(case: tuple[NormUnit, np.ndarray]) -> None:
    one, row = case
    assert error_of(one, row) <= one.max_error + 1e-12
    count, total, squares = len(row), int(row.sum()), int((row * row).sum())
    centre = 0 if one.function == "rmsnorm" else total
    denominator = count * squares - centre**2 + count**2 * one.epsilon_code
    assert 0 < denominator < 1 << one.rsqrt.value_bits
    assert squares < 1 << one.square_sum_bits
    assert -(1 << one.sum_bits - 1) <= total < 1 << one.sum_bits - 1
    assert max(abs(count * int(code) - centre) for code in row) < 1 << one.centre_bits - 1


@pytest.mark.parametrize("corner", ["low", "high", "both"])
def test_the_widths_hold_for_the_longest_rows_of_the_largest_numbers(corner: str) -> None:
    one = unit(max_length=1024)
    row = np.full(1024, -32768 if corner == "low" else 32767)
    if corner == "both":
        row[::2] = -32768
    assert error_of(one, row) <= one.max_error
    assert 1 << one.sum_bits - 1 > 1024 * 32768
    assert 1 << one.square_sum_bits > 1024 * 32768**2


def test_equal_inputs_give_0_and_one_outlier_does_not_overflow() -> None:
    one = unit()
    for code in (-32768, -1, 0, 32767):
        assert set(norm(one, [np.full(768, code)])[0].tolist()) == {0}
    row = np.full(768, -32768)
    row[5] = 32767
    results = norm(one, [row])[0]
    assert results[5] == one.output_format.max_code
    assert error_of(one, row) <= one.max_error


def test_a_large_mean_costs_nothing_while_the_difference_of_rounded_means_loses_the_variance() -> None:
    one = unit()
    row = np.array([32000, 32001, 32002, 31999] * 192)
    assert error_of(one, row) <= one.max_error
    real = one.input_format.to_real(row).astype(np.float32)
    variance = float((real * real).mean(dtype=np.float32) - real.mean(dtype=np.float32) ** 2)
    true = float(real.astype(np.float64).var())
    assert abs(variance / true - 1) > 0.9


def test_wrong_rows_are_refused() -> None:
    one = unit(max_length=4)
    for row, message in (
        (np.zeros(5, int), "row 0 must have 1 to 4 numbers, not 5; raise max_length"),
        (
            np.array([40000]),
            "row 0 must have codes from -32768 to 32767, not 40000 to 40000; quantize the numbers by the input format",
        ),
    ):
        with pytest.raises(InputError) as caught:
            norm(one, [row])
        assert str(caught.value) == message
