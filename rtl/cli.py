"""The ``einrtl rtl`` command: blocks as Verilog."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from accel.activation_unit import ACTIVATIONS, ActivationUnit, fitting_output
from accel.cli import console, json_option, print_json, table
from accel.errors import InputError
from accel.norm_unit import NORMS, NormUnit
from accel.numerics import FixedPoint
from accel.softmax_unit import SoftmaxUnit
from rtl.axi import AxisWrapper, FlatWrapper
from rtl.contract import StreamUnit
from rtl.emit import Emitted, check_name, emit
from rtl.registry import ACTIVATION_ERROR, ACTIVATION_INPUT, NORM_INPUT, NORM_OUTPUT, find_unit

__all__ = ["rtl"]

_DEFAULT: SoftmaxUnit = find_unit("softmax").default


def _format(ctx: click.Context, param: click.Parameter, value: str | None) -> FixedPoint | None:
    """Return the format that ``value`` names, or say what is wrong with it and with which option."""
    if value is None:
        return None
    try:
        return FixedPoint.parse(value)
    except InputError as error:
        raise click.BadParameter(str(error), ctx=ctx, param=param) from None


def _output_options(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
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
@_output_options("softmax")
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
    _write(find_unit("softmax").build(unit, counters=counters), axi, name, directory, as_json)


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
        callback=_format,
        metavar="FORMAT",
        default=str(ACTIVATION_INPUT),
        show_default=True,
        help="Of the inputs: sign and width, f and fraction bits, rounding, overflow.",
    )
    @click.option(
        "--output-format",
        callback=_format,
        metavar="FORMAT",
        help="Of the results; if absent, the narrowest whose rounding takes at most a third of --max-error.",
    )
    @click.option("--max-degree", type=int, default=2, show_default=True, help="Most multipliers of a lane, 1 or 2.")
    @_output_options(function.replace("-", "_"))
    def command(
        max_error: float,
        lanes: int,
        input_format: FixedPoint,
        output_format: FixedPoint | None,
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
            "output_format": output_format or fitting_output(function, max_error, input_format),
            "max_degree": max_degree,
        }
        default = find_unit(function).default
        if wanted == {key: getattr(default, key) for key in wanted}:
            unit = replace(default, lanes=lanes)  # whose table need not be searched
        else:
            unit = ActivationUnit(function=function, lanes=lanes, **wanted)
        _write(find_unit(function).build(unit), axi, name, directory, as_json)

    return command


def _norm_command(function: str) -> click.Command:
    """Return the command that writes one normalisation."""

    @click.command(function, help=f"Write {NORMS[function]}: one pass, exact sums, one beat a cycle.")
    @click.option("--lanes", type=int, default=1, show_default=True, help="Numbers in a beat, 1 to 64.")
    @click.option("--max-length", type=int, default=1024, show_default=True, help="Longest row, up to 16384.")
    @click.option(
        "--input-format",
        callback=_format,
        metavar="FORMAT",
        default=str(NORM_INPUT),
        show_default=True,
        help="Of the inputs: sign and width, f and fraction bits, rounding, overflow.",
    )
    @click.option(
        "--output-format",
        callback=_format,
        metavar="FORMAT",
        default=str(NORM_OUTPUT),
        show_default=True,
        help="Of the results.",
    )
    @click.option("--epsilon", type=float, default=1e-5, show_default=True, help="Added to the variance.")
    @_output_options(function)
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
        _write(find_unit(function).build(unit), axi, name, directory, as_json)

    return command


for _function in ACTIVATIONS:
    rtl.add_command(_activation_command(_function))
for _function in NORMS:
    rtl.add_command(_norm_command(_function))


def _write(core: StreamUnit, axi: bool, name: str, directory: Path, as_json: bool) -> None:
    """Write a block and show what it is."""
    emitted = emit(AxisWrapper(core) if axi else FlatWrapper(core), name, directory)
    if as_json:
        files = {"verilog": str(emitted.verilog), "sidecar": str(emitted.sidecar)}
        print_json({**emitted.description, "files": files})
    else:
        _show(emitted, core.contract.family)


_FIGURES: dict[str, Callable[[dict[str, Any]], tuple[tuple[str, object], ...]]] = {
    "softmax": lambda derived: (
        ("2**-u and reciprocal tables (bits)", derived["exp_rom_bits"] + derived["reciprocal_rom_bits"]),
        ("row buffer (words x bits)", f"{derived['buffer_beats']} x {derived['buffer_word_bits']}"),
        ("row queue (words x bits)", f"{derived['buffer_beats']} x {derived['row_queue_word_bits']}"),
    ),
    "activation": lambda derived: (
        ("table, all lanes (bits)", derived["rom_bits"]),
        ("segments", derived["segments"]),
        ("degree, multipliers of a lane", derived["degree"]),
        ("coefficients (bits each)", ", ".join(map(str, derived["coefficient_bits"]))),
    ),
    "norm": lambda derived: (
        ("1 / sqrt table (bits)", derived["rom_bits"]),
        ("denominator (bits)", derived["denominator_bits"]),
        ("row buffer (words x bits)", f"{derived['buffer_beats']} x {derived['buffer_word_bits']}"),
        ("row queue (words x bits)", f"{derived['buffer_beats']} x {derived['row_queue_word_bits']}"),
    ),
}
"""What is special to a family."""

_LATENCIES = {
    "softmax": "latency, last score to first weight (cycles)",
    "activation": "latency (cycles)",
    "norm": "latency, last input to first result (cycles)",
}


def _show(emitted: Emitted, family: str) -> None:
    """Print the ports and the figures of an emitted block."""
    out, what = console(), emitted.description
    rows = [(port["name"], port["direction"], port["width_bits"], port["meaning"]) for port in what["ports"]]
    out.print(table(f"Ports of {what['top']}", ("port", "direction", "bits", "meaning"), rows, right=(2,)))
    figures = (
        (_LATENCIES[family], what["latency_cycles"]),
        ("interval (cycles a beat)", what["interval_cycles"]),
        ("error bound of a result", f"{what['max_error']:.3g}"),
        *_FIGURES[family](what["derived"]),
        ("Verilog", emitted.verilog),
        ("sidecar", emitted.sidecar),
    )
    out.print(table("Figures", ("figure", "value"), figures))
