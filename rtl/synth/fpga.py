"""What a design takes on an FPGA family: cells after synthesis by yosys, raw and in the units of the family."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel.errors import InputError, did_you_mean
from rtl.synth.design import Design
from rtl.synth.tools import TIMEOUT_S, remembered, run_yosys, tool_version

__all__ = ["TARGETS", "Memory", "Resources", "Target", "find_target", "synthesise"]


@dataclass(frozen=True, kw_only=True)
class Target:
    """An FPGA family as yosys maps to it.

    Parameters
    ----------
    name, summary : str
        As users call it, and what it is.
    synthesis : str
        The yosys pass, without the top module.
    luts, flip_flops, multipliers, block_rams : mapping of str to float
        What one cell of each kind counts. A regular expression names the kinds.
    distributed : mapping of str to float
        Look-up tables that a cell uses as memory.
    free : str
        Kinds, as a regular expression, that cost none of the above: multiplexers beside the look-up tables, buffers.
    notes : tuple of str
        What the counts leave out.
    """

    name: str
    summary: str
    synthesis: str
    luts: Mapping[str, float]
    flip_flops: Mapping[str, float]
    multipliers: Mapping[str, float]
    block_rams: Mapping[str, float]
    distributed: Mapping[str, float]
    free: str
    notes: tuple[str, ...]


TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
        Target(
            name="ecp5",
            summary="Lattice ECP5",
            synthesis="synth_ecp5",
            luts={r"LUT4": 1, r"CCU2C": 2, r"TRELLIS_DPR16X4": 4},
            flip_flops={r"TRELLIS_FF": 1},
            multipliers={r"MULT18X18D": 1},
            block_rams={r"DP16KD|PDPW16KD": 1},
            distributed={r"TRELLIS_DPR16X4": 4},
            free=r"PFUMX|L6MUX21|GND|VCC",
            notes=("a carry cell counts as the two look-up tables that it takes",),
        ),
        Target(
            name="ice40",
            summary="Lattice iCE40 UltraPlus",
            synthesis="synth_ice40 -dsp -device u",
            luts={r"SB_LUT4": 1},
            flip_flops={r"SB_DFF\w*": 1},
            multipliers={r"SB_MAC16": 1},
            block_rams={r"SB_RAM40_4K\w*": 1},
            distributed={},
            free=r"SB_CARRY|SB_GB|GND|VCC",
            notes=("a carry cell sits beside a look-up table and counts nothing",),
        ),
        Target(
            name="xilinx",
            summary="AMD UltraScale+",
            synthesis="synth_xilinx -family xcup -flatten -noiopad -noclkbuf",
            luts={
                r"LUT[1-6]|LUT6_2|SRL16E|SRLC32E": 1,
                r"RAM32X1S|RAM64X1S": 1,
                r"RAM32X1D|RAM64X1D|RAM128X1S": 2,
                r"RAM32M|RAM64M|RAM128X1D|RAM256X1S": 4,
                r"RAM32M16|RAM64M8|RAM256X1D|RAM512X1S": 8,
            },
            flip_flops={r"FD[RSCP]E(_1)?|LD[CP]E": 1},
            multipliers={r"DSP48E2": 1},
            block_rams={r"RAMB36E2": 1, r"RAMB18E2": 0.5},
            distributed={
                r"SRL16E|SRLC32E|RAM32X1S|RAM64X1S": 1,
                r"RAM32X1D|RAM64X1D|RAM128X1S": 2,
                r"RAM32M|RAM64M|RAM128X1D|RAM256X1S": 4,
                r"RAM32M16|RAM64M8|RAM256X1D|RAM512X1S": 8,
            },
            free=r"CARRY[48]|MUXF[789]|INV|GND|VCC",
            notes=(
                (
                    "inverters and carry cells count nothing; yosys packs no accumulator into a DSP slice, so "
                    "flip-flops "
                    "and look-up tables are upper bounds"
                ),
            ),
        ),
    )
}
"""All targets by name."""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """A memory of the design, and what yosys made of it.

    Parameters
    ----------
    name : str
        Its place in the design.
    kind : str
        ``block``, ``distributed`` (look-up tables as memory), or ``logic`` (flip-flops, or gates for a table).
    cell : str
        The kind of cell it became; empty for ``logic``.
    """

    name: str
    kind: str
    cell: str


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What a design takes on one target.

    Parameters
    ----------
    target : str
        Name of the target.
    cells : mapping of str to int
        Every kind of cell and how many there are.
    lut_count, ff_count, dsp_count : int
        Look-up tables (those used as memory included), flip-flops, hardware multipliers.
    distributed_lut_count : int
        Look-up tables used as memory.
    block_ram_count : float
        Block memories; half a one where the family can split them.
    memories : tuple of Memory
        What became of each memory of the design.
    yosys_version : str
        Of the tool that found this.
    """

    target: str
    cells: Mapping[str, int]
    lut_count: int
    ff_count: int
    dsp_count: int
    distributed_lut_count: int
    block_ram_count: float
    memories: tuple[Memory, ...]
    yosys_version: str


def find_target(name: str) -> Target:
    """Return the target called ``name``.

    Raises
    ------
    InputError
        There is none.
    """
    if name not in TARGETS:
        raise InputError(
            f"target must be a known FPGA family, not {name!r}", hint=did_you_mean(name, TARGETS), field=("target",)
        )
    return TARGETS[name]


def synthesise(design: Design, target: str, *, cache: Path | None = None, timeout_s: float = TIMEOUT_S) -> Resources:
    """Synthesise ``design`` for ``target`` and count its cells.

    Parameters
    ----------
    design : Design
        What to synthesise.
    target : str
        One of ``TARGETS``.
    cache : Path, optional
        Folder of earlier results.
    timeout_s : float
        How long yosys may take.

    Raises
    ------
    InputError
        There is no such target, or ``cache`` cannot be written.
    ToolMissingError
        pyosys is not installed.
    SynthesisError
        yosys refuses the design, or takes too long.
    """
    family, yosys = find_target(target), tool_version("yosys")
    cause = {"step": "synthesise", "verilog": design.verilog, "top": design.top, "how": family.synthesis}

    def find(folder: Path) -> dict[str, Any]:
        (folder / "design.v").write_text(design.verilog, encoding="utf-8")
        said = run_yosys(
            ("read_verilog design.v", f"{family.synthesis} -top {design.top}", "write_json netlist.json"),
            folder,
            timeout_s=timeout_s,
        )
        netlist = json.loads((folder / "netlist.json").read_text(encoding="utf-8"))
        cells = Counter(cell["type"] for cell in netlist["modules"][design.top]["cells"].values())
        return {"cells": dict(sorted(cells.items())), "memories": _memories(said)}

    found = remembered(cache, cause | {"yosys": yosys}, find)
    return _resources(family, found, yosys)


def _resources(family: Target, found: Mapping[str, Any], yosys: str) -> Resources:
    cells = {kind: int(count) for kind, count in found["cells"].items() if not kind.startswith("$")}
    counted = (family.luts, family.flip_flops, family.multipliers, family.block_rams, {family.free: 0})
    for kind in cells:
        if not any(re.fullmatch(pattern, kind) for each in counted for pattern in each):
            raise InputError(
                f"every cell must be one that {family.summary} has, but the design holds {kind}",
                hint="give the modules of all instances",
            )

    def total(weights: Mapping[str, float]) -> float:
        return sum(
            weight * count
            for pattern, weight in weights.items()
            for kind, count in cells.items()
            if re.fullmatch(pattern, kind)
        )

    return Resources(
        target=family.name,
        cells=cells,
        lut_count=round(total(family.luts)),
        ff_count=round(total(family.flip_flops)),
        dsp_count=round(total(family.multipliers)),
        distributed_lut_count=round(total(family.distributed)),
        block_ram_count=total(family.block_rams),
        memories=tuple(Memory(**each) for each in found["memories"]),
        yosys_version=yosys,
    )


def _memories(said: str) -> list[dict[str, str]]:
    """Return what yosys' memory_libmap pass says of each memory."""
    found = [
        {
            "name": name,
            "kind": "distributed" if re.search("LUTRAM|DPR16X4", cell) else "block",
            "cell": cell.strip("$_"),
        }
        for name, cell in re.findall(r"^mapping memory (\S+) via (\S+)$", said, flags=re.MULTILINE)
    ]
    found += [
        {"name": name, "kind": "logic", "cell": ""}
        for name in re.findall(r"^using FF mapping for memory (\S+)$", said, flags=re.MULTILINE)
    ]
    return sorted(found, key=lambda each: each["name"])
