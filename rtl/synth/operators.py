"""The operators of a design before it is mapped: what arithmetic it does in a cycle, and in which widths."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtl.synth.design import Design
from rtl.synth.tools import TIMEOUT_S, remembered, run_yosys, tool_version

__all__ = ["Operators", "count_operators"]

_PASSES = """
read_verilog design.v
hierarchy -check -top {top}
proc
flatten
opt_expr
opt_clean
wreduce
opt_clean
write_json netlist.json
"""
_ADDERS = ("$add", "$sub", "$neg")
_COMPARATORS = ("$lt", "$le", "$gt", "$ge")


@dataclass(frozen=True, kw_only=True)
class Operators:
    """Arithmetic of a design.

    Parameters
    ----------
    multipliers : mapping of (int, int) to int
        How many there are for each pair of operand widths, the wider first.
    adder_bits : int
        Result bits of all additions, subtractions and negations.
    comparator_bits : int
        Operand bits of all comparisons of order.
    register_bits : int
        Bits of all registers.
    """

    multipliers: Mapping[tuple[int, int], int]
    adder_bits: int
    comparator_bits: int
    register_bits: int


def count_operators(design: Design, *, cache: Path | None = None, timeout_s: float = TIMEOUT_S) -> Operators:
    """Return the operators of ``design``.

    Raises
    ------
    ToolMissingError
        pyosys is not installed.
    SynthesisError
        yosys refuses the design, or takes too long.
    """
    passes = _PASSES.strip().format(top=design.top).splitlines()
    cause = {"step": "operators", "verilog": design.verilog, "how": passes, "yosys": tool_version("yosys")}

    def find(folder: Path) -> dict[str, Any]:
        (folder / "design.v").write_text(design.verilog, encoding="utf-8")
        run_yosys(passes, folder, timeout_s=timeout_s)
        module = json.loads((folder / "netlist.json").read_text(encoding="utf-8"))["modules"][design.top]
        return {"cells": [[cell["type"], *_widths(cell["parameters"])] for cell in module["cells"].values()]}

    cells = remembered(cache, cause, find)["cells"]
    return Operators(
        multipliers=Counter((max(a, b), min(a, b)) for kind, a, b, _ in cells if kind == "$mul"),
        adder_bits=sum(y for kind, _, _, y in cells if kind in _ADDERS),
        comparator_bits=sum(max(a, b) for kind, a, b, _ in cells if kind in _COMPARATORS),
        register_bits=sum(y for kind, _, _, y in cells if "dff" in kind),
    )


def _widths(parameters: Mapping[str, str]) -> tuple[int, int, int]:
    """Return the widths of a cell's operands and result; of a register, its width as the result."""
    a, b, y, width = (int(parameters.get(name, "0"), 2) for name in ("A_WIDTH", "B_WIDTH", "Y_WIDTH", "WIDTH"))
    return a, b, y or width
