"""Wrong parameters of the function units: exact texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from accel.activation_unit import ActivationUnit, TableShape, fitting_output
from accel.errors import InputError
from accel.mantissa_unit import MantissaUnit
from accel.norm_unit import NormUnit
from accel.numerics import FixedPoint

COMMAND_CASES = [
    ("gelu --lanes 0", "lanes must be from 1 to 64, not 0; use 1"),
    (
        "gelu --max-error 0.5",
        "max_error must be from 5.960464477539063e-08 to 0.125, not 0.5; use 0.125",
    ),
    ("silu --max-degree 3", "max_degree must be from 1 to 2, not 3; use 2"),
    (
        "tanh --input-format s20f10,nearest_even,saturate",
        "input_format.width_bits must be from 4 to 18, not 20; use 18",
    ),
    (
        "tanh --input-format u12f8,nearest_even,saturate",
        "input_format must be signed, not u12f8,nearest_even,saturate; use s13f8",
    ),
    (
        "mish --output-format s16f10,nearest_even,saturate",
        (
            "max_error must be at least the rounding error 0.00048828125 of the output, not 0.0001; "
            "use at least 14 fraction bits in output_format"
        ),
    ),
    (
        "softplus --output-format u16f15,nearest_up,wrap",
        (
            "output_format must hold 0.000335406 to 8.00009 or saturate, but holds 0.0 to 1.999969482421875 and has "
            "overflow 'wrap'; use overflow 'saturate' or more bits"
        ),
    ),
    (
        "sigmoid --max-error 0.001 --output-format u9f9,truncate,saturate --input-format s18f4,truncate,saturate",
        (
            "max_error must be at least the rounding error 0.001953125 of the output, not 0.001; "
            "use at least 11 fraction bits in output_format"
        ),
    ),
    ("layernorm --max-length 20000", "max_length must be from 1 to 16384, not 20000; use 16384"),
    ("rmsnorm --epsilon -1", "epsilon must be from 0.0 to 1.0, not -1.0; use 0.0"),
    (
        "layernorm --output-format s16f1,nearest_even,saturate",
        "output_format.fraction_bits must be from 2 to 16, not 1; use 2",
    ),
    (
        "rmsnorm --output-format u12f8,nearest_even,saturate",
        "output_format must be signed, not u12f8,nearest_even,saturate; use s13f8",
    ),
    (
        "layernorm --max-length 16384 --input-format s18f17,nearest_even,saturate",
        (
            "the denominator must fit in 60 bits, but 16384 inputs of 18 bits need 63; "
            "use narrower inputs or shorter rows"
        ),
    ),
    (
        "gelu --name always",
        (
            "the name of a Verilog module must be a plain identifier, not 'always'; "
            "use letters, digits and underscores, and no Verilog keyword"
        ),
    ),
]


@pytest.mark.parametrize(("arguments", "message"), COMMAND_CASES)
def test_rtl_says_what_is_wrong_writes_nothing_and_exits_with_2(
    einrtl: Callable[..., object], tmp_path: Path, arguments: str, message: str
) -> None:
    done = einrtl("rtl", *arguments.split(), "-o", tmp_path / "out")
    assert (done.code, done.out, done.err) == (2, "", f"error: {message}\n")
    assert not (tmp_path / "out").exists()


SOURCE = FixedPoint.parse("s12f8,nearest_even,saturate")


def unit(**changes: object) -> ActivationUnit:
    """A GELU with one parameter wrong."""
    settings: dict[str, object] = {
        "function": "gelu",
        "max_error": 0.001,
        "lanes": 1,
        "input_format": SOURCE,
        "output_format": FixedPoint.parse("s15f11,nearest_up,saturate"),
    }
    return ActivationUnit(**(settings | changes))  # type: ignore[arg-type]


def norm(**changes: object) -> NormUnit:
    """A LayerNorm with one parameter wrong."""
    settings: dict[str, object] = {
        "function": "layernorm",
        "max_length": 64,
        "lanes": 1,
        "input_format": SOURCE,
        "output_format": SOURCE,
    }
    return NormUnit(**(settings | changes))  # type: ignore[arg-type]


def log2(**changes: object) -> MantissaUnit:
    """A log2 with one parameter wrong."""
    settings: dict[str, object] = {
        "function": "log2",
        "value_bits": 13,
        "fraction_bits": 10,
        "result_fraction_bits": 10,
        "max_error": 1e-3,
    }
    return MantissaUnit(**(settings | changes))  # type: ignore[arg-type]


CASES = [
    (
        lambda: norm(function="layer_norm"),
        "function must be a known normalisation, not 'layer_norm'; did you mean 'layernorm'?",
    ),
    (lambda: norm(lanes=65), "lanes must be from 1 to 64, not 65; use 64"),
    (
        lambda: log2(function="sqrt"),
        "function must be a known function of a mantissa, not 'sqrt'; did you mean 'rsqrt'?",
    ),
    (lambda: log2(value_bits=10), "value_bits must be from 11 to 62, not 10; use 11"),
    (lambda: log2(fraction_bits=3), "fraction_bits must be from 4 to 18, not 3; use 4"),
    (lambda: log2(result_fraction_bits=30), "result_fraction_bits must be from 2 to 22, not 30; use 22"),
    (
        lambda: log2(max_error=1e-4),
        "max_error must be from 0.00048828125 to 0.125, not 0.0001; use 0.00048828125",
    ),
    (
        lambda: log2(fraction_bits=4, result_fraction_bits=20, max_error=2.0**-21),
        (
            "max_error 4.76837158203125e-07 must leave room beside the rounding of the result for a table, but does "
            "not; use one more of result_fraction_bits"
        ),
    ),
    (
        lambda: unit(function="gleu"),
        "function must be a known activation, not 'gleu'; did you mean 'gelu'?",
    ),
    (
        lambda: fitting_output("exponential", 0.001, SOURCE),
        (
            "function must be a known activation, not 'exponential'; known: gelu, gelu-tanh, mish, quick-gelu, "
            "sigmoid, silu, softplus, tanh"
        ),
    ),
    (
        lambda: fitting_output("gelu", 0.0, SOURCE),
        "max_error must be from 5.960464477539063e-08 to 0.125, not 0.0; use 5.960464477539063e-08",
    ),
    (
        lambda: unit(output_format=FixedPoint.parse("s15f0,nearest_up,saturate")),
        "output_format.fraction_bits must be from 1 to 24, not 0; use 1",
    ),
    (
        lambda: unit(input_format=FixedPoint.parse("s12f20,nearest_even,saturate")),
        "input_format.fraction_bits must be from 0 to 18, not 20; use 18",
    ),
    (
        lambda: unit(shape=TableShape(degree=1, low_bits=11, fraction_bits=12)),
        (
            "shape must allow a table with max_error 0.001, but degree 1, low_bits 11 and fraction_bits 12 do not; "
            "leave shape out to search for one that does"
        ),
    ),
    (
        lambda: unit(max_error=2.0**-12, input_format=FixedPoint.parse("s12f2,nearest_even,saturate")),
        (
            "max_error 0.000244140625 must leave room beside the output's rounding for a table, but does not; "
            "use one more fraction bit in output_format"
        ),
    ),
    (lambda: TableShape(degree=3, low_bits=8, fraction_bits=12), "degree must be from 1 to 2, not 3; use 2"),
    (lambda: TableShape(degree=1, low_bits=1, fraction_bits=12), "low_bits must be from 2 to 18, not 1; use 2"),
    (
        lambda: TableShape(degree=1, low_bits=8, fraction_bits=0),
        "fraction_bits must be from 1 to 28, not 0; use 1",
    ),
]


@pytest.mark.parametrize(("make", "message"), CASES)
def test_a_wrong_parameter_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value) == message
    assert caught.value.problems[0].field or "known activation" in message
