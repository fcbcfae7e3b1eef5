"""Maps a design to the standard cells of a Liberty library by yosys: netlist, area, leakage."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtl.synth.design import Design
from rtl.synth.liberty import Liberty
from rtl.synth.tools import TIMEOUT_S, SynthesisError, remembered, run_yosys, tool_version

__all__ = ["MEMORY_CELL", "CellNetlist", "map_to_cells"]

MEMORY_CELL = "$mem_v2"
"""What yosys calls a memory that is left whole."""

MACRO_WORDS = 64
"""A memory with a registered read and at least this many words stays whole, as a macro; a smaller one becomes cells."""

CLOCK_PS = 2000
_CONSTRAINTS = "set_driving_cell BUF_X4\nset_load 4.0\n"
"""What abc takes to drive the inputs and to load the outputs (fF): without them it buffers senselessly."""

# The pass synth with Booth multipliers, but tables become gates and large memories stay whole. "opt -full" is left out
# after techmap: with it (yosys 0.70) the cells of softmax gave other results than its Verilog; why was not found.
_PASSES = """
read_liberty -lib cells.lib
read_verilog design.v
synth -flatten -booth -top {top} -run begin:fine
opt -fast -full
memory_map -rom-only
select -set macros t:$mem_v2 r:SIZE>={words} %i r:RD_CLK_ENABLE=0 %d
memory_map t:$mem_v2 @macros %d
opt -undriven -fine
techmap
opt -fast
setattr -unset init w:*
dfflibmap -liberty cells.lib
opt
abc -liberty cells.lib -D {clock_ps} -constr cells.constr
setundef -zero
opt_clean -purge
check -assert
write_json netlist.json
tee -q -o stat.json stat -liberty cells.lib -json
"""


@dataclass(frozen=True, kw_only=True)
class CellNetlist:
    """A design in standard cells.

    Parameters
    ----------
    top : str
        Its module.
    ports : mapping of str to mapping
        As yosys writes them: ``direction`` and ``bits``, each the number of a net or a constant "0", "1" or "x".
    instances : tuple of mapping
        Each with ``type`` and ``connections`` (pin to bits); memories left whole have ``parameters`` too.
    area_um2, leakage_uw : float
        Of all cells; memories left whole are in neither.
    yosys_area_um2 : float
        The same area as yosys adds it up.
    yosys_version : str
        Of the tool that found this.
    """

    top: str
    ports: Mapping[str, Mapping[str, Any]]
    instances: tuple[Mapping[str, Any], ...]
    area_um2: float
    leakage_uw: float
    yosys_area_um2: float
    yosys_version: str

    @property
    def cells(self) -> Mapping[str, int]:
        """Every kind of cell and how many there are."""
        return Counter(instance["type"] for instance in self.instances)

    @property
    def macro_bits(self) -> int:
        """Bits of the memories left whole."""
        return sum(
            _number(instance["parameters"]["SIZE"]) * _number(instance["parameters"]["WIDTH"])
            for instance in self.instances
            if instance["type"] == MEMORY_CELL
        )


def _number(bits: str) -> int:
    return int(bits, 2)


def map_to_cells(
    design: Design, library: Liberty, *, cache: Path | None = None, timeout_s: float = TIMEOUT_S
) -> CellNetlist:
    """Map ``design`` to the cells of ``library``, aiming at a clock of 2 ns.

    Values that registers start with are dropped: cells have none, and the reset sets what must be set.

    Parameters
    ----------
    design : Design
        What to map.
    library : Liberty
        The cells.
    cache : Path, optional
        Folder of earlier results.
    timeout_s : float
        How long yosys may take.

    Raises
    ------
    ToolMissingError
        pyosys is not installed.
    SynthesisError
        yosys refuses the design, or takes too long.
    """
    yosys = tool_version("yosys")
    passes = _PASSES.strip().format(top=design.top, words=MACRO_WORDS, clock_ps=CLOCK_PS).splitlines()
    cause = {
        "step": "cells",
        "verilog": design.verilog,
        "top": design.top,
        "how": passes,
        "yosys": yosys,
        "library": library.path.name,
        "library_bytes": len(library.text),
    }

    def find(folder: Path) -> dict[str, Any]:
        (folder / "design.v").write_text(design.verilog, encoding="utf-8")
        (folder / "cells.lib").symlink_to(library.path.resolve())
        (folder / "cells.constr").write_text(_CONSTRAINTS, encoding="utf-8")
        run_yosys(passes, folder, timeout_s=timeout_s)
        module = json.loads((folder / "netlist.json").read_text(encoding="utf-8"))["modules"][design.top]
        stat = json.loads((folder / "stat.json").read_text(encoding="utf-8"))
        keep = ("type", "connections", "parameters")
        return {
            "ports": {
                name: {key: port[key] for key in ("direction", "bits")} for name, port in module["ports"].items()
            },
            "instances": [
                {key: cell[key] for key in keep if cell.get(key)}
                for cell in module["cells"].values()
                if cell["type"] == MEMORY_CELL or not cell["type"].startswith("$")
            ],
            "yosys_area_um2": float(stat["design"]["area"]),
        }

    found = remembered(cache, cause, find)
    cells = [library.cell(each["type"]) for each in found["instances"] if each["type"] != MEMORY_CELL]
    area = math.fsum(cell.area_um2 for cell in cells)
    if not math.isclose(area, found["yosys_area_um2"], rel_tol=1e-6):
        raise SynthesisError(f"the cells must have the area {found['yosys_area_um2']} um2 that yosys finds, not {area}")
    return CellNetlist(
        top=design.top,
        ports=found["ports"],
        instances=tuple(found["instances"]),
        area_um2=area,
        leakage_uw=1e-3 * math.fsum(cell.leakage_nw for cell in cells),
        yosys_area_um2=found["yosys_area_um2"],
        yosys_version=yosys,
    )
