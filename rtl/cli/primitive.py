"""``einrtl rtl exp2`` and the other primitive functions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from accel.numerics import FixedPoint
from accel.primitive_unit import PRIMITIVES, PrimitiveUnit
from rtl.cli.options import output_options, parse_format
from rtl.cli.output import write
from rtl.emit import check_name
from rtl.primitive import DEFAULTS, ENTRIES

__all__ = ["COMMANDS"]

_ENTRIES = {entry.name: entry for entry in ENTRIES}


def _primitive_command(function: str) -> click.Command:
    """Return the command that writes one primitive function."""
    source, target, error, _ = DEFAULTS[function]

    @click.command(function, help=f"Write {PRIMITIVES[function].summary}: the smallest table that keeps --max-error.")
    @click.option(
        "--max-error",
        type=float,
        default=error,
        show_default=True,
        help="Largest distance of any result from the function, for every input code.",
    )
    @click.option("--lanes", type=int, default=1, show_default=True, help="Numbers in a beat, 1 to 64.")
    @click.option(
        "--input-format",
        callback=parse_format,
        metavar="FORMAT",
        default=source,
        show_default=True,
        help="Of the inputs: sign and width, f and fraction bits, rounding, overflow.",
    )
    @click.option(
        "--output-format",
        callback=parse_format,
        metavar="FORMAT",
        default=target,
        show_default=True,
        help="Of the results, which saturate.",
    )
    @click.option(
        "--max-degree", type=int, default=2, show_default=True, help="1: piecewise linear; 2: piecewise quadratic too."
    )
    @output_options(function)
    def command(
        max_error: float,
        lanes: int,
        input_format: FixedPoint,
        output_format: FixedPoint,
        max_degree: int,
        axi: bool,
        name: str,
        directory: Path,
        as_json: bool,
    ) -> None:
        check_name(name)
        wanted: dict[str, Any] = {
            "max_error": max_error,
            "input_format": input_format,
            "output_format": output_format,
            "max_degree": max_degree,
        }
        default = _ENTRIES[function].default
        if wanted == {key: getattr(default, key) for key in wanted}:
            unit = replace(default, lanes=lanes)  # whose table need not be searched
        else:
            unit = PrimitiveUnit(function=function, lanes=lanes, **wanted)
        write(_ENTRIES[function].build(unit), axi, name, directory, as_json)

    return command


COMMANDS = tuple(_primitive_command(function) for function in PRIMITIVES)
"""The commands of this family."""
