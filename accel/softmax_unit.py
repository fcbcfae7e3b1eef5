"""The contract of the single-pass softmax unit: parameters, derived widths, and its arithmetic bit by bit.

Hardware (``rtl.softmax``) and golden model (``sim.golden.softmax``) are two independent readings of this page and of
``accel.softmax_rows``, which holds steps 1 to 4: exponentials ``w / 2**h``, their fewest halvings H and their sum S,
which has s fraction bits. All quantities are integers, ``floor`` rounds towards minus infinity, ``rnd`` half up.

5. At the end of the row ``V = floor(S / 2**sum_drop_bits)``, ``e = floor(log2(V))``,
   ``f = min(rnd(V / 2**(e - r)), 2**(r+1) - 1)`` with ``r = reciprocal_fraction_bits``: the sum is
   ``f * 2**(e - r)``, f in [1, 2). ``y0 = reciprocal(f - 2**r)`` by ``reciprocal`` (a ``LinearTable``) with k fraction
   bits (``result_fraction_bits``). One Newton step: ``d = floor((2**(r + k + 1) - f * y0) / 2**k)``,
   ``y = rnd(y0 * d / 2**k)``: about 1/f with r fraction bits. A row without any valid score has S = 0; its outputs are
   all invalid.
6. Each weight is ``w * y / 2**z`` with ``z = m + r - output fraction + (h - H) + (e + sum_drop_bits - s)``, rounded.
   Invalid lanes give 0.

How a weight is rounded in step 6. Without ``keep_row_sum`` the rounding of the output format applies to each alone.
Then a row of a thousand weights may sum to 1 but for hundreds of steps, as weights below half a step all vanish. With
``keep_row_sum`` what a weight loses is carried to the next weight of its lane: ``v = floor(w * y / 2**(z - q))`` with
``q = residue_bits``, the weight is ``floor((v + c) / 2**q)``, and the rest ``(v + c) mod 2**q`` is the next c; c is
``2**(q - 1)`` at the start of a row. Only the first score with the largest exponential (h = H and the largest w of
those; the lowest lane of the earliest beat) is left out: its weight is v rounded up, and c stays. No weight is larger:
another has ``v' <= v`` and ``c < 2**q``, so its floor is at most v rounded up. Either way a weight above 1 becomes 1,
and 1 the largest code if the output format does not hold it.

Timing, the output being always ready: a beat is accepted in every cycle that offers one. If the last beat of row j is
accepted in cycle ``C[j]``, its first weights stand at the output in cycle
``S[j] = max(C[j] + latency_cycles, S[j-1] + beats[j-1])``, and the others follow, one beat a cycle.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from accel.errors import InputError
from accel.numerics import FixedPoint, LinearTable, Overflow, Rounding, reciprocal_table
from accel.numerics.tables import newton_reciprocal_error
from accel.pipelining import search_cycles
from accel.softmax_rows import PowerRows, Quality, weight_error

__all__ = ["SOFTMAX_ACTIONS", "SoftmaxUnit", "check_weights"]

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


def check_weights(target: FixedPoint) -> None:
    """Check a format of weights, which lie in [0, 1].

    Raises
    ------
    InputError
        It has not 2 to 24 fraction bits, or does not hold the weights.
    """
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


@dataclass(frozen=True, kw_only=True)
class SoftmaxUnit(PowerRows):
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
        Segments of the 2**-g table, a power of two from 1 to 4096, with fewer bits than its argument.
    keep_row_sum : bool
        Carry what a weight loses to the next, so that a row sums to 1 within a few steps; the rounding of
        ``output_format`` then has no say. Equal scores may get weights one step apart.

    Raises
    ------
    InputError
        A parameter is out of range.
    """

    output_format: FixedPoint
    keep_row_sum: bool = True

    name: ClassVar[str] = "softmax"
    summary: ClassVar[str] = "Single-pass softmax"

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every parameter."""
        check_weights(self.output_format)
        super().__post_init__()

    @property
    def mantissa_fraction_bits(self) -> int:
        """Fraction bits m of the scaled distance t and of the mantissa w: one more than the weights have."""
        return self.output_format.fraction_bits + 1

    @property
    def reciprocal_fraction_bits(self) -> int:
        """Fraction bits r of the normalised sum and of its reciprocal."""
        return self.output_format.fraction_bits + 1

    @property
    def sum_drop_bits(self) -> int:
        """Low bits of the sum that the reciprocal does not need: below any leading 1, r and 3 bits remain."""
        return max(0, self.sum_fraction_bits - self.sum_head_bits - self.reciprocal_fraction_bits - 3)

    @property
    def search_cycles(self) -> int:
        """Cycles in which the leading 1 of V is found."""
        return search_cycles(self.sum_bits - self.sum_drop_bits)

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
    def least_shift(self) -> int:
        """Smallest z of step 6, as ``e + sum_drop_bits`` is at least ``s - sum_head_bits``."""
        return (
            self.mantissa_fraction_bits
            + self.reciprocal_fraction_bits
            - self.output_format.fraction_bits
            - self.sum_head_bits
        )

    @property
    def residue_bits(self) -> int:
        """Fraction bits q of the carried rest: N truncations to them lose at most four steps of the output."""
        return max(2, (self.capacity - 1).bit_length() - 2)

    @property
    def product_cycles(self) -> int:
        """Cycles of the product of step 6."""
        return 1

    @property
    def latency_cycles(self) -> int:
        """Cycles from accepting a row's last beat to its first weights at the output, the output being idle and ready.

        28 for one lane, a small table and a sum of at most 32 bits. More lanes add one register stage for each factor
        of four in the tree that sums a beat.
        """
        return 21 + self.power_cycles + self.search_cycles + self.tree_stages

    @property
    def reciprocal_error(self) -> float:
        """Bound on the relative error of 1/sum by step 5."""
        dropped = 2.0 ** -(self.reciprocal_fraction_bits + 3) if self.sum_drop_bits else 0.0
        return (1 + newton_reciprocal_error(self.reciprocal, self.reciprocal_fraction_bits)) / (1 - dropped) - 1

    @property
    def sum_error(self) -> float:
        """Bound on the relative error of a row's sum by what truncation loses, and of its reciprocal."""
        lost = self.lost_share
        return (1 + self.reciprocal_error) / (1 - lost) - 1 if lost < 1 else 1.0

    @property
    def max_error(self) -> float:
        """Bound on the distance of any weight p from the exact softmax of the quantized scores.

        ``accel.softmax_rows.weight_error`` bounds what it is before it is rounded, from ``scale_error``, ``term_error``
        and ``sum_error``. The output then loses less than one step: rounded alone to nearest, half a step; carried,
        ``v + c - c'`` with both rests below one step; a weight 1 that saturates, one step.
        """
        return min(1.0, weight_error(self.scale_error, self.term_error, self.sum_error) + self.output_format.resolution)

    @property
    def row_sum_error(self) -> float:
        """Bound on the distance of the sum of any row from 1.

        The computed exponentials, multiplied by the computed reciprocal, sum to 1 within ``sum_error``. With
        ``keep_row_sum`` each lane ends within half a step of what went in; the largest weight is rounded up by less
        than a step, or loses a step where it saturates; and N truncations lose less than N steps of the rest. Else each
        of N weights loses its own rounding.
        """
        step = self.output_format.resolution
        if self.keep_row_sum:
            loose = self.lanes / 2 + 1 + self.capacity * 2.0**-self.residue_bits
        else:
            loose = 1 + self.capacity * (1.0 if self.output_format.rounding is Rounding.TRUNCATE else 0.5)
        return self.sum_error + loose * step

    @property
    def quality(self) -> Quality:
        """What holds for every row."""
        return Quality(
            max_error=self.max_error,
            row_sum_error=self.row_sum_error,
            argmax="no weight is above that of the first score with the largest computed exponential",
        )
