"""The online softmax with the exact maximum: the baseline that rescales its sum by a product."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from accel.pipelining import CHUNK_BITS
from accel.softmax_family.online import EXACT_SUMS
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


SUMS = EXACT_SUMS
"""Sums of a row, of every fifth beat each."""


@dataclass(frozen=True, kw_only=True)
class _Running:
    """The least distance with this beat and with each of the five before, and which beat of its row it is.

    ``number`` is that of the beat, at most ``SUMS``; the bit of ``place`` that is set is it modulo ``SUMS``.
    ``counted`` is whether there is a new beat with a score, ``seen`` whether the row has one.
    """

    least: list[Any]
    number: Any
    place: Any
    counted: Any
    seen: Any


def _multiply(m: Any, left: Any, right: Any) -> Any:
    """Return the product two cycles later: products of parts of 18 bits, then their sum."""
    parts = [
        ((low, other), left[low : low + CHUNK_BITS], right[other : other + CHUNK_BITS])
        for low in range(0, len(left), CHUNK_BITS)
        for other in range(0, len(right), CHUNK_BITS)
    ]
    products = []
    for (low, other), first, second in parts:
        register = Signal(len(first) + len(second), name=f"rise_product_{low}_{other}", reset_less=True)
        m.d.sync += register.eq(first * second)
        products.append(register << (low + other))
    product = Signal(len(left) + len(right), name="rise_product", reset_less=True)
    m.d.sync += product.eq(sum(products[1:], products[0])[: len(product)])
    return product


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

    When the maximum rises, a sum is multiplied by the exponential of the rise. The product stands in a loop, which
    takes ``SUMS`` cycles: choice of the sum, products of parts, their sum, shift, addition. So there are as many sums,
    each of every fifth beat; the last five are joined at the end of a row, by the same multiplier: the first five beats
    of the next row need no product. Latency ``latency_cycles_of(unit)``, interval 1.

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
        return 2 * tree_stages(unit.lanes) + 9 + unit.power_cycles + RowReciprocal.latency_cycles_of(unit)

    def elaborate(self, platform: Any) -> Any:
        """Build: largest of a beat (T), of the row (1), exponentials (6), shift (1), tree (T), the rest (8)."""
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
        running = self._running(m, nearest, valid, last, keep)
        keep = delay(m, keep, 1, name="kept")
        valid = delay(m, valid, 1, name="known", reset_less=False)
        m.d.comb += self.compared.eq(keep & valid.replicate(unit.lanes))

        terms = [
            self._term(m, delay(m, d, tree + 1, name=f"distance_{lane}"), running.least[0], keep[lane], lane)
            for lane, d in enumerate(distances)
        ]
        m.d.comb += self.added.eq(
            delay(m, keep, unit.power_cycles + 1, name="added")
            & delay(m, valid, unit.power_cycles + 1, name="adding", reset_less=False).replicate(unit.lanes)
        )
        beat_sum = register_tree(m, terms, lambda left, right: left + right, name="sum")
        ends = valid & delay(m, last, 1, name="ends")
        total, ended = self._sum(m, running, delay(m, beat_sum, 2, name="beat_sum"), ends)
        self._finish(m, total, delay(m, running.least[0], unit.power_cycles + tree + 8, name="least_of_row"), ended)
        return m

    def _running(self, m: Any, nearest: Any, valid: Any, last: Any, keep: Any) -> _Running:
        """Return after one cycle the least distance of the row with this beat and before it, and the beat's number.

        Beats without a score do not count, so that they leave a row's sums as they are.
        """
        start = Signal(init=1)
        least = [Signal(len(nearest), name=f"least_{back}", reset_less=True) for back in range(SUMS + 1)]
        number = Signal(range(SUMS + 1), name="number", reset_less=True)
        place = Signal(SUMS, name="place", reset_less=True)
        counted, seen = Signal(name="counted"), Signal(name="seen", reset_less=True)
        counts = valid & keep.any()
        m.d.sync += [counted.eq(counts), seen.eq(~start | counts)]
        with m.If(valid):
            m.d.sync += start.eq(last | (start & ~counts))
        with m.If(counts):
            m.d.sync += [
                least[0].eq(Mux(start, nearest, minimum(nearest, least[0]))),
                *(later.eq(earlier) for later, earlier in zip(least[1:], least, strict=False)),
                number.eq(Mux(start, 0, Mux(number == SUMS, SUMS, number + 1)[: len(number)])),
                place.eq(Mux(start, 1, place.rotate_left(1))),
            ]
        m.d.comb += self.rescaled.eq(counted & number.any() & (least[0] != least[1]))
        return _Running(least=least, number=number, place=place, counted=counted, seen=seen)

    def _sum(self, m: Any, running: _Running, beat_sum: Any, ends: Any) -> tuple[Any, Any]:
        """Return the sum of a row and whether it stands there; ``beat_sum`` comes ``waited`` cycles after the rest."""
        unit, least, place = self._unit, running.least, running.place
        tree = tree_stages(unit.lanes)
        waited = unit.power_cycles + 3 + tree
        # After the last beat of a row the other sums, the oldest first, which is done first.
        joins = [
            delay(m, ends & running.seen & (running.number >= SUMS - wait), wait, name=f"join_{wait}", reset_less=False)
            for wait in range(1, SUMS)
        ]
        rises = [delay(m, least[SUMS - wait] - least[0], wait, name=f"join_rise_{wait}") for wait in range(1, SUMS)]
        places = [delay(m, place.rotate_left(wait), wait, name=f"join_place_{wait}") for wait in range(1, SUMS)]
        m.submodules.rise = rise = Power(unit, of_code=False)
        argument = Signal(len(least[0]), name="rise_argument")
        source = Signal(SUMS, name="source")
        m.d.comb += [argument.eq(least[SUMS] - least[0]), source.eq(place), rise.argument.payload.eq(argument)]
        for join, difference, at in zip(joins, rises, places, strict=True):
            with m.If(join):
                m.d.comb += [argument.eq(difference[: len(argument)]), source.eq(at)]

        sums = [Signal(unit.sum_bits, name=f"sum_{at}", reset_less=True) for at in range(SUMS)]
        early = unit.power_cycles + tree
        old = Signal(unit.sum_bits, name="old", reset_less=True)
        mantissa = delay(m, rise.mantissa, tree, name="rise_mantissa")
        chosen = delay(m, source, early - 1, name="source")
        m.d.sync += old.eq(reduce(or_, (total & chosen[at].replicate(unit.sum_bits) for at, total in enumerate(sums))))
        product = _multiply(m, old, mantissa)
        halvings = delay(m, rise.halvings, tree + 2, name="rise_halvings")
        unmoved = delay(m, ~argument.any(), waited - 1, name="unmoved")
        scaled = shift_right(product[unit.mantissa_fraction_bits :][: unit.sum_bits], halvings)
        kept = Signal(unit.sum_bits, name="rescaled_sum", reset_less=True)
        m.d.sync += kept.eq(Mux(unmoved, delay(m, old, 2, name="old"), scaled))

        fresh = delay(m, running.number < SUMS, waited, name="fresh")
        newest = Signal(unit.sum_bits, name="newest")
        latest = Signal(unit.sum_bits, name="latest", reset_less=True)
        m.d.comb += newest.eq((Mux(fresh, 0, kept) + beat_sum)[: unit.sum_bits])
        summing = delay(m, place & running.counted.replicate(SUMS), waited, name="summing", reset_less=False)
        with m.If(summing.any()):
            m.d.sync += latest.eq(newest)
        for at, each in enumerate(sums):
            with m.If(summing[at]):
                m.d.sync += each.eq(newest)
        total = latest
        for step, join in enumerate(joins):
            following = Signal(unit.sum_bits, name=f"joined_{step}", reset_less=True)
            joining = delay(m, join, waited, name=f"joining_{step}", reset_less=False)
            m.d.sync += following.eq((total + Mux(joining, kept, 0))[: unit.sum_bits])
            total = following
        return total, delay(m, ends, waited + SUMS, name="ended", reset_less=False)

    def _term(self, m: Any, far: Any, least: Any, keep: Any, lane: int) -> Any:
        """Return the shifted exponential of a lane, ``unit.power_cycles + 1`` later."""
        unit = self._unit
        m.submodules[f"power_{lane}"] = power = Power(unit, of_code=False)
        m.d.comb += power.argument.payload.eq(far - least)
        whole = Cat(Const(0, unit.sum_fraction_bits - unit.mantissa_fraction_bits), power.mantissa)
        term = Signal(len(whole), name=f"term_{lane}", reset_less=True)
        kept = delay(m, keep, unit.power_cycles, name=f"kept_{lane}")
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
            row.least.eq(delay(m, least, RowReciprocal.latency_cycles_of(unit), name="least_delayed")),
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
        return 0, ExactSum.latency_cycles_of(unit), ExactNormalise.latency_cycles_of(unit)

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
