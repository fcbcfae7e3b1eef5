"""The output of the normalisation units: centre, multiply, shift, round (step 4)."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from accel.norm_unit import NormUnit
from accel.numerics import Overflow, Rounding
from rtl.elastic import PipelineEnd
from rtl.multiply import multiply
from rtl.norm.layouts import row_layout, word_layout
from rtl.stream import Beat, delay

__all__ = ["Scale"]


class Scale(wiring.Component):
    """Scales the buffered numbers of a row and rounds them to the output format.

    A word is taken with the row it belongs to; the row is taken with its last word. The pipeline never stalls: a word
    is taken only if the output queue will have room for it. Latency ``unit.scale_cycles`` from taking a word to its
    results at an idle output, interval 1.

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

    interval_cycles = 1

    def __init__(self, unit: NormUnit, beat: Beat) -> None:
        self._unit, self._beat = unit, beat
        super().__init__(
            {
                "words": In(stream.Signature(word_layout(unit))),
                "rows": In(stream.Signature(row_layout(unit))),
                "results": Out(beat.signature),
            }
        )

    @property
    def latency_cycles(self) -> int:
        """Cycles from taking a word to its results."""
        return self._unit.scale_cycles

    def elaborate(self, platform: Any) -> Any:
        """Build operands (1), n x (1), the distance from the mean (1), products, shift (2), rounding (1), range (1)."""
        m = Module()
        pipeline, multiplying = self._unit.scale_cycles - 1, self._unit.centred_product_cycles
        word, row = self.words.payload, self.rows.payload
        m.submodules.end = end = PipelineEnd(self._beat.layout, latency_cycles=pipeline)
        wiring.connect(m, end.output, wiring.flipped(self.results))
        taken = Signal()
        m.d.comb += [
            taken.eq(self.words.valid & self.rows.valid & end.room),
            end.taken.eq(taken),
            self.words.ready.eq(taken),
            self.rows.ready.eq(taken & word.last),
            end.results.valid.eq(delay(m, taken, pipeline, name="valid", reset_less=False)),
            end.results.payload.last.eq(delay(m, word.last, pipeline, name="last")),
        ]
        keep = delay(m, word.keep, pipeline, name="keep")
        m.d.comb += end.results.payload.keep.eq(keep)
        count = delay(m, row.count, 1, name="count")
        total = delay(m, row.total, 3 - 1, name="total").as_signed()
        scale = delay(m, row.scale, 3, name="scale")
        halvings = delay(m, row.halvings, 3 + multiplying, name="halvings")
        for lane in range(self._unit.lanes):
            number = delay(m, word.number[lane], 1, name=f"number_{lane}").as_signed()
            spread = Signal(signed(self._unit.centre_bits), name=f"spread_{lane}", reset_less=True)
            centred = Signal(signed(self._unit.centre_bits), name=f"centred_{lane}", reset_less=True)
            m.d.sync += [spread.eq(number * count), centred.eq(spread - total)]
            product = multiply(m, centred, scale, name=f"product_{lane}")
            value = self._round(m, product, halvings, name=f"result_{lane}")
            m.d.comb += end.results.payload[self._beat.field][lane].eq(Mux(keep[lane], value, 0))
        return m

    def _round(self, m: Any, product: Any, halvings: Any, *, name: str) -> Any:
        """Return after four cycles ``product / 2**(k - output fraction + halvings)``, rounded and fitted."""
        target = self._unit.output_format
        below = self._unit.rsqrt.result_fraction_bits - target.fraction_bits - 1
        upper, lost = _shift_signed(m, product[below:], product[:below].any(), halvings, name=name)
        shifted = Signal(signed(len(upper)), name=f"{name}_shifted", reset_less=True)
        sticky = Signal(name=f"{name}_sticky", reset_less=True)
        m.d.sync += [shifted.eq(upper), sticky.eq(lost)]

        up = {
            Rounding.TRUNCATE: Const(0, 1),
            Rounding.NEAREST_UP: shifted[0],
            Rounding.NEAREST_EVEN: shifted[0] & (sticky | shifted[1]),
        }[target.rounding]
        saturates = target.overflow is Overflow.SATURATE and len(upper) > target.width_bits
        bits = len(upper) if saturates else min(len(upper), target.width_bits)
        rounded = Signal(signed(bits), name=f"{name}_rounded", reset_less=True)
        m.d.sync += rounded.eq(((shifted >> 1) + up)[:bits])
        value = Signal(signed(target.width_bits), name=name, reset_less=True)
        fitted: Any = rounded[: len(value)].as_signed()
        if saturates:
            # In range if all bits from the sign of the result up are alike: no comparison, so no carry.
            above = rounded[len(value) - 1 :]
            end = Mux(rounded[-1], Const(target.min_code, signed(len(value))), target.max_code)
            fitted = Mux(above.any() & ~above.all(), end, fitted)
        m.d.sync += value.eq(fitted)
        return value


def _shift_signed(m: Any, value: Any, lost: Any, amount: Any, *, name: str) -> tuple[Any, Any]:
    """Return, a cycle later, the two's complement ``value`` shifted right by ``amount``, and whether a 1 was lost.

    ``lost`` says that one was lost before. The coarse places come first, then a register, then the fine ones.
    """
    amount = Value.cast(amount)
    split = len(amount) // 2
    coarse = [(place, amount[place]) for place in reversed(range(split, len(amount)))]
    stage, lost = _shift_places(m, Value.cast(value), lost, coarse, name=name)
    held = {"stage": stage, "lost": lost, "fine": amount[:split]}
    stage, lost, fine = (delay(m, each, 1, name=f"{name}_{what}") for what, each in held.items())
    stage, lost = _shift_places(m, stage, lost, list(enumerate(fine))[::-1], name=name)
    return stage.as_signed(), lost


def _shift_places(m: Any, stage: Any, lost: Any, places: list[tuple[int, Any]], *, name: str) -> tuple[Any, Any]:
    """Shift by each place whose bit is set; each has signals, as Amaranth writes an expression out at every use."""
    for place, bit in places:
        by = min(1 << place, len(stage))
        left = Signal(name=f"{name}_left_{place}")
        moved = Signal(len(stage), name=f"{name}_moved_{place}")
        m.d.comb += [
            left.eq(lost | (bit & stage[:by].any())),
            moved.eq(Mux(bit, Cat(stage[by:], stage[-1].replicate(by)), stage)),
        ]
        stage, lost = moved, left
    return stage, lost
