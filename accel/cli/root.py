"""The root of the ``einrtl`` command: subcommands by entry points, listings, completion, errors and exit codes."""

from __future__ import annotations

import os
import platform
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points, version
from typing import Any

import click
from click.shell_completion import get_completion_class

from accel.cli.display import console, json_option, print_json, table
from accel.cli.options import Loudness, with_common_options
from accel.errors import EinRTLError, InputError, did_you_mean, way_out

__all__ = [
    "COMMAND_GROUP",
    "EXIT_BAD_INPUT",
    "EXIT_COMPARISON_FAILED",
    "EXIT_INTERRUPTED",
    "EXIT_OWN_FAULT",
    "EXIT_TOOL_MISSING",
    "LISTING_GROUP",
    "main",
    "root",
]

EXIT_COMPARISON_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_TOOL_MISSING = 3
EXIT_OWN_FAULT = 4
EXIT_INTERRUPTED = 130

COMMAND_GROUP = "einrtl.commands"
LISTING_GROUP = "einrtl.listings"


class _ReaderGoneError(Exception):
    """Whoever read the output has gone away, as in ``einrtl list | head -1``: no fault of anyone."""


class _Commands(click.Group):
    """A group whose subcommands are the entry points of ``einrtl.commands``; each is imported only when used."""

    def _points(self) -> Mapping[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=COMMAND_GROUP)}

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; click would end a process whose reader has gone away as if a comparison had failed."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _ReaderGoneError from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of built-in and installed commands."""
        return sorted({*super().list_commands(ctx), *self._points()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, imported on first use."""
        built_in = super().get_command(ctx, cmd_name)
        if built_in is not None:
            return with_common_options(built_in)
        point = self._points().get(cmd_name)
        if point is None:
            return None
        command = point.load()
        if not isinstance(command, click.Command):
            raise click.ClickException(f"entry point {point.value} of {COMMAND_GROUP} must be a click command")
        return with_common_options(command)

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
    """From an attention cascade to its best schedule, its Verilog, and the proof in simulation.

    Exit codes: 0 right, 1 a comparison failed, 2 bad input, 3 a tool is missing, 4 a fault of EinRTL itself, 130
    interrupted.
    """


with_common_options(root)


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
        cells = [[_cell(head, row[head]) for head in heads] for row in rows]
        shown = table(kind, [head.replace("_", " ") for head in heads], cells)
        shown.columns[0].no_wrap = True  # names are there to be copied
        shown.padding, shown.pad_edge = (0, 1, 0, 0), False
        for column, head, *texts in zip(shown.columns, heads, *cells, strict=True):
            if head.endswith(("_cycles", "_format", "_error")):
                # Numbers and their heads of several words leave the room to the texts.
                column.max_width = max(map(len, [*head.split("_"), *texts]))
        console().print(shown)


def _cell(head: str, value: object) -> str:
    """Return a value as the table shows it: of a number format the width and fraction only; --json has all of it."""
    if head.endswith("_format"):
        return str(value).partition(",")[0]
    return f"{value:.3g}" if isinstance(value, float) else "" if value is None else str(value)


@root.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of SHELL; for bash: eval "$(einrtl completion bash)"."""
    kind = get_completion_class(shell)
    assert kind is not None, "click completes all three shells"
    click.echo(kind(root, {}, "einrtl", "_EINRTL_COMPLETE").source())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with the code that ``root`` describes."""
    loud = Loudness()
    begin = time.perf_counter()
    code = _run(arguments, loud)
    if loud.verbose:
        click.echo(
            f"einrtl {version('einrtl')}, Python {platform.python_version()}, {platform.platform(terse=True)}: "
            f"{time.perf_counter() - begin:.2f} s, exit code {code}",
            err=True,
        )
    sys.exit(code)


def _run(arguments: Sequence[str] | None, loud: Loudness) -> int:
    """Return the exit code; errors are shown, each in the way that helps its reader."""
    try:
        code = root.main(args=arguments, prog_name="einrtl", standalone_mode=False, obj=loud)
        return code if isinstance(code, int) else 0
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except EinRTLError as error:
        _trace(loud)
        for line in str(error).splitlines():
            click.echo(f"error: {line}" if not line.startswith(" ") else line, err=True)
        return error.exit_code
    except _ReaderGoneError:
        # Python flushes once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        _trace(loud)
        click.echo(f"error: {_system_fault(error)}", err=True)
        return EXIT_BAD_INPUT
    except Exception as error:  # noqa: BLE001 (whatever it is, a user must not have to read a stack)
        _trace(loud)
        lines = str(error).splitlines()
        click.echo(
            f"error: a fault of EinRTL itself, {type(error).__name__}{': ' + lines[0] if lines else ''}; "
            "please report it with what the same command prints with --verbose",
            err=True,
        )
        return EXIT_OWN_FAULT


def _trace(loud: Loudness) -> None:
    if loud.verbose:
        click.echo(traceback.format_exc(), err=True)


def _system_fault(error: OSError) -> str:
    """Return a line for what the operating system refused where no command foresaw it."""
    where = f"{error.filename}: " if error.filename else ""
    hint = way_out(error, otherwise="see --verbose for where it happened")
    return f"{where}{error.strerror or error}; {hint}"
