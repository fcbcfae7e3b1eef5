"""Combinational arithmetic that several blocks share; every result has an explicit width."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, Value

from accel.numerics import Rounding

__all__ = [
    "count_leading_zeros",
    "minimum",
    "population",
    "reduce_pairs",
    "round_off",
    "shift_left",
    "shift_right",
    "shift_right_sticky",
    "signed_bits",
    "tree_stages",
]

LEVELS_PER_STAGE = 2
"""Levels of a two-input tree between registers."""


def signed_bits(low: int, high: int) -> int:
    """Return the width of the narrowest signed number that holds ``low`` to ``high``."""
    return 1 + max((low if low >= 0 else ~low).bit_length(), (high if high >= 0 else ~high).bit_length())


def tree_stages(inputs: int) -> int:
    """Return the register stages of a tree over ``inputs`` values, with ``LEVELS_PER_STAGE`` levels in each stage."""
    return -(-(inputs - 1).bit_length() // LEVELS_PER_STAGE)


def reduce_pairs(values: Sequence[Any], operation: Callable[[Any, Any], Any], *, levels: int) -> list[Any]:
    """Return ``values`` after ``levels`` levels of joining neighbours by ``operation``; an odd one passes."""
    found = list(values)
    for _ in range(levels):
        pairs = [operation(*found[at : at + 2]) for at in range(0, len(found) - 1, 2)]
        found = pairs + (found[-1:] if len(found) % 2 else [])
    return found


def minimum(left: Any, right: Any) -> Any:
    """Return the smaller of two numbers of one shape."""
    return Mux(left < right, left, right)


def population(bits: Any) -> Any:
    """Return how many of ``bits`` are set."""
    value = Value.cast(bits)
    return reduce_pairs(list(value), lambda left, right: left + right, levels=(len(value) - 1).bit_length())[0]


def shift_right(value: Any, amount: Any) -> Any:
    """Return the unsigned ``value`` shifted right by ``amount``, in the width of ``value``."""
    for place, bit in enumerate(Value.cast(amount)):
        by = min(1 << place, len(value))
        value = Mux(bit, Cat(value[by:], Const(0, by)), value)
    return value


def shift_left(value: Any, amount: Any) -> Any:
    """Return ``value`` shifted left by ``amount``, in the width of ``value``: bits pushed over the top are lost."""
    for place, bit in enumerate(Value.cast(amount)):
        by = min(1 << place, len(value))
        value = Mux(bit, Cat(Const(0, by), value[: len(value) - by]), value)
    return value


def shift_right_sticky(value: Any, amount: Any) -> tuple[Any, Any]:
    """Return ``shift_right(value, amount)``, and whether any 1 was shifted out."""
    lost = Const(0, 1)
    for place, bit in enumerate(Value.cast(amount)):
        by = min(1 << place, len(value))
        lost = lost | (bit & value[:by].any())
        value = Mux(bit, Cat(value[by:], Const(0, by)), value)
    return value, lost


def round_off(value: Any, lost: Any, rounding: Rounding) -> Any:
    """Return the unsigned ``value`` without its lowest bit, rounded; as wide as ``value``, so that it cannot overflow.

    Parameters
    ----------
    value : Value
        The number with one fraction bit.
    lost : Value
        Whether bits below that one were set; only ``nearest_even`` asks.
    rounding : Rounding
        Rule for the fraction.
    """
    whole = value[1:]
    up = {
        Rounding.TRUNCATE: Const(0, 1),
        Rounding.NEAREST_UP: value[0],
        Rounding.NEAREST_EVEN: value[0] & (lost | value[1]),
    }[rounding]
    return (whole + up)[: len(value)]


def count_leading_zeros(m: Module, value: Any, *, name: str) -> Any:
    """Return how many bits above the highest 1 of ``value`` are 0; if all are 0, the number means nothing.

    Works on the value padded at the bottom to a power of two: halves are searched in a tree.
    """
    bits = (len(value) - 1).bit_length()
    window = Cat(Const(0, (1 << bits) - len(value)), value)
    count = []
    for place in reversed(range(bits)):
        half = 1 << place
        empty = Signal(name=f"{name}_upper_empty_{place}")
        m.d.comb += empty.eq(~window[half:].any())
        window = Mux(empty, window[:half], window[half:])
        count.append(empty)
    return Cat(reversed(count))
