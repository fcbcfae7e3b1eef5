"""Piecewise polynomials with integer coefficients, and the exact search for the smallest that keeps an error bound.

The search works on corridors. For every argument code, the values that a table may take are an interval of integers:
those from which the hardware's own arithmetic (offset, sign, one rounding) makes a result within the bound. A segment
fits if integer coefficients keep it inside its corridor at every code; that is decided, not sampled, so a table that is
found needs no further proof, and one that is not found does not exist in the space that was searched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from accel.numerics.fixed import Rounding

__all__ = [
    "Corridor",
    "Field",
    "Limits",
    "SegmentTable",
    "fit_segment",
    "fixed_table",
    "smallest_table",
    "value_limits",
]

Codes = NDArray[np.int64]

MIN_LOW_BITS = 2
"""Segments have at least four codes: below, a table holds its results and needs no polynomial."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """How one coefficient is stored: a sign that all segments share costs no memory.

    Parameters
    ----------
    width_bits : int
        Bits in each word of the memory; may be 0.
    signed : bool
        The stored bits are two's complement.
    offset : int
        Added to what is stored: ``-2**width_bits`` if all coefficients are negative, else 0.
    """

    width_bits: int
    signed: bool
    offset: int

    __pydantic_config__ = {"extra": "forbid"}

    @classmethod
    def of(cls, values: Sequence[int]) -> Field:
        """Return the narrowest field for ``values``."""
        low, high = min(values), max(values)
        width = max(high.bit_length() if high > 0 else 0, (~low).bit_length() if low < 0 else 0)
        if low < 0 <= high:
            return cls(width_bits=width + 1, signed=True, offset=0)
        return cls(width_bits=width, signed=False, offset=-(1 << width) if low < 0 else 0)


@dataclass(frozen=True, kw_only=True)
class SegmentTable:
    """Polynomials of one degree over segments of equal width, in Horner's form, with one truncation.

    An argument code ``a`` has the segment ``a >> low_bits`` and the place ``t = a & (2**low_bits - 1)`` in it. With the
    coefficients ``c0, c1`` or ``c0, c1, c2`` of the segment, the value has ``value_fraction_bits`` fraction bits and is

    * degree 1: ``c0 * 2**low_bits + c1 * t``
    * degree 2: ``c0 * 2**low_bits + (c1 + floor(c2 * t / 2**low_bits)) * t``

    Parameters
    ----------
    low_bits : int
        Argument bits below the segment number.
    fraction_bits : int
        Fraction bits of all coefficients; ``c1`` and ``c2`` are per width of a segment.
    coefficients : tuple of tuple of int
        ``c0, c1`` (and ``c2``) of each segment; the parts, if there are several, one after the other.
    parts : tuple of int
        Segments of each part: a function that has no symmetry needs a part for each sign of its argument.
    """

    low_bits: int
    fraction_bits: int
    coefficients: tuple[tuple[int, ...], ...]
    parts: tuple[int, ...]

    __pydantic_config__ = {"extra": "forbid"}

    @property
    def degree(self) -> int:
        """Degree of the polynomials, which is the number of multipliers."""
        return len(self.coefficients[0]) - 1

    @property
    def segments(self) -> int:
        """Words of memory."""
        return len(self.coefficients)

    @property
    def value_fraction_bits(self) -> int:
        """Fraction bits of a value."""
        return self.fraction_bits + self.low_bits

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """How each coefficient is stored."""
        return tuple(Field.of(column) for column in zip(*self.coefficients, strict=True))

    @property
    def rom_bits(self) -> int:
        """Bits of read-only memory."""
        return self.segments * sum(each.width_bits for each in self.fields)

    @cached_property
    def slope_range(self) -> tuple[int, int]:
        """Smallest and largest slope ``c1 + floor(c2 * t / 2**low_bits)``: monotone in t, so the ends decide."""
        last = (1 << self.low_bits) - 1
        ends = [
            c[1] + (place * c[2] >> self.low_bits if len(c) > 2 else 0)
            for c in self.coefficients
            for place in (0, last)
        ]
        return min(ends), max(ends)

    @cached_property
    def value_range(self) -> tuple[int, int]:
        """Smallest and largest value, over every code of every segment."""
        values = self.evaluate(np.arange(self.segments << self.low_bits))
        return int(values.min()), int(values.max())

    def evaluate(self, arguments: Codes) -> Codes:
        """Return the values at ``arguments`` (ndarray[...], int64; below ``segments * 2**low_bits``)."""
        columns = np.array(self.coefficients, np.int64).T
        return _values(columns[:, arguments >> self.low_bits], arguments & ((1 << self.low_bits) - 1), self.low_bits)


def _values(coefficients: Codes, place: Codes, low_bits: int) -> Codes:
    slope = coefficients[1]
    if len(coefficients) > 2:
        slope = slope + (coefficients[2] * place >> low_bits)
    values: Codes = (coefficients[0] << low_bits) + slope * place
    return values


@dataclass(frozen=True, kw_only=True)
class Corridor:
    """Which table values give results within their limits.

    The result for argument code a is ``round(base[a] + sign * value(a))`` by ``rounding`` to ``fraction_bits``; it must
    lie between ``lowest[a]`` and ``highest[a]``.

    Parameters
    ----------
    lowest, highest : ndarray[codes], int64
        Result codes.
    base : ndarray[codes], int64
        With ``base_fraction_bits``.
    base_fraction_bits, fraction_bits : int
        Of ``base`` and of the result.
    sign : int
        1 or -1.
    rounding : Rounding
        Of the result.
    """

    lowest: Codes
    highest: Codes
    base: Codes
    base_fraction_bits: int
    fraction_bits: int
    sign: int
    rounding: Rounding

    @property
    def codes(self) -> int:
        """Number of argument codes."""
        return len(self.base)

    @property
    def finest(self) -> int:
        """Fewest fraction bits of a value in which base and result are whole."""
        return max(self.base_fraction_bits, self.fraction_bits)

    def bounds(self, codes: Codes, value_fraction_bits: int) -> tuple[Codes, Codes]:
        """Return the smallest and largest value allowed at each argument code of ``codes``.

        Codes beyond the last are as the last: no argument reads them. ``value_fraction_bits`` is at least as large as
        the fraction bits of base and result.
        """
        at = np.minimum(codes, len(self.base) - 1)
        low, high = self.lowest[at], self.highest[at]
        shift = np.int64(value_fraction_bits - self.fraction_bits)
        least, most = value_limits(low, high, shift, self.rounding)
        base = self.base[at] << (value_fraction_bits - self.base_fraction_bits)
        return (least - base, most - base) if self.sign > 0 else (base - most, base - least)


class Limits(Protocol):
    """What the search asks of anything that limits the values of a table; a ``Corridor`` is the usual case."""

    @property
    def codes(self) -> int:
        """Number of argument codes."""

    @property
    def finest(self) -> int:
        """Fewest fraction bits that a value must have."""

    def bounds(self, codes: Codes, value_fraction_bits: int) -> tuple[Codes, Codes]:
        """Return the smallest and largest value allowed at each of ``codes``; those beyond the last are as the last."""


def value_limits(low: Codes, high: Codes, shift: Codes | np.int64, rounding: Rounding) -> tuple[Codes, Codes]:
    """Return the smallest and largest integers v for which ``round(v / 2**shift)`` lies from ``low`` to ``high``.

    Parameters
    ----------
    low, high, shift : ndarray[...], int64
        Broadcast against each other; ``shift`` is 0 or more.
    rounding : Rounding
        Of the quotient.
    """
    step = np.left_shift(1, shift)
    if rounding is Rounding.TRUNCATE:
        return low * step, (high + 1) * step - 1
    half, whole = step >> 1, step == 1
    if rounding is Rounding.NEAREST_UP:
        return low * step - half, high * step + half - ~whole
    # A value halfway between two codes goes to the even one.
    return low * step - half + (low & 1 & ~whole), high * step + half - (high & 1 & ~whole)


def _bounds(corridors: Sequence[Limits], codes: Codes, fraction_bits: int) -> tuple[Codes, Codes]:
    """Return the intersection of several corridors."""
    each = [corridor.bounds(codes, fraction_bits) for corridor in corridors]
    return np.maximum.reduce([low for low, _ in each]), np.minimum.reduce([high for _, high in each])


def _curvatures(lower: Codes, upper: Codes, low_bits: int) -> Codes:
    """Return every ``c2`` that the corridor may admit, from its second difference over the segment.

    With ``y = c2 * m / 2**low_bits`` the difference is ``2 m (floor(2 y) - floor(y))``, less than ``2 m`` from
    ``2 m y``.
    """
    middle = (len(lower) - 1) // 2
    least = int(lower[0] + lower[2 * middle] - 2 * upper[middle])
    most = int(upper[0] + upper[2 * middle] - 2 * lower[middle])
    scale = 2 * middle * middle
    first, final = (least - 2 * middle << low_bits) // scale, -((-most - 2 * middle << low_bits) // scale)
    return np.arange(first, final + 1)


def _slopes(lower: Codes, upper: Codes, low_bits: int, curvature: Codes) -> tuple[Codes, Codes]:
    """Return all pairs ``c1, c2`` that keep the corridor's first difference over the segment."""
    last = len(lower) - 1
    bent = (curvature * last >> low_bits) * last
    first = -((upper[0] - lower[last] + bent) // last)
    count = np.maximum((upper[last] - lower[0] - bent) // last - first + 1, 0)
    begin = np.cumsum(count) - count
    slope = np.arange(count.sum()) - np.repeat(begin, count) + np.repeat(first, count)
    return slope, np.repeat(curvature, count)


def fit_segment(lower: Codes, upper: Codes, *, low_bits: int, degree: int) -> tuple[int, ...] | None:
    """Return integer coefficients whose values lie between ``lower`` and ``upper`` at each place, or None: none exist.

    All pairs ``c1, c2`` that the ends and the middle allow are held against some places at once, as the interval of
    ``c0`` that they leave. A candidate is then held against all places; where it fails, the place joins the others. The
    places are finite, so this ends, and an empty set of candidates is a proof.

    Parameters
    ----------
    lower, upper : ndarray[2**low_bits], int64
        The corridor, with ``low_bits`` more fraction bits than the coefficients.
    low_bits : int
        At least 2.
    degree : int
        1 or 2.
    """
    if (lower > upper).any():
        return None
    places = np.arange(len(lower))
    c2 = _curvatures(lower, upper, low_bits) if degree > 1 else np.zeros(1, np.int64)
    c1, c2 = _slopes(lower, upper, low_bits, c2)
    least, most = np.full(len(c1), -(1 << 62)), np.full(len(c1), 1 << 62)
    waiting = np.unique(np.linspace(0, places[-1], 17).astype(np.int64))
    while True:
        for place in waiting:
            rest = (c1 + (c2 * place >> low_bits)) * place
            least = np.maximum(least, -((rest - lower[place]) >> low_bits))
            most = np.minimum(most, (upper[place] - rest) >> low_bits)
            left = least <= most
            c1, c2, least, most = c1[left], c2[left], least[left], most[left]
        if not len(c1):
            return None
        widest = int(np.argmax(most - least))
        middle = int(least[widest] + most[widest]) // 2
        # A coefficient that need not be negative saves its sign.
        c0 = max(middle, min(int(most[widest]), 0))
        found = (c0, int(c1[widest]), int(c2[widest]))[: degree + 1]
        values = _values(np.array(found, np.int64), places, low_bits)
        below, above = lower - values, values - upper
        waiting = np.array([int(each.argmax()) for each in (below, above) if each.max() > 0], np.int64)
        if not len(waiting):
            return found


def _codes(corridors: Sequence[Limits]) -> int:
    """Return the number of argument codes."""
    return max(each.codes for each in corridors)


def _finest(parts: Sequence[Sequence[Limits]]) -> int:
    """Return the fewest fraction bits in which bases and results are whole."""
    return max(each.finest for part in parts for each in part)


def _lengths(parts: Sequence[Sequence[Limits]], *, whole: bool) -> list[int]:
    """Return the number of codes of each part that need segments."""
    return [_codes(part) if whole else _needed(part, _finest(parts)) for part in parts]


def _needed(corridors: Sequence[Limits], fraction_bits: int) -> int:
    """Return the number of codes up to the last at which the value 0 is not allowed."""
    lower, upper = _bounds(corridors, np.arange(_codes(corridors)), fraction_bits)
    refused = np.nonzero((lower > 0) | (upper < 0))[0]
    return int(refused[-1]) + 1 if len(refused) else 1


class _Point:
    """One degree and one width of segments: what is common to its fraction bits."""

    def __init__(self, parts: Sequence[Sequence[Limits]], needed: Sequence[int], degree: int, low_bits: int) -> None:
        self.parts, self.degree, self.low_bits = parts, degree, low_bits
        self.counts = tuple(-(-codes >> low_bits) for codes in needed)
        self.order = [(part, segment) for part, count in enumerate(self.counts) for segment in range(count)]

    def corridor(self, part: int, segment: int, fraction_bits: int) -> tuple[Codes, Codes]:
        codes = np.arange(segment << self.low_bits, (segment + 1) << self.low_bits)
        return _bounds(self.parts[part], codes, fraction_bits + self.low_bits)

    def least_rom_bits(self, fraction_bits: int) -> int:
        """Return a lower bound: the width that ``c0`` must have at the start of some segment, and a bit of ``c1``."""
        widest = 0
        for corridors, count in zip(self.parts, self.counts, strict=True):
            lower, upper = _bounds(corridors, np.arange(count) << self.low_bits, fraction_bits + self.low_bits)
            least, most = -(-lower >> self.low_bits), upper >> self.low_bits
            smallest = np.maximum(np.maximum(least, ~most), 0)
            widest = max(widest, int(smallest.max()).bit_length())
        return len(self.order) * (widest + 1)

    def fit(self, fraction_bits: int) -> SegmentTable | None:
        """Return the table, or None; the segment that refuses is asked first the next time."""
        found: dict[tuple[int, int], tuple[int, ...]] = {}
        for at, (part, segment) in enumerate(self.order):
            lower, upper = self.corridor(part, segment, fraction_bits)
            fitted = fit_segment(lower, upper, low_bits=self.low_bits, degree=self.degree)
            if fitted is None:
                self.order.insert(0, self.order.pop(at))
                return None
            found[part, segment] = fitted
        return SegmentTable(
            low_bits=self.low_bits,
            fraction_bits=fraction_bits,
            coefficients=tuple(found[key] for key in sorted(found)),
            parts=self.counts,
        )


def smallest_table(
    parts: Sequence[Sequence[Limits]], *, degrees: Sequence[int], fraction_bits: Sequence[int], whole: bool
) -> SegmentTable | None:
    """Return the table with the fewest ROM bits whose values lie in all corridors, or None: the space holds none.

    The space: each of ``degrees``, each width of segments from four codes to all of them, each of ``fraction_bits``, as
    many segments as it takes until 0 is allowed for ever, and for a segment the coefficients of ``fit_segment``. Of
    equal ones, the first of a lower degree, wider segments and fewer fraction bits wins.

    Parameters
    ----------
    parts : sequence of sequence of Limits
        For each part the corridors that its values must keep.
    degrees : sequence of int
        Of 1 and 2, rising.
    fraction_bits : sequence of int
        Of the coefficients, rising.
    whole : bool
        Cover all codes, be it that 0 is allowed at the last ones.
    """
    needed, finest = _lengths(parts, whole=whole), _finest(parts)
    best: SegmentTable | None = None
    for low_bits, degree in _shapes(max(max(needed) - 1, 1).bit_length(), degrees):
        point = _Point(parts, needed, degree, low_bits)
        for bits in fraction_bits:
            if bits + low_bits < finest:
                continue
            if best is not None and point.least_rom_bits(bits) >= best.rom_bits:
                break
            table = point.fit(bits)
            if table is not None:
                if best is None or table.rom_bits < best.rom_bits:
                    best = table
                break
    return best


def fixed_table(
    parts: Sequence[Sequence[Limits]], *, degree: int, low_bits: int, fraction_bits: int, whole: bool = False
) -> SegmentTable | None:
    """Return the table at one point of the space of ``smallest_table``, or None: there is none."""
    if fraction_bits + low_bits < _finest(parts):
        return None
    return _Point(parts, _lengths(parts, whole=whole), degree, low_bits).fit(fraction_bits)


def _shapes(code_bits: int, degrees: Sequence[int]) -> Iterator[tuple[int, int]]:
    for low_bits in range(max(code_bits, MIN_LOW_BITS), MIN_LOW_BITS - 1, -1):
        yield from ((low_bits, degree) for degree in degrees)
