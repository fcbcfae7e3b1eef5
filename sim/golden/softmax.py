"""Golden model of the single-pass softmax: bits, actions and cycles by the contract of ``accel.softmax_unit``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from accel.errors import InputError
from accel.numerics import LinearTable, Rounding, round_shift
from accel.softmax_unit import LOG2E, LOG2E_FRACTION_BITS, SOFTMAX_ACTIONS, SoftmaxUnit

__all__ = ["GoldenSoftmax", "RowTimes", "exact_softmax", "row_times", "softmax"]

Codes = NDArray[np.int64]


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


def row_times(unit: SoftmaxUnit, lengths: Sequence[int], latency_cycles: int) -> RowTimes:
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


def _look_up(table: LinearTable, argument: Codes) -> Codes:
    segment = argument >> table.low_bits
    low = argument & ((1 << table.low_bits) - 1)
    base, drop = np.array(table.base, np.int64)[segment], np.array(table.drop, np.int64)[segment]
    return round_shift((base << table.low_bits) - drop * low, table.low_bits + table.guard_bits, Rounding.NEAREST_UP)


def _mantissa_exponent(unit: SoftmaxUnit, scores: Codes) -> tuple[Codes, Codes]:
    """Steps 1 to 3: e**score as ``mantissa * 2**exponent``."""
    m = unit.mantissa_fraction_bits
    shift = unit.input_format.fraction_bits + LOG2E_FRACTION_BITS - m
    scaled = round_shift(scores * LOG2E, shift, Rounding.NEAREST_UP)
    exponent = -(-scaled >> m)
    return _look_up(unit.exp2, (exponent << m) - scaled), exponent


def _accumulate(unit: SoftmaxUnit, mantissa: Codes, exponent: Codes) -> tuple[int, int, int]:
    """Step 4 for one row: the final maximum exponent, the sum, and how many beats raised the maximum."""
    grow = unit.sum_fraction_bits - unit.mantissa_fraction_bits
    maximum, total, rescales = 0, 0, 0
    for start in range(0, len(mantissa), unit.lanes):
        beat = slice(start, start + unit.lanes)
        highest = int(exponent[beat].max())
        if start == 0:
            maximum = highest
        elif highest > maximum:
            total = 0 if highest - maximum > unit.sum_bits else total >> (highest - maximum)
            maximum = highest
            rescales += 1
        behind = np.minimum(maximum - exponent[beat], unit.sum_bits)
        total += int(((mantissa[beat] << grow) >> behind).sum())
    return maximum, total, rescales


def _reciprocal(unit: SoftmaxUnit, total: int) -> tuple[int, int]:
    """Step 5: 1/total as ``y * 2**-r * 2**-e``, with total a plain integer."""
    r, k = unit.reciprocal_fraction_bits, unit.reciprocal.result_fraction_bits
    e = total.bit_length() - 1
    f = min(int(round_shift(total, e - r, Rounding.NEAREST_UP)), (2 << r) - 1)
    guess = int(_look_up(unit.reciprocal, np.array([f - (1 << r)], np.int64))[0])
    doubled = ((1 << (r + k + 1)) - f * guess) >> k
    return int(round_shift(guess * doubled, k, Rounding.NEAREST_UP)), e


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
        _check_row(unit, index, scores)
        mantissa, exponent = _mantissa_exponent(unit, scores.astype(np.int64))
        maximum, total, rescales = _accumulate(unit, mantissa, exponent)
        y, e = _reciprocal(unit, total)
        shift = (
            unit.mantissa_fraction_bits
            + unit.reciprocal_fraction_bits
            - unit.output_format.fraction_bits
            + (maximum - exponent)
            + (e - unit.sum_fraction_bits)
        )
        weights.append(unit.output_format.fit(round_shift(mantissa * y, shift, unit.output_format.rounding)))
        beats = -(-len(scores) // unit.lanes)
        for action in ("exp", "max", "add", "multiply"):
            actions[action] += len(scores)
        for action in ("buffer_write", "buffer_read"):
            actions[action] += beats
        actions["reciprocal"] += 1
        actions["rescale"] += rescales
    return GoldenSoftmax(weights=tuple(weights), actions=actions)


def _check_row(unit: SoftmaxUnit, index: int, scores: Codes) -> None:
    if not 1 <= len(scores) <= unit.capacity:
        raise InputError(
            f"row {index} must have 1 to {unit.capacity} scores, not {len(scores)}", hint="raise max_length"
        )
    low, high = unit.input_format.min_code, unit.input_format.max_code
    if scores.min() < low or scores.max() > high:
        raise InputError(
            f"row {index} must have codes from {low} to {high}, not {int(scores.min())} to {int(scores.max())}",
            hint="quantize the scores by the input format",
        )


def exact_softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the float64 softmax over the last axis: the truth that the unit approximates."""
    shifted = np.exp(scores - scores.max(axis=-1, keepdims=True))
    result: NDArray[np.float64] = shifted / shifted.sum(axis=-1, keepdims=True)
    return result
