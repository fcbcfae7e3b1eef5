"""What the reader of descriptions says about wrong files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from accel import spec
from accel.errors import InputError, did_you_mean
from accel.numerics import FixedPoint
from accel.softmax_unit import SoftmaxUnit

S16F10 = """\
signed: true
width_bits: 16
fraction_bits: 10
rounding: nearest_even
overflow: saturate
"""
UNIT = """\
max_length: 128
lanes: 2
input_format: {signed: true, width_bits: 16, fraction_bits: 10, rounding: nearest_even, overflow: saturate}
output_format: {signed: false, width_bits: 16, fraction_bits: 16, rounding: nearest_even, overflow: saturate}
"""


@dataclass(frozen=True, kw_only=True)
class Level:
    """A nested description."""

    size_bits: int

    __pydantic_config__ = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One field of each kind that descriptions use."""

    name: str = "m"
    clock_hz: float = 1e9
    levels: Mapping[str, Level] = field(default_factory=dict)
    order: tuple[Level, ...] = ()
    shape: tuple[int, int] = (1, 1)
    side: Literal["left", "right"] = "left"
    ports: Literal[1, 2] = 1
    limit: int | str = 0
    spare: Level | None = None
    checked: bool = True

    __pydantic_config__ = {"extra": "forbid"}


def refusal(cls: type[Any], text: str) -> str:
    with pytest.raises(InputError) as caught:
        spec.loads(cls, text, file="f.yaml")
    return str(caught.value)


def number(old: str, new: str) -> str:
    assert S16F10.count(old) == 1
    return S16F10.replace(old, new)


NUMBERS = [
    (
        "unknown key near a known one",
        S16F10 + "widht_bits: 3\n",
        "f.yaml:6:1: 'widht_bits' is not a known key; did you mean 'width_bits'?",
    ),
    (
        "unknown key near none",
        S16F10 + "colour: red\n",
        "f.yaml:6:1: 'colour' is not a known key; known: fraction_bits, overflow, rounding, signed, width_bits",
    ),
    ("missing key", number("signed: true\n", ""), "f.yaml:1:1: 'signed' is missing; add signed: VALUE"),
    (
        "duplicate key",
        S16F10 + "signed: false\n",
        "f.yaml:6:1: key 'signed' must stand once, but stands on line 1 already; remove one of the two",
    ),
    (
        "text for a whole number",
        number("16", "wide"),
        "f.yaml:2:1: 'width_bits' must be a whole number, not 'wide'",
    ),
    (
        "quoted number",
        number("16", "'16'"),
        "f.yaml:2:1: 'width_bits' must be a whole number, not '16'; write it without quotes",
    ),
    ("fraction for a whole number", number("16", "1.5"), "f.yaml:2:1: 'width_bits' must be a whole number, not 1.5"),
    (
        "1e9 is a number, but not a whole one",
        number("16", "1e9"),
        "f.yaml:2:1: 'width_bits' must be a whole number, not 1000000000.0; write 1000000000",
    ),
    ("nothing", number(" 16", ""), "f.yaml:2:1: 'width_bits' must be a whole number, not nothing"),
    ("boolean for a number", number("16", "true"), "f.yaml:2:1: 'width_bits' must be a whole number, not true"),
    ("list for a number", number("16", "[1]"), "f.yaml:2:1: 'width_bits' must be a whole number, not a list"),
    ("mapping for a number", number("16", "{a: 1}"), "f.yaml:2:1: 'width_bits' must be a whole number, not a mapping"),
    (
        "no is text",
        number("true", "no"),
        "f.yaml:1:1: 'signed' must be true or false, not 'no'; write false",
    ),
    ("on is text", number("true", "On"), "f.yaml:1:1: 'signed' must be true or false, not 'On'; write true"),
    ("number for a boolean", number("true", "1"), "f.yaml:1:1: 'signed' must be true or false, not 1"),
    (
        "leading zeros",
        number("16", "007"),
        "f.yaml:2:13: 007 must be written without leading zeros if it is a number; quote it if it is text",
    ),
    (
        "leading zeros that are not octal",
        number("16", "-08"),
        "f.yaml:2:13: -08 must be written without leading zeros if it is a number; quote it if it is text",
    ),
    (
        "base sixty",
        number("16", "1:30"),
        "f.yaml:2:13: 1:30 must be written without colons if it is a number; quote it if it is text",
    ),
    (
        "too large for 64 bits",
        number("16", "9223372036854775808"),
        "f.yaml:2:13: a number must be below 2**63, not 9223372036854775808; check its digits",
    ),
    (
        "thousands of digits",
        number("16", "9" * 5000),
        f"f.yaml:2:13: a number must be below 2**63, not {'9' * 57}...; check its digits",
    ),
    (
        "too large for a float",
        number("16", "-1e999"),
        "f.yaml:2:13: a number must be below 1.8e308, not -1e999; check its digits",
    ),
    (
        "wrong word, near",
        number("saturate", "saturat"),
        "f.yaml:5:1: 'overflow' must be one of saturate, wrap, error, not 'saturat'; did you mean 'saturate'?",
    ),
    (
        "wrong word, far",
        number("nearest_even", "stochastic"),
        "f.yaml:4:1: 'rounding' must be one of truncate, nearest_even, nearest_up, not 'stochastic'",
    ),
    (
        "number for a word",
        number("saturate", "1"),
        "f.yaml:5:1: 'overflow' must be one of saturate, wrap, error, not 1",
    ),
    (
        "value out of range",
        number("16", "63"),
        "f.yaml:2:1: width_bits must be from 1 to 62, not 63; choose a narrower format",
    ),
    (
        "alias",
        S16F10.replace("16", "&w 16").replace("10", "*w"),
        "f.yaml:3:16: values must be written out, not referred to by an alias; copy the value",
    ),
    (
        "alias as a key",
        number("signed", "*a : 1\nsigned"),
        "f.yaml:1:1: values must be written out, not referred to by an alias; copy the value",
    ),
    (
        "merge key",
        "<<: {signed: true}\n" + number("signed: true\n", ""),
        (
            "f.yaml:1:1: 'signed' is missing; add signed: VALUE\n"
            "f.yaml:1:1: '<<' is not a known key; known: fraction_bits, overflow, rounding, signed, width_bits"
        ),
    ),
    ("standard tag", number("16", "!!int 16"), "f.yaml:2:13: tag !!int must not be used; leave the tag out"),
    ("empty tag", number("16", "! 16"), "f.yaml:2:13: tag ! must not be used; leave the tag out"),
    (
        "tag that builds objects",
        number("16", "!!python/object/apply:os.system [x]"),
        "f.yaml:2:13: tag !!python/object/apply:os.system must not be used; leave the tag out",
    ),
    ("tag of the whole file", "!!set\n" + S16F10, "f.yaml:1:1: tag !!set must not be used; leave the tag out"),
    ("key that is a list", S16F10 + "? [a]\n: 1\n", "f.yaml:6:3: a key must be a name; write key: value"),
    ("key that is empty", S16F10 + "'': 1\n", "f.yaml:6:1: a key must be a name; write key: value"),
    (
        "surrogate in a value",
        number("saturate", '"\\ud800"'),
        "f.yaml:5:11: '\\ud800' must hold Unicode characters; take the surrogate out",
    ),
    (
        "surrogate in a key",
        S16F10 + '"\\udfff": 1\n',
        "f.yaml:6:1: key '\\udfff' must hold Unicode characters; take the surrogate out",
    ),
    (
        "empty",
        "# nothing\n",
        "f.yaml:1:1: the text must be a mapping of keys to values, but it is empty; write key: value",
    ),
    (
        "list",
        "# a list\n- 1\n",
        "f.yaml:2:1: the text must be a mapping of keys to values, not a list; write key: value",
    ),
    (
        "single value",
        "signed\n",
        "f.yaml:1:1: the text must be a mapping of keys to values, not a single value; write key: value",
    ),
    (
        "unclosed bracket",
        S16F10 + "a: [1, 2\n",
        (
            "f.yaml:7:1: the text must be YAML: while parsing a flow sequence, expected ',' or ']', but got "
            "'<stream end>'; check indentation and quotes"
        ),
    ),
    (
        "wrong indentation",
        number("width", " width"),
        "f.yaml:2:12: the text must be YAML: mapping values are not allowed here; check indentation and quotes",
    ),
    (
        "tab",
        number("width", "\twidth"),
        (
            "f.yaml:2:1: the text must be YAML: while scanning for the next token, found character '\\t' that cannot "
            "start any token; check indentation and quotes"
        ),
    ),
    (
        "two documents",
        S16F10 + "---\nsigned: true\n",
        (
            "f.yaml:6:1: the text must be YAML: expected a single document in the stream, but found another document; "
            "check indentation and quotes"
        ),
    ),
    (
        "control character",
        number("16", "1\x006"),
        (
            "f.yaml:2:14: the text must be YAML: character 0x0000 is not allowed; "
            "write it as an escape in double quotes, or take it out"
        ),
    ),
    (
        "escape beyond Unicode",
        number("16", '"\\UFFFFFFFF"'),
        "f.yaml:1:1: the text must be YAML: an escape in it is out of range; check the escapes",
    ),
    (
        "nesting without end",
        "signed: " + "[" * 5000,
        "f.yaml:1:58: the text must be YAML: nesting is deeper than 50; check indentation and quotes",
    ),
]


@pytest.mark.parametrize(("text", "wanted"), [pytest.param(text, wanted, id=name) for name, text, wanted in NUMBERS])
def test_a_wrong_number_format_is_refused_with_place_and_way_out(text: str, wanted: str) -> None:
    assert refusal(FixedPoint, text) == wanted


MACHINES = [
    (
        "number for text",
        "name: 1e9",
        "f.yaml:1:1: 'name' must be text, not 1000000000.0; write it in quotes",
    ),
    ("boolean for text", "name: True", "f.yaml:1:1: 'name' must be text, not true; write it in quotes"),
    ("quoted real", "clock_hz: '1e9'", "f.yaml:1:1: 'clock_hz' must be a number, not '1e9'; write it without quotes"),
    (
        "long text",
        f"clock_hz: {'x' * 100}",
        f"f.yaml:1:1: 'clock_hz' must be a number, not '{'x' * 57}...'",
    ),
    (
        "unknown key in a mapping",
        "levels:\n  dram:\n    size_bit: 3",
        (
            "f.yaml:2:3: 'levels.dram.size_bits' is missing; add size_bits: VALUE\n"
            "f.yaml:3:5: 'levels.dram.size_bit' is not a known key; did you mean 'size_bits'?"
        ),
    ),
    (
        "duplicate key, nested",
        "levels:\n  l1: {size_bits: 1, size_bits: 2}\n  l1: {size_bits: 3}",
        (
            "f.yaml:2:22: key 'levels.l1.size_bits' must stand once, but stands on line 2 already; "
            "remove one of the two\n"
            "f.yaml:3:3: key 'levels.l1' must stand once, but stands on line 2 already; remove one of the two"
        ),
    ),
    ("list for a mapping", "levels: [1]", "f.yaml:1:1: 'levels' must be a mapping, not a list"),
    ("number for a description", "levels: {dram: 5}", "f.yaml:1:10: 'levels.dram' must be a mapping, not 5"),
    ("mapping for a list", "order: {size_bits: 1}", "f.yaml:1:1: 'order' must be a list, not a mapping"),
    (
        "each item of a list",
        "order:\n- size_bits: 1.5\n- {}\n- 3",
        (
            "f.yaml:2:3: 'order[0].size_bits' must be a whole number, not 1.5\n"
            "f.yaml:3:3: 'order[1].size_bits' is missing; add size_bits: VALUE\n"
            "f.yaml:4:3: 'order[2]' must be a mapping, not 3"
        ),
    ),
    ("too few items", "shape: [8]", "f.yaml:1:1: 'shape[1]' is missing; add an item"),
    (
        "too many items",
        "shape: [8, 8, 8]",
        "f.yaml:1:1: 'shape' must hold: Tuple should have at most 2 items after validation, not 3; it is a list",
    ),
    ("wrong literal", "side: lefd", "f.yaml:1:1: 'side' must be one of left, right, not 'lefd'; did you mean 'left'?"),
    ("wrong numeric literal", "ports: 3", "f.yaml:1:1: 'ports' must be one of 1 or 2, not 3"),
    (
        "none of two types",
        "limit: [1]",
        "f.yaml:1:1: 'limit' must be a whole number or text, not a list",
    ),
    ("wrong optional value", "spare: 5", "f.yaml:1:1: 'spare' must be a mapping, not 5"),
    (
        "unknown key in an optional value",
        "spare: {size_bits: 1, width: 2}",
        "f.yaml:1:23: 'spare.width' is not a known key; known: size_bits",
    ),
]


@pytest.mark.parametrize(("text", "wanted"), [pytest.param(text, wanted, id=name) for name, text, wanted in MACHINES])
def test_a_wrong_value_of_each_type_is_refused_with_place_and_way_out(text: str, wanted: str) -> None:
    assert refusal(Machine, text) == wanted


def test_all_problems_of_a_file_are_told_in_its_order_whoever_finds_them() -> None:
    text = """\
name: 007
clock_hz: fast
levels:
  dram: {size_bits: *a}
  sram: {size_bits: x}
  dram: {size_bits: 1}
side: up
chekced: true
checked: yes
order: !!seq []
"""
    assert refusal(Machine, text).splitlines() == [
        "f.yaml:1:7: 007 must be written without leading zeros if it is a number; quote it if it is text",
        "f.yaml:2:1: 'clock_hz' must be a number, not 'fast'",
        "f.yaml:4:21: values must be written out, not referred to by an alias; copy the value",
        "f.yaml:5:10: 'levels.sram.size_bits' must be a whole number, not 'x'",
        "f.yaml:6:3: key 'levels.dram' must stand once, but stands on line 4 already; remove one of the two",
        "f.yaml:7:1: 'side' must be one of left, right, not 'up'",
        "f.yaml:8:1: 'chekced' is not a known key; did you mean 'checked'?",
        "f.yaml:9:1: 'checked' must be true or false, not 'yes'; write true",
        "f.yaml:10:8: tag !!seq must not be used; leave the tag out",
    ]


def test_the_check_of_a_nested_description_names_its_path_and_the_place_of_its_field() -> None:
    text = UNIT.replace("width_bits: 16, fraction_bits: 10", "width_bits: 70, fraction_bits: 10")
    assert refusal(SoftmaxUnit, text) == (
        "f.yaml:3:30: input_format: width_bits must be from 1 to 62, not 70; choose a narrower format"
    )


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "absent.yaml"
    with pytest.raises(InputError) as caught:
        spec.load(FixedPoint, path)
    assert str(caught.value) == f"{path} must be a readable file: No such file or directory; check the path"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        spec.read_text(tmp_path)
    assert str(caught.value) == f"{tmp_path} must be a readable file: Is a directory; check the path"


def test_a_file_that_is_not_utf8_is_named_with_the_first_wrong_byte(tmp_path: Path) -> None:
    path = tmp_path / "latin1.yaml"
    path.write_bytes("name: é".encode("latin-1"))
    with pytest.raises(InputError) as caught:
        spec.load(FixedPoint, path)
    assert str(caught.value) == f"{path} must be UTF-8 text, but byte 6 is not; save it as UTF-8"


def test_a_name_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        spec.read_text(Path("a\0b"))
    assert str(caught.value) == r"'a\x00b' must be a readable file: embedded null byte; check the path"


def test_the_hint_names_a_near_word_or_else_all_words() -> None:
    assert did_you_mean("lanse", ["lanes", "length"]) == "did you mean 'lanes'?"
    assert did_you_mean("x", ["b", "a"]) == "known: a, b"
    assert did_you_mean("x", []) == "none is known"
