"""The contracts of the units that take the logarithm of a row's sum: log2 of weights as codes, and log-sum-exp.

Steps 1 to 4 are those of ``accel.softmax_rows``. All quantities are integers.

5. ``e, y`` of S by ``log2`` (a ``MantissaUnit``) with k result fraction bits. Then ``L = (e - s) * 2**k + y - H *
   2**k``: log2 of the sum of all exponentials, counted from that of the largest code, with k fraction bits.

``log2-softmax`` gives each weight as the power of two nearest to it on a logarithmic scale, so that multiplying by a
weight is a shift and dividing by the sum a subtraction. Log2-quantised weights: RepQ-ViT (Li et al., arXiv 2212.08254);
as the output of hardware: SOLE (Wang et al., ICCAD 2023), whose sum is made of powers of two, too, and less exact.

6. ``q = rnd((floor(t / 2**(m - k)) + L) / 2**k)``, at least 0, at most the largest code. The weight is ``2**-q``; the
   largest code stands for 0.

``log-sum-exp`` gives ``ln(sum e**x)`` of each row, which merges attention over parts of the keys.

6. With ``LN2`` = rnd(ln(2) * 2**20) the result is
   ``(largest code * 2**(k + 20 - input fraction) + L * LN2) / 2**(k + 20 - output fraction)``, rounded and brought into
   range by the output format. A row without any valid score gives 0, not kept.

Timing of ``log2-softmax``, the output being always ready: as ``accel.softmax_unit``. ``log-sum-exp`` keeps no row: each
beat leaves ``latency_cycles`` after it was accepted, in every cycle one; lane 0 of a row's last beat holds the result,
and no other lane is kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from accel.checks import check_range
from accel.errors import InputError
from accel.mantissa_unit import MantissaUnit
from accel.numerics import FixedPoint, Rounding
from accel.pipelining import operand_chunks, product_cycles
from accel.softmax_rows import LOG2E, LOG2E_FRACTION_BITS, PowerRows, Quality

__all__ = ["LN2", "LN2_FRACTION_BITS", "Log2SoftmaxUnit", "LogSumExpUnit"]

LN2_FRACTION_BITS = 20
LN2: int = round(math.log(2) * 2**LN2_FRACTION_BITS)


@dataclass(frozen=True, kw_only=True)
class _LogRows(PowerRows):
    """What both have in common."""

    output_format: FixedPoint

    __pydantic_config__ = {"extra": "forbid"}

    @property
    def log_fraction_bits(self) -> int:
        """Fraction bits k of the logarithm."""
        raise NotImplementedError

    @property
    def mantissa_fraction_bits(self) -> int:
        """Fraction bits m of t and of the mantissa w: two more than those of the logarithm."""
        return self.log_fraction_bits + 2

    @cached_property
    def log2(self) -> MantissaUnit:
        """The logarithm of a mantissa, within a step of its result."""
        bits = self.log_fraction_bits
        fraction_bits = min(max(bits, 4), 18)
        return MantissaUnit(
            function="log2",
            value_bits=max(self.sum_bits, fraction_bits + 1),
            fraction_bits=fraction_bits,
            result_fraction_bits=bits,
            max_error=2.0**-bits,
        )

    @property
    def log_range(self) -> tuple[int, int]:
        """Smallest and largest L."""
        k = self.log_fraction_bits
        low = -self.sum_head_bits - self.max_halvings
        return low << k, ((self.sum_bits - self.sum_fraction_bits) << k) + (1 << k)

    @property
    def log_error(self) -> float:
        """Bound on the error of log2 of a row's sum, the scale of step 1 left aside.

        Terms off by a factor of at most 1 + q, what truncation takes away, and the error of the logarithm.
        """
        terms: float = math.log2(1 + self.term_error) - math.log2(1 - min(self.lost_share, 0.5))
        logarithm: float = self.log2.max_result_error
        return terms + logarithm


@dataclass(frozen=True, kw_only=True)
class Log2SoftmaxUnit(_LogRows):
    """Parameters of the softmax with log2-quantised weights.

    Parameters
    ----------
    max_length, lanes, input_format
        As those of ``ScoreRows``.
    exp_segments : int
        Segments of the 2**-g table.
    output_format : FixedPoint
        Of the codes q: unsigned, 2 to 6 bits, no fraction, rounding ``nearest_up``, overflow ``saturate``.

    Raises
    ------
    InputError
        A parameter is out of range.
    """

    exp_segments: int = 16

    name: ClassVar[str] = "log2-softmax"
    summary: ClassVar[str] = "Softmax with log2-quantised weights: q stands for 2**-q, the largest code for 0"

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every parameter."""
        target = self.output_format
        if not 2 <= target.width_bits <= 6 or str(target) != f"u{target.width_bits}f0,nearest_up,saturate":
            bits = min(max(target.width_bits, 2), 6)
            raise InputError(
                f"output_format must be u2f0 to u6f0 with nearest_up and saturate, not {target}",
                hint=f"use u{bits}f0,nearest_up,saturate",
                field=("output_format",),
            )
        super().__post_init__()

    @property
    def log_fraction_bits(self) -> int:
        """Fraction bits k of the logarithm: its errors shall be small beside the half step of q."""
        return 8

    @property
    def latency_cycles(self) -> int:
        """Cycles from accepting a row's last beat to its first codes, the output being idle and ready."""
        return 11 + self.power_cycles + self.tree_stages + self.log2.latency_cycles

    @property
    def code_error(self) -> float:
        """Bound on the distance of q from -log2 of the exact weight, where q is not clipped.

        Half a step of rounding; t rounded and truncated to k bits; the log of the sum; and the scale of step 1, which
        stretches all distances from the largest score alike.
        """
        stretch = abs(LOG2E * 2.0**-LOG2E_FRACTION_BITS / math.log2(math.e) - 1)
        distance = math.ldexp(self.largest_distance, -self.input_format.fraction_bits) * math.log2(math.e)
        return 0.5 + 2.0**-self.log_fraction_bits + self.log_error + stretch * distance

    @property
    def max_error(self) -> float:
        """Bound on the distance of the weight ``2**-q`` from the exact one.

        It is off by a factor of at most ``2**code_error`` and not above 1; what the largest code stands for was small.
        """
        zero: float = 2.0 ** (self.code_error - self.output_format.max_code)
        near: float = 1 - 2.0**-self.code_error
        return max(near, min(1.0, zero))

    @property
    def quality(self) -> Quality:
        """What holds for every row."""
        dropped = self.capacity * 2.0 ** (self.code_error - self.output_format.max_code)
        low = 1 - 2.0**-self.code_error * max(0.0, 1 - dropped)
        return Quality(
            max_error=self.max_error,
            row_sum_error=max(low, 2.0**self.code_error - 1),
            argmax="no weight is above that of the largest score",
        )


@dataclass(frozen=True, kw_only=True)
class LogSumExpUnit(_LogRows):
    """Parameters of the log-sum-exp of rows.

    Parameters
    ----------
    max_length, lanes, input_format
        As those of ``ScoreRows``.
    exp_segments : int
        Segments of the 2**-g table.
    output_format : FixedPoint
        Of the results; signed, 2 to 14 fraction bits.

    Raises
    ------
    InputError
        A parameter is out of range.
    """

    name: ClassVar[str] = "log-sum-exp"
    summary: ClassVar[str] = "ln of the sum of e**x of each row, in lane 0 of its last beat"

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every parameter."""
        target = self.output_format
        check_range(("output_format", "fraction_bits"), target.fraction_bits, 2, 14)
        check_range(("input_format", "fraction_bits"), self.input_format.fraction_bits, -8, 20)
        if not target.signed:
            raise InputError(
                f"output_format must be signed, not {target}",
                hint=f"use s{target.width_bits + 1}f{target.fraction_bits}",
                field=("output_format", "signed"),
            )
        super().__post_init__()

    @property
    def log_fraction_bits(self) -> int:
        """Fraction bits k of the logarithm: two more than the results have."""
        return self.output_format.fraction_bits + 2

    @property
    def latency_cycles(self) -> int:
        """Cycles from accepting a beat to its result, the output being idle and ready."""
        return 8 + self.power_cycles + self.tree_stages + self.log2.latency_cycles + self.product_cycles

    @property
    def product_cycles(self) -> int:
        """Cycles of the product with ln(2)."""
        low, high = self.log_range
        bits = 1 + max((-low - 1).bit_length(), high.bit_length())
        return product_cycles(operand_chunks(bits, signed=True), operand_chunks(LN2.bit_length(), signed=False))

    @property
    def max_error(self) -> float:
        """Bound on the distance of a result from the exact log-sum-exp in the range of the output.

        ln(2) times the error of the logarithm; the rounded log2(e) and ln(2), which stretch the distance from the
        largest code; and the last rounding.
        """
        stretch = LOG2E * 2.0**-LOG2E_FRACTION_BITS * LN2 * 2.0**-LN2_FRACTION_BITS - 1
        constant = abs(LN2 * 2.0**-LN2_FRACTION_BITS / math.log(2) - 1)
        distance = math.ldexp(self.largest_distance, -self.input_format.fraction_bits)
        step = self.output_format.resolution / (1 if self.output_format.rounding is Rounding.TRUNCATE else 2)
        spread = abs(stretch) * distance + constant * math.log(self.capacity)
        # Stretched scores move the log of the sum by at most what the furthest of them moves.
        return math.log(2) * (1 + constant) * self.log_error + spread + step

    @property
    def quality(self) -> Quality:
        """There are no weights: only the error of the result."""
        return Quality(max_error=self.max_error, row_sum_error=0.0, argmax="none: the unit gives no weights")
