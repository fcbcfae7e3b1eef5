"""Products of any width from multipliers of 18 bits, with a register after every step."""

from __future__ import annotations

from typing import Any

from amaranth import Shape, Signal, Value

from accel.pipelining import CHUNK_BITS, operand_chunks, product_cycles
from rtl.stream import delay

__all__ = ["multiply", "multiply_cycles"]


def _chunks(shape: Shape) -> int:
    return operand_chunks(shape.width, signed=shape.signed)


def multiply_cycles(left: Any, right: Any) -> int:
    """Return the cycles of ``multiply`` for these operands."""
    return product_cycles(_chunks(Value.cast(left).shape()), _chunks(Value.cast(right).shape()))


def multiply(m: Any, left: Any, right: Any, *, name: str) -> Any:
    """Return ``left * right``, exactly, ``multiply_cycles(left, right)`` cycles later.

    Both operands should come from registers. Products of parts of at most 18 signed bits are registered, and so is
    every sum of two of them.

    Parameters
    ----------
    m : Module
        Takes the registers.
    left, right : Value
        Operands, signed or not.
    name : str
        Of the registers.
    """
    left, right = Value.cast(left), Value.cast(right)
    width = len(left) + len(right)
    sums: list[tuple[int, Any]] = []
    for low_left, part_left in _parts(left):
        for low_right, part_right in _parts(right):
            product = Signal((part_left * part_right).shape(), name=f"{name}_{low_left}_{low_right}", reset_less=True)
            m.d.sync += product.eq(part_left * part_right)
            sums.append((low_left + low_right, product))
    level = 0
    while len(sums) > 1:
        level += 1
        sums.sort(key=lambda each: each[0])
        joined: list[tuple[int, Any]] = []
        for at in range(0, len(sums), 2):
            (low, first), *rest = sums[at : at + 2]
            if not rest:
                joined.append((low, delay(m, first, 1, name=f"{name}_level_{level}_{at}")))
                continue
            ((high, second),) = rest
            total = first + (second << (high - low))
            bits = min(len(total), width - low)
            register = Signal(Shape(bits, total.shape().signed), name=f"{name}_level_{level}_{at}", reset_less=True)
            m.d.sync += register.eq(total[:bits])
            joined.append((low, register))
        sums = joined
    ((_, result),) = sums
    return result[:width].as_signed() if left.shape().signed or right.shape().signed else result[:width]


def _parts(value: Any) -> list[tuple[int, Any]]:
    """Return the parts of an operand with the place of their lowest bit; all but the topmost are unsigned."""
    count = _chunks(value.shape())
    lows = [CHUNK_BITS * at for at in range(count)]
    parts = [value[low : low + CHUNK_BITS] for low in lows[:-1]] + [value[lows[-1] :]]
    if value.shape().signed:
        parts[-1] = parts[-1].as_signed()
    return list(zip(lows, parts, strict=True))
