"""``einrtl run``: the whole thread, from a cascade to verified Verilog."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from accel.cli import EXIT_COMPARISON_FAILED, console, json_option, print_json, table
from sim.flow import run_flow
from sim.folder import result_folder
from sim.outcome import Outcome
from sim.report import write_report
from sim.steps import OnStep, Step
from sim.summary import summary_tables
from sim.toolchain import find_toolchain

__all__ = ["run"]


@contextmanager
def _progress() -> Iterator[OnStep]:
    """Show on standard error which step is at work: a bar on a terminal, a line for each step elsewhere."""
    steps = list(Step)
    out = console(stderr=True)
    if not out.is_terminal:
        yield lambda step: out.print(f"[{steps.index(step) + 1}/{len(steps)}] {step.value}", markup=False)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=out, transient=True) as progress:
        task = progress.add_task("", total=len(steps))
        yield lambda step: progress.update(task, completed=steps.index(step), description=step.value)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Folder of the report; by default build/ and the name of the run file.",
)
@click.option(
    "--build-dir",
    type=click.Path(path_type=Path),
    default=Path("build/simulators"),
    show_default=True,
    help="Folder of compiled simulations, which later runs use again.",
)
@click.option(
    "--waves", type=click.Path(path_type=Path), help="Record the waveforms of the simulation to a .vcd or .fst file."
)
@json_option
def run(file: Path, output: Path | None, build_dir: Path, waves: Path | None, as_json: bool) -> int:
    """Take FILE from cascade to verified Verilog.

    Counts passes, picks schedules, generates the softmax, simulates it on real scores, and compares bits, cycles and
    actions with what was predicted. Exits 0 only if every comparison holds.
    """
    toolchain = find_toolchain()
    final = output or Path("build") / file.stem
    command = shlex.join(["einrtl", *sys.argv[1:]])
    with result_folder(final) as folder, _progress() as on_step:
        outcome = run_flow(file, folder, toolchain=toolchain, cache=build_dir, on_step=on_step, waves=waves)
        on_step(Step.REPORT)
        write_report(outcome, folder, command)
    if as_json:
        print_json(outcome.as_dict() | {"report": str(final / "report.md"), "page": str(final / "report.html")})
    else:
        _show(outcome, final)
    return 0 if outcome.holds else EXIT_COMPARISON_FAILED


def _show(outcome: Outcome, final: Path) -> None:
    out = console()
    for each in summary_tables(outcome):
        out.print(table(each.title, each.heads, each.rows, right=each.numbers))
        if each.note:
            out.print(each.note, style="dim", markup=False)
        out.print()
    out.print(f"Report: {final / 'report.html'} and {final / 'report.md'}", markup=False)
    if outcome.holds:
        out.print("Verified: the Verilog gives the predicted bits in the predicted cycles with the predicted actions.")
    else:
        out.print(f"FAILED: {outcome.first_difference}", markup=False, style="bold red")
