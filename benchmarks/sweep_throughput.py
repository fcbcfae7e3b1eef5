"""Points per second of a sweep, and how they grow with worker processes.

    python benchmarks/sweep_throughput.py [--most-workers N] [--points N] [--dask]

Each row is a sweep of the same points into a new database. Starting the workers is told apart from the points: a long
sweep starts them once.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from mapping.sweep import (
    DaskRunner,
    InProcessRunner,
    Outcome,
    Point,
    ProcessRunner,
    Progress,
    Store,
    SweepPlan,
    evaluate,
    load_plan,
    run_sweep,
)

MODELS = Path(__file__).parents[1] / "examples" / "models"

SWEEP = """\
name: throughput
architectures:
  - base: fusemax-cloud
    vary:
      - {{fields: [arrays.2d.columns, arrays.1d.columns], values: [64, 128, 256]}}
      - {{fields: [dram.bandwidth_bits_per_s], values: {{first: 1e12, last: {last}e12, step: 1e12}}}}
workloads:
  - {{model: {models}/bert-base-uncased/config.json, batches: [16], lengths: [4096]}}
"""


def measure(name: str, plan: SweepPlan, make: Callable[[], Any], folder: Path) -> tuple[float, float]:
    """Return seconds until the first point, and points per second from then on."""
    begin = time.perf_counter()
    times: list[float] = []

    def note(progress: Progress) -> None:
        times.append(time.perf_counter() - begin)

    with Store(folder / f"{name}.sqlite") as store, make() as runner:
        run_sweep(plan, store, runner, on_progress=note)
    return times[0], (len(times) - 1) / (times[-1] - times[0])


class NoSearch(InProcessRunner):
    """Copies the result of the first point to all: what remains is planning and recording."""

    def run(self, points: Iterable[Point]) -> Iterator[Outcome]:
        """Yield outcomes in the order of the points."""
        first = None
        for point in points:
            first = first or evaluate(point)
            yield Outcome(point=point, values=first.values)


def main() -> None:
    """Measure and print the table."""
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most-workers", type=int, default=cores, help=f"worker processes at most (default: {cores})")
    parser.add_argument("--points", type=int, default=96, help="points, a multiple of 3 (default: 96)")
    parser.add_argument("--dask", action="store_true", help="measure local Dask clusters too")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "sweep.yaml"
        file.write_text(SWEEP.format(models=MODELS, last=given.points // 3), encoding="utf-8")
        plan = load_plan(file)
        print(f"{plan.sweep.size} points, {cores} cores\n")
        print(f"{'runner':<22}{'first point, s':>16}{'points/s':>12}{'speed-up':>12}")
        counts = [count for count in (1, 2, 4, 8, 16, 32, 64) if count < given.most_workers] + [given.most_workers]
        runners: list[tuple[str, Callable[[], Any]]] = [("this process", InProcessRunner), ("no search", NoSearch)]
        runners += [(f"{count} process{'' if count == 1 else 'es'}", partial(ProcessRunner, count)) for count in counts]
        if given.dask:
            runners += [
                (
                    f"Dask, {count} worker{'' if count == 1 else 's'}",
                    partial(DaskRunner, "local", workers=count),
                )
                for count in counts
            ]
        base = None
        for label, make in runners:
            first, rate = measure(label, plan, make, folder)
            base = base or rate
            print(f"{label:<22}{first:>16.2f}{rate:>12.2f}{rate / base:>11.2f}x", flush=True)


if __name__ == "__main__":
    main()
