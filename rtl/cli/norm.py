"""``einrtl rtl layernorm`` and ``rmsnorm``."""

from __future__ import annotations

from pathlib import Path

import click

from accel.norm_unit import NORMS, NormUnit
from accel.numerics import FixedPoint
from rtl.cli.options import output_options, parse_format
from rtl.cli.output import write
from rtl.emit import check_name
from rtl.registry import NORM_INPUT, NORM_OUTPUT, find_unit

__all__ = ["COMMANDS"]


def _norm_command(function: str) -> click.Command:
    """Return the command that writes one normalisation."""

    @click.command(function, help=f"Write {NORMS[function]}: one pass, exact sums, one beat a cycle.")
    @click.option("--lanes", type=int, default=1, show_default=True, help="Numbers in a beat, 1 to 64.")
    @click.option("--max-length", type=int, default=1024, show_default=True, help="Longest row, up to 16384.")
    @click.option(
        "--input-format",
        callback=parse_format,
        metavar="FORMAT",
        default=str(NORM_INPUT),
        show_default=True,
        help="Of the inputs: sign and width, f and fraction bits, rounding, overflow.",
    )
    @click.option(
        "--output-format",
        callback=parse_format,
        metavar="FORMAT",
        default=str(NORM_OUTPUT),
        show_default=True,
        help="Of the results.",
    )
    @click.option("--epsilon", type=float, default=1e-5, show_default=True, help="Added to the variance.")
    @output_options(function)
    def command(
        lanes: int,
        max_length: int,
        input_format: FixedPoint,
        output_format: FixedPoint,
        epsilon: float,
        axi: bool,
        name: str,
        directory: Path,
        as_json: bool,
    ) -> None:
        check_name(name)
        unit = NormUnit(
            function=function,
            max_length=max_length,
            lanes=lanes,
            input_format=input_format,
            output_format=output_format,
            epsilon=epsilon,
        )
        write(find_unit(function).build(unit), axi, name, directory, as_json)

    return command


COMMANDS = tuple(_norm_command(function) for function in NORMS)
"""The commands of this family."""
