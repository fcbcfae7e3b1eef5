"""The output of the normalisation units: centre, multiply, shift, round (step 4)."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from accel.norm_unit import NormUnit
from accel.numerics import Overflow, Rounding
from rtl.elastic import PipelineEnd
from rtl.norm.layouts import row_layout, word_layout
from rtl.stream import Beat, delay

__all__ = ["Scale"]


class Scale(wiring.Component):
    """Scales the buffered numbers of a row and rounds them to the output format.

    A word is taken with the row it belongs to; the row is taken with its last word. The pipeline never stalls: a word
    is taken only if the output queue will have room for it. Latency 7 cycles from taking a word to its results at an
    idle output, interval 1.

    Parameters
    ----------
    unit : NormUnit
        Widths, lanes, output format.
    beat : Beat
        Of results.

    Members
    -------
    words : In(stream.Signature(word_layout))
        The row buffer's output.
    rows : In(stream.Signature(row_layout))
        What the rows need, in order.
    results : Out(stream of beats)
        Results; lanes that are not kept are 0.
    """

    latency_cycles = 7
    interval_cycles = 1

    _PIPELINE = 6

    def __init__(self, unit: NormUnit, beat: Beat) -> None:
        self._unit, self._beat = unit, beat
        super().__init__(
            {
                "words": In(stream.Signature(word_layout(unit))),
                "rows": In(stream.Signature(row_layout(unit))),
                "results": Out(beat.signature),
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Build operands (1), n x (2), the distance from the mean (3), products (4), shifts (5), rounding (6)."""
        m = Module()
        word, row = self.words.payload, self.rows.payload
        m.submodules.end = end = PipelineEnd(self._beat.layout, latency_cycles=self._PIPELINE)
        wiring.connect(m, end.output, wiring.flipped(self.results))
        taken = Signal()
        m.d.comb += [
            taken.eq(self.words.valid & self.rows.valid & end.room),
            end.taken.eq(taken),
            self.words.ready.eq(taken),
            self.rows.ready.eq(taken & word.last),
            end.results.valid.eq(delay(m, taken, self._PIPELINE, name="valid", reset_less=False)),
            end.results.payload.last.eq(delay(m, word.last, self._PIPELINE, name="last")),
        ]
        keep = delay(m, word.keep, self._PIPELINE, name="keep")
        m.d.comb += end.results.payload.keep.eq(keep)
        count = delay(m, row.count, 1, name="count")
        total = delay(m, row.total, 3 - 1, name="total").as_signed()
        scale = delay(m, row.scale, 3, name="scale")
        halvings = delay(m, row.halvings, 4, name="halvings")
        for lane in range(self._unit.lanes):
            number = delay(m, word.number[lane], 1, name=f"number_{lane}").as_signed()
            spread = Signal(signed(self._unit.centre_bits), name=f"spread_{lane}", reset_less=True)
            centred = Signal(signed(self._unit.centre_bits), name=f"centred_{lane}", reset_less=True)
            product = Signal(signed(len(centred) + len(scale)), name=f"product_{lane}", reset_less=True)
            m.d.sync += [
                spread.eq(number * count),
                centred.eq(spread - total),
                product.eq(centred * scale),
            ]
            value = self._round(m, product, halvings, name=f"result_{lane}")
            m.d.comb += end.results.payload[self._beat.field][lane].eq(Mux(keep[lane], value, 0))
        return m

    def _round(self, m: Any, product: Any, halvings: Any, *, name: str) -> Any:
        """Return after two cycles ``product / 2**(k - output fraction + halvings)``, rounded and fitted."""
        target = self._unit.output_format
        below = self._unit.rsqrt.result_fraction_bits - target.fraction_bits - 1
        upper, lost = _shift_signed(m, product[below:], halvings, name=name)
        shifted = Signal(signed(len(upper)), name=f"{name}_shifted", reset_less=True)
        sticky = Signal(name=f"{name}_sticky", reset_less=True)
        m.d.sync += [shifted.eq(upper), sticky.eq(lost | product[:below].any())]

        up = {
            Rounding.TRUNCATE: Const(0, 1),
            Rounding.NEAREST_UP: shifted[0],
            Rounding.NEAREST_EVEN: shifted[0] & (sticky | shifted[1]),
        }[target.rounding]
        rounded = Signal(signed(len(upper)), name=f"{name}_rounded")
        m.d.comb += rounded.eq((shifted >> 1) + up)
        value = Signal(signed(target.width_bits), name=name, reset_less=True)
        fitted: Any = rounded
        if target.overflow is Overflow.SATURATE and len(rounded) > len(value):
            fitted = Mux(rounded > target.max_code, Const(target.max_code, signed(len(rounded))), fitted)
            fitted = Mux(rounded < target.min_code, Const(target.min_code, signed(len(rounded))), fitted)
        m.d.sync += value.eq(fitted)
        return value


def _shift_signed(m: Any, value: Any, amount: Any, *, name: str) -> tuple[Any, Any]:
    """Return the two's complement ``value`` shifted right by ``amount``, and whether any 1 was shifted out.

    Each place has signals of its own: Amaranth writes an expression out wherever it is used.
    """
    stage, lost = Value.cast(value), Const(0, 1)
    for place, bit in enumerate(Value.cast(amount)):
        by = min(1 << place, len(stage))
        left = Signal(name=f"{name}_left_{place}")
        moved = Signal(len(stage), name=f"{name}_moved_{place}")
        m.d.comb += [
            left.eq(lost | (bit & stage[:by].any())),
            moved.eq(Mux(bit, Cat(stage[by:], stage[-1].replicate(by)), stage)),
        ]
        stage, lost = moved, left
    return stage.as_signed(), lost
