"""``einrtl rtl attention``: the core of an attention file."""

from __future__ import annotations

from pathlib import Path

import click

from accel.attention_file import AttentionFile, load_attention_file
from accel.cli import console, json_option, print_json, progress, table
from accel.errors import InputError
from rtl.attention.array import emit_array
from rtl.attention.reordered import ReorderedAttention, ReorderedPorts
from rtl.design import emit_design
from rtl.emission import emit_all, with_core
from rtl.emit import Emitted, check_name
from rtl.registry import find_unit

__all__ = ["COMMANDS"]


@click.command("attention")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--schedule",
    type=click.Path(path_type=Path),
    help="Schedule that einrtl map has saved, in place of the file's.",
)
@click.option(
    "--counters/--no-counters", default=True, show_default=True, help="Count the actions of the energy model."
)
@click.option(
    "--design",
    "as_design",
    is_flag=True,
    help="Write a complete design: the array behind AXI4-Lite registers, with header, constants and host driver.",
)
@click.option(
    "--name",
    help="Of the top module and the files.  [default: attention_array, attention_reordered or attention_design]",
)
@click.option(
    "-o",
    "--output",
    "directory",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for NAME.v and NAME.json; made if missing.",
)
@json_option
def attention(
    file: Path,
    schedule: Path | None,
    counters: bool,
    as_design: bool,
    name: str | None,
    directory: Path,
    as_json: bool,
) -> None:
    """Write the core that an attention FILE describes: the one that einrtl sim simulates."""
    if name is not None:
        check_name(name)
    described = load_attention_file(file).mapped(schedule)
    if as_design:
        _write_design(described, counters, name or "attention_design", directory, as_json)
        return
    if described.reordered is not None:
        core = ReorderedAttention(described.reordered, counters=counters)
        with progress("writing Verilog"):
            emitted, paths = emit_all(ReorderedPorts(core), name or "attention_reordered", directory)
    else:
        with progress("writing Verilog"):
            emitted = emit_array(described.array_unit(), name or "attention_array", directory, counters=counters)
        paths = with_core(emitted, find_unit("attention-array").summary)
    if as_json:
        print_json({**emitted.description, "files": {role: str(path) for role, path in paths.items()}})
    else:
        _show(emitted)


def _write_design(file: AttentionFile, counters: bool, name: str, directory: Path, as_json: bool) -> None:
    if file.array is None:
        raise InputError("a complete design must have an array, not a reordered unit", hint="leave out --design")
    with progress("writing Verilog"):
        emitted = emit_design(file.array_unit(), name, directory, counters=counters)
    if as_json:
        print_json({**emitted.description, "files": {what: str(path) for what, path in emitted.files.items()}})
        return
    out, registers = console(), emitted.description["registers"]
    rows = [(f"0x{each['offset_bytes']:03x}", each["name"], each["access"], each["meaning"]) for each in registers]
    out.print(table(f"Registers of {name}", ("address", "register", "access", "meaning"), rows))
    out.print(table("Files", ("what", "where"), emitted.files.items()))


def _show(emitted: Emitted) -> None:
    out, what = console(), emitted.description
    rows = [(port["name"], port["direction"], port["width_bits"], port["meaning"]) for port in what["ports"]]
    out.print(table(f"Ports of {what['top']}", ("port", "direction", "bits", "meaning"), rows, right=(2,)))
    figures = (
        (f"latency {what['latency_span']} (cycles)", what["latency_cycles"]),
        ("error bound of an output", f"{what['max_error']:.3g}"),
        ("Verilog", emitted.verilog),
        ("its sha256, which einrtl sim prints too", what["verilog_sha256"]),
        ("sidecar", emitted.sidecar),
    )
    out.print(table("Figures", ("figure", "value"), figures))


COMMANDS = (attention,)
"""The commands of this family."""
