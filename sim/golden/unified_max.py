"""Golden model of the softmax with a unified maximum: bits and cycles by ``accel.softmax_family.unified_max``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accel.softmax_family import UnifiedMaxUnit
from sim.golden.softmax_steps import Codes, accumulate, exponentials, reciprocal, round_weights

__all__ = ["UnifiedMaxTimes", "redone", "unified_max", "unified_max_times"]


@dataclass(frozen=True, kw_only=True)
class UnifiedMaxTimes:
    """When the beats enter and leave if no port ever waits for its neighbour, counted from the first beat accepted.

    Parameters
    ----------
    beats_in, beats_out : tuple of int
        Cycle in which each beat of scores is accepted, and in which its weights leave.
    """

    beats_in: tuple[int, ...]
    beats_out: tuple[int, ...]


def _window(unit: UnifiedMaxUnit) -> tuple[int, int]:
    """Return the halvings of the scores ``phi + window`` and ``phi - window``, both brought into range."""
    edges = unit.input_format.max_code, unit.input_format.min_code
    step = unit.input_format.resolution
    codes = np.floor(np.array([unit.phi + unit.window, unit.phi - unit.window]) / step + 0.5)
    _, halvings = exponentials(unit, np.clip(codes, edges[1], edges[0]).astype(np.int64))
    return int(halvings[0]), int(halvings[1])


def redone(unit: UnifiedMaxUnit, row: Codes) -> bool:
    """Return whether a row of score codes, all valid, leaves the window."""
    top, bottom = _window(unit)
    _, halvings = exponentials(unit, row)
    return not top <= int(halvings.min()) <= bottom


def unified_max(unit: UnifiedMaxUnit, row: Codes) -> Codes:
    """Return the weights of a row of score codes: ndarray[row length], int64, codes of the output format."""
    mantissa, halvings = exponentials(unit, row)
    if redone(unit, row):
        level, total, _ = accumulate(unit, mantissa, halvings)
    else:
        level, _ = _window(unit)
        grow = unit.sum_fraction_bits - unit.mantissa_fraction_bits
        total = int(((mantissa << grow) >> np.minimum(halvings - level, 62)).sum())
    y, e = reciprocal(unit, total)
    shifts = (
        unit.mantissa_fraction_bits
        + unit.reciprocal_fraction_bits
        - unit.output_format.fraction_bits
        + (halvings - level)
        + (e + unit.sum_drop_bits - unit.sum_fraction_bits)
    )
    return round_weights(unit, mantissa * y, shifts, mantissa, halvings)


def unified_max_times(unit: UnifiedMaxUnit, rows: Sequence[Codes]) -> UnifiedMaxTimes:
    """Return the cycles of all beats of ``rows``, offered without a gap and taken at once."""
    beats_in: list[int] = []
    beats_out: list[int] = []
    accepted, free = -1, 0
    for row in rows:
        beats = -(-len(row) // unit.lanes)
        for _ in range(beats):
            accepted += 1
            before = len(beats_in) - unit.buffer_beats
            if before >= 0:
                accepted = max(accepted, beats_out[before] - unit.output_cycles + 1)
            beats_in.append(accepted)
        start = max(accepted + unit.latency_cycles, free)
        if redone(unit, row):
            start += beats + unit.redo_cycles
        free = start + beats
        beats_out += range(start, free)
    return UnifiedMaxTimes(beats_in=tuple(beats_in), beats_out=tuple(beats_out))
