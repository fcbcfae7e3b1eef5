"""The heart of the unit: exponentials, running maximum and running sum of the slots of a group, in turn."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from accel.reordered_unit import ReorderedUnit
from rtl.arith import minimum
from rtl.attention.reordered.choice import chosen, shifted
from rtl.attention.reordered.layouts import difference_bits, halvings_shape, score_layout, weight_layout
from rtl.exp2 import Exp2
from rtl.stream import delay, flow

__all__ = ["Exponential", "RunningSums"]


class Exponential(wiring.Component):
    """Turns a score into ``mantissa * 2**-halvings`` (the scale of step 1, and step 2).

    Latency 6 cycles (product in 2, rounded result, table 3), interval 1.

    Parameters
    ----------
    unit : ReorderedUnit
        Formats, constant, table.

    Members
    -------
    turns : In(flow(score_layout))
        Scores.
    mantissa : Out(unsigned), halvings : Out(signed)
        w and -n, 6 cycles later.
    """

    latency_cycles = 3 + Exp2.latency_cycles

    def __init__(self, unit: ReorderedUnit) -> None:
        self._unit = unit
        super().__init__(
            {
                "turns": In(flow(score_layout(unit))),
                "mantissa": Out(unsigned(unit.weight_fraction_bits + 1)),
                "halvings": Out(halvings_shape(unit)),
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Build the scale and the table."""
        m = Module()
        unit, shift = self._unit, self._unit.scale_shift
        factor = Const(-unit.log2_factor, signed(unit.log2_factor.bit_length() + 1))
        score = self.turns.payload.score
        product = Signal((score * factor).shape(), reset_less=True)
        m.d.sync += product.eq(score * factor)
        # A second register, for multipliers of several vendor cells to move into.
        product = delay(m, product, 1, name="product_delayed").as_signed()

        scaled = Signal(signed(unit.weight_fraction_bits + halvings_shape(unit).width), reset_less=True)
        if shift > 0:
            # -round_half_up(p / 2**s) is floor((-p + 2**(s-1) - 1) / 2**s).
            biased = Signal(signed(len(product) + 1))
            m.d.comb += biased.eq(product + Const((1 << (shift - 1)) - 1, signed(shift + 1)))
            m.d.sync += scaled.eq(biased >> shift)
        else:
            m.d.sync += scaled.eq(Cat(Const(0, -shift), product).as_signed())
        m.submodules.exp2 = exp2 = Exp2(table=unit.exp2)
        m.d.comb += [
            exp2.argument.payload.eq(scaled[: unit.weight_fraction_bits]),
            exp2.argument.valid.eq(delay(m, self.turns.valid, 3, name="valid", reset_less=False)),
            self.mantissa.eq(exp2.result.payload),
        ]
        halvings = scaled[unit.weight_fraction_bits :]
        m.d.comb += self.halvings.eq(delay(m, halvings, Exp2.latency_cycles, name="halvings").as_signed())
        return m


class RunningSums(wiring.Component):
    """Keeps the running maximum and sum of the slots of a group, which take turns (step 3 but for the outputs).

    Latency 3 cycles to a weight, 4 to a row's sum; interval 1, also for one slot again and again: the maximum and the
    sum close their loops within a cycle each, the sum by a shift and an addition (cf. Softermax, arXiv 2103.09301).

    Parameters
    ----------
    unit : ReorderedUnit
        Widths and group.
    slots : int
        Slots of this group.

    Members
    -------
    turns : In(flow(score_layout))
        Whose turn it is; the score itself is not read.
    mantissa, halvings : In
        Its exponential.
    weights : Out(flow(weight_layout))
        What the slot's accumulators need.
    total : Out(unsigned(sum_bits))
        S of the last row that was finished, until the next one is.
    compared, rescaled, added : Out(1)
        A maximum is compared, is raised after a row's first key, and a weight enters a sum, in this cycle.
    """

    def __init__(self, unit: ReorderedUnit, slots: int) -> None:
        self._unit, self._slots = unit, slots
        super().__init__(
            {
                "turns": In(flow(score_layout(unit))),
                "mantissa": In(unsigned(unit.weight_fraction_bits + 1)),
                "halvings": In(halvings_shape(unit)),
                "weights": Out(flow(weight_layout(unit))),
                "total": Out(unsigned(unit.sum_bits)),
                "compared": Out(1),
                "rescaled": Out(1),
                "added": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Build the maximum (1), the differences (2), the weight (3) and the sum (4)."""
        m = Module()
        unit, turn = self._unit, self.turns.payload
        valid = [delay(m, self.turns.valid, stage, name=f"valid_at_{stage}", reset_less=False) for stage in range(4)]
        live = [delay(m, turn.live, stage, name=f"live_at_{stage}") for stage in range(4)]
        first = [delay(m, turn.first, stage, name=f"first_at_{stage}") for stage in range(4)]

        best, before = self._maximum(m, valid[0])
        mantissa = delay(m, self.mantissa, 1, name="mantissa_now")
        halvings = delay(m, self.halvings, 1, name="halvings_now").as_signed()
        m.d.comb += [
            self.compared.eq(valid[1] & live[1]),
            self.rescaled.eq(valid[1] & live[1] & ~first[1] & (best < before)),
        ]
        bits = difference_bits(unit)
        behind, rise = Signal(bits, reset_less=True), Signal(bits, reset_less=True)
        # A difference of two exponents is never negative where it counts, and fits in `bits`.
        m.d.sync += [behind.eq((halvings - best)[:bits]), rise.eq((before - best)[:bits])]

        weight = Signal(unit.sum_fraction_bits + 1, reset_less=True)
        grown = Cat(Const(0, unit.guard_bits), delay(m, mantissa, 1, name="mantissa_late"))
        m.d.sync += weight.eq(Mux(live[2], shifted(m, grown, behind, name="aligned"), 0))
        rise_late = delay(m, rise, 1, name="rise_late")
        m.d.comb += self.added.eq(valid[3] & live[3])

        sums = [Signal(unit.sum_bits, name=f"sum_{slot}", reset_less=True) for slot in range(self._slots)]
        whose = delay(m, turn.turn, 3, name="whose")
        following = Signal(unit.sum_bits)
        kept = Signal(unit.sum_bits)
        last = delay(m, turn.last, 3, name="last")
        total = Signal(unit.sum_bits, reset_less=True)
        old = Signal(unit.sum_bits, name="old_sum")
        m.d.comb += [
            old.eq(chosen(sums, whose)),
            kept.eq(Mux(first[3], 0, shifted(m, old, rise_late, name="rescaled_sum"))),
            following.eq((kept + weight)[: unit.sum_bits]),
            self.total.eq(total),
        ]
        for slot, each in enumerate(sums):
            with m.If(valid[3] & whose[slot]):
                m.d.sync += each.eq(following)
        with m.If(valid[3] & last):
            m.d.sync += total.eq(following)
        m.d.comb += [
            self.weights.payload.weight.eq(weight),
            self.weights.payload.rescale.eq(rise_late),
            self.weights.payload.first.eq(first[3]),
            self.weights.payload.last.eq(last),
            self.weights.payload.live.eq(live[3]),
            self.weights.valid.eq(valid[3]),
        ]
        return m

    def _maximum(self, m: Any, valid: Any) -> tuple[Any, Any]:
        """Return, after one cycle, the fewest halvings of the row with and without this key."""
        shape, turn = halvings_shape(self._unit), self.turns.payload
        fewest = [Signal(shape, name=f"fewest_{slot}", reset_less=True) for slot in range(self._slots)]
        best, before = Signal(shape, reset_less=True), Signal(shape, reset_less=True)
        following, old = Signal(shape), Signal(shape)
        m.d.comb += [
            old.eq(Mux(turn.first, self.halvings, chosen(fewest, turn.turn).as_signed())),
            following.eq(Mux(turn.live, minimum(self.halvings, old), old)),
        ]
        for slot, each in enumerate(fewest):
            with m.If(valid & turn.turn[slot]):
                m.d.sync += each.eq(following)
        m.d.sync += [best.eq(following), before.eq(old)]
        return best, before
