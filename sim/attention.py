"""An attention file, end to end: its core as Verilog, simulated beside its golden model and what the model predicts."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.arch import Architecture, PipelineFill, load_architecture
from accel.attention_array import (
    CASCADE,
    START_CYCLES,
    AttentionArray,
    Job,
    compute_cycles,
    first_to_last_cycles,
    lone_cycles,
)
from accel.attention_file import AttentionFile
from accel.cascade import load_cascade
from accel.cost import load_cost_table
from accel.errors import InputError
from accel.result import Result
from mapping.model import price
from rtl.attention.reordered import ReorderedAttention, ReorderedPorts
from rtl.emit import emit
from sim.attention_array import CompiledArray
from sim.attention_model import model_actions, model_energies, price_array, workload_of
from sim.golden.attention_array import attention, exact_attention, input_error_bound
from sim.reordered import energy_by_component, quantized_head, run_reordered
from sim.streams import CompiledStreams
from sim.toolchain import Toolchain

__all__ = ["AttentionOutcome", "run_attention"]

Codes = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class AttentionOutcome:
    """What one simulation showed beside what was predicted.

    Parameters
    ----------
    name, core : str
        Of the file; ``array`` or ``reordered``.
    bit_exact : bool
        Every output is the golden model's.
    cycles_model, cycles_rtl : int
        Of an array: from accepting the last beat that the first epoch needs to delivering the last of AV. Of a
        reordered unit: from accepting the first job to the last output, both counted.
    cycles : dict of str to int
        What ``cycles_model`` consists of.
    actions_model, actions_rtl : dict of str to int
        Counts by name.
    energy_pj : dict of str to dict of str to float
        Cost table to component, and ``total``, to the energy of the actions that the hardware counted; ``dram``, which
        it cannot count, is the model's.
    use_2d : float or None
        Part of the PEs' cycles, from begin to end, in which they worked on a point of the job, as counted by the
        hardware; None for a reordered unit, which has no array.
    use_slots : float or None
        Part of the slots' cycles, from the first key read to the last, that worked on a pair that counts; None for an
        array.
    max_error, error_bound, input_error_bound : float
        Largest distance from float64 attention on the quantized inputs; the bound on it that is proved for all inputs,
        and, of an array, that for these.
    simulated_cycles, build_seconds, simulated_cycles_per_second
        Of the simulation.
    verilog_sha256 : str
        Of the Verilog that was simulated.
    first_difference : str or None
        What differs first; None if nothing does.
    """

    name: str
    core: str
    bit_exact: bool
    cycles_model: int
    cycles_rtl: int
    cycles: dict[str, int]
    actions_model: dict[str, int]
    actions_rtl: dict[str, int]
    energy_pj: dict[str, dict[str, float]]
    use_2d: float | None
    use_slots: float | None
    max_error: float
    error_bound: float
    input_error_bound: float | None
    simulated_cycles: int
    build_seconds: float
    simulated_cycles_per_second: float
    verilog_sha256: str
    first_difference: str | None

    @property
    def holds(self) -> bool:
        """Whether everything is as predicted."""
        return self.first_difference is None

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome as JSON values."""
        return dataclasses.asdict(self) | {"holds": self.holds}


def run_attention(file: AttentionFile, *, toolchain: Toolchain, cache: Path) -> AttentionOutcome:
    """Write the core of a file as Verilog, simulate its workload on random numbers, and compare.

    Parameters
    ----------
    file : AttentionFile
        What to run.
    toolchain : Toolchain
        Verilator and the compiler.
    cache : Path
        Folder of Verilog and compiled simulations, made if missing.

    Raises
    ------
    InputError
        The core cannot be built for its schedule or formats, or a cost table lacks an entry.
    SimulationError
        The hardware does not build, stalls, or breaks a rule of its ports.
    """
    return (_run_array if file.array is not None else _run_reordered)(file, toolchain, cache)


def _real_inputs(file: AttentionFile, query_scale: float) -> list[NDArray[np.float64]]:
    """Return Q, K and V of all heads, normally distributed; heads that share keys and values have the same ones."""
    work, source = file.workload, np.random.default_rng(file.seed)
    group = work.heads // work.kv_heads
    q = source.normal(size=(file.heads, work.queries, work.query_key_dim)) * query_scale
    k, v = (
        np.repeat(source.normal(size=(work.batch * work.kv_heads, work.keys, dim)), group, axis=0)
        for dim in (work.query_key_dim, work.value_dim)
    )
    return [q, k, v]


def _differences(
    exact: str | None, cycles: tuple[int, int], actions: tuple[Mapping[str, int], Mapping[str, int]]
) -> Iterator[str]:
    """Yield what differs: bits first, then cycles, then actions; each pair is the model's and the hardware's."""
    if exact is not None:
        yield exact
    if cycles[0] != cycles[1]:
        yield f"cycles: {cycles[0]} in the model, {cycles[1]} in the hardware"
    for name, count in actions[0].items():
        if actions[1][name] != count:
            yield f"action {name}: {count} in the model, {actions[1][name]} in the hardware"


def _first_code(golden: Codes, found: Codes) -> str | None:
    """Return where two arrays of codes [heads, queries, F] differ first; None if they do not."""
    wrong = np.argwhere(golden != found)
    if not wrong.size:
        return None
    head, query, feature = map(int, wrong[0])
    at = (head, query, feature)
    return (
        f"AV of head {head}, query {query}, feature {feature}: {golden[at]} in the golden model, {found[at]} in the "
        f"hardware ({len(wrong)} of {golden.size} codes differ)"
    )


# The spatial array ---------------------------------------------------------------------------------------------------


def _checked_architecture(file: AttentionFile) -> Architecture:
    """Return the architecture, which must count as the hardware does.

    Raises
    ------
    InputError
        It counts rows of several words, or does not charge the filling of the pipeline.
    """
    assert file.array is not None
    machine = load_architecture(file.array.architecture)
    for rule, holds, field in (
        (
            f"must have buffer.row_bits of one word ({machine.width_bits}), for the hardware counts words",
            machine.buffer.row_bits == machine.width_bits,
            ("buffer", "row_bits"),
        ),
        (
            "must have pipeline_fill: charged, for the hardware fills and drains its pipeline",
            machine.pipeline_fill is PipelineFill.CHARGED,
            ("pipeline_fill",),
        ),
    ):
        if not holds:
            raise InputError(f"architecture {machine.name!r} {rule}", hint="start from fpga-attention-8x8", field=field)
    return machine


def _cycle_parts(file: AttentionFile, unit: AttentionArray, machine: Architecture, priced: Result) -> dict[str, int]:
    """Return the parts of the model's cycles: the schedule as it was found, and what the hardware adds to it."""
    job = file.job
    found = price(load_cascade(CASCADE), machine, file.schedule(), workload_of(unit, job)).compute_cycles
    # What lies between the last epoch's end and the last beat does not depend on what the epochs take.
    ends = START_CYCLES + first_to_last_cycles(unit, job) - compute_cycles(unit, job)
    return {
        "schedule": found,
        "stalls": priced.compute_cycles - found,
        "lone_tile": lone_cycles(unit, job),
        "start_and_end": ends,
    }


def _run_array(file: AttentionFile, toolchain: Toolchain, cache: Path) -> AttentionOutcome:
    machine = _checked_architecture(file)
    unit, job = file.array_unit(), file.job
    formats = (unit.query_format, unit.key_format, unit.value_format)
    real = _real_inputs(file, unit.query_key_dim**-0.5)
    given = [element.quantize(each) for element, each in zip(formats, real, strict=True)]
    priced = price_array(unit, machine, job)
    parts = _cycle_parts(file, unit, machine, priced)
    energies = {name: _array_energies(unit, machine, job, name) for name in file.technologies}
    array = CompiledArray.build(unit, toolchain=toolchain, cache=cache)
    run = array.run(*given, causal=job.causal)
    golden = attention(unit, *given, causal=job.causal)
    predicted, actions, different = sum(parts.values()), model_actions(priced), _first_code(golden, run.av)
    found = unit.output_format.to_real(run.av)
    return AttentionOutcome(
        name=file.name,
        core="array",
        bit_exact=different is None,
        cycles_model=predicted,
        cycles_rtl=run.cycles,
        cycles=parts,
        actions_model=actions,
        actions_rtl=run.actions,
        energy_pj={name: _array_energy(each, run.actions) for name, each in energies.items()},
        use_2d=(run.actions["add_2d"] + run.actions["max_2d"]) / (unit.rows * unit.columns * run.cycles),
        use_slots=None,
        max_error=float(np.abs(found - exact_attention(unit, *given, causal=job.causal)).max()),
        error_bound=unit.error_bound(job.keys),
        input_error_bound=input_error_bound(unit, *given, causal=job.causal),
        simulated_cycles=run.simulated_cycles,
        build_seconds=array.build_seconds,
        simulated_cycles_per_second=run.simulated_cycles_per_second,
        verilog_sha256=array.verilog_sha256,
        first_difference=next(_differences(different, (predicted, run.cycles), (actions, run.actions)), None),
    )


def _array_energies(
    unit: AttentionArray, machine: Architecture, job: Job, technology: str
) -> tuple[dict[str, float], float]:
    """Return the energy of one of each counted action, and of all DRAM traffic, by a table."""
    priced = price_array(unit, machine, job, load_cost_table(technology))
    return model_energies(priced), priced.energy_pj_by_unit.get("dram", 0.0)


def _array_energy(energies: tuple[dict[str, float], float], actions: Mapping[str, int]) -> dict[str, float]:
    each, dram = energies
    parts = {"2d": 0.0, "1d": 0.0, "buffer": 0.0}
    for action, energy_pj in each.items():
        unit = action[-2:] if action[-2:] in parts else "buffer"
        parts[unit] += energy_pj * actions[action]
    parts["dram"] = dram
    return parts | {"total": sum(parts.values())}


# The reordered unit --------------------------------------------------------------------------------------------------


def _run_reordered(file: AttentionFile, toolchain: Toolchain, cache: Path) -> AttentionOutcome:
    unit = file.reordered
    assert unit is not None
    real = _real_inputs(file, 1.0)
    heads = [quantized_head(unit, *head, causal=file.causal) for head in zip(*real, strict=True)]
    tables = {name: load_cost_table(name) for name in file.technologies}
    for costs in tables.values():  # an entry that is missing is found before the simulation
        energy_by_component(unit, unit.actions(file.head_job, rescales=0), costs)
    folder = cache / hashlib.sha256(repr(unit).encode()).hexdigest()[:16]
    emitted = emit(ReorderedPorts(ReorderedAttention(unit, counters=True)), "attention_reordered", folder)
    compiled = CompiledStreams.build(emitted.verilog, emitted.description, toolchain=toolchain, cache=cache)
    run = run_reordered(unit, compiled, heads)
    different = None
    if not run.bit_exact:
        codes = _first_code(np.stack(run.golden), np.stack(run.outputs))
        different = codes or "tlast is not at the end of each head, or the hardware reported a wrong job"
    cycles, actions = (run.cycles_model, run.cycles_rtl), (run.actions_model, run.actions_rtl)
    return AttentionOutcome(
        name=file.name,
        core="reordered",
        bit_exact=run.bit_exact,
        cycles_model=run.cycles_model,
        cycles_rtl=run.cycles_rtl,
        cycles={"jobs": run.cycles_model},
        actions_model=run.actions_model,
        actions_rtl=run.actions_rtl,
        energy_pj={name: energy_by_component(unit, run.actions_rtl, costs) for name, costs in tables.items()},
        use_2d=None,
        use_slots=run.utilisation,
        max_error=run.max_error,
        error_bound=run.error_bound,
        input_error_bound=None,
        simulated_cycles=run.simulated_cycles,
        build_seconds=compiled.build_seconds,
        simulated_cycles_per_second=run.simulated_cycles_per_second,
        verilog_sha256=emitted.description["verilog_sha256"],
        first_difference=next(_differences(different, cycles, actions), None),
    )
