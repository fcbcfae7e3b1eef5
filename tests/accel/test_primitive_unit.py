"""The primitive contract: proven errors, smallest tables, and stand-ins with the errors that were published."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from accel.closed_activation_unit import CLOSED_ACTIVATIONS, ClosedActivationUnit
from accel.errors import InputError
from accel.numerics import FixedPoint, Rounding
from accel.numerics.segments import value_limits
from accel.primitive_unit import PRIMITIVES
from rtl.registry import find_unit
from sim.golden.activation import ALTERNATIVES
from sim.golden.closed_activation import closed_activation
from sim.golden.primitive import exact_primitive, primitive

PLAIN = {
    "exp2": lambda x: 2.0**x,
    "exp": math.exp,
    "reciprocal": lambda x: 1 / x,
    "rsqrt": lambda x: x**-0.5,
    "log2": math.log2,
}


@pytest.mark.parametrize("name", PRIMITIVES)
def test_all_65536_inputs_of_a_default_are_within_the_bound(name: str) -> None:
    unit = find_unit(name).default
    target = unit.output_format
    results = primitive(unit, unit.codes)
    assert np.array_equal(results, unit.results)
    values = unit.input_format.to_real(unit.codes).tolist()
    plain = np.array([min(max(PLAIN[name](value), target.min_value), target.max_value) for value in values])
    error = np.abs(target.to_real(results) - plain).max()
    assert error == pytest.approx(unit.worst_error, abs=1e-12)
    assert unit.max_error / 2 < unit.worst_error <= unit.max_error
    assert np.allclose(exact_primitive(unit, unit.codes), plain, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("name", "rom_bits"), [("exp2", 296), ("log2", 124)])
def test_the_kept_shape_of_a_default_is_what_the_search_finds(name: str, rom_bits: int) -> None:
    default = find_unit(name).default
    assert replace(default, shape=None).table == default.table
    assert default.table.rom_bits == rom_bits


def test_piecewise_linear_takes_a_larger_table_and_two_cycles_less() -> None:
    default = find_unit("exp2").default
    linear = replace(default, shape=None, max_degree=1)
    assert (linear.table.degree, linear.table.rom_bits) == (1, 1664)
    assert linear.latency_cycles == default.latency_cycles - 2
    assert linear.worst_error <= linear.max_error


@pytest.mark.parametrize("name", ["reciprocal", "rsqrt", "log2"])
def test_zero_gives_an_end_of_the_range(name: str) -> None:
    unit = find_unit(name).default
    end = unit.output_format.min_code if name == "log2" else unit.output_format.max_code
    assert primitive(unit, np.array([0])).tolist() == [end] == [unit.zero_code]


def test_a_broken_coefficient_is_seen() -> None:
    unit = find_unit("rsqrt").default
    first, *others = unit.table.coefficients
    broken = replace(unit)
    broken.__dict__["table"] = replace(unit.table, coefficients=((first[0] + 64, *first[1:]), *others))
    error = np.abs(unit.output_format.to_real(primitive(broken, unit.codes)) - exact_primitive(unit, unit.codes)).max()
    assert error > unit.max_error


def test_codes_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match="codes must be from 0 to 65535, not -1 to 3"):
        primitive(find_unit("log2").default, np.array([-1, 3]))
    with pytest.raises(InputError, match="codes must be from -32768 to 32767, not 0 to 32768"):
        closed_activation(find_unit("relu").default, np.array([0, 32768]))


@pytest.mark.parametrize("rounding", Rounding)
def test_the_limits_of_a_value_are_exactly_those_that_round_into_the_range(rounding: Rounding) -> None:
    rules = {
        Rounding.TRUNCATE: math.floor,
        Rounding.NEAREST_UP: lambda value: math.floor(value + Fraction(1, 2)),
        Rounding.NEAREST_EVEN: round,
    }
    for shift in range(4):
        for low in range(-3, 4):
            for high in range(low, low + 3):
                least, most = value_limits(np.array(low), np.array(high), np.int64(shift), rounding)
                inside = [
                    value for value in range(-64, 65) if low <= rules[rounding](Fraction(value, 1 << shift)) <= high
                ]
                assert (int(least), int(most)) == (inside[0], inside[-1])


STANDS_FOR = {
    "gelu-ibert": "i-bert",
    "hard-gelu": "hard gelu",
    "relu": "relu",
    "hard-swish": "hard swish",
    "hard-sigmoid": "hard sigmoid",
    "hard-tanh": "hard tanh",
}


@pytest.mark.parametrize("name", CLOSED_ACTIVATIONS)
def test_a_stand_in_computes_its_published_formula_to_two_steps(name: str) -> None:
    unit: ClosedActivationUnit = find_unit(name).default
    results = closed_activation(unit, unit.codes)
    assert np.array_equal(results, unit.results)
    _, formula = ALTERNATIVES[STANDS_FOR[name]]
    target = unit.output_format
    wanted = np.clip(formula(unit.input_format.to_real(unit.codes)), target.min_value, target.max_value)
    error = np.abs(target.to_real(results) - wanted).max()
    assert error == pytest.approx(unit.formula_error, abs=1e-12)
    assert error < 2 * target.resolution


@pytest.mark.parametrize(
    ("name", "published"),
    [("gelu-ibert", 1.82e-2), ("hard-gelu", 6.9e-2), ("relu", 0.17), ("hard-swish", 0.142)],
)
def test_a_stand_in_has_its_published_error(name: str, published: float) -> None:
    assert find_unit(name).default.worst_error == pytest.approx(published, rel=0.02)


def test_a_stand_in_that_does_not_saturate_must_hold_its_range() -> None:
    with pytest.raises(InputError) as caught:
        ClosedActivationUnit(
            function="relu",
            lanes=1,
            input_format=FixedPoint.parse("s8f4,truncate,saturate"),
            output_format=FixedPoint.parse("u6f4,truncate,error"),
        )
    assert str(caught.value) == (
        "output_format must hold 0 to 7.9375 or saturate, but holds 0.0 to 3.9375 and has overflow 'error'; "
        "use overflow 'saturate' or more bits"
    )
