"""Functions of a positive integer by its mantissa: the 1 / sqrt and log2 blocks."""

from __future__ import annotations

from typing import Any

from amaranth import Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from accel.mantissa_unit import MantissaUnit
from rtl.arith import count_leading_zeros, shift_left
from rtl.polynomial import Polynomial
from rtl.stream import delay, flow

__all__ = ["MantissaFunction"]


class MantissaFunction(wiring.Component):
    """Computes 1 / sqrt(v) or log2(v) of a positive integer, one a cycle, bit for bit as ``accel.mantissa_unit`` says.

    Latency 7 cycles for a table of degree 1, 9 for degree 2 (``unit.latency_cycles``), interval 1. The error is at most
    ``unit.max_result_error``: of y by trial of every mantissa, and of rounding the mantissa.

    Parameters
    ----------
    unit : MantissaUnit
        Function, widths, table.

    Members
    -------
    value : In(flow(unsigned(value_bits)))
        v, above 0.
    result : Out(flow({exponent: unsigned, mantissa: unsigned(result_fraction_bits + 1)}))
        e and y, valid ``unit.latency_cycles`` after their value.
    """

    interval_cycles = 1

    def __init__(self, unit: MantissaUnit) -> None:
        self._unit = unit
        layout = {"exponent": range(unit.value_bits), "mantissa": unsigned(unit.result_fraction_bits + 1)}
        super().__init__({"value": In(flow(unsigned(unit.value_bits))), "result": Out(flow(data.StructLayout(layout)))})

    @property
    def unit(self) -> MantissaUnit:
        """Function, widths, table."""
        return self._unit

    @property
    def latency_cycles(self) -> int:
        """Cycles from a value to its result."""
        return self._unit.latency_cycles

    def elaborate(self, platform: Any) -> Any:
        """Build: find the leading 1 (1), shift (2), round (3), the polynomial, round (1)."""
        m = Module()
        unit, table = self._unit, self._unit.table
        fraction, exponent = self._normalise(m)
        m.submodules.polynomial = polynomial = Polynomial(table)
        argument = polynomial.argument.payload
        segment = fraction[table.low_bits :]
        if unit.parts > 1:
            segment = (segment + Mux(exponent[0], table.parts[0], 0))[: len(argument.segment)]
        m.d.comb += [
            argument.place.eq(fraction[: table.low_bits]),
            argument.segment.eq(segment),
            argument.inside.eq(1),
        ]
        value = polynomial.result.payload
        shift = table.value_fraction_bits - unit.result_fraction_bits
        rounded = Signal(len(value) + 1)
        m.d.comb += rounded.eq((value + Const(1 << shift >> 1, shift + 1))[: len(rounded)])
        mantissa = Signal(unit.result_fraction_bits + 1, reset_less=True)
        m.d.sync += mantissa.eq(rounded[shift:][: len(mantissa)])
        m.d.comb += [
            self.result.payload.mantissa.eq(mantissa),
            self.result.payload.exponent.eq(delay(m, exponent, polynomial.latency_cycles + 1, name="exponent")),
            self.result.valid.eq(delay(m, self.value.valid, unit.latency_cycles, name="valid", reset_less=False)),
        ]
        return m

    def _normalise(self, m: Any) -> tuple[Any, Any]:
        """Return u and e after stage 3."""
        bits, top = self._unit.fraction_bits, self._unit.value_bits - 1
        zeros = Signal(range(top + 1), reset_less=True)
        shifted = Signal(top + 1, reset_less=True)
        exponent = Signal(range(top + 1), name="exponent_0", reset_less=True)
        m.d.sync += zeros.eq(count_leading_zeros(m, self.value.payload, name="value"))
        m.d.sync += shifted.eq(shift_left(delay(m, self.value.payload, 1, name="value"), zeros))
        m.d.sync += exponent.eq((Const(top, len(exponent)) - zeros)[: len(exponent)])

        fraction = Signal(bits, reset_less=True)
        kept = shifted[top - bits : top]
        if top == bits:
            m.d.sync += fraction.eq(kept)
        else:
            up = Signal(bits + 1)
            m.d.comb += up.eq(kept + shifted[top - bits - 1])
            m.d.sync += fraction.eq(Mux(up[bits], Const(-1, bits), up[:bits]))
        return fraction, delay(m, exponent, 1, name="normal_exponent")
