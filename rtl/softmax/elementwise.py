"""Attention weights that need no row: sigmoid attention and ReLU attention."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Const, Module, Mux, Shape, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from accel.numerics import FixedPoint
from accel.softmax_family.elementwise import ElementwiseUnit, SigmoidAttentionUnit
from rtl.activation import ActivationLane
from rtl.arith import round_off
from rtl.contract import Contract
from rtl.elastic import PipelineEnd
from rtl.multiply import multiply
from rtl.softmax.describe import describe
from rtl.softmax.rows import RowUnit
from rtl.stream import delay, element_shape, flow

__all__ = ["ElementwiseWeights"]


class WeightLane(wiring.Component):
    """Computes the weight of one score a cycle, without back-pressure (``accel.softmax_family.elementwise``).

    Latency ``unit.latency_cycles - 1``: sum, function, product, rounding, limit; interval 1. Error: ``unit.max_error``.

    Parameters
    ----------
    unit : ElementwiseUnit
        Formats and constants.

    Members
    -------
    score : In(flow(signed))
        x.
    weight : Out(flow(output shape))
        The weight.
    """

    interval_cycles = 1

    def __init__(self, unit: ElementwiseUnit) -> None:
        self._unit = unit
        super().__init__(
            {
                "score": In(flow(element_shape(unit.input_format))),
                "weight": Out(flow(element_shape(unit.output_format))),
            }
        )

    @property
    def latency_cycles(self) -> int:
        """Cycles from a score to its weight."""
        return self._unit.latency_cycles - 1

    def elaborate(self, platform: Any) -> Any:
        """Build the five steps."""
        m = Module()
        unit = self._unit
        width = unit.input_format.width_bits + 1
        total = Signal(signed(width), reset_less=True)
        m.d.sync += total.eq((self.score.payload + Const(unit.bias_code, signed(width)))[:width])
        result = self._function(m, total)
        if unit.multiplies:
            product = multiply(m, result, Const(unit.factor, unit.factor.bit_length()), name="product")
        else:
            product = Cat(Const(0, unit.factor.bit_length() - 1), delay(m, result, 1, name="result"))
        m.d.comb += [
            self.weight.payload.eq(self._round(m, product, unit.output_format)),
            self.weight.valid.eq(delay(m, self.score.valid, self.latency_cycles, name="valid", reset_less=False)),
        ]
        return m

    def _function(self, m: Any, total: Any) -> Any:
        """Return a, ``unit.function_cycles`` later."""
        unit = self._unit
        bits = unit.largest_result.bit_length()
        if isinstance(unit, SigmoidAttentionUnit):
            m.submodules.function = lane = ActivationLane(unit.activation)
            m.d.comb += [lane.argument.payload.eq(total), lane.argument.valid.eq(1)]
            return lane.result.payload[:bits]
        positive = Signal(unsigned(bits), name="positive", reset_less=True)
        m.d.sync += positive.eq(Mux(total[-1], 0, total[:bits]))
        return positive

    def _round(self, m: Any, product: Any, target: FixedPoint) -> Any:
        """Return the product after two cycles, rounded, then brought into the range of the output."""
        shift = self._unit.factor_fraction_bits + self._unit.result_fraction_bits - target.fraction_bits
        # One bit below the result, and whether anything is left below that one.
        whole, lost = (product[shift - 1 :], product[: shift - 1].any()) if shift else (Cat(0, product), Const(0, 1))
        rounded = Signal(len(whole), name="rounded", reset_less=True)
        m.d.sync += rounded.eq(round_off(whole, lost, target.rounding))
        weight = Signal(Shape(target.width_bits), name="weight_code", reset_less=True)
        most = Const(target.max_code, len(weight))
        m.d.sync += weight.eq(Mux(rounded > most, most, rounded) if len(rounded) > len(weight) else rounded)
        return weight


class ElementwiseWeights(RowUnit):
    """Sigmoid or ReLU attention weights: each beat leaves a fixed number of cycles after it came in.

    A beat is accepted in every cycle as long as the output is taken; back-pressure loses nothing.

    Parameters
    ----------
    unit : ElementwiseUnit
        All parameters of the arithmetic.

    Members
    -------
    scores : In(stream of beats: score, keep, last)
        Scores; lanes whose ``keep`` is low hold none.
    weights : Out(stream of beats: weight, keep, last)
        Weights, beat for beat and lane for lane; lanes without a score are 0 and not kept.
    overrun : Out(1)
        A row was too long.
    """

    @property
    def latency_cycles(self) -> int:
        """Cycles from accepting a beat to its weights, the output being idle and ready."""
        return WeightLane(self._unit).latency_cycles + 1

    @classmethod
    def contract_of(cls, unit: ElementwiseUnit) -> Contract:
        """Return what a block of these parameters promises, without building it."""
        names = ["bias", "divisor"]
        derived = {name: getattr(unit, name) for name in ("bias_code", "factor", "factor_fraction_bits")}
        if isinstance(unit, SigmoidAttentionUnit):
            names.append("function_error")
            derived["function_rom_bits"] = unit.activation.table.rom_bits * unit.lanes
        return describe(
            unit,
            summary=(f"{unit.summary}.", f"Every weight is within {unit.max_error:.3g} of the exact one."),
            parameters={name: getattr(unit, name) for name in names},
            derived=derived,
            latency_cycles=unit.latency_cycles,
            latency_span="from a beat to its weights",
        )

    def elaborate(self, platform: Any) -> Any:
        """Connect the lanes and the queue at their end."""
        m = Module()
        unit, scores = self._unit, self.scores.payload
        cycles = unit.latency_cycles - 1
        m.submodules.end = end = PipelineEnd(self.sink_beat.layout, latency_cycles=cycles)
        wiring.connect(m, end.output, wiring.flipped(self.weights))
        accept = Signal(name="accept")
        m.d.comb += [
            self.scores.ready.eq(end.room),
            accept.eq(self.scores.valid & end.room),
            end.taken.eq(accept),
        ]
        keep, last = delay(m, scores.keep, cycles, name="keep"), self._last(m, accept)
        beat = end.results.payload
        for lane in range(unit.lanes):
            m.submodules[f"lane_{lane}"] = weight = WeightLane(unit)
            m.d.comb += [
                weight.score.payload.eq(scores.score[lane]),
                weight.score.valid.eq(accept),
                beat.weight[lane].eq(Mux(keep[lane], weight.weight.payload, 0)),
            ]
        m.d.comb += [
            beat.keep.eq(keep),
            beat.last.eq(delay(m, last, cycles, name="last")),
            end.results.valid.eq(delay(m, accept, cycles, name="valid", reset_less=False)),
        ]
        return m
