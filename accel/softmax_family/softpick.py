"""The contract of softpick: ``relu(e**x - 1) / sum |e**x - 1|``.

Softpick (Zuhri, Fuadi and Aji, arXiv 2504.20966): scores up to 0 get exactly no weight, yet still count in the
denominator, and a row need not sum to 1: no score has to be a sink. A row of which every score is 0 gives 0 in place of
0 / 0; elsewhere the epsilon of the paper's denominator is left out.

Steps 1 to 3 are those of ``accel.softmax_rows``: ``w, h`` of each score, and ``w0, h0`` of the score 0. All quantities
integers:

* For x > 0: ``v = w - floor(w0 / 2**(h0 - h))``, and h stays.
* For x <= 0: ``v = w0 - floor(w / 2**(h - h0))``, and h becomes h0.

So ``v / 2**h`` is ``|e**x - 1|`` up to one factor for all scores. It is never negative, and 0 for x = 0 only. Steps 4
to 6 and the timing are those of ``accel.softmax_unit`` with v for w, ``keep_row_sum`` false, but that the weight is 0
for x <= 0. As ``e**x - 1`` cancels near 0, the mantissas have as many bits more as the scores have fraction bits, and
the table more segments: ``max_error`` is for the worst row, in which every score is next to 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from accel.checks import check_range
from accel.errors import InputError
from accel.numerics import Rounding, round_shift
from accel.pipelining import operand_chunks, product_cycles
from accel.softmax_rows import LOG2E, LOG2E_FRACTION_BITS, Quality, weight_error
from accel.softmax_unit import SoftmaxUnit

__all__ = ["SoftpickUnit"]


@dataclass(frozen=True, kw_only=True)
class SoftpickUnit(SoftmaxUnit):
    """Parameters of softpick: those of ``SoftmaxUnit``, without ``keep_row_sum``.

    Parameters
    ----------
    input_format : FixedPoint
        Of the scores: signed, -8 to 11 fraction bits.
    output_format : FixedPoint
        Of the weights: 2 to 16 fraction bits.

    Raises
    ------
    InputError
        A parameter is out of range, or the table is too coarse to tell the scores next to 0 from 0.
    """

    exp_segments: int = 512
    keep_row_sum: bool = False

    name: ClassVar[str] = "softpick"
    summary: ClassVar[str] = "Softpick: relu(e**x - 1) over the sum of |e**x - 1|"

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every parameter."""
        source = self.input_format
        check_range(("output_format", "fraction_bits"), self.output_format.fraction_bits, 2, 16)
        check_range(("input_format", "fraction_bits"), source.fraction_bits, -8, 11)
        if not source.signed:
            raise InputError(
                f"input_format must be signed, not {source}",
                hint=f"use s{source.width_bits + 1}f{source.fraction_bits}",
                field=("input_format", "signed"),
            )
        if self.keep_row_sum:
            raise InputError(
                "keep_row_sum must be false for softpick, whose rows do not sum to 1",
                hint="leave it out",
                field=("keep_row_sum",),
            )
        super().__post_init__()
        if self.least_term <= 0:
            raise InputError(
                f"exp_segments must be fine enough to tell a score of {self.input_format.resolution:.3g} from 0, "
                f"but {self.exp_segments} are not",
                hint=f"use {self.exp_segments * 2}",
                field=("exp_segments",),
            )

    @property
    def mantissa_fraction_bits(self) -> int:
        """Fraction bits m of t, w and v: about as many as weights and scores have together.

        Two less, at least one more than the weights have: with 16 and 10 the products of the table fit 18-bit
        multipliers.
        """
        return self.output_format.fraction_bits + max(1, self.input_format.fraction_bits - 2)

    @property
    def latency_cycles(self) -> int:
        """Cycles from accepting a row's last beat to its first weights, the output being idle and ready."""
        return super().latency_cycles + 3 + self.product_cycles - 1

    @property
    def product_cycles(self) -> int:
        """Cycles of the product of step 6, whose mantissa is wider than a multiplier."""
        bits = (self.mantissa_bits, self.reciprocal_fraction_bits + 1)
        return product_cycles(*(operand_chunks(each, signed=False) for each in bits))

    @cached_property
    def one(self) -> tuple[int, int]:
        """w0 and h0, those of the score 0."""
        factor, m = self.scale[0], self.mantissa_fraction_bits
        scaled = int(round_shift(self.input_format.max_code * factor, self.scale_shift, Rounding.NEAREST_UP))
        segment, low = divmod(scaled & ((1 << m) - 1), 1 << self.exp2.low_bits)
        value = (self.exp2.base[segment] << self.exp2.low_bits) - self.exp2.drop[segment] * low
        shift = self.exp2.low_bits + self.exp2.guard_bits
        return int(round_shift(value, shift, Rounding.NEAREST_UP)), scaled >> m

    @property
    def _gap(self) -> float:
        """``1 - e**-step``: the share of the larger of ``e**x`` and 1 that the difference is at least, if not 0."""
        return -math.expm1(-self.input_format.resolution * (1 - abs(self._stretch)))

    @property
    def _stretch(self) -> float:
        return LOG2E * 2.0**-LOG2E_FRACTION_BITS / math.log2(math.e) - 1

    @property
    def _difference_error(self) -> float:
        """Bound on the error of ``v / 2**h`` as a share of the larger of its two exponentials.

        Both are off by at most a factor of 1 + q; the shift loses less than a step of the larger mantissa, which is
        above a quarter.
        """
        return 2 * self.term_error + 4 * 2.0**-self.mantissa_fraction_bits

    @property
    def least_term(self) -> float:
        """Lower bound of v as a number, if it is not 0; the larger mantissa is at least 1/2 less the table's error."""
        return (0.5 - self.exp2.max_error) * (self._gap - self._difference_error)

    @property
    def spare_sum_bits(self) -> int:
        """Spare fraction bits of the sum: three more, as ``least_term`` is small."""
        return 4

    @property
    def sum_head_bits(self) -> int:
        """By how much the leading 1 of a finished sum that is not 0 may lie below ``sum_fraction_bits``."""
        return max(2, math.ceil(-math.log2(self.least_term)) + 1) if self.least_term > 0 else 2

    @property
    def lost_share(self) -> float:
        """Bound on the share of a row's sum that truncation takes away; the sum is 0 or at least ``least_term``."""
        return (self.capacity + 1) * 2.0**-self.sum_fraction_bits / self.least_term

    @property
    def difference_error(self) -> float:
        """Bound q: a computed ``|e**x - 1|`` is off by at most a factor of 1 + q each way; infinite if there is none.

        What the difference is off by, next to 0; and the rounded scale, which stretches a score x above 0 and so moves
        ``ln(e**x - 1)`` by at most ``|x| + 1`` times its share.
        """
        stretch = abs(self._stretch) * (self.input_format.max_value + 1) * 1.01
        off = self._difference_error / self._gap + stretch
        return off / (1 - off) if off < 1 else math.inf

    @property
    def max_error(self) -> float:
        """Bound on the distance of any weight from the exact softpick of the quantized scores.

        As that of ``SoftmaxUnit``, with the error of a difference in place of that of an exponential.
        """
        off = self.difference_error
        apart = weight_error(0.0, off, self.sum_error) if off < math.inf else 1.0
        return min(1.0, apart + self.output_format.resolution)

    @property
    def quality(self) -> Quality:
        """What holds for every row; the exact sum is that of the exact weights, as the terms above 0 are one share."""
        step = self.output_format.resolution * (1.0 if self.output_format.rounding is Rounding.TRUNCATE else 0.5)
        return Quality(
            max_error=self.max_error,
            row_sum_error=self.max_error + self.capacity * step,
            argmax="no weight is above that of the first score with the largest computed exponential",
        )
