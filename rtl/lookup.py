"""A pipelined piecewise-linear table: the heart of the function blocks."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Const, Module, Signal, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from accel.numerics import LinearTable
from rtl.stream import delay, flow

__all__ = ["TableLookup"]


class TableLookup(wiring.Component):
    """Evaluates a ``LinearTable`` on one argument a cycle, bit for bit as its docstring says.

    Latency ``read_cycles + 2``, interval 1: the table's output, the product and the result are registered. The error is
    the table's ``max_error``.

    Parameters
    ----------
    table : LinearTable
        Of a falling function on [0, 1).
    read_cycles : int
        1, or 2 with a second register behind the table, for one that becomes a block RAM.

    Members
    -------
    argument : In(flow(unsigned(table.argument_bits)))
        Argument code.
    result : Out(flow(unsigned(result_bits)))
        Result code with ``table.result_fraction_bits`` fraction bits; valid ``latency_cycles`` after its argument.
    """

    latency_cycles = 3
    interval_cycles = 1

    def __init__(self, table: LinearTable, *, read_cycles: int = 1) -> None:
        self._table, self._read_cycles = table, read_cycles
        self.latency_cycles = read_cycles + 2
        super().__init__({"argument": In(flow(unsigned(table.argument_bits))), "result": Out(flow(self.result_bits))})

    @property
    def table(self) -> LinearTable:
        """The table."""
        return self._table

    @property
    def result_bits(self) -> int:
        """Width of the result, whose largest value is the rounded first entry."""
        guard_bits = self._table.guard_bits
        largest = (self._table.base[0] + (1 << guard_bits >> 1)) >> guard_bits
        return largest.bit_length()

    def elaborate(self, platform: Any) -> Any:
        """Build the stages: look up (1 or 2), multiply (1), subtract and round (1)."""
        m = Module()
        table = self._table
        low_bits, shift = table.low_bits, table.low_bits + table.guard_bits
        index = self.argument.payload[low_bits:]

        low = delay(m, self.argument.payload[:low_bits], self._read_cycles, name="low")
        base = Signal(table.base_bits)
        drop = Signal(table.drop_bits)
        if table.segments == 1:
            m.d.comb += [base.eq(table.base[0]), drop.eq(table.drop[0])]
        else:
            entries = [entry | step << table.base_bits for entry, step in zip(table.base, table.drop, strict=True)]
            m.submodules.rom = rom = memory.Memory(
                shape=unsigned(table.base_bits + table.drop_bits), depth=table.segments, init=entries
            )
            reader = rom.read_port()
            m.d.comb += [reader.addr.eq(index), reader.en.eq(1)]
            m.d.comb += Cat(base, drop).eq(delay(m, reader.data, self._read_cycles - 1, name="read"))

        product = Signal(table.drop_bits + low_bits, reset_less=True)
        m.d.sync += product.eq(drop * low)
        start = delay(m, base, 1, name="base")

        # base * 2**low_bits + half - product, which is never negative: the table falls, and stays above 0.
        half = Const(1 << (shift - 1), shift)
        value = Signal(table.base_bits + low_bits + 1)
        result = Signal(self.result_bits, reset_less=True)
        m.d.comb += value.eq((Cat(Const(0, low_bits), start) + half - product)[: len(value)])
        m.d.sync += result.eq(value[shift:][: self.result_bits])
        m.d.comb += [
            self.result.payload.eq(result),
            self.result.valid.eq(delay(m, self.argument.valid, self.latency_cycles, name="valid", reset_less=False)),
        ]
        return m
