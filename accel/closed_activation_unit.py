"""The contract of the activation units without a table: published stand-ins of one formula, arithmetic bit by bit.

Hardware (``rtl.activation.closed``) and golden model (``sim.golden.closed_activation``) are two readings of this page.

Each stand-in is a straight line on either side of 0, plus or minus a residual of the distance a from 0, which here is

    factor * a**p * d**q    with    d = max(edge - a, 0),    p of 0 and 1, q of 0, 1 and 2.

Hard sigmoid, for example, is ``clip(x / 6 + 1/2, 0, 1)``: 1 for x >= 0 and 0 below, less or plus ``(3 - a) / 6``; and
I-BERT's GELU (arXiv 2101.01321, section 3.4) is ``relu(x) - 0.0722 a (2.5018 - a)**2``. For an input code x with F
fraction bits and G = ``edge_fraction_bits``, all quantities integers:

1. ``a = abs(x)``, as wide as x: the most negative code has a magnitude too, and nothing wraps.
2. ``d = max(edge_code - a * 2**(G - F), 0)``.
3. P is d for q = 1, ``floor(d**2 / 2**G)`` for q = 2. R is P with G fraction bits for p = 0, ``a * P`` with F + G for
   p = 1; ``V = floor(R * factor_code / 2**s)`` has C = ``value_fraction_bits``, s being what remains of the fraction
   bits of R and the ``factor_fraction_bits``. For q = 0 (ReLU) there is no residual and V is 0.
4. ``total = half.slope * x * 2**(C - F) + half.offset * 2**C + half.sign * V``, half being the function's ``positive``
   for x >= 0 and its ``negative`` for x < 0.
5. The result is ``total`` with C fraction bits, rounded and fitted by the output format. Invalid lanes give 0.

The largest distance from the function that it stands for, which is what the unit promises, and from its own formula are
found by trying every input code.

Timing, the output being always ready: a beat is accepted in every cycle that offers one, and stands at the output
``latency_cycles`` later.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accel.activation_unit import ACTIVATIONS, Half
from accel.checks import check_holds, check_known, check_ranges, check_signed
from accel.numerics import FixedPoint
from accel.pipelining import operand_chunks, product_cycles

__all__ = ["CLOSED_ACTIVATIONS", "ClosedActivation", "ClosedActivationUnit"]

Codes = NDArray[np.int64]
Reals = NDArray[np.float64]

GUARD_BITS = 3
"""Fraction bits of the residual below those of the result."""

_RELU = Half(slope=1, offset=0, sign=-1), Half(slope=0, offset=0, sign=-1)
_ONE = Half(slope=0, offset=1, sign=-1), Half(slope=0, offset=0, sign=1)
_BOTH = Half(slope=0, offset=1, sign=-1), Half(slope=0, offset=-1, sign=1)


@dataclass(frozen=True, kw_only=True)
class ClosedActivation:
    """A stand-in that the unit can compute.

    Parameters
    ----------
    name, summary : str
        As users call it; what it is.
    stands_for : str
        The function of ``ACTIVATIONS`` that it replaces.
    formula : callable
        ``formula(x)`` for ndarray[...], float64: the stand-in in real numbers, as it is published.
    halves : tuple of Half
        For x >= 0 and x < 0.
    factor, edge : float
        Of the residual.
    distance_power, edge_power : int
        p and q.
    """

    name: str
    summary: str
    stands_for: str
    formula: Callable[[Reals], Reals]
    halves: tuple[Half, Half]
    factor: float
    edge: float
    distance_power: int
    edge_power: int


def _hard_sigmoid(x: Reals) -> Reals:
    result: Reals = np.clip(x / 6 + 0.5, 0, 1)
    return result


def _integer_gelu(x: Reals) -> Reals:
    """Return I-BERT's GELU: erf as a clipped parabola."""
    a, b = -0.2888, -1.769
    y = x / math.sqrt(2)
    erf = np.sign(y) * (a * (np.minimum(np.abs(y), -b) + b) ** 2 + 1)
    result: Reals = x * (1 + erf) / 2
    return result


CLOSED_ACTIVATIONS: Mapping[str, ClosedActivation] = {
    each.name: each
    for each in (
        ClosedActivation(
            name="gelu-ibert",
            summary="I-BERT's GELU, erf as a clipped parabola",
            stands_for="gelu",
            formula=_integer_gelu,
            halves=_RELU,
            factor=0.2888 / 4,
            edge=1.769 * math.sqrt(2),
            distance_power=1,
            edge_power=2,
        ),
        ClosedActivation(
            name="hard-gelu",
            summary="x clip(1.702 x / 6 + 1/2, 0, 1), quick-gelu with a hard sigmoid",
            stands_for="gelu",
            formula=lambda x: x * _hard_sigmoid(1.702 * x),
            halves=_RELU,
            factor=1.702 / 6,
            edge=3 / 1.702,
            distance_power=1,
            edge_power=1,
        ),
        ClosedActivation(
            name="relu",
            summary="max(x, 0)",
            stands_for="gelu",
            formula=lambda x: np.maximum(x, 0),
            halves=_RELU,
            factor=0.0,
            edge=0.0,
            distance_power=0,
            edge_power=0,
        ),
        ClosedActivation(
            name="hard-swish",
            summary="x clip(x / 6 + 1/2, 0, 1)",
            stands_for="silu",
            formula=lambda x: x * _hard_sigmoid(x),
            halves=_RELU,
            factor=1 / 6,
            edge=3.0,
            distance_power=1,
            edge_power=1,
        ),
        ClosedActivation(
            name="hard-sigmoid",
            summary="clip(x / 6 + 1/2, 0, 1)",
            stands_for="sigmoid",
            formula=_hard_sigmoid,
            halves=_ONE,
            factor=1 / 6,
            edge=3.0,
            distance_power=0,
            edge_power=1,
        ),
        ClosedActivation(
            name="hard-tanh",
            summary="clip(x, -1, 1)",
            stands_for="tanh",
            formula=lambda x: np.clip(x, -1, 1),
            halves=_BOTH,
            factor=1.0,
            edge=1.0,
            distance_power=0,
            edge_power=1,
        ),
    )
}
"""All stand-ins by name."""


@dataclass(frozen=True, kw_only=True)
class ClosedActivationUnit:
    """Parameters of an activation unit without a table, and everything that follows from them.

    Parameters
    ----------
    function : str
        One of ``CLOSED_ACTIVATIONS``.
    lanes : int
        Numbers in a beat; 1 to 64.
    input_format : FixedPoint
        Of x: signed, 4 to 16 bits, 0 to 16 fraction bits.
    output_format : FixedPoint
        Of the result: 1 to 24 fraction bits, at most 40 bits. Unless it saturates, it must hold the function's range.

    Raises
    ------
    InputError
        A parameter is out of range.
    """

    function: str
    lanes: int
    input_format: FixedPoint
    output_format: FixedPoint

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every parameter."""
        check_known(self.function, CLOSED_ACTIVATIONS, "stand-in")
        check_ranges(
            self,
            (
                ("lanes", 1, 64),
                ("input_format.width_bits", 4, 16),
                ("input_format.fraction_bits", 0, 16),
                ("output_format.fraction_bits", 1, 24),
                ("output_format.width_bits", 2, 40),
            ),
        )
        check_signed("input_format", self.input_format)
        low, high = (math.ldexp(total, -self.value_fraction_bits) for total in self.total_range)
        check_holds(self.output_format, low, high)

    @property
    def activation(self) -> ClosedActivation:
        """The stand-in."""
        return CLOSED_ACTIVATIONS[self.function]

    @property
    def codes(self) -> Codes:
        """All input codes from the most negative up."""
        return np.arange(self.input_format.min_code, self.input_format.max_code + 1)

    @property
    def value_fraction_bits(self) -> int:
        """C: fraction bits of V and of the total."""
        return max(self.output_format.fraction_bits + GUARD_BITS, self.input_format.fraction_bits)

    @property
    def edge_fraction_bits(self) -> int:
        """G: fraction bits of d, as many as V has but at most 17 where d is squared or multiplied."""
        return max(min(self.value_fraction_bits, 17), self.input_format.fraction_bits)

    @property
    def edge_code(self) -> int:
        """The edge with G fraction bits."""
        return round(math.ldexp(self.activation.edge, self.edge_fraction_bits))

    @property
    def factor_fraction_bits(self) -> int:
        """Fraction bits of the factor."""
        return self.value_fraction_bits

    @property
    def factor_code(self) -> int:
        """The factor."""
        return round(math.ldexp(self.activation.factor, self.factor_fraction_bits))

    @property
    def residual_shift(self) -> int:
        """Fraction bits of the product that V has not: s."""
        kept = self.edge_fraction_bits + self.activation.distance_power * self.input_format.fraction_bits
        return kept + self.factor_fraction_bits - self.value_fraction_bits

    @cached_property
    def _totals(self) -> Codes:
        form, code, fraction_bits = self.activation, self.codes, self.input_format.fraction_bits
        distance = np.abs(code)
        rest = np.maximum(self.edge_code - (distance << (self.edge_fraction_bits - fraction_bits)), 0)
        power = {0: np.zeros_like(rest), 1: rest, 2: rest * rest >> self.edge_fraction_bits}[form.edge_power]
        product = power * distance if form.distance_power else power
        value = product * self.factor_code >> self.residual_shift
        totals = np.empty_like(code)
        for half, side in zip(form.halves, (code >= 0, code < 0), strict=True):
            line = half.slope * code[side] << (self.value_fraction_bits - fraction_bits)
            totals[side] = line + (half.offset << self.value_fraction_bits) + half.sign * value[side]
        return totals

    @property
    def total_range(self) -> tuple[int, int]:
        """Smallest and largest ``total`` of step 4, over every input code."""
        return int(self._totals.min()), int(self._totals.max())

    @cached_property
    def results(self) -> Codes:
        """All results by the contract, for ``codes``; ndarray[2**width], int64."""
        return self.output_format.convert(self._totals, self.value_fraction_bits)

    def _distance(self, function: Callable[[Reals], Reals]) -> float:
        target = self.output_format
        exact = np.clip(function(self.input_format.to_real(self.codes)), target.min_value, target.max_value)
        return float(np.abs(target.to_real(self.results) - exact).max())

    @cached_property
    def worst_error(self) -> float:
        """Largest distance of any result from the function that it stands for, found by trying every input code."""
        return self._distance(ACTIVATIONS[self.activation.stands_for].exact)

    @cached_property
    def formula_error(self) -> float:
        """Largest distance of any result from the published formula, found by trying every input code."""
        return self._distance(self.activation.formula)

    @property
    def square_cycles(self) -> int:
        """Cycles of ``d**2``."""
        edge = operand_chunks(self.edge_code.bit_length(), signed=False)
        return product_cycles(edge, edge) if self.activation.edge_power == 2 else 0

    @property
    def product_cycles(self) -> int:
        """Cycles of ``a * P``."""
        chunks = (operand_chunks(bits, signed=False) for bits in (self.input_format.width_bits, self.power_bits))
        return product_cycles(*chunks) if self.activation.distance_power else 0

    @property
    def power_bits(self) -> int:
        """Width of P."""
        largest = self.edge_code**2 >> self.edge_fraction_bits if self.activation.edge_power == 2 else self.edge_code
        return max(largest.bit_length(), 1)

    @property
    def factor_cycles(self) -> int:
        """Cycles of ``R * factor_code``."""
        bits = self.power_bits + (self.input_format.width_bits if self.activation.distance_power else 0)
        return product_cycles(
            operand_chunks(bits, signed=False), operand_chunks(max(self.factor_code.bit_length(), 1), signed=False)
        )

    @property
    def residual_cycles(self) -> int:
        """Cycles from a to V; none without a residual."""
        if not self.activation.edge_power:
            return 0
        return 1 + self.square_cycles + self.product_cycles + self.factor_cycles

    @property
    def latency_cycles(self) -> int:
        """Cycles from a beat to its results: 1 for a, the residual, 2 for total and rounding, 1 for the queue."""
        return 1 + self.residual_cycles + 2 + 1

    @property
    def interval_cycles(self) -> int:
        """Cycles between two accepted beats, the output being ready."""
        return 1
