"""A positive integer as a mantissa from 1 to 2 and an exponent."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.arith import count_leading_zeros, shift_left
from rtl.stream import delay, flow

__all__ = ["Normalise"]


class Normalise(wiring.Component):
    """Finds ``e = floor(log2(v))`` and the bits u of ``v / 2**e`` below its leading 1, rounded half up, never to 2.

    Latency ``search_cycles + 2``: the leading 1, the shift, the rounding; interval 1. For v = 0 the result means
    nothing.

    Parameters
    ----------
    value_bits : int
        Width of v; more than ``fraction_bits``.
    fraction_bits : int
        Width of u.
    search_cycles : int
        1 or 2: cycles in which the leading 1 is found.

    Members
    -------
    value : In(unsigned(value_bits))
        v.
    result : Out({exponent: unsigned, fraction: unsigned(fraction_bits)})
        e and u, ``latency_cycles`` after their value.
    """

    interval_cycles = 1

    def __init__(self, *, value_bits: int, fraction_bits: int, search_cycles: int = 1) -> None:
        self._value_bits, self._fraction_bits, self._search_cycles = value_bits, fraction_bits, search_cycles
        layout = data.StructLayout({"exponent": range(value_bits), "fraction": unsigned(fraction_bits)})
        super().__init__({"value": In(flow(unsigned(value_bits))), "result": Out(flow(layout))})

    @property
    def latency_cycles(self) -> int:
        """Cycles from a value to its result."""
        return self._search_cycles + 2

    def elaborate(self, platform: Any) -> Any:
        """Build: find the leading 1 (1 or 2), shift (1), round (1)."""
        m = Module()
        bits, top, waited = self._fraction_bits, self._value_bits - 1, self._search_cycles
        zeros = Signal(range(self._value_bits), reset_less=True)
        shifted = Signal(self._value_bits, reset_less=True)
        exponent = Signal(range(self._value_bits), reset_less=True)
        m.d.sync += zeros.eq(self._count(m)[: len(zeros)])
        m.d.sync += shifted.eq(shift_left(delay(m, self.value.payload, waited, name="value"), zeros))
        m.d.sync += exponent.eq((Const(top, len(exponent)) - zeros)[: len(exponent)])

        fraction = Signal(bits, reset_less=True)
        kept = shifted[top - bits : top]
        if top == bits:
            m.d.sync += fraction.eq(kept)
        else:
            up = Signal(bits + 1)
            m.d.comb += up.eq(kept + shifted[top - bits - 1])
            m.d.sync += fraction.eq(Mux(up[bits], Const((1 << bits) - 1, bits), up[:bits]))
        m.d.comb += [
            self.result.payload.fraction.eq(fraction),
            self.result.payload.exponent.eq(delay(m, exponent, 1, name="normal_exponent")),
            self.result.valid.eq(delay(m, self.value.valid, self.latency_cycles, name="valid", reset_less=False)),
        ]
        return m

    def _count(self, m: Any) -> Any:
        """Return the zeros above the leading 1, before the last register of the search."""
        value = self.value.payload
        if self._search_cycles == 1:
            return count_leading_zeros(m, value, name="value")
        # The first cycle finds the group of eight bits that holds the leading 1, the second the place in it.
        groups = -(-len(value) // 8)
        padded = Cat(Const(0, 8 * groups - len(value)), value)
        filled = Signal(groups)
        m.d.comb += [filled[at].eq(padded[8 * at : 8 * at + 8].any()) for at in range(groups)]
        empty = count_leading_zeros(m, filled, name="group")
        group = Signal(range(groups), reset_less=True)
        words = Signal(8 * groups, reset_less=True)
        m.d.sync += [group.eq(empty), words.eq(padded)]
        window = Cat(Const(0, (8 << len(group)) - len(words)), words)
        for place in reversed(range(len(group))):
            half = 8 << place
            window = Mux(group[place], window[:half], window[half:])
        return Cat(count_leading_zeros(m, window, name="place"), group)
