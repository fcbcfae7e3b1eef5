"""``einrtl map``, ``rtl attention`` and ``sim`` on one file: one schedule, one Verilog, the predicted numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sim.attention
from accel import spec
from accel.arch import Architecture
from accel.attention_file import load_attention_file
from tests.conftest import ROOT, Finished
from tests.sim.array_designs import design

FORMATS = "\n".join(
    f"  {name}_format: {{signed: true, width_bits: 12, fraction_bits: 8, rounding: nearest_even, overflow: saturate}}"
    for name in ("query", "key", "value", "output")
)
WORK = "{name: w, batch: 1, heads: 2, kv_heads: 1, queries: 9, keys: 11, query_key_dim: 4, value_dim: 4}"
ARRAY = f"""\
name: small
workload: {WORK}
array:
  architecture: small.yaml
  max_length: 16
{FORMATS}
"""
REORDERED = f"""\
name: small
workload: {WORK}
causal: true
reordered:
  max_length: 16
  key_features: 4
  value_features: 4
  slots: 2
  block: 4
{FORMATS}
"""

Run = Callable[..., Finished]


def _architecture() -> Architecture:
    return design(shape=(2, 2), dims=(4, 4), max_length=16, tiles=(2, 1, 2)).architecture


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with an architecture, and a file for each core."""
    (tmp_path / "small.yaml").write_text(spec.dump(_architecture()), encoding="utf-8")
    (tmp_path / "array.yaml").write_text(ARRAY, encoding="utf-8")
    (tmp_path / "reordered.yaml").write_text(REORDERED, encoding="utf-8")
    return tmp_path


@pytest.fixture
def mapped(folder: Path, einrtl: Run) -> tuple[Path, Path, dict[str, Any]]:
    """Return the array's file, the schedule that the mapper found for it, and what it said."""
    file, schedule = folder / "array.yaml", folder / "found.yaml"
    options = ("--arch", folder / "small.yaml", "--template", "spatial-array-1pass", "--save", schedule)
    return file, schedule, _json(einrtl("map", file, *options, "--json"))


def _json(done: Finished) -> dict[str, Any]:
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


Mapped = tuple[Path, Path, dict[str, Any]]


def test_map_rtl_and_sim_agree_on_one_file(mapped: Mapped, folder: Path, einrtl: Run, simulators: Path) -> None:
    file, schedule, said = mapped
    emitted = _json(einrtl("rtl", "attention", file, "--schedule", schedule, "-o", folder / "out", "--json"))
    seen = _json(einrtl("sim", file, "--schedule", schedule, "--build-dir", simulators, "--json"))
    assert seen["bit_exact"] and seen["holds"] and seen["first_difference"] is None
    assert seen["cycles_rtl"] == seen["cycles_model"] == sum(seen["cycles"].values())
    assert seen["actions_rtl"] == seen["actions_model"]
    # Two heads share their keys: the mapper puts them into one instance, the hardware is sent them twice.
    assert seen["actions_rtl"]["exp_2d"] == 2 * 9 * 11
    assert seen["verilog_sha256"] == emitted["verilog_sha256"]
    assert emitted["parameters"]["keys_per_tile"] == said["schedule"]["tiles"]["m0"]
    assert 0.3 < seen["use_2d"] < 1 and seen["use_slots"] is None
    assert 0 < seen["max_error"] <= seen["input_error_bound"] <= seen["error_bound"]


def test_the_energy_is_the_counted_actions_times_the_table(mapped: Mapped, einrtl: Run, simulators: Path) -> None:
    seen = _json(einrtl("sim", mapped[0], "--schedule", mapped[1], "--build-dir", simulators, "--json"))
    actions, energy = seen["actions_rtl"], seen["energy_pj"]
    row = actions["multiply_1d"] * 3.65 + actions["add_1d"] * 0.242 + actions["max_1d"] * 0.028036
    row += actions["divide_1d"] * 36.251153
    words = sum(count for name, count in actions.items() if name.startswith("read_")) * 25.9 / 4
    words += sum(count for name, count in actions.items() if name.startswith("write_")) * 19.7 / 4
    assert energy["open-45nm"]["1d"] == pytest.approx(row)
    assert energy["open-45nm"]["buffer"] == pytest.approx(words)
    assert energy["fpga-scaled-45nm"]["1d"] == pytest.approx(14 * row)
    for parts in energy.values():
        assert parts["total"] == pytest.approx(sum(parts.values()) / 2)


def test_a_reordered_unit_runs_from_its_file(folder: Path, einrtl: Run, simulators: Path) -> None:
    emitted = _json(einrtl("rtl", "attention", folder / "reordered.yaml", "-o", folder / "out", "--json"))
    seen = _json(einrtl("sim", folder / "reordered.yaml", "--build-dir", simulators, "--json"))
    assert seen["holds"] and seen["bit_exact"] and seen["core"] == "reordered"
    assert seen["cycles_rtl"] == seen["cycles_model"] and seen["actions_rtl"] == seen["actions_model"]
    assert seen["verilog_sha256"] == emitted["verilog_sha256"]
    assert seen["use_2d"] is None and 0 < seen["use_slots"] < 1
    assert seen["energy_pj"]["fpga-scaled-45nm"]["arithmetic"] == pytest.approx(
        14 * seen["energy_pj"]["open-45nm"]["arithmetic"]
    )


def test_a_complete_design_is_written_with_all_that_a_host_needs(folder: Path, einrtl: Run) -> None:
    out = folder / "out"
    emitted = _json(
        einrtl("rtl", "attention", folder / "array.yaml", "--design", "--name", "mine", "-o", out, "--json")
    )
    names = {"mine.v", "mine.json", "mine.h", "mine_registers.py", "mine_registers.md", "attention_driver.py"}
    names.add("mine_zcu102.tcl")
    assert {path.name for path in out.iterdir()} == names
    assert {Path(path).name for path in emitted["files"].values()} == names
    assert emitted["registers"][0] == json.loads((out / "mine.json").read_text(encoding="utf-8"))["registers"][0]
    ports = {port["name"] for port in emitted["ports"]}
    assert {"s_axil_awaddr", "s_axis_q_tdata", "m_axis_tlast", "irq"} <= ports
    assert not any(port.startswith("write_") for port in ports)


def test_a_wrong_bit_ends_with_1_and_says_where(
    mapped: Mapped, einrtl: Run, simulators: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden = sim.attention.attention

    def wrong(*given: Any, **named: Any) -> np.ndarray[Any, Any]:
        codes = golden(*given, **named)
        codes[1, 3, 2] += 1
        return codes

    monkeypatch.setattr(sim.attention, "attention", wrong)
    done = einrtl("sim", mapped[0], "--schedule", mapped[1], "--build-dir", simulators)
    assert done.code == 1
    assert "FAILED: AV of head 1, query 3, feature 2:" in done.out
    assert "(1 of 72 codes differ)" in done.out.replace("\n", " ")


def test_a_wrong_cycle_count_ends_with_1(
    mapped: Mapped, einrtl: Run, simulators: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sim.attention, "START_CYCLES", 3)
    done = einrtl("sim", mapped[0], "--schedule", mapped[1], "--build-dir", simulators, "--json")
    seen = json.loads(done.out)
    assert (done.code, seen["bit_exact"], seen["holds"]) == (1, True, False)
    assert seen["first_difference"] == (
        f"cycles: {seen['cycles_rtl'] + 1} in the model, {seen['cycles_rtl']} in the hardware"
    )


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "attention").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_shipped_files_describe_cores_that_can_be_built(path: Path) -> None:
    file = load_attention_file(path)
    assert file.array is None or file.array_unit().rows == file.array_unit().columns
