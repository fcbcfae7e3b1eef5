"""Functions of a positive integer by its mantissa: the 1 / sqrt and log2 blocks."""

from __future__ import annotations

from typing import Any

from amaranth import Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from accel.mantissa_unit import MantissaUnit
from rtl.normalise import Normalise
from rtl.polynomial import Polynomial
from rtl.stream import delay, flow

__all__ = ["MantissaFunction"]


class MantissaFunction(wiring.Component):
    """Computes 1 / sqrt(v) or log2(v) of a positive integer, one a cycle, bit for bit as ``accel.mantissa_unit`` says.

    Latency 7 cycles for a table of degree 1, 9 for degree 2, and one more for values of more than 32 bits
    (``unit.latency_cycles``); interval 1. The error is at most
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
        """Build: find the leading 1 (1 or 2), shift (1), round (1), the polynomial, round (1)."""
        m = Module()
        unit, table = self._unit, self._unit.table
        m.submodules.normalise = normal = Normalise(
            value_bits=unit.value_bits, fraction_bits=unit.fraction_bits, search_cycles=unit.search_cycles
        )
        wiring.connect(m, wiring.flipped(self.value), normal.value)
        fraction, exponent = normal.result.payload.fraction, normal.result.payload.exponent
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
        waited = polynomial.latency_cycles + 1
        mantissa = Signal(unit.result_fraction_bits + 1, reset_less=True)
        m.d.sync += mantissa.eq(rounded[shift:][: len(mantissa)])
        m.d.comb += [
            self.result.payload.mantissa.eq(mantissa),
            self.result.payload.exponent.eq(delay(m, exponent, waited, name="exponent")),
            self.result.valid.eq(delay(m, normal.result.valid, waited, name="valid", reset_less=False)),
        ]
        return m
