"""The ``einrtl rtl`` command: blocks as Verilog."""

from __future__ import annotations

from pathlib import Path

import click

from accel.cli import console, json_option, print_json, table
from accel.errors import InputError
from accel.numerics import FixedPoint
from accel.softmax_unit import SoftmaxUnit
from rtl.axi import AxisWrapper, FlatWrapper
from rtl.emit import Emitted, check_name, emit
from rtl.registry import find_unit

__all__ = ["rtl"]

_DEFAULT: SoftmaxUnit = find_unit("softmax").default


def _format(ctx: click.Context, param: click.Parameter, value: str) -> FixedPoint:
    """Return the format that ``value`` names, or say what is wrong with it and with which option."""
    try:
        return FixedPoint.parse(value)
    except InputError as error:
        raise click.BadParameter(str(error), ctx=ctx, param=param) from None


@click.group()
def rtl() -> None:
    """Write a hardware block as Verilog, with a JSON sidecar that says what it is."""


@rtl.command()
@click.option("--lanes", type=int, default=_DEFAULT.lanes, show_default=True, help="Scores in a beat, 1 to 64.")
@click.option(
    "--max-length", type=int, default=_DEFAULT.max_length, show_default=True, help="Longest row in scores, up to 65536."
)
@click.option(
    "--input-format",
    callback=_format,
    metavar="FORMAT",
    default=str(_DEFAULT.input_format),
    show_default=True,
    help="Of the scores: sign and width, f and fraction bits, rounding, overflow.",
)
@click.option(
    "--output-format",
    callback=_format,
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
@click.option(
    "--axi/--stream",
    default=True,
    show_default=True,
    help="AXI4-Stream ports, or one plain port for each part of a beat.",
)
@click.option("--name", default="softmax", show_default=True, help="Of the top module and the files.")
@click.option(
    "-o",
    "--output",
    "directory",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for NAME.v and NAME.json; made if missing.",
)
@json_option
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
    core = find_unit("softmax").build(unit, counters=counters)
    emitted = emit(AxisWrapper(core) if axi else FlatWrapper(core), name, directory)
    if as_json:
        files = {"verilog": str(emitted.verilog), "sidecar": str(emitted.sidecar)}
        print_json({**emitted.description, "files": files})
    else:
        _show(emitted)


def _show(emitted: Emitted) -> None:
    """Print the ports and the figures of an emitted block."""
    out, what = console(), emitted.description
    rows = [(port["name"], port["direction"], port["width_bits"], port["meaning"]) for port in what["ports"]]
    out.print(table(f"Ports of {what['top']}", ("port", "direction", "bits", "meaning"), rows, right=(2,)))
    derived = what["derived"]
    figures = (
        ("latency, last score to first weight (cycles)", what["latency_cycles"]),
        ("interval (cycles a beat)", what["interval_cycles"]),
        ("error bound of a weight", f"{what['max_error']:.3g}"),
        ("2**-u and reciprocal tables (bits)", derived["exp_rom_bits"] + derived["reciprocal_rom_bits"]),
        ("row buffer (words x bits)", f"{derived['buffer_beats']} x {derived['buffer_word_bits']}"),
        ("row queue (words x bits)", f"{derived['buffer_beats']} x {derived['row_queue_word_bits']}"),
        ("Verilog", emitted.verilog),
        ("sidecar", emitted.sidecar),
    )
    out.print(table("Figures", ("figure", "value"), figures))
