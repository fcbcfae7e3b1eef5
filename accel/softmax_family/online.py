"""The contract of the online softmax with a general rescale: the classical baseline, in fixed point.

Milakov and Gimelshein (arXiv 1805.02867): ``M' = max(M, x)``, ``S' = S e**(M - M') + e**(x - M')``, then weights
``e**(x - M) / S``. Steps, all quantities integers; m, s, r, ``exp2`` and step 1 to 3 as in ``accel.softmax_rows``, but
that d is not the distance from the largest code:

1. Per beat ``M' = max(M, x of each valid lane)``; a row has no M before its first valid score.
2. For each valid lane ``h, w`` by steps 1 to 3 of ``d = M' - x``; for a rise ``h, w`` of the difference of the maxima.
3. For beat n = 0, 1, ... ``S[n] = R + sum over valid lanes of floor(w * 2**(s - m) / 2**h)``. R is 0 for n < 5,
   ``S[n-5]`` if ``M[n] = M[n-5]``, else ``floor(S[n-5] * w / 2**(m + h))``: five sums take turns, so that a product
   and what goes with it have five cycles.
4. At the end of the row ``S = S[n] + R1 + R2 + R3 + R4``, where Rk is R by step 3 of ``S[n-k]``, 0 where there is none.
   Then e, y by step 5 of ``accel.softmax_unit``.
5. For each score ``h, w`` of ``d = M - x``; its weight is step 6 of ``accel.softmax_unit`` with H = 0, always rounded
   alone.

A rise multiplies the sum by a rounded factor, so errors add up with the rises, as many as a row may have: the bound is
wide. And the product stands in a loop, which takes five cycles and so five sums. Timing: as ``accel.softmax_unit``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from accel.errors import InputError
from accel.softmax_unit import SoftmaxUnit

__all__ = ["EXACT_SUMS", "OnlineSoftmaxUnit"]

EXACT_SUMS = 5
"""Sums of a row that take turns."""


@dataclass(frozen=True, kw_only=True)
class OnlineSoftmaxUnit(SoftmaxUnit):
    """Parameters of the online softmax: those of ``SoftmaxUnit``.

    Parameters
    ----------
    keep_row_sum : bool
        False: each weight is rounded alone.

    Raises
    ------
    InputError
        A parameter is out of range.
    """

    keep_row_sum: bool = False

    name: ClassVar[str] = "online-softmax"
    summary: ClassVar[str] = "Online softmax with the exact maximum, rescaled by a product"

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every parameter."""
        super().__post_init__()
        if self.keep_row_sum:
            raise InputError(
                "keep_row_sum must be false for the online softmax, which rounds each weight alone",
                hint="use softmax",
                field=("keep_row_sum",),
            )

    @property
    def latency_cycles(self) -> int:
        """Cycles from accepting a row's last beat to its first weights, the output being idle and ready."""
        return 26 + 2 * self.power_cycles + self.search_cycles + 2 * self.tree_stages

    @property
    def max_rises(self) -> int:
        """Most products that a sum of a row goes through: one for every fifth beat, and one to join the others."""
        return min(-(-self.max_beats // EXACT_SUMS), self.largest_distance)

    @property
    def lost_share(self) -> float:
        """Bound on the share by which a row's sum is off, either way.

        Each product is by a factor off by at most 1 + q. Terms, and the products of each sum, lose less than one step
        each. The sum is at least one largest term, which is 1 less twice the error of the table.
        """
        rises = self.max_rises
        drift = float((1 + self.term_error) ** rises - 1)
        steps = self.capacity + EXACT_SUMS * rises
        return drift + steps * 2.0**-self.sum_fraction_bits / (1.0 - 2 * self.exp2.max_error)

    @property
    def sum_error(self) -> float:
        """Bound on the relative error of a row's sum and of its reciprocal."""
        lost = self.lost_share
        return (1 + self.reciprocal_error) / (1 - lost) - 1 if lost < 1 else 1.0
