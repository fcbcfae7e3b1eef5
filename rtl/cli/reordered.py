"""``einrtl rtl attention-reordered``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from accel.cli import console, json_option, print_json, progress, table
from accel.reordered_cycles import job_times
from accel.reordered_schedule import AttentionJob
from accel.reordered_unit import ReorderedUnit
from rtl.attention.reordered import ReorderedAttention, ReorderedPorts
from rtl.attention.reordered.entry import DEFAULT
from rtl.cli.options import parse_format
from rtl.emission import emit_all
from rtl.emit import check_name

__all__ = ["COMMANDS"]


def _number(option: str, field: str, text: str) -> Callable[[Any], Any]:
    return click.option(option, field, type=int, default=getattr(DEFAULT, field), show_default=True, help=text)


def _format(option: str, text: str) -> Callable[[Any], Any]:
    field = option.removeprefix("--").replace("-", "_")
    return click.option(
        option,
        callback=parse_format,
        metavar="FORMAT",
        default=str(getattr(DEFAULT, field)),
        show_default=True,
        help=text,
    )


@click.command("attention-reordered")
@_number("--max-length", "max_length", "Most queries, and most keys, of a head; K and V are held on chip.")
@_number("--key-features", "key_features", "E, a multiple of the block.")
@_number("--value-features", "value_features", "F, a multiple of the block.")
@_number("--slots", "slots", "Query rows in work at a time, p; 1 to 64.")
@_number("--block", "block", "Features in a beat, and multiply-accumulates of a slot in a cycle; 1 to 64.")
@_number("--banks", "banks", "1, or 2 to load a head's K and V while the one before it is worked on.")
@_format("--query-format", "Of Q: sign and width, f and fraction bits, rounding, overflow.")
@_format("--key-format", "Of K.")
@_format("--value-format", "Of V.")
@_format("--output-format", "Of the result; it saturates.")
@_number("--weight-fraction-bits", "weight_fraction_bits", "Fraction bits of the exponentials, 4 to 20.")
@_number("--guard-bits", "guard_bits", "Further fraction bits of the running sums, 1 to 12.")
@click.option(
    "--score-scale",
    type=float,
    default=DEFAULT.score_scale,
    show_default=True,
    help="Factor of the scores; 0 for 1 / sqrt(E).",
)
@_number("--exp-segments", "exp_segments", "Straight pieces of the 2**-u table, a power of two.")
@click.option(
    "--counters/--no-counters", default=False, show_default=True, help="Count the actions of the energy model."
)
@click.option("--name", default="attention_reordered", show_default=True, help="Of the top module and the files.")
@click.option(
    "-o",
    "--output",
    "directory",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for NAME.v and NAME.json; made if missing.",
)
@json_option
def attention_reordered(*, counters: bool, name: str, directory: Path, as_json: bool, **parameters: Any) -> None:
    """Write an attention core: Q, K, V in, attended values out, p query rows against one key at a time.

    Its ports are AXI4-Stream: one for the settings of each head, one each for Q, K and V, and one for the result.
    """
    check_name(name)
    unit = ReorderedUnit(**parameters)
    with progress("writing Verilog"):
        emitted, files = emit_all(ReorderedPorts(ReorderedAttention(unit, counters=counters)), name, directory)
    longest = AttentionJob(queries=unit.max_length, keys=unit.max_length)
    masked = AttentionJob(queries=unit.max_length, keys=unit.max_length, causal=True)
    cycles = {
        "iterations": unit.schedule(longest).iterations,
        "compute_cycles": job_times(unit, [longest])[0].compute_cycles,
        "total_cycles": job_times(unit, [longest])[0].last_output_cycle + 1,
        "utilisation": unit.schedule(longest).utilisation,
        "iterations_causal": unit.schedule(masked).iterations,
        "total_cycles_causal": job_times(unit, [masked])[0].last_output_cycle + 1,
    }
    if as_json:
        paths = {role: str(path) for role, path in files.items()}
        print_json({**emitted.description, "longest_head": cycles, "files": paths})
        return
    out, what = console(), emitted.description
    rows = [(port["name"], port["direction"], port["width_bits"], port["meaning"]) for port in what["ports"]]
    out.print(table(f"Ports of {what['top']}", ("port", "direction", "bits", "meaning"), rows, right=(2,)))
    derived = what["derived"]
    figures = (
        (f"iterations of {unit.max_length} queries and keys", cycles["iterations"]),
        ("cycles of an iteration", derived["iteration_cycles"]),
        ("cycles from its settings to its last output", cycles["total_cycles"]),
        ("the same, causal", cycles["total_cycles_causal"]),
        ("use of the slots", f"{cycles['utilisation']:.1%}"),
        ("latency, last key to first output (cycles)", what["latency_cycles"]),
        ("error bound of an output", f"{what['max_error']:.3g}"),
        ("multipliers for Q K and A V", derived["multipliers"]),
        ("exponential units", derived["exp_units"]),
        ("K and V on chip (bits)", derived["key_buffer_bits"] + derived["value_buffer_bits"]),
        ("Verilog", emitted.verilog),
        ("sidecar", emitted.sidecar),
    )
    out.print(table("Figures", ("figure", "value"), figures))


COMMANDS = (attention_reordered,)
"""The commands of this family."""
