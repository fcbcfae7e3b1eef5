"""Activation functions without a table: published stand-ins of one formula."""

from __future__ import annotations

from functools import partial
from typing import Any

from amaranth import Cat, Const, Module, Mux, Shape, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from accel.closed_activation_unit import CLOSED_ACTIVATIONS, ClosedActivationUnit
from accel.numerics import FixedPoint
from rtl.activation.rounding import round_total
from rtl.arith import signed_bits
from rtl.contract import Contract
from rtl.entry import UnitEntry
from rtl.lanes import LaneBlock
from rtl.multiply import multiply, multiply_cycles
from rtl.stream import delay, element_shape, flow

__all__ = ["CLOSED_INPUT", "CLOSED_OUTPUT", "ENTRIES", "ClosedActivationBlock", "closed_activation_contract"]


def closed_activation_contract(unit: ClosedActivationUnit) -> Contract:
    """Return what a ``ClosedActivationBlock`` of these parameters promises, without building it."""
    form = unit.activation
    return Contract(
        unit=unit.function,
        family="closed-activation",
        summary=(
            f"{unit.function}: {form.summary}, in place of {form.stands_for}.",
            f"{unit.lanes} number(s) in a beat, one beat a cycle; results leave {unit.latency_cycles} cycles later.",
            f"Inputs {unit.input_format}; results {unit.output_format}.",
            f"Every result is within {unit.worst_error:.3g} of {form.stands_for} of its input code, by trial of all.",
        ),
        parameters={"function": unit.function, "lanes": unit.lanes},
        derived={
            "stands_for": form.stands_for,
            "formula_error": unit.formula_error,
            "value_fraction_bits": unit.value_fraction_bits,
            "edge_bits": unit.edge_code.bit_length(),
            "factor_bits": unit.factor_code.bit_length(),
            "total_bits": signed_bits(*unit.total_range),
            "multipliers": form.distance_power + max(form.edge_power - 1, 0) + (form.factor not in (0.0, 1.0)),
        },
        input_format=unit.input_format,
        output_format=unit.output_format,
        latency_cycles=unit.latency_cycles,
        interval_cycles=1,
        latency_span="from a beat to its results",
        max_error=unit.worst_error,
        actions={},
    )


class ClosedActivationLane(wiring.Component):
    """Computes the stand-in of one number a cycle, without back-pressure (``accel.closed_activation_unit``).

    Latency ``unit.residual_cycles + 3``, interval 1. Error: ``unit.worst_error``.

    Parameters
    ----------
    unit : ClosedActivationUnit
        Function, formats.

    Members
    -------
    argument : In(flow(input shape))
        x.
    result : Out(flow(narrowest shape of all results))
        f(x).
    """

    interval_cycles = 1

    def __init__(self, unit: ClosedActivationUnit) -> None:
        self._unit = unit
        low, high = int(unit.results.min()), int(unit.results.max())
        self._shape: Shape = signed(signed_bits(low, high)) if low < 0 else unsigned(max(1, high.bit_length()))
        super().__init__(
            {"argument": In(flow(element_shape(unit.input_format))), "result": Out(flow(self._shape))},
        )

    @property
    def unit(self) -> ClosedActivationUnit:
        """The parameters of the arithmetic."""
        return self._unit

    @property
    def latency_cycles(self) -> int:
        """Cycles from an argument to its result."""
        return self._unit.residual_cycles + 3

    def elaborate(self, platform: Any) -> Any:
        """Build: distance from 0 (1), the residual, the total (1), rounding and range (1)."""
        m = Module()
        unit, form = self._unit, self._unit.activation
        code = self.argument.payload
        waited = 1 + unit.residual_cycles
        negative = delay(m, code[-1], waited, name="negative")
        slopes, offsets = any(half.slope for half in form.halves), any(half.offset for half in form.halves)
        straight: list[Any] = []
        if slopes:
            shift = unit.value_fraction_bits - unit.input_format.fraction_bits
            given = Cat(Const(0, shift), delay(m, code, waited, name="code")).as_signed()
            straight.append(Mux(negative, *(given if half.slope else 0 for half in reversed(form.halves))))
        if offsets:
            ends = [half.offset << unit.value_fraction_bits for half in reversed(form.halves)]
            straight.append(Mux(negative, *(Const(end, signed(signed_bits(end, end))) for end in ends)))
        if unit.residual_cycles:
            value = Cat(self._residual(m, code), 0).as_signed()
            signs = [half.sign for half in form.halves]
            straight.append(-value if max(signs) < 0 else Mux(negative, value, -value))
        total = Signal(signed(signed_bits(*unit.total_range)), reset_less=True)
        m.d.sync += total.eq(sum(straight[1:], straight[0]))
        result = round_total(
            m,
            total,
            fraction_bits=unit.value_fraction_bits,
            total_range=unit.total_range,
            target=unit.output_format,
            shape=self._shape,
        )
        m.d.comb += [
            self.result.payload.eq(result),
            self.result.valid.eq(delay(m, self.argument.valid, self.latency_cycles, name="valid", reset_less=False)),
        ]
        return m

    def _residual(self, m: Any, code: Any) -> Any:
        """Return V: the distance (1), what is left to the edge (1), the products."""
        unit, form = self._unit, self._unit.activation
        distance = Signal(len(code), name="distance", reset_less=True)
        m.d.sync += distance.eq(Mux(code[-1], -code, code)[: len(code)])
        scaled = Cat(Const(0, unit.edge_fraction_bits - unit.input_format.fraction_bits), distance)
        rest = Signal(unit.edge_code.bit_length(), name="rest", reset_less=True)
        m.d.sync += rest.eq(Mux(scaled > unit.edge_code, 0, (unit.edge_code - scaled)[: len(rest)]))
        product, waited = rest, 1
        if form.edge_power == 2:
            waited += multiply_cycles(rest, rest)
            product = multiply(m, rest, rest, name="square")[unit.edge_fraction_bits :][: unit.power_bits]
        if form.distance_power:
            factor = delay(m, distance, waited, name="distance")
            product = multiply(m, factor, product, name="product")
        scaled_product = multiply(m, product, Const(unit.factor_code), name="scaled")
        return scaled_product[unit.residual_shift :]


class ClosedActivationBlock(LaneBlock):
    """A published stand-in for an activation function, on every number of a stream.

    The arithmetic is that of ``accel.closed_activation_unit``, bit for bit, and so are error, latency and timing. A
    beat is accepted in every cycle (interval 1) as long as the output is taken. Back-pressure loses nothing. ``keep``
    and ``last`` pass; lanes that are not kept give 0.

    Parameters
    ----------
    unit : ClosedActivationUnit
        All parameters of the arithmetic.

    Members
    -------
    inputs : In(stream of beats: number, keep, last)
        Numbers; lanes whose ``keep`` is low hold none.
    results : Out(stream of beats: result, keep, last)
        Results, beat for beat and lane for lane.
    """

    def __init__(self, unit: ClosedActivationUnit) -> None:
        self._unit = unit
        super().__init__(
            unit, make_pipeline=partial(ClosedActivationLane, unit), pipeline_cycles=unit.residual_cycles + 3
        )

    @property
    def unit(self) -> ClosedActivationUnit:
        """The parameters of the arithmetic."""
        return self._unit

    @property
    def contract(self) -> Contract:
        """What the block promises."""
        return closed_activation_contract(self._unit)


CLOSED_INPUT = "s16f12,nearest_even,saturate"
CLOSED_OUTPUT = "s16f12,nearest_up,saturate"


def _default(function: str) -> ClosedActivationUnit:
    return ClosedActivationUnit(
        function=function,
        lanes=1,
        input_format=FixedPoint.parse(CLOSED_INPUT),
        output_format=FixedPoint.parse(CLOSED_OUTPUT),
    )


ENTRIES = tuple(
    UnitEntry(
        name=name,
        summary=f"{form.summary}: in place of {form.stands_for}, without a table",
        make_default=partial(_default, name),
        contract=closed_activation_contract,
        build=ClosedActivationBlock,
    )
    for name, form in CLOSED_ACTIVATIONS.items()
)
"""For the registry of blocks."""
