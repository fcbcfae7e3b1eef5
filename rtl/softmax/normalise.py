"""The output of the softmax: multiply by the reciprocal, shift, round (step 6)."""

from __future__ import annotations

from typing import Any

from amaranth import Const, Module, Mux, Signal
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from accel.numerics import Overflow
from accel.softmax_unit import SoftmaxUnit
from rtl.arith import round_off, shift_right_sticky
from rtl.softmax.layouts import row_layout, word_layout
from rtl.stream import Beat, delay

__all__ = ["Normalise"]


class Normalise(wiring.Component):
    """Multiplies the buffered exponentials of a row by the row's reciprocal and rounds to the output format.

    A word is taken with the row it belongs to; the row is taken with its last word. The pipeline behind never stalls: a
    word is taken only if the output queue will have room for it, and 6 places keep it full at one word a cycle.
    Latency 5 cycles from taking a word to its weights at an idle output, interval 1.

    Parameters
    ----------
    unit : SoftmaxUnit
        Widths, lanes, output format with its rounding and overflow.
    beat : Beat
        Of weights.

    Members
    -------
    words : In(stream.Signature(word_layout))
        The row buffer's output.
    rows : In(stream.Signature(row_layout))
        Reciprocals of the rows, in order.
    weights : Out(stream of beats)
        Weights; lanes that are not kept are 0.
    multiplied : Out(lanes)
        Lanes that are multiplied in this cycle.
    """

    latency_cycles = 5
    interval_cycles = 1

    _PLACES = latency_cycles + 1

    def __init__(self, unit: SoftmaxUnit, beat: Beat) -> None:
        self._unit, self._beat = unit, beat
        super().__init__(
            {
                "words": In(stream.Signature(word_layout(unit))),
                "rows": In(stream.Signature(row_layout(unit))),
                "weights": Out(beat.signature),
                "multiplied": Out(unit.lanes),
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Build operands (1), products (2), shifts (3), rounding (4) and the queue (5)."""
        m = Module()
        word, row = self.words.payload, self.rows.payload
        taken = self._credits(m)
        valid = taken
        stages = []
        for stage in range(1, 5):
            valid = delay(m, valid, 1, name=f"valid_{stage}", reset_less=False)
            stages.append(valid)
        keep = delay(m, word.keep, 1, name="keep")
        m.d.comb += self.multiplied.eq(keep & stages[0].replicate(self._unit.lanes))
        keep = delay(m, keep, 3, name="kept")

        reciprocal = delay(m, row.reciprocal, 1, name="reciprocal")
        weights = Signal(self._beat.layout)
        for lane in range(self._unit.lanes):
            mantissa = delay(m, word.mantissa[lane], 1, name=f"mantissa_{lane}")
            product = Signal(len(mantissa) + len(reciprocal), name=f"product_{lane}", reset_less=True)
            m.d.sync += product.eq(mantissa * reciprocal)
            shift = self._shift(m, word.halvings[lane], row.shift, name=f"shift_{lane}")
            value = self._round(m, product, shift, name=f"weight_{lane}")
            m.d.comb += weights[self._beat.field][lane].eq(Mux(keep[lane], value, 0))
        m.d.comb += [weights.keep.eq(keep), weights.last.eq(delay(m, word.last, 4, name="last"))]

        m.submodules.queue = queue = fifo.SyncFIFO(width=self._beat.layout.size, depth=8)
        m.d.comb += [
            queue.w_data.eq(weights),
            queue.w_en.eq(stages[-1]),
            self.weights.payload.eq(queue.r_data),
            self.weights.valid.eq(queue.r_rdy),
            queue.r_en.eq(self.weights.ready),
        ]
        return m

    def _credits(self, m: Any) -> Any:
        """Connect the handshakes of words and rows and return whether a word is taken in this cycle."""
        held = Signal(range(self._PLACES + 1))
        room = Signal()
        taken = Signal()
        left = Signal()
        m.d.comb += [
            room.eq(held != self._PLACES),
            taken.eq(self.words.valid & self.rows.valid & room),
            self.words.ready.eq(taken),
            self.rows.ready.eq(taken & self.words.payload.last),
            left.eq(self.weights.valid & self.weights.ready),
        ]
        with m.If(taken & ~left):
            m.d.sync += held.eq((held + 1)[: len(held)])
        with m.Elif(left & ~taken):
            m.d.sync += held.eq((held - 1)[: len(held)])
        return taken

    def _shift(self, m: Any, halvings: Any, row_shift: Any, *, name: str) -> Any:
        """Return after two cycles the right shift beyond the output fraction, at most what leaves nothing."""
        unit = self._unit
        # A product is at most 2**(m + r); shifted by m + r + 2 it rounds to 0 under every rule.
        most = unit.mantissa_fraction_bits + unit.reciprocal_fraction_bits + 2 - unit.output_format.fraction_bits
        total = Signal((halvings + row_shift).shape(), name=f"{name}_total")
        amount = Signal(range(most + 1), name=f"{name}_amount", reset_less=True)
        m.d.comb += total.eq(halvings + row_shift)
        m.d.sync += amount.eq(Mux(total > most, most, total[: len(amount)]))
        return delay(m, amount, 1, name=f"{name}_delayed")

    def _round(self, m: Any, product: Any, shift: Any, *, name: str) -> Any:
        """Return after two cycles ``product / 2**(output fraction + shift)``, rounded and fitted to the output."""
        target = self._unit.output_format
        below = target.fraction_bits - 1  # all but one of the bits that are always lost
        upper, lost = shift_right_sticky(product[below:], shift)
        shifted = Signal(len(upper), name=f"{name}_shifted", reset_less=True)
        sticky = Signal(name=f"{name}_sticky", reset_less=True)
        m.d.sync += [shifted.eq(upper), sticky.eq(lost | product[:below].any())]

        rounded = Signal(len(upper), name=f"{name}_rounded")
        m.d.comb += rounded.eq(round_off(shifted, sticky, target.rounding))
        value = Signal(target.width_bits, name=name, reset_less=True)
        if target.overflow is Overflow.SATURATE and len(rounded) > target.max_code.bit_length():
            m.d.sync += value.eq(Mux(rounded > target.max_code, Const(target.max_code, len(value)), rounded))
        else:
            # A format that does not saturate holds 1 and so everything below 2, and no weight comes near to 2.
            m.d.sync += value.eq(rounded)
        return value
