"""The contracts of attention weights that need no row: sigmoid attention and ReLU attention.

Sigmoid attention: ``sigmoid(x + b)`` with ``b = -ln(n)`` for rows of n scores (Ramapuram et al., arXiv 2409.04431).
ReLU attention: ``relu(x) / n`` (Wortsman et al., arXiv 2309.08586). No maximum, no sum, no second pass; the weights of
a row do not sum to 1, and the parts of a row may be taken in any order. For a score code x, all quantities integers:

1. ``t = x + bias_code``, one bit wider than x, with ``bias_code = rnd(bias * 2**(input fraction))``: like the scores,
   the bias is a code, and the errors below are those of the quantised one.
2. ``a = max(t, 0)`` with the fraction bits of the scores; or a is the result of ``activation`` (an ``ActivationUnit``
   for the sigmoid) for t, with one fraction bit more than the weights have.
3. The weight is ``a * factor / 2**factor_fraction_bits`` with a's fraction bits, rounded and fitted by the output
   format: ``factor = rnd(2**factor_fraction_bits / divisor)``. Invalid lanes give 0.

Timing, the output being always ready: a beat is accepted in every cycle that offers one, and stands at the output
``latency_cycles`` later. Rows are only counted: one of more than ``max_beats`` beats is closed as in all the family.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from accel.activation_unit import ActivationUnit, TableShape
from accel.checks import check_range
from accel.errors import InputError
from accel.numerics import FixedPoint, Overflow, Rounding
from accel.pipelining import operand_chunks, product_cycles
from accel.softmax_rows import Quality, ScoreRows
from accel.softmax_unit import check_weights

__all__ = ["ElementwiseUnit", "ReluAttentionUnit", "SigmoidAttentionUnit"]

FACTOR_BITS = 17
"""Bits of the constant product: with the sign an operand of an 18-bit multiplier."""


@dataclass(frozen=True, kw_only=True)
class ElementwiseUnit(ScoreRows):
    """Parameters that both have in common.

    Parameters
    ----------
    output_format : FixedPoint
        Of the weights.
    bias : float
        Added to each score; its code must be one of the scores' format.
    divisor : float
        By which results are divided, 1 to 65536: for example n or its square root.

    Raises
    ------
    InputError
        A parameter is out of range.
    """

    output_format: FixedPoint
    bias: float = 0.0
    divisor: float = 1.0

    name: ClassVar[str]
    summary: ClassVar[str]

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every parameter."""
        super().__post_init__()
        source = self.input_format
        if not source.signed:
            raise InputError(
                f"input_format must be signed, not {source}",
                hint=f"use s{source.width_bits + 1}f{source.fraction_bits}",
                field=("input_format", "signed"),
            )
        check_range(("divisor",), self.divisor, 1, 65536)
        check_range(("bias",), self.bias, source.min_value, source.max_value)

    @property
    def bias_code(self) -> int:
        """The bias in steps of the scores, rounded to nearest."""
        return math.floor(math.ldexp(self.bias, self.input_format.fraction_bits) + 0.5)

    @property
    def sum_format(self) -> FixedPoint:
        """Format of t: of the scores with one bit more, so that no sum overflows."""
        source = self.input_format
        return FixedPoint(
            signed=True,
            width_bits=source.width_bits + 1,
            fraction_bits=source.fraction_bits,
            rounding=source.rounding,
            overflow=Overflow.SATURATE,
        )

    @property
    def result_fraction_bits(self) -> int:
        """Fraction bits of a."""
        raise NotImplementedError

    @property
    def largest_result(self) -> int:
        """Largest a."""
        raise NotImplementedError

    @property
    def function_cycles(self) -> int:
        """Cycles of step 2."""
        raise NotImplementedError

    @property
    def factor_fraction_bits(self) -> int:
        """Fraction bits of the factor: FACTOR_BITS significant ones, and as many as the output needs."""
        significant = FACTOR_BITS - 1 + math.ceil(math.log2(self.divisor))
        return max(significant, self.output_format.fraction_bits - self.result_fraction_bits)

    @property
    def factor(self) -> int:
        """1 / divisor as a code."""
        return math.floor(math.ldexp(1 / self.divisor, self.factor_fraction_bits) + 0.5)

    @property
    def factor_error(self) -> float:
        """How far the factor is from 1 / divisor."""
        return abs(math.ldexp(self.factor, -self.factor_fraction_bits) - 1 / self.divisor)

    @property
    def multiplies(self) -> bool:
        """Whether step 3 needs a product: a power of two is a shift."""
        return self.factor.bit_count() != 1

    @property
    def product_cycles(self) -> int:
        """Cycles of the product of step 3."""
        if not self.multiplies:
            return 1
        bits = (self.largest_result.bit_length(), self.factor.bit_length())
        return product_cycles(*(operand_chunks(each, signed=False) for each in bits))

    @property
    def latency_cycles(self) -> int:
        """Cycles from accepting a beat to its weights, the output being idle and ready."""
        return 4 + self.function_cycles + self.product_cycles

    @property
    def max_error(self) -> float:
        """Bound on the distance of a weight from the exact one."""
        raise NotImplementedError

    @property
    def rounding_error(self) -> float:
        """Bound on what the output's rounding loses."""
        return self.output_format.resolution * (1.0 if self.output_format.rounding is Rounding.TRUNCATE else 0.5)


@dataclass(frozen=True, kw_only=True)
class ReluAttentionUnit(ElementwiseUnit):
    """Parameters of the ReLU attention weights: those of ``ElementwiseUnit``.

    Parameters
    ----------
    output_format : FixedPoint
        Of the weights: 0 to 24 fraction bits; overflow ``saturate``, unless all weights fit.

    Raises
    ------
    InputError
        A parameter is out of range.
    """

    name: ClassVar[str] = "relu-attention"
    summary: ClassVar[str] = "ReLU attention weights: relu(x + bias) / divisor, each score by itself"

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every parameter."""
        super().__post_init__()
        target = self.output_format
        check_range(("output_format", "fraction_bits"), target.fraction_bits, 0, 24)
        check_range(("output_format", "width_bits"), target.width_bits, 2, 40)
        largest = math.ldexp(self.largest_result, -self.result_fraction_bits) / self.divisor
        if target.overflow is not Overflow.SATURATE and largest + target.resolution > target.max_value:
            raise InputError(
                f"output_format must hold {largest:.6g} or saturate, but ends at {target.max_value} "
                f"and has overflow '{target.overflow}'",
                hint="use overflow 'saturate' or more bits",
                field=("output_format", "overflow"),
            )

    @property
    def result_fraction_bits(self) -> int:
        """Fraction bits of a: those of the scores."""
        return self.input_format.fraction_bits

    @property
    def largest_result(self) -> int:
        """Largest a; at least 1."""
        return max(1, self.input_format.max_code + self.bias_code)

    @property
    def function_cycles(self) -> int:
        """Cycles of step 2: one."""
        return 1

    @property
    def max_error(self) -> float:
        """Bound on the distance of a weight from ``relu(x + b) / divisor`` in the range of the output."""
        return math.ldexp(self.largest_result, -self.result_fraction_bits) * self.factor_error + self.rounding_error

    @property
    def quality(self) -> Quality:
        """What holds for every row; the exact sum is that of the exact weights."""
        return Quality(
            max_error=self.max_error,
            row_sum_error=self.capacity * self.max_error,
            argmax="no weight is above that of the largest score",
        )


@dataclass(frozen=True, kw_only=True)
class SigmoidAttentionUnit(ElementwiseUnit):
    """Parameters of the sigmoid attention weights: those of ``ElementwiseUnit``, and the error of the sigmoid.

    Parameters
    ----------
    input_format : FixedPoint
        Of the scores: signed, 3 to 17 bits, 0 to 17 fraction bits.
    output_format : FixedPoint
        Of the weights, as that of ``SoftmaxUnit``, with 2 to 20 fraction bits.
    function_error : float
        Largest error of the sigmoid, before it is divided and rounded: at least half a step of a.
    shape : TableShape, optional
        Shape of its table; if absent, the one with the fewest ROM bits is searched, which takes seconds.

    Raises
    ------
    InputError
        A parameter is out of range, or no table keeps ``function_error``.
    """

    function_error: float = 2.0**-15
    shape: TableShape | None = None

    name: ClassVar[str] = "sigmoid-attention"
    summary: ClassVar[str] = "Sigmoid attention weights: sigmoid(x + bias) / divisor, each score by itself"

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every parameter, and find the table."""
        check_weights(self.output_format)
        super().__post_init__()
        check_range(("output_format", "fraction_bits"), self.output_format.fraction_bits, 2, 20)
        check_range(("input_format", "width_bits"), self.input_format.width_bits, 3, 17)
        check_range(("input_format", "fraction_bits"), self.input_format.fraction_bits, 0, 17)
        check_range(("function_error",), self.function_error, 2.0 ** -(self.result_fraction_bits + 1), 0.125)
        if self.activation.table is None:
            raise AssertionError("a table is found or an error raised")

    @property
    def result_fraction_bits(self) -> int:
        """Fraction bits of a: one more than the weights have."""
        return self.output_format.fraction_bits + 1

    @cached_property
    def activation(self) -> ActivationUnit:
        """The sigmoid of t."""
        bits = self.result_fraction_bits
        target = FixedPoint(
            signed=False,
            width_bits=bits + 1,
            fraction_bits=bits,
            rounding=Rounding.NEAREST_UP,
            overflow=Overflow.SATURATE,
        )
        return ActivationUnit(
            function="sigmoid",
            max_error=self.function_error,
            lanes=1,
            input_format=self.sum_format,
            output_format=target,
            shape=self.shape,
        )

    @property
    def largest_result(self) -> int:
        """Largest a, over every t."""
        return int(self.activation.results.max())

    @property
    def function_cycles(self) -> int:
        """Cycles of step 2: those of the activation without its queue."""
        return self.activation.latency_cycles - 1

    @property
    def max_error(self) -> float:
        """Bound on the distance of a weight from ``sigmoid(x + b) / divisor``.

        The sigmoid's error, found by trying every t; the factor's; the last rounding; and a weight 1 that saturates.
        """
        factor = math.ldexp(self.factor, -self.factor_fraction_bits)
        weight = self.activation.worst_error * factor + self.factor_error + self.rounding_error
        top = 1.0 / self.divisor - self.output_format.max_value
        return max(weight, top + weight) if top > 0 else weight

    @property
    def quality(self) -> Quality:
        """What holds for every row; the exact sum is that of the exact weights."""
        return Quality(
            max_error=self.max_error,
            row_sum_error=self.capacity * self.max_error,
            argmax=f"no weight is above that of the largest score by more than {2 * self.max_error:.3g}",
        )
