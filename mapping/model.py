"""The model: what a schedule costs in cycles, traffic and energy, in a time that does not grow with sequence length.

Cycles are exact for the epochs of the schedule, partial tiles included (see docs/model.md). The accounting is that of
the FuseMax paper (arXiv 2406.10491v3, section V, and its artifact), generalised to any plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from accel.arch import Architecture, PipelineFill
from accel.cascade import Cascade
from accel.cost import CostTable, load_cost_table
from accel.errors import InputError
from accel.result import ActionCount, ArrayUse, EinsumCycles, Result
from accel.schedule import Level, Schedule
from accel.workload import Workload
from mapping.bound import Step, bind
from mapping.inner import level_occupancy_bits, passed, read_rows, written_rows
from mapping.legal import problems
from mapping.levels import access_width, latency, port_cycles
from mapping.sequence import Sequence
from mapping.tiling import TileClass, Tiling

__all__ = [
    "ACCOUNTING",
    "LEFT_OUT",
    "Time",
    "count_actions",
    "epoch_cycles",
    "measure",
    "price",
    "price_tiling",
    "slot_cycles",
]

ACCOUNTING = "as published"
"""The rules of the FuseMax paper and artifact, generalised."""

LEFT_OUT = (
    "registers of the PEs: their energy is not charged",
    "leakage, clock tree, control and links between PEs: their energy is not charged",
    "fill and drain of an array within an epoch: taken as hidden behind the other tiles in flight",
    "bandwidth of memories on chip that do not state their ports: taken as sufficient",
    "initial values, score scaling, comparing coordinates for masks, layer norm, bias and the layers around attention",
)
"""What the accounting does not charge; the filling of the software pipeline is the architecture's choice."""


@dataclass(frozen=True, kw_only=True)
class Time:
    """Cycles of one tiling.

    Parameters
    ----------
    tiles : Counter
        Class of tiles to how many there are.
    epochs : int
        Epochs charged.
    compute_cycles : int
        Cycles of all of them.
    """

    tiles: Counter[TileClass]
    epochs: int
    compute_cycles: int


def slot_cycles(tiling: Tiling, window: tuple[TileClass | None, ...], group: int, slot: int) -> int:
    """Return the cycles of one slot: those of the array that is busy longest.

    Parameters
    ----------
    tiling : Tiling
        The tiling.
    window : tuple of TileClass or None
        Tile of each offset, the newest last; None where there is none because the pipeline fills or drains.
    group, slot : int
        Where in the epoch.
    """
    bound = tiling.bound
    busy = [0]
    for names in bound.plan.epoch[group].slots[slot].values():
        cycles = 0
        for name in names:
            step = bound.steps[name]
            tile = window[-1 - step.offset]
            if tile is not None and tiling.runs(step, tile):
                cycles += tiling.cycles(step, tiling.extents(tile))
        busy.append(cycles)
    return max(busy)


def epoch_cycles(tiling: Tiling, window: tuple[TileClass | None, ...]) -> int:
    """Return the cycles of one epoch: groups follow each other, and so does the work of slots that alternate."""
    return sum(
        group.stall_cycles + sum(slot_cycles(tiling, window, index, slot) for slot in range(len(group.slots)))
        for index, group in enumerate(tiling.bound.plan.epoch)
    )


def measure(tiling: Tiling) -> Time:
    """Return the cycles of all epochs, each window of tiles in flight priced once and counted."""
    depth = tiling.bound.plan.depth
    sequence = tiling.sequence(depth)
    if tiling.bound.architecture.pipeline_fill is PipelineFill.CHARGED:
        nothing = Sequence[TileClass | None].one(depth, None).times(depth)
        windows = nothing.then(sequence).then(nothing).windows
    else:
        windows = sequence.cyclic_windows()
    tiles: Counter[TileClass] = Counter()
    for window, count in windows.items():
        if window[-1] is not None:
            tiles[window[-1]] += count
    return Time(
        tiles=tiles,
        epochs=windows.total(),
        compute_cycles=sum(count * epoch_cycles(tiling, window) for window, count in windows.items()),
    )


def price(
    cascade: Cascade,
    architecture: Architecture,
    schedule: Schedule,
    workload: Workload,
    costs: CostTable | None = None,
) -> Result:
    """Return what a schedule costs for a workload.

    Parameters
    ----------
    cascade : Cascade
        What is computed.
    architecture : Architecture
        What computes it.
    schedule : Schedule
        How; it names both.
    workload : Workload
        Sizes.
    costs : CostTable, optional
        Energies; by default the table that the architecture names.

    Raises
    ------
    InputError
        The schedule is for another cascade or architecture, does not fit them, is illegal (a memory too small, or an
        Einsum that runs before what it reads), or the cost table lacks an entry.
    """
    for what, meant, given in (
        ("cascade", schedule.cascade, cascade.name),
        ("architecture", schedule.architecture, architecture.name),
    ):
        if meant != given:
            raise InputError(
                f"the schedule must be for {what} {given!r}, but is for {meant!r}",
                hint=f"price it with {what} {meant!r}",
                field=(what,),
            )
    tiling = Tiling(bound=bind(cascade, architecture, schedule.plan), tiles=schedule.tiles, workload=workload)
    found = problems(tiling)
    if found:
        raise InputError.of(found)
    return price_tiling(tiling, costs or load_cost_table(architecture.technology))


def price_tiling(tiling: Tiling, costs: CostTable) -> Result:
    """Return what a legal tiling costs; ``price`` checks and calls it.

    Raises
    ------
    InputError
        The cost table lacks an entry.
    """
    bound = tiling.bound
    architecture = bound.architecture
    time = measure(tiling)
    einsums = tuple(_einsum_cycles(tiling, step, time.tiles) for step in bound.steps.values())
    actions = tuple(count_actions(tiling, time.tiles, costs))
    read_bits, written_bits = (
        sum(each.count for each in actions if each.unit == "dram" and each.action == action)
        * architecture.dram.word_bits
        for action in ("read", "write")
    )
    memory_cycles = architecture.memory_cycles(read_bits + written_bits)
    accesses: Counter[str] = Counter()
    for each in actions:
        accesses[each.unit] += each.count
    buffer_cycles = port_cycles(architecture, accesses)
    latency_cycles = latency(architecture, memory_cycles, time.compute_cycles, *buffer_cycles.values())
    arrays = tuple(_use(tiling, array, einsums, latency_cycles) for array in architecture.arrays)
    only_tile = (tiling.iterations(bound.plan.splits[rank][-2]) == 1 for rank in bound.once_ranks)
    full = TileClass(tuple(tiling.full_extents.values()), tuple(only_tile))
    return Result(
        accounting=ACCOUNTING,
        left_out=LEFT_OUT,
        workload=tiling.workload,
        schedule=Schedule(
            cascade=bound.cascade.name, architecture=architecture.name, tiles=tiling.tiles, plan=bound.plan
        ),
        technology=costs.name,
        clock_hz=architecture.clock_hz,
        epochs=time.epochs,
        epoch_cycles=epoch_cycles(tiling, (full,) * (bound.plan.depth + 1)),
        compute_cycles=time.compute_cycles,
        memory_cycles=memory_cycles,
        latency_cycles=latency_cycles,
        limit=_limit(time, memory_cycles, buffer_cycles, arrays),
        dram_read_bits=read_bits,
        dram_written_bits=written_bits,
        buffer_size_bits=architecture.buffer.size_bits,
        occupancy_bits=tiling.occupancy_bits,
        level_occupancy_bits=level_occupancy_bits(tiling),
        buffer_cycles=buffer_cycles,
        registers={array: sum(demand.values()) for array, demand in tiling.register_demand.items()},
        einsums=einsums,
        arrays=arrays,
        actions=actions,
    )


def _einsum_cycles(tiling: Tiling, step: Step, tiles: Counter[TileClass]) -> EinsumCycles:
    runs = {tile: count for tile, count in tiles.items() if tiling.runs(step, tile)}
    return EinsumCycles(
        einsum=step.name,
        array=step.array,
        tile_cycles=tiling.cycles(step, tiling.full_extents),
        runs=sum(runs.values()),
        cycles=sum(count * tiling.cycles(step, tiling.extents(tile)) for tile, count in runs.items()),
        points=sum(count * tiling.points(step, tiling.extents(tile)) for tile, count in runs.items()),
    )


def _use(tiling: Tiling, array: str, einsums: tuple[EinsumCycles, ...], latency_cycles: float) -> ArrayUse:
    own = [each for each in einsums if each.array == array]
    work = sum(each.points * tiling.bound.steps[each.einsum].point_cycles for each in own)
    busy = sum(each.cycles for each in own)
    pes = tiling.bound.architecture.arrays[array].pes
    return ArrayUse(
        array=array, busy_cycles=busy, busy=busy / latency_cycles, utilisation=work / (pes * latency_cycles)
    )


def _limit(time: Time, memory_cycles: float, buffer_cycles: Mapping[str, float], arrays: tuple[ArrayUse, ...]) -> str:
    ported = max(buffer_cycles, key=lambda unit: buffer_cycles[unit], default=None)
    on_chip = max(time.compute_cycles, *buffer_cycles.values()) if buffer_cycles else time.compute_cycles
    if memory_cycles > on_chip:
        return "dram"
    if ported is not None and on_chip > time.compute_cycles:
        return ported
    busiest = max(arrays, key=lambda use: use.busy_cycles)
    return busiest.array if busiest.busy_cycles >= time.compute_cycles else "dependencies"


def count_actions(tiling: Tiling, tiles: Counter[TileClass], costs: CostTable) -> Iterator[ActionCount]:
    """Yield all actions of a tiling.

    Parameters
    ----------
    tiling : Tiling
        The tiling.
    tiles : Counter
        Class of tiles to how many there are.
    costs : CostTable
        Energies.

    Raises
    ------
    InputError
        The cost table lacks an entry.
    """
    yield from _dram_actions(tiling, tiles, costs)
    yield from _buffer_actions(tiling, tiles, costs)
    for step in tiling.bound.steps.values():
        points = sum(
            count * tiling.points(step, tiling.extents(tile))
            for tile, count in tiles.items()
            if tiling.runs(step, tile)
        )
        array = tiling.bound.architecture.arrays[step.array]
        counts: Counter[str] = Counter()
        for name, number in step.operators.items():
            for action, each in array.operators[name].actions.items():
                counts[action] += number * each
        for action, count in counts.items():
            yield ActionCount(
                unit=step.array,
                component=array.component,
                action=action,
                tensor=step.name,
                einsum=step.name,
                count=count * points,
                energy_pj=count * points * costs.energy_pj(array.component, action),
            )


def _moved(
    tiling: Tiling, costs: CostTable, unit: str, action: str, tensor: str, einsum: str | None, count: int
) -> ActionCount:
    """Return ``count`` accesses of DRAM, of the buffer or of a level, each one word or row wide."""
    component, bits = access_width(tiling.bound.architecture, unit)
    energy_pj = count * costs.energy_pj(component, action, bits=bits)
    return ActionCount(
        unit=unit, component=component, action=action, tensor=tensor, einsum=einsum, count=count, energy_pj=energy_pj
    )


def _dram_actions(tiling: Tiling, tiles: Counter[TileClass], costs: CostTable) -> Iterator[ActionCount]:
    bound = tiling.bound
    word_bits = bound.architecture.dram.word_bits
    for tensor in (each.name for each in bound.cascade.inputs):
        if bound.plan.residency[tensor].level is Level.BUFFER:
            words = tiling.workload.instances * tiling.fetched_rows(tensor, word_bits)
            yield _moved(tiling, costs, "dram", "read", tensor, None, words)
            continue
        for step in bound.steps.values():
            for access in step.reads:
                if access.tensor == tensor:
                    words = read_rows(tiling, step, access, tiles, word_bits)
                    if not words:
                        continue
                    yield _moved(tiling, costs, "dram", "read", tensor, step.name, words)
    for tensor in bound.cascade.outputs:
        step = bound.steps[tensor]
        words = written_rows(tiling, step, tiles, word_bits)
        in_buffer = bound.plan.residency[tensor].level is Level.BUFFER
        yield _moved(tiling, costs, "dram", "write", tensor, None if in_buffer else step.name, words)


def _buffer_actions(tiling: Tiling, tiles: Counter[TileClass], costs: CostTable) -> Iterator[ActionCount]:
    bound = tiling.bound
    row_bits = bound.architecture.buffer.row_bits
    in_buffer = {name for name, each in bound.plan.residency.items() if each.level is Level.BUFFER}
    for tensor in sorted(in_buffer & bound.inputs):
        rows = tiling.workload.instances * tiling.fetched_rows(tensor, row_bits)
        yield _moved(tiling, costs, "buffer", "write", tensor, None, rows)
    for step in bound.steps.values():
        for each in passed(tiling, step, tiles):
            yield _moved(tiling, costs, each.unit, each.action, each.tensor, each.einsum, each.number)
        if step.name in in_buffer and step.name in bound.cascade.outputs:
            rows = written_rows(tiling, step, tiles, row_bits)
            yield _moved(tiling, costs, "buffer", "read", step.name, None, rows)
