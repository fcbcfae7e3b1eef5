"""The contract of the functions of a positive integer that work on its mantissa: 1 / sqrt(v) and log2(v).

Hardware (``rtl.mantissa``) and golden model (``sim.golden.mantissa``) are two independent readings of this page. For a
value v of ``value_bits`` bits, all quantities integers, ``rnd`` rounding half up:

1. ``e = floor(log2(v))``, ``f = min(rnd(v / 2**(e - r)), 2**(r + 1) - 1)`` with ``r = fraction_bits``: v is
   ``f * 2**(e - r)`` but for rounding, and ``u = f - 2**r`` has r bits.
2. ``V`` is the value of ``table`` (a ``SegmentTable``) at u; 1 / sqrt(v) reads part ``e mod 2``, log2(v) part 0. The
   words of part 1 follow those of part 0. V has ``table.value_fraction_bits`` fraction bits.
3. ``y = rnd(V / 2**(value fraction bits - k))`` with ``k = result_fraction_bits``.

Then ``log2(v) = e + y / 2**k`` and ``1 / sqrt(v) = y / 2**k / 2**floor(e / 2)``. For v = 0 the result means nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from accel.checks import check_known, check_ranges
from accel.errors import InputError
from accel.numerics import Rounding
from accel.numerics.segments import Corridor, SegmentTable, smallest_table
from accel.pipelining import search_cycles

__all__ = ["MANTISSA_FUNCTIONS", "MantissaUnit"]

MANTISSA_FUNCTIONS: Mapping[str, tuple[Callable[[NDArray[np.float64]], NDArray[np.float64]], ...]] = {
    "rsqrt": (lambda f: 1 / np.sqrt(f), lambda f: 1 / np.sqrt(2 * f)),
    "log2": (np.log2,),
}
"""What each part of the table holds, for a mantissa in [1, 2)."""

STEPS_IN_ERROR = 16


@dataclass(frozen=True, kw_only=True)
class MantissaUnit:
    """Parameters of a mantissa function and everything that follows from them.

    Parameters
    ----------
    function : str
        ``rsqrt`` or ``log2``.
    value_bits : int
        Width of the value; 2 to 62, and more than ``fraction_bits``.
    fraction_bits : int
        Fraction bits r of the mantissa; 4 to 18.
    result_fraction_bits : int
        Fraction bits k of the result; 2 to 22.
    max_error : float
        Largest distance of y from the function of the rounded mantissa; at least half a step of the result, and more to
        leave room for a table.

    Raises
    ------
    InputError
        A parameter is out of range, or no table keeps ``max_error``.
    """

    function: str
    value_bits: int
    fraction_bits: int
    result_fraction_bits: int
    max_error: float

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every parameter, and that there is a table."""
        check_known(self.function, MANTISSA_FUNCTIONS, "function of a mantissa")
        least = 2.0 ** -(self.result_fraction_bits + 1)
        check_ranges(
            self,
            (
                ("fraction_bits", 4, 18),
                ("value_bits", self.fraction_bits + 1, 62),
                ("result_fraction_bits", 2, 22),
                ("max_error", least, 2.0**-3),
            ),
        )
        if _table(self.function, self.fraction_bits, self.result_fraction_bits, self.max_error) is None:
            raise InputError(
                f"max_error {self.max_error} must leave room beside the rounding of the result for a table, "
                "but does not",
                hint="use one more of result_fraction_bits",
                field=("max_error",),
            )

    @property
    def table(self) -> SegmentTable:
        """The smallest table that keeps ``max_error``."""
        found = _table(self.function, self.fraction_bits, self.result_fraction_bits, self.max_error)
        assert found is not None, "the description was checked"
        return found

    @property
    def parts(self) -> int:
        """Parts of the table."""
        return len(MANTISSA_FUNCTIONS[self.function])

    @cached_property
    def worst_error(self) -> float:
        """Largest distance of y from the function of the rounded mantissa, found by trying every mantissa."""
        table, worst = self.table, 0.0
        code = np.arange(1 << self.fraction_bits)
        shift = table.value_fraction_bits - self.result_fraction_bits
        for part, function in enumerate(MANTISSA_FUNCTIONS[self.function]):
            value = table.evaluate(code + (sum(table.parts[:part]) << table.low_bits))
            rounded = (value + (1 << shift >> 1)) >> shift
            exact = function(_mantissas(self.fraction_bits))
            worst = max(worst, float(np.abs(rounded * 2.0**-self.result_fraction_bits - exact).max()))
        return worst

    @property
    def max_result_error(self) -> float:
        """Bound on the error of the result for any v: absolute for log2, relative for 1 / sqrt.

        Rounding the mantissa moves it by at most half a step, and so by a factor of at most 1 + 2**-(r + 1); where it
        must not reach 2, by at most a whole step of a number near 2, which is no more. log2 then moves by at most
        2**-(r + 1) / ln(2), 1 / sqrt by a factor of at most 1 + 2**-(r + 2) / (1 - 2**-(r + 1)). And y is at least 1/2
        less its error.
        """
        step = 2.0 ** -(self.fraction_bits + 1) if self.value_bits > self.fraction_bits + 1 else 0.0
        if self.function == "log2":
            return self.worst_error + step / (1 - step) / math.log(2)
        return (1 + 2 * self.worst_error) * (1 + step / 2 / (1 - step)) - 1

    @property
    def search_cycles(self) -> int:
        """Cycles in which the leading 1 is found."""
        return search_cycles(self.value_bits)

    @property
    def latency_cycles(self) -> int:
        """Cycles from a value to its result: 3 or 4 to normalise, the polynomial, 1 to round."""
        return self.search_cycles + 2 + (1 + 2 * self.table.degree) + 1

    @property
    def interval_cycles(self) -> int:
        """Cycles between two values."""
        return 1


def _mantissas(fraction_bits: int) -> NDArray[np.float64]:
    """Return all mantissas from 1 up to below 2."""
    return np.ldexp(np.arange(1 << fraction_bits, 2 << fraction_bits, dtype=np.float64), -fraction_bits)


@lru_cache(maxsize=64)
def _table(function: str, fraction_bits: int, result_fraction_bits: int, max_error: float) -> SegmentTable | None:
    mantissa = _mantissas(fraction_bits)
    scale = 2.0**result_fraction_bits
    parts = []
    for exact in MANTISSA_FUNCTIONS[function]:
        target = exact(mantissa)
        corridor = Corridor(
            lowest=np.ceil((target - max_error) * scale).astype(np.int64),
            highest=np.floor((target + max_error) * scale).astype(np.int64),
            base=np.zeros(len(mantissa), np.int64),
            base_fraction_bits=0,
            fraction_bits=result_fraction_bits,
            sign=1,
            rounding=Rounding.NEAREST_UP,
        )
        parts.append([corridor])
    finest = math.ceil(math.log2(STEPS_IN_ERROR / max_error))
    return smallest_table(parts, degrees=(1, 2), fraction_bits=range(1, finest + 1), whole=True)
