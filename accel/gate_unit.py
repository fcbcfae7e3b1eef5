"""The contract of the gate of a mixture of experts: which experts a token goes to, with what score, in whose list.

Hardware (``rtl.moe``) and golden model (``sim.golden.gate``) are two independent readings of this page. For the logits
of a token, one for each of E experts, all quantities integers:

1. ``s[e]``: the softmax over all E logits by ``softmax`` (``accel.softmax_unit``, each weight rounded alone, so that
   equal logits have equal scores), with ``score_fraction_bits``.
2. The ``top_k`` largest scores, the largest first; of equal ones the lower index first. The scores pass one by one, by
   rising index; one that is larger than the k-th so far takes its place in the order behind all that are at least as
   large, those behind it move down, and in every other case all places keep what they hold.
3. Without ``renormalise`` these are the scores. With it, ``V`` is their sum, ``e, y`` are its reciprocal
   (``1 / V = y * 2**-(r + e)``, found as in step 5 of ``accel.softmax_unit`` with r = ``reciprocal_fraction_bits``,
   the leading 1 of V in place of that of its sum), and each is ``min(rnd(s * y / 2**(r + e - score fraction)), 1)``.
4. The token is appended, with its score, to the list of each of its experts, in that order. An expert whose list was
   empty is appended to the list of experts that have work (the metaqueue).

Published gates differ in step 3: Edge-MoE (arXiv 2305.18691) keeps the scores of the softmax over all experts, others
divide by the sum of the chosen ones (Mixtral, arXiv 2401.04088, takes the softmax of the chosen logits, which is the
same).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from accel.checks import check_ranges
from accel.errors import InputError
from accel.numerics import FixedPoint, LinearTable, Overflow, Rounding, reciprocal_table
from accel.softmax_unit import SoftmaxUnit

__all__ = ["GATE_ACTIONS", "GateUnit"]

GATE_ACTIONS = {
    "gate_score": "scores of experts: one for each expert and token",
    "gate_reciprocal": "reciprocals of the sum of the chosen scores: one for each token, if they are renormalised",
}
"""The actions that hardware counts and models predict, with their definitions."""


@dataclass(frozen=True, kw_only=True)
class GateUnit:
    """Parameters of the gate and everything that follows from them.

    Parameters
    ----------
    experts : int
        E; 2 to 64.
    top_k : int
        Experts of a token; 1 to 4, at most E.
    logit_format : FixedPoint
        Of the logits; 4 to 18 bits.
    score_fraction_bits : int
        Fraction bits of the scores, which go from 0 to 1; 2 to 15, and enough for a step of 1 / (4 E).
    renormalise : bool
        Divide the chosen scores by their sum.
    exp_segments : int
        Segments of the exponential's table.

    Raises
    ------
    InputError
        A parameter is out of range.
    """

    experts: int
    top_k: int
    logit_format: FixedPoint
    score_fraction_bits: int = 15
    renormalise: bool = False
    exp_segments: int = 64

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every parameter."""
        least = 2 + (self.experts - 1).bit_length()
        check_ranges(
            self,
            (
                ("experts", 2, 64),
                ("top_k", 1, min(4, self.experts)),
                ("score_fraction_bits", least, 15),
            ),
        )
        if not 4 <= self.logit_format.width_bits <= 18:
            raise InputError(
                f"logit_format must have 4 to 18 bits, not {self.logit_format.width_bits}",
                hint="16 bits suit most models",
                field=("logit_format", "width_bits"),
            )
        if self.softmax.max_length != self.experts:
            raise AssertionError("the softmax is of all experts")

    @cached_property
    def softmax(self) -> SoftmaxUnit:
        """The softmax over all experts, one logit a cycle."""
        return SoftmaxUnit(
            max_length=self.experts,
            lanes=1,
            input_format=self.logit_format,
            output_format=self.score_format,
            exp_segments=self.exp_segments,
            keep_row_sum=False,
        )

    @property
    def score_format(self) -> FixedPoint:
        """Of the scores: 1 is one of them."""
        return FixedPoint(
            signed=False,
            width_bits=self.score_fraction_bits + 1,
            fraction_bits=self.score_fraction_bits,
            rounding=Rounding.NEAREST_UP,
            overflow=Overflow.SATURATE,
        )

    @property
    def sum_bits(self) -> int:
        """Width of V."""
        return (self.top_k << self.score_fraction_bits).bit_length()

    @property
    def reciprocal_fraction_bits(self) -> int:
        """Fraction bits r of the normalised sum and of its reciprocal: as many as V has below its leading 1."""
        return self.sum_bits - 1

    @cached_property
    def reciprocal(self) -> LinearTable:
        """Table of the first guess, good enough for one Newton step to reach r bits."""
        bits = self.reciprocal_fraction_bits
        guess_bits = bits // 2 + 3
        return reciprocal_table(
            segments=1 << min(bits - 1, max(1, (guess_bits - 1) // 2)),
            argument_bits=bits,
            result_fraction_bits=guess_bits,
            guard_bits=2,
        )

    @property
    def renormalise_cycles(self) -> int:
        """Cycles that renormalising adds to a token: the sum 1, the reciprocal 10, products 1, shifts 1."""
        return 13 if self.renormalise else 0

    @property
    def latency_cycles(self) -> int:
        """Cycles from a token's last logit to the first entry of its lists: softmax, E - 1, choice 2, rest 2."""
        return self.softmax.latency_cycles + self.experts - 1 + 2 + self.renormalise_cycles

    @property
    def max_error(self) -> float:
        """Bound on the distance of a score from the exact softmax of its logits, without ``renormalise``."""
        return self.softmax.max_error
