"""What the contracts of the softmax family share: rows of scores, their exponentials, and sums that only ever shift.

Steps 1 to 4, which these contracts refer to. For a row of scores x of at most ``max_beats`` beats, all quantities
integers, ``floor`` towards minus infinity, ``rnd`` rounding half up:

1. ``d = largest code - x`` (never negative), ``t = rnd(d * scale / 2**(input fraction + scale fraction - m))``: how
   many times 1/2 the exponential is below that of the largest code, with ``m = mantissa_fraction_bits`` fraction bits
   (a negative shift is exact). For the base e the scale is ``LOG2E``, for the base 2 it is 1.
2. ``h = floor(t / 2**m)`` and ``g = t mod 2**m``: whole halvings, and a rest in [0, 1).
3. ``w = exp2(g)`` by ``exp2`` (a ``LinearTable``): the mantissa, about ``2**-g`` with m fraction bits. Without a table
   (``exp_segments`` is 0) m is 0 and w is 1. Up to one factor for all scores, e**x is ``w / 2**h``.
4. Per beat of ``lanes`` scores: ``H' = min(H, h of each valid lane)``; a row has no H before its first valid score.
   ``S' = floor(S / 2**(H - H')) + sum over valid lanes of floor(w * 2**(s - m) / 2**(h - H'))`` with
   ``s = sum_fraction_bits``; the first beat has S = 0. Rescaling by a power of two is a shift, so one beat a cycle is
   taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from accel.checks import check_range
from accel.errors import InputError
from accel.numerics import FixedPoint, LinearTable, exp2_table
from accel.pipelining import read_cycles

__all__ = ["LOG2E", "LOG2E_FRACTION_BITS", "PowerRows", "Quality", "ScoreRows", "weight_error"]

LOG2E_FRACTION_BITS = 17
"""With 17 fraction bits log2(e) fits an 18-bit multiplier, and is off by a factor of 1 + 4.0e-7 only."""
LOG2E: int = round(math.log2(math.e) * 2**LOG2E_FRACTION_BITS)
MAX_EXP_SEGMENTS = 4096


@dataclass(frozen=True, kw_only=True)
class Quality:
    """What a unit promises of its weights, for every row that it takes.

    Parameters
    ----------
    max_error : float
        Bound on the distance of any weight from the exact one.
    row_sum_error : float
        Bound on the distance of the sum of a row from the exact sum: 1 wherever weights are normalised.
    argmax : str
        What is promised of the largest score's weight.
    """

    max_error: float
    row_sum_error: float
    argmax: str

    __pydantic_config__ = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class ScoreRows:
    """Rows of scores in beats of several lanes.

    Parameters
    ----------
    max_length : int
        Longest row, N; 1 to 65536. The unit counts beats, so a row may fill its last beat (``capacity``).
    lanes : int
        Scores in a beat; 1 to 64. One beat is taken a cycle.
    input_format : FixedPoint
        Of the scores. 2 to 24 bits; its rounding and overflow apply where real scores are quantized.

    Raises
    ------
    InputError
        A parameter is out of range.
    """

    max_length: int
    lanes: int
    input_format: FixedPoint

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every parameter."""
        check_range(("max_length",), self.max_length, 1, 65536)
        check_range(("lanes",), self.lanes, 1, 64)
        for name, value, low, high in (
            ("", self.input_format.width_bits, 2, 24),
            ("fraction ", self.input_format.fraction_bits, -8, 24),
        ):
            if not low <= value <= high:
                raise InputError(
                    f"input_format must have {low} to {high} {name}bits, not {value}",
                    hint="scores of 16 bits with 10 fraction bits suit most models",
                    field=("input_format", "fraction_bits" if name else "width_bits"),
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
    def tree_stages(self) -> int:
        """Register stages of a tree over the lanes, with two levels of two-input nodes in each."""
        return ((self.lanes - 1).bit_length() + 1) // 2

    @property
    def interval_cycles(self) -> int:
        """Cycles between two accepted beats, the output being ready."""
        return 1

    @property
    def largest_distance(self) -> int:
        """Largest d: from the largest code down to the smallest."""
        return self.input_format.max_code - self.input_format.min_code


@dataclass(frozen=True, kw_only=True)
class PowerRows(ScoreRows):
    """Rows whose exponentials are a mantissa and a number of halvings each, so that their sums rescale by shifts.

    Parameters
    ----------
    exp_segments : int
        Segments of the 2**-g table, a power of two from 1 to 4096, with fewer bits than its argument.

    Raises
    ------
    InputError
        A parameter is out of range.
    """

    exp_segments: int = 64

    scale: ClassVar[tuple[int, int]] = (LOG2E, LOG2E_FRACTION_BITS)
    """Factor of step 1 and its fraction bits: log2 of the base."""

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every parameter."""
        super().__post_init__()
        if not self.mantissa_fraction_bits:
            return
        most = min(MAX_EXP_SEGMENTS, 1 << (self.mantissa_fraction_bits - 1))
        if not 1 <= self.exp_segments <= most or self.exp_segments.bit_count() != 1:
            nearest = 1 << (min(max(self.exp_segments, 1), most).bit_length() - 1)
            raise InputError(
                f"exp_segments must be a power of two from 1 to {most}, not {self.exp_segments}",
                hint=f"use {nearest}",
                field=("exp_segments",),
            )

    @property
    def mantissa_fraction_bits(self) -> int:
        """Fraction bits m of the scaled distance t and of the mantissa w; 0 if there is no table."""
        raise NotImplementedError

    @property
    def mantissa_bits(self) -> int:
        """Width of w, which is at most 1.0; 0 if it always is."""
        return self.mantissa_fraction_bits + 1 if self.mantissa_fraction_bits else 0

    @property
    def scale_shift(self) -> int:
        """By how many bits step 1 shifts the product right; negative: left."""
        return self.input_format.fraction_bits + self.scale[1] - self.mantissa_fraction_bits

    @property
    def largest_scaled(self) -> int:
        """Largest t."""
        product, shift = self.largest_distance * self.scale[0], self.scale_shift
        return product << -shift if shift <= 0 else (product + (1 << (shift - 1))) >> shift

    @property
    def scaled_bits(self) -> int:
        """Width of t."""
        return max(1, self.largest_scaled.bit_length())

    @property
    def max_halvings(self) -> int:
        """Largest h."""
        return self.largest_scaled >> self.mantissa_fraction_bits

    @property
    def halvings_bits(self) -> int:
        """Width of h."""
        return max(1, self.max_halvings.bit_length())

    @property
    def spare_sum_bits(self) -> int:
        """Fraction bits of the sum beyond log2(N) more than the mantissa has."""
        return 1

    @property
    def sum_fraction_bits(self) -> int:
        """Fraction bits s of the running sum.

        With log2(N) more than the mantissa has, N truncated terms lose at most one mantissa step together; each spare
        bit halves that.
        """
        return self.mantissa_fraction_bits + (self.capacity - 1).bit_length() + self.spare_sum_bits

    @property
    def sum_bits(self) -> int:
        """Width of the running sum, which is at most ``capacity * 1.0``."""
        return self.sum_fraction_bits + self.capacity.bit_length()

    @property
    def sum_head_bits(self) -> int:
        """By how much the leading 1 of a finished sum may lie below ``sum_fraction_bits``.

        The largest term is in the sum unshifted. It is 1.0 without a table, else 1/2 less the error of the table, and
        so above 1/4.
        """
        return 2 if self.mantissa_fraction_bits else 0

    @cached_property
    def exp2(self) -> LinearTable:
        """Table of the mantissa w."""
        bits = self.mantissa_fraction_bits
        return exp2_table(segments=self.exp_segments, argument_bits=bits, result_fraction_bits=bits, guard_bits=2)

    @property
    def read_cycles(self) -> int:
        """Cycles in which the 2**-g table is read."""
        return read_cycles(self.exp2.rom_bits) if self.mantissa_fraction_bits else 1

    @property
    def table_cycles(self) -> int:
        """Cycles of a look-up in the 2**-g table: reading, product, rounding."""
        return self.read_cycles + 2

    @property
    def power_cycles(self) -> int:
        """Cycles from a score to its exponential: scale 3, and the table's."""
        return 3 + self.table_cycles

    @property
    def exp_rom_bits(self) -> int:
        """Bits of the 2**-g tables of all lanes."""
        return self.exp2.rom_bits * self.lanes if self.mantissa_fraction_bits else 0

    @property
    def scale_error(self) -> float:
        """Bound on the distance that the rounded scale moves any weight.

        Off by the factor 1 + c, it scales all scores alike. As ``dp = c p sum_j p_j (x_i - x_j)`` and
        ``x_i - x_j = ln(p_i / p_j)``, it moves p by at most ``c (ln(N) / 4 + 0.224)``.
        """
        factor, fraction_bits = self.scale
        exact = round(math.log2(math.e) * 2**40) * 2.0**-40 if factor != 1 else 1.0
        return abs(factor * 2.0**-fraction_bits / exact - 1.0) * (math.log(self.capacity) / 4 + 0.224)

    @property
    def term_error(self) -> float:
        """Bound q: a computed exponential is off by at most a factor of 1 + q each way.

        Rounding t moves it by at most half a step, which is a factor of ``2**(step / 2)``. The mantissas are above 1/2,
        so the table adds at most twice its own error, relatively.
        """
        step = 2.0**-self.mantissa_fraction_bits
        table = 2 * self.exp2.max_error if self.mantissa_fraction_bits else 0.0
        return float(2.0 ** (step / 2) * (1 + table) - 1)

    @property
    def lost_share(self) -> float:
        """Bound on the share of a row's exact sum of computed exponentials that truncation takes away.

        Terms below the maximum lose less than one step each; a rescale halves what was lost before and loses less than
        one step itself, so rescaling loses less than two steps in all: N + 1. The sum is at least one smallest
        mantissa.
        """
        least = 0.5 - self.exp2.max_error if self.mantissa_fraction_bits else 1.0
        return (self.capacity + 1) * 2.0**-self.sum_fraction_bits / least


def weight_error(scale_error: float, term_error: float, sum_error: float) -> float:
    """Return a bound on the distance of a weight from the exact one, before it is rounded.

    Terms that are off by a factor of at most 1 + q each way move p, at worst one up and all others down, by
    ``p (1 - p) (z - 1) / (1 + p (z - 1))`` with ``z = (1 + q)**2``: at most ``q / (2 + q)``, and at most
    ``2 q p (1 - p) / (1 - q)``. A factor of at most 1 + s of all weights moves them by s times what they are by now.
    Either both bounds are added, or the sum is taken at the worst p, which is ``1/2 + s (1 - q) / (4 q)`` or 1.
    """
    q, s = term_error, sum_error
    apart = q / (2 + q) + s
    if q < 1:
        slope = 2 * q / (1 - q)
        p = min(1.0, 0.5 + s / (2 * slope)) if slope else 1.0
        apart = min(apart, slope * p * (1 - p) + s * p + s * slope / 4)
    return min(1.0, scale_error * (1 + s) + apart)
