"""What limits a schedule, and what one more unit of each resource would buy: found by pricing the change."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from accel.arch import Architecture, ComputeArray
from accel.cascade import Cascade
from accel.cost import CostTable, load_cost_table
from accel.errors import InputError
from accel.result import Result
from accel.schedule import Axis, Plan, Schedule
from accel.workload import Workload
from mapping.bound import operators
from mapping.model import price
from mapping.search import Objective, search

__all__ = ["Change", "Explanation", "Load", "SlotLoad", "explain"]


@dataclass(frozen=True, kw_only=True)
class Load:
    """How long one resource works.

    Parameters
    ----------
    resource : str
        ``dram`` or the name of an array.
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
        The price with the tile sizes of the schedule, or with those that the change names; None if that is illegal.
    refused : str
        Why it is illegal; empty if it is not.
    searched : Result, optional
        The price with the best tile sizes after the change, those of the schedule among them; None where the change is
        one of tile sizes.
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
        DRAM and each array, the busiest first.
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
    """A change before it is priced: another architecture, or other tile sizes."""

    what: str
    architecture: Architecture
    tiles: Mapping[str, int] | None = None


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
    for variant in (*_machines(cascade, architecture, schedule), *_other_tiles(architecture, schedule)):
        changes.append(_priced(cascade, variant, schedule, workload, goal, table))
    memory = Load(resource="dram", cycles=base.memory_cycles, part=base.memory_cycles / base.latency_cycles)
    loads = [memory, *(Load(resource=use.array, cycles=use.busy_cycles, part=use.busy) for use in base.arrays)]
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
    changed = schedule if variant.tiles is None else dataclasses.replace(schedule, tiles=variant.tiles)
    result, refused = None, ""
    try:
        result = price(cascade, variant.architecture, changed, workload, costs)
    except InputError as error:
        refused = str(error.problems[0])
    searched = None
    if variant.tiles is None:
        searched = search(cascade, variant.architecture, workload, objective, plan=schedule.plan, costs=costs).result
        if result is not None and _value(result, objective) <= _value(searched, objective):
            searched = result  # the sizes that a search goes through follow the arrays, and may leave these out
    return Change(what=variant.what, result=result, refused=refused, searched=searched)


def _machines(cascade: Cascade, architecture: Architecture, schedule: Schedule) -> Iterator[_Variant]:
    """Yield the architecture with one more unit of each resource."""
    for name, array in architecture.arrays.items():
        wider = "one column more" if array.rows > 1 else "one lane more"
        if array.rows > 1:
            taller = dataclasses.replace(array, rows=array.rows + 1)
            yield _with_arrays(architecture, f"{name}: one row more", {name: taller})
        yield _with_arrays(
            architecture, f"{name}: {wider}", {name: dataclasses.replace(array, columns=array.columns + 1)}
        )
        deeper = dataclasses.replace(array, registers_per_pe=array.registers_per_pe + 1)
        yield _with_arrays(architecture, f"{name}: one register more in each PE", {name: deeper})
    yield from _faster(cascade, architecture, schedule.plan)
    buffer = dataclasses.replace(architecture.buffer, size_bits=2 * architecture.buffer.size_bits)
    yield _Variant(what="buffer: twice the size", architecture=dataclasses.replace(architecture, buffer=buffer))
    bandwidth = 1.1 * architecture.dram.bandwidth_bits_per_s
    dram = dataclasses.replace(architecture.dram, bandwidth_bits_per_s=bandwidth)
    yield _Variant(what="dram: 10 % more bandwidth", architecture=dataclasses.replace(architecture, dram=dram))


def _with_arrays(architecture: Architecture, what: str, arrays: Mapping[str, ComputeArray]) -> _Variant:
    """Return the architecture with some of its arrays replaced."""
    return _Variant(what=what, architecture=dataclasses.replace(architecture, arrays={**architecture.arrays, **arrays}))


def _faster(cascade: Cascade, architecture: Architecture, plan: Plan) -> Iterator[_Variant]:
    """Yield the architecture with an operator one cycle faster: on each array that needs it, and on all together."""
    slow: dict[str, list[str]] = {}
    for einsum_name, array_name in plan.binding.items():
        array = architecture.arrays[array_name]
        for operator in operators(cascade.einsum(einsum_name), array):
            if array.operators[operator].cycles > 1:
                names = slow.setdefault(operator, [])
                names += [array_name] if array_name not in names else []
    for operator, names in sorted(slow.items()):
        for chosen in [*([name] for name in names), *([names] if len(names) > 1 else [])]:
            faster = {name: _sped_up(architecture.arrays[name], operator) for name in chosen}
            yield _with_arrays(architecture, f"{' and '.join(chosen)}: {operator} one cycle faster", faster)


def _sped_up(array: ComputeArray, operator: str) -> ComputeArray:
    faster = dataclasses.replace(array.operators[operator], cycles=array.operators[operator].cycles - 1)
    return dataclasses.replace(array, operators={**array.operators, operator: faster})


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
            tiles={**schedule.tiles, part: larger},
        )
