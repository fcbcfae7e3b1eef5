"""What an execution counted, and where that differs from what the model says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from accel.result import Result
from sim.events.points import Array

__all__ = ["Action", "Execution", "differences"]

Action = tuple[str, str, str, str, str | None]
"""Unit, component, action, tensor, and the Einsum that causes it (None between DRAM and buffer)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Execution:
    """What happened in one execution of a schedule.

    Parameters
    ----------
    outputs : mapping of str to ndarray[instances, ...]
        What the tiles computed.
    epochs, compute_cycles : int
        Epochs that count, and their cycles.
    memory_cycles, latency_cycles : float
        Cycles that DRAM needs for the words moved, and from begin to end.
    actions : mapping of Action to int
        How often each was done.
    runs, cycles, points : mapping of str to int
        Of each Einsum the tiles for which it ran, the cycles for them, the points computed.
    busy_cycles : mapping of str to int
        Array to the cycles in which it worked.
    buffer_peak_bits : mapping of str to int
        Tensor to the most that it held of the buffer, in whole rows.
    buffer_cycles : mapping of str to float
        Memory on chip that states its ports to the cycles that they are busy.
    level_peak_bits : mapping of str to mapping of str to int
        Inner level to tensor to the most that it held there, in whole rows.
    registers_peak : mapping of str to int
        Array to the most registers that tensors held in its fullest PE.
    unused : mapping of str to int
        Tensor in the buffer, inputs and outputs left out, to its values that were stored and never read.
    unread : mapping of str to int
        Input to its elements that some point needs and that were never moved from DRAM; none in a right execution.
    missed : mapping of str to int
        Einsum with a filter to points that it leaves and that were never computed; none in a right execution.
    """

    outputs: Mapping[str, Array]
    epochs: int
    compute_cycles: int
    memory_cycles: float
    latency_cycles: float
    actions: Mapping[Action, int]
    runs: Mapping[str, int]
    cycles: Mapping[str, int]
    points: Mapping[str, int]
    busy_cycles: Mapping[str, int]
    buffer_peak_bits: Mapping[str, int]
    buffer_cycles: Mapping[str, float]
    level_peak_bits: Mapping[str, Mapping[str, int]]
    registers_peak: Mapping[str, int]
    unused: Mapping[str, int]
    unread: Mapping[str, int]
    missed: Mapping[str, int]

    def count(self, unit: str, action: str, tensor: str | None = None) -> int:
        """Return how often a unit did an action, for one tensor or for all."""
        return sum(
            number
            for (where, _, what, which, _), number in self.actions.items()
            if (where, what) == (unit, action) and tensor in (None, which)
        )


def differences(execution: Execution, result: Result) -> list[str]:
    """Return each quantity in which an execution and the model's result differ; none if they agree.

    Cycles, epochs, runs, points, busy cycles and every single action count must be equal, memory and latency cycles to
    the last bit; what was held must not exceed what the model reserves.
    """
    counted: Counter[Action] = Counter()
    for each in result.actions:
        counted[each.unit, each.component, each.action, each.tensor, each.einsum] += each.count
    pairs: list[tuple[str, object, object]] = [
        ("epochs", execution.epochs, result.epochs),
        ("compute_cycles", execution.compute_cycles, result.compute_cycles),
        ("memory_cycles", execution.memory_cycles, result.memory_cycles),
        ("latency_cycles", execution.latency_cycles, result.latency_cycles),
        ("buffer_cycles", dict(execution.buffer_cycles), dict(result.buffer_cycles)),
    ]
    for einsum in result.einsums:
        name = einsum.einsum
        pairs += [
            (f"runs of {name}", execution.runs.get(name, 0), einsum.runs),
            (f"cycles of {name}", execution.cycles.get(name, 0), einsum.cycles),
            (f"points of {name}", execution.points.get(name, 0), einsum.points),
        ]
    for use in result.arrays:
        pairs.append((f"busy cycles of array {use.array}", execution.busy_cycles[use.array], use.busy_cycles))
    for key in sorted({*counted, *execution.actions}, key=str):
        what = " ".join(part for part in key if part is not None)
        pairs.append((what, execution.actions.get(key, 0), counted[key]))
    found = [f"{what}: executed {ours}, model {theirs}" for what, ours, theirs in pairs if ours != theirs]
    for tensor, bits in execution.buffer_peak_bits.items():
        if bits > result.occupancy_bits[tensor]:
            found.append(f"buffer for {tensor}: held {bits} bits, model reserves {result.occupancy_bits[tensor]}")
    for level, parts in execution.level_peak_bits.items():
        for tensor, bits in parts.items():
            reserved = result.level_occupancy_bits[level].get(tensor, 0)
            if bits > reserved:
                found.append(f"level {level} for {tensor}: held {bits} bits, model reserves {reserved}")
    for array, held in execution.registers_peak.items():
        if held > result.registers[array]:
            found.append(f"registers of {array}: held {held}, model reserves {result.registers[array]}")
    return found
