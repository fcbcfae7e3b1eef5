"""The front of the softmax: from a beat of scores to mantissas and exponents (steps 1 to 3)."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from accel.softmax_unit import LOG2E, SoftmaxUnit
from rtl.arith import LEVELS_PER_STAGE, minimum, reduce_pairs
from rtl.exp2 import Exp2
from rtl.softmax.layouts import halvings_range, halvings_shape, powers_layout, scale_shift, scaling_layout
from rtl.stream import Beat, delay, element_shape, flow

__all__ = ["Exponentials", "ScoreScale"]


class ScoreScale(wiring.Component):
    """Multiplies a score by -log2(e) and splits the result into whole halvings and a fraction (steps 1 and 2).

    Latency 3 cycles (operand, product, rounded result), interval 1; the only error is the rounding of step 1.

    Parameters
    ----------
    unit : SoftmaxUnit
        The formats.

    Members
    -------
    score : In(flow(input format))
        x.
    scaled : Out(flow(scaling_layout))
        ``halvings`` = -n and ``fraction`` = g; valid 3 cycles after their score.
    """

    latency_cycles = 3
    interval_cycles = 1

    def __init__(self, unit: SoftmaxUnit) -> None:
        self._unit = unit
        super().__init__(
            {"score": In(flow(element_shape(unit.input_format))), "scaled": Out(flow(scaling_layout(unit)))}
        )

    def elaborate(self, platform: Any) -> Any:
        """Build the three stages."""
        m = Module()
        unit, shift = self._unit, scale_shift(self._unit)
        operand = delay(m, self.score.payload, 1, name="operand")
        factor = Const(-LOG2E, signed(LOG2E.bit_length() + 1))
        product = Signal(signed(len(operand) + len(factor)), reset_less=True)
        m.d.sync += product.eq(operand * factor)

        bits = unit.mantissa_fraction_bits + halvings_shape(unit).width
        scaled = Signal(signed(bits), reset_less=True)
        if shift > 0:
            # -round_half_up(p / 2**s) is floor((-p + 2**(s-1) - 1) / 2**s).
            biased = Signal(signed(len(product) + 1))
            m.d.comb += biased.eq(product + Const((1 << (shift - 1)) - 1, signed(shift + 1)))
            m.d.sync += scaled.eq(biased >> shift)
        else:
            m.d.sync += scaled.eq(Cat(Const(0, -shift), product).as_signed())
        m.d.comb += [
            Cat(self.scaled.payload.fraction, self.scaled.payload.halvings).eq(scaled),
            self.scaled.valid.eq(delay(m, self.score.valid, 3, name="valid", reset_less=False)),
        ]
        return m


class Exponentials(wiring.Component):
    """Computes e**x of every valid lane of a beat as ``mantissa * 2**-halvings``, and the fewest halvings of the beat.

    Latency 6 cycles, interval 1; nothing in it stalls. The mantissa is within ``unit.exp2.max_error`` of ``2**-g``. The
    minimum over the lanes is taken in a tree beside the table look-up.

    Parameters
    ----------
    unit : SoftmaxUnit
        Formats, lanes and table.

    Members
    -------
    scores : In(flow(beat of scores))
        Scores.
    powers : Out(flow(powers_layout))
        The exponentials. Lanes without a score are not kept, their numbers mean nothing; if no lane of the beat has
        one, ``fewest`` is the largest number of halvings.
    """

    latency_cycles = ScoreScale.latency_cycles + Exp2.latency_cycles
    interval_cycles = 1

    def __init__(self, unit: SoftmaxUnit, beat: Beat) -> None:
        self._unit, self._beat = unit, beat
        super().__init__({"scores": In(flow(beat.layout)), "powers": Out(flow(powers_layout(unit)))})

    def elaborate(self, platform: Any) -> Any:
        """Build a scale and a 2**-u block for each lane, and the tree."""
        m = Module()
        scores, powers = self.scores.payload, self.powers.payload
        keep, candidates = [], []
        worst = Const(halvings_range(self._unit)[1], halvings_shape(self._unit))
        for lane in range(self._unit.lanes):
            m.submodules[f"scale_{lane}"] = scale = ScoreScale(self._unit)
            m.submodules[f"exp2_{lane}"] = exp2 = Exp2(table=self._unit.exp2)
            scaled = scale.scaled.payload
            m.d.comb += [
                scale.score.payload.eq(scores[self._beat.field][lane]),
                scale.score.valid.eq(self.scores.valid & scores.keep[lane]),
                exp2.argument.payload.eq(scaled.fraction),
                exp2.argument.valid.eq(scale.scaled.valid),
                powers.word.mantissa[lane].eq(exp2.result.payload),
                powers.word.halvings[lane].eq(delay(m, scaled.halvings, Exp2.latency_cycles, name=f"halvings_{lane}")),
            ]
            keep.append(exp2.result.valid)
            candidates.append(Mux(scale.scaled.valid, scaled.halvings, worst))
        m.d.comb += [
            powers.word.keep.eq(Cat(keep)),
            powers.word.last.eq(delay(m, scores.last, self.latency_cycles, name="last")),
            powers.fewest.eq(self._fewest(m, candidates)),
            self.powers.valid.eq(delay(m, self.scores.valid, self.latency_cycles, name="valid", reset_less=False)),
        ]
        return m

    def _fewest(self, m: Any, candidates: list[Any]) -> Any:
        """Return the minimum of ``candidates`` as many cycles later as the table takes: enough for 64 lanes."""
        for stage in range(Exp2.latency_cycles):
            registers = []
            for index, value in enumerate(reduce_pairs(candidates, minimum, levels=LEVELS_PER_STAGE)):
                name = f"fewest_{stage}_{index}"
                registers.append(Signal(halvings_shape(self._unit), name=name, reset_less=True))
                m.d.sync += registers[-1].eq(value)
            candidates = registers
        return candidates[0]
