"""One lane of a primitive block: reduction, table, shift, rounding, range."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from accel.numerics import Overflow, Rounding
from accel.primitive_unit import PrimitiveUnit
from rtl.arith import shift_right_sticky, signed_bits
from rtl.multiply import multiply
from rtl.normalise import Normalise
from rtl.polynomial import Polynomial
from rtl.stream import delay, element_shape, flow

__all__ = ["PrimitiveLane"]


class PrimitiveLane(wiring.Component):
    """Computes the function of one number a cycle, without back-pressure (``accel.primitive_unit``).

    Latency ``unit.front_cycles`` plus 3 or 5 for the polynomial plus 3; interval 1. Error: ``unit.worst_error``.

    Parameters
    ----------
    unit : PrimitiveUnit
        Function, formats, table.

    Members
    -------
    argument : In(flow(input shape))
        x.
    result : Out(flow(output shape))
        f(x).
    """

    interval_cycles = 1

    def __init__(self, unit: PrimitiveUnit) -> None:
        self._unit = unit
        super().__init__(
            {
                "argument": In(flow(element_shape(unit.input_format))),
                "result": Out(flow(element_shape(unit.output_format))),
            }
        )

    @property
    def unit(self) -> PrimitiveUnit:
        """The parameters of the arithmetic."""
        return self._unit

    @staticmethod
    def latency_of(unit: PrimitiveUnit) -> int:
        """Return the cycles from an argument to its result."""
        return unit.front_cycles + Polynomial.latency_of(unit.table) + 3

    @property
    def latency_cycles(self) -> int:
        """Cycles from an argument to its result."""
        return self.latency_of(self._unit)

    def elaborate(self, platform: Any) -> Any:
        """Build: the reduction (0 to 3 or more), the polynomial, shift or sum (1), rounding (1), range (1)."""
        m = Module()
        unit, table = self._unit, self._unit.table
        argument, part, moved = self._mantissa(m) if unit.primitive.of_mantissa else self._power(m)
        m.submodules.polynomial = polynomial = Polynomial(table)
        place = polynomial.argument.payload
        segment = argument[table.low_bits :]
        if len(table.parts) > 1:
            segment = (segment + Mux(part, table.parts[0], 0))[: len(place.segment)]
        m.d.comb += [place.place.eq(argument[: table.low_bits]), place.segment.eq(segment), place.inside.eq(1)]
        value = polynomial.result.payload[: table.value_range[1].bit_length()]
        moved = delay(m, moved, polynomial.latency_cycles, name="moved")
        exact = (self._sum if unit.function == "log2" else self._shift)(m, value, moved)
        m.d.comb += [
            self.result.payload.eq(self._fit(m, *exact)),
            self.result.valid.eq(delay(m, self.argument.valid, self.latency_cycles, name="valid", reset_less=False)),
        ]
        return m

    def _power(self, m: Any) -> tuple[Any, Any, Any]:
        """Return u, no part, and how far the exponent lies below the highest one."""
        unit, code = self._unit, self.argument.payload
        bits, source = unit.argument_bits, self._unit.input_format
        turned = Cat(Const(0, bits - source.fraction_bits), code) if unit.function == "exp2" else code
        if unit.function == "exp":
            product = multiply(m, code, Const(unit.multiplier), name="product")
            turned = product[source.fraction_bits + unit.multiplier_fraction_bits - bits :]
        whole = Value.cast(turned)[bits:]
        exponent = (whole.as_signed() if len(whole) else Const(0, signed(1))) if source.signed else whole
        return Value.cast(turned)[:bits], Const(0, 1), self._below_highest(m, exponent)

    def _mantissa(self, m: Any) -> tuple[Any, Any, Any]:
        """Return u, the part, and how far the exponent lies below the highest one, or c for ``log2``."""
        unit = self._unit
        m.submodules.normalise = normal = Normalise(
            value_bits=unit.input_format.width_bits, fraction_bits=unit.input_format.width_bits - 1
        )
        wiring.connect(m, wiring.flipped(self.argument), normal.value)
        least, width = -unit.input_format.fraction_bits, unit.input_format.width_bits
        power = Signal(signed(signed_bits(least, least + width - 1)), name="power")
        m.d.comb += power.eq((Cat(normal.result.payload.exponent, 0) + least)[: len(power)])
        fraction = normal.result.payload.fraction
        argument = Cat(Const(0, unit.argument_bits - len(fraction)), fraction)
        if unit.function == "log2":
            return argument, Const(0, 1), power
        if unit.function == "reciprocal":
            return argument, Const(0, 1), self._below_highest(m, -power)
        return argument, power[0], self._below_highest(m, -(power >> 1))

    def _below_highest(self, m: Any, exponent: Any) -> Any:
        """Return ``highest_exponent`` less the exponent, which is brought into its range."""
        low, high = self._unit.lowest_exponent, self._unit.highest_exponent
        least, most = self._unit.exponent_range
        given = Signal(signed(signed_bits(least, most)), name="given")
        below = Signal(range(high - low + 1), name="below")
        fitted: Any = given
        if most > high:
            fitted = Mux(given > high, Const(high, given.shape()), fitted)
        if least < low:
            fitted = Mux(given < low, Const(low, given.shape()), fitted)
        m.d.comb += [given.eq(exponent), below.eq((high - fitted)[: len(below)])]
        return below

    def _shift(self, m: Any, value: Any, below: Any) -> tuple[Any, Any, int]:
        """Return after a cycle the result with one fraction bit, whether bits under it were lost, and its largest."""
        unit = self._unit
        under = unit.table.value_fraction_bits - unit.output_format.fraction_bits - unit.highest_exponent
        wide = value if under else Cat(Const(0, 1), value)
        drop = max(under - 1, 0)
        moved, lost = shift_right_sticky(wide[drop:], below)
        number = Signal(unsigned(len(wide) - drop), name="number", reset_less=True)
        sticky = Signal(name="sticky", reset_less=True)
        m.d.sync += [number.eq(moved), sticky.eq(lost | wide[:drop].any())]
        return number, sticky, unit.table.value_range[1] << (len(wide) - len(value)) >> drop

    def _sum(self, m: Any, value: Any, base: Any) -> tuple[Any, Any, int]:
        """Return after a cycle ``base + value`` with one fraction bit, whether bits were lost, and its largest."""
        unit, places = self._unit, self._unit.table.value_fraction_bits
        under = places - unit.output_format.fraction_bits
        first = -unit.input_format.fraction_bits
        ends = first << places, (first + unit.input_format.width_bits - 1 << places) + unit.table.value_range[1]
        total = Signal(signed(signed_bits(*ends)), name="total")
        m.d.comb += total.eq((Cat(Const(0, places), base).as_signed() + Cat(value, 0).as_signed())[: len(total)])
        wide = total if under else Cat(Const(0, 1), total)
        drop = max(under - 1, 0)
        number = Signal(signed(len(wide) - drop), name="number", reset_less=True)
        sticky = Signal(name="sticky", reset_less=True)
        m.d.sync += [number.eq(wide[drop:].as_signed()), sticky.eq(wide[:drop].any())]
        return number, sticky, ends[1] << (len(wide) - len(total)) >> drop

    def _fit(self, m: Any, number: Any, sticky: Any, largest: int) -> Any:
        """Return after two cycles the number, which is at most ``largest``, rounded; and what x = 0 gives."""
        unit, target = self._unit, self._unit.output_format
        up = {
            Rounding.TRUNCATE: Const(0, 1),
            Rounding.NEAREST_UP: number[0],
            Rounding.NEAREST_EVEN: number[0] & (sticky | number[1]),
        }[target.rounding]
        most = (largest >> 1) + (target.rounding is not Rounding.TRUNCATE)
        least = -(1 << len(number) >> 2) if number.shape().signed else 0
        rounded = Signal(signed(signed_bits(least, most)) if least else most.bit_length(), name="rounded")
        m.d.sync += rounded.eq(((number >> 1) + up)[: len(rounded)])
        fitted: Any = rounded
        if target.overflow is Overflow.SATURATE:
            if most > target.max_code:
                fitted = Mux(rounded > target.max_code, Const(target.max_code, len(rounded)), fitted)
            if least < target.min_code:
                fitted = Mux(rounded < target.min_code, Const(target.min_code, signed(len(rounded))), fitted)
        if unit.primitive.of_mantissa:
            nothing = delay(m, ~self.argument.payload.any(), self.latency_cycles - 1, name="nothing")
            fitted = Mux(nothing, Const(unit.zero_code, element_shape(target)), fitted)
        result = Signal(element_shape(target), name="result_code", reset_less=True)
        m.d.sync += result.eq(fitted)
        return result
