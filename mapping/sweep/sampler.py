"""Points picked by optuna where there are too many to try all: in generations, the same whatever runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accel.sweep import Measure, Method, Sampler
from mapping.sweep.plan import Point, SweepPlan
from mapping.sweep.runners import extra_missing

__all__ = ["Study"]


class Study:
    """The search for the Pareto front of one workload.

    Nothing of it is stored: a study is rebuilt by asking it again from the start and telling it the results that are
    recorded. That gives the same points, for they follow from the seed and the results alone.

    Parameters
    ----------
    plan : SweepPlan
        The space; it has a sampler.
    workload : int
        Which of its workloads.

    Raises
    ------
    ToolMissingError
        Optuna is not installed.
    """

    def __init__(self, plan: SweepPlan, workload: int) -> None:
        try:
            import optuna
        except ImportError:
            raise extra_missing("optuna", "a sampler") from None
        sampler = plan.sweep.sampler
        assert sampler is not None
        self.plan = plan
        self.workload = workload
        self._failed = optuna.trial.TrialState.FAIL
        level = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)  # it announces each new study
        try:
            self._study = optuna.create_study(
                sampler=_sampler(optuna, sampler, workload), directions=["minimize"] * len(plan.sweep.minimise)
            )
        finally:
            optuna.logging.set_verbosity(level)
        self._trials: list[Any] = []

    def ask(self, count: int) -> list[Point]:
        """Return the next ``count`` points, before anything is known about any of them."""
        self._trials = [self._study.ask() for _ in range(count)]
        return [self._point(trial) for trial in self._trials]

    def tell(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Learn from the recorded rows of the points of the last ``ask``, in their order."""
        measures: tuple[Measure, ...] = self.plan.sweep.minimise
        for trial, row in zip(self._trials, rows, strict=True):
            if row["status"] == "done":
                self._study.tell(trial, [float(row[measure]) for measure in measures])
            else:
                self._study.tell(trial, state=self._failed)

    def _point(self, trial: Any) -> Point:
        """Return the point that a trial picks; its parameters are indices, which keep the order of the values."""
        sweep = self.plan.sweep
        base = _pick(trial, "architecture", len(sweep.architectures))
        choice = [
            _pick(trial, f"architecture {base}: {variation.fields[0]}", len(variation.choices))
            for variation in sweep.architectures[base].vary
        ]
        return self.plan.point(
            base=base,
            choice=choice,
            cascade=_pick(trial, "cascade", len(sweep.cascades)),
            workload=self.workload,
            objective=_pick(trial, "objective", len(sweep.objectives)),
        )


def _pick(trial: Any, name: str, count: int) -> int:
    return int(trial.suggest_int(name, 0, count - 1)) if count > 1 else 0


def _sampler(optuna: Any, sampler: Sampler, workload: int) -> Any:
    seed = (sampler.seed + workload) % 2**32  # each study has chance of its own
    if sampler.method is Method.NSGA2:
        return optuna.samplers.NSGAIISampler(population_size=sampler.generation, seed=seed)
    if sampler.method is Method.TPE:
        return optuna.samplers.TPESampler(seed=seed, n_startup_trials=sampler.generation)
    return optuna.samplers.RandomSampler(seed=seed)
