"""Golden model of the activation units, by the contract of ``accel.activation_unit``, and published stand-ins."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from accel.activation_unit import ACTIVATIONS, ActivationUnit
from accel.checks import check_codes

__all__ = ["ALTERNATIVES", "activation", "exact_activation"]

Codes = NDArray[np.int64]
Reals = NDArray[np.float64]


def activation(unit: ActivationUnit, codes: Codes) -> Codes:
    """Return the output codes of the unit for input ``codes`` (ndarray[...], int64).

    Raises
    ------
    InputError
        A code is outside the input format.
    """
    check_codes(codes, unit.input_format)
    function, table = unit.activation, unit.table
    scale = 1 << table.value_fraction_bits
    x = codes.astype(np.int64)
    below = x < 0
    distance = np.where(below, -x, x)

    segment, place = np.divmod(distance, 1 << table.low_bits)
    part = np.where(below & (not function.symmetric), 1, 0)
    inside = segment < np.array(table.parts)[part]
    row = np.where(inside, segment + np.where(part == 1, table.parts[0], 0), 0)
    c = np.array(table.coefficients, np.int64)[row]
    slope = c[..., 1]
    if table.degree == 2:
        slope = slope + np.floor_divide(c[..., 2] * place, 1 << table.low_bits)
    value = np.where(inside, c[..., 0] * (1 << table.low_bits) + slope * place, 0)

    total = np.empty_like(x)
    for half, side in ((function.positive, ~below), (function.negative, below)):
        line = half.slope * x[side] * (scale >> unit.input_format.fraction_bits) + half.offset * scale
        total[side] = line + half.sign * value[side]
    return unit.output_format.convert(total, table.value_fraction_bits)


def exact_activation(unit: ActivationUnit, codes: Codes) -> Reals:
    """Return the float64 function of the coded inputs, in the range of the output: the truth that is approximated."""
    exact = ACTIVATIONS[unit.function].exact(unit.input_format.to_real(codes))
    return np.clip(exact, unit.output_format.min_value, unit.output_format.max_value)


def _integer_gelu(x: Reals) -> Reals:
    """I-BERT's GELU (arXiv 2101.01321, section 3.4): erf as a clipped parabola."""
    a, b = -0.2888, -1.769
    y = x / math.sqrt(2)
    erf = np.sign(y) * (a * (np.minimum(np.abs(y), -b) + b) ** 2 + 1)
    result: Reals = x * (1 + erf) / 2
    return result


def _hard_sigmoid(x: Reals) -> Reals:
    result: Reals = np.clip(x / 6 + 0.5, 0, 1)
    return result


ALTERNATIVES: Mapping[str, tuple[str, Callable[[Reals], Reals]]] = {
    "i-bert": ("gelu", _integer_gelu),
    "tanh form": ("gelu", ACTIVATIONS["gelu-tanh"].exact),
    "sigmoid form": ("gelu", ACTIVATIONS["quick-gelu"].exact),
    "hard gelu": ("gelu", lambda x: x * _hard_sigmoid(1.702 * x)),
    "relu": ("gelu", lambda x: np.maximum(x, 0)),
    "hard swish": ("silu", lambda x: x * _hard_sigmoid(x)),
    "hard sigmoid": ("sigmoid", _hard_sigmoid),
    "hard tanh": ("tanh", lambda x: np.clip(x, -1, 1)),
}
"""Published stand-ins in real arithmetic: the function each stands for, and its formula."""
