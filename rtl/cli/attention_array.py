"""``einrtl rtl attention-array``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from accel.arch import load_architecture
from accel.attention_array import CASCADE, AttentionArray, with_stalls
from accel.cli import console, json_option, print_json, progress, table
from accel.numerics import FixedPoint
from accel.schedule import Schedule, load_schedule, load_template
from rtl.attention.array import emit_array
from rtl.cli.options import parse_format
from rtl.emission import with_core
from rtl.emit import check_name
from rtl.registry import find_unit

__all__ = ["COMMANDS"]

_ELEMENT = "s16f12,nearest_even,saturate"


def _number(option: str, default: int | None, text: str) -> Callable[[Any], Any]:
    return click.option(option, type=int, default=default, show_default=default is not None, help=text)


def _format(tensor: str) -> Callable[[Any], Any]:
    return click.option(
        f"--{tensor}-format",
        callback=parse_format,
        metavar="FORMAT",
        default=_ELEMENT,
        show_default=True,
        help=f"Of the {tensor}: sign and width, f and fraction bits, rounding, overflow.",
    )


@click.command("attention-array")
@click.option(
    "--arch",
    "architecture",
    default="fpga-attention-8x8",
    show_default=True,
    help="Architecture: rows, columns, and the cycles of an exponential.",
)
@click.option(
    "--schedule",
    "schedule_path",
    type=click.Path(path_type=Path),
    help="Schedule file with tile sizes and plan; by default tiles of the size of the array and spatial-array-1pass.",
)
@_number("--query-tiles", 4, "Query tiles on chip while all keys pass, p1; not with --schedule.")
@_number("--keys-per-tile", None, "Keys for each update of the running values, m0; by default one for each row.")
@_number("--query-key-dim", 64, "E.")
@_number("--value-dim", 64, "F.")
@_number("--max-length", 1024, "Most queries, and most keys, of a head.")
@_number("--weight-fraction-bits", 15, "Fraction bits of a weight, 4 to 15.")
@_format("query")
@_format("key")
@_format("value")
@_format("output")
@click.option("--stalls/--no-stalls", default=True, show_default=True, help="Add the stall cycles that links need.")
@click.option(
    "--counters/--no-counters", default=True, show_default=True, help="Count the actions of the energy model."
)
@click.option("--name", default="attention_array", show_default=True, help="Of the top module and the files.")
@click.option(
    "-o",
    "--output",
    "directory",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for NAME.v and NAME.json; made if missing.",
)
@json_option
def attention_array(
    architecture: str,
    schedule_path: Path | None,
    query_tiles: int,
    keys_per_tile: int | None,
    query_key_dim: int,
    value_dim: int,
    max_length: int,
    weight_fraction_bits: int,
    query_format: FixedPoint,
    key_format: FixedPoint,
    value_format: FixedPoint,
    output_format: FixedPoint,
    stalls: bool,
    counters: bool,
    name: str,
    directory: Path,
    as_json: bool,
) -> None:
    """Write a spatial attention array, made from architecture and schedule: Q, K and V in, AV out, one pass over K."""
    check_name(name)
    machine = load_architecture(architecture)
    if schedule_path is not None:
        schedule = load_schedule(schedule_path)
    else:
        array = machine.arrays.get("2d")
        rows, columns = (array.rows, array.columns) if array else (1, 1)
        schedule = Schedule(
            cascade=CASCADE,
            architecture=machine.name,
            tiles={"m0": rows if keys_per_tile is None else keys_per_tile, "p1": query_tiles, "p0": columns},
            plan=load_template("spatial-array-1pass").plan,
        )
    unit = AttentionArray.of(
        machine,
        schedule,
        query_key_dim=query_key_dim,
        value_dim=value_dim,
        max_length=max_length,
        query_format=query_format,
        key_format=key_format,
        value_format=value_format,
        output_format=output_format,
        weight_fraction_bits=weight_fraction_bits,
    )
    with progress("writing Verilog"):
        emitted = emit_array(with_stalls(unit) if stalls else unit, name, directory, counters=counters)
    what, paths = emitted.description, with_core(emitted, find_unit("attention-array").summary)
    if as_json:
        print_json({**what, "files": {role: str(path) for role, path in paths.items()}})
        return
    out = console()
    rows_of = [(port["name"], port["direction"], port["width_bits"], port["meaning"]) for port in what["ports"]]
    out.print(table(f"Ports of {name}", ("port", "direction", "bits", "meaning"), rows_of, right=(2,)))
    figures = (
        ("PEs", f"{unit.rows} x {unit.columns}, and {unit.columns} below"),
        ("tile (keys x queries)", f"{unit.keys_per_tile} x {unit.queries_per_tile}"),
        ("stall cycles of the groups", ", ".join(str(group["stall_cycles"]) for group in what["parameters"]["epoch"])),
        ("last division to its beat (cycles)", what["latency_cycles"]),
        ("link down a column, along a row (bits)", f"{unit.link_bits}, {unit.row_link_bits}"),
        ("relative error bound of an exponential", f"{unit.exponential.relative_error:.3g}"),
        (f"error bound of AV at {max_length} keys", f"{what['max_error']:.3g}"),
        ("Verilog", emitted.verilog),
        ("sidecar", emitted.sidecar),
    )
    out.print(table("Figures", ("figure", "value"), figures))


COMMANDS = (attention_array,)
"""The commands of this family."""
