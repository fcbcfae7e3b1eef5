"""The front of the softmax: from a beat of scores to mantissas and halvings (``accel.softmax_rows``, steps 1 to 3)."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from accel.numerics import FixedPoint
from accel.softmax_rows import PowerRows
from rtl.arith import LEVELS_PER_STAGE, minimum, reduce_pairs
from rtl.exp2 import Exp2
from rtl.softmax.layouts import halvings_shape, powers_layout, scaling_layout, word_layout
from rtl.stream import Beat, delay, flow

__all__ = ["Exponentials", "Power", "ScoreScale", "distance"]


def distance(code: Any, element: FixedPoint) -> Any:
    """Return how far a code is below the largest one, as an unsigned number of its width: some bits are inverted."""
    bits = Value.cast(code)
    return Cat(~bits[:-1], bits[-1]) if element.signed else ~bits


class ScoreScale(wiring.Component):
    """Takes the distance of a score, scales it, and splits it into whole halvings and a fraction (steps 1 and 2).

    Latency 3 cycles (operand, product, rounded result), interval 1; the only error is the rounding of step 1.

    Parameters
    ----------
    unit : PowerRows
        The formats.
    of_code : bool
        The argument is a code; else it is a distance already.

    Members
    -------
    argument : In(flow(unsigned))
        Bits of x, or d.
    scaled : Out(flow(scaling_layout))
        g and h; valid 3 cycles after their score.
    """

    latency_cycles = 3
    interval_cycles = 1

    def __init__(self, unit: PowerRows, *, of_code: bool) -> None:
        self._unit, self._of_code = unit, of_code
        super().__init__(
            {"argument": In(flow(unit.largest_distance.bit_length())), "scaled": Out(flow(scaling_layout(unit)))}
        )

    def elaborate(self, platform: Any) -> Any:
        """Build the three stages."""
        m = Module()
        factor, shift = self._unit.scale[0], self._unit.scale_shift
        # The distance is taken in here: lanes are one module only if all its ports have names.
        far = distance(self.argument.payload, self._unit.input_format) if self._of_code else self.argument.payload
        product = delay(m, far, 2 if factor == 1 else 1, name="distance")
        if factor != 1:
            operand, product = product, Signal(len(product) + factor.bit_length(), name="product", reset_less=True)
            m.d.sync += product.eq(operand * factor)
        bits = Value.cast(self.scaled.payload)
        scaled = Signal(len(bits), reset_less=True)
        if shift > 0:
            rounded = Signal(max(len(product), shift) + 1)
            m.d.comb += rounded.eq(product + Const(1 << (shift - 1), shift))
            m.d.sync += scaled.eq(rounded[shift:])
        else:
            m.d.sync += scaled.eq(Cat(Const(0, -shift), product))
        m.d.comb += [
            bits.eq(scaled),
            self.scaled.valid.eq(delay(m, self.argument.valid, 3, name="valid", reset_less=False)),
        ]
        return m


class Power(wiring.Component):
    """Computes the exponential of a score as ``w / 2**h`` (steps 1 to 3).

    Latency ``unit.power_cycles``, interval 1. The mantissa is within ``unit.exp2.max_error`` of ``2**-g``.

    Parameters
    ----------
    unit : PowerRows
        The formats and the table; without one the mantissa is 1.
    of_code : bool
        The argument is a code; else it is a distance already.

    Members
    -------
    argument : In(flow(unsigned))
        Bits of x, or d.
    halvings, fraction, mantissa : Out
        h, g and w, ``unit.power_cycles`` later.
    early : Out
        h, 3 cycles after its argument.
    """

    interval_cycles = 1

    def __init__(self, unit: PowerRows, *, of_code: bool) -> None:
        self._unit, self._of_code = unit, of_code
        super().__init__(
            {
                "argument": In(flow(unit.largest_distance.bit_length())),
                "halvings": Out(halvings_shape(unit)),
                "fraction": Out(unit.mantissa_fraction_bits),
                "mantissa": Out(unit.mantissa_fraction_bits + 1),
                "early": Out(halvings_shape(unit)),
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Build a scale and a 2**-g block."""
        m = Module()
        m.submodules.scale = scale = ScoreScale(self._unit, of_code=self._of_code)
        scaled = scale.scaled.payload
        m.d.comb += [
            scale.argument.payload.eq(self.argument.payload),
            scale.argument.valid.eq(self.argument.valid),
            self.early.eq(scaled.halvings),
            self.halvings.eq(delay(m, scaled.halvings, self._unit.table_cycles, name="halvings")),
            self.fraction.eq(delay(m, scaled.fraction, self._unit.table_cycles, name="fraction")),
            self.mantissa.eq(1),
        ]
        if self._unit.mantissa_bits:
            m.submodules.exp2 = exp2 = Exp2(table=self._unit.exp2, read_cycles=self._unit.read_cycles)
            m.d.comb += [
                exp2.argument.payload.eq(scaled.fraction),
                exp2.argument.valid.eq(scale.scaled.valid),
                self.mantissa.eq(exp2.result.payload),
            ]
        return m


class Exponentials(wiring.Component):
    """Computes the exponential of every valid lane of a beat as ``w / 2**h``, and the fewest halvings of the beat.

    Latency ``unit.power_cycles``, interval 1; nothing in it stalls. The mantissa is within ``unit.exp2.max_error`` of
    ``2**-g``. The minimum over the lanes is taken in a tree beside the table look-up.

    Parameters
    ----------
    unit : PowerRows
        Formats, lanes and table.
    beat : Beat
        Of scores.

    Members
    -------
    scores : In(flow(beat of scores))
        Scores.
    powers : Out(flow(powers_layout))
        The exponentials. Lanes without a score are not kept, their numbers mean nothing; if no lane of the beat has
        one, ``fewest`` is the largest number of halvings.
    words : Out(flow(word_layout))
        What of them the row buffer keeps.
    """

    interval_cycles = 1

    def __init__(self, unit: PowerRows, beat: Beat) -> None:
        self._unit, self._beat = unit, beat
        super().__init__(
            {
                "scores": In(flow(beat.layout)),
                "powers": Out(flow(powers_layout(unit))),
                "words": Out(flow(word_layout(unit))),
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Build a scale and a 2**-g block for each lane, and the tree."""
        m = Module()
        scores, powers = self.scores.payload, self.powers.payload
        candidates = []
        worst = Const(self._unit.max_halvings, halvings_shape(self._unit))
        keep = delay(m, scores.keep, ScoreScale.latency_cycles, name="early_keep")
        for lane in range(self._unit.lanes):
            m.submodules[f"power_{lane}"] = power = Power(self._unit, of_code=True)
            m.d.comb += [
                power.argument.payload.eq(scores[self._beat.field][lane]),
                power.argument.valid.eq(self.scores.valid),
                powers.word.halvings[lane].eq(power.halvings),
                powers.fraction[lane].eq(power.fraction),
            ]
            if self._unit.mantissa_bits:
                m.d.comb += powers.word.mantissa[lane].eq(power.mantissa)
            candidates.append(Mux(keep[lane], power.early, worst))
        m.d.comb += [
            powers.word.keep.eq(delay(m, keep, self._unit.table_cycles, name="keep")),
            powers.word.last.eq(delay(m, scores.last, self._unit.power_cycles, name="last")),
            powers.fewest.eq(self._fewest(m, candidates)),
            self.powers.valid.eq(delay(m, self.scores.valid, self._unit.power_cycles, name="valid", reset_less=False)),
            self.words.payload.eq(powers.word),
            self.words.valid.eq(self.powers.valid),
        ]
        return m

    def _fewest(self, m: Any, candidates: list[Any]) -> Any:
        """Return the minimum of ``candidates`` as many cycles later as the table takes: enough for 64 lanes."""
        for stage in range(self._unit.table_cycles):
            registers = []
            for index, value in enumerate(reduce_pairs(candidates, minimum, levels=LEVELS_PER_STAGE)):
                name = f"fewest_{stage}_{index}"
                registers.append(Signal(halvings_shape(self._unit), name=name, reset_less=True))
                m.d.sync += registers[-1].eq(value)
            candidates = registers
        return candidates[0]
