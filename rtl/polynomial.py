"""A pipelined piecewise polynomial with integer coefficients."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from accel.numerics.segments import Field, SegmentTable
from rtl.arith import signed_bits
from rtl.stream import delay, flow

__all__ = ["Polynomial"]


class Polynomial(wiring.Component):
    """Evaluates a ``SegmentTable`` on one argument a cycle, bit for bit as its docstring says.

    Latency 3 cycles for degree 1, 5 for degree 2 (``latency_of``), interval 1: the coefficients, each product and each
    sum are registered. The memory has a synchronous read port. The arithmetic adds no error to that of the table.

    Parameters
    ----------
    table : SegmentTable
        Coefficients, widths.

    Members
    -------
    argument : In(flow({place, segment, inside}))
        Place t in the segment, number of the segment, and whether there is one: if not, the value is 0.
    result : Out(flow(signed(value_bits)))
        The value with ``table.value_fraction_bits`` fraction bits.
    """

    interval_cycles = 1

    def __init__(self, table: SegmentTable) -> None:
        self._table = table
        low, high = table.value_range
        self._value_bits = signed_bits(min(low, 0), max(high, 0))
        layout = {
            "place": unsigned(table.low_bits),
            "segment": unsigned((table.segments - 1).bit_length()),
            "inside": unsigned(1),
        }
        super().__init__(
            {"argument": In(flow(data.StructLayout(layout))), "result": Out(flow(signed(self._value_bits)))}
        )

    @staticmethod
    def latency_of(table: SegmentTable) -> int:
        """Return the cycles from an argument to its value."""
        return 1 + 2 * table.degree

    @property
    def table(self) -> SegmentTable:
        """The table."""
        return self._table

    @property
    def value_bits(self) -> int:
        """Width of the value."""
        return self._value_bits

    @property
    def latency_cycles(self) -> int:
        """Cycles from an argument to its value."""
        return self.latency_of(self._table)

    def elaborate(self, platform: Any) -> Any:
        """Build: coefficients (1); for degree 2 the slope (2, 3); the product and the sum (last two)."""
        m = Module()
        table = self._table
        coefficients = self._read(m)
        place = delay(m, self.argument.payload.place, 1, name="place")
        start, slope, waited = coefficients[0], coefficients[1], 0
        if table.degree > 1:
            slope = self._slope(m, coefficients, place)
            waited = 2
        factor = delay(m, place, waited, name="factor")
        product = Signal(signed(len(slope) + table.low_bits), name="product", reset_less=True)
        m.d.sync += product.eq(slope * factor)
        whole = delay(m, start, waited + 1, name="start")
        value = Signal(signed(self._value_bits), name="value", reset_less=True)
        total = Signal.like(value, name="total", reset_less=False)
        m.d.comb += total.eq(Cat(Const(0, table.low_bits), whole).as_signed() + product)
        inside = delay(m, self.argument.payload.inside, self.latency_cycles - 1, name="inside")
        m.d.sync += value.eq(Mux(inside, total, 0))
        m.d.comb += [
            self.result.payload.eq(value),
            self.result.valid.eq(delay(m, self.argument.valid, self.latency_cycles, name="valid", reset_less=False)),
        ]
        return m

    def _slope(self, m: Any, coefficients: list[Any], place: Any) -> Any:
        """Return ``c1 + floor(c2 * t / 2**low_bits)`` two cycles later."""
        table = self._table
        bend = Signal(signed(len(coefficients[2]) + table.low_bits), name="bend", reset_less=True)
        m.d.sync += bend.eq(coefficients[2] * place)
        slope = Signal(signed(signed_bits(*table.slope_range)), name="slope", reset_less=True)
        first = delay(m, coefficients[1], 1, name="first_slope")
        m.d.sync += slope.eq(first + bend[table.low_bits :].as_signed())
        return slope

    def _read(self, m: Any) -> list[Any]:
        """Return the coefficients, signed, one cycle after the segment's number."""
        table = self._table
        widths = [each.width_bits for each in table.fields]
        words = [_word(row, table.fields) for row in table.coefficients]
        word = Const(words[0], sum(widths))
        if table.segments > 1:
            m.submodules.rom = rom = memory.Memory(shape=unsigned(len(word)), depth=len(words), init=words)
            reader = rom.read_port()
            m.d.comb += [reader.addr.eq(self.argument.payload.segment), reader.en.eq(1)]
            word = reader.data
        found, at = [], 0
        for index, each in enumerate(table.fields):
            stored = word[at : at + each.width_bits]
            at += each.width_bits
            value = stored if each.signed else Cat(stored, Const(1 if each.offset else 0, 1))
            coefficient = Signal(signed(max(len(value), 1)), name=f"coefficient_{index}")
            m.d.comb += coefficient.eq(value.as_signed())
            found.append(coefficient)
        return found


def _word(row: tuple[int, ...], fields: tuple[Field, ...]) -> int:
    """Return the memory word of a segment: the first coefficient lowest."""
    word, at = 0, 0
    for value, each in zip(row, fields, strict=True):
        word |= (value & ((1 << each.width_bits) - 1)) << at
        at += each.width_bits
    return word
