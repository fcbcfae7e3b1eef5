"""What commands show: tables, JSON and progress, with one look for all of them."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from accel.cli.options import loudness

__all__ = ["console", "json_option", "print_json", "progress", "table"]

json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON and nothing else.")
"""Every command that prints results takes it."""


class _Console(Console):
    """A console that leaves it to the root command what a reader's going away means."""

    def on_broken_pipe(self) -> None:
        """Do not exit as a failed comparison would."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def console(*, stderr: bool = False) -> Console:
    """Return a console for people: colour only on a terminal, lines never cut when the output is a file.

    With ``--quiet`` it shows nothing.
    """
    out = _Console(stderr=stderr, highlight=False, quiet=loudness().quiet)
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


@contextmanager
def progress(description: str, total: int | None = None) -> Iterator[Callable[[int, str], None]]:
    """Show on standard error, on a terminal, how far work has come; the bar goes away at the end.

    Parameters
    ----------
    description : str
        What is done.
    total : int, optional
        Steps; without it only the time is shown.

    Yields
    ------
    callable
        ``advance(done, description)``: how many steps are done, and what is done now; an empty text keeps the last.
    """
    out = console(stderr=True)
    counted = () if total is None else (MofNCompleteColumn(),)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), *counted, TimeElapsedColumn())
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task(description, total=total)
        yield lambda done, text: bar.update(task, completed=done, description=text or None)
