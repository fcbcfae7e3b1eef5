"""Reading and writing of YAML descriptions: what is accepted, and that nothing but InputError ever comes out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from accel import spec
from accel.errors import InputError, Place
from accel.numerics import FixedPoint, Overflow, Rounding
from accel.softmax_unit import SoftmaxUnit

S16F10 = """\
signed: true
width_bits: 16
fraction_bits: 10
rounding: nearest_even
overflow: saturate
"""


@dataclass(frozen=True, kw_only=True)
class Inner:
    """A nested description."""

    number: int

    __pydantic_config__ = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class Everything:
    """One field of each kind that descriptions use."""

    text: str = ""
    whole: int = 0
    real: float = 0.0
    flag: bool = False
    maybe: int | None = None
    choice: Literal["left", "right"] = "left"
    many: tuple[Inner, ...] = ()
    pair: tuple[int, str] = (0, "")
    named: Mapping[str, Inner] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    file: Path = Path("a")

    __pydantic_config__ = {"extra": "forbid"}


formats = st.builds(
    FixedPoint,
    signed=st.booleans(),
    width_bits=st.integers(1, 62),
    fraction_bits=st.integers(-62, 62),
    rounding=st.sampled_from(Rounding),
    overflow=st.sampled_from(Overflow),
)


@st.composite
def units(draw: st.DrawFn) -> SoftmaxUnit:
    bits = draw(st.integers(2, 24))
    signed = draw(st.booleans())
    rounding = st.sampled_from(Rounding)
    return SoftmaxUnit(
        max_length=draw(st.integers(1, 65536)),
        lanes=draw(st.integers(1, 64)),
        input_format=FixedPoint(
            signed=draw(st.booleans()),
            width_bits=draw(st.integers(2, 24)),
            fraction_bits=draw(st.integers(-8, 24)),
            rounding=draw(rounding),
            overflow=draw(st.sampled_from(Overflow)),
        ),
        output_format=FixedPoint(
            signed=signed,
            width_bits=bits + signed,
            fraction_bits=bits,
            rounding=draw(rounding),
            overflow=Overflow.SATURATE,
        ),
        exp_segments=2 ** draw(st.integers(0, min(bits, 8))),
    )


TRAPS = [
    "",
    "no",
    "Yes",
    "on",
    "n",
    "~",
    "null",
    "true",
    "TRUE",
    "1e9",
    "1E+9",
    "08",
    "007",
    "00",
    "1:30",
    "0:30",
    "1_0",
]
TRAPS += ["0x1F", "0b1", "0o7", ".5", "5.", "-.inf", ".NaN", "2001-12-14", "=", "<<", "*a", "&a", "!a", "a: b", "a #b"]
TRAPS += [
    "- a",
    "? a",
    "'",
    '"',
    "%",
    "@",
    "`",
    "{",
    "[a]",
    "\t",
    " a ",
    "a\n",
    "\na",
    "a\r\nb",
    "\x00",
    "\x85",
    "\ufeff",
]
TRAPS += ["\u2028", "a\u2029b", "\U0001f600", "---", "...", "é" * 300, "a " * 300, "\x1b", "1" * 400]
texts = st.sampled_from(TRAPS) | st.text(st.characters(exclude_categories=["Cs"]))
wholes = st.integers(-(2**63) + 1, 2**63 - 1)
names = texts.filter(bool)
everythings = st.builds(
    Everything,
    text=texts,
    whole=wholes,
    real=st.floats(allow_nan=False),
    flag=st.booleans(),
    maybe=st.none() | wholes,
    choice=st.sampled_from(["left", "right"]),
    many=st.lists(st.builds(Inner, number=wholes), max_size=3).map(tuple),
    pair=st.tuples(wholes, texts),
    named=st.dictionaries(names, st.builds(Inner, number=wholes), max_size=3),
    texts=st.dictionaries(names, texts, max_size=3),
    file=st.sampled_from([Path("a"), Path("/a/b.yaml"), Path("no"), Path("1e9")]),
)


@given(formats)
def test_a_number_format_survives_dump_and_load(number: FixedPoint) -> None:
    assert spec.loads(FixedPoint, spec.dump(number)) == number


@given(units())
def test_a_softmax_unit_survives_dump_and_load(unit: SoftmaxUnit) -> None:
    assert spec.loads(SoftmaxUnit, spec.dump(unit)) == unit


@given(everythings)
def test_every_kind_of_field_survives_dump_and_load(value: Everything) -> None:
    again = spec.loads(Everything, spec.dump(value))
    assert again == value
    assert math.copysign(1.0, again.real) == math.copysign(1.0, value.real)


@given(everythings)
def test_other_yaml_readers_see_the_same_texts_as_ours(value: Everything) -> None:
    seen = yaml.safe_load(spec.dump(value))
    assert (seen["text"], seen["texts"], seen["whole"]) == (value.text, value.texts, value.whole)


def test_nan_survives_dump_and_load() -> None:
    assert math.isnan(spec.loads(Everything, spec.dump(Everything(real=math.nan))).real)


def test_load_reads_a_file_and_drops_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "number.yaml"
    path.write_text(S16F10, encoding="utf-8-sig")
    assert spec.read_text(path) == S16F10
    assert str(spec.load(FixedPoint, path)) == "s16f10,nearest_even,saturate"


@pytest.mark.parametrize(
    ("spelling", "value"),
    [
        ("1e9", 1e9),
        ("1E+9", 1e9),
        ("1.5e-3", 1.5e-3),
        ("-.5", -0.5),
        ("5.", 5.0),
        ("+2", 2.0),
        ("1_000.5", 1000.5),
        ("0.0", 0.0),
        (".inf", math.inf),
        ("-.Inf", -math.inf),
        ("7", 7.0),
    ],
)
def test_a_number_may_be_spelled_in_each_usual_way(spelling: str, value: float) -> None:
    read = spec.loads(Everything, f"real: {spelling}").real
    assert read == value
    assert isinstance(read, float)


@pytest.mark.parametrize(
    ("spelling", "value"), [("12", 12), ("-0", 0), ("+3", 3), ("1_000", 1000), ("0x1F", 31), ("0b101", 5)]
)
def test_a_whole_number_may_be_spelled_in_each_usual_way(spelling: str, value: int) -> None:
    assert spec.loads(Everything, f"whole: {spelling}").whole == value


@pytest.mark.parametrize(
    "text", ["no", "Yes", "on", "off", "y", "2001-12-14", "0o17", "1.2.3", "inf", "=", "<<", "é", "0x"]
)
def test_plain_text_that_older_yaml_converts_stays_text(text: str) -> None:
    assert spec.loads(Everything, f"text: {text}").text == text


@pytest.mark.parametrize("text", ["1e9", "007", "1:30", "true", "null", "~", "5", ""])
def test_quoted_text_stays_text_whatever_it_looks_like(text: str) -> None:
    for quote in ("'", '"'):
        assert spec.loads(Everything, f"text: {quote}{text}{quote}").text == text


def test_keys_are_text_even_where_they_look_like_numbers_or_booleans() -> None:
    read = spec.loads(Everything, "texts: {1: a, no: b, 1e9: c, true: d, null: e}")
    assert read.texts == {"1": "a", "no": "b", "1e9": "c", "true": "d", "null": "e"}


def test_an_unused_anchor_and_flow_style_are_plain_yaml() -> None:
    assert spec.loads(Everything, "many: &a [{number: 1}, {'number': 2}] # two").many == (
        Inner(number=1),
        Inner(number=2),
    )


def test_problems_carry_place_and_path_as_data() -> None:
    with pytest.raises(InputError) as caught:
        spec.loads(Everything, "many:\n  - number: 1\n  - number: x\n", file="a.yaml")
    (problem,) = caught.value.problems
    assert problem.place == Place(file="a.yaml", line=3, column=5)
    assert problem.field == ("many", 1, "number")


def survives(cls: type[Any], text: str) -> None:
    """Check that ``text`` is read, or refused with problems that all have a place and a printable text."""
    try:
        value = spec.loads(cls, text, file="fuzz.yaml")
    except InputError as error:
        assert error.problems
        lines = max(text.count(end) for end in "\n\r\x85\u2028\u2029") + text.count("\r") + text.count("\n") + 2
        for problem in error.problems:
            assert problem.place is not None
            assert 1 <= problem.place.line <= lines
            assert "Traceback" not in str(problem)
        places = [(problem.place.line, problem.place.column) for problem in error.problems if problem.place]
        assert places == sorted(places)
    else:
        assert isinstance(value, cls)


YAML_PIECES = [
    "- ",
    ": ",
    "? ",
    "\n",
    "\n  ",
    "{",
    "}",
    "[",
    "]",
    ",",
    "&a",
    "*a",
    "!t ",
    "!!int ",
    "<<",
    "|",
    ">",
    "%",
    "---",
    "...",
]
YAML_PIECES += [
    "'",
    '"',
    "#",
    "\t",
    "\\",
    "\\ud800",
    '"\\ud800"',
    '"\\UFFFFFFFF"',
    "1e999",
    "9" * 30,
    "0x",
    "~",
    "\x00",
    "\ufeff",
]
YAML_PIECES += [
    "many",
    "number",
    "whole",
    "named",
    "choice",
    "signed",
    "width_bits",
    "0",
    "7",
    "true",
    "é",
    "\U0001f600",
]
yaml_texts = st.lists(st.sampled_from(YAML_PIECES), max_size=40).map("".join)


@given(st.text() | yaml_texts)
def test_any_text_is_read_or_refused_with_input_error(text: str) -> None:
    survives(Everything, text)


@given(text=everythings.map(spec.dump) | units().map(spec.dump), data=st.data())
def test_any_mutated_description_is_read_or_refused_with_input_error(text: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 8)))
        piece = data.draw(st.sampled_from(["", text[start:end] * 2, *YAML_PIECES]) | st.text(max_size=3))
        text = text[:start] + piece + text[end:]
    survives(Everything, text)
    survives(SoftmaxUnit, text)


@given(content=st.binary(max_size=60))
def test_any_bytes_in_a_file_are_read_or_refused_with_input_error(
    content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError):
        spec.load(FixedPoint, path)


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_deep_nesting_is_refused_before_it_exhausts_the_stack(opening: str) -> None:
    for text in (f"many: {opening * 60}", f"many: {opening * 5000}", opening * 60, opening * 5000):
        with pytest.raises(InputError):
            spec.loads(Everything, text)


def test_a_text_that_would_expand_to_billions_of_values_is_refused_at_once() -> None:
    rows = ["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 40)]
    with pytest.raises(InputError, match="alias"):
        spec.loads(Everything, "\n".join(rows))
