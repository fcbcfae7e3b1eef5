"""What ``einrtl reproduce`` shows beyond the published results: better schedules, better designs, further cases."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from accel.cases import load_case_file
from accel.cli import console, print_json, progress, table
from accel.codesign import load_design_space
from accel.configuration import load_study
from accel.polynomial_exp import Counting
from mapping.beyond import BASELINE, REFERENCE, BeyondPoint, Machine, beyond, mean, study_baseline
from mapping.codesign import Codesign, accuracies
from mapping.codesign_accuracy import Accuracy
from mapping.codesign_result import CodesignResult, Evaluated
from mapping.silent import MappedCase, map_cases

__all__ = ["BEYOND", "beyond_options", "refuse_other_options", "show"]

BEYOND = ("fusemax-beyond", "fusemax-codesign", "beyond-paper")
"""What is shown here."""

_FOR: Mapping[str, tuple[str, ...]] = {
    "setting": ("fusemax", "fusemax-beyond", "fusemax-codesign"),
    "show_all": ("fusemax",),
    "plot": ("fusemax",),
    "budget": BEYOND,
    "counting": ("fusemax-codesign",),
    "space": ("fusemax-codesign",),
    "cases": ("beyond-paper",),
}
"""Parameter of the command to what it is for."""

_COUNTING, _SPACE, _CASES = Counting.PAPER.value, "fusemax-area", "paper-silent"

_OPTIONS = (
    click.option("--budget", type=click.FloatRange(min=0, min_open=True), help="Seconds for all searches together."),
    click.option(
        "--counting",
        type=click.Choice([each.value for each in Counting]),
        default=_COUNTING,
        show_default=True,
        help="Steps of an exponential that take a cycle: those that the paper counts, or all.",
    ),
    click.option("--space", default=_SPACE, show_default=True, help="Design space: name or .yaml."),
    click.option("--cases", default=_CASES, show_default=True, help="List of cases: name or .yaml."),
)


def beyond_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of what is shown here."""
    return functools.reduce(lambda inner, option: option(inner), reversed(_OPTIONS), command)


def refuse_other_options(what: str) -> None:
    """Refuse the options that are given on the command line and are not for ``what``."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and what not in _FOR.get(name, (what,)):
            raise click.UsageError(f"{parameter.opts[0]} is for {', '.join(_FOR[name])}, not for {what}; leave it out")


reproduce_option = click.option(
    "--reproduce", type=click.Choice(BEYOND), help="As einrtl reproduce, instead of a WORKLOAD; with --budget, --json."
)
"""For ``einrtl map``."""


def reproduced(what: str | None, *, budget: float | None, as_json: bool) -> bool:
    """Do what ``--reproduce`` asks for and return whether it was given; without it there must be a workload.

    Raises
    ------
    click.UsageError
        The workload is missing, or anything is given that ``--reproduce`` does not take.
    """
    context = click.get_current_context()
    given = {
        parameter.name: parameter
        for parameter in context.command.params
        if context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
    }
    if what is None:
        if "workload" not in given:
            workload = next(each for each in context.command.params if each.name == "workload")
            raise click.MissingParameter(ctx=context, param=workload)
        return False
    for name, parameter in given.items():
        if name not in ("reproduce", "budget", "as_json"):
            word = "WORKLOAD" if name == "workload" else parameter.opts[0]
            raise click.UsageError(f"--reproduce takes --budget and --json alone; leave out {word}")
    show(what, setting="published", budget=budget, counting=_COUNTING, space=_SPACE, cases=_CASES, as_json=as_json)
    return True


def show(
    what: str, *, setting: str, budget: float | None, counting: str, space: str, cases: str, as_json: bool
) -> None:
    """Compute and print one of ``BEYOND``."""
    if what == "fusemax-beyond":
        show_beyond(setting, budget, as_json)
    elif what == "fusemax-codesign":
        show_codesign(setting, space, counting, budget, as_json)
    else:
        show_cases(cases, budget, as_json)


def show_beyond(setting: str, budget_s: float | None, as_json: bool) -> None:
    """Print the best schedules found for the points of a study beside its own."""
    begin = time.perf_counter()
    study = load_study(setting)
    machine = Machine.of(study)
    with progress("pricing") as advance:
        baselines = study_baseline(study, machine)
        found = tuple(beyond(machine, baselines, budget_s=budget_s, advance=advance))
    wall_time_s = time.perf_counter() - begin
    means = _means(found)
    if as_json:
        print_json(
            {
                "what": "fusemax-beyond",
                "setting": study.name,
                "points": [_point_json(each) for each in found],
                "means": means,
                "wall_time_s": wall_time_s,
            }
        )
        return
    out = console()
    out.print(
        table(
            f"Best schedules found on {machine.architecture.name}, beside {REFERENCE} ({study.name})",
            [
                "model",
                "length",
                f"{REFERENCE}, cycles",
                "ours",
                "proved bound",
                "gap",
                "above array",
                f"over {REFERENCE}",
                f"over {BASELINE}",
                "energy",
                "s",
            ],
            [_point_row(each) for each in found],
            right=range(1, 11),
        )
    )
    out.print(_means_table(means))
    out.print(
        "bound: no schedule of the map space takes less (docs/search.md). above array: over the work of the main array "
        f"with all PEs busy. energy: relative to {REFERENCE}, registers by the study's counts.\n"
        f"{len(found)} points in {wall_time_s:.1f} s; points that differ in heads alone share a search."
    )


def _means(found: Sequence[BeyondPoint]) -> dict[str, float]:
    references = [each.baseline.baseline_cycles / each.baseline.reference.latency_cycles for each in found]
    return {
        "reference_speedup_over_baseline": mean(references),
        "speedup_over_baseline": mean(each.speedup_over_baseline for each in found),
        "speedup_over_reference": mean(each.speedup for each in found),
        "energy_to_reference": mean(each.energy_ratio for each in found),
    }


def _means_table(means: dict[str, float]) -> Any:
    words = {
        "reference_speedup_over_baseline": f"{REFERENCE} over {BASELINE}",
        "speedup_over_baseline": f"ours over {BASELINE}",
        "speedup_over_reference": f"ours over {REFERENCE}",
        "energy_to_reference": f"energy of ours relative to {REFERENCE}",
    }
    return table(
        "Arithmetic means", ["quantity", "mean"], [(words[k], f"{v:.4f}") for k, v in means.items()], right=(1,)
    )


def _point_row(each: BeyondPoint) -> tuple[str, ...]:
    return (
        each.baseline.workload.name,
        f"{each.baseline.workload.keys:,}",
        f"{each.baseline.reference.latency_cycles:,.0f}",
        f"{each.result.latency_cycles:,.0f}",
        f"{each.lower_bound_cycles:,.0f}",
        f"{each.gap:.3%}",
        f"{each.above_floor:.3%}",
        f"{each.speedup:.4f}x",
        f"{each.speedup_over_baseline:.3f}x",
        f"{each.energy_ratio:.4f}",
        f"{each.wall_time_s:.1f}" if each.wall_time_s else "",
    )


def _point_json(each: BeyondPoint) -> dict[str, Any]:
    return {
        "model": each.baseline.workload.name,
        "length": each.baseline.workload.keys,
        "reference_latency_cycles": each.baseline.reference.latency_cycles,
        "baseline_latency_cycles": each.baseline.baseline_cycles,
        "latency_cycles": each.result.latency_cycles,
        "lower_bound_cycles": each.lower_bound_cycles,
        "gap": each.gap,
        "array_floor_cycles": each.floor_cycles,
        "speedup_over_reference": each.speedup,
        "speedup_over_baseline": each.speedup_over_baseline,
        "energy_pj": each.energy_pj,
        "reference_energy_pj": each.baseline.reference_energy_pj,
        "wall_time_s": each.wall_time_s,
        "schedule": each.result.as_dict()["schedule"],
    }


# Cases ----------------------------------------------------------------------------------------------------------------


def show_cases(name_or_path: str | Path, budget_s: float | None, as_json: bool) -> None:
    """Print the best schedules found for a list of cases."""
    file = load_case_file(name_or_path)
    with progress("searching", total=len(file.cases)) as advance:
        found = tuple(map_cases(file, budget_s=budget_s, advance=advance))
    if as_json:
        print_json({"what": file.name, "cases": [_case_json(each) for each in found]})
        return
    arrays = list(dict.fromkeys(name for each in found for name in each.architecture.arrays))
    out = console()
    out.print(
        table(
            f"Best schedules found: {file.name}",
            ["case", "cycles", "time", "proved bound", "gap", *(f"{name} busy" for name in arrays), "limited by", "s"],
            [_case_row(each, arrays) for each in found],
            right=(1, 2, 3, 4, *range(5, 5 + len(arrays)), 6 + len(arrays)),
        )
    )
    out.print(
        "busy: part of the time that an array works on something, and of its PEs' cycles that are work. bound: no "
        "schedule of the map space takes less."
    )


def _case_row(each: MappedCase, arrays: Sequence[str]) -> tuple[str, ...]:
    result = each.found.result
    uses = {use.array: f"{use.busy:.1%}, {use.utilisation:.1%}" for use in result.arrays}
    return (
        each.case.workload.name,
        f"{result.latency_cycles:,.0f}",
        f"{result.latency_s * 1e3:.4g} ms",
        f"{each.found.lower_bound_cycles:,.0f}",
        f"{each.found.gap:.3%}",
        *(uses.get(name, "") for name in arrays),
        result.limit,
        f"{each.wall_time_s:.1f}",
    )


def _case_json(each: MappedCase) -> dict[str, Any]:
    result = each.found.result
    return {
        "name": each.case.workload.name,
        "source": each.case.source,
        "cascade": each.case.cascade,
        "architecture": each.architecture.name,
        "latency_cycles": result.latency_cycles,
        "latency_s": result.latency_s,
        "lower_bound_cycles": each.found.lower_bound_cycles,
        "floors_cycles": {floor.resource: floor.cycles for floor in each.found.floors},
        "gap": each.found.gap,
        "optimal": each.found.optimal,
        "limit": result.limit,
        "arrays": {use.array: {"busy": use.busy, "utilisation": use.utilisation} for use in result.arrays},
        "traffic_bytes": result.traffic_bytes,
        "energy_pj": result.energy_pj,
        "wall_time_s": each.wall_time_s,
        "schedule": result.as_dict()["schedule"],
    }


# Co-design ------------------------------------------------------------------------------------------------------------


def show_codesign(setting: str, space_name: str | Path, counting: str, budget_s: float | None, as_json: bool) -> None:
    """Print the best design found at no more area than the study's own, and what each step brings."""
    begin = time.perf_counter()
    space = load_design_space(space_name)
    codesign = Codesign(load_study(setting), space, Counting(counting))
    with progress("designing", total=space.evaluations) as advance:
        advance(0, "exponentials in bfloat16")
        measured = accuracies(space)
        left = None if budget_s is None else max(budget_s - (time.perf_counter() - begin), 1.0)
        found = codesign.run(measured, budget_s=left, advance=advance)
    wall_time_s = time.perf_counter() - begin
    if as_json:
        print_json(_codesign_json(codesign, found, measured, wall_time_s))
        return
    out = console()
    out.print(_exponentials_table(codesign, measured))
    out.print(_designs_table(codesign, found))
    out.print(_verdict(found))
    out.print(f"{len(found.evaluated)} of {found.designs:,} designs tried in {wall_time_s:.1f} s.")


def _exponentials_table(codesign: Codesign, measured: Sequence[Accuracy]) -> Any:
    test = codesign.space.accuracy
    own = next(each for each in measured if each.exponential == codesign.space.reference)
    rows = []
    for each in measured:
        operator = None if each.exponential is None else each.exponential.operator(codesign.counting)
        rows.append(
            (
                "correctly rounded" if each.exponential is None else each.exponential.name,
                "" if operator is None else f"{operator.cycles}",
                "" if each.exponential is None else f"{each.exponential.polynomial_error:.2e}",
                f"{each.row_error:.5f}",
                f"{each.max_error:.5f}",
                each.worst,
                "yes" if each.row_error <= test.budget * own.row_error else "no",
            )
        )
    deviations = ", ".join(f"{each:g}" for each in test.score_deviations)
    return table(
        f"Exponentials in bfloat16: {test.queries} x {test.keys} scores of deviation {deviations}; budget: row error "
        f"at most {test.budget:g} times that of {codesign.space.reference.name}",
        ["exponential", "cycles", "polynomial", "row error", "max error", "worst cascade", "within budget"],
        rows,
        right=(1, 2, 3, 4),
    )


def _designs_table(codesign: Codesign, found: CodesignResult) -> Any:
    rows = [
        (
            "FuseMax's schedules",
            f"{found.area_mm2:.2f}",
            f"{found.reference_speedup:.4f}",
            "",
            "1",
            "",
            "1",
            "",
        ),
        _design_row("our schedules", found.scheduled),
        _design_row("our exponential too", found.exponential_alone),
        *(_design_row("tried", each) for each in found.evaluated),
    ]
    if found.best is not None:
        rows.append(_design_row("best", found.best))
    return table(
        f"Designs of at most {found.area_mm2:.2f} mm2 ({codesign.study.name}; exponentials: {found.counting.value})",
        [
            "",
            "area, mm2",
            f"over {BASELINE}",
            "bound",
            f"over {REFERENCE}",
            "energy",
            "most energy",
            "gap",
            "2D, 1D, buffer",
            "exp",
        ],
        [(*row, *[""] * (10 - len(row))) for row in rows],
        right=range(1, 8),
    )


def _design_row(words: str, each: Evaluated) -> tuple[str, ...]:
    design = each.candidate.design
    size = f"{design.rows} x {design.columns}, {design.vector_columns}, {design.buffer_bits / 2**23:g} MiB"
    return (
        words,
        f"{each.candidate.area_mm2:.2f}",
        f"{each.speedup:.4f}",
        f"{each.candidate.bound:.4f}",
        f"{each.speedup_over_reference:.4f}",
        f"{each.energy_ratio:.4f}",
        f"{each.most_energy_ratio:.4f}",
        f"{each.largest_gap:.3%}",
        size,
        design.exponential.name,
    )


def _verdict(found: CodesignResult) -> str:
    if found.best is None:
        return "No design that was tried takes as little energy as the reference."
    return (
        f"No schedule on any design of the space gives a mean above {found.bound:.4f}. energy: mean and largest over "
        f"all points, relative to {REFERENCE} on its own design."
    )


def _codesign_json(
    codesign: Codesign, found: CodesignResult, measured: Sequence[Accuracy], wall_time_s: float
) -> dict[str, Any]:
    return {
        "what": "fusemax-codesign",
        "setting": codesign.study.name,
        "space": codesign.space.name,
        "counting": found.counting.value,
        "exponentials": [
            {
                "exponential": None if each.exponential is None else each.exponential.name,
                "cycles": None if each.exponential is None else each.exponential.operator(found.counting).cycles,
                "row_error": each.row_error,
                "max_error": each.max_error,
                "worst_cascade": each.worst,
            }
            for each in measured
        ],
        "area_mm2": found.area_mm2,
        "reference_speedup_over_baseline": found.reference_speedup,
        "scheduled": _design_json(found.scheduled),
        "exponential_alone": _design_json(found.exponential_alone),
        "tried": [_design_json(each) for each in found.evaluated],
        "best": None
        if found.best is None
        else _design_json(found.best) | {"points": [_point_json(each) for each in found.best.points]},
        "designs": found.designs,
        "speedup_bound": found.bound,
        "wall_time_s": wall_time_s,
    }


def _design_json(each: Evaluated) -> dict[str, Any]:
    design = each.candidate.design
    return {
        "rows": design.rows,
        "columns": design.columns,
        "vector_columns": design.vector_columns,
        "buffer_bits": design.buffer_bits,
        "exponential": design.exponential.name,
        "area_mm2": each.candidate.area_mm2,
        "speedup_over_baseline": each.speedup,
        "speedup_bound": each.candidate.bound,
        "speedup_over_reference": each.speedup_over_reference,
        "energy_to_reference": each.energy_ratio,
        "most_energy_to_reference": each.most_energy_ratio,
        "largest_gap": each.largest_gap,
    }
