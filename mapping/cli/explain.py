"""``einrtl explain``: what limits a saved schedule, and what one more unit of each resource would buy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from accel.cli import console, json_option, print_json, table
from accel.result import Result
from mapping.cli.level_tables import ports_text
from mapping.cli.nest_tables import loads_text
from mapping.cli.problem import SavedNest, SavedProblem, saved_arguments
from mapping.cli.window import Window
from mapping.explain import Change, Explanation, explain
from mapping.explain_nest import NestExplanation, explain_nest
from mapping.search import Objective

__all__ = ["explain_command"]


@click.command(name="explain")
@saved_arguments
@click.option(
    "--objective", type=click.Choice([each.value for each in Objective]), default="latency", show_default=True
)
@json_option
def explain_command(problem: SavedProblem | SavedNest, objective: str, as_json: bool) -> None:
    """Say what limits a saved schedule or nest and what would help.

    SCHEDULE is a .yaml file as ``einrtl map --save`` writes it, or a nest (docs/model.md); CONFIG the config.json of a
    Hugging Face model. Each change is priced alone: with the tile sizes of the schedule, and with the best ones after
    the change; of a nest with its own loops, ordered by latency whatever the objective.
    """
    if isinstance(problem, SavedNest):
        _nest(explain_nest(problem.model, instances=problem.workload.instances), problem.window, as_json)
        return
    found = explain(problem.cascade, problem.architecture, problem.schedule, problem.workload, objective)
    if as_json:
        print_json(_as_json(found) | _window(problem.window))
        return
    out = console()
    for each in _tables(found):
        out.print(each)
        out.print()
    if problem.window is not None:
        out.print(str(problem.window))
    out.print(_verdict(found.result))
    out.print(f"Accounting: {found.result.accounting}.")


def _window(window: Window | None) -> dict[str, Any]:
    return {} if window is None else {"window": window.as_dict()}


def _nest(found: NestExplanation, window: Window | None, as_json: bool) -> None:
    base = found.result
    if as_json:
        print_json(_nest_as_json(found) | _window(window))
        return
    out = console()
    out.print(
        table(
            f"Nest of {base.cascade} on {base.architecture}: {base.latency_cycles:,.0f} cycles",
            ["stage", "Einsums", "cycles", "part", "limited by", "resources, part of the time"],
            [
                (
                    index,
                    ", ".join(stage.einsums),
                    f"{stage.cycles:,.0f}",
                    f"{stage.cycles / base.latency_cycles:.1%}",
                    stage.limit,
                    loads_text(stage),
                )
                for index, stage in enumerate(base.stages)
            ],
            right=(2, 3),
        )
    )
    out.print()
    out.print(
        table(
            "What a change buys",
            ["change", "latency", "energy", "stages limited by"],
            [
                (
                    each.what,
                    "-" if each.result is None else _percent(each.result.latency_cycles, base.latency_cycles),
                    "-" if each.result is None else _percent(each.result.energy_pj, base.energy_pj),
                    f"illegal: {each.refused}"
                    if each.result is None
                    else ", ".join(stage.limit for stage in each.result.stages),
                )
                for each in found.changes
            ],
            right=(1, 2),
        )
    )
    if window is not None:
        out.print(str(window))
    out.print(f"Limited by {base.limit} most of the time. Accounting: {base.accounting}.")


def _nest_as_json(found: NestExplanation) -> dict[str, Any]:
    base = found.result
    return {
        "limit": base.limit,
        "accounting": base.accounting,
        "latency_cycles": base.latency_cycles,
        "energy_pj": base.energy_pj,
        "stages": [
            {"einsums": list(stage.einsums), "cycles": stage.cycles, "limit": stage.limit, "loads": stage.loads}
            for stage in base.stages
        ],
        "changes": [
            {
                "change": each.what,
                "refused": each.refused or None,
                "latency_cycles": None if each.result is None else each.result.latency_cycles,
                "latency_ratio": None if each.result is None else each.result.latency_cycles / base.latency_cycles,
                "energy_ratio": None if each.result is None else each.result.energy_pj / base.energy_pj,
                "stage_limits": None if each.result is None else [stage.limit for stage in each.result.stages],
            }
            for each in found.changes
        ],
    }


def _price(result: Result | None, base: Result) -> dict[str, Any] | None:
    if result is None:
        return None
    return {
        "latency_cycles": result.latency_cycles,
        "latency_ratio": result.latency_cycles / base.latency_cycles,
        "energy_pj": result.energy_pj,
        "energy_ratio": result.energy_pj / base.energy_pj,
        "limit": result.limit,
        "tiles": dict(result.schedule.tiles),
    }


def _as_json(found: Explanation) -> dict[str, Any]:
    base = found.result
    return {
        "limit": base.limit,
        "objective": found.objective.value,
        "accounting": base.accounting,
        "latency_cycles": base.latency_cycles,
        "energy_pj": base.energy_pj,
        "tiles": dict(base.schedule.tiles),
        "loads": [{"resource": each.resource, "cycles": each.cycles, "part": each.part} for each in found.loads],
        "slots": [
            {
                "group": each.group,
                "slot": each.slot,
                "cycles_per_tile": dict(each.cycles),
                "einsums": {array: list(names) for array, names in each.einsums.items()},
                "longest": each.longest,
            }
            for each in found.slots
        ],
        "changes": [
            {
                "change": each.what,
                "same_tiles": _price(each.result, base),
                "refused": each.refused or None,
                "best_tiles": _price(each.searched, base),
            }
            for each in found.changes
        ],
    }


def _percent(new: float, old: float) -> str:
    change = new / old - 1
    return "none" if new == old else f"{change:+.2%}"


def _cells(result: Result | None, base: Result) -> tuple[str, str]:
    if result is None:
        return "-", "-"
    return _percent(result.latency_cycles, base.latency_cycles), _percent(result.energy_pj, base.energy_pj)


def _row(change: Change, base: Result) -> tuple[str, ...]:
    tiles = ""
    if change.searched is not None:
        tiles = ", ".join(f"{rank}={size}" for rank, size in change.searched.schedule.tiles.items())
    refused = f"illegal: {change.refused}" if change.refused else ""
    return (change.what, *_cells(change.result, base), *_cells(change.searched, base), refused or tiles)


def _tables(found: Explanation) -> Iterable[Any]:
    base = found.result
    yield table(
        f"{base.schedule.cascade} of {base.workload.name} on {base.schedule.architecture}: "
        f"{base.latency_cycles:,.0f} cycles",
        ["resource", "works, cycles", "of the time"],
        [(each.resource, f"{each.cycles:,.0f}", f"{each.part:.2%}") for each in found.loads],
        right=(1, 2),
    )
    yield table(
        "Epoch: cycles for a tile, on average",
        ["group", "slot", "array", "Einsums", "cycles", "others wait"],
        [
            (
                each.group,
                each.slot,
                array,
                ", ".join(each.einsums[array]),
                f"{cycles:,.2f}",
                "for it" if array == each.longest and len(each.cycles) > 1 else "",
            )
            for each in found.slots
            for array, cycles in each.cycles.items()
        ],
        right=(4,),
    )
    yield table(
        "What a change buys",
        ["change", "latency, same tiles", "energy", "latency, best tiles", "energy", "best tiles"],
        [_row(each, base) for each in found.changes],
        right=(1, 2, 3, 4),
    )


def _verdict(result: Result) -> str:
    if result.limit == "dram":
        return (
            f"Limited by DRAM, whose transfers take {result.memory_cycles:,.0f} of {result.latency_cycles:,.0f} cycles."
        )
    if result.limit in result.buffer_cycles:
        return f"Limited by {ports_text(result)}, of {result.latency_cycles:,.0f} in all."
    if result.limit == "dependencies":
        return "Limited by the slots in which one array waits for another: no array and not DRAM works all the time."
    return f"Limited by array {result.limit}, which works all the time."
