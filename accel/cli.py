"""The root of the ``einrtl`` command, and what all its subcommands share: tables, JSON, errors and exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points, version
from typing import Any

import click
from click.shell_completion import get_completion_class
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from accel.errors import EinRTLError, InputError, did_you_mean

__all__ = ["EXIT_BAD_INPUT", "EXIT_COMPARISON_FAILED", "console", "json_option", "main", "print_json", "table"]

EXIT_COMPARISON_FAILED = 1
EXIT_BAD_INPUT = 2

COMMAND_GROUP = "einrtl.commands"
LISTING_GROUP = "einrtl.listings"

json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON and nothing else.")
"""Every command that prints results takes it."""


def console(*, stderr: bool = False) -> Console:
    """Return a console for people: colour only on a terminal, lines never cut when the output is a file."""
    out = Console(stderr=stderr, highlight=False)
    if not out.is_terminal:
        out.width = max(out.width, 160)
    return out


def print_json(value: Any) -> None:
    """Print ``value`` as JSON; infinities and NaN, which JSON lacks, must have been left out by the caller."""
    click.echo(json.dumps(value, indent=2, allow_nan=False))


def table(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]], *, right: Iterable[int] = ()) -> Table:
    """Return a table with one look for all commands; columns in ``right`` hold numbers and align to the right."""
    result = Table(title=title, title_justify="left", title_style="bold", header_style="bold", box=SIMPLE_HEAD)
    numbers = set(right)
    for index, head in enumerate(heads):
        result.add_column(head, justify="right" if index in numbers else "left", overflow="fold")
    for row in rows:
        result.add_row(*(str(cell) for cell in row))
    return result


class _Commands(click.Group):
    """A group whose subcommands are the entry points of ``einrtl.commands``; each is imported only when used."""

    def _points(self) -> Mapping[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=COMMAND_GROUP)}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of built-in and installed commands."""
        return sorted({*super().list_commands(ctx), *self._points()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, imported on first use."""
        built_in = super().get_command(ctx, cmd_name)
        if built_in is not None:
            return built_in
        point = self._points().get(cmd_name)
        if point is None:
            return None
        command = point.load()
        if not isinstance(command, click.Command):
            raise click.ClickException(f"entry point {point.value} of {COMMAND_GROUP} must be a click command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command name; a wrong one gets the nearest right one as a hint."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            hint = did_you_mean(args[0], self.list_commands(ctx))
            raise click.UsageError(f"{args[0]!r} is not a command; {hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("einrtl"), prog_name="einrtl")
def root() -> None:
    """From an attention cascade to its best schedule, its Verilog, and the proof in simulation."""


@root.command("list")
@click.argument("kinds", nargs=-1)
@json_option
def list_command(kinds: tuple[str, ...], as_json: bool) -> None:
    """Show what can be named on the command line: all of it, or only the KINDS given (cascades, units, ...)."""
    points = {point.name: point for point in entry_points(group=LISTING_GROUP)}
    for kind in kinds:
        if kind not in points:
            raise InputError(f"a kind to list must be known, not {kind!r}", hint=did_you_mean(kind, points))
    listings: dict[str, list[dict[str, Any]]] = {kind: points[kind].load()() for kind in kinds or sorted(points)}
    if as_json:
        print_json(listings[kinds[0]] if len(kinds) == 1 else listings)
        return
    for kind, rows in listings.items():
        heads = list(rows[0]) if rows else ["name"]
        shown = table(
            kind, [head.replace("_", " ") for head in heads], [[_cell(row[head]) for head in heads] for row in rows]
        )
        shown.columns[0].no_wrap = True  # names are there to be copied
        console().print(shown)


def _cell(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else "" if value is None else str(value)


@root.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of SHELL; for bash: eval "$(einrtl completion bash)"."""
    kind = get_completion_class(shell)
    assert kind is not None, "click completes all three shells"
    click.echo(kind(root, {}, "einrtl", "_EINRTL_COMPLETE").source())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 right, 1 a comparison failed, 2 bad input."""
    try:
        code = root.main(args=arguments, prog_name="einrtl", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except EinRTLError as error:
        for line in str(error).splitlines():
            click.echo(f"error: {line}" if not line.startswith(" ") else line, err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
