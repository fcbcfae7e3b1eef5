"""Softpick: the softmax of differences from 1, in which scores up to 0 have no weight."""

from __future__ import annotations

from typing import Any

from amaranth import Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from accel.softmax_family.softpick import SoftpickUnit
from accel.softmax_unit import SoftmaxUnit
from rtl.arith import minimum, shift_right
from rtl.softmax.core import Softmax
from rtl.softmax.exponentials import Exponentials
from rtl.softmax.layouts import halvings_shape, powers_layout, word_layout
from rtl.stream import Beat, delay, flow

__all__ = ["Softpick"]


class DifferenceFront(wiring.Component):
    """Computes ``|e**x - 1|`` of every valid lane as ``v / 2**h``.

    Latency 3 cycles more than ``Exponentials``: operands and shift amount, shift, difference; interval 1.

    Parameters
    ----------
    unit : SoftpickUnit
        Formats, lanes and table.
    beat : Beat
        Of scores.

    Members
    -------
    scores : In(flow(beat of scores))
        Scores.
    powers : Out(flow(powers_layout))
        The differences, in place of exponentials; ``fraction`` is 0.
    words : Out(flow(word_layout))
        The same, with v = 0 for scores up to 0.
    """

    interval_cycles = 1

    def __init__(self, unit: SoftpickUnit, beat: Beat) -> None:
        self._unit, self._beat = unit, beat
        super().__init__(
            {
                "scores": In(flow(beat.layout)),
                "powers": Out(flow(powers_layout(unit))),
                "words": Out(flow(word_layout(unit))),
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Build the exponentials, and the differences of all lanes."""
        m = Module()
        m.submodules.exponentials = exponentials = Exponentials(self._unit, self._beat)
        wiring.connect(m, wiring.flipped(self.scores), exponentials.scores)
        given, powers, words = exponentials.powers.payload, self.powers.payload, self.words.payload
        one = Const(self._unit.one[1], halvings_shape(self._unit))
        for lane in range(self._unit.lanes):
            code = self.scores.payload[self._beat.field][lane]
            above = delay(m, code > 0, self._unit.power_cycles, name=f"above_{lane}")
            value, halvings = self._difference(m, given.word.mantissa[lane], given.word.halvings[lane], above, lane)
            m.d.comb += [
                powers.word.mantissa[lane].eq(value),
                powers.word.halvings[lane].eq(halvings),
                words.mantissa[lane].eq(Mux(delay(m, above, 3, name=f"chosen_{lane}"), value, 0)),
                words.halvings[lane].eq(halvings),
            ]
        keep, last = (delay(m, getattr(given.word, name), 3, name=name) for name in ("keep", "last"))
        valid = delay(m, exponentials.powers.valid, 3, name="valid", reset_less=False)
        m.d.comb += [
            powers.fewest.eq(delay(m, minimum(given.fewest, one), 3, name="fewest")),
            *(word.keep.eq(keep) for word in (powers.word, words)),
            *(word.last.eq(last) for word in (powers.word, words)),
            *(stream.valid.eq(valid) for stream in (self.powers, self.words)),
        ]
        return m

    def _difference(self, m: Any, mantissa: Any, halvings: Any, above: Any, lane: int) -> tuple[Any, Any]:
        """Return v and h of a lane, 3 cycles later."""
        w0, h0 = (
            Const(value, shape) for value, shape in zip(self._unit.one, (len(mantissa), len(halvings)), strict=True)
        )
        larger, smaller = (Signal(len(mantissa), name=f"{name}_{lane}", reset_less=True) for name in ("larger", "less"))
        amount = Signal(range(len(mantissa) + 1), name=f"amount_{lane}", reset_less=True)
        kept = Signal(len(halvings), name=f"halvings_{lane}", reset_less=True)
        behind = Signal(len(halvings), name=f"behind_{lane}")
        m.d.comb += behind.eq(Mux(above, h0 - halvings, halvings - h0)[: len(halvings)])
        m.d.sync += [
            larger.eq(Mux(above, mantissa, w0)),
            smaller.eq(Mux(above, w0, mantissa)),
            amount.eq(Mux(behind > len(mantissa), len(mantissa), behind)),
            kept.eq(Mux(above, halvings, h0)),
        ]
        shifted = Signal(len(mantissa), name=f"shifted_{lane}", reset_less=True)
        value = Signal(len(mantissa), name=f"difference_{lane}", reset_less=True)
        m.d.sync += shifted.eq(shift_right(smaller, amount))
        m.d.sync += value.eq((delay(m, larger, 1, name=f"larger_{lane}") - shifted)[: len(value)])
        return value, delay(m, kept, 2, name=f"kept_{lane}")


class Softpick(Softmax):
    """Softpick of ``accel.softmax_family.softpick``; members as those of ``Softmax``."""

    @staticmethod
    def stages_of(unit: SoftmaxUnit) -> tuple[int, int, int]:
        """Return the latencies in cycles of the three parts."""
        front, statistic, back = Softmax.stages_of(unit)
        return front + 3, statistic, back

    @staticmethod
    def _parameters(unit: SoftmaxUnit) -> tuple[str, ...]:
        return ("exp_segments",)

    def _front(self) -> Any:
        return DifferenceFront(self._unit, self.source_beat)
