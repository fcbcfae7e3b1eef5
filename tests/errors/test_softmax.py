"""Wrong parameters of the softmax family: exact texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from accel.errors import InputError
from accel.numerics import FixedPoint
from accel.softmax_family import IntegerSoftmaxUnit, OnlineSoftmaxUnit, TopKSoftmaxUnit
from rtl.registry import find_unit
from sim.golden.softmax_family import golden_rows

COMMAND_CASES = [
    ("softmax --exp-segments 48", "exp_segments must be a power of two from 1 to 4096, not 48; use 32"),
    ("online-softmax --max-length 0", "max_length must be from 1 to 65536, not 0; use 1"),
    ("softermax --lanes 65", "lanes must be from 1 to 64, not 65; use 64"),
    (
        "integer-softmax --input-format s1f0,truncate,saturate",
        "input_format must have 2 to 24 bits, not 1; scores of 16 bits with 10 fraction bits suit most models",
    ),
    (
        "two-pass-softmax --output-format u8f16,nearest_up,saturate",
        (
            "output_format must hold every weight below 1, but ends at 0.0038909912109375; "
            "use at least 16 bits or fewer fraction bits"
        ),
    ),
    (
        "log2-softmax --output-format u16f16,nearest_up,saturate",
        (
            "output_format must be u2f0 to u6f0 with nearest_up and saturate, not u16f16,nearest_up,saturate; "
            "use u6f0,nearest_up,saturate"
        ),
    ),
    (
        "log-sum-exp --output-format s18f15,truncate,wrap",
        "output_format.fraction_bits must be from 2 to 14, not 15; use 14",
    ),
    (
        "log-sum-exp --output-format u18f10,truncate,wrap",
        "output_format must be signed, not u18f10,truncate,wrap; use s19f10",
    ),
    (
        "log-sum-exp --input-format s24f22,truncate,saturate",
        "input_format.fraction_bits must be from -8 to 20, not 22; use 20",
    ),
    ("top-k-softmax --k 0", "k must be from 1 to 64, not 0; use 1"),
    ("top-k-softmax --lanes 2", "lanes must be 1 for the top-k softmax, which inserts one score a cycle, not 2; use 1"),
    ("softpick --exp-segments 3", "exp_segments must be a power of two from 1 to 4096, not 3; use 2"),
    (
        "softpick --exp-segments 1",
        "exp_segments must be fine enough to tell a score of 0.000977 from 0, but 1 are not; use 2",
    ),
    (
        "softpick --input-format s16f12,nearest_even,saturate",
        "input_format.fraction_bits must be from -8 to 11, not 12; use 11",
    ),
    (
        "softpick --input-format u15f10,nearest_even,saturate",
        "input_format must be signed, not u15f10,nearest_even,saturate; use s16f10",
    ),
    (
        "softpick --output-format u17f17,nearest_up,saturate",
        "output_format.fraction_bits must be from 2 to 16, not 17; use 16",
    ),
    ("sigmoid-attention --bias 32", "bias must be from -32.0 to 31.9990234375, not 32.0; use 31.9990234375"),
    ("sigmoid-attention --divisor 0", "divisor must be from 1 to 65536, not 0.0; use 1"),
    (
        "sigmoid-attention --input-format s18f10,nearest_even,saturate",
        "input_format.width_bits must be from 3 to 17, not 18; use 17",
    ),
    (
        "sigmoid-attention --function-error 1",
        "function_error must be from 3.814697265625e-06 to 0.125, not 1.0; use 0.125",
    ),
    (
        "sigmoid-attention --output-format u8f16,nearest_up,saturate",
        (
            "output_format must hold every weight below 1, but ends at 0.0038909912109375; "
            "use at least 16 bits or fewer fraction bits"
        ),
    ),
    ("relu-attention --divisor 1e6", "divisor must be from 1 to 65536, not 1000000.0; use 65536"),
    (
        "relu-attention --input-format u15f10,nearest_even,saturate",
        "input_format must be signed, not u15f10,nearest_even,saturate; use s16f10",
    ),
    (
        "relu-attention --divisor 1 --output-format u8f4,nearest_up,wrap",
        (
            "output_format must hold 31.999 or saturate, but ends at 15.9375 and has overflow 'wrap'; "
            "use overflow 'saturate' or more bits"
        ),
    ),
    ("block-skip --block-beats 5000", "block_beats must be from 1 to 4096, not 5000; use 4096"),
    (
        "block-skip --threshold 1",
        "threshold must be from 2.3283064365386963e-10 to 0.9990234375, not 1.0; use 0.9990234375",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), COMMAND_CASES)
def test_rtl_says_what_is_wrong_writes_nothing_and_exits_with_2(
    einrtl: Callable[..., object], tmp_path: Path, arguments: str, message: str
) -> None:
    done = einrtl("rtl", *arguments.split(), "-o", tmp_path / "out")
    assert (done.code, done.out, done.err) == (2, "", f"error: {message}\n")
    assert not (tmp_path / "out").exists()


def describe(cls: type, **changes: object) -> object:
    """A description with legal formats."""
    settings: dict[str, object] = {
        "max_length": 8,
        "lanes": 1,
        "input_format": FixedPoint.parse("s8f4,nearest_even,saturate"),
        "output_format": FixedPoint.parse("u8f8,nearest_up,saturate"),
    }
    return cls(**(settings | changes))


@pytest.mark.parametrize(
    ("cls", "changes", "message"),
    [
        (
            IntegerSoftmaxUnit,
            {"exp_segments": 4},
            "exp_segments must be 0 where exponentials are powers of two, not 4; leave it out, or use softermax",
        ),
        (
            OnlineSoftmaxUnit,
            {"keep_row_sum": True, "exp_segments": 8},
            "keep_row_sum must be false for the online softmax, which rounds each weight alone; use softmax",
        ),
        (
            TopKSoftmaxUnit,
            {"keep_row_sum": True, "exp_segments": 8, "k": 2},
            ("keep_row_sum must be false for the top-k softmax, as most weights of a row are left out; leave it out"),
        ),
    ],
)
def test_a_choice_that_a_unit_does_not_have_is_refused(cls: type, changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        describe(cls, **changes)
    assert str(caught.value) == message


@pytest.mark.parametrize("name", ["online-softmax", "top-k-softmax", "log2-softmax", "log-sum-exp", "block-skip"])
def test_a_golden_model_refuses_a_row_that_the_unit_does_not_take(name: str) -> None:
    unit = find_unit(name).default
    for row, message in (
        (np.zeros(257, np.int64), "row 1 must have 1 to 256 scores, not 257; raise max_length"),
        (np.zeros(0, np.int64), "row 1 must have 1 to 256 scores, not 0; raise max_length"),
        (
            np.array([40000, 0]),
            "row 1 must have codes from -32768 to 32767, not 0 to 40000; quantize the scores by the input format",
        ),
    ):
        with pytest.raises(InputError) as caught:
            golden_rows(unit, [np.array([1]), row])
        assert str(caught.value) == message
