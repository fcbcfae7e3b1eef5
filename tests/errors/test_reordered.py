"""What users of the reordered attention unit are told when something is wrong: the exact texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from accel.errors import InputError
from accel.numerics import FixedPoint
from accel.reordered_schedule import AttentionJob, ReorderedSchedule
from accel.reordered_unit import ReorderedUnit
from mapping.reordered import unordered_cost
from sim.golden.reordered import Head, reordered_attention
from sim.streams import CompiledStreams
from sim.toolchain import find_toolchain

TENSOR = FixedPoint.parse("s8f4,nearest_even,saturate")
GOOD: dict[str, object] = {
    "max_length": 8,
    "key_features": 4,
    "value_features": 4,
    "slots": 2,
    "block": 2,
    "query_format": TENSOR,
    "key_format": TENSOR,
    "value_format": TENSOR,
    "output_format": TENSOR,
}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"max_length": 1}, "max_length must be from 2 to 65535, not 1; use 2"),
        ({"slots": 65}, "slots must be from 1 to 64, not 65; use 64"),
        ({"banks": 3}, "banks must be from 1 to 2, not 3; use 2"),
        ({"weight_fraction_bits": 3}, "weight_fraction_bits must be from 4 to 20, not 3; use 4"),
        ({"guard_bits": 0}, "guard_bits must be from 1 to 12, not 0; use 1"),
        ({"block": 3}, "key_features must be a multiple of block (3), not 4; use block 1"),
        ({"value_features": 5}, "value_features must be a multiple of block (2), not 5; use block 1"),
        (
            {"score_scale": -1.0},
            (
                "score_scale must be from 2**-24 to 2**8, or 0 for 1 / sqrt(E), not -1.0; "
                "fold the sign and the rest into the queries"
            ),
        ),
        (
            {"key_format": FixedPoint.parse("s19f4,nearest_even,saturate")},
            "key_format must have 2 to 18 bits, not 19; 16 bits suit most models",
        ),
        (
            {"value_format": FixedPoint.parse("s8f25,nearest_even,saturate")},
            "value_format must have -8 to 24 fraction bits, not 25; scale the numbers nearer to 1",
        ),
        (
            {"output_format": FixedPoint.parse("s8f4,nearest_even,wrap")},
            "output_format must saturate, not wrap; use overflow 'saturate'",
        ),
        (
            {"output_format": FixedPoint.parse("s25f4,nearest_even,saturate")},
            "output_format must have at most 24 bits, not 25; use 16 bits",
        ),
        (
            {"output_format": FixedPoint.parse("s24f21,nearest_even,saturate")},
            "output_format must have -3 to 20 fraction bits, not 21; use those of value_format",
        ),
        (
            {"output_format": FixedPoint.parse("s8f5,nearest_even,saturate")},
            (
                "output_format must reach from -8.0 to 7.90625 as the values do, not from -4.0 to 3.96875; "
                "use value_format"
            ),
        ),
        ({"exp_segments": 3}, "exp_segments must be a power of two from 1 to 4096, not 3; use 2"),
        (
            {
                "key_features": 1024,
                "query_format": FixedPoint.parse("s18f4,nearest_even,saturate"),
                "key_format": FixedPoint.parse("s18f4,nearest_even,saturate"),
            },
            (
                "the sums of the scores must fit in 62 bits, but need 63; "
                "use narrower formats, fewer features or a smaller max_length"
            ),
        ),
    ],
)
def test_a_wrong_parameter_is_named_with_the_rule_and_the_way_out(changes: dict[str, object], text: str) -> None:
    with pytest.raises(InputError) as told:
        ReorderedUnit(**(GOOD | changes))  # type: ignore[arg-type]
    assert str(told.value) == text


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"queries": 0, "keys": 1}, "queries must be at least 1, not 0; use 1"),
        ({"queries": 1, "keys": -2}, "keys must be at least 1, not -2; use 1"),
        ({"queries": 1, "keys": 1, "causal": True, "offset": -1}, "offset must be at least 0, not -1; use 0"),
        (
            {"queries": 1, "keys": 1, "offset": 2},
            "offset must be 0 without a causal mask, not 2; set causal or drop offset",
        ),
    ],
)
def test_a_wrong_job_is_refused(given: dict[str, int], text: str) -> None:
    with pytest.raises(InputError) as told:
        AttentionJob(**given)  # type: ignore[arg-type]
    assert str(told.value) == text


def test_a_schedule_without_slots_and_a_job_that_is_too_long_are_refused() -> None:
    job = AttentionJob(queries=9, keys=8)
    for wrong in (lambda: ReorderedSchedule(slots=0, job=job), lambda: unordered_cost(0, job)):
        with pytest.raises(InputError, match=r"^slots must be at least 1, not 0; use 1$"):
            wrong()
    with pytest.raises(InputError) as told:
        ReorderedUnit(**GOOD).schedule(job)  # type: ignore[arg-type]
    assert str(told.value) == "queries must be at most max_length (8), not 9; raise max_length or split the job"


def test_the_golden_model_refuses_other_shapes_and_codes_out_of_range() -> None:
    unit = ReorderedUnit(**GOOD)  # type: ignore[arg-type]
    head = {
        "job": AttentionJob(queries=2, keys=3),
        "queries": np.zeros((2, 4), np.int64),
        "keys": np.zeros((3, 4), np.int64),
        "values": np.zeros((3, 4), np.int64),
    }
    with pytest.raises(InputError) as told:
        reordered_attention(unit, [Head(**(head | {"keys": np.zeros((2, 4), np.int64)}))])  # type: ignore[arg-type]
    assert str(told.value) == "keys of head 0 must have the shape (3, 4), not (2, 4); as its job and the unit say"
    with pytest.raises(InputError) as told:
        reordered_attention(unit, [Head(**(head | {"values": np.full((3, 4), 128)}))])  # type: ignore[arg-type]
    assert str(told.value) == (
        "values of head 0 must have codes from -128 to 127, not 128 to 128; quantize them by s8f4,nearest_even,saturate"
    )


def test_only_a_block_with_stream_ports_is_compiled(tmp_path: Path) -> None:
    description = {"top": "unit", "ports": [{"name": "clk", "width_bits": 1}]}
    with pytest.raises(InputError) as told:
        CompiledStreams.build(tmp_path / "unit.v", description, toolchain=find_toolchain(), cache=tmp_path)
    assert str(told.value) == "the block must have AXI4-Stream ports s_axis_... and m_axis; emit it with them"


def test_the_command_passes_the_message_on_and_exits_with_2(einrtl: Callable[..., object], tmp_path: Path) -> None:
    for options, text in (
        (("--block", 7), "error: key_features must be a multiple of block (7), not 64; use block 1\n"),
        (("--name", "1x"), "error: the name of a Verilog module must be a plain identifier, not '1x'; "),
    ):
        done = einrtl("rtl", "attention-reordered", "-o", tmp_path, *options)
        assert done.code == 2
        assert done.err.startswith(text)
