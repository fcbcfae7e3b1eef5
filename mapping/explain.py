"""What limits a schedule, and what one more unit of each resource would buy: found by pricing the change."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from accel.arch import Architecture
from accel.cascade import Cascade
from accel.cost import CostTable, load_cost_table
from accel.errors import InputError
from accel.result import Result
from accel.schedule import Axis, Level, LevelStore, Schedule
from accel.workload import Workload
from mapping.model import price
from mapping.search import Objective, search
from mapping.variants import machines

__all__ = ["Change", "Explanation", "Load", "SlotLoad", "explain"]


@dataclass(frozen=True, kw_only=True)
class Load:
    """How long one resource works.

    Parameters
    ----------
    resource : str
        ``dram``, a memory on chip that states its ports, or the name of an array.
    cycles : float
        Cycles in which it works.
    part : float
        That as a part of latency.
    """

    resource: str
    cycles: float
    part: float


@dataclass(frozen=True, kw_only=True)
class SlotLoad:
    """What the arrays do in one slot of the epoch.

    Parameters
    ----------
    group, slot : int
        Where it stands in the epoch, from 0.
    cycles : mapping of str to float
        Array to the cycles that its Einsums take for a tile, on average over all tiles.
    einsums : mapping of str to tuple of str
        Array to its Einsums.
    """

    group: int
    slot: int
    cycles: Mapping[str, float]
    einsums: Mapping[str, tuple[str, ...]]

    @property
    def longest(self) -> str:
        """The array for which the others wait; of equal ones the first."""
        return max(self.cycles, key=lambda array: self.cycles[array])


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change and what it buys.

    Parameters
    ----------
    what : str
        What is changed, such as ``1d: one column more``.
    result : Result, optional
        The price with the schedule as it is, or with what the change names; None if that is illegal.
    refused : str
        Why it is illegal; empty if it is not.
    searched : Result, optional
        The price with the best tile sizes after the change, those of the schedule among them; None where the change is
        one of the schedule.
    """

    what: str
    result: Result | None
    refused: str
    searched: Result | None

    def best(self, objective: Objective) -> Result | None:
        """Return the better of both prices; of equal ones that with the schedule's own tiles."""
        found = [each for each in (self.result, self.searched) if each is not None]
        return min(found, key=lambda each: _value(each, objective), default=None)


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What limits a schedule and what would help.

    Parameters
    ----------
    objective : Objective
        What the tile sizes were searched for, and by which changes are ordered.
    result : Result
        The price of the schedule as it is.
    loads : tuple of Load
        DRAM, each memory on chip that states its ports, and each array, the busiest first.
    slots : tuple of SlotLoad
        The slots of the epoch in order.
    changes : tuple of Change
        Those that help most first; those that are illegal last.
    """

    objective: Objective
    result: Result
    loads: tuple[Load, ...]
    slots: tuple[SlotLoad, ...]
    changes: tuple[Change, ...]


@dataclass(frozen=True, kw_only=True)
class _Variant:
    """A change before it is priced: another architecture, or another schedule whose tile sizes are as they are."""

    what: str
    architecture: Architecture
    schedule: Schedule | None = None


def explain(
    cascade: Cascade,
    architecture: Architecture,
    schedule: Schedule,
    workload: Workload,
    objective: Objective | str = Objective.LATENCY,
    *,
    costs: CostTable | None = None,
) -> Explanation:
    """Return what limits a schedule, and what one more unit of each resource would buy.

    Each change is priced alone, by the same model: with the tile sizes of the schedule, and with the best ones that
    ``mapping.search`` finds for the plan after the change. The first change, of tile sizes alone, is what the others
    must beat to be worth their hardware.

    Parameters
    ----------
    cascade, architecture, schedule, workload
        As for ``mapping.model.price``.
    objective : Objective
        What tile sizes are searched for.
    costs : CostTable, optional
        Energies; by default the table that the architecture names.

    Raises
    ------
    InputError
        As ``mapping.model.price`` for the schedule as it is, or the objective is unknown.
    """
    table = costs or load_cost_table(architecture.technology)
    base = price(cascade, architecture, schedule, workload, table)
    # Its own check of the objective, before anything is compared by it.
    best = search(cascade, architecture, workload, objective, plan=schedule.plan, costs=table).result
    goal = Objective(objective)
    best = min(base, best, key=lambda result: _value(result, goal))
    changes = [Change(what="best tile sizes", result=base, refused="", searched=best)]
    resized = (
        _Variant(what=what, architecture=machine)
        for what, machine in machines(cascade, architecture, schedule.plan.binding)
    )
    others = (*_other_tiles(architecture, schedule), *_kept_inputs(cascade, architecture, schedule))
    for variant in (*resized, *others):
        changes.append(_priced(cascade, variant, schedule, workload, goal, table))
    memory = Load(resource="dram", cycles=base.memory_cycles, part=base.memory_cycles / base.latency_cycles)
    ported = (
        Load(resource=unit, cycles=cycles, part=cycles / base.latency_cycles)
        for unit, cycles in base.buffer_cycles.items()
    )
    loads = [memory, *ported, *(Load(resource=use.array, cycles=use.busy_cycles, part=use.busy) for use in base.arrays)]
    return Explanation(
        objective=goal,
        result=base,
        loads=tuple(sorted(loads, key=lambda load: -load.cycles)),
        slots=_slots(base),
        changes=tuple(sorted(changes, key=lambda change: _order(change, goal))),
    )


def _value(result: Result, objective: Objective) -> float:
    energy, latency = result.energy_pj, result.latency_cycles
    return {Objective.LATENCY: latency, Objective.ENERGY: energy, Objective.EDP: energy * latency}[objective]


def _order(change: Change, objective: Objective) -> float:
    best = change.best(objective)
    return float("inf") if best is None else _value(best, objective)


def _slots(result: Result) -> tuple[SlotLoad, ...]:
    """Return the average load of each slot; an average over tiles, since some Einsums run after a loop only."""
    einsums = {each.einsum: each for each in result.einsums}
    tiles = max(each.runs for each in result.einsums)
    return tuple(
        SlotLoad(
            group=group_index,
            slot=slot_index,
            cycles={array: sum(einsums[name].cycles for name in names) / tiles for array, names in slot.items()},
            einsums=dict(slot),
        )
        for group_index, group in enumerate(result.schedule.plan.epoch)
        for slot_index, slot in enumerate(group.slots)
    )


def _priced(
    cascade: Cascade,
    variant: _Variant,
    schedule: Schedule,
    workload: Workload,
    objective: Objective,
    costs: CostTable,
) -> Change:
    """Return a variant with its prices."""
    changed = variant.schedule or schedule
    result, refused = None, ""
    try:
        result = price(cascade, variant.architecture, changed, workload, costs)
    except InputError as error:
        refused = str(error.problems[0])
    searched = None
    if variant.schedule is None:
        searched = search(cascade, variant.architecture, workload, objective, plan=schedule.plan, costs=costs).result
        if result is not None and _value(result, objective) <= _value(searched, objective):
            searched = result  # the sizes that a search goes through follow the arrays, and may leave these out
    return Change(what=variant.what, result=result, refused=refused, searched=searched)


def _other_tiles(architecture: Architecture, schedule: Schedule) -> Iterator[_Variant]:
    """Yield the schedule with each tile size one step up: by one, or by one more turn of the arrays along its axis."""
    for part, size in schedule.tiles.items():
        axis = schedule.plan.axes.get(part)
        arrays = architecture.arrays.values()
        step = max(1 if axis is None else array.rows if axis is Axis.ROWS else array.columns for array in arrays)
        larger = size + step
        yield _Variant(
            what=f"tile {part} = {larger} instead of {size}",
            architecture=architecture,
            schedule=dataclasses.replace(schedule, tiles={**schedule.tiles, part: larger}),
        )


def _kept_inputs(cascade: Cascade, architecture: Architecture, schedule: Schedule) -> Iterator[_Variant]:
    """Yield the schedule with each input in the buffer kept in an inner level for as long as the buffer keeps it."""
    plan = schedule.plan
    for name in (tensor.name for tensor in cascade.inputs):
        residence = plan.residency[name]
        if residence.level is not Level.BUFFER:
            continue
        readers = [each.name for each in cascade.einsums if any(access.tensor == name for access in each.reads)]
        path = dict.fromkeys(level for reader in readers for level in architecture.path(plan.binding[reader]))
        for level in path:
            if level in residence.levels:
                continue
            levels = {**residence.levels, level: LevelStore(within=residence.within)}
            homes = {**plan.residency, name: dataclasses.replace(residence, levels=levels)}
            yield _Variant(
                what=f"{name} kept in {level} within {residence.within}",
                architecture=architecture,
                schedule=dataclasses.replace(schedule, plan=dataclasses.replace(plan, residency=homes)),
            )
