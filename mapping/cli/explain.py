"""``einrtl explain``: what limits a saved schedule, and what one more unit of each resource would buy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from accel.cli import console, json_option, print_json, table
from accel.result import Result
from mapping.cli.problem import SavedProblem, problem_arguments
from mapping.explain import Change, Explanation, explain
from mapping.search import Objective

__all__ = ["explain_command"]


@click.command(name="explain")
@problem_arguments
@click.option(
    "--objective", type=click.Choice([each.value for each in Objective]), default="latency", show_default=True
)
@json_option
def explain_command(problem: SavedProblem, objective: str, as_json: bool) -> None:
    """Say what limits a saved schedule and what would help.

    SCHEDULE is a .yaml file as ``einrtl map --save`` writes it, CONFIG the config.json of a Hugging Face model. Each
    change is priced alone: with the tile sizes of the schedule, and with the best ones after the change.
    """
    found = explain(problem.cascade, problem.architecture, problem.schedule, problem.workload, objective)
    if as_json:
        print_json(_as_json(found))
        return
    out = console()
    for each in _tables(found):
        out.print(each)
        out.print()
    out.print(_verdict(found.result))
    out.print(f"Accounting: {found.result.accounting}.")


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
    if result.limit == "dependencies":
        return "Limited by the slots in which one array waits for another: no array and not DRAM works all the time."
    return f"Limited by array {result.limit}, which works all the time."
