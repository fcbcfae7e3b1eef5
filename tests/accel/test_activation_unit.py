"""The activation contract: proven errors, smallest tables, and functions that are what they are called."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accel.activation_unit import ACTIVATIONS, ActivationUnit, TableShape, fitting_output
from accel.errors import InputError
from accel.numerics import FixedPoint, Overflow, Rounding
from rtl.registry import find_unit

INPUT = FixedPoint.parse("s16f12,nearest_even,saturate")


def unit(function: str = "gelu", max_error: float = 1e-4, **changes: object) -> ActivationUnit:
    """An activation of 16-bit numbers."""
    settings: dict[str, object] = {
        "function": function,
        "max_error": max_error,
        "lanes": 1,
        "input_format": INPUT,
        "output_format": fitting_output(function, max_error, INPUT),
    }
    return ActivationUnit(**(settings | changes))  # type: ignore[arg-type]


def exponential(x: float) -> float:
    """e**x, large numbers cut off where the functions below no longer see them."""
    return math.exp(min(x, 300.0))


PLAIN = {
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
    "gelu-tanh": lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))),
    "quick-gelu": lambda x: x / (1 + exponential(-1.702 * x)),
    "silu": lambda x: x / (1 + exponential(-x)),
    "softplus": lambda x: math.log(1 + math.exp(x)) if x < 300 else x,
    "mish": lambda x: x * math.tanh(math.log(1 + exponential(x))),
    "sigmoid": lambda x: 1 / (1 + exponential(-x)),
    "tanh": math.tanh,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_a_function_is_what_its_name_says_and_its_halves_meet_it_far_out(name: str) -> None:
    function = ACTIVATIONS[name]
    points = np.linspace(-12, 12, 241)
    assert np.allclose(function.exact(points), [PLAIN[name](float(x)) for x in points], rtol=0, atol=1e-13)
    for half, x in ((function.positive, 40.0), (function.negative, -40.0)):
        assert float(function.exact(np.array(x))) == pytest.approx(half.slope * x + half.offset, abs=1e-12)
    residuals = [
        half.sign * (function.exact(x) - half.slope * x - half.offset)
        for half, x in ((function.positive, points[121:]), (function.negative, -points[121:]))
    ]
    assert np.allclose(*residuals, atol=1e-13) == function.symmetric
    assert min(residual.min() for residual in residuals) > -1e-13


@pytest.mark.parametrize(("max_error", "most_bits"), [(1e-3, 224), (1e-4, 629), (1e-5, 1739)])
def test_gelu_keeps_its_error_in_few_rom_bits(max_error: float, most_bits: int) -> None:
    one = unit("gelu", max_error)
    assert one.worst_error <= max_error
    assert one.table.rom_bits == most_bits


def test_one_multiplier_costs_a_larger_table() -> None:
    one = unit("gelu", 1e-3, max_degree=1)
    assert (one.table.degree, one.table.rom_bits) == (1, 667)
    assert one.worst_error <= 1e-3
    assert one.latency_cycles == unit("gelu", 1e-3).latency_cycles - 2


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_kept_shape_of_a_default_is_what_the_search_finds(name: str) -> None:
    default = find_unit(name).default
    assert replace(default, shape=None).table == default.table
    assert default.max_error / 2 < default.worst_error <= default.max_error


@st.composite
def small_units(draw: st.DrawFn) -> ActivationUnit:
    """Any unit with a narrow input."""
    function = draw(st.sampled_from(sorted(ACTIVATIONS)))
    width = draw(st.integers(4, 10))
    source = FixedPoint(
        signed=True,
        width_bits=width,
        fraction_bits=draw(st.integers(0, width + 2)),
        rounding=Rounding.NEAREST_EVEN,
        overflow=Overflow.SATURATE,
    )
    fraction = draw(st.integers(2, 12))
    rounding = draw(st.sampled_from(Rounding))
    target = FixedPoint(
        signed=draw(st.booleans()),
        width_bits=draw(st.integers(2, 16)),
        fraction_bits=fraction,
        rounding=rounding,
        overflow=Overflow.SATURATE,
    )
    step = target.resolution / (1 if rounding is Rounding.TRUNCATE else 2)
    max_error = step * draw(st.floats(1.0, 40.0))
    assume(max_error <= 1 / 8)
    try:
        return ActivationUnit(
            function=function,
            max_error=max_error,
            lanes=1,
            input_format=source,
            output_format=target,
            max_degree=draw(st.integers(1, 2)),
        )
    except InputError as error:
        assert "leave room" in str(error)
        assume(False)
        raise


@given(small_units())
@settings(max_examples=80)
def test_every_result_of_any_unit_is_within_its_error(one: ActivationUnit) -> None:
    codes = range(one.input_format.min_code, one.input_format.max_code + 1)
    target = one.output_format
    for code, result in zip(codes, one.results.tolist(), strict=True):
        exact = min(max(PLAIN[one.function](code * one.input_format.resolution), target.min_value), target.max_value)
        assert target.min_code <= result <= target.max_code
        assert abs(result * target.resolution - exact) <= one.max_error * (1 + 1e-9)


def test_the_most_negative_code_does_not_wrap() -> None:
    for name, expected in (("gelu", 0.0), ("softplus", 0.0), ("sigmoid", 0.0), ("tanh", -1.0)):
        one = unit(name)
        assert abs(one.output_format.to_real(one.results[:1])[0] - expected) < 5e-4


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_a_fitting_output_holds_all_results_and_rounds_a_third_of_the_error(name: str) -> None:
    for max_error in (3e-3, 1e-4, 7e-6):
        target = fitting_output(name, max_error, INPUT)
        exact = ACTIVATIONS[name].exact(INPUT.to_real(np.arange(INPUT.min_code, INPUT.max_code + 1)))
        assert max_error / 6 < target.resolution / 2 <= max_error / 3
        assert target.min_value - target.resolution < exact.min()
        assert exact.max() < target.max_value + target.resolution


def test_a_shape_is_used_as_given() -> None:
    one = unit(shape=TableShape(degree=2, low_bits=8, fraction_bits=17))
    assert (one.table.degree, one.table.low_bits, one.table.fraction_bits) == (2, 8, 17)
    assert one.worst_error <= one.max_error
