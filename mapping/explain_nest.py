"""What limits each stage of a nest, and what one more unit of each resource would buy: found by pricing the change."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from accel.cost import CostTable, load_cost_table
from accel.errors import InputError
from accel.nest import Nest
from accel.nest_result import NestResult
from mapping.nest import NestModel
from mapping.nest_price import price_nest
from mapping.variants import machines

__all__ = ["NestChange", "NestExplanation", "explain_nest"]


@dataclass(frozen=True, kw_only=True)
class NestChange:
    """One change and what it buys.

    Parameters
    ----------
    what : str
        What is changed, such as ``1d: one lane more``.
    result : NestResult, optional
        The price of the same nest after the change; None if it is illegal.
    refused : str
        Why it is illegal; empty if it is not.
    """

    what: str
    result: NestResult | None
    refused: str


@dataclass(frozen=True, kw_only=True)
class NestExplanation:
    """What limits a nest and what would help.

    Parameters
    ----------
    result : NestResult
        The price as it is; each of its stages says what limits it.
    changes : tuple of NestChange
        Those that help latency most first, then energy; those that are illegal last.
    """

    result: NestResult
    changes: tuple[NestChange, ...]


def explain_nest(model: NestModel, *, instances: int, costs: CostTable | None = None) -> NestExplanation:
    """Return what limits each stage of a nest, and what one more unit of each resource or another loop would buy.

    Parameters
    ----------
    model : NestModel
        The nest, checked.
    instances : int
        Times that it runs.
    costs : CostTable, optional
        Energies; by default the table that the architecture names.

    Raises
    ------
    InputError
        The cost table lacks an entry.
    """
    table = costs or load_cost_table(model.architecture.technology)
    base = price_nest(model, instances=instances, costs=table)
    binding = {name: each.array for name, each in model.nest.einsums.items()}
    changed = [
        (what, model.architecture if machine is None else machine, nest or model.nest)
        for what, machine, nest in (
            *((what, each, None) for what, each in machines(model.cascade, model.architecture, binding)),
            *((what, None, each) for what, each in _other_loops(model)),
        )
    ]
    changes = []
    for what, machine, nest in changed:
        result, refused = None, ""
        try:
            variant = dataclasses.replace(model, architecture=machine, nest=nest)
            result = price_nest(variant, instances=instances, costs=table)
        except InputError as error:
            refused = str(error.problems[0])
        changes.append(NestChange(what=what, result=result, refused=refused))
    return NestExplanation(result=base, changes=tuple(sorted(changes, key=_order)))


def _order(change: NestChange) -> tuple[float, float]:
    if change.result is None:
        return float("inf"), float("inf")
    return change.result.latency_cycles, change.result.energy_pj


def _other_loops(model: NestModel) -> Iterator[tuple[str, Nest]]:
    """Yield the nest with the tiles of each loop that is used twice and half as large, where that changes anything."""
    used = {name for each in model.nest.einsums.values() for name in each.loops}
    for name, loop in model.nest.loops.items():
        whole = model.size(loop.rank)
        if name not in used:
            continue
        for size in (2 * min(loop.size, whole), min(loop.size, whole) // 2):
            if size >= 1 and min(size, whole) != min(loop.size, whole):
                loops = {**model.nest.loops, name: dataclasses.replace(loop, size=size)}
                yield f"loop {name} of {size} instead of {loop.size}", dataclasses.replace(model.nest, loops=loops)
