"""Wrong parameters of the primitive units and of those without a table: exact texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

CASES = [
    ("exp2 --lanes 0", "lanes must be from 1 to 64, not 0; use 1"),
    ("exp --max-degree 3", "max_degree must be from 1 to 2, not 3; use 2"),
    ("log2 --max-error 1", "max_error must be from 5.960464477539063e-08 to 0.125, not 1.0; use 0.125"),
    (
        "reciprocal --input-format s16f8,nearest_even,saturate",
        "input_format must be unsigned for reciprocal, not s16f8,nearest_even,saturate; use u15f8",
    ),
    (
        "rsqrt --input-format u20f8,nearest_even,saturate",
        "input_format.width_bits must be from 4 to 16, not 20; use 16",
    ),
    (
        "exp --max-error 1e-6",
        (
            "max_error must be at least the rounding error 1.52587890625e-05 of the output, not 1e-06; "
            "use at least 21 fraction bits in output_format"
        ),
    ),
    (
        "exp2 --output-format u16f15,truncate,error",
        (
            "output_format must hold 1.52588e-05 to 65513.8 or saturate, but holds 0.0 to 1.999969482421875 and has "
            "overflow 'error'; use overflow 'saturate' or more bits"
        ),
    ),
    ("hard-swish --lanes 65", "lanes must be from 1 to 64, not 65; use 64"),
    (
        "gelu-ibert --input-format u12f8,nearest_even,saturate",
        "input_format must be signed, not u12f8,nearest_even,saturate; use s13f8",
    ),
    ("gelu --lanes 4 --lanes-per-table 3", "lanes_per_table must divide the 4 lane(s), but is 3; use 1"),
    ("gelu --lanes 4 --lanes-per-table 0", "lanes_per_table must divide the 4 lane(s), but is 0; use 1"),
]


@pytest.mark.parametrize(("arguments", "message"), CASES)
def test_rtl_says_what_is_wrong_writes_nothing_and_exits_with_2(
    einrtl: Callable[..., object], tmp_path: Path, arguments: str, message: str
) -> None:
    done = einrtl("rtl", *arguments.split(), "-o", tmp_path / "out")
    assert (done.code, done.out, done.err) == (2, "", f"error: {message}\n")
    assert not (tmp_path / "out").exists()
