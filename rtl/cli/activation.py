"""``einrtl rtl gelu`` and the other activation functions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from accel.activation_unit import ACTIVATIONS, ActivationUnit, fitting_output
from accel.numerics import FixedPoint
from rtl.cli.options import output_options, parse_format
from rtl.cli.output import write
from rtl.emit import check_name
from rtl.registry import ACTIVATION_ERROR, ACTIVATION_INPUT, find_unit

__all__ = ["COMMANDS"]


def _activation_command(function: str) -> click.Command:
    """Return the command that writes one activation function."""

    @click.command(function, help=f"Write {ACTIVATIONS[function].summary}: the smallest table that keeps --max-error.")
    @click.option(
        "--max-error",
        type=float,
        default=ACTIVATION_ERROR,
        show_default=True,
        help="Largest distance of any result from the function, for every input code.",
    )
    @click.option("--lanes", type=int, default=1, show_default=True, help="Numbers in a beat, 1 to 64.")
    @click.option(
        "--input-format",
        callback=parse_format,
        metavar="FORMAT",
        default=str(ACTIVATION_INPUT),
        show_default=True,
        help="Of the inputs: sign and width, f and fraction bits, rounding, overflow.",
    )
    @click.option(
        "--output-format",
        callback=parse_format,
        metavar="FORMAT",
        help="Of the results; if absent, the narrowest whose rounding takes at most a third of --max-error.",
    )
    @click.option("--max-degree", type=int, default=2, show_default=True, help="Most multipliers of a lane, 1 or 2.")
    @click.option(
        "--lanes-per-table",
        type=int,
        default=1,
        show_default=True,
        help="Lanes that share a table, in turn; so many cycles a beat.",
    )
    @output_options(function.replace("-", "_"))
    def command(
        max_error: float,
        lanes: int,
        input_format: FixedPoint,
        output_format: FixedPoint | None,
        max_degree: int,
        lanes_per_table: int,
        axi: bool,
        name: str,
        directory: Path,
        as_json: bool,
    ) -> None:
        check_name(name)
        wanted: dict[str, Any] = {
            "max_error": max_error,
            "input_format": input_format,
            "output_format": output_format or fitting_output(function, max_error, input_format),
            "max_degree": max_degree,
        }
        default = find_unit(function).default
        if wanted == {key: getattr(default, key) for key in wanted}:
            unit = replace(default, lanes=lanes, lanes_per_table=lanes_per_table)  # whose table need not be searched
        else:
            unit = ActivationUnit(function=function, lanes=lanes, lanes_per_table=lanes_per_table, **wanted)
        write(find_unit(function).build(unit), axi, name, directory, as_json)

    return command


COMMANDS = tuple(_activation_command(function) for function in ACTIVATIONS)
"""The commands of this family."""
