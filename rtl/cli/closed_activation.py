"""``einrtl rtl gelu-ibert`` and the other activation functions without a table."""

from __future__ import annotations

from pathlib import Path

import click

from accel.closed_activation_unit import CLOSED_ACTIVATIONS, ClosedActivationUnit
from accel.numerics import FixedPoint
from rtl.activation.closed import CLOSED_INPUT, CLOSED_OUTPUT, ClosedActivationBlock
from rtl.cli.options import output_options, parse_format
from rtl.cli.output import write
from rtl.emit import check_name

__all__ = ["COMMANDS"]


def _closed_command(function: str) -> click.Command:
    """Return the command that writes one stand-in."""
    form = CLOSED_ACTIVATIONS[function]

    @click.command(function, help=f"Write {form.summary}: in place of {form.stands_for}, without a table.")
    @click.option("--lanes", type=int, default=1, show_default=True, help="Numbers in a beat, 1 to 64.")
    @click.option(
        "--input-format",
        callback=parse_format,
        metavar="FORMAT",
        default=CLOSED_INPUT,
        show_default=True,
        help="Of the inputs: sign and width, f and fraction bits, rounding, overflow.",
    )
    @click.option(
        "--output-format",
        callback=parse_format,
        metavar="FORMAT",
        default=CLOSED_OUTPUT,
        show_default=True,
        help="Of the results.",
    )
    @output_options(function.replace("-", "_"))
    def command(
        lanes: int,
        input_format: FixedPoint,
        output_format: FixedPoint,
        axi: bool,
        name: str,
        directory: Path,
        as_json: bool,
    ) -> None:
        check_name(name)
        unit = ClosedActivationUnit(
            function=function, lanes=lanes, input_format=input_format, output_format=output_format
        )
        write(ClosedActivationBlock(unit), axi, name, directory, as_json)

    return command


COMMANDS = tuple(_closed_command(function) for function in CLOSED_ACTIVATIONS)
"""The commands of this family."""
