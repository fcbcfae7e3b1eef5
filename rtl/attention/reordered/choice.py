"""Choosing by one-hot bits, and shifts of many places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, Value

__all__ = ["chosen", "shifted"]


def chosen(values: Sequence[Any], bits: Any) -> Any:
    """Return, as plain bits, the one of ``values`` whose bit of ``bits`` is set; 0 if none is."""
    found = [Mux(bits[index], Value.cast(value).as_unsigned(), 0) for index, value in enumerate(values)]
    result = found[0]
    for each in found[1:]:
        result = result | each
    return result


def shifted(m: Module, value: Any, amount: Any, *, name: str) -> Any:
    """Return ``value`` divided by ``2**amount``, rounded down, in its own width and sign.

    Each place has a signal of its own: Amaranth writes an expression out wherever it is used.
    """
    stage = Value.cast(value)
    signed = stage.shape().signed
    for place, bit in enumerate(Value.cast(amount)):
        by = min(1 << place, len(stage))
        top = stage[-1] if signed else Const(0, 1)
        moved = Signal(len(stage), name=f"{name}_{place}")
        m.d.comb += moved.eq(Mux(bit, Cat(stage[by:], top.replicate(by)), stage))
        stage = moved
    return stage.as_signed() if signed else stage
