"""Wrong parameters of the spatial attention array: exact texts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from accel.attention_array import AttentionArray, Job, check_job
from accel.errors import InputError
from accel.schedule import Group, Residence
from sim.golden.attention_array import attention
from tests.conftest import Finished
from tests.sim.array_designs import design, interleaved_plan

UNIT = design(shape=(2, 3), dims=(3, 4), max_length=20, tiles=(5, 2, 3)).unit

COMMAND_CASES = [
    ("--max-length 0", "max_length must be from 1 to 65536, not 0; use 1"),
    ("--keys-per-tile 99", "keys_per_tile must be from 1 to 64, not 99; use 64"),
    (
        "--query-key-dim 2 --value-dim 2 --no-stalls",
        (
            "SLN must come at least 17 cycles after RM in an array of 8 rows, but comes 3 after it; raise "
            "stall_cycles of the group before, or the offset of the later Einsum"
        ),
    ),
    ("--arch fusemax-cloud", "rows must be from 1 to 32, not 256; use 32"),
    (
        "--arch flat-cloud",
        (
            "architecture 'flat-cloud' must have exp of 2 to 7 cycles, alike in both arrays, and all other "
            "operators of 1 cycle; start from fpga-attention-8x8"
        ),
    ),
    (
        "--output-format s16f12,truncate,wrap",
        "output_format must saturate, not s16f12,truncate,wrap; end it with ,saturate",
    ),
    (
        "--output-format s24f20,truncate,saturate --value-format s8f2,truncate,saturate",
        (
            "output_format must have at most 17 fraction bits, as value_format and the weights have together, "
            "not 20; use as many as value_format"
        ),
    ),
    (
        "--value-format u16f12,truncate,wrap",
        "value_format must be signed and have 4 to 18 bits, not u16f12,truncate,wrap; use s16f12,nearest_even,saturate",
    ),
    ("--weight-fraction-bits 30", "weight_fraction_bits must be from 4 to 15, not 30; use 15"),
    (
        "--max-length 65536",
        (
            "products of running values must fit in 62 bits, but take 66; use a narrower value_format, fewer "
            "weight_fraction_bits or a shorter max_length"
        ),
    ),
    (
        "--name always",
        (
            "the name of a Verilog module must be a plain identifier, not 'always'; use letters, digits and "
            "underscores, and no Verilog keyword"
        ),
    ),
]


@pytest.mark.parametrize(("options", "message"), COMMAND_CASES, ids=[options for options, _ in COMMAND_CASES])
def test_the_command_says_what_is_wrong(
    options: str, message: str, einrtl: Callable[..., Finished], tmp_path: Path
) -> None:
    done = einrtl("rtl", "attention-array", *options.split(), "-o", str(tmp_path))
    assert (done.code, done.out, done.err) == (2, "", f"error: {message}\n")
    assert not list(tmp_path.iterdir())


def _plan(**changes: object) -> AttentionArray:
    return dataclasses.replace(UNIT, plan=dataclasses.replace(interleaved_plan(), **changes))  # type: ignore[arg-type]


def _copies() -> AttentionArray:
    plan = interleaved_plan()
    home = Residence(level=plan.residency["K"].level, within="m1", copies=3)
    return _plan(residency={**plan.residency, "K": home})


PLAN_CASES: list[tuple[str, Callable[[], object], str]] = [
    (
        "loops",
        lambda: _plan(loops=("m1", "p2", "p1")),
        (
            "plan must have the splits, loops and axes of the template spatial-array-1pass; change only its "
            "epoch, offsets and copies"
        ),
    ),
    (
        "binding",
        lambda: _plan(
            epoch=(
                Group(slots=({"2d": ("BQK", "LM", "RM", "SLN", "SLD", "SLNV"), "1d": ("PRM", "SPD")},)),
                Group(slots=({"1d": ("RD", "SPNV", "RNV", "AV")},)),
            )
        ),
        (
            "plan must bind BQK, LM, SLN, SLD and SLNV to array 2d and RM, PRM, SPD, RD, SPNV, RNV and AV to "
            "1d; change only the order"
        ),
    ),
    ("copies", _copies, "copies of K must be 1, 2, 4 or 8, not 3; use 2: one is read while the other is filled"),
    (
        "offsets",
        lambda: _plan(offsets={**interleaved_plan().offsets, "AV": 5}),
        (
            "offsets must use every number from 0 to 5, but none is 4: an epoch that does nothing would still "
            "take a cycle; lower the offsets above it by 1"
        ),
    ),
    ("queries", lambda: check_job(UNIT, Job(queries=21, keys=1)), "queries must be from 1 to 20, not 21; use 20"),
    ("heads", lambda: check_job(UNIT, Job(queries=1, keys=1, heads=0)), "heads must be from 1 to 65535, not 0; use 1"),
    (
        "a shape",
        lambda: attention(UNIT, [[[1, 2]]], [[[1, 2, 3]]], [[[1, 2, 3, 4]]]),
        "q must have the shape (heads, length, 3), not (1, 1, 2); give at least one of each",
    ),
    (
        "a code",
        lambda: attention(UNIT, [[[1, 2, 3]]], [[[1, 2, 1 << 20]]], [[[1, 2, 3, 4]]]),
        "k must hold integers from -32768 to 32767; quantize the numbers by s16f12,nearest_even,saturate",
    ),
]


@pytest.mark.parametrize(("make", "message"), [case[1:] for case in PLAN_CASES], ids=[case[0] for case in PLAN_CASES])
def test_a_message_says_what_is_wrong_and_the_way_out(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value) == message
