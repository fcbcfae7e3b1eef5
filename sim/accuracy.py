"""How far the hardware's weights are from the exact softmax."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accel.numerics import FixedPoint
from sim.golden.softmax import exact_softmax

__all__ = ["Accuracy", "error_quantiles", "measure_accuracy"]

QUANTILES = 201


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """Distances over all rows.

    Parameters
    ----------
    max_error : float
        Largest distance of a weight from the float64 softmax of the quantized scores: the unit's own error.
    mean_error : float
        Mean of those distances.
    max_error_with_input : float
        Largest distance from the float64 softmax of the real scores: the quantization of the scores included.
    row_sum_error : float
        Largest distance of a row's sum from 1.
    argmax_agreement : float
        Share of rows whose largest weight stands where the exact softmax has its largest, ties counted as agreement.
    argmax_same_place : float
        Share of rows whose first largest weight stands where the exact softmax has its first largest: a weight that is
        one step of the output below may tie with it in any format.
    """

    max_error: float
    mean_error: float
    max_error_with_input: float
    row_sum_error: float
    argmax_agreement: float
    argmax_same_place: float


def measure_accuracy(
    scores: NDArray[np.float64],
    codes: NDArray[np.int64],
    weights: Sequence[NDArray[np.int64]],
    input_format: FixedPoint,
    output_format: FixedPoint,
) -> Accuracy:
    """Return the accuracy of ``weights``.

    Parameters
    ----------
    scores : ndarray[rows, length], float64
        Real scores.
    codes : ndarray[rows, length], int64
        The same scores as codes of ``input_format``.
    weights : sequence of ndarray[length], int64
        Codes of ``output_format`` that the hardware gave, row by row.
    input_format, output_format : FixedPoint
        Number formats of the unit.
    """
    got = output_format.to_real(np.stack(list(weights)))
    exact = exact_softmax(input_format.to_real(codes))
    error = np.abs(got - exact)
    best = np.take_along_axis(got, exact.argmax(axis=1)[:, None], axis=1)[:, 0]
    return Accuracy(
        max_error=float(error.max()),
        mean_error=float(error.mean()),
        max_error_with_input=float(np.abs(got - exact_softmax(scores)).max()),
        row_sum_error=float(np.abs(got.sum(axis=1) - 1.0).max()),
        argmax_agreement=float((best == got.max(axis=1)).mean()),
        argmax_same_place=float((got.argmax(axis=1) == exact.argmax(axis=1)).mean()),
    )


def error_quantiles(
    codes: NDArray[np.int64],
    weights: Sequence[NDArray[np.int64]],
    input_format: FixedPoint,
    output_format: FixedPoint,
) -> tuple[float, ...]:
    """Return the distances of the weights from the float64 softmax at equal shares of all weights, ascending.

    Parameters are those of ``measure_accuracy``; the last number is ``Accuracy.max_error``.
    """
    exact = exact_softmax(input_format.to_real(codes))
    error = np.abs(output_format.to_real(np.stack(list(weights))) - exact)
    return tuple(float(each) for each in np.quantile(error, np.linspace(0, 1, QUANTILES)))
