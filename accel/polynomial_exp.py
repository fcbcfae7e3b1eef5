"""Exponentials by range reduction and a short polynomial on a PE that multiplies, adds and compares.

With ``x`` in units of the base's logarithm, ``n`` the whole number next to ``x``, and ``f = x - n`` (base e: the rest
after ``n`` times the logarithm of 2), the exponential is ``2**n`` times a polynomial in ``f``. Every step rounds.

* *Clamp.* Below ``LEAST`` the result is 0. One comparison.
* *Reduction.* Adding ``1.5 * 2**b`` (``b`` fraction bits of the format) leaves ``n`` in the low bits; taking it away
  again gives ``n`` as a number, and one more subtraction ``f``. Base e needs ``x / log(2)`` in the first and
  ``n * log(2)`` in the last of these, which are then multiply-accumulates.
* *Polynomial.* Horner's rule, one multiply-accumulate for each degree.
* *Scale.* The low bits that hold ``n`` are wired to the exponent of a factor; one multiplication.

Base 2 needs no factor ``1 / log(2)``: that goes into the scaling of Q (``q / sqrt(E)`` becomes
``q * log2(e) / sqrt(E)``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accel.arch import Operator
from accel.arithmetic import Arithmetic, Array
from accel.errors import InputError

__all__ = ["LEAST", "Base", "Counting", "PolynomialExp"]

LEAST = -64.0
"""Exponent of 2 below which the result is 0; below it a bfloat16 plus ``1.5 * 2**7`` has no room for a whole number."""

MOST_DEGREE = 8

_EXCHANGES = 50
_GRID = 20_001


class Base(StrEnum):
    """What is raised to a power."""

    TWO = "2"
    """The polynomial has the least largest relative error on -1/2 to 1/2."""
    E = "e"
    """The polynomial is Taylor's, as in FuseMax (arXiv 2406.10491v3, section V)."""


class Counting(StrEnum):
    """Which steps take a cycle of a PE and are charged as actions."""

    PAPER = "paper"
    """The polynomial and the final multiplication, as FuseMax counts its 6; reduction is not counted."""
    ALL = "all"
    """Every step."""


@dataclass(frozen=True, kw_only=True)
class PolynomialExp:
    """An exponential by a polynomial.

    Parameters
    ----------
    base : Base
        What is raised to a power.
    degree : int
        Degree of the polynomial, 1 to 8.

    Raises
    ------
    InputError
        The degree is out of range.
    """

    base: Base
    degree: int

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check the degree."""
        if not 1 <= self.degree <= MOST_DEGREE:
            raise InputError(f"degree must be 1 to {MOST_DEGREE}, not {self.degree}", field=("degree",))

    @property
    def name(self) -> str:
        """What tables call it."""
        return f"{self.base.value}^x, degree {self.degree}"

    def operator(self, counting: Counting) -> Operator:
        """Return cycles and actions of a PE for one exponential."""
        macs = self.degree + 1
        if counting is Counting.PAPER:
            return Operator(cycles=macs, actions={"mac": macs})
        reduction = {"mac": 0, "add": 3} if self.base is Base.TWO else {"mac": 2, "add": 1}
        actions = {"mac": macs + reduction["mac"], "add": reduction["add"], "max": 1}
        return Operator(cycles=sum(actions.values()), actions=actions)

    @cached_property
    def coefficients(self) -> tuple[float, ...]:
        """Coefficients of the polynomial, that of the constant first."""
        if self.base is Base.E:
            return tuple(1 / math.factorial(power) for power in range(self.degree + 1))
        return tuple(float(each) for each in _minimax(self.degree))

    @cached_property
    def polynomial_error(self) -> float:
        """Largest relative error of the polynomial in exact arithmetic over all ``f``."""
        whole = 1.0 if self.base is Base.TWO else math.log(2)
        f = np.linspace(-whole / 2, whole / 2, _GRID)
        exact = np.exp2(f) if self.base is Base.TWO else np.exp(f)
        return float(np.abs(np.polynomial.polynomial.polyval(f, self.coefficients) / exact - 1).max())

    def function(self, arithmetic: Arithmetic) -> Callable[[Array], Array]:
        """Return the exponential in an arithmetic: a function of ndarray[...], in ``arithmetic.storage``.

        The reduction of base e is exact but for the rounding of ``f``: what it costs to be so is charged nowhere, which
        favours FuseMax's exponential.
        """
        rounded = arithmetic.operation
        unit = 1.0 if self.base is Base.TWO else math.log(2)

        def exponential(x: Array) -> Array:
            wide = np.maximum(np.asarray(x, dtype=np.float64), LEAST * unit)
            n = np.rint(wide / unit)
            f = rounded(wide - n * unit)
            value = rounded(np.full(f.shape, self.coefficients[-1]))
            for coefficient in self.coefficients[-2::-1]:
                value = rounded(value.astype(np.float64) * f + rounded(coefficient))
            scaled = rounded(value.astype(np.float64) * np.exp2(n))
            return np.asarray(np.where(n <= LEAST, scaled.dtype.type(0), scaled))

        return exponential


def _minimax(degree: int) -> NDArray[np.float64]:
    """Return the polynomial of least largest relative error from 2**f, -1/2 to 1/2, by Remez's exchange."""
    order = np.arange(degree + 2)
    points = -np.cos(order * np.pi / (degree + 1)) / 2
    grid = np.linspace(-0.5, 0.5, _GRID)
    coefficients: NDArray[np.float64] = np.zeros(degree + 1)
    for _ in range(_EXCHANGES):
        rows = [points**power / np.exp2(points) for power in range(degree + 1)]
        solution = np.linalg.solve(np.stack([*rows, (-1.0) ** order], axis=1), np.ones(degree + 2))
        coefficients = np.asarray(solution[:-1], dtype=np.float64)
        error = np.polynomial.polynomial.polyval(grid, coefficients) / np.exp2(grid) - 1
        lobes = np.split(np.arange(grid.size), np.flatnonzero(np.diff(np.sign(error))) + 1)
        if len(lobes) != degree + 2:  # the error is down to rounding
            break
        new = np.array([grid[lobe[np.abs(error[lobe]).argmax()]] for lobe in lobes])
        if np.array_equal(new, points):
            break
        points = new
    return coefficients
