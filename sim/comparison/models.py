"""Softmax and GELU schemes of others, modelled by us in float64 from their published descriptions.

Only what makes a scheme what it is is modelled; everything else is exact, so errors are at least as good as those of a
real unit. None of this is the code of its authors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

__all__ = ["DELTA_TABLE_ROM_BITS", "SOFTMAX_MODELS", "delta_table_gelu"]

Reals = NDArray[np.float64]

_FRACTION_BITS = 22
_DELTA_STEP, _DELTA_ENTRIES, _DELTA_BITS = 1 / 32, 150, 16
DELTA_TABLE_ROM_BITS = _DELTA_ENTRIES * _DELTA_BITS


def _cut(x: Reals, bits: int) -> Reals:
    result: Reals = np.floor(np.ldexp(x, bits)) * 2.0**-bits
    return result


def _edge_moe(x: Reals) -> Reals:
    """Edge-MoE (arXiv 2305.18691): online sum, all results cut to 22 fraction bits."""
    x = _cut(x, _FRACTION_BITS)
    total, largest = np.zeros(len(x)), np.full(len(x), -np.inf)
    for column in x.T:
        rises = column > largest
        factor = _cut(np.exp(np.where(rises, largest - column, column - largest)), _FRACTION_BITS)
        total = np.where(rises, _cut(total * factor, _FRACTION_BITS) + 1, total + factor)
        largest = np.maximum(largest, column)
    inverse = _cut(1 / total, _FRACTION_BITS)
    exponentials = _cut(np.exp(x - largest[:, None]), _FRACTION_BITS)
    return _cut(exponentials * inverse[:, None], _FRACTION_BITS)


def _i_bert(x: Reals) -> Reals:
    """I-BERT (arXiv 2101.01321): e**p by a parabola for p in (-ln 2, 0], halved a whole number of times."""
    distance = x - x.max(axis=1, keepdims=True)
    halvings = np.floor(-distance / math.log(2))
    p = distance + halvings * math.log(2)
    value = (0.35815147 * p * p + 0.96963238 * p + 1) * np.exp2(-halvings)
    result: Reals = value / value.sum(axis=1, keepdims=True)
    return result


def _ita(x: Reals) -> Reals:
    """ITA (arXiv 2307.03493): exponentials rounded down to powers of two, one exact inversion, weights of 8 bits."""
    distance = (x.max(axis=1, keepdims=True) - x) / math.log(2)
    value = np.exp2(-np.ceil(distance))
    return _cut(value / value.sum(axis=1, keepdims=True), 8)


def _sole(x: Reals) -> Reals:
    """SOLE (ICCAD 2023): exponentials as powers of two with codes of 4 bits; the division exact."""
    distance = x.max(axis=1, keepdims=True) - x
    code = np.minimum(np.floor(distance + distance / 2 - distance / 16 + 0.5), 15)
    value = np.exp2(-code)
    result: Reals = value / value.sum(axis=1, keepdims=True)
    return result


def _tables(x: Reals) -> Reals:
    """Tables of exp and 1/x of 1024 entries without interpolation, arguments and results in 18 bits with 8 whole ones.

    The arrangement of hls4ml's stable softmax with its default formats: an argument's top 10 bits choose the entry.
    """
    step, low, high = 0.25, -128.0, 128.0

    def entry(value: Reals) -> Reals:
        return np.clip(np.floor(value / step) * step, low, high - step)

    def rounded(value: Reals) -> Reals:
        return np.clip(np.floor(np.ldexp(value, 10) + 0.5) * 2.0**-10, low, high - 2.0**-10)

    exponentials = rounded(np.exp(entry(x - x.max(axis=1, keepdims=True))))
    total = np.minimum(exponentials.sum(axis=1, keepdims=True), high - 2.0**-10)
    return rounded(exponentials * rounded(1 / entry(total)))


SOFTMAX_MODELS: Mapping[str, Callable[[Reals], Reals]] = {
    "Edge-MoE, 22 bits (model)": _edge_moe,
    "I-BERT exponential (model)": _i_bert,
    "ITA-like (model)": _ita,
    "SOLE-like (model)": _sole,
    "hls4ml-like tables (model)": _tables,
}
"""Weights of rows of real scores (ndarray[rows, length], float64) by the schemes of others."""

_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def delta_table_gelu(x: Reals) -> Reals:
    """Return relu(x) - delta(\\|x\\|), delta(a) = a Phi(-a) between 150 entries of 16 bits in steps of 1/32.

    The scheme of Edge-MoE (arXiv 2305.18691), with the shortest table that has an error of about 1e-4.
    """
    places = np.arange(_DELTA_ENTRIES) * _DELTA_STEP
    entries = np.floor(np.ldexp(places * _erfc(places / math.sqrt(2)) / 2, _DELTA_BITS) + 0.5) * 2.0**-_DELTA_BITS
    result: Reals = np.maximum(x, 0) - np.interp(np.abs(x), places, entries, right=0.0)
    return result
