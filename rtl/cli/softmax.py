"""``einrtl rtl softmax`` and the other units of the softmax family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from rtl.cli.options import output_options, parse_format
from rtl.cli.output import write
from rtl.emit import check_name
from rtl.registry import find_unit
from rtl.softmax import ENTRIES

__all__ = ["COMMANDS"]

_OPTIONS: dict[str, dict[str, Any]] = {
    "lanes": {"type": int, "help": "Scores in a beat, 1 to 64."},
    "max_length": {"type": int, "help": "Longest row in scores, up to 65536."},
    "input_format": {
        "callback": parse_format,
        "metavar": "FORMAT",
        "help": "Of the scores: sign and width, f and fraction bits, rounding, overflow.",
    },
    "output_format": {"callback": parse_format, "metavar": "FORMAT", "help": "Of the results."},
    "exp_segments": {"type": int, "help": "Straight pieces of the 2**-g table, a power of two."},
    "k": {"type": int, "help": "Weights to keep in a row, 1 to 64."},
    "block_beats": {"type": int, "help": "Beats of a block, 1 to 4096."},
    "bias": {"type": float, "help": "Added to each score: for sigmoid attention minus ln of the row's length."},
    "divisor": {"type": float, "help": "By which results are divided, 1 to 65536: the row's length, its root, or 1."},
    "function_error": {"type": float, "help": "Largest error of the sigmoid's table."},
    "phi": {"type": float, "help": "Fixed number in place of the largest score of a row."},
    "window": {
        "type": float,
        "help": "How far a row's largest score may be from phi, 0.25 to 8, or it is redone.",
    },
    "threshold": {"type": float, "help": "Largest weight that a skipped score may have."},
}
"""How each parameter is given; ``keep_row_sum`` is a switch."""


def _parameters(default: Any) -> tuple[str, ...]:
    """Return the names of the parameters that a user may choose; a default of 0 segments means that there is none."""
    names = {each.name for each in fields(default)}
    return tuple(name for name in _OPTIONS if name in names and (name != "exp_segments" or default.exp_segments))


def _row_sum_is_free(name: str) -> bool:
    """Return whether the unit can carry what a weight loses to the next."""
    return name in ("softmax", "softermax", "integer-softmax", "two-pass-softmax")


def _softmax_command(name: str, text: str) -> click.Command:
    """Return the command that writes one unit of the family."""
    default = find_unit(name).default
    names = _parameters(default)

    @output_options(name.replace("-", "_"))
    def command(axi: bool, name: str, directory: Path, as_json: bool, **chosen: Any) -> None:
        check_name(name)
        built = {"counters": chosen.pop("counters")} if "counters" in chosen else {}
        unit = type(default)(**chosen)
        write(find_unit(default.name).build(unit, **built), axi, name, directory, as_json)

    for option in reversed(_options(default, names)):
        command = option(command)
    return click.command(name, help=text)(command)


def _options(default: Any, names: tuple[str, ...]) -> list[Callable[[Any], Any]]:
    """Return the options of a unit, which show the defaults of its registered description."""
    found = []
    for each in names:
        value = getattr(default, each)
        shown = str(value) if each.endswith("format") else value
        found.append(click.option(f"--{each.replace('_', '-')}", default=shown, show_default=True, **_OPTIONS[each]))
    if _row_sum_is_free(default.name):
        found.append(
            click.option(
                "--keep-row-sum/--round-alone",
                default=default.keep_row_sum,
                show_default=True,
                help="Carry what a weight loses to the next, so that rows sum to 1, or round each weight alone.",
            )
        )
    if default.name == "softmax":
        text = "Count the actions of the energy model."
        found.append(click.option("--counters/--no-counters", default=False, show_default=True, help=text))
    return found


COMMANDS = (
    _softmax_command(
        "softmax",
        "Write a single-pass softmax: each score is read once, one beat a cycle, with a proven error bound.",
    ),
    *(_softmax_command(entry.name, f"Write the {entry.summary}.") for entry in ENTRIES),
)
"""The commands of this family."""
