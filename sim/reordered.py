"""Runs the reordered attention unit in compiled simulation, and compares it with its golden model and its cycles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.cost import CostTable
from accel.reordered_cycles import job_times
from accel.reordered_schedule import AttentionJob
from accel.reordered_unit import REORDERED_ACTIONS, ReorderedUnit
from rtl.attention.reordered import ReorderedAttention, ReorderedPorts
from rtl.attention.reordered.ports import JOB_FIELDS
from rtl.emit import emit
from sim.energy import ARITHMETIC, MEMORY, PRIMITIVES, ActionEnergy
from sim.golden.reordered import Head, exact_attention, reordered_attention
from sim.streams import CompiledStreams, Streams, pack, unpack
from sim.toolchain import find_toolchain

__all__ = [
    "ReorderedRun",
    "compile_reordered",
    "energy_by_component",
    "price_reordered",
    "quantized_head",
    "run_reordered",
]

Codes = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class ReorderedRun:
    """What a run showed beside what was predicted.

    Parameters
    ----------
    outputs, golden : tuple of ndarray[queries, F], int64
        Codes that the hardware gave, and those of the golden model, head by head.
    bit_exact : bool
        They are the golden model's, and so is the end of each head.
    cycles_model, cycles_rtl : int
        From the acceptance of the first job to the last output, both counted.
    output_cycles_equal : bool
        Every job's first and last output came in the predicted cycle.
    actions_model, actions_rtl : dict of str to int
        Counts of ``REORDERED_ACTIONS``.
    max_error, error_bound : float
        Largest distance of an output from float64 attention of the quantized inputs, and the unit's bound on it.
    utilisation : float
        Share of the slots' cycles, from the first key read to the last, that work on a pair that counts.
    simulated_cycles : int
        All cycles that were run.
    simulated_cycles_per_second : float
        Speed of the simulation.
    """

    outputs: tuple[Codes, ...]
    golden: tuple[Codes, ...]
    bit_exact: bool
    cycles_model: int
    cycles_rtl: int
    output_cycles_equal: bool
    actions_model: dict[str, int]
    actions_rtl: dict[str, int]
    max_error: float
    error_bound: float
    utilisation: float
    simulated_cycles: int
    simulated_cycles_per_second: float


def compile_reordered(unit: ReorderedUnit, folder: Path, cache: Path) -> CompiledStreams:
    """Emit the unit with counters into ``folder`` and compile it; raises as ``emit`` and ``CompiledStreams.build``."""
    emitted = emit(ReorderedPorts(ReorderedAttention(unit, counters=True)), "attention_reordered", folder)
    return CompiledStreams.build(emitted.verilog, emitted.description, toolchain=find_toolchain(), cache=cache)


def quantized_head(
    unit: ReorderedUnit,
    queries: NDArray[np.float64],
    keys: NDArray[np.float64],
    values: NDArray[np.float64],
    *,
    causal: bool = False,
    offset: int = 0,
) -> Head:
    """Return a head of real numbers in the unit's formats.

    Raises
    ------
    InputError
        A number does not fit its format, or the mask is wrong.
    """
    return Head(
        job=AttentionJob(queries=len(queries), keys=len(keys), causal=causal, offset=offset),
        queries=unit.query_format.quantize(queries),
        keys=unit.key_format.quantize(keys),
        values=unit.value_format.quantize(values),
    )


def _beats(rows: Sequence[Codes], block: int) -> tuple[Codes, NDArray[np.bool_]]:
    """Return tensors as beats, and which of these end one."""
    parts = [tensor.reshape(-1, block) for tensor in rows]
    last = np.zeros(sum(map(len, parts)), bool)
    last[np.cumsum([len(part) for part in parts]) - 1] = True
    return np.concatenate(parts), last


def streams_of(unit: ReorderedUnit, heads: Sequence[Head]) -> Streams:
    """Return the beats of all ports for ``heads``."""
    words = np.zeros((len(heads), 1), np.uint64)
    for index, head in enumerate(heads):
        for name, (at, _) in JOB_FIELDS.items():
            words[index] |= np.uint64(int(getattr(head.job, name)) << at)
    data, last = {"s_axis_job": words.view(np.uint8)}, {}
    for port, name, element in (
        ("s_axis_q", "queries", unit.query_format),
        ("s_axis_k", "keys", unit.key_format),
        ("s_axis_v", "values", unit.value_format),
    ):
        codes, last[port] = _beats([getattr(head, name) for head in heads], unit.block)
        data[port] = pack(codes, element)
    outputs = sum(head.job.queries for head in heads) * unit.value_blocks
    return Streams(data=data, last=last, outputs=outputs)


def run_reordered(
    unit: ReorderedUnit,
    compiled: CompiledStreams,
    heads: Sequence[Head],
    *,
    shares: Mapping[str, float] | None = None,
    seed: int = 1,
) -> ReorderedRun:
    """Run ``heads`` after a reset, the ports moving in ``shares`` of the cycles (see ``CompiledStreams.run``).

    Raises
    ------
    InputError
        A head does not fit the unit.
    SimulationError
        A port stalled or broke a rule, or the unit reported an error.
    """
    golden = reordered_attention(unit, heads)
    compiled.reset()
    seen = compiled.run(streams_of(unit, heads), shares=shares, seed=seed)
    codes = unpack(seen.data, unit.output_format)
    ends = np.cumsum([head.job.queries * unit.value_blocks for head in heads])
    parts = np.split(codes, ends[:-1])
    outputs = tuple(part.reshape(-1, unit.value_features) for part in parts)
    exact = all(np.array_equal(want, got) for want, got in zip(golden.outputs, outputs, strict=True))
    exact &= np.flatnonzero(seen.last).tolist() == (ends - 1).tolist()
    exact &= not (seen.status["refused"] or seen.status["misaligned"])

    times = job_times(unit, [head.job for head in heads])
    start = int(seen.cycles_of["s_axis_job"][0])
    out = seen.cycles_of["m_axis"] - start
    firsts, lasts = out[np.concatenate([[0], ends[:-1]])].tolist(), out[ends - 1].tolist()
    predicted = [each.first_output_cycle for each in times], [each.last_output_cycle for each in times]
    compute = sum(each.compute_cycles for each in times)
    return ReorderedRun(
        outputs=outputs,
        golden=tuple(golden.outputs),
        bit_exact=bool(exact),
        cycles_model=times[-1].last_output_cycle + 1,
        cycles_rtl=int(out[-1]) + 1,
        output_cycles_equal=(firsts, lasts) == predicted,
        actions_model=golden.actions,
        actions_rtl={name: int(seen.status[f"count_{name}"]) for name in REORDERED_ACTIONS},
        max_error=max(_error(unit, head, got) for head, got in zip(heads, outputs, strict=True)),
        error_bound=unit.max_error,
        utilisation=golden.actions["exp"] * unit.iteration_cycles / (compute * unit.slots),
        simulated_cycles=seen.cycles,
        simulated_cycles_per_second=seen.cycles / seen.seconds,
    )


def _error(unit: ReorderedUnit, head: Head, outputs: Codes) -> float:
    exact = exact_attention(
        unit.query_format.to_real(head.queries),
        unit.key_format.to_real(head.keys),
        unit.value_format.to_real(head.values),
        head.job,
        unit.scale,
    )
    return float(np.abs(unit.output_format.to_real(outputs) - exact).max())


_ATTENTION_PRIMITIVES: Mapping[str, Mapping[str, int]] = {
    **{name: PRIMITIVES[name] for name in ("exp", "max", "add", "rescale", "reciprocal", "multiply")},
    "mac_qk": {"multiply": 1, "add": 1},
    "mac_av": {"multiply": 1, "add": 1},
    # The shift has no cited figure: it is charged as an addition, as in the softmax.
    "rescale_av": {"add": 1},
}


def _word_bits(unit: ReorderedUnit) -> dict[str, int]:
    """Return the width of a word of each memory."""
    return {
        "query": unit.block * unit.query_format.width_bits,
        "key": unit.block * unit.key_format.width_bits,
        "value": unit.block * unit.value_format.width_bits,
        "accumulator": unit.block * unit.accumulator_bits,
        "row": unit.block * unit.accumulator_bits,
    }


def price_reordered(unit: ReorderedUnit, actions: Mapping[str, int], costs: CostTable) -> tuple[ActionEnergy, ...]:
    """Return the energy of actions.

    Operators are charged as the softmax's are, memories by the width of their words. The small memories of the slots
    are charged as on-chip memory too, which is too much.

    Parameters
    ----------
    unit : ReorderedUnit
        Widths of the memories.
    actions : mapping of str to int
        Action, as in ``REORDERED_ACTIONS``, to how often it happened.
    costs : CostTable
        Energies of the primitive operations.

    Raises
    ------
    InputError
        The table lacks an entry that an action needs.
    """
    words = _word_bits(unit)
    result = []
    for action, count in actions.items():
        if action in _ATTENTION_PRIMITIVES:
            parts = _ATTENTION_PRIMITIVES[action]
            each = sum(number * costs.energy_pj(ARITHMETIC, primitive) for primitive, number in parts.items())
            basis = " + ".join(f"{number} {primitive}" for primitive, number in parts.items())
        else:
            tensor, _, access = action.rpartition("_")
            each = costs.energy_pj(MEMORY, access, bits=words[tensor])
            basis = f"{MEMORY} {access} of {words[tensor]} bits"
        result.append(
            ActionEnergy(action=action, count=count, energy_each_pj=each, energy_pj=each * count, basis=basis)
        )
    return tuple(result)


def energy_by_component(unit: ReorderedUnit, actions: Mapping[str, int], costs: CostTable) -> dict[str, float]:
    """Return the energy of actions in the operators, in the memories, and in all, pJ; raises as ``price_reordered``."""
    parts = {"arithmetic": 0.0, "buffer": 0.0}
    for each in price_reordered(unit, actions, costs):
        parts["arithmetic" if each.action in _ATTENTION_PRIMITIVES else "buffer"] += each.energy_pj
    return parts | {"total": sum(parts.values())}


def report(unit: ReorderedUnit, run: ReorderedRun, costs: CostTable) -> dict[str, Any]:
    """Return a run as plain data, with the energy of the actions that the hardware counted."""
    energy = price_reordered(unit, run.actions_rtl, costs)
    return {
        "bit_exact": run.bit_exact,
        "cycles_model": run.cycles_model,
        "cycles_rtl": run.cycles_rtl,
        "actions_model": run.actions_model,
        "actions_rtl": run.actions_rtl,
        "energy_pj": sum(each.energy_pj for each in energy),
        "energy_by_action_pj": {each.action: each.energy_pj for each in energy},
        "max_error": run.max_error,
        "error_bound": run.error_bound,
        "utilisation": run.utilisation,
        "simulated_cycles_per_second": run.simulated_cycles_per_second,
    }
