"""``einrtl sweep``: explore architectures, workloads and objectives, and show the Pareto fronts."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from accel.cli import check_output, console, json_option, print_json, table
from accel.errors import InputError
from accel.files import write_text
from accel.sweep import Measure, SweepFile
from mapping.sweep.export import WORKLOAD, mark_fronts, write_csv, write_parquet
from mapping.sweep.page import sweep_page
from mapping.sweep.plan import SweepPlan, load_plan
from mapping.sweep.run import Progress, run_sweep
from mapping.sweep.runners import DaskRunner, InProcessRunner, ProcessRunner
from mapping.sweep.store import Store, is_database

__all__ = ["sweep"]

MOST_SHOWN = 20
"""Rows of one front, and reasons, that are printed; files hold all."""


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Database of results.  [default: FILE's .sqlite]")
@click.option("--workers", type=click.IntRange(min=0), help="Processes; 0: this one.  [default: all cores]")
@click.option("--scheduler", metavar="ADDRESS|local", help="Run on the Dask cluster of this scheduler, or a local one.")
@click.option("--retry", is_flag=True, help="Try points again that failed before.")
@click.option("--show", is_flag=True, help="Run nothing, show what is there.")
@click.option("--csv", "csv_file", type=click.Path(path_type=Path), help="Write all points to a .csv file.")
@click.option("--parquet", "parquet_file", type=click.Path(path_type=Path), help="Write all points to a Parquet file.")
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    help="Write a page of all results to a .html file; after a run, by default beside the database.",
)
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the fronts to a .png file.")
@json_option
def sweep(
    file: Path,
    output: Path | None,
    workers: int | None,
    scheduler: str | None,
    retry: bool,
    show: bool,
    csv_file: Path | None,
    parquet_file: Path | None,
    report: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Schedule many designs for many workloads and show which are best.

    FILE is a sweep file (docs/sweep.md); with --show it may be a database of results. Results are recorded one by one:
    an interrupted sweep goes on where it was when the same command is given again.
    """
    if is_database(file) and not show:
        raise InputError(f"{file} is a database of results, which can only be shown", hint="add --show")
    check_output(plot, "picture", ".png")
    for each in (csv_file, parquet_file, report):  # before hours of work rather than after
        check_output(each)
    database = output or (file if is_database(file) else Path(file.with_suffix(".sqlite").name))
    plan = None if is_database(file) else load_plan(file)
    progress, wall_time_s = None, 0.0
    with Store(database, read_only=show) as store:
        if plan is not None and not show:
            begin = time.perf_counter()
            progress = _run(plan, store, workers, scheduler, retry)
            wall_time_s = time.perf_counter() - begin
        elif plan is not None and store.plan_digest() not in (None, plan.digest):
            _note(f"{file} has changed since it was last run; shown are the points that it asked for then")
        description, counts = store.sweep(), store.counts()
        rows = mark_fronts(store.rows(), description.minimise)
        schedules = _schedules(store, rows) if as_json else {}
    _note_rest(database, counts)
    if csv_file is not None:
        write_csv(rows, csv_file)
    if parquet_file is not None:
        write_parquet(rows, parquet_file)
    if plot is not None:
        from mapping.plot_sweep import plot_fronts  # matplotlib is slow to import

        plot_fronts(rows, description.minimise, plot, title=f"Sweep {description.name}: {counts['done']:,} designs")
    if report is None and not show:
        report = database.with_suffix(".html")
    if report is not None:
        _write_page(report, description, rows, counts["asked"], database)
    if as_json:
        print_json(_as_json(description, database, counts, rows, schedules, progress, wall_time_s))
        return
    _print(description, database, counts, rows, progress, wall_time_s)
    for written in (csv_file, parquet_file, plot, report):
        if written is not None:
            console().print(f"Wrote {written}")


def _write_page(
    report: Path, description: SweepFile, rows: Sequence[Mapping[str, Any]], asked: int, database: Path
) -> None:
    command = shlex.join(["einrtl", *sys.argv[1:]])
    text = sweep_page(description.name, rows, description.minimise, asked=asked, database=database, command=command)
    write_text(report, text)


def _note(text: str) -> None:
    click.echo(f"note: {text}", err=True)


def _note_rest(database: Path, counts: Mapping[str, int]) -> None:
    if counts["other"]:
        _note(
            f"{counts['other']:,} points in {database} are kept but not shown: only earlier versions of the sweep "
            "file, or of what it names, asked for them"
        )
    left = counts["asked"] - counts["done"] - counts["failed"]
    if left:
        _note(f"{left:,} of {counts['asked']:,} points are not done yet; run the sweep to go on")


def _run(plan: SweepPlan, store: Store, workers: int | None, scheduler: str | None, retry: bool) -> Progress:
    """Run what is not done, with a progress bar; on Ctrl-C say how to go on."""
    count = len(os.sched_getaffinity(0)) if workers is None else workers
    if retry:
        store.begin(plan)
        _note(f"{store.forget_failed():,} points that failed are tried again")
    try:
        with _runner(count, scheduler) as runner, _bar(plan.sweep.name) as show:
            return run_sweep(plan, store, runner, on_progress=show)
    except KeyboardInterrupt:
        counts = store.counts()
        _note(
            f"stopped with {counts['done'] + counts['failed']:,} of {counts['asked']:,} points in {store.path}; "
            "give the same command again to go on"
        )
        raise click.Abort from None


def _runner(workers: int, scheduler: str | None) -> Any:
    if scheduler is not None:
        return DaskRunner(scheduler, workers=max(workers, 1))
    return ProcessRunner(workers) if workers else InProcessRunner()


@contextmanager
def _bar(name: str) -> Iterator[Callable[[Progress], None]]:
    """Show a progress bar on stderr while the block runs, if that is a terminal."""
    out = console(stderr=True)
    columns = (
        TextColumn(name),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    begin = time.perf_counter()
    with Bar(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task(name, total=None, rate="")

        def show(progress: Progress) -> None:
            rate = f"{progress.computed / (time.perf_counter() - begin):.3g} points/s"
            failed = f", {progress.failed:,} failed" if progress.failed else ""
            done = progress.present + progress.computed
            bar.update(task, total=progress.total, completed=done, rate=rate + failed)

        yield show


def _schedules(store: Store, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    import json

    found = {}
    for row in rows:
        if row["on_front"]:
            kept = store.outcome(row["digest"])
            assert kept is not None, "it was just there"
            found[row["digest"]] = json.loads(kept["schedule"])
    return found


def _fronts(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[Any, ...], list[Mapping[str, Any]]]:
    """Return the points on the front of each workload, fastest first."""
    fronts: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["on_front"]:
            fronts.setdefault(tuple(row[name] for name in WORKLOAD), []).append(row)
    return fronts


def _ordered(front: Sequence[Mapping[str, Any]], minimise: Sequence[Measure]) -> list[Mapping[str, Any]]:
    return sorted(front, key=lambda row: tuple(row[measure] for measure in minimise))


def _as_json(
    description: SweepFile,
    database: Path,
    counts: Mapping[str, int],
    rows: Sequence[Mapping[str, Any]],
    schedules: Mapping[str, Any],
    progress: Progress | None,
    wall_time_s: float,
) -> dict[str, Any]:
    computed = progress.computed if progress else 0
    return {
        "sweep": description.name,
        "database": str(database),
        "points_asked": counts["asked"],
        "points_done": counts["done"],
        "points_failed": counts["failed"],
        "points_of_other_versions": counts["other"],
        "points_computed": computed,
        "wall_time_s": wall_time_s,
        "points_per_s": computed / wall_time_s if computed else None,
        "minimise": [measure.value for measure in description.minimise],
        "fronts": [
            {
                **dict(zip(WORKLOAD, workload, strict=True)),
                "points": [
                    {**row, "schedule": schedules[row["digest"]]} for row in _ordered(front, description.minimise)
                ],
            }
            for workload, front in _fronts(rows).items()
        ],
        "failed": [row for row in rows if row["status"] == "failed"],
    }


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


_SHOWN: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], str]]] = {
    "latency_s": ("latency, ms", lambda row: _number(row["latency_s"] * 1e3)),
    "latency_cycles": ("latency, cycles", lambda row: f"{row['latency_cycles']:,.0f}"),
    "energy_pj": ("energy, mJ", lambda row: _number(row["energy_pj"] * 1e-9)),
    "buffer_size_bits": ("buffer, KiB", lambda row: _number(row["buffer_size_bits"] / 8192)),
    "buffer_used_bits": ("in use, KiB", lambda row: _number(row["buffer_used_bits"] / 8192)),
    "traffic_bits": ("traffic, MiB", lambda row: _number(row["traffic_bits"] / 2**23)),
    "pes": ("PEs", lambda row: f"{row['pes']:,}"),
}


def _print(
    description: SweepFile,
    database: Path,
    counts: Mapping[str, int],
    rows: Sequence[Mapping[str, Any]],
    progress: Progress | None,
    wall_time_s: float,
) -> None:
    out = console()
    shown = list(dict.fromkeys((*description.minimise, Measure.BUFFER_SIZE_BITS, Measure.PES)))
    differing = _differing([row for row in rows if row["status"] == "done"])
    for (model, batch, queries, keys), front in _fronts(rows).items():
        best = _ordered(front, description.minimise)
        total = sum(tuple(row[name] for name in WORKLOAD) == (model, batch, queries, keys) for row in rows)
        heads = [*differing, *(_SHOWN[measure][0] for measure in shown), "limited by", "tiles"]
        body = [
            [
                *(_setting(row, name) for name in differing),
                *(_SHOWN[measure][1](row) for measure in shown),
                row["limited_by"],
                row["tiles"].strip("{}").replace('"', "").replace(": ", "="),
            ]
            for row in best[:MOST_SHOWN]
        ]
        title = f"{model}, batch {batch}, {queries:,} x {keys:,}: {len(best):,} of {total:,} designs on the front"
        right = range(len(differing), len(differing) + len(shown))
        out.print(table(title, heads, body, right=right))
        if len(best) > MOST_SHOWN:
            out.print(f"  and {len(best) - MOST_SHOWN:,} more: --csv, --parquet or --json have all\n")
    _print_failed(rows)
    what = f"{counts['done']:,} of {counts['asked']:,} points done, {counts['failed']:,} failed; results in {database}"
    if progress is not None and progress.computed:
        rate = progress.computed / wall_time_s
        what += f"\n{progress.computed:,} points computed in {wall_time_s:.1f} s, {rate:.3g} points/s"
    out.print(what)


def _differing(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns that tell designs apart, one for fields that always keep equal.

    The size of the buffer is left out: it is shown as a measure, whether it is one of the front or not.
    """
    settings = dict.fromkeys(path for row in rows for path in row["settings"])
    names = ["cascade", "architecture", *(path for path in settings if path != "buffer.size_bits"), "objective"]
    seen: dict[tuple[str, ...], str] = {}
    for name in names:
        cells = tuple(_setting(row, name) for row in rows)
        if len(set(cells)) > 1:
            seen.setdefault(cells, name)
    return list(seen.values())


def _setting(row: Mapping[str, Any], name: str) -> str:
    value = row[name] if name in row else row["settings"].get(name, "-")
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _print_failed(rows: Sequence[Mapping[str, Any]]) -> None:
    reasons = Counter(row["reason"] for row in rows if row["status"] == "failed")
    if reasons:
        body = [(f"{count:,}", reason) for reason, count in reasons.most_common(MOST_SHOWN)]
        console().print(table("Failed", ["points", "reason"], body, right=(0,)))
