"""The Vivado script, run by a Tcl interpreter in which Vivado's commands only write down how they are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from accel.errors import InputError
from rtl.platforms.vivado import ZCU102_PART, zcu102_script

COMMANDS = (
    "create_project",
    "read_verilog",
    "synth_design",
    "create_clock",
    "get_ports",
    "opt_design",
    "place_design",
    "route_design",
    "report_utilization",
    "report_timing_summary",
    "write_checkpoint",
)


def test_the_script_reads_the_verilog_beside_it_and_runs_every_step_in_order(tmp_path: Path) -> None:
    tkinter = pytest.importorskip("tkinter", reason="this Python has no Tcl")
    tcl = tkinter.Tcl()
    tcl.eval("set calls {}")
    for name in COMMANDS:
        tcl.eval(f"proc {name} {{args}} {{ global calls; lappend calls [linsert $args 0 {name}]; return $args }}")
    path = tmp_path / "core_zcu102.tcl"
    path.write_text(zcu102_script("core", clock_period_ns=4.0), encoding="utf-8")
    tcl.eval(f"source {{{path}}}")
    calls = [tcl.splitlist(each) for each in tcl.splitlist(tcl.eval("set calls"))]
    assert [call[0] for call in calls if call[0] != "get_ports"] == [name for name in COMMANDS if name != "get_ports"]
    by_name = {call[0]: call[1:] for call in calls}
    assert by_name["read_verilog"] == (str(tmp_path / "core.v"),)
    assert by_name["synth_design"] == ("-top", "core", "-part", ZCU102_PART, "-mode", "out_of_context")
    assert by_name["create_clock"] == ("-period", "4.000", "-name", "aclk", "aclk")


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="the name of a Verilog module must be a plain identifier, not 'a b'"):
        zcu102_script("a b")
