"""``einrtl rtl linear``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from accel.activation_unit import ACTIVATIONS, ActivationUnit
from accel.block_unit import BlockUnit
from accel.cli import console, json_option, print_json, progress, table
from accel.linear_unit import LinearUnit
from accel.numerics import FixedPoint, Rounding
from rtl.block import BlockEngine, BlockPorts
from rtl.block.entry import FEATURES, WEIGHTS
from rtl.cli.options import parse_format
from rtl.emission import emit_all
from rtl.emit import Emitted, check_name

__all__ = ["COMMANDS", "engine_options", "show_ports"]


def engine_options(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the options that all units with the linear unit share; ``name`` is the default of the module."""
    options = (
        click.option("--tile", type=int, default=16, show_default=True, help="Features in a word, T: 2, 4, 8, 16, 32."),
        click.option(
            "--feature-format",
            callback=parse_format,
            metavar="FORMAT",
            default=str(FEATURES),
            show_default=True,
            help="Of all features: sign and width, f and fraction bits, rounding, overflow.",
        ),
        click.option(
            "--weight-format",
            callback=parse_format,
            metavar="FORMAT",
            default=str(WEIGHTS),
            show_default=True,
            help="Of the weights; a bias has twice their width.",
        ),
        click.option(
            "--counters/--no-counters", default=False, show_default=True, help="Count the actions of the energy model."
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


def show_ports(emitted: Emitted, figures: list[tuple[str, object]]) -> None:
    """Print the ports of an emitted unit, and figures."""
    out, what = console(), emitted.description
    rows = [(port["name"], port["direction"], port["width_bits"], port["meaning"]) for port in what["ports"]]
    out.print(table(f"Ports of {what['top']}", ("port", "direction", "bits", "meaning"), rows, right=(2,)))
    derived = what["derived"]
    shared: list[tuple[str, object]] = [
        ("multipliers of the linear unit", derived["multipliers"]),
        ("sums (bits)", derived["accumulator_bits"]),
        ("cycles before the first step", derived["fill_cycles"]),
        ("cycles from a last step to its word", what["latency_cycles"]),
        ("token memory (bits)", derived["memory_bits"]),
        ("both banks of weights (bits)", 2 * derived["weight_bank_bits"]),
        ("Verilog", emitted.verilog),
        ("sidecar", emitted.sidecar),
    ]
    out.print(table("Figures", ("figure", "value"), [*figures, *shared]))


def _activation(function: str, tile: int, features: FixedPoint) -> ActivationUnit:
    steps = 2 if features.rounding is Rounding.TRUNCATE else 1
    return ActivationUnit(
        function=function,
        max_error=steps * features.resolution,
        lanes=tile,
        input_format=features,
        output_format=features,
    )


@click.command("linear")
@click.option("--max-features", type=int, default=768, show_default=True, help="Most features of a row, in or out.")
@click.option("--weight-tiles", type=int, default=576, show_default=True, help="Tiles of T x T weights in a bank.")
@click.option("--memory-words", type=int, default=16384, show_default=True, help="Words of the token memory.")
@click.option("--max-rows", type=int, default=256, show_default=True, help="Most rows of a layer, and of a list.")
@click.option("--lists", type=int, default=16, show_default=True, help="Token lists.")
@click.option("--score-fraction-bits", type=int, default=15, show_default=True, help="Of the scores in a list.")
@click.option(
    "--activation",
    type=click.Choice(["none", *ACTIVATIONS]),
    default="gelu",
    show_default=True,
    help="What a layer may end with; within a step of the features.",
)
@engine_options("linear")
def linear(
    *,
    tile: int,
    feature_format: FixedPoint,
    weight_format: FixedPoint,
    max_features: int,
    weight_tiles: int,
    score_fraction_bits: int,
    activation: str,
    counters: bool,
    name: str,
    directory: Path,
    as_json: bool,
    **sizes: Any,
) -> None:
    """Write the unified linear unit: one engine for all linear layers, T x T multiply-accumulates a cycle.

    Its ports are AXI4-Stream: operations, features, weights, and features out. A layer of R rows takes R x ceil(in / T)
    x ceil(out / T) cycles; layers follow each other without a gap.
    """
    check_name(name)
    engine = LinearUnit(
        tile=tile,
        max_features=max_features,
        weight_tiles=weight_tiles,
        feature_format=feature_format,
        weight_format=weight_format,
        score_fraction_bits=score_fraction_bits,
    )
    if activation != "none":
        # The engine is checked first: a wrong tile is no matter of the activation.
        engine = replace(engine, activation=_activation(activation, tile, feature_format))
    block = BlockEngine(BlockUnit(linear=engine, **sizes), counters=counters)
    with progress("writing Verilog"):
        emitted, paths = emit_all(BlockPorts(block), name, directory)
    widest = min(max_features, weight_tiles // engine.blocks(max_features) * tile)
    if as_json:
        files = {role: str(path) for role, path in paths.items()}
        print_json({**emitted.description, "files": files})
        return
    figures: list[tuple[str, object]] = [("error bound of a result that does not saturate", f"{engine.error():.3g}")]
    if widest:
        shape = (max_features, widest)
        figures += [
            (f"cycles of a row, {max_features} to {widest} features", engine.row_cycles(*shape)),
            ("cycles to load its weights", engine.load_beats(*shape)),
        ]
    show_ports(emitted, figures)


COMMANDS = (linear,)
"""The commands of this family."""
