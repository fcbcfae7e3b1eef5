"""Compares what the hardware did with what was predicted, and names the first difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accel.softmax_unit import SoftmaxUnit
from sim.cosim import Observation
from sim.golden.softmax import GoldenSoftmax, RowTimes

__all__ = ["Comparison", "compare", "compare_actions", "compare_bits", "compare_cycles"]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One claim, what was expected and measured, and whether they are equal.

    Parameters
    ----------
    name : str
        The claim, with the scenario it was checked in.
    expected, measured : str
        For people.
    holds : bool
        They are equal in every detail that was compared.
    first_difference : str or None
        Where and how they first differ.
    """

    name: str
    expected: str
    measured: str
    holds: bool
    first_difference: str | None = None


def compare_bits(unit: SoftmaxUnit, golden: GoldenSoftmax, seen: Observation) -> Comparison:
    """Compare every output code of ``seen`` with the golden model's."""
    total = sum(len(row) for row in golden.weights)
    equal = sum(
        int((want == got).sum()) for want, got in zip(golden.weights, seen.rows, strict=False) if len(want) == len(got)
    )
    difference = _first_bit_difference(unit, golden.weights, seen)
    return Comparison(
        name=f"bits, {seen.scenario.name}",
        expected=f"{total} codes",
        measured=f"{equal} equal",
        holds=difference is None,
        first_difference=difference,
    )


def _first_bit_difference(unit: SoftmaxUnit, weights: Sequence[NDArray[np.int64]], seen: Observation) -> str | None:
    beat = 0
    for row, want in enumerate(weights):
        if row >= len(seen.rows):
            return f"row {row}: expected {len(want)} weights, got none"
        got = seen.rows[row]
        wrong = np.flatnonzero(want[: len(got)] != got[: len(want)])
        if wrong.size:
            index = int(wrong[0])
            return (
                f"row {row}, index {index}: expected {int(want[index])}, got {int(got[index])}, "
                f"{_when(seen, beat + index // unit.lanes)}"
            )
        if len(want) != len(got):
            return f"row {row}: expected {len(want)} weights, got {len(got)}, {_when(seen, beat)}"
        beat += -(-len(want) // unit.lanes)
    if len(seen.rows) > len(weights) or len(seen.out_cycles) != beat:
        return f"after the last row: expected {beat} beats in all, got {len(seen.out_cycles)}, {_when(seen, beat)}"
    if seen.overrun:
        return "overrun: expected 0, got 1, although no row is longer than max_length"
    return None


def _when(seen: Observation, beat: int) -> str:
    return f"cycle {int(seen.out_cycles[beat])}" if beat < len(seen.out_cycles) else "no such beat came"


def compare_cycles(unit: SoftmaxUnit, lengths: Sequence[int], times: RowTimes, seen: Observation) -> Comparison:
    """Compare the cycle of every beat of ``seen``, whose ports never waited, with the predicted one."""
    expected_in = np.arange(times.last_in[-1] + 1)
    expected_out = np.concatenate(
        [np.arange(first, last + 1) for first, last in zip(times.first_out, times.last_out, strict=True)]
    )
    difference = None
    for port, expected, measured in (("input", expected_in, seen.in_cycles), ("output", expected_out, seen.out_cycles)):
        common = min(len(expected), len(measured))
        wrong = np.flatnonzero(expected[:common] != measured[:common])
        if wrong.size:
            beat = int(wrong[0])
            difference = (
                f"{port} beat {beat} (row {_row_of(unit, lengths, beat)}): expected in cycle {int(expected[beat])}, "
                f"got in cycle {int(measured[beat])}"
            )
            break
        if len(expected) != len(measured):
            difference = f"{port}: expected {len(expected)} beats, got {len(measured)}"
            break
    return Comparison(
        name=f"cycles, {seen.scenario.name}",
        expected=str(times.total_cycles),
        measured=str(seen.total_cycles),
        holds=difference is None,
        first_difference=difference,
    )


def _row_of(unit: SoftmaxUnit, lengths: Sequence[int], beat: int) -> int:
    ends = np.cumsum([-(-length // unit.lanes) for length in lengths])
    return int(np.searchsorted(ends, beat, side="right"))


def compare_actions(predicted: Mapping[str, int], seen: Observation) -> Comparison:
    """Compare each counted action of ``seen`` with the predicted number."""
    difference = None
    for action in [*predicted, *(name for name in seen.actions if name not in predicted)]:
        want, got = predicted.get(action), seen.actions.get(action)
        if want != got:
            difference = f"action {action}: expected {want}, got {got}"
            break
    return Comparison(
        name=f"actions, {seen.scenario.name}",
        expected=str(sum(predicted.values())),
        measured=str(sum(seen.actions.values())),
        holds=difference is None,
        first_difference=difference,
    )


def compare(
    unit: SoftmaxUnit,
    lengths: Sequence[int],
    golden: GoldenSoftmax,
    times: RowTimes,
    observations: Sequence[Observation],
) -> tuple[Comparison, ...]:
    """Return all comparisons of all scenarios: bits and actions in each, cycles where no port waited."""
    result = []
    for seen in observations:
        result.append(compare_bits(unit, golden, seen))
        if not seen.scenario.waits:
            result.append(compare_cycles(unit, lengths, times, seen))
        result.append(compare_actions(golden.actions, seen))
    return tuple(result)
