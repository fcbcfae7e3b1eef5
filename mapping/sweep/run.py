"""Running a sweep: which points are still to do, who does them, and where the results go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from accel.sweep import Sampler
from mapping.sweep.plan import Point, SweepPlan
from mapping.sweep.runners import Runner
from mapping.sweep.store import Store

__all__ = ["Progress", "run_sweep"]


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a sweep is.

    Parameters
    ----------
    total : int
        Points to go through, those met twice included.
    present : int
        Those of them that were there already, from an earlier run or met before.
    computed : int
        Those finished in this run, failed ones included.
    failed : int
        Those of ``computed`` that failed.
    """

    total: int
    present: int = 0
    computed: int = 0
    failed: int = 0


def run_sweep(
    plan: SweepPlan, store: Store, runner: Runner, *, on_progress: Callable[[Progress], None] = lambda progress: None
) -> Progress:
    """Evaluate all points of a plan that the store does not hold yet, and record each as soon as it is finished.

    It may end at any point, by an exception or with the process: called again with the same plan it goes on from what
    has been recorded, and the store holds the same in the end.

    Parameters
    ----------
    plan : SweepPlan
        What to do.
    store : Store
        Where results go.
    runner : Runner
        Who does it.
    on_progress : callable
        Called in this thread after each point.

    Raises
    ------
    ToolMissingError
        A library is not installed, or the cluster is lost.
    """
    store.begin(plan)
    sampler = plan.sweep.sampler
    run = _Run(plan, store, runner, on_progress, plan.sweep.size if sampler is None else _total(plan, sampler))
    if sampler is None:
        store.ask(enumerate(plan.grid()))
        run.finish(plan.grid())
    else:
        _run_sampler(plan, store, run, sampler)
    return run.progress


def _total(plan: SweepPlan, sampler: Sampler) -> int:
    return sampler.points * len(plan.workloads)


class _Run:
    """The points of one call, and what became of them."""

    def __init__(
        self, plan: SweepPlan, store: Store, runner: Runner, on_progress: Callable[[Progress], None], total: int
    ) -> None:
        self.version = plan.version
        self.store = store
        self.runner = runner
        self.on_progress = on_progress
        self.progress = Progress(total=total)
        self._taken: set[str] = set()

    def finish(self, points: Iterable[Point]) -> None:
        """Evaluate the points that are not recorded, and record them."""
        outcomes = self.runner.run(self._missing(points))
        for outcome in outcomes:
            self.store.record(outcome, version=self.version)
            self._step(computed=1, failed=int(outcome.values is None))

    def _missing(self, points: Iterable[Point]) -> Iterator[Point]:
        for point in points:
            if point.digest in self._taken or self.store.outcome(point.digest) is not None:
                self._step(present=1)
            else:
                self._taken.add(point.digest)
                yield point

    def _step(self, **more: int) -> None:
        now = self.progress
        self.progress = Progress(
            total=now.total,
            present=now.present + more.get("present", 0),
            computed=now.computed + more.get("computed", 0),
            failed=now.failed + more.get("failed", 0),
        )
        self.on_progress(self.progress)


def _run_sampler(plan: SweepPlan, store: Store, run: _Run, sampler: Sampler) -> None:
    """Go through the studies of all workloads side by side, a generation of each at a time."""
    from mapping.sweep.sampler import Study  # optuna takes a second to import

    studies = [Study(plan, workload) for workload in range(len(plan.workloads))]
    for first in range(0, sampler.points, sampler.generation):
        count = min(sampler.generation, sampler.points - first)
        asked = [study.ask(count) for study in studies]
        positions = [
            ((first + index) * len(studies) + number, point)
            for number, points in enumerate(asked)
            for index, point in enumerate(points)
        ]
        store.ask(positions)
        run.finish(point for _, point in positions)
        for study, points in zip(studies, asked, strict=True):
            study.tell([_row(store, point) for point in points])


def _row(store: Store, point: Point) -> dict[str, object]:
    row = store.outcome(point.digest)
    assert row is not None, "the generation is finished"
    return dict(row)
