"""The best schedules found for a study's points beside the study's own schedule, with the bound that is proved."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from accel.arch import Architecture, load_architecture
from accel.cascade import Cascade, load_cascade
from accel.configuration import Configuration, Study
from accel.cost import CostTable, load_cost_table
from accel.errors import InputError
from accel.result import Result
from accel.schedule import Axis, Plan
from accel.workload import Workload
from mapping.codesign_work import Work
from mapping.model import price
from mapping.reproduce import StudyResult, price_pipeline, price_study
from mapping.search import Limits, search

__all__ = [
    "Baseline",
    "BeyondPoint",
    "Clock",
    "Machine",
    "array_floor",
    "beyond",
    "mean",
    "registers_pj",
    "study_baseline",
]

REFERENCE, BASELINE = "+Binding", "FLAT"
"""Configurations of a study: the schedule made by hand, and what its speed-ups are over."""

Advance = Callable[[int, str], None]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What runs the points of a study.

    Parameters
    ----------
    cascade, architecture, costs
        As for ``mapping.search.search``.
    configuration : Configuration
        The study's own, whose counts of register accesses are charged.
    """

    cascade: Cascade
    architecture: Architecture
    costs: CostTable
    configuration: Configuration

    @classmethod
    def of(cls, study: Study) -> Machine:
        """Return the machine of the study's own schedule.

        Raises
        ------
        InputError
            The study has no such configuration, or that has no pipeline.
        """
        names = {each.name: each for each in study.configurations}
        for name in (REFERENCE, BASELINE):
            if name not in names:
                raise InputError(
                    f"study {study.name!r} must have a configuration {name!r} to be compared with",
                    hint=f"it has {', '.join(names)}",
                )
        own = names[REFERENCE]
        return cls(
            cascade=load_cascade(own.cascade),
            architecture=load_architecture(own.architecture),
            costs=load_cost_table(own.technology),
            configuration=own,
        )


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """What one point of a study takes with the study's own schedule.

    Parameters
    ----------
    workload : Workload
        The point; its name is that of the model.
    reference : Result
        Price of the study's own schedule, without registers.
    reference_energy_pj : float
        Its energy with registers.
    baseline_cycles : float
        Latency of the configuration that speed-ups are over, in cycles of the same clock.
    """

    workload: Workload
    reference: Result
    reference_energy_pj: float
    baseline_cycles: float

    @property
    def shape(self) -> tuple[int, ...]:
        """What a schedule depends on: the sizes of one instance."""
        return tuple(self.workload.sizes.values())


@dataclass(frozen=True, kw_only=True)
class BeyondPoint:
    """The best schedule found for one point.

    Parameters
    ----------
    baseline : Baseline
        The point, and what it takes otherwise.
    result : Result
        Price of the schedule found, without registers.
    energy_pj : float
        Its energy with registers, as the study counts them.
    lower_bound_cycles : float
        Latency that no schedule of the map space goes below.
    floor_cycles : float
        Work of the main array with all its PEs busy: E + F + 9 for a tile of 256 x 256 on FuseMax's.
    wall_time_s : float
        Of the search; 0 where it was that of another point with the same sizes of an instance.
    """

    baseline: Baseline
    result: Result
    energy_pj: float
    lower_bound_cycles: float
    floor_cycles: float
    wall_time_s: float

    @property
    def gap(self) -> float:
        """Latency above the lower bound, as a part of it."""
        return self.result.latency_cycles / self.lower_bound_cycles - 1

    @property
    def above_floor(self) -> float:
        """Latency above the work of the main array, as a part of it."""
        return self.result.latency_cycles / self.floor_cycles - 1

    @property
    def speedup(self) -> float:
        """Over the study's own schedule."""
        return self.baseline.reference.latency_cycles / self.result.latency_cycles

    @property
    def speedup_over_baseline(self) -> float:
        """Over the baseline of the study."""
        return self.baseline.baseline_cycles / self.result.latency_cycles

    @property
    def energy_ratio(self) -> float:
        """Energy relative to the study's own schedule, registers counted alike."""
        return self.energy_pj / self.baseline.reference_energy_pj


def mean(values: Iterable[float]) -> float:
    """Return the arithmetic mean, which is what the paper's headline numbers are."""
    found = tuple(values)
    return math.fsum(found) / len(found)


def registers_pj(machine: Machine, result: Result) -> float:
    """Return the energy of registers, pJ, by the study's counts.

    The counts are for one tile that fills the array. A tile of several turns of the 2D array is as many of those; an
    array of one row works once for each tile of keys, on as many turns as the queries take.
    """
    schedule, workload = result.schedule, result.workload
    splits = schedule.plan.splits
    key, row = ((rank, parts[-1]) for rank, parts in splits.items())
    sides = {}
    for rank, tile in (key, row):
        sides[tile] = workload.sizes[rank.upper()], schedule.tiles[tile]
    total = 0.0
    for count in machine.configuration.registers:
        if count.per != "tile":
            continue
        array = machine.architecture.arrays[count.array]
        lengths = {Axis.ROWS: array.rows, Axis.COLUMNS: array.columns}
        turns = {tile: _turns(*sides[tile], lengths[schedule.plan.axes[tile]]) for tile in sides}
        if array.rows == 1:
            turns = {key[1]: -(-sides[key[1]][0] // sides[key[1]][1]), row[1]: _turns(*sides[row[1]], array.columns)}
        sizes = {
            "E": float(workload.query_key_dim),
            "F": float(workload.value_dim),
            "M0": sides[key[1]][0] / turns[key[1]],
            "P0": sides[row[1]][0] / turns[row[1]],
            "M1": float(turns[key[1]]),
        }
        reads, writes = count.accesses(sizes)
        energy = reads * machine.costs.energy_pj(count.component, "read")
        energy += writes * machine.costs.energy_pj(count.component, "write")
        total += workload.instances * math.prod(turns.values()) * energy
    return total


def _turns(whole: int, tile: int, length: int) -> int:
    """Return the turns that the tiles of a rank take on ``length`` PEs."""
    full, rest = divmod(whole, tile)
    return full * -(-tile // length) + -(-rest // length)


def array_floor(machine: Machine, workload: Workload) -> float:
    """Return the cycles of all Einsums over single scores on the largest array, all its PEs busy.

    Each rank takes at least the turns that it takes in one piece, along the rows or along the columns.
    """
    arrays = machine.architecture.arrays
    order = sorted(arrays, key=lambda name: arrays[name].pes)
    work = Work.of(machine.cascade, machine.architecture, (order[-1], order[0]), workload)
    return float(workload.instances * work.floor(arrays[order[-1]]))


def study_baseline(study: Study, machine: Machine, priced: StudyResult | None = None) -> tuple[Baseline, ...]:
    """Return the points of a study with what they take, by model and length.

    Parameters
    ----------
    study : Study
        The cost setting.
    machine : Machine
        That of the study's own schedule.
    priced : StudyResult, optional
        Prices of the study; computed if not given.

    Raises
    ------
    InputError
        As ``mapping.reproduce.price_study``.
    """
    layers = (priced or price_study(_compared(study))).layers
    latency_s = {(each.model, each.length): each.latency_s for each in layers if each.configuration == BASELINE}
    case = machine.configuration.pipeline
    if case is None:
        raise InputError(f"configuration {machine.configuration.name!r} must have a pipeline to be improved on")
    found = []
    for model, sizes in study.models.items():
        for length in study.lengths:
            workload = Workload(
                name=model,
                batch=study.batch,
                heads=sizes.heads,
                kv_heads=sizes.heads,
                queries=length,
                keys=length,
                query_key_dim=sizes.head_dim,
                value_dim=sizes.head_dim,
            )
            own = price_pipeline(machine.configuration, case, machine.architecture, workload, machine.costs)
            found.append(
                Baseline(
                    workload=workload,
                    reference=own,
                    reference_energy_pj=own.energy_pj + registers_pj(machine, own),
                    baseline_cycles=latency_s[model, length] * machine.architecture.clock_hz,
                )
            )
    return tuple(found)


def _compared(study: Study) -> Study:
    """Return the study without what is not compared with."""
    own = tuple(each for each in study.configurations if each.name in (REFERENCE, BASELINE))
    return dataclasses.replace(
        study, configurations=own, baselines=(BASELINE,), sweep_configuration=REFERENCE, sweep=()
    )


@dataclass
class Clock:
    """Shares what is left of a budget among the searches that are left."""

    budget_s: float | None
    searches: int
    begin: float = field(default_factory=time.monotonic)

    def limits(self, limits: Limits) -> Limits:
        """Return the limits of the next search."""
        left, self.searches = self.searches, self.searches - 1
        if self.budget_s is None:
            return limits
        rest = self.budget_s - (time.monotonic() - self.begin)
        return dataclasses.replace(limits, seconds=max(rest / left, 1e-3))


def beyond(
    machine: Machine,
    baselines: Sequence[Baseline],
    *,
    plans: Mapping[tuple[int, ...], Plan] | None = None,
    budget_s: float | None = None,
    limits: Limits | None = None,
    advance: Advance | None = None,
) -> Iterator[BeyondPoint]:
    """Yield the best schedule found for each point, in the order given.

    Points that differ in the number of instances alone share a search: instances follow each other, so cycles, traffic
    and bounds are in proportion to their number. Their prices are computed for each. Where the study's own schedule
    runs on the same architecture and is better than what the search found in its time, that one is taken.

    Parameters
    ----------
    machine : Machine
        What runs them.
    baselines : sequence of Baseline
        The points.
    plans : mapping of tuple to Plan, optional
        Shape to the plan whose tile sizes alone are searched; then the bounds are those of that plan.
    budget_s : float, optional
        Seconds for all searches together.
    limits : Limits, optional
        Of each search.
    advance : callable, optional
        Called with the points done and what comes next.

    Raises
    ------
    InputError
        As ``mapping.search.search``.
    """
    clock = Clock(budget_s, len({each.shape for each in baselines}))
    known: dict[tuple[int, ...], tuple[Result, float]] = {}  # shape to what was found, and its bound for one instance
    for done, baseline in enumerate(baselines):
        workload, shape, begin = baseline.workload, baseline.shape, time.perf_counter()
        if advance is not None:
            advance(done, f"{workload.name} at {workload.keys:,}")
        first = shape not in known
        if first:
            found = search(
                machine.cascade,
                machine.architecture,
                workload,
                plan=plans[shape] if plans else None,
                costs=machine.costs,
                limits=clock.limits(limits or Limits()),
            )
            own = baseline.reference
            same = own.schedule.architecture == machine.architecture.name
            is_better = same and own.latency_cycles < found.result.latency_cycles
            result = own if is_better else found.result
            known[shape] = result, found.lower_bound_cycles / workload.instances
        else:
            result = price(machine.cascade, machine.architecture, known[shape][0].schedule, workload, machine.costs)
        yield BeyondPoint(
            baseline=baseline,
            result=result,
            energy_pj=result.energy_pj + registers_pj(machine, result),
            lower_bound_cycles=known[shape][1] * workload.instances,
            floor_cycles=array_floor(machine, workload),
            wall_time_s=time.perf_counter() - begin if first else 0.0,
        )
