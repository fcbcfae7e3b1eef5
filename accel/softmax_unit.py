"""The contract of the single-pass softmax unit: parameters, derived widths, and its arithmetic bit by bit.

Hardware (``rtl.softmax``) and golden model (``sim.golden.softmax``) are two independent readings of this page.

For a row of scores x of at most ``max_beats`` beats, ``floor`` and ``ceil`` being towards minus and plus infinity and
``rnd`` rounding half up, all quantities integers:

1. ``t = rnd(x * LOG2E / 2**(input fraction + LOG2E_FRACTION_BITS - m))``: the score times log2(e), with
   ``m = mantissa_fraction_bits`` fraction bits (a negative shift is exact).
2. ``n = ceil(t / 2**m)``, ``g = n * 2**m - t``: exponent, and a distance in [0, 1).
3. ``w = exp2(g)`` by ``exp2`` (a ``LinearTable``): the mantissa, about ``2**-g`` with m fraction bits. Now e**x is
   ``w * 2**n``.
4. Per beat of ``lanes`` scores: ``M' = max(M, n of each valid lane)``; a row has no M before its first valid score.
   ``S' = floor(S / 2**(M' - M)) + sum over valid lanes of floor(w * 2**(s - m) / 2**(M' - n))`` with
   ``s = sum_fraction_bits``; the first beat has S = 0. Rescaling by a power of two is a shift, so one beat a cycle is
   taken.
5. At the end of the row ``e = floor(log2(S))``, ``f = min(rnd(S / 2**(e - r)), 2**(r+1) - 1)`` with
   ``r = reciprocal_fraction_bits``: the sum is ``f * 2**(e - r)``, f in [1, 2).
   ``y0 = reciprocal(f - 2**r)`` by ``reciprocal`` (a ``LinearTable``) with k fraction bits (``result_fraction_bits``).
   One Newton step: ``d = floor((2**(r + k + 1) - f * y0) / 2**k)``, ``y = rnd(y0 * d / 2**k)``: about 1/f with r
   fraction bits. A row without any valid score has S = 0; its outputs are all invalid.
6. Each weight is ``w * y / 2**(m + r - output fraction + (M - n) + (e - s))`` rounded and fitted by the output format.
   Invalid lanes give 0.

Timing, the output being always ready: a beat is accepted in every cycle that offers one. If the last beat of row j is
accepted in cycle ``C[j]``, its first weights stand at the output in cycle
``S[j] = max(C[j] + latency_cycles, S[j-1] + beats[j-1])``, and the others follow, one beat a cycle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from accel.errors import InputError
from accel.numerics import FixedPoint, LinearTable, Overflow, exp2_table, reciprocal_table
from accel.numerics.tables import newton_reciprocal_error

__all__ = ["LOG2E", "LOG2E_FRACTION_BITS", "SOFTMAX_ACTIONS", "SoftmaxUnit"]

LOG2E_FRACTION_BITS = 16
LOG2E: int = round(math.log2(math.e) * 2**LOG2E_FRACTION_BITS)
MAX_EXP_SEGMENTS = 4096

SOFTMAX_ACTIONS = {
    "exp": "exponentials: one for each valid score",
    "max": "comparisons with the running maximum: one for each valid score",
    "add": "additions into the running sum: one for each valid score",
    "rescale": "beats that raise a running maximum which earlier scores of their row left, so that the sum is shifted",
    "reciprocal": "reciprocals: one for each row",
    "multiply": "output multiplications: one for each valid score",
    "buffer_write": "row-buffer words written: one for each beat",
    "buffer_read": "row-buffer words read: one for each beat",
}
"""The actions that hardware counts and models predict, with their definitions."""


@dataclass(frozen=True, kw_only=True)
class SoftmaxUnit:
    """Parameters of the single-pass softmax unit and everything that follows from them.

    Parameters
    ----------
    max_length : int
        Longest row, N; 1 to 65536. The unit counts beats, so a row may fill its last beat (``capacity``).
    lanes : int
        Scores in a beat; 1 to 64. One beat is taken a cycle.
    input_format : FixedPoint
        Of the scores. 2 to 24 bits; its rounding and overflow apply where real scores are quantized.
    output_format : FixedPoint
        Of the weights, which lie in [0, 1]; 2 to 24 fraction bits, and room for all values below 1. Weights that round
        to 1 and do not fit saturate, so its overflow must be ``saturate`` unless 1 fits.
    exp_segments : int
        Segments of the 2**-u table, a power of two from 1 to 4096, with fewer bits than its argument.

    Raises
    ------
    InputError
        A parameter is out of range.
    """

    max_length: int
    lanes: int
    input_format: FixedPoint
    output_format: FixedPoint
    exp_segments: int = 64

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every parameter."""
        for name, value, low, high in (
            ("max_length", self.max_length, 1, 65536),
            ("lanes", self.lanes, 1, 64),
        ):
            if not low <= value <= high:
                raise InputError(
                    f"{name} must be from {low} to {high}, not {value}",
                    hint=f"use {min(max(value, low), high)}",
                    field=(name,),
                )
        source, target = self.input_format, self.output_format
        if not 2 <= source.width_bits <= 24:
            raise InputError(
                f"input_format must have 2 to 24 bits, not {source.width_bits}",
                hint="scores of 16 bits with 10 fraction bits suit most models",
                field=("input_format", "width_bits"),
            )
        if not -8 <= source.fraction_bits <= 24:
            raise InputError(
                f"input_format must have -8 to 24 fraction bits, not {source.fraction_bits}",
                hint="scores of 16 bits with 10 fraction bits suit most models",
                field=("input_format", "fraction_bits"),
            )
        if not 2 <= target.fraction_bits <= 24:
            raise InputError(
                f"output_format must have 2 to 24 fraction bits, not {target.fraction_bits}",
                hint="weights of 16 bits with 16 fraction bits, unsigned, suit most models",
                field=("output_format", "fraction_bits"),
            )
        if target.max_code < (1 << target.fraction_bits) - 1:
            raise InputError(
                f"output_format must hold every weight below 1, but ends at {target.max_value}",
                hint=f"use at least {target.fraction_bits + target.signed} bits or fewer fraction bits",
                field=("output_format", "width_bits"),
            )
        if target.overflow is not Overflow.SATURATE and target.max_code < 1 << target.fraction_bits:
            raise InputError(
                f"output_format must hold the weight 1 or saturate, but ends at {target.max_value} "
                f"and has overflow '{target.overflow}'",
                hint="use overflow 'saturate' or one more bit",
                field=("output_format", "overflow"),
            )
        most = min(MAX_EXP_SEGMENTS, 1 << (self.mantissa_fraction_bits - 1))
        if not 1 <= self.exp_segments <= most or self.exp_segments.bit_count() != 1:
            nearest = 1 << (min(max(self.exp_segments, 1), most).bit_length() - 1)
            raise InputError(
                f"exp_segments must be a power of two from 1 to {most}, not {self.exp_segments}",
                hint=f"use {nearest}",
                field=("exp_segments",),
            )

    @property
    def max_beats(self) -> int:
        """Beats of the longest row."""
        return -(-self.max_length // self.lanes)

    @property
    def capacity(self) -> int:
        """Scores of the longest row that the unit takes: ``max_length`` rounded up to whole beats."""
        return self.max_beats * self.lanes

    @property
    def mantissa_fraction_bits(self) -> int:
        """Fraction bits m of the scaled score t and of the mantissa w."""
        return self.output_format.fraction_bits + 1

    @property
    def mantissa_bits(self) -> int:
        """Width of w, which is at most 1.0."""
        return self.mantissa_fraction_bits + 1

    def _scaled(self, code: int) -> int:
        shift = self.input_format.fraction_bits + LOG2E_FRACTION_BITS - self.mantissa_fraction_bits
        product = code * LOG2E
        return product << -shift if shift <= 0 else (product + (1 << (shift - 1))) >> shift

    @property
    def scaled_bits(self) -> int:
        """Width of t as a signed number: the smallest that holds the scaled ends of the input range."""
        low, high = self._scaled(self.input_format.min_code), self._scaled(self.input_format.max_code)
        return 1 + max(high.bit_length(), (-low - 1).bit_length() if low < 0 else 0)

    @property
    def exponent_range(self) -> tuple[int, int]:
        """Smallest and largest exponent n."""
        one = 1 << self.mantissa_fraction_bits
        low, high = self._scaled(self.input_format.min_code), self._scaled(self.input_format.max_code)
        return -(-low // one), -(-high // one)

    @property
    def exponent_bits(self) -> int:
        """Width of n as a signed number."""
        low, high = self.exponent_range
        return 1 + max(high.bit_length(), (-low - 1).bit_length() if low < 0 else 0)

    @property
    def sum_fraction_bits(self) -> int:
        """Fraction bits s of the running sum.

        log2(N) more than the mantissa has: N truncated terms lose at most one mantissa step together.
        """
        return self.mantissa_fraction_bits + (self.capacity - 1).bit_length()

    @property
    def sum_bits(self) -> int:
        """Width of the running sum, which is at most ``capacity * 1.0``."""
        return self.sum_fraction_bits + self.capacity.bit_length()

    @property
    def reciprocal_fraction_bits(self) -> int:
        """Fraction bits r of the normalised sum and of its reciprocal."""
        return self.output_format.fraction_bits + 1

    @cached_property
    def exp2(self) -> LinearTable:
        """Table of the mantissa w."""
        bits = self.mantissa_fraction_bits
        return exp2_table(segments=self.exp_segments, argument_bits=bits, result_fraction_bits=bits, guard_bits=2)

    @cached_property
    def reciprocal(self) -> LinearTable:
        """Table of the first guess y0, good enough for one Newton step to reach r bits."""
        bits = self.reciprocal_fraction_bits
        guess_bits = bits // 2 + 3
        return reciprocal_table(
            segments=1 << min(bits - 1, max(1, (guess_bits - 1) // 2)),
            argument_bits=bits,
            result_fraction_bits=guess_bits,
            guard_bits=2,
        )

    @property
    def latency_cycles(self) -> int:
        """Cycles from accepting a row's last beat to its first weights at the output, the output being idle and ready.

        28 for one lane. More lanes add one register stage for each factor of four in the tree that sums a beat.
        """
        return 28 + ((self.lanes - 1).bit_length() + 1) // 2

    @property
    def interval_cycles(self) -> int:
        """Cycles between two accepted beats, the output being ready."""
        return 1

    @property
    def reciprocal_error(self) -> float:
        """Bound on the relative error of 1/sum by step 5."""
        return newton_reciprocal_error(self.reciprocal, self.reciprocal_fraction_bits)

    @property
    def max_error(self) -> float:
        """Bound on the distance of any weight p from the exact softmax of the quantized scores.

        Let N be ``capacity``.

        * The constant log2(e), off by the factor 1 + c, scales all scores alike. As ``dp = c p sum_j p_j (x_i - x_j)``
          and ``x_i - x_j = ln(p_i / p_j)``, it moves p by at most ``c (ln(N) / 4 + 0.224)``.
        * Terms off by at most a factor 1 + q each way, from rounding t and from the mantissa table, move p by at most
          ``2 q p (1 - p) / (1 - q) <= q / (2 (1 - q))``.
        * The sum is at least one smallest mantissa. Terms below the maximum lose less than one step each; a rescale
          halves what was lost before and loses less than one step itself, so rescaling loses less than two steps in
          all: N + 1.
        * The reciprocal is off by ``reciprocal_error``.
        * The output loses at most one step; so does a weight 1 that saturates.
        """
        step = 2.0**-self.mantissa_fraction_bits
        constant = abs(LOG2E * 2.0**-LOG2E_FRACTION_BITS / math.log2(math.e) - 1.0) * (
            math.log(self.capacity) / 4 + 0.224
        )
        term: float = 2.0 ** (step / 2) * (1 + 2 * self.exp2.max_error) - 1
        lost = (self.capacity + 1) * 2.0**-self.sum_fraction_bits / (0.5 - self.exp2.max_error)
        if term >= 1 or lost >= 1:
            return 1.0  # a table this coarse promises nothing
        scale = (1 + self.reciprocal_error) / (1 - lost) - 1
        return min(1.0, constant + term / (2 * (1 - term)) + scale + self.output_format.resolution)
