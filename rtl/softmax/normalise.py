"""The output of the softmax: multiply by the reciprocal, shift, round (step 6 of ``accel.softmax_unit``)."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from accel.softmax_unit import SoftmaxUnit
from rtl.arith import round_off, shift_right, shift_right_sticky
from rtl.elastic import PipelineEnd
from rtl.multiply import multiply
from rtl.softmax.layouts import row_layout, word_layout
from rtl.stream import Beat, delay

__all__ = ["Normalise", "count_places", "take_words"]


class Normalise(wiring.Component):
    """Multiplies the buffered exponentials of a row by the row's reciprocal and rounds to the output format.

    A word is taken with the row it belongs to; the row is taken with its last word. The pipeline behind never stalls: a
    word is taken only if the output queue will have room for it. Latency from taking a word to its weights at an idle
    output: ``latency_cycles_of(unit)``, 5 with a product of one cycle; interval 1.

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
    results : Out(stream of beats)
        Weights; lanes that are not kept are 0.
    multiplied : Out(lanes)
        Lanes that are multiplied in this cycle.
    """

    interval_cycles = 1

    def __init__(self, unit: SoftmaxUnit, beat: Beat) -> None:
        self._unit, self._beat = unit, beat
        words, rows = self._layouts()
        super().__init__(
            {
                "words": In(stream.Signature(words)),
                "rows": In(stream.Signature(rows)),
                "results": Out(beat.signature),
                "multiplied": Out(unit.lanes),
            }
        )

    @staticmethod
    def lead_cycles_of(unit: SoftmaxUnit) -> int:
        """Return the cycles from taking a word to its exponentials, without building anything."""
        return 0

    @classmethod
    def latency_cycles_of(cls, unit: SoftmaxUnit) -> int:
        """Return the cycles from taking a word to its weights, without building anything."""
        return cls.lead_cycles_of(unit) + 4 + unit.product_cycles

    def _layouts(self) -> tuple[data.StructLayout, data.StructLayout]:
        """Return the layouts of words and rows."""
        return word_layout(self._unit), row_layout(self._unit)

    def _exponentials(self, m: Any) -> tuple[Any, list[tuple[Any, Any]]]:
        """Return a row's entry and each lane's halvings and mantissa, ``lead_cycles_of(unit)`` after its word."""
        word = self.words.payload
        mantissas = word.mantissa if self._unit.mantissa_bits else [Const(1, 1)] * self._unit.lanes
        return self.rows.payload, list(zip(word.halvings, mantissas, strict=True))

    def _selected(self, m: Any, keep: Any, taken: Any) -> Any:
        """Return which lanes are kept, as late as ``_exponentials``; ``keep`` is not delayed."""
        return delay(m, keep, self.lead_cycles_of(self._unit), name="selected")

    def elaborate(self, platform: Any) -> Any:
        """Build operands (1), products (1 or more), shifts (1), rounding (1) and the queue (1)."""
        m = Module()
        lead, wider = self.lead_cycles_of(self._unit), self._unit.product_cycles - 1
        m.submodules.end = end = PipelineEnd(self._beat.layout, latency_cycles=lead + wider + 4)
        wiring.connect(m, end.output, wiring.flipped(self.results))
        taken = take_words(m, self.words, self.rows, end)
        top = self._top(m, taken, lead + wider) if self._unit.keep_row_sum else None
        row, numbers = self._exponentials(m)
        keep = delay(m, self._selected(m, self.words.payload.keep, taken), 1, name="keep")
        started = delay(m, taken, lead + 1, name="taken", reset_less=False)
        m.d.comb += self.multiplied.eq(keep & started.replicate(self._unit.lanes))
        valid = delay(m, started, wider + 2, name="valid", reset_less=False)
        keep = delay(m, keep, wider + 2, name="kept")
        last = delay(m, self.words.payload.last, lead + wider + 3, name="last")

        reciprocal = delay(m, row.reciprocal, 1, name="reciprocal")
        weights = end.results.payload
        for lane, (halvings, mantissa) in enumerate(numbers):
            product = self._product(m, mantissa, reciprocal, lane)
            shift = delay(
                m, self._shift(m, halvings, row.shift, name=f"shift_{lane}"), wider, name=f"shift_{lane}_waited"
            )
            if top is None:
                value = self._round(m, product, shift, name=f"weight_{lane}")
            else:
                value = self._carry(
                    m, product, shift, valid & last, keep[lane], valid, top[lane], name=f"weight_{lane}"
                )
            kept = delay(m, keep[lane], 1, name=f"given_{lane}")
            m.d.comb += weights[self._beat.field][lane].eq(Mux(kept, value, 0))
        m.d.comb += [
            weights.keep.eq(delay(m, keep, 1, name="given")),
            weights.last.eq(delay(m, last, 1, name="ended")),
            end.results.valid.eq(delay(m, valid, 1, name="valid_end", reset_less=False)),
        ]
        return m

    def _product(self, m: Any, mantissa: Any, reciprocal: Any, lane: int) -> Any:
        """Return the product of a mantissa, which is taken in first, and the reciprocal of its row."""
        factor = delay(m, mantissa, 1, name=f"mantissa_{lane}") if self._unit.mantissa_bits else Const(1, 1)
        if self._unit.product_cycles > 1:
            return multiply(m, factor, reciprocal, name=f"product_{lane}")
        product = Signal(self._unit.mantissa_bits + len(reciprocal), name=f"product_{lane}", reset_less=True)
        m.d.sync += product.eq(factor * reciprocal)
        return product

    def _top(self, m: Any, taken: Any, lead: int) -> list[Any]:
        """Return for each lane, ``lead + 3`` cycles later, whether its weight is the row's largest."""
        row = self.rows.payload
        place = count_places(m, taken, self.words.payload.last, len(row.top.beat))
        return [
            delay(m, (row.top.beat == place) & ~(row.top.lane ^ lane).any(), lead + 3, name=f"top_{lane}")
            for lane in range(self._unit.lanes)
        ]

    def _shift(self, m: Any, halvings: Any, row_shift: Any, *, name: str) -> Any:
        """Return after two cycles what z is beyond ``least_shift``, at most what leaves nothing."""
        unit = self._unit
        # A product is at most 2**(m + r); shifted by m + r + 2 it rounds to 0 under every rule.
        most = unit.mantissa_fraction_bits + unit.reciprocal_fraction_bits + 2 - unit.least_shift
        if unit.keep_row_sum:
            most += unit.residue_bits
        total = Signal((halvings + row_shift).shape(), name=f"{name}_total")
        amount = Signal(range(most + 1), name=f"{name}_amount", reset_less=True)
        m.d.comb += total.eq(halvings + row_shift)
        m.d.sync += amount.eq(Mux(total > most, most, total[: len(amount)]))
        return delay(m, amount, 1, name=f"{name}_delayed")

    def _round(self, m: Any, product: Any, shift: Any, *, name: str) -> Any:
        """Return after two cycles ``product / 2**(least_shift + shift)``, rounded and fitted to the output."""
        target = self._unit.output_format
        below = self._unit.least_shift - 1  # all but one of the bits that are always lost
        upper, lost = shift_right_sticky(product[below:], shift)
        shifted = Signal(len(upper), name=f"{name}_shifted", reset_less=True)
        sticky = Signal(name=f"{name}_sticky", reset_less=True)
        m.d.sync += [shifted.eq(upper), sticky.eq(lost | product[:below].any())]

        rounded = Signal(len(upper), name=f"{name}_rounded")
        m.d.comb += rounded.eq(round_off(shifted, sticky, target.rounding))
        return self._fit(m, rounded, name=name)

    def _carry(self, m: Any, product: Any, shift: Any, ends: Any, keep: Any, valid: Any, top: Any, *, name: str) -> Any:
        """Return after two cycles the same, rounded with the rest that the lane carries; ``ends`` starts a new row."""
        rest_bits = self._unit.residue_bits
        below = self._unit.least_shift - rest_bits
        whole = product[below:] if below >= 0 else Cat(Const(0, -below), product)
        shifted = Signal(len(whole), name=f"{name}_shifted", reset_less=True)
        m.d.sync += shifted.eq(shift_right(whole, shift))

        rest = Signal(rest_bits, init=1 << (rest_bits - 1), name=f"{name}_rest")
        total = Signal(len(whole) + 1, name=f"{name}_carried")
        m.d.comb += total.eq(shifted + (rest | top.replicate(rest_bits)))
        with m.If(ends):
            m.d.sync += rest.eq(rest.init)
        with m.Elif(valid & keep & ~top):
            m.d.sync += rest.eq(total[:rest_bits])
        return self._fit(m, total[rest_bits:], name=name)

    def _fit(self, m: Any, rounded: Any, *, name: str) -> Any:
        """Return after one cycle a rounded weight, at most 1 and in the range of the output."""
        target = self._unit.output_format
        largest = min(1 << target.fraction_bits, target.max_code)
        value = Signal(target.width_bits, name=name, reset_less=True)
        m.d.sync += value.eq(Mux(rounded > largest, Const(largest, len(value)), rounded))
        return value


def take_words(m: Any, words: Any, rows: Any, end: Any) -> Any:
    """Connect the handshakes of the words and their rows; return whether a word is taken in this cycle."""
    taken = Signal(name="taken")
    m.d.comb += [
        taken.eq(words.valid & rows.valid & end.room),
        end.taken.eq(taken),
        words.ready.eq(taken),
        rows.ready.eq(taken & words.payload.last),
    ]
    return taken


def count_places(m: Any, taken: Any, last: Any, width: int) -> Any:
    """Return the place of the offered word in its row, in beats."""
    place = Signal(width, name="place")
    with m.If(taken):
        m.d.sync += place.eq(Mux(last, 0, (place + 1)[:width]))
    return place
