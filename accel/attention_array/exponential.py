"""The exponential of the array: a short sequence of multiply-accumulates, the same in every PE, bit by bit.

For a difference d >= 0 with s fraction bits, w being ``weight_fraction_bits``, D the degree, and all quantities
integers, ``rnd`` rounding half up:

* subtract: ``u = min(rnd(d / 2**(s - w + 2)), 2**(w + 2) - 1)``: d with w - 2 fraction bits, below 16. A negative shift
  is exact.
* scale, one multiply-accumulate: ``T = rnd(u * LOG2E / 2**14)``: d times log2(e) with w fraction bits.
  ``n = floor(T / 2**w)``, ``f = T mod 2**w``.
* D multiply-accumulates: ``y = C[D]``, then ``y = rnd((y * f + C[i] * 2**w) / 2**w)`` for i = D-1 ... 0. Now e**-d is
  ``y * 2**-n`` with w + 1 fraction bits. ``C[0]`` is 1, so a difference of 0 gives exactly 1.

A weight is ``rnd(y / 2**(n + 1))``, with w fraction bits. From 16 upwards all differences are taken as just below 16,
whose weight is 0 for every w that is allowed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from accel.checks import check_ranges

__all__ = ["LOG2E", "LOG2E_FRACTION_BITS", "Exponential"]

LOG2E_FRACTION_BITS = 16
LOG2E: int = round(math.log2(math.e) * 2**LOG2E_FRACTION_BITS)
WHOLE_BITS = 4
"""Bits of a difference above the binary point: e**-16 is below half a step of every weight."""


@dataclass(frozen=True, kw_only=True)
class Exponential:
    """The exponential and what follows from its two parameters.

    Parameters
    ----------
    degree : int
        Degree D of the polynomial, 1 to 6; the sequence takes D + 1 multiply-accumulates.
    weight_fraction_bits : int
        Fraction bits w of a weight, 4 to 15: operands of multiplications then have at most 18 bits.

    Raises
    ------
    InputError
        A parameter is out of range.
    """

    degree: int
    weight_fraction_bits: int

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check both parameters."""
        check_ranges(self, (("degree", 1, 6), ("weight_fraction_bits", 4, 15)))

    @property
    def cycles(self) -> int:
        """Multiply-accumulates of one exponential, one a cycle; the subtraction before them takes one cycle more."""
        return 1 + self.degree

    @property
    def difference_fraction_bits(self) -> int:
        """Fraction bits of u."""
        return self.weight_fraction_bits - 2

    @property
    def difference_bits(self) -> int:
        """Width of u."""
        return self.difference_fraction_bits + WHOLE_BITS

    @property
    def scale_shift(self) -> int:
        """Bits dropped from the product with log2(e)."""
        return self.difference_fraction_bits + LOG2E_FRACTION_BITS - self.weight_fraction_bits

    @property
    def exponent_bits(self) -> int:
        """Width of n."""
        largest = ((1 << self.difference_bits) - 1) * LOG2E + (1 << (self.scale_shift - 1))
        return (largest >> (self.scale_shift + self.weight_fraction_bits)).bit_length()

    @property
    def value_bits(self) -> int:
        """Width of y and of every step before it, signed."""
        return self.weight_fraction_bits + 3

    @cached_property
    def coefficients(self) -> tuple[int, ...]:
        """C[0] to C[D], with w + 1 fraction bits.

        ``2**-f = 1 + f q(f)``; q interpolates at the D Chebyshev nodes of [0, 1], in exact arithmetic after the values
        of the exponential.
        """
        nodes = [(1 - math.cos(math.pi * (2 * index + 1) / (2 * self.degree))) / 2 for index in range(self.degree)]
        points = [Fraction(node) for node in nodes]
        differences = [Fraction(math.expm1(-node * math.log(2.0)) / node) for node in nodes]
        for order in range(1, self.degree):
            for index in range(self.degree - 1, order - 1, -1):
                rise = differences[index] - differences[index - 1]
                differences[index] = rise / (points[index] - points[index - order])
        q = [Fraction(0)] * self.degree
        for point, value in zip(reversed(points), reversed(differences), strict=True):
            q = [value - point * q[0], *(q[at - 1] - point * q[at] for at in range(1, self.degree))]
        one = 1 << (self.weight_fraction_bits + 1)
        return (one, *(round(coefficient * one) for coefficient in q))

    @cached_property
    def polynomial_error(self) -> float:
        """Largest relative error of y over all values of f, rounding included: computed for every one of them."""
        w = self.weight_fraction_bits
        f = np.arange(1 << w, dtype=np.int64)
        y = np.full_like(f, self.coefficients[-1])
        for coefficient in reversed(self.coefficients[:-1]):
            y = (y * f + (coefficient << w) + (1 << (w - 1))) >> w
        return float(
            np.max(np.abs(np.ldexp(y.astype(np.float64), -w - 1) * np.exp2(np.ldexp(f.astype(float), -w)) - 1))
        )

    @property
    def relative_error(self) -> float:
        """Bound on the relative error of ``y * 2**-n`` against e**-d for every d below 16.

        u is off by half a step, which the exponential turns into a factor; so is T; the constant log2(e) is off
        relatively and meets a difference below 16; and the polynomial has its own error.
        """
        constant = abs(LOG2E * 2.0**-LOG2E_FRACTION_BITS / math.log2(math.e) - 1.0) * 2.0**WHOLE_BITS
        rounded = 2.0 ** -(self.difference_fraction_bits + 1) + math.log(2.0) * 2.0 ** -(self.weight_fraction_bits + 1)
        return math.expm1(constant + rounded) + self.polynomial_error * math.exp(constant + rounded)

    @property
    def weight_error(self) -> float:
        """Bound on the part of a weight's error that does not shrink with it.

        Half a step of rounding; and below e**-16, where differences are cut off, its own error and those of later
        corrections, each of which leaves no more than another e**-16 of the one before: less than three in all.
        """
        return 2.0 ** -(self.weight_fraction_bits + 1) + 3 * math.exp(-(2.0**WHOLE_BITS))
