"""The golden activations against real arithmetic, and the published stand-ins against their published errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from accel.activation_unit import ACTIVATIONS, ActivationUnit, fitting_output
from accel.errors import InputError
from accel.numerics import FixedPoint
from rtl.registry import find_unit
from sim.golden.activation import ALTERNATIVES, activation, exact_activation

CODES = np.arange(-(1 << 15), 1 << 15)


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("max_degree", [1, 2])
def test_all_65536_inputs_are_within_the_bound(name: str, max_degree: int) -> None:
    default = find_unit(name).default
    unit = default if max_degree == 2 else replace(default, max_degree=1, shape=None)
    codes = activation(unit, CODES)
    error = np.abs(unit.output_format.to_real(codes) - exact_activation(unit, CODES)).max()
    assert error == unit.worst_error <= unit.max_error
    assert np.array_equal(codes, unit.results)


@pytest.mark.parametrize(
    "output", ["s12f4,truncate,saturate", "s10f6,nearest_even,saturate", "s20f9,nearest_even,wrap"]
)
def test_other_roundings_and_saturation_are_within_the_bound(output: str) -> None:
    unit = ActivationUnit(
        function="gelu",
        max_error=0.08,
        lanes=1,
        input_format=FixedPoint.parse("s12f6,truncate,saturate"),
        output_format=FixedPoint.parse(output),
    )
    codes = np.arange(-2048, 2048)
    error = np.abs(unit.output_format.to_real(activation(unit, codes)) - exact_activation(unit, codes))
    assert error.max() <= unit.max_error


def test_a_broken_coefficient_is_seen() -> None:
    unit = find_unit("gelu").default
    broken = replace(unit)
    first, *others = unit.table.coefficients
    spoiled = replace(unit.table, coefficients=((first[0] + 16, *first[1:]), *others))
    broken.__dict__["table"] = spoiled
    error = np.abs(unit.output_format.to_real(activation(broken, CODES)) - exact_activation(unit, CODES)).max()
    assert error > unit.max_error


def test_codes_out_of_range_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        activation(find_unit("gelu").default, np.array([0, 32768]))
    assert str(caught.value) == (
        "codes must be from -32768 to 32767, not 0 to 32768; quantize the numbers by the input format"
    )


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("i-bert", 1.82e-2),
        ("tanh form", 4.7e-4),
        ("sigmoid form", 2.0e-2),
        ("hard gelu", 6.9e-2),
        ("relu", 0.170),
        ("hard swish", 0.142),
    ],
)
def test_a_stand_in_has_its_published_error_and_the_unit_a_smaller_one(name: str, published: float) -> None:
    function, formula = ALTERNATIVES[name]
    x = CODES / 2**12
    error = np.abs(formula(x) - ACTIVATIONS[function].exact(x)).max()
    assert error == pytest.approx(published, rel=0.02)
    source = FixedPoint.parse("s16f12,nearest_even,saturate")
    unit = ActivationUnit(
        function=function,
        max_error=1e-3,
        lanes=1,
        input_format=source,
        output_format=fitting_output(function, 1e-3, source),
    )
    if name != "tanh form":
        assert unit.worst_error < error / 10
