"""Golden model of the spatial attention array, from its contract alone; key tile by key tile, all queries at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accel.attention_array import LOG2E, AttentionArray, Exponential
from accel.errors import InputError
from accel.numerics import FixedPoint, Rounding, round_shift

__all__ = ["attention", "exact_attention", "input_error_bound"]

Codes = NDArray[np.int64]


def _half_up(value: Codes, shift: ArrayLike) -> Codes:
    return round_shift(value, shift, Rounding.NEAREST_UP)


def exponential(unit: Exponential, difference: Codes, fraction_bits: int) -> tuple[Codes, Codes]:
    """Return (y, n) of e**-difference = y * 2**-n, y with w + 1 fraction bits.

    Parameters
    ----------
    unit : Exponential
        The exponential.
    difference : ndarray[...], int64
        At least 0, with ``fraction_bits``.
    fraction_bits : int
        Of the difference.
    """
    w = unit.weight_fraction_bits
    largest = (1 << unit.difference_bits) - 1
    # What is cut off anyway is cut off first, lest a left shift run over.
    coarse = np.minimum(difference, np.int64(1) << (fraction_bits + 5) if fraction_bits >= -5 else 1)
    u = np.minimum(_half_up(coarse, fraction_bits - unit.difference_fraction_bits), largest)
    t = _half_up(u * LOG2E, unit.scale_shift)
    n, f = t >> w, t & ((1 << w) - 1)
    y = np.full_like(f, unit.coefficients[-1])
    for coefficient in reversed(unit.coefficients[:-1]):
        y = _half_up(y * f + (coefficient << w), w)
    return y, n


def _reciprocal(unit: AttentionArray, value: Codes) -> tuple[Codes, Codes]:
    """Return (z, e): 1 / value = z * 2**-r * 2**-e."""
    r, table = unit.reciprocal_fraction_bits, unit.reciprocal
    exponent = np.array([int(each).bit_length() - 1 for each in value], np.int64)
    normal = np.minimum(_half_up(value, exponent - r), (1 << (r + 1)) - 1)
    argument = normal - (1 << r)
    index, low = argument >> table.low_bits, argument & ((1 << table.low_bits) - 1)
    base, drop = np.array(table.base, np.int64)[index], np.array(table.drop, np.int64)[index]
    shift = table.low_bits + table.guard_bits
    y0 = ((base << table.low_bits) + (1 << (shift - 1)) - drop * low) >> shift
    k = table.result_fraction_bits
    correction = ((1 << (r + k + 1)) - normal * y0) >> k
    return _half_up(y0 * correction, k), exponent


def _head(unit: AttentionArray, q: Codes, k: Codes, v: Codes, causal: bool) -> Codes:
    queries, fraction, w = len(q), unit.score_fraction_bits, unit.weight_fraction_bits
    rm = np.full(queries, unit.score_floor, np.int64)
    rd = np.zeros(queries, np.int64)
    rnv = np.zeros((queries, v.shape[1]), np.int64)
    for start in range(0, len(k), unit.keys_per_tile):
        keys = np.arange(start, min(start + unit.keys_per_tile, len(k)))
        alive = keys[None, :] <= np.arange(queries)[:, None] if causal else np.ones((queries, len(keys)), bool)
        scores = q @ k[keys].T
        lm = np.where(alive, scores, unit.score_floor).max(axis=1)
        new = np.maximum(rm, lm)
        y, n = exponential(unit.exponential, np.where(alive, new[:, None] - scores, 0), fraction)
        sln = np.where(alive, _half_up(y, n + 1), 0)
        y, n = exponential(unit.exponential, new - rm, fraction)
        rd = sln.sum(axis=1) + _half_up(rd * y, n + w + 1)
        rnv = sln @ v[keys] + _half_up(rnv * y[:, None], (n + w + 1)[:, None])
        rm = new
    z, e = _reciprocal(unit, rd)
    shift = unit.reciprocal_fraction_bits + e + unit.value_format.fraction_bits - unit.output_format.fraction_bits
    quotient = round_shift(rnv * z[:, None], shift[:, None], unit.output_format.rounding)
    return unit.output_format.fit(quotient)


def _checked(unit: AttentionArray, q: ArrayLike, k: ArrayLike, v: ArrayLike) -> tuple[Codes, Codes, Codes]:
    given = tuple(np.asarray(each) for each in (q, k, v))
    for name, codes, dim, element in (
        ("q", given[0], unit.query_key_dim, unit.query_format),
        ("k", given[1], unit.query_key_dim, unit.key_format),
        ("v", given[2], unit.value_dim, unit.value_format),
    ):
        _check(name, codes, dim, element)
    if not len(given[0]) == len(given[1]) == len(given[2]) or given[1].shape[1] != given[2].shape[1]:
        raise InputError(
            f"q, k and v must have as many heads, k and v as many keys, not shapes {given[0].shape}, {given[1].shape} "
            f"and {given[2].shape}",
            hint="give q[heads, queries, E], k[heads, keys, E] and v[heads, keys, F]",
        )
    return given[0].astype(np.int64), given[1].astype(np.int64), given[2].astype(np.int64)


def _check(name: str, codes: NDArray[np.generic], dim: int, element: FixedPoint) -> None:
    if codes.ndim != 3 or codes.shape[2] != dim or not codes.size:
        raise InputError(
            f"{name} must have the shape (heads, length, {dim}), not {codes.shape}", hint="give at least one of each"
        )
    if codes.dtype.kind not in "iu" or codes.min() < element.min_code or codes.max() > element.max_code:
        raise InputError(
            f"{name} must hold integers from {element.min_code} to {element.max_code}",
            hint=f"quantize the numbers by {element}",
        )


def attention(unit: AttentionArray, q: ArrayLike, k: ArrayLike, v: ArrayLike, *, causal: bool = False) -> Codes:
    """Return AV of every head, bit for bit what the array gives.

    Parameters
    ----------
    unit : AttentionArray
        The array.
    q, k, v : ndarray[heads, queries or keys, E or F], int
        Codes of its formats; Q scaled by 1 / sqrt(E).
    causal : bool
        Whether query p sees keys 0 to p only.

    Returns
    -------
    ndarray[heads, queries, F], int64
        Codes of the output format.

    Raises
    ------
    InputError
        A shape or a code is out of range.
    """
    return np.stack([_head(unit, *head, causal) for head in zip(*_checked(unit, q, k, v), strict=True)])


def exact_attention(
    unit: AttentionArray, q: ArrayLike, k: ArrayLike, v: ArrayLike, *, causal: bool = False
) -> NDArray[np.float64]:
    """Return what ``attention`` approximates, in float64: attention on the real values of the codes, in range."""
    codes = _checked(unit, q, k, v)
    real = [
        element.to_real(each)
        for element, each in zip((unit.query_format, unit.key_format, unit.value_format), codes, strict=True)
    ]
    scores = real[0] @ real[1].transpose(0, 2, 1)
    if causal:
        index = np.arange(max(scores.shape[1:]))
        scores = np.where(index[None, : scores.shape[2]] <= index[: scores.shape[1], None], scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    exact: NDArray[np.float64] = (weights / weights.sum(axis=2, keepdims=True)) @ real[2]
    return np.clip(exact, unit.output_format.min_value, unit.output_format.max_value)


def input_error_bound(unit: AttentionArray, q: ArrayLike, k: ArrayLike, v: ArrayLike, *, causal: bool = False) -> float:
    """Return a bound on the distance of ``attention`` from ``exact_attention`` for these inputs.

    It is ``AttentionArray.error_bound`` with what the inputs show of each row: its largest value, its sum of weights,
    and how often its maximum rises.

    Parameters
    ----------
    unit, q, k, v, causal
        As ``attention``.
    """
    bound = 0.0
    for queries, keys, values in zip(*_checked(unit, q, k, v), strict=True):
        scores = queries @ keys.T
        for query, row in enumerate(scores):
            seen = min(query + 1, len(row)) if causal else len(row)
            live = row[:seen]
            firsts = range(0, seen, unit.keys_per_tile)
            highest = np.maximum.accumulate([live[first : first + unit.keys_per_tile].max() for first in firsts])
            weights = np.exp(np.ldexp((live - live.max()).astype(np.float64), -unit.score_fraction_bits))
            row_bound = unit.error_bound(
                seen,
                largest=float(np.abs(unit.value_format.to_real(values[:seen])).max()),
                total=max(1.0, float(weights.sum()) * (1 - 1e-9)),  # float64 sums are far nearer than that
                rises=int((np.diff(highest) > 0).sum()),
            )
            bound = max(bound, row_bound)
    return bound
