"""The contract of the primitive units: 2^x, e^x, 1/x, 1/sqrt(x) and log2(x) of a stream, arithmetic bit by bit.

Hardware (``rtl.primitive``) and golden model (``sim.golden.primitive``) are two independent readings of this page.

For an input code x with F fraction bits, all quantities integers, A = ``argument_bits``, k the output's fraction bits:

1. A table argument u of A bits, a part p of the table, an exponent i and a base b. For ``exp2`` and ``exp``,
   ``u = t mod 2**A`` and ``i = floor(t / 2**A)`` with b = p = 0, where t is

   * ``x * 2**(A - F)`` for ``exp2``;
   * ``floor(x * multiplier / 2**(F + multiplier_fraction_bits - A))`` for ``exp``: x log2(e).

   For the others ``e = floor(log2(x))``, ``u = x * 2**(A - e) - 2**A`` (what is below the leading 1), ``c = e - F``:

   * ``reciprocal``: ``i = -c``, and b = p = 0;
   * ``rsqrt``: ``p = c mod 2`` and ``i = -floor(c / 2)``, b = 0;
   * ``log2``: ``b = c``, and i = p = 0.

2. i is brought into the range from ``lowest_exponent`` to ``highest_exponent``: beyond, all results are alike.
3. V is the value of ``table`` (a ``SegmentTable``) at u in part p, with C = ``table.value_fraction_bits``; it is from 0
   to below 4. The words of part 1 follow those of part 0.
4. The result is ``b + V * 2**(i - C)``, rounded once and fitted by the output format. For x = 0, ``reciprocal`` and
   ``rsqrt`` give the largest code and ``log2`` the smallest. Invalid lanes give 0.

The table is the one with the fewest ROM bits for which every input code gives a result within ``max_error``; the last
rounding, the shift and saturation are part of that search (``accel.numerics.segments``). To bound it, values that only
small results read are kept within ``SLACK`` times the error of the largest, and a value that no input reads has the
limits of its neighbours that one reads.

Timing, the output being always ready: a beat is accepted in every cycle that offers one, and stands at the output
``latency_cycles`` later.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from accel.activation_unit import MAX_ERROR_RANGE, TableShape
from accel.checks import check_holds, check_known, check_ranges, check_rounding
from accel.errors import InputError
from accel.numerics import FixedPoint, Overflow, round_shift
from accel.numerics.segments import SegmentTable, fixed_table, smallest_table, value_limits
from accel.pipelining import operand_chunks, product_cycles

__all__ = ["PRIMITIVES", "Primitive", "PrimitiveUnit"]

Codes = NDArray[np.int64]
Reals = NDArray[np.float64]

STEPS_IN_ERROR = 16
"""The finest coefficients that are searched have about this many steps in the error that a table value may have."""
FEW_BITS = 10
SLACK = 8
"""Table values that only small results read may be off by no more than this many tightest errors."""


@dataclass(frozen=True, kw_only=True)
class Primitive:
    """A function that the unit can compute.

    Parameters
    ----------
    name, summary : str
        As users call it; what it is.
    exact : callable
        ``exact(x)`` for ndarray[...], float64, in the domain: the function itself.
    of_mantissa : bool
        x is taken apart by its leading 1, and must be positive.
    curves : tuple of callable
        What each part of the table holds, for u / 2**A in [0, 1).
    """

    name: str
    summary: str
    exact: Callable[[Reals], Reals]
    of_mantissa: bool
    curves: tuple[Callable[[Reals], Reals], ...]

    @property
    def parts(self) -> int:
        """Parts of the table."""
        return len(self.curves)


PRIMITIVES: Mapping[str, Primitive] = {
    each.name: each
    for each in (
        Primitive(name="exp2", summary="2^x", exact=np.exp2, of_mantissa=False, curves=(np.exp2,)),
        Primitive(name="exp", summary="e^x", exact=np.exp, of_mantissa=False, curves=(np.exp2,)),
        Primitive(
            name="reciprocal",
            summary="1 / x",
            exact=lambda x: 1 / x,
            of_mantissa=True,
            curves=(lambda u: 1 / (1 + u),),
        ),
        Primitive(
            name="rsqrt",
            summary="1 / sqrt(x)",
            exact=lambda x: 1 / np.sqrt(x),
            of_mantissa=True,
            curves=(lambda u: 1 / np.sqrt(1 + u), lambda u: 1 / np.sqrt(2 + 2 * u)),
        ),
        Primitive(name="log2", summary="log2(x)", exact=np.log2, of_mantissa=True, curves=(lambda u: np.log2(1 + u),)),
    )
}
"""All functions by name."""


@dataclass(frozen=True, kw_only=True)
class PrimitiveUnit:
    """Parameters of a primitive unit and everything that follows from them.

    Parameters
    ----------
    function : str
        One of ``PRIMITIVES``.
    max_error : float
        Largest distance of any result from the exact function of the input code, the function being brought into the
        range of the output format; 2**-24 to 1/8, and at least the rounding error of the output.
    lanes : int
        Numbers in a beat, each with a table of its own; 1 to 64.
    input_format : FixedPoint
        Of x: 4 to 16 bits, 0 to 16 fraction bits; unsigned for functions of a mantissa.
    output_format : FixedPoint
        Of the result: 1 to 24 fraction bits, at most 32 bits. Unless it saturates, it must hold the function's range.
    max_degree : int
        Largest degree of the table's polynomials: 1 for piecewise linear, 2 for piecewise quadratic.
    shape : TableShape, optional
        Shape of the table; if absent, the one with the fewest ROM bits is searched, which takes seconds.

    Raises
    ------
    InputError
        A parameter is out of range, or no table keeps ``max_error``.
    """

    function: str
    max_error: float
    lanes: int
    input_format: FixedPoint
    output_format: FixedPoint
    max_degree: int = 2
    shape: TableShape | None = None

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every parameter, and find the table: an error that cannot be kept is a wrong parameter too."""
        check_known(self.function, PRIMITIVES, "primitive")
        source = self.input_format
        check_ranges(
            self,
            (
                ("max_error", *MAX_ERROR_RANGE),
                ("lanes", 1, 64),
                ("max_degree", 1, 2),
                ("input_format.width_bits", 4, 16),
                ("input_format.fraction_bits", 0, 16),
                ("output_format.fraction_bits", 1, 24),
                ("output_format.width_bits", 2, 32),
            ),
        )
        if self.primitive.of_mantissa and source.signed:
            raise InputError(
                f"input_format must be unsigned for {self.function}, not {source}",
                hint=f"use u{source.width_bits - 1}f{source.fraction_bits}",
                field=("input_format", "signed"),
            )
        check_rounding(self.max_error, self.output_format)
        exact = self.primitive.exact(self.input_format.to_real(self.codes))
        check_holds(self.output_format, float(exact.min()), float(exact.max()))
        if self.table is None:
            raise AssertionError("a table is found or an error raised")

    @property
    def primitive(self) -> Primitive:
        """The function."""
        return PRIMITIVES[self.function]

    @property
    def codes(self) -> Codes:
        """All input codes for which the function is defined, from the smallest up."""
        first = 1 if self.primitive.of_mantissa else self.input_format.min_code
        return np.arange(first, self.input_format.max_code + 1)

    @property
    def zero_code(self) -> int:
        """What a function of a mantissa gives for x = 0."""
        return self.output_format.min_code if self.function == "log2" else self.output_format.max_code

    @property
    def _largest(self) -> float:
        """Largest value, of the function or of the output, that matters."""
        ends = self.primitive.exact(self.input_format.to_real(self.codes[[0, -1]]))
        return min(float(ends.max()), self.output_format.max_value + self.output_format.resolution)

    @property
    def argument_bits(self) -> int:
        """A, the bits of the table's argument.

        For ``exp`` a step of u moves the largest result by less than a quarter of ``max_error``. The others have the
        bits of x, and below them two zeros if they are few: a segment is at least four codes long, and so may be one x.
        """
        if self.function != "exp":
            source = self.input_format
            bits = source.width_bits - 1 if self.primitive.of_mantissa else source.fraction_bits
            return bits + 2 if bits <= FEW_BITS else bits
        return min(max(math.ceil(math.log2(4 * math.log(2) * self._largest / self.max_error)), 2), 18)

    @property
    def multiplier_fraction_bits(self) -> int:
        """Fraction bits of log2(e) in ``exp``: its rounding moves t by less than a quarter of a step."""
        return self.argument_bits + 1 + max(self.input_format.width_bits - self.input_format.fraction_bits, 0)

    @property
    def multiplier(self) -> int:
        """log2(e) in ``exp``."""
        return round(math.ldexp(1 / math.log(2), self.multiplier_fraction_bits))

    @property
    def exponent_range(self) -> tuple[int, int]:
        """Smallest and largest exponent i of any input, before step 2."""
        return int(self._reduced[2].min()), int(self._reduced[2].max())

    @property
    def lowest_exponent(self) -> int:
        """An exponent below which no input's is, or with which every result is 0."""
        return max(self.exponent_range[0], -self.output_format.fraction_bits - 3)

    @property
    def highest_exponent(self) -> int:
        """An exponent that no input's exceeds, or with which every result saturates."""
        target = self.output_format
        enough = target.width_bits - int(target.signed) - target.fraction_bits + 1
        return max(min(self.exponent_range[1], enough), self.lowest_exponent)

    @cached_property
    def _reduced(self) -> tuple[Codes, Codes, Codes, Codes]:
        """u, p, i (not yet brought into its range) and b of every input code."""
        x, bits = self.codes, self.argument_bits
        nothing = np.zeros_like(x)
        if not self.primitive.of_mantissa:
            t = x << (bits - self.input_format.fraction_bits)
            if self.function == "exp":
                by = self.input_format.fraction_bits + self.multiplier_fraction_bits - bits
                t = x * self.multiplier >> by
            return t & ((1 << bits) - 1), nothing, t >> bits, nothing
        e = np.frexp(x.astype(np.float64))[1].astype(np.int64) - 1
        u, c = (x << (bits - e)) - (1 << bits), e - self.input_format.fraction_bits
        if self.function == "log2":
            return u, nothing, nothing, c
        return (u, nothing, -c, nothing) if self.function == "reciprocal" else (u, c & 1, -(c >> 1), nothing)

    @cached_property
    def exponents(self) -> Codes:
        """The exponent i of every input code, in its range."""
        return np.clip(self._reduced[2], self.lowest_exponent, self.highest_exponent)

    @cached_property
    def table(self) -> SegmentTable:
        """The table: of ``shape``, or the smallest that keeps ``max_error``.

        Raises
        ------
        InputError
            There is none.
        """
        found = _table(self if self.lanes == 1 else replace(self, lanes=1))
        if found is not None:
            return found
        if self.shape is not None:
            raise InputError(
                f"shape must allow a table with max_error {self.max_error}, but degree {self.shape.degree}, low_bits "
                f"{self.shape.low_bits} and fraction_bits {self.shape.fraction_bits} do not",
                hint="leave shape out to search for one that does",
                field=("shape",),
            )
        raise InputError(
            f"max_error {self.max_error} must leave room beside the output's rounding for a table, but does not",
            hint="use one more fraction bit in output_format",
            field=("max_error",),
        )

    @cached_property
    def results(self) -> Codes:
        """All results by the contract, for ``codes``; ndarray[codes], int64."""
        u, part, _, base = self._reduced
        table, target = self.table, self.output_format
        start = np.cumsum((0, *table.parts[:-1]))[part] << table.low_bits
        shift = table.value_fraction_bits - target.fraction_bits - self.exponents
        rounded = round_shift(table.evaluate(start + u), shift, target.rounding)
        return target.fit(rounded + (base << target.fraction_bits))

    @cached_property
    def worst_error(self) -> float:
        """Largest distance of any result from the exact function, found by trying every input code."""
        target = self.output_format
        exact = self.primitive.exact(self.input_format.to_real(self.codes))
        return float(np.abs(target.to_real(self.results) - np.clip(exact, target.min_value, target.max_value)).max())

    @property
    def front_cycles(self) -> int:
        """Cycles of step 1: none for ``exp2``, a product for ``exp``, and 3 to normalise for the others."""
        if self.primitive.of_mantissa:
            return 3
        if self.function == "exp2":
            return 0
        source = self.input_format
        return product_cycles(
            operand_chunks(source.width_bits, signed=source.signed),
            operand_chunks(self.multiplier.bit_length(), signed=False),
        )

    @property
    def latency_cycles(self) -> int:
        """Cycles from accepting a beat to its results at the output, which is idle and ready.

        Beside step 1 the polynomial; 3 for shift or sum, rounding and range; 1 for the output queue.
        """
        return self.front_cycles + (1 + 2 * self.table.degree) + 3 + 1

    @property
    def interval_cycles(self) -> int:
        """Cycles between two accepted beats, the output being ready."""
        return 1


class _Wanted:
    """What one part of the table may be, so that every input that reads it gives a result within ``max_error``.

    That is asked of the fitted result and the fitted function: where both saturate, any value will do.
    """

    def __init__(self, unit: PrimitiveUnit, part: int) -> None:
        target = unit.output_format
        u, parts, _, base = unit._reduced
        chosen = parts == part
        exact = unit.primitive.exact(unit.input_format.to_real(unit.codes))[chosen]
        exact = np.clip(exact, target.min_value, target.max_value)
        scale = 2.0**target.fraction_bits
        low = np.ceil((exact - unit.max_error) * scale).astype(np.int64)
        high = np.floor((exact + unit.max_error) * scale).astype(np.int64)
        saturates = target.overflow is Overflow.SATURATE
        if not saturates:
            low, high = np.maximum(low, target.min_code), np.minimum(high, target.max_code)
        self._free = saturates & (low <= target.min_code), saturates & (high >= target.max_code)
        exponent, offset = unit.exponents[chosen], base[chosen] << target.fraction_bits
        # A value below 4 gives no more than this.
        most = np.int64(1) << np.maximum(target.fraction_bits + exponent + 2, 0)
        self._low, self._high = np.maximum(low - offset, 0), np.minimum(high - offset, most)
        self._result_fraction_bits = target.fraction_bits + exponent
        self._curve = unit.primitive.curves[part](np.arange(1 << unit.argument_bits) / 2.0**unit.argument_bits)
        self._slack = SLACK * unit.max_error / 2.0 ** int(unit.exponents.max())
        self._rounding, self._argument, self._codes = target.rounding, u[chosen], 1 << unit.argument_bits
        self._found: dict[int, tuple[Codes, Codes]] = {}

    @property
    def codes(self) -> int:
        return self._codes

    @property
    def finest(self) -> int:
        return max(int(self._result_fraction_bits.max()), 0)

    def bounds(self, codes: Codes, value_fraction_bits: int) -> tuple[Codes, Codes]:
        if value_fraction_bits not in self._found:
            self._found[value_fraction_bits] = self._bounds(value_fraction_bits)
        lower, upper = self._found[value_fraction_bits]
        at = np.minimum(codes, self._codes - 1)
        return lower[at], upper[at]

    def _bounds(self, value_fraction_bits: int) -> tuple[Codes, Codes]:
        scale, last = 2.0**value_fraction_bits, (np.int64(4) << value_fraction_bits) - 1
        lower = np.maximum(np.floor((self._curve - self._slack) * scale), 0).astype(np.int64)
        upper = np.minimum(np.ceil((self._curve + self._slack) * scale), last).astype(np.int64)
        shift = value_fraction_bits - self._result_fraction_bits
        least, most = value_limits(self._low, self._high, shift, self._rounding)
        np.maximum.at(lower, self._argument, np.where(self._free[0], 0, least))
        np.minimum.at(upper, self._argument, np.where(self._free[1], last, most))
        before, behind = self._neighbours
        return np.minimum(lower[before], lower[behind]), np.maximum(upper[before], upper[behind])

    @cached_property
    def _neighbours(self) -> tuple[Codes, Codes]:
        """The last argument up to each that an input reads, and the first from it on; at the ends the only one."""
        read = np.zeros(self._codes, bool)
        read[self._argument] = True
        at, end = np.arange(self._codes), self._codes
        before = np.maximum.accumulate(np.where(read, at, -1))
        behind = np.minimum.accumulate(np.where(read, at, end)[::-1])[::-1]
        return np.where(before < 0, behind, before), np.where(behind == end, before, behind)


@lru_cache(maxsize=64)
def _table(unit: PrimitiveUnit) -> SegmentTable | None:
    """Return the table of a unit of one lane, or None: there is none."""
    parts, shape = [[_Wanted(unit, part)] for part in range(unit.primitive.parts)], unit.shape
    if shape is not None:
        return fixed_table(
            parts, degree=shape.degree, low_bits=shape.low_bits, fraction_bits=shape.fraction_bits, whole=True
        )
    finest = math.ceil(math.log2(STEPS_IN_ERROR / unit.max_error)) + unit.highest_exponent
    return smallest_table(
        parts,
        degrees=range(1, unit.max_degree + 1),
        fraction_bits=range(1, min(max(finest, 1), 28) + 1),
        whole=True,
    )
