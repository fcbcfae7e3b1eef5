"""Golden model of the single-pass softmax: bits, actions and cycles by the contract of ``accel.softmax_unit``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from accel.softmax_rows import ScoreRows
from accel.softmax_unit import SOFTMAX_ACTIONS, SoftmaxUnit
from sim.golden.softmax_steps import Codes, accumulate, check_row, exponentials, reciprocal, round_weights

__all__ = ["GoldenSoftmax", "RowTimes", "exact_softmax", "row_times", "softmax"]


@dataclass(frozen=True, kw_only=True)
class GoldenSoftmax:
    """What the hardware must answer.

    Parameters
    ----------
    weights : tuple of ndarray[row length], int64
        Codes of the output format, row by row.
    actions : dict of str to int
        How often each action of ``SOFTMAX_ACTIONS`` happens over all rows.
    """

    weights: tuple[Codes, ...]
    actions: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RowTimes:
    """When each row enters and leaves if no port ever waits for its neighbour, counted from the first beat accepted.

    Parameters
    ----------
    last_in, first_out, last_out : tuple of int
        Cycle in which the row's last beat is accepted, and in which its first and last beat leave.
    """

    last_in: tuple[int, ...]
    first_out: tuple[int, ...]
    last_out: tuple[int, ...]

    @property
    def total_cycles(self) -> int:
        """Cycles from the first beat in to the last beat out, both counted."""
        return self.last_out[-1] + 1


def row_times(unit: ScoreRows, lengths: Sequence[int], latency_cycles: int) -> RowTimes:
    """Return the times of rows of the given ``lengths`` (scores), sent one beat a cycle and taken at once.

    A row starts to leave ``latency_cycles`` after its last beat came in, or right behind the row before it.
    """
    last_in, first_out, last_out = [], [], []
    accepted, free = 0, 0
    for length in lengths:
        beats = -(-length // unit.lanes)
        accepted += beats
        start = max(accepted - 1 + latency_cycles, free)
        free = start + beats
        last_in.append(accepted - 1)
        first_out.append(start)
        last_out.append(free - 1)
    return RowTimes(last_in=tuple(last_in), first_out=tuple(first_out), last_out=tuple(last_out))


def softmax(unit: SoftmaxUnit, rows: Sequence[Codes]) -> GoldenSoftmax:
    """Return the bits and actions of the unit for ``rows`` of score codes.

    Parameters
    ----------
    unit : SoftmaxUnit
        The contract.
    rows : sequence of ndarray[row length], int64
        Codes of ``unit.input_format``; each row has 1 to ``unit.capacity`` scores.

    Raises
    ------
    InputError
        A row is empty or too long, or a code is outside the input format.
    """
    actions = dict.fromkeys(SOFTMAX_ACTIONS, 0)
    weights = []
    for index, scores in enumerate(rows):
        check_row(unit, index, scores)
        mantissa, halvings = exponentials(unit, scores)
        fewest, total, rescales = accumulate(unit, mantissa, halvings)
        y, e = reciprocal(unit, total)
        shifts = (
            unit.mantissa_fraction_bits
            + unit.reciprocal_fraction_bits
            - unit.output_format.fraction_bits
            + (halvings - fewest)
            + (e + unit.sum_drop_bits - unit.sum_fraction_bits)
        )
        weights.append(round_weights(unit, mantissa * y, shifts, mantissa, halvings))
        beats = -(-len(scores) // unit.lanes)
        for action in ("exp", "max", "add", "multiply"):
            actions[action] += len(scores)
        for action in ("buffer_write", "buffer_read"):
            actions[action] += beats
        actions["reciprocal"] += 1
        actions["rescale"] += rescales
    return GoldenSoftmax(weights=tuple(weights), actions=actions)


def exact_softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the float64 softmax over the last axis: the truth that the unit approximates."""
    shifted = np.exp(scores - scores.max(axis=-1, keepdims=True))
    result: NDArray[np.float64] = shifted / shifted.sum(axis=-1, keepdims=True)
    return result
