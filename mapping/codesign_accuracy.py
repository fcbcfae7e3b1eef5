"""What an exponential does to attention: zoo cascades evaluated with it in bfloat16 against float64."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accel.arithmetic import Arithmetic, Array
from accel.cascade import Cascade, cascade_names, load_cascade
from accel.codesign import AccuracyTest
from accel.evaluate import evaluate
from accel.polynomial_exp import Base, PolynomialExp

__all__ = ["Accuracy", "attention_cascades", "measure"]

_FOLDS = 1e-9
"""Largest relative difference in float64 that counts as rounding alone."""


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """The error of attention with one exponential, or with a correctly rounded one.

    Parameters
    ----------
    exponential : PolynomialExp, optional
        Which; None for e**x rounded to the nearest bfloat16.
    row_error : float
        Largest error of a row: distance of the output from that in float64, as a part of the length of the latter.
    max_error : float
        Largest error of an element, as a part of the largest output.
    worst : str
        Cascade with the largest error of a row.
    """

    exponential: PolynomialExp | None
    row_error: float
    max_error: float
    worst: str


@dataclass(frozen=True, kw_only=True)
class _Draw:
    """Inputs of one head."""

    q: NDArray[np.float64]
    k: NDArray[np.float64]
    v: NDArray[np.float64]

    def inputs(self, base: Base) -> dict[str, NDArray[np.float64]]:
        """Return Q, K and V, with the logarithm of the base in the scaling of Q."""
        scale = math.log2(math.e) if base is Base.TWO else 1.0
        return {"Q": self.q * scale, "K": self.k, "V": self.v}


def _draws(test: AccuracyTest) -> Iterator[_Draw]:
    random = np.random.default_rng(test.seed)
    for deviation in test.score_deviations:
        q = random.standard_normal((test.queries, test.dim)) * deviation / math.sqrt(test.dim)
        k = random.standard_normal((test.keys, test.dim))
        v = random.standard_normal((test.keys, test.dim))
        yield _Draw(q=q, k=k, v=v)


def _sizes(cascade: Cascade, test: AccuracyTest) -> dict[str, int]:
    sizes = {"P": test.queries, "M": test.keys, "E": test.dim, "F": test.dim, "M0": test.tile, "G": 1, "W": test.tile}
    return {name: size for name, size in sizes.items() if name in cascade.symbols}


def attention_cascades(test: AccuracyTest) -> tuple[Cascade, ...]:
    """Return the packaged cascades over Q, K and V in which base 2 does what base e does with Q scaled alone.

    That is so where exponentials are those of scores or of their differences; it is found out in float64.
    """
    draw = next(_draws(test))
    found = []
    for name in cascade_names():
        cascade = load_cascade(name)
        operations = {operation for einsum in cascade.einsums for operation in einsum.map_operations}
        inputs = {tensor.name: tuple(tensor.ranks) for tensor in cascade.inputs}
        parameters = {parameter.name for parameter in cascade.parameters}
        plain_attention = inputs == {"Q": ("p", "e"), "K": ("m", "e"), "V": ("m", "f")} and parameters <= {"G", "W"}
        if not plain_attention or "exp" not in operations:
            continue
        sizes = _sizes(cascade, test)
        plain = evaluate(cascade, draw.inputs(Base.E), sizes)
        folded = evaluate(cascade, draw.inputs(Base.TWO), sizes, operators={"exp": np.exp2})
        scale = max(float(np.abs(plain[output]).max()) for output in plain)
        if all(float(np.abs(plain[output] - folded[output]).max()) <= _FOLDS * scale for output in plain):
            found.append(cascade)
    return tuple(found)


def measure(
    exponentials: Sequence[PolynomialExp | None], cascades: Sequence[Cascade], test: AccuracyTest
) -> tuple[Accuracy, ...]:
    """Return the error of attention with each exponential, the largest over cascades and draws.

    Parameters
    ----------
    exponentials : sequence of PolynomialExp, optional
        Which; None for e**x rounded to the nearest bfloat16.
    cascades : sequence of Cascade
        As ``attention_cascades`` returns them.
    test : AccuracyTest
        The draws.
    """
    found = {each: Accuracy(exponential=each, row_error=0.0, max_error=0.0, worst="") for each in exponentials}
    for draw in _draws(test):
        for cascade in cascades:
            sizes = _sizes(cascade, test)
            exact = evaluate(cascade, draw.inputs(Base.E), sizes)
            for each, before in found.items():
                base = Base.E if each is None else each.base
                operators = {} if each is None else {"exp": each.function(Arithmetic.of("bfloat16"))}
                outputs = evaluate(cascade, draw.inputs(base), sizes, "bfloat16", operators=operators)
                found[each] = _worse(before, _error(each, cascade.name, outputs, exact))
    return tuple(found[each] for each in exponentials)


def _error(
    exponential: PolynomialExp | None, cascade: str, outputs: Mapping[str, Array], exact: Mapping[str, Array]
) -> Accuracy:
    rows, largest = [], []
    for output, truth in exact.items():
        error = outputs[output].astype(np.float64) - truth
        rows.append(float((np.linalg.norm(error, axis=-1) / np.linalg.norm(truth, axis=-1)).max()))
        largest.append(float(np.abs(error).max() / np.abs(truth).max()))
    return Accuracy(exponential=exponential, row_error=max(rows), max_error=max(largest), worst=cascade)


def _worse(one: Accuracy, other: Accuracy) -> Accuracy:
    """Return the larger errors of both; NaN counts as the worst."""
    worst = one.worst if other.row_error <= one.row_error else other.worst
    errors = (max(one.row_error, other.row_error), max(one.max_error, other.max_error))
    if math.isnan(other.row_error):
        errors = math.inf, math.inf
    return dataclasses.replace(one, row_error=errors[0], max_error=errors[1], worst=worst)
