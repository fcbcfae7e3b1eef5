"""``einrtl rtl encoder-block``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from accel.block_cycles import ProgramTimes, program_times
from accel.block_unit import BlockUnit
from accel.cli import console, print_json, progress, table
from accel.encoder_block import EncoderBlock
from accel.numerics import FixedPoint
from rtl.block import BlockEngine, BlockPorts
from rtl.block.entry import DEFAULT_BLOCK
from rtl.cli.linear import engine_options, show_ports
from rtl.emission import emit_all
from rtl.emit import check_name

__all__ = ["COMMANDS"]


def _times(block: EncoderBlock, unit: BlockUnit) -> ProgramTimes:
    """Return the cycles of the block; experts get as equal shares of the tokens as may be."""
    program = block.program(unit)
    if unit.gate is None:
        return program_times(unit, program)
    pairs, experts = block.tokens * unit.gate.top_k, block.experts
    counts = [pairs // experts + (expert < pairs % experts) for expert in range(experts)]
    return program_times(unit, program, [[(expert, count) for expert, count in enumerate(counts) if count]])


@click.command("encoder-block")
@click.option("--tokens", type=int, default=DEFAULT_BLOCK.tokens, show_default=True, help="Rows, a class token too.")
@click.option("--features", type=int, default=DEFAULT_BLOCK.features, show_default=True, help="Width of a row.")
@click.option("--heads", type=int, default=DEFAULT_BLOCK.heads, show_default=True, help="Attention heads.")
@click.option(
    "--hidden-features",
    type=int,
    default=DEFAULT_BLOCK.hidden_features,
    show_default=True,
    help="Width between the two layers, of each expert if there are any.",
)
@click.option("--experts", type=int, default=DEFAULT_BLOCK.experts, show_default=True, help="0 for a dense block.")
@click.option("--patch-features", type=int, default=0, show_default=True, help="Of a patch to embed; 0 for none.")
@click.option("--top-k", type=int, default=2, show_default=True, help="Experts of a token, 1 to 4.")
@click.option(
    "--renormalise/--no-renormalise", default=False, show_default=True, help="Make a token's scores sum to 1."
)
@click.option("--slots", type=int, default=4, show_default=True, help="Query rows in work at a time.")
@engine_options("encoder_block")
def encoder_block(  # every option is one of the design
    *,
    tile: int,
    feature_format: FixedPoint,
    weight_format: FixedPoint,
    top_k: int,
    renormalise: bool,
    slots: int,
    counters: bool,
    name: str,
    directory: Path,
    as_json: bool,
    **sizes: Any,
) -> None:
    """Write a transformer encoder block: norm, attention, linear layers or experts, on one token memory.

    Its ports are AXI4-Stream: operations, features, weights, and features out. The operations of the block, in the
    order in which they are to be sent, and their cycles are shown.
    """
    check_name(name)
    block = EncoderBlock(**sizes)
    unit = block.fitting_unit(
        tile=tile,
        feature_format=feature_format,
        weight_format=weight_format,
        slots=slots,
        top_k=top_k,
        renormalise=renormalise,
    )
    with progress("writing Verilog"):
        emitted, paths = emit_all(BlockPorts(BlockEngine(unit, counters=counters)), name, directory)
    times, program = _times(block, unit), block.program(unit)
    if as_json:
        files = {role: str(path) for role, path in paths.items()}
        operations = [
            {"operation": type(each).__name__, **vars(each), **vars(time)}
            for each, time in zip(program, times.operations, strict=True)
        ]
        shown = {"operations": operations, "total_cycles": times.total_cycles, "files": files}
        print_json({**emitted.description, **shown})
        return
    rows = [
        (index, type(each).__name__, time.begin_cycle, time.end_cycle, time.end_cycle - time.begin_cycle + 1)
        for index, (each, time) in enumerate(zip(program, times.operations, strict=True))
    ]
    console().print(table("Operations", ("", "operation", "begins", "ends", "cycles"), rows, right=(0, 2, 3, 4)))
    share = "equal shares for all experts" if block.experts else "all"
    show_ports(emitted, [(f"cycles of the block ({share})", times.total_cycles)])


COMMANDS = (encoder_block,)
"""The commands of this family."""
