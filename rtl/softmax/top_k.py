"""The softmax with a fused top-k: a sorted list beside the running sum, and a comparison at the output."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from accel.softmax_family.top_k import TopKSoftmaxUnit
from accel.softmax_unit import SoftmaxUnit
from rtl.softmax.core import Softmax
from rtl.softmax.layouts import count_bits, powers_layout, row_layout, word_layout
from rtl.softmax.normalise import Normalise, count_places
from rtl.softmax.statistics import SumReciprocal
from rtl.stream import delay, flow

__all__ = ["LargestK", "TopKSoftmax"]


def _key(word: Any) -> Any:
    """Return an exponential as a number that is the larger, the larger it is; never 0, as no mantissa is."""
    return Cat(word.mantissa[0], ~word.halvings[0])


def _place_layout(unit: SoftmaxUnit) -> data.StructLayout:
    """Return an exponential with its place in the row."""
    return data.StructLayout(
        {"key": unit.mantissa_bits + unit.halvings_bits, "beat": max(1, count_bits(unit.max_beats))}
    )


def _row_layout(unit: SoftmaxUnit) -> data.StructLayout:
    """Return what the output needs of a row: reciprocal, shift, and the least exponential that is kept."""
    plain = row_layout(unit)
    return data.StructLayout({name: plain[name].shape for name, _ in plain} | {"limit": _place_layout(unit)})


class LargestK(wiring.Component):
    """Keeps the k largest exponentials of a row in order; of equal ones the earlier is the larger.

    Latency 1 cycle from a row's last beat to its limit, interval 1: one insertion a cycle, all places compared at once.

    Parameters
    ----------
    unit : TopKSoftmaxUnit
        Widths and k.

    Members
    -------
    words : In(flow(word_layout))
        Exponentials of one lane.
    limit : Out(flow({key, beat}))
        The last of the k places for each row; key 0 if the row had fewer scores.
    """

    latency_cycles = 1
    interval_cycles = 1

    def __init__(self, unit: TopKSoftmaxUnit) -> None:
        self._unit = unit
        super().__init__({"words": In(flow(word_layout(unit))), "limit": Out(flow(_place_layout(unit)))})

    def elaborate(self, platform: Any) -> Any:
        """Build k places and a comparator for each."""
        m = Module()
        word, layout = self.words.payload, _place_layout(self._unit)
        new = Signal(layout, name="new")
        m.d.comb += [
            new.key.eq(Mux(word.keep[0], _key(word), 0)),
            new.beat.eq(count_places(m, self.words.valid, word.last, len(new.beat))),
        ]
        before, shifted_in = new, Signal(name="above_none")
        limit = Signal(layout, name="limit_after", reset_less=True)
        for index in range(self._unit.k):
            place = Signal(layout, name=f"place_{index}")
            larger = Signal(name=f"larger_{index}")
            after = Signal(layout, name=f"after_{index}")
            m.d.comb += [
                larger.eq(new.key > place.key),
                after.eq(Mux(larger, Mux(shifted_in, before.as_value(), new.as_value()), place.as_value())),
            ]
            with m.If(self.words.valid):
                m.d.sync += place.eq(Mux(word.last, 0, after.as_value()))
            if index == self._unit.k - 1:
                m.d.sync += limit.eq(after)
            before, shifted_in = place, larger
        ended = self.words.valid & word.last
        m.d.comb += [
            self.limit.payload.eq(limit),
            self.limit.valid.eq(delay(m, ended, 1, name="ended", reset_less=False)),
        ]
        return m


class TopKStatistic(wiring.Component):
    """Sums a row and finds its k largest exponentials side by side.

    Latency that of ``SumReciprocal``, interval 1. Members as those of ``SumReciprocal``; rows carry the limit as well.
    """

    interval_cycles = 1

    def __init__(self, unit: TopKSoftmaxUnit) -> None:
        self._unit = unit
        super().__init__(
            {
                "powers": In(flow(powers_layout(unit))),
                "rows": Out(flow(_row_layout(unit))),
                "compared": Out(unit.lanes),
                "added": Out(unit.lanes),
                "rescaled": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Connect both."""
        m = Module()
        m.submodules.sum = total = SumReciprocal(self._unit)
        m.submodules.largest = largest = LargestK(self._unit)
        wiring.connect(m, wiring.flipped(self.powers), total.powers)
        waited = SumReciprocal.latency_cycles_of(self._unit) - LargestK.latency_cycles
        row = self.rows.payload
        m.d.comb += [
            largest.words.payload.eq(self.powers.payload.word),
            largest.words.valid.eq(self.powers.valid),
            row.reciprocal.eq(total.rows.payload.reciprocal),
            row.shift.eq(total.rows.payload.shift),
            row.limit.as_value().eq(delay(m, largest.limit.payload, waited, name="limit")),
            self.rows.valid.eq(total.rows.valid),
            *(getattr(self, name).eq(getattr(total, name)) for name in ("compared", "added", "rescaled")),
        ]
        return m


class TopKNormalise(Normalise):
    """Keeps the weights whose exponential is not below the row's limit, and goes on as ``Normalise``."""

    def _layouts(self) -> tuple[data.StructLayout, data.StructLayout]:
        return super()._layouts()[0], _row_layout(self._unit)

    def _selected(self, m: Any, keep: Any, taken: Any) -> Any:
        word, limit = self.words.payload, self.rows.payload.limit
        key, place = _key(word), count_places(m, taken, word.last, len(limit.beat))
        return keep & ((key > limit.key) | ((key == limit.key) & (place <= limit.beat)))


class TopKSoftmax(Softmax):
    """The softmax of ``accel.softmax_family.top_k``; members as those of ``Softmax``, only the k largest are kept."""

    @staticmethod
    def row_bits_of(unit: SoftmaxUnit) -> int:
        """Return the bits of a row's entry."""
        return int(_row_layout(unit).size)

    @staticmethod
    def _parameters(unit: SoftmaxUnit) -> tuple[str, ...]:
        return (*Softmax._parameters(unit), "k")

    def _statistic(self) -> Any:
        return TopKStatistic(self._unit)

    def _back(self) -> Any:
        return TopKNormalise(self._unit, self.sink_beat)
