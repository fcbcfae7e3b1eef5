"""What number formats say about wrong parameters and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from accel.errors import InputError
from accel.numerics import FixedPoint, Overflow, Rounding, round_shift

GOOD: dict[str, Any] = {
    "signed": True,
    "width_bits": 16,
    "fraction_bits": 10,
    "rounding": Rounding.TRUNCATE,
    "overflow": Overflow.SATURATE,
}
FORM = (
    "; give sign and width, fraction bits, rounding (truncate, nearest_even, nearest_up) "
    "and overflow (saturate, wrap, error)"
)

FIELDS = [
    ("width_bits", 0, "width_bits must be from 1 to 62, not 0; choose a wider format"),
    ("width_bits", 63, "width_bits must be from 1 to 62, not 63; choose a narrower format"),
    ("fraction_bits", 63, "fraction_bits must be from -62 to 62, not 63; scale the values nearer to 1"),
    ("fraction_bits", -63, "fraction_bits must be from -62 to 62, not -63; scale the values nearer to 1"),
    ("signed", 1, "signed must be of type bool, not 1; pass True or False"),
    ("width_bits", 16.5, "width_bits must be of type int, not 16.5; pass an int"),
    ("width_bits", True, "width_bits must be of type int, not True; pass an int"),
    ("fraction_bits", "10", "fraction_bits must be of type int, not '10'; pass an int"),
    (
        "rounding",
        "truncate",
        (
            "rounding must be of type Rounding, not 'truncate'; "
            "pass Rounding.TRUNCATE, Rounding.NEAREST_EVEN or Rounding.NEAREST_UP"
        ),
    ),
    (
        "overflow",
        None,
        "overflow must be of type Overflow, not None; pass Overflow.SATURATE, Overflow.WRAP or Overflow.ERROR",
    ),
]


@pytest.mark.parametrize(("field", "value", "text"), FIELDS)
def test_a_wrong_field_is_named_with_what_must_hold(field: str, value: object, text: str) -> None:
    with pytest.raises(InputError) as caught:
        FixedPoint(**{**GOOD, field: value})
    assert str(caught.value) == text
    assert caught.value.problems[0].field == (field,)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s16",
        "16f10,truncate,wrap",
        "s16f10,floor,wrap",
        "s16f10,truncate,clip",
        "s16f10, truncate,wrap",
        "s16f+1,truncate,wrap",
        f"s{'9' * 5000}f0,truncate,wrap",
    ],
)
def test_a_text_that_names_no_format_shows_how_one_reads(text: str) -> None:
    with pytest.raises(InputError) as caught:
        FixedPoint.parse(text)
    assert str(caught.value) == f"a number format must read like s16f10,nearest_even,saturate, not {text!r}{FORM}"


def test_a_text_with_a_width_out_of_range_tells_the_range() -> None:
    with pytest.raises(InputError) as caught:
        FixedPoint.parse("s100f0,truncate,wrap")
    assert str(caught.value) == "width_bits must be from 1 to 62, not 100; choose a narrower format"


def make(text: str) -> FixedPoint:
    return FixedPoint.parse(text)


VALUES: list[tuple[str, Callable[[], object], str]] = [
    (
        "NaN",
        lambda: make("s8f4,truncate,saturate").quantize([1.0, np.nan]),
        "values must be numbers, not NaN; mask or replace the NaN first",
    ),
    (
        "out of range",
        lambda: make("s8f4,nearest_even,error").quantize([1.0, 7.98, -9.0]),
        "values of s8f4,nearest_even,error must be from -8.0 to 7.9375, not 7.98; widen the format or let it saturate",
    ),
    (
        "below an unsigned range",
        lambda: make("u8f4,truncate,error").quantize(-0.01),
        "values of u8f4,truncate,error must be from 0.0 to 15.9375, not -0.01; widen the format or let it saturate",
    ),
    (
        "infinite",
        lambda: make("s8f4,nearest_even,error").quantize(-np.inf),
        "values of s8f4,nearest_even,error must be from -8.0 to 7.9375, not -inf; widen the format or let it saturate",
    ),
    (
        "largest float",
        lambda: make("s8f4,truncate,error").quantize([1e308]),
        "values of s8f4,truncate,error must be from -8.0 to 7.9375, not 1e+308; widen the format or let it saturate",
    ),
    (
        "code out of range",
        lambda: make("s8f4,truncate,error").fit([127, 128]),
        "values of s8f4,truncate,error must be from -8.0 to 7.9375, not 8.0; widen the format or let it saturate",
    ),
    (
        "converted code out of range",
        lambda: make("s8f4,truncate,error").convert([3, 31], 1),
        "values of s8f4,truncate,error must be from -8.0 to 7.9375, not 15.5; widen the format or let it saturate",
    ),
    (
        "converted code that no int64 holds",
        lambda: make("s8f62,truncate,error").convert([0, 3], -62),
        (
            "values of s8f62,truncate,error must be from -2.7755575615628914e-17 to 2.7538735181131813e-17, "
            "not 1.3835058055282164e+19; widen the format or let it saturate"
        ),
    ),
    (
        "infinite and wrapping",
        lambda: make("s8f4,truncate,wrap").quantize([1.0, np.inf]),
        "values that wrap must stay below 2**62 steps of 0.0625, not inf; use overflow 'saturate'",
    ),
    (
        "huge and wrapping",
        lambda: make("s8f4,truncate,wrap").quantize([1.0, -(2.0**58)]),
        "values that wrap must stay below 2**62 steps of 0.0625, not -2.8823037615171174e+17; use overflow 'saturate'",
    ),
    (
        "real codes",
        lambda: make("s8f4,truncate,wrap").fit([1.5]),
        "codes must be integers of at most 64 bits, not float64; quantize real values first",
    ),
    (
        "codes of more than 64 bits",
        lambda: make("s8f4,truncate,wrap").from_bits([2**64]),
        "codes must be integers of at most 64 bits, not object; quantize real values first",
    ),
    (
        "unsigned codes of 64 bits",
        lambda: make("s8f4,truncate,wrap").from_bits([2**63]),
        "codes must be below 2**63; reduce them to the width of their format first",
    ),
    (
        "real shift",
        lambda: round_shift([1], [0.5], Rounding.TRUNCATE),
        "codes must be integers of at most 64 bits, not float64; quantize real values first",
    ),
]


@pytest.mark.parametrize(("call", "text"), [pytest.param(call, text, id=name) for name, call, text in VALUES])
def test_a_wrong_value_is_named_with_its_way_out(call: Callable[[], object], text: str) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value) == text
