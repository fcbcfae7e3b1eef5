"""Piecewise-linear tables shared by hardware and golden models, with their error bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from accel.errors import InputError

__all__ = ["LinearTable", "exp2_table", "newton_reciprocal_error", "reciprocal_table"]


@dataclass(frozen=True, kw_only=True)
class LinearTable:
    """A falling function on [0, 1) by straight segments of equal width.

    With ``i = u >> low_bits`` and ``low = u & (2**low_bits - 1)`` of an argument code ``u`` of ``argument_bits`` bits,
    the result is ``round_half_up((base[i] * 2**low_bits - drop[i] * low) / 2**(low_bits + guard_bits))``, a code with
    ``result_fraction_bits`` fraction bits.

    Parameters
    ----------
    argument_bits, result_fraction_bits, guard_bits : int
        Widths in bits; ``base`` and ``drop`` have ``result_fraction_bits + guard_bits`` fraction bits.
    base, drop : tuple of int
        Value at the start of each segment, and how far it falls over the segment (non-negative).
    max_error : float
        Bound on the distance to the exact function over all argument codes, rounding included.
    """

    argument_bits: int
    result_fraction_bits: int
    guard_bits: int
    base: tuple[int, ...]
    drop: tuple[int, ...]
    max_error: float

    @property
    def segments(self) -> int:
        """Number of segments, a power of two."""
        return len(self.base)

    @property
    def low_bits(self) -> int:
        """Bits of the argument below the segment index."""
        return self.argument_bits - (self.segments.bit_length() - 1)

    @property
    def base_bits(self) -> int:
        """Width of a ``base`` entry."""
        return max(self.base).bit_length()

    @property
    def drop_bits(self) -> int:
        """Width of a ``drop`` entry."""
        return max(1, max(self.drop).bit_length())

    @property
    def rom_bits(self) -> int:
        """Bits of read-only memory that the table needs."""
        return self.segments * (self.base_bits + self.drop_bits)


def _falling_table(
    function: Callable[[float], float],
    curvature: Callable[[float], float],
    *,
    segments: int,
    argument_bits: int,
    result_fraction_bits: int,
    guard_bits: int,
) -> LinearTable:
    """Return the table of a convex falling ``function`` with a falling second derivative ``curvature``.

    The chord of a convex function lies above it, in the middle by E and nowhere by more than
    ``width**2 / 8 * curvature(left)``; E itself is at least ``width**2 / 8 * curvature(right)``. Lowering the chord by
    E / 2 halves the error: what remains lies between -E / 2 and ``width**2 / 8 * (curvature(left) - curvature(right) /
    2)``. The bound adds one step of the table entries (half a step each for ``base`` and ``drop``) and half a step of
    the result.
    """
    index_bits = segments.bit_length() - 1
    if segments < 1 or segments != 1 << index_bits or index_bits >= argument_bits:
        raise InputError(
            f"segments must be a power of two below 2**{argument_bits}, not {segments}",
            hint=f"use {1 << min(max(index_bits, 0), argument_bits - 1)}",
            field=("segments",),
        )
    width = 1.0 / segments
    step = 2.0 ** -(result_fraction_bits + guard_bits)
    base, drop, chord_error = [], [], 0.0
    for index in range(segments):
        left, right = function(index * width), function((index + 1) * width)
        excess = (left + right) / 2 - function((index + 0.5) * width)
        base.append(round((left - excess / 2) / step))
        drop.append(round((left - right) / step))
        highest = curvature(index * width) - curvature((index + 1) * width) / 2
        chord_error = max(chord_error, width**2 / 8 * highest)
    return LinearTable(
        argument_bits=argument_bits,
        result_fraction_bits=result_fraction_bits,
        guard_bits=guard_bits,
        base=tuple(base),
        drop=tuple(drop),
        max_error=chord_error + step + 2.0 ** -(result_fraction_bits + 1),
    )


def exp2_table(*, segments: int, argument_bits: int, result_fraction_bits: int, guard_bits: int) -> LinearTable:
    """Return the table of ``2**-u`` for ``u`` in [0, 1): from 1 down to 1/2.

    Raises
    ------
    InputError
        ``segments`` is no power of two, or has as many bits as the argument.
    """
    return _falling_table(
        lambda u: 2.0**-u,
        lambda u: math.log(2.0) ** 2 * 2.0**-u,
        segments=segments,
        argument_bits=argument_bits,
        result_fraction_bits=result_fraction_bits,
        guard_bits=guard_bits,
    )


def reciprocal_table(*, segments: int, argument_bits: int, result_fraction_bits: int, guard_bits: int) -> LinearTable:
    """Return the table of ``1 / (1 + u)`` for ``u`` in [0, 1): from 1 down to 1/2.

    Raises
    ------
    InputError
        ``segments`` is no power of two, or has as many bits as the argument.
    """
    return _falling_table(
        lambda u: 1.0 / (1.0 + u),
        lambda u: 2.0 / (1.0 + u) ** 3,
        segments=segments,
        argument_bits=argument_bits,
        result_fraction_bits=result_fraction_bits,
        guard_bits=guard_bits,
    )


def newton_reciprocal_error(guess: LinearTable, fraction_bits: int) -> float:
    """Return a bound on the relative error of a reciprocal by one Newton step from a looked-up first guess.

    The value is normalised to f in [1, 2) with ``fraction_bits``, rounded to nearest and never to 2: off by half a
    step, relatively at most as much. With ``y0 = (1 + b) / f`` from ``guess``, the correction ``d = 2 - f * y0 = 1 -
    b`` is truncated by less than a step, so that ``y0 * d`` is 1 / f but for ``b**2`` and ``(1 + b)`` steps. Rounding
    the result to ``fraction_bits`` costs half a step, relatively at most one, as 1 / f is above 1/2. And b is at most
    twice the guess's own error.
    """
    step = 2.0**-fraction_bits
    start = 2 * guess.max_error
    return (1 + start**2 + (1 + start) * step + step) / (1 - step / 2) - 1
