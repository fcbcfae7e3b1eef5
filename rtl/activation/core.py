"""An activation function on a stream of numbers, several lanes wide."""

from __future__ import annotations

from functools import partial
from typing import Any

from amaranth import Cat, Const, Module, Mux, Shape, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from accel.activation_unit import ActivationUnit
from rtl.activation.rounding import round_total
from rtl.arith import signed_bits
from rtl.contract import Contract
from rtl.lanes import LaneBlock
from rtl.polynomial import Polynomial
from rtl.stream import delay, element_shape, flow

__all__ = ["ActivationBlock", "ActivationLane", "activation_contract"]


def activation_contract(unit: ActivationUnit) -> Contract:
    """Return what an ``ActivationBlock`` of these parameters promises, without building it."""
    table = unit.table
    return Contract(
        unit=unit.function,
        family="activation",
        summary=(
            f"{unit.function}: {unit.activation.summary}.",
            f"{unit.lanes} number(s) in a beat, {_rate(unit)}; results leave {unit.latency_cycles} cycles later.",
            f"Inputs {unit.input_format}; results {unit.output_format}.",
            f"Every result is within {unit.worst_error:.3g} of the exact function of its input code, by trial of all.",
        ),
        parameters={
            "function": unit.function,
            "max_error": unit.max_error,
            "lanes": unit.lanes,
            "max_degree": unit.max_degree,
            "lanes_per_table": unit.lanes_per_table,
        },
        derived={
            "degree": table.degree,
            "segments": table.segments,
            "low_bits": table.low_bits,
            "coefficient_fraction_bits": table.fraction_bits,
            "coefficient_bits": [each.width_bits for each in table.fields],
            "rom_bits": table.rom_bits * unit.tables,
            "tables": unit.tables,
            "value_bits": signed_bits(*table.value_range),
            "total_bits": signed_bits(*unit.total_range),
        },
        input_format=unit.input_format,
        output_format=unit.output_format,
        latency_cycles=unit.latency_cycles,
        interval_cycles=unit.interval_cycles,
        latency_span="from a beat to its results",
        max_error=unit.worst_error,
        actions={},
    )


def _rate(unit: ActivationUnit) -> str:
    return "one beat a cycle" if unit.interval_cycles == 1 else f"a beat every {unit.interval_cycles} cycles"


def _pipeline_cycles(unit: ActivationUnit) -> int:
    """Return the cycles of a lane, without the queue behind it."""
    return 3 + Polynomial.latency_of(unit.table)


class ActivationLane(wiring.Component):
    """Computes the function on one number a cycle, without back-pressure (steps 1 to 5 of ``accel.activation_unit``).

    Latency 6 cycles for a table of degree 1, 8 for degree 2; interval 1. Error: ``unit.worst_error``.

    Parameters
    ----------
    unit : ActivationUnit
        Function, formats, table.

    Members
    -------
    argument : In(flow(input shape))
        x.
    result : Out(flow(narrowest shape of all results))
        f(x).
    """

    interval_cycles = 1

    def __init__(self, unit: ActivationUnit) -> None:
        self._unit = unit
        super().__init__(
            {
                "argument": In(flow(element_shape(unit.input_format))),
                "result": Out(flow(_result_shape(unit))),
            }
        )

    @property
    def unit(self) -> ActivationUnit:
        """The parameters of the arithmetic."""
        return self._unit

    @property
    def latency_cycles(self) -> int:
        """Cycles from an argument to its result."""
        return _pipeline_cycles(self._unit)

    def elaborate(self, platform: Any) -> Any:
        """Build: distance from 0 (1), the residual (3 or 5), the total (1), rounding and saturation (1)."""
        m = Module()
        unit = self._unit
        code = self.argument.payload
        negative = delay(m, code[-1], 1, name="negative")
        magnitude = Signal(len(code), reset_less=True)
        m.d.sync += magnitude.eq(Mux(code[-1], -code, code)[: len(code)])

        m.submodules.residual = residual = Polynomial(unit.table)
        self._find(m, residual.argument.payload, magnitude, negative)
        waited = residual.latency_cycles
        base = self._line(delay(m, code, 1 + waited, name="code").as_signed(), delay(m, negative, waited, name="below"))
        total = Signal(signed(signed_bits(*unit.total_range)), reset_less=True)
        m.d.sync += total.eq(base + self._signed_residual(m, residual, waited, negative))
        m.d.comb += self.result.payload.eq(
            round_total(
                m,
                total,
                fraction_bits=unit.table.value_fraction_bits,
                total_range=unit.total_range,
                target=unit.output_format,
                shape=_result_shape(unit),
            )
        )
        return m

    def _find(self, m: Any, argument: Any, magnitude: Any, negative: Any) -> None:
        """Set the place in the table of a distance from 0; there is none beyond the part's segments."""
        table = self._unit.table
        segment = magnitude[table.low_bits :]
        start = table.parts[0] if len(table.parts) > 1 else 0
        count = Mux(negative, table.parts[1], table.parts[0]) if start else table.parts[0]
        m.d.comb += [
            argument.place.eq(magnitude[: table.low_bits]),
            argument.segment.eq((segment + Mux(negative, start, 0))[: len(argument.segment)] if start else segment),
            argument.inside.eq(segment < count),
        ]

    def _line(self, code: Any, negative: Any) -> Any:
        """Return ``slope * x + offset`` of the half, with the fraction bits of the table's values."""
        unit, ends = self._unit, []
        shift = unit.table.value_fraction_bits - unit.input_format.fraction_bits
        for half in (unit.activation.negative, unit.activation.positive):
            offset = half.offset << unit.table.value_fraction_bits
            constant = Const(offset, signed(signed_bits(offset, offset)))
            ends.append(Cat(Const(0, shift), code).as_signed() if half.slope else constant)
        return Mux(negative, *ends)

    def _signed_residual(self, m: Any, residual: Any, waited: int, negative: Any) -> Any:
        """Return the residual with the sign of the half."""
        activation, value = self._unit.activation, residual.result.payload
        if activation.positive.sign == activation.negative.sign:
            return value if activation.positive.sign > 0 else -value
        minus = delay(m, negative, waited, name="minus")
        if activation.negative.sign > 0:
            minus = ~minus
        return Mux(minus, -value, value)


def _result_shape(unit: ActivationUnit) -> Shape:
    """Return the narrowest shape of all results; what it lacks of the output format only repeats a bit."""
    low, high = int(unit.results.min()), int(unit.results.max())
    return signed(signed_bits(low, high)) if low < 0 else unsigned(max(1, high.bit_length()))


class ActivationBlock(LaneBlock):
    """An activation function on every number of a stream.

    The arithmetic is that of ``accel.activation_unit``, bit for bit, and so are error bound, latency and timing. A beat
    is accepted every ``unit.lanes_per_table`` cycles as long as the output is taken. Back-pressure loses nothing.
    ``keep`` and ``last`` pass; lanes that are not kept give 0.

    Parameters
    ----------
    unit : ActivationUnit
        All parameters of the arithmetic.

    Members
    -------
    inputs : In(stream of beats: number, keep, last)
        Numbers; lanes whose ``keep`` is low hold none.
    results : Out(stream of beats: result, keep, last)
        Results, beat for beat and lane for lane.
    """

    def __init__(self, unit: ActivationUnit) -> None:
        self._unit = unit
        super().__init__(
            unit,
            make_pipeline=partial(ActivationLane, unit),
            pipeline_cycles=_pipeline_cycles(unit),
            lanes_per_pipeline=unit.lanes_per_table,
        )

    @property
    def unit(self) -> ActivationUnit:
        """The parameters of the arithmetic."""
        return self._unit

    @property
    def contract(self) -> Contract:
        """What the block promises."""
        return activation_contract(self._unit)
