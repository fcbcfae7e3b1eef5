"""The end-to-end flow: from a run file to hardware that is shown to do what was predicted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accel.arch import Architecture, load_architecture
from accel.cascade import Cascade, load_cascade
from accel.cost import CostTable, load_cost_table
from accel.errors import InputError
from accel.softmax_unit import SoftmaxUnit
from accel.workload import AttentionModel, Workload, read_hugging_face_config
from mapping.passes import passes
from mapping.search import SearchResult, search
from rtl.axi import AxisWrapper
from rtl.emit import emit
from rtl.softmax import Softmax
from sim.accuracy import error_quantiles, measure_accuracy
from sim.compare import compare
from sim.cosim import Observation, Scenario, Simulator, check_waves, simulate_softmax
from sim.energy import price_softmax
from sim.golden import softmax as golden
from sim.outcome import CascadeSummary, Excerpt, Outcome, SimulationSpeed
from sim.run_file import AttentionHead, RunFile, load_head, load_run_file
from sim.steps import OnStep, Step
from sim.toolchain import Toolchain

__all__ = ["KEY_RANK", "run_flow"]

KEY_RANK = "m"
"""The rank over which an attention cascade makes its passes: the keys."""

TOP = "softmax"

EXCERPT_CYCLES = 48
"""Of the stretch that a report shows."""


def run_flow(
    path: Path, folder: Path, *, toolchain: Toolchain, cache: Path, on_step: OnStep, waves: Path | None = None
) -> Outcome:
    """Do everything that the run file at ``path`` asks for; the emitted files go to ``folder``.

    Parameters
    ----------
    path : Path
        The run file.
    folder : Path
        An existing folder for ``softmax.v`` and ``softmax.json``.
    toolchain : Toolchain
        What builds the simulation.
    cache : Path
        Folder for compiled simulations.
    on_step : callable
        Told when a step begins.
    waves : Path, optional
        File for the waveforms of the simulation, ending in .vcd or .fst.

    Raises
    ------
    InputError
        The run file or something it names is wrong.
    SimulationError
        The simulation hung or failed; a difference between hardware and prediction is no error but an outcome.
    """
    on_step(Step.READ)
    recorded = check_waves(waves)
    inputs = _read(path)
    run, unit = inputs.run, inputs.run.softmax
    on_step(Step.SCHEDULE)
    schedules = {each.name: search(inputs.scheduled, each, inputs.workload) for each in inputs.architectures}
    on_step(Step.ANALYSE)
    first = next(iter(schedules.values()))
    summaries = tuple(_summarise(each, inputs.workload, first) for each in inputs.cascades)

    on_step(Step.EMIT)
    emitted = emit(AxisWrapper(Softmax(unit, counters=True)), TOP, folder)
    on_step(Step.PREDICT)
    codes = unit.input_format.quantize(inputs.head.scores)
    rows, lengths = list(codes), [run.sequence_length] * len(codes)
    expected = golden.softmax(unit, rows)
    times = golden.row_times(unit, lengths, unit.latency_cycles)

    on_step(Step.BUILD)
    simulator = Simulator.build(emitted.verilog, TOP, toolchain=toolchain, cache=cache, waves=recorded)
    on_step(Step.SIMULATE)
    started = time.perf_counter()
    seen = simulate_softmax(simulator, unit, rows, _scenarios(run), waves)
    run_s = time.perf_counter() - started

    on_step(Step.COMPARE)
    free = seen[0]
    counts = {name: free.actions.get(name, 0) for name in expected.actions}
    word_bits = int(emitted.description["derived"]["buffer_word_bits"])
    return Outcome(
        name=run.name,
        model=inputs.model,
        workload=inputs.workload,
        head=inputs.head.source,
        rows=len(rows),
        row_length=run.sequence_length,
        clipped=_clipped(unit, inputs.head),
        cascades=summaries,
        schedules=schedules,
        unit=unit,
        sidecar=emitted.description,
        predicted_cycles=times.total_cycles,
        measured_cycles=free.total_cycles,
        energy=price_softmax(counts, inputs.costs, word_bits=word_bits),
        technology=inputs.costs.name,
        accuracy=measure_accuracy(inputs.head.scores, codes, free.rows, unit.input_format, unit.output_format),
        comparisons=compare(unit, lengths, expected, times, seen),
        speed=SimulationSpeed(build_s=simulator.build_seconds, run_s=run_s, cycles=_cycles(seen)),
        architectures={each.name: each for each in inputs.architectures},
        excerpts=tuple(_excerpt(unit, rows, each) for each in seen),
        error_quantiles=error_quantiles(codes, free.rows, unit.input_format, unit.output_format),
    )


@dataclass(frozen=True, kw_only=True)
class _Inputs:
    """The run file and all that it names, read and checked."""

    run: RunFile
    model: AttentionModel
    workload: Workload
    cascades: tuple[Cascade, ...]
    scheduled: Cascade
    architectures: tuple[Architecture, ...]
    costs: CostTable
    head: AttentionHead


def _read(path: Path) -> _Inputs:
    run = load_run_file(path)
    model = read_hugging_face_config(run.model)
    workload = model.workload(batch=run.batch, length=run.sequence_length)
    return _Inputs(
        run=run,
        model=model,
        workload=workload,
        cascades=tuple(load_cascade(name) for name in run.cascades),
        scheduled=load_cascade(run.schedule.cascade),
        architectures=tuple(load_architecture(name) for name in run.schedule.architectures),
        costs=load_cost_table(run.simulation.technology),
        head=load_head(run.head, tokens=run.sequence_length, dimension=workload.query_key_dim),
    )


def _scenarios(run: RunFile) -> tuple[Scenario, ...]:
    pause, seed = run.simulation.pause_probability, run.simulation.seed
    return (
        Scenario(name="free-running", source_pause_probability=0.0, sink_pause_probability=0.0, seed=seed),
        Scenario(name="back-pressure", source_pause_probability=pause, sink_pause_probability=pause, seed=seed),
    )


def _excerpt(unit: SoftmaxUnit, rows: Sequence[NDArray[np.int64]], seen: Observation) -> Excerpt:
    """Return the beats around the first output: the end of the first row going in, its first weights coming out."""
    first = max(int(seen.out_cycles[0]) - EXCERPT_CYCLES // 2, 0)

    def beats(cycles: NDArray[np.int64], codes: Sequence[NDArray[np.int64]]) -> tuple[tuple[int, str], ...]:
        carried = [row[begin : begin + unit.lanes] for row in codes for begin in range(0, len(row), unit.lanes)]
        near = np.flatnonzero((cycles >= first) & (cycles < first + EXCERPT_CYCLES))
        return tuple((int(cycles[beat]), ", ".join(str(code) for code in carried[beat])) for beat in near)

    return Excerpt(
        scenario=seen.scenario.name,
        first_cycle=first,
        cycles=EXCERPT_CYCLES,
        inputs=beats(seen.in_cycles, rows),
        outputs=beats(seen.out_cycles, seen.rows),
    )


def _cycles(seen: Sequence[Observation]) -> int:
    return sum(each.total_cycles for each in seen)


def _clipped(unit: SoftmaxUnit, head: AttentionHead) -> int:
    low, high = unit.input_format.min_value, unit.input_format.max_value
    return int(((head.scores < low) | (head.scores > high)).sum())


def _summarise(cascade: Cascade, workload: Workload, found: SearchResult) -> CascadeSummary:
    """Analyse one cascade at the sizes of one head; tiles, where it has any, are those of the schedule found."""
    if KEY_RANK not in cascade.ranks and not any(KEY_RANK in tensor.ranks for tensor in cascade.inputs):
        raise InputError(
            f"cascade {cascade.name!r} must have the key rank {KEY_RANK!r} to be compared",
            hint="see einrtl list cascades",
        )
    known = _known_sizes(cascade, workload, found)
    try:
        sizes = cascade.sizes(known)
    except InputError as error:
        message = error.problems[0].message
        raise InputError(message, hint=f"a run knows the sizes {', '.join(sorted(known))}; rename the rank") from None
    totals: Counter[str] = Counter()
    for operations in cascade.operation_counts(sizes).values():
        totals.update(operations)
    return CascadeSummary(
        name=cascade.name, analysis=passes(cascade, KEY_RANK), sizes=sizes, operations=dict(sorted(totals.items()))
    )


def _known_sizes(cascade: Cascade, workload: Workload, found: SearchResult) -> dict[str, int]:
    """Return the sizes that the cascade names; a tile is no larger than the rank that it is cut from."""
    given = dict(workload.sizes)
    for rank, parts in found.schedule.plan.splits.items():
        tile = parts[-1]
        given[tile.upper()] = min(found.schedule.tiles[tile], workload.sizes[rank.upper()])
    return {symbol: size for symbol, size in given.items() if symbol in cascade.symbols}
