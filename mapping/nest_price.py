"""What a nest costs: the cycles of its stages, and its actions by unit, tensor and Einsum."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from accel.arch import Architecture
from accel.cost import CostTable, load_cost_table
from accel.nest_result import NestAction, NestEinsum, NestResult, StageCycles
from mapping.bound import operators
from mapping.levels import access_width, latency, port_cycles
from mapping.nest import Move, NestModel

__all__ = ["ACCOUNTING", "LEFT_OUT", "price_nest"]

ACCOUNTING = "as published"
"""The rules of the FuseMax paper and artifact, generalised; their studies charge registers besides."""

LEFT_OUT = (
    "registers of the PEs: their energy is not charged",
    "leakage, clock tree, control and links between PEs: their energy is not charged",
    "fill and drain of an array within a stage, and between the tiles of a stage",
    "bandwidth of memories on chip that do not state their ports: taken as sufficient",
    "layout beyond whole rows: a move takes its values as a part of a row or word",
)
"""What the accounting does not charge."""


def _stage(model: NestModel, index: int, moves: list[Move], cycles: dict[str, int]) -> StageCycles:
    architecture, names = model.architecture, model.nest.stages[index]
    busy = dict.fromkeys(architecture.arrays, 0)
    for name in names:
        busy[model.nest.einsums[name].array] += cycles[name]
    values = dict.fromkeys(("dram", "buffer", *architecture.levels), Fraction(0))
    for each in moves:
        if each.stage == index:
            values[each.unit] += each.values * architecture.width_bits
    memory = float(values["dram"]) * architecture.clock_hz / architecture.dram.bandwidth_bits_per_s
    rows = {unit: bits / access_width(architecture, unit)[1] for unit, bits in values.items()}
    buffers = port_cycles(architecture, rows)
    return StageCycles(
        einsums=names,
        traffic_bits=float(values["dram"]),
        memory_cycles=memory,
        busy_cycles=busy,
        buffer_cycles=buffers,
        cycles=latency(architecture, memory, *busy.values(), *buffers.values()),
    )


def _moved(architecture: Architecture, moves: list[Move], costs: CostTable) -> Iterator[NestAction]:
    """Yield the accesses of memories, those of one tensor by one Einsum together."""
    values: dict[tuple[str, str, str, str], Fraction] = {}
    for each in moves:
        key = (each.unit, each.action, each.tensor, each.einsum)
        values[key] = values.get(key, Fraction(0)) + each.values
    for (unit, action, tensor, einsum), number in values.items():
        component, bits = access_width(architecture, unit)
        count = float(number * architecture.width_bits / bits)
        energy_pj = count * costs.energy_pj(component, action, bits=bits)
        yield NestAction(
            unit=unit,
            component=component,
            action=action,
            tensor=tensor,
            einsum=einsum,
            count=count,
            energy_pj=energy_pj,
        )


def _computed(model: NestModel, name: str, points: int, costs: CostTable) -> Iterator[NestAction]:
    """Yield the actions of the operators of one Einsum."""
    where = model.nest.einsums[name].array
    array = model.architecture.arrays[where]
    counts: dict[str, int] = {}
    for operator, number in operators(model.einsums[name], array).items():
        for action, each in array.operators[operator].actions.items():
            counts[action] = counts.get(action, 0) + points * number * each
    for action, count in counts.items():
        yield NestAction(
            unit=where,
            component=array.component,
            action=action,
            tensor=name,
            einsum=name,
            count=float(count),
            energy_pj=count * costs.energy_pj(array.component, action),
        )


def price_nest(model: NestModel, *, instances: int, costs: CostTable | None = None) -> NestResult:
    """Return what a nest costs.

    Parameters
    ----------
    model : NestModel
        The nest, checked.
    instances : int
        Times that it runs.
    costs : CostTable, optional
        Energies; by default the table that the architecture names. Those of registers are not in it (see
        ``accel.configuration.RegisterCount``).

    Raises
    ------
    InputError
        The cost table lacks an entry.
    """
    architecture = model.architecture
    table = costs or load_cost_table(architecture.technology)
    moves = [
        Move(
            unit=each.unit,
            action=each.action,
            tensor=each.tensor,
            einsum=each.einsum,
            stage=each.stage,
            values=instances * each.values,
        )
        for each in model.moves()
        if each.values
    ]
    stage_of = {name: index for index, stage in enumerate(model.nest.stages) for name in stage}
    einsums = [
        NestEinsum(
            einsum=name,
            array=model.nest.einsums[name].array,
            stage=stage_of[name],
            cycles=instances * model.cycles(name),
            points=instances * model.points(name),
            executed_points=instances * model.executed(name),
        )
        for name in model.einsums
    ]
    cycles = {each.einsum: each.cycles for each in einsums}
    work = dict.fromkeys(architecture.arrays, 0)
    actions = [*_moved(architecture, moves, table)]
    for each in einsums:
        array = architecture.arrays[each.array]
        used = operators(model.einsums[each.einsum], array)
        work[each.array] += each.points * sum(count * array.operators[name].cycles for name, count in used.items())
        actions += _computed(model, each.einsum, each.executed_points, table)
    return NestResult(
        accounting=ACCOUNTING,
        left_out=LEFT_OUT,
        cascade=model.cascade.name,
        architecture=architecture.name,
        sizes=dict(model.sizes),
        instances=instances,
        technology=table.name,
        clock_hz=architecture.clock_hz,
        buffer_size_bits=architecture.buffer.size_bits,
        occupancy_bits=dict(model.fullest),
        level_occupancy_bits={level: dict(parts) for level, parts in model.fullest_in_levels.items()},
        spilled=float(model.spilled),
        stages=tuple(_stage(model, index, moves, cycles) for index in range(len(model.nest.stages))),
        einsums=tuple(einsums),
        work_cycles={name: work[name] / array.pes for name, array in architecture.arrays.items()},
        actions=tuple(actions),
    )
