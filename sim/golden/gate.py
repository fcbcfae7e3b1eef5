"""Golden model of the gate of a mixture of experts, by the contract of ``accel.gate_unit``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accel.errors import InputError
from accel.gate_unit import GateUnit
from accel.numerics import Rounding, round_shift
from sim.golden.softmax import softmax
from sim.golden.softmax_steps import look_up

__all__ = ["Routing", "exact_gate", "gate"]

Codes = NDArray[np.int64]
Reals = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Routing:
    """What a gate chose.

    Parameters
    ----------
    experts : tuple of int
        Experts that have work, in the order of their first token.
    lists : dict of int to tuple of (int, int)
        Of each of these: tokens and the codes of their scores, in their order.
    """

    experts: tuple[int, ...]
    lists: dict[int, tuple[tuple[int, int], ...]]

    @property
    def chosen(self) -> tuple[tuple[int, int], ...]:
        """Each expert with its number of tokens."""
        return tuple((expert, len(self.lists[expert])) for expert in self.experts)


def gate(unit: GateUnit, logits: Codes) -> Routing:
    """Return the lists for ``logits``, ndarray[tokens, experts], codes of the logit format.

    Raises
    ------
    InputError
        The shape or a code is wrong.
    """
    if logits.ndim != 2 or logits.shape[1] != unit.experts:
        raise InputError(
            f"logits must have the shape (tokens, {unit.experts}), not {logits.shape}", hint="one for each expert"
        )
    lists: dict[int, list[tuple[int, int]]] = {}
    for token, scores in enumerate(softmax(unit.softmax, list(logits)).weights):
        order = sorted(range(unit.experts), key=lambda expert: (-int(scores[expert]), expert))[: unit.top_k]
        kept = [int(scores[expert]) for expert in order]
        if unit.renormalise:
            kept = _renormalised(unit, kept)
        for expert, score in zip(order, kept, strict=True):
            lists.setdefault(expert, []).append((token, score))
    return Routing(experts=tuple(lists), lists={expert: tuple(each) for expert, each in lists.items()})


def _renormalised(unit: GateUnit, scores: list[int]) -> list[int]:
    """Step 3."""
    r, k = unit.reciprocal_fraction_bits, unit.reciprocal.result_fraction_bits
    total = sum(scores)
    e = total.bit_length() - 1
    f = min(int(round_shift(total, e - r, Rounding.NEAREST_UP)), (2 << r) - 1)
    guess = int(look_up(unit.reciprocal, np.array([f - (1 << r)]))[0])
    y = int(round_shift(guess * (((1 << (r + k + 1)) - f * guess) >> k), k, Rounding.NEAREST_UP))
    one = 1 << unit.score_fraction_bits
    shift = r + e - unit.score_fraction_bits
    return [min(int(round_shift(score * y, shift, Rounding.NEAREST_UP)), one) for score in scores]


def exact_gate(unit: GateUnit, logits: Codes) -> Reals:
    """Return the float64 score of each expert for each token, ndarray[tokens, experts]; 0 where it is not chosen."""
    real = unit.logit_format.to_real(logits)
    scores = np.exp(real - real.max(axis=1, keepdims=True))
    scores /= scores.sum(axis=1, keepdims=True)
    order = np.argsort(-scores, axis=1, kind="stable")[:, : unit.top_k]
    kept: Reals = np.zeros_like(scores)
    np.put_along_axis(kept, order, np.take_along_axis(scores, order, axis=1), axis=1)
    if unit.renormalise:
        kept /= kept.sum(axis=1, keepdims=True)
    return kept
