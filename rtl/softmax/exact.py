"""The online softmax with the exact maximum: the baseline that rescales its sum by a product."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from accel.softmax_unit import SoftmaxUnit
from rtl.arith import minimum, shift_right, tree_stages
from rtl.softmax.core import Softmax
from rtl.softmax.exponentials import Power, distance
from rtl.softmax.layouts import register_tree, row_layout
from rtl.softmax.statistics import RowReciprocal
from rtl.softmax.two_pass import ScoreNormalise, TwoPassSoftmax
from rtl.stream import Beat, delay, flow

__all__ = ["OnlineSoftmax"]


def _row_layout(unit: SoftmaxUnit) -> data.StructLayout:
    """Return what the output needs of a row: its reciprocal and shift, and the least distance from the largest code."""
    return data.StructLayout({**dict(_fields(row_layout(unit))), "least": unit.largest_distance.bit_length()})


def _fields(layout: data.StructLayout) -> list[tuple[str, Any]]:
    return [(name, layout[name].shape) for name, _ in layout]


class ScoreStore(wiring.Component):
    """Passes scores on, to the statistic and to the row buffer. Latency 0.

    Members
    -------
    scores : In(flow(beat of scores))
        Scores.
    powers, words : Out(flow(beat of scores))
        The same.
    """

    def __init__(self, beat: Beat) -> None:
        layout = beat.layout
        super().__init__({"scores": In(flow(layout)), "powers": Out(flow(layout)), "words": Out(flow(layout))})

    def elaborate(self, platform: Any) -> Any:
        """Connect."""
        m = Module()
        for target in (self.powers, self.words):
            m.d.comb += [target.payload.eq(self.scores.payload), target.valid.eq(self.scores.valid)]
        return m


class ExactSum(wiring.Component):
    """Sums the exponentials of a row relative to its largest score so far, one beat a cycle.

    When the maximum rises, the sum is multiplied by the exponential of the rise, in the cycle that adds the beat: the
    product stands in the loop. Latency ``latency_cycles_of(unit)``, interval 1.

    Parameters
    ----------
    unit : SoftmaxUnit
        Widths, lanes, table.

    Members
    -------
    powers : In(flow(beat of scores))
        Scores.
    rows : Out(flow({reciprocal, shift, least}))
        One for each row.
    compared, added : Out(lanes)
        Lanes that enter the maximum, and the sum, in this cycle.
    rescaled : Out(1)
        A maximum that earlier scores of the row left is raised.
    """

    interval_cycles = 1

    def __init__(self, unit: SoftmaxUnit, beat: Beat) -> None:
        self._unit, self._beat = unit, beat
        super().__init__(
            {
                "powers": In(flow(beat.layout)),
                "rows": Out(flow(_row_layout(unit))),
                "compared": Out(unit.lanes),
                "added": Out(unit.lanes),
                "rescaled": Out(1),
            }
        )

    @staticmethod
    def latency_cycles_of(unit: SoftmaxUnit) -> int:
        """Return the cycles from a row's last beat to its entry."""
        return 2 * tree_stages(unit.lanes) + 3 + Power.latency_cycles + RowReciprocal.latency_cycles

    def elaborate(self, platform: Any) -> Any:
        """Build: largest of a beat (T), of the row (1), exponentials (6), shift (1), tree (T), sum (1)."""
        m = Module()
        unit, beat, tree = self._unit, self.powers.payload, tree_stages(self._unit.lanes)
        distances = [distance(beat[self._beat.field][lane], self._beat.element) for lane in range(unit.lanes)]
        worst = Const((1 << len(distances[0])) - 1, len(distances[0]))
        nearest = register_tree(
            m, [Mux(beat.keep[lane], d, worst) for lane, d in enumerate(distances)], minimum, name="nearest"
        )
        valid = delay(m, self.powers.valid, tree, name="valid", reset_less=False)
        last = delay(m, beat.last, tree, name="last")
        keep = delay(m, beat.keep, tree, name="keep")
        least, previous, first = self._running(m, nearest, valid, last, keep)
        keep = delay(m, keep, 1, name="kept")
        valid = delay(m, valid, 1, name="known", reset_less=False)
        m.d.comb += self.compared.eq(keep & valid.replicate(unit.lanes))

        waited = Power.latency_cycles + 1 + tree
        terms = [
            self._term(m, delay(m, d, tree + 1, name=f"distance_{lane}"), least, keep[lane], lane)
            for lane, d in enumerate(distances)
        ]
        m.d.comb += self.added.eq(
            delay(m, keep, Power.latency_cycles + 1, name="added")
            & delay(m, valid, Power.latency_cycles + 1, name="adding", reset_less=False).replicate(unit.lanes)
        )
        beat_sum = register_tree(m, terms, lambda left, right: left + right, name="sum")
        m.submodules.rise = rise = Power(unit, of_code=False)
        m.d.comb += rise.argument.payload.eq(previous - least)
        unmoved = delay(m, previous == least, waited, name="unmoved")
        first = delay(m, first, waited, name="first")
        halvings, mantissa = (delay(m, value, 1 + tree, name=name) for name, value in self._named(rise))
        total = Signal(unit.sum_bits, name="total", reset_less=True)
        product = Signal(unit.sum_bits + len(mantissa), name="scaled_total")
        kept = Signal(unit.sum_bits, name="kept_total")
        scaled = product[unit.mantissa_fraction_bits :][: unit.sum_bits]
        m.d.comb += [
            product.eq(total * mantissa),
            kept.eq(Mux(first, 0, Mux(unmoved, total, shift_right(scaled, halvings)))),
        ]
        adding = delay(m, valid, waited, name="summing", reset_less=False)
        with m.If(adding):
            m.d.sync += total.eq((kept + beat_sum)[: unit.sum_bits])
        ended = delay(m, adding & delay(m, last, 1 + waited, name="ending"), 1, name="ended", reset_less=False)
        self._finish(m, total, delay(m, least, waited + 1, name="least_of_row"), ended)
        return m

    @staticmethod
    def _named(power: Any) -> tuple[tuple[str, Any], ...]:
        return ("rise_halvings", power.halvings), ("rise_mantissa", power.mantissa)

    def _running(self, m: Any, nearest: Any, valid: Any, last: Any, keep: Any) -> tuple[Any, Any, Any]:
        """Return after one cycle the least distance with and without this beat, and whether it starts the row."""
        start = Signal(init=1)
        least, previous = (Signal(len(nearest), name=name, reset_less=True) for name in ("least", "previous"))
        first, seen, had = Signal(name="starts", reset_less=True), Signal(name="seen"), Signal(name="had")
        with m.If(valid):
            m.d.sync += [
                start.eq(last),
                first.eq(start),
                previous.eq(Mux(start, nearest, least)),
                least.eq(Mux(start, nearest, minimum(nearest, least))),
                had.eq(seen & ~start),
                seen.eq((seen & ~start) | keep.any()),
            ]
        moved = delay(m, valid, 1, name="moved", reset_less=False)
        m.d.comb += self.rescaled.eq(had & moved & (least != previous))
        return least, previous, first

    def _term(self, m: Any, far: Any, least: Any, keep: Any, lane: int) -> Any:
        """Return the shifted exponential of a lane, 7 cycles later."""
        unit = self._unit
        m.submodules[f"power_{lane}"] = power = Power(unit, of_code=False)
        m.d.comb += power.argument.payload.eq(far - least)
        whole = Cat(Const(0, unit.sum_fraction_bits - unit.mantissa_fraction_bits), power.mantissa)
        term = Signal(len(whole), name=f"term_{lane}", reset_less=True)
        kept = delay(m, keep, Power.latency_cycles, name=f"kept_{lane}")
        m.d.sync += term.eq(Mux(kept, shift_right(whole, power.halvings), 0))
        return term

    def _finish(self, m: Any, total: Any, least: Any, ended: Any) -> None:
        """Take the reciprocal."""
        unit = self._unit
        m.submodules.reciprocal = reciprocal = RowReciprocal(unit)
        totals, row = reciprocal.totals.payload, self.rows.payload
        m.d.comb += [
            totals.sum.eq(total),
            totals.fewest.eq(0),
            reciprocal.totals.valid.eq(ended),
            row.reciprocal.eq(reciprocal.rows.payload.reciprocal),
            row.shift.eq(reciprocal.rows.payload.shift),
            row.least.eq(delay(m, least, RowReciprocal.latency_cycles, name="least_delayed")),
            self.rows.valid.eq(reciprocal.rows.valid),
        ]


class ExactNormalise(ScoreNormalise):
    """Computes the exponentials of the buffered scores relative to the largest score of their row, and goes on."""

    def _layouts(self) -> tuple[data.StructLayout, data.StructLayout]:
        return super()._layouts()[0], _row_layout(self._unit)

    def _power(self, m: Any, lane: int) -> Power:
        power = Power(self._unit, of_code=False)
        far = distance(self.words.payload.score[lane], self._unit.input_format)
        m.d.comb += power.argument.payload.eq(far - self.rows.payload.least)
        return power


class OnlineSoftmax(Softmax):
    """The softmax of ``accel.softmax_family.online``; members as those of ``Softmax``."""

    @staticmethod
    def stages_of(unit: SoftmaxUnit) -> tuple[int, int, int]:
        """Return the latencies in cycles of the three parts."""
        return 0, ExactSum.latency_cycles_of(unit), ExactNormalise.latency_cycles

    @staticmethod
    def word_bits_of(unit: SoftmaxUnit) -> int:
        """Return the bits of a word of the row buffer."""
        return TwoPassSoftmax.word_bits_of(unit)

    @staticmethod
    def row_bits_of(unit: SoftmaxUnit) -> int:
        """Return the bits of a row's entry."""
        return int(_row_layout(unit).size)

    def _front(self) -> Any:
        return ScoreStore(self.source_beat)

    def _statistic(self) -> Any:
        return ExactSum(self._unit, self.source_beat)

    def _back(self) -> Any:
        return ExactNormalise(self._unit, self.sink_beat)
