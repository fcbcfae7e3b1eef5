"""Golden model of the unified linear unit, by the contract of ``accel.linear_unit``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accel.activation_unit import ACTIVATIONS
from accel.errors import InputError
from accel.linear_unit import LinearUnit
from accel.numerics import FixedPoint, Rounding, round_shift
from sim.golden.activation import activation

__all__ = ["Layer", "accumulate", "exact_linear", "linear", "quantized_layer"]

Codes = NDArray[np.int64]
Reals = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Layer:
    """Weights and biases of a linear layer.

    Parameters
    ----------
    weights : ndarray[out_features, in_features], int64
        Codes of the weight format.
    biases : ndarray[out_features], int64
        Codes of the bias format.
    """

    weights: Codes
    biases: Codes


def quantized_layer(unit: LinearUnit, weights: Reals, biases: Reals | None = None) -> Layer:
    """Return a layer of real numbers in the unit's formats; without biases they are 0.

    Raises
    ------
    InputError
        A number does not fit its format.
    """
    zeros = np.zeros(len(weights))
    return Layer(
        weights=unit.weight_format.quantize(weights),
        biases=unit.bias_format.quantize(zeros if biases is None else biases),
    )


def linear(unit: LinearUnit, layer: Layer, rows: Codes, *, activate: bool = False) -> Codes:
    """Return the results (ndarray[rows, out_features], int64) of ``layer`` for ``rows`` of feature codes.

    Raises
    ------
    InputError
        A shape or a code is wrong.
    """
    outputs, inputs = layer.weights.shape
    if rows.ndim != 2 or rows.shape[1] != inputs or layer.biases.shape != (outputs,):
        raise InputError(
            f"rows and biases must have the shapes (rows, {inputs}) and ({outputs},), "
            f"not {rows.shape} and {layer.biases.shape}",
            hint="as the weights have",
        )
    for what, codes, element in (
        ("features", rows, unit.feature_format),
        ("weights", layer.weights, unit.weight_format),
        ("biases", layer.biases, unit.bias_format),
    ):
        _check_range(what, codes, element)
    sums = rows @ layer.weights.T + layer.biases
    result = unit.feature_format.convert(sums, unit.product_fraction_bits)
    if activate:
        if unit.activation is None:
            raise InputError("a layer with an activation needs a unit with one", hint="give activation")
        result = activation(unit.activation, result)
    return result


def _check_range(what: str, codes: Codes, element: FixedPoint) -> None:
    if codes.size and (codes.min() < element.min_code or codes.max() > element.max_code):
        raise InputError(
            f"{what} must have codes from {element.min_code} to {element.max_code}, "
            f"not {int(codes.min())} to {int(codes.max())}",
            hint=f"quantize them by {element}",
        )


def accumulate(unit: LinearUnit, old: Codes, results: Codes, score: int | None = None) -> Codes:
    """Return what a target holds after ``results`` are added to ``old``, both ndarray[features], int64.

    Parameters
    ----------
    unit : LinearUnit
        Formats.
    old, results : ndarray[features], int64
        Feature codes.
    score : int, optional
        Code of the score that the results are multiplied by before.
    """
    if score is not None:
        results = round_shift(results * score, unit.score_fraction_bits, Rounding.NEAREST_UP)
    return unit.feature_format.fit(old + results)


def exact_linear(unit: LinearUnit, layer: Layer, rows: Codes, *, activate: bool = False) -> Reals:
    """Return the float64 function of the coded features, weights and biases, without any rounding."""
    real = unit.feature_format.to_real(rows) @ unit.weight_format.to_real(layer.weights).T
    real = real + unit.bias_format.to_real(layer.biases)
    if activate and unit.activation is not None:
        real = ACTIVATIONS[unit.activation.function].exact(real)
    return real
