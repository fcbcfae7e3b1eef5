"""The contract of the normalisation units LayerNorm and RMSNorm: parameters, derived widths, arithmetic bit by bit.

Hardware (``rtl.norm``) and golden model (``sim.golden.norm``) are two independent readings of this page.

The variance as the difference of two means, E[x^2] - E[x]^2, is said to cancel: what is lost are the digits that were
rounded away before. Here nothing is rounded before. Multiplied by n^2, variance and epsilon are an integer

    D = n sum(x^2) - (sum x)^2 + n^2 epsilon,    and    (x - mean) / sqrt(variance + epsilon) = (n x - sum x) / sqrt(D),

so one pass over the row, with exact integer sums and without any division, gives both statistics exactly. For a row of
n inputs x, all quantities integers:

1. ``S = sum(x)``, but 0 for ``rmsnorm``; ``Q = sum(x**2)``.
2. ``D = n * Q - S**2 + n**2 * epsilon_code``, at least 1, in ``rsqrt.value_bits`` bits.
3. ``e, y`` of D by ``rsqrt`` (a ``MantissaUnit``): ``1 / sqrt(D) = y / 2**(k + floor(e / 2))`` with k =
   ``rsqrt.result_fraction_bits``.
4. Each result is ``(n * x - S) * y / 2**(k + floor(e / 2))``, rounded and fitted by the output format. Invalid lanes
   give 0, and so does a row that has none but invalid lanes.

Scale and shift of each feature (gamma and beta) are left to the next linear layer, into whose weights and bias they
fold without error: ``W (gamma * y + beta) + b = (W gamma) y + (W beta + b)``.

Timing, the output being always ready: a beat is accepted in every cycle that offers one. If the last beat of row j is
accepted in cycle ``C[j]``, its first results stand at the output in cycle
``S[j] = max(C[j] + latency_cycles, S[j-1] + beats[j-1])``, and the others follow, one beat a cycle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from accel.checks import check_known, check_ranges, check_signed
from accel.errors import InputError
from accel.mantissa_unit import MantissaUnit
from accel.numerics import FixedPoint, Rounding
from accel.pipelining import operand_chunks, product_cycles

__all__ = ["NORMS", "NormUnit"]

NORMS = {
    "layernorm": "(x - mean) / sqrt(variance + epsilon) of a row",
    "rmsnorm": "x / sqrt(mean of x^2 + epsilon) of a row",
}
"""The functions, and what they are."""


@dataclass(frozen=True, kw_only=True)
class NormUnit:
    """Parameters of a normalisation unit and everything that follows from them.

    Parameters
    ----------
    function : str
        ``layernorm`` or ``rmsnorm``.
    max_length : int
        Longest row, N; 1 to 16384. The unit counts beats, so a row may fill its last beat (``capacity``).
    lanes : int
        Numbers in a beat; 1 to 64. One beat is taken a cycle.
    input_format : FixedPoint
        Of x: signed, 4 to 18 bits, -8 to 18 fraction bits.
    output_format : FixedPoint
        Of the results: signed, 2 to 16 fraction bits, at most 24 bits.
    epsilon : float
        Added to the variance, 0 or more; used as ``epsilon_code`` squared steps of the input.

    Raises
    ------
    InputError
        A parameter is out of range.
    """

    function: str
    max_length: int
    lanes: int
    input_format: FixedPoint
    output_format: FixedPoint
    epsilon: float = 1e-5

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every parameter."""
        check_known(self.function, NORMS, "normalisation")
        check_ranges(
            self,
            (
                ("max_length", 1, 16384),
                ("lanes", 1, 64),
                ("input_format.width_bits", 4, 18),
                ("input_format.fraction_bits", -8, 18),
                ("output_format.fraction_bits", 2, 16),
                ("output_format.width_bits", 4, 24),
                ("epsilon", 0.0, 1.0),
            ),
        )
        check_signed("input_format", self.input_format)
        check_signed("output_format", self.output_format)
        if self._denominator_bits > 60:
            raise InputError(
                f"the denominator must fit in 60 bits, but {self.max_length} inputs of {self.input_format.width_bits} "
                f"bits need {self._denominator_bits}",
                hint="use narrower inputs or shorter rows",
                field=("max_length",),
            )

    @property
    def max_beats(self) -> int:
        """Beats of the longest row."""
        return -(-self.max_length // self.lanes)

    @property
    def capacity(self) -> int:
        """Numbers of the longest row that the unit takes: ``max_length`` rounded up to whole beats."""
        return self.max_beats * self.lanes

    @property
    def centred(self) -> bool:
        """Whether the mean is taken off."""
        return self.function == "layernorm"

    @property
    def epsilon_code(self) -> int:
        """Epsilon in squared steps of the input, at least 1: a row of equal inputs must not divide by 0."""
        return max(1, round(math.ldexp(self.epsilon, 2 * self.input_format.fraction_bits)))

    @property
    def sum_bits(self) -> int:
        """Width of S, signed."""
        return 1 + (self.capacity * -self.input_format.min_code).bit_length()

    @property
    def square_sum_bits(self) -> int:
        """Width of Q."""
        return (self.capacity * self.input_format.min_code**2).bit_length()

    @property
    def count_bits(self) -> int:
        """Width of n."""
        return self.capacity.bit_length()

    @property
    def centre_bits(self) -> int:
        """Width of ``n * x - S``, signed: at most ``2 n`` times the largest magnitude."""
        return 1 + (2 * self.capacity * -self.input_format.min_code).bit_length()

    @property
    def _denominator_bits(self) -> int:
        return int(self.capacity**2 * (self.input_format.min_code**2 + self.epsilon_code)).bit_length()

    @property
    def largest_result(self) -> float:
        """Largest magnitude of a result: below the root of the row's length, and in the range of the output."""
        return min(math.sqrt(self.capacity), -self.output_format.min_value)

    @cached_property
    def rsqrt(self) -> MantissaUnit:
        """The 1 / sqrt unit, whose error costs the largest result about half a step of the output."""
        step = self.output_format.resolution / max(1.0, self.largest_result)
        max_error = max(step / 4, 2.0**-21)
        fraction_bits = min(max(math.ceil(-math.log2(step)), 4), 18)
        return MantissaUnit(
            function="rsqrt",
            value_bits=max(self._denominator_bits, fraction_bits + 1),
            fraction_bits=fraction_bits,
            result_fraction_bits=math.ceil(math.log2(1.5 / max_error)),
            max_error=max_error,
        )

    @property
    def denominator_cycles(self) -> int:
        """Cycles from the sums of a row to D: the longest of three products, and two sums."""
        count, squares = (operand_chunks(bits, signed=False) for bits in (self.count_bits, self.square_sum_bits))
        total = operand_chunks(self.sum_bits, signed=True)
        floor = (
            operand_chunks(2 * self.count_bits, signed=False),
            operand_chunks(self.epsilon_code.bit_length(), signed=False),
        )
        return 2 + max(
            product_cycles(count, squares),
            product_cycles(total, total) if self.centred else 0,
            product_cycles(*floor),
        )

    @property
    def centred_product_cycles(self) -> int:
        """Cycles of the product of ``n * x - S`` and y."""
        return product_cycles(
            operand_chunks(self.centre_bits, signed=True),
            operand_chunks(self.rsqrt.result_fraction_bits + 1, signed=False),
        )

    @property
    def scale_cycles(self) -> int:
        """Cycles from a buffered beat to its results: 3 for ``n * x - S``, the product, 4 to shift and round, 1."""
        return 8 + self.centred_product_cycles

    @property
    def latency_cycles(self) -> int:
        """Cycles from accepting a row's last beat to its first results at the output, the output being idle and ready.

        6 beside denominator, 1 / sqrt and products; more lanes add a stage for each factor of four in the adder trees.
        """
        tree = ((self.lanes - 1).bit_length() + 1) // 2
        return 6 + tree + self.denominator_cycles + self.rsqrt.latency_cycles + self.scale_cycles

    @property
    def interval_cycles(self) -> int:
        """Cycles between two accepted beats, the output being ready."""
        return 1

    @property
    def max_error(self) -> float:
        """Bound on the distance of any result from the exact function of the inputs, in the range of the output.

        The sums and D are exact; so only 1 / sqrt(D), relatively, and the last rounding count. The exact function has
        ``epsilon_code`` in place of epsilon.
        """
        step = self.output_format.resolution / (1 if self.output_format.rounding is Rounding.TRUNCATE else 2)
        return self.largest_result * self.rsqrt.max_result_error + step
