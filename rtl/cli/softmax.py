"""``einrtl rtl softmax``."""

from __future__ import annotations

from pathlib import Path

import click

from accel.numerics import FixedPoint
from accel.softmax_unit import SoftmaxUnit
from rtl.cli.options import output_options, parse_format
from rtl.cli.output import write
from rtl.emit import check_name
from rtl.registry import find_unit

__all__ = ["COMMANDS"]

_DEFAULT: SoftmaxUnit = find_unit("softmax").default


@click.command()
@click.option("--lanes", type=int, default=_DEFAULT.lanes, show_default=True, help="Scores in a beat, 1 to 64.")
@click.option(
    "--max-length", type=int, default=_DEFAULT.max_length, show_default=True, help="Longest row in scores, up to 65536."
)
@click.option(
    "--input-format",
    callback=parse_format,
    metavar="FORMAT",
    default=str(_DEFAULT.input_format),
    show_default=True,
    help="Of the scores: sign and width, f and fraction bits, rounding, overflow.",
)
@click.option(
    "--output-format",
    callback=parse_format,
    metavar="FORMAT",
    default=str(_DEFAULT.output_format),
    show_default=True,
    help="Of the weights.",
)
@click.option(
    "--exp-segments",
    type=int,
    default=_DEFAULT.exp_segments,
    show_default=True,
    help="Straight pieces of the 2**-u table, a power of two.",
)
@click.option(
    "--counters/--no-counters", default=False, show_default=True, help="Count the actions of the energy model."
)
@output_options("softmax")
def softmax(
    lanes: int,
    max_length: int,
    input_format: FixedPoint,
    output_format: FixedPoint,
    exp_segments: int,
    counters: bool,
    axi: bool,
    name: str,
    directory: Path,
    as_json: bool,
) -> None:
    """Write a single-pass softmax: each score is read once, one beat a cycle, with a proven error bound."""
    check_name(name)
    unit = SoftmaxUnit(
        max_length=max_length,
        lanes=lanes,
        input_format=input_format,
        output_format=output_format,
        exp_segments=exp_segments,
    )
    write(find_unit("softmax").build(unit, counters=counters), axi, name, directory, as_json)


COMMANDS = (softmax,)
"""The commands of this family."""
