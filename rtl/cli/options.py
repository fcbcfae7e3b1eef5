"""Options that the commands of all blocks share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from accel.cli import json_option
from accel.errors import InputError
from accel.numerics import FixedPoint

__all__ = ["output_options", "parse_format"]


def parse_format(ctx: click.Context, param: click.Parameter, value: str | None) -> FixedPoint | None:
    """Return the format that ``value`` names, or say what is wrong with it and with which option."""
    if value is None:
        return None
    try:
        return FixedPoint.parse(value)
    except InputError as error:
        raise click.BadParameter(str(error), ctx=ctx, param=param) from None


def output_options(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the options that say where and how a block is written; ``name`` is the default of its module."""
    options = (
        click.option(
            "--axi/--stream",
            default=True,
            show_default=True,
            help="AXI4-Stream ports, or one plain port for each part of a beat.",
        ),
        click.option("--name", default=name, show_default=True, help="Of the top module and the files."),
        click.option(
            "-o",
            "--output",
            "directory",
            required=True,
            type=click.Path(file_okay=False, path_type=Path),
            help="Directory for NAME.v and NAME.json; made if missing.",
        ),
        json_option,
    )

    def apply(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return apply
