"""The softmax with a unified maximum: a fixed level in place of a row's maximum, and an exact fallback."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from amaranth import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from accel.softmax_family.unified_max import UnifiedMaxUnit
from accel.softmax_unit import SoftmaxUnit
from rtl.arith import minimum, shift_right, tree_stages
from rtl.contract import Contract
from rtl.softmax.core import Softmax
from rtl.softmax.layouts import halvings_shape, powers_layout, register_tree, row_layout, word_layout
from rtl.softmax.normalise import Normalise
from rtl.softmax.replay import ReplayFifo
from rtl.softmax.statistics import RowReciprocal, SumReciprocal
from rtl.stream import Beat, delay, flow

__all__ = ["UnifiedMax"]


def _row_layout(unit: SoftmaxUnit) -> data.StructLayout:
    """Return what the output needs of a row, and whether the row has to be redone."""
    layout = row_layout(unit)
    return data.StructLayout({name: layout[name].shape for name, _ in layout} | {"redo": 1})


class LevelSum(wiring.Component):
    """Sums the exponentials of a row relative to the top of the window, and takes the reciprocal.

    Latency ``latency_cycles_of(unit)``: differences, shifted terms, tree, sum, reciprocal; interval 1.

    Parameters
    ----------
    unit : UnifiedMaxUnit
        Widths, lanes, window.

    Members
    -------
    powers : In(flow(powers_layout))
        Exponentials.
    rows : Out(flow({reciprocal, shift, redo}))
        One for each row; if ``redo`` is set the others mean nothing.
    """

    interval_cycles = 1

    def __init__(self, unit: UnifiedMaxUnit) -> None:
        self._unit = unit
        super().__init__({"powers": In(flow(powers_layout(unit))), "rows": Out(flow(_row_layout(unit)))})

    @staticmethod
    def latency_cycles_of(unit: SoftmaxUnit) -> int:
        """Return the cycles from a row's last beat to its entry, without building anything."""
        return 3 + tree_stages(unit.lanes) + RowReciprocal.latency_cycles_of(unit)

    def elaborate(self, platform: Any) -> Any:
        """Build the terms, their sum, and the flags of the window."""
        m = Module()
        unit, word = self._unit, self.powers.payload.word
        waited = 2 + tree_stages(unit.lanes)
        terms = [self._term(m, lane) for lane in range(unit.lanes)]
        beat_sum = register_tree(m, terms, lambda left, right: left + right, name="sum")
        lanes = range(unit.lanes)
        above = Cat(word.keep[lane] & (word.halvings[lane] < unit.window_top) for lane in lanes).any()
        inside = Cat(word.keep[lane] & (word.halvings[lane] <= unit.window_bottom) for lane in lanes).any()
        flags = delay(m, Cat(above, inside, word.keep.any()), waited, name="flags")
        summing = delay(m, self.powers.valid, waited, name="summing", reset_less=False)
        last = delay(m, word.last, waited, name="last")

        start = Signal(init=1, name="start")
        total = Signal(unit.sum_bits, name="total", reset_less=True)
        found = Signal(len(flags), name="found", reset_less=True)
        with m.If(summing):
            m.d.sync += [
                start.eq(last),
                total.eq((Mux(start, 0, total) + beat_sum)[: unit.sum_bits]),
                found.eq(Mux(start, 0, found) | flags),
            ]
        m.submodules.reciprocal = reciprocal = RowReciprocal(unit)
        redo = found[0] | (found[2] & ~found[1])
        row = self.rows.payload
        m.d.comb += [
            reciprocal.totals.payload.sum.eq(total),
            reciprocal.totals.payload.fewest.eq(unit.window_top),
            reciprocal.totals.valid.eq(delay(m, summing & last, 1, name="ended", reset_less=False)),
            row.reciprocal.eq(reciprocal.rows.payload.reciprocal),
            row.shift.eq(reciprocal.rows.payload.shift),
            row.redo.eq(delay(m, redo, RowReciprocal.latency_cycles_of(unit), name="redo")),
            self.rows.valid.eq(reciprocal.rows.valid),
        ]
        return m

    def _term(self, m: Any, lane: int) -> Any:
        """Return the shifted exponential of a lane, 2 cycles later; 0 for one that is not kept or above the window."""
        unit, word = self._unit, self.powers.payload.word
        halvings = word.halvings[lane]
        mantissa = delay(m, word.mantissa[lane], 1, name=f"mantissa_{lane}")
        whole = Cat(Const(0, unit.sum_fraction_bits - unit.mantissa_fraction_bits), mantissa)
        behind = Signal(len(halvings), name=f"behind_{lane}")
        amount = Signal(min((len(whole) - 1).bit_length(), len(behind)), name=f"amount_{lane}", reset_less=True)
        nothing = Signal(name=f"nothing_{lane}", reset_less=True)
        term = Signal(len(whole), name=f"term_{lane}", reset_less=True)
        m.d.comb += behind.eq((halvings - unit.window_top)[: len(behind)])
        m.d.sync += [
            amount.eq(behind[: len(amount)]),
            nothing.eq(~word.keep[lane] | (halvings < unit.window_top) | (behind >= len(whole))),
            term.eq(Mux(nothing, 0, shift_right(whole, amount))),
        ]
        return term


class FallbackNormalise(wiring.Component):
    """Gives the weights of rows that stayed in the window; reads the others once for their exact sum, then again.

    Latency from taking a word to its weights that of ``Normalise``. From taking the last word of a row for its sum to
    taking its first for the weights: ``redo_cycles + 1`` of the contract.

    Parameters
    ----------
    unit : UnifiedMaxUnit
        Widths, lanes, formats.
    beat : Beat
        Of weights.

    Members
    -------
    words : In(stream.Signature(word_layout))
        The row buffer's output.
    rows : In(stream.Signature({reciprocal, shift, redo}))
        Entries of the rows, in order.
    results : Out(stream of beats)
        Weights.
    release, rewind : Out(1)
        Of ``ReplayFifo``.
    """

    def __init__(self, unit: UnifiedMaxUnit, beat: Beat) -> None:
        self._unit, self._beat = unit, beat
        super().__init__(
            {
                "words": In(stream.Signature(word_layout(unit))),
                "rows": In(stream.Signature(_row_layout(unit))),
                "results": Out(beat.signature),
                "release": Out(1),
                "rewind": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Choose for each row between its weights, its exact sum, and waiting for that."""
        m = Module()
        m.submodules.normalise = normalise = Normalise(self._unit, self._beat)
        m.submodules.fallback = fallback = SumReciprocal(self._unit)
        wiring.connect(m, normalise.results, wiring.flipped(self.results))
        waiting, redone = Signal(name="waiting"), Signal(name="redone")
        entry = Signal(row_layout(self._unit), name="entry", reset_less=True)
        scan, given = Signal(name="scan"), Signal(name="given")
        row = self.rows.payload
        m.d.comb += [
            scan.eq(self.words.valid & self.rows.valid & row.redo & ~waiting & ~redone),
            given.eq(redone | (~row.redo & ~waiting)),
            normalise.words.payload.eq(self.words.payload),
            normalise.words.valid.eq(self.words.valid & given),
            normalise.rows.payload.reciprocal.eq(Mux(redone, entry.reciprocal, row.reciprocal)),
            normalise.rows.payload.shift.eq(Mux(redone, entry.shift, row.shift)),
            normalise.rows.valid.eq(self.rows.valid & given),
            self.words.ready.eq(scan | normalise.words.ready),
            self.rows.ready.eq(normalise.rows.ready),
            self.release.eq(normalise.words.valid & normalise.words.ready),
            self.rewind.eq(scan & self.words.payload.last),
        ]
        with m.If(self.rewind):
            m.d.sync += waiting.eq(1)
        with m.If(fallback.rows.valid):
            m.d.sync += [waiting.eq(0), redone.eq(1), entry.eq(fallback.rows.payload)]
        with m.Elif(self.rows.valid & self.rows.ready):
            m.d.sync += redone.eq(0)
        self._sum(m, fallback, scan)
        return m

    def _sum(self, m: Any, fallback: Any, scan: Any) -> None:
        """Send the words of a scan to the exact sum, with the fewest halvings of each beat."""
        lanes, word = self._unit.lanes, self.words.payload
        cycles = tree_stages(lanes)
        worst = Const(self._unit.max_halvings, halvings_shape(self._unit))
        candidates = [Mux(word.keep[lane], word.halvings[lane], worst) for lane in range(lanes)]
        m.d.comb += [
            Value.cast(fallback.powers.payload.word).eq(delay(m, Value.cast(word), cycles, name="word")),
            fallback.powers.payload.fewest.eq(register_tree(m, candidates, minimum, name="fewest")),
            fallback.powers.valid.eq(delay(m, scan, cycles, name="scanned", reset_less=False)),
        ]


class UnifiedMax(Softmax):
    """The softmax of ``accel.softmax_family.unified_max``; members as those of ``Softmax``.

    Nothing hangs: what ``BufferedRows`` argues for complete rows holds, as a row is scanned and waited for without any
    beat from outside.
    """

    PACE: ClassVar[str] = "one beat a cycle as long as rows stay in the window"

    @classmethod
    def contract_of(cls, unit: Any, *, counters: bool = False) -> Contract:
        """Return what a block of these parameters promises, without building it."""
        found = super().contract_of(unit, counters=counters)
        window = {name: getattr(unit, name) for name in ("window_top", "window_bottom", "redo_cycles")}
        again = f"A row that leaves the window is read again: its beats and {unit.redo_cycles} cycles more."
        return replace(
            found,
            summary=(f"{unit.summary}.", *found.summary[1:], again),
            derived={**found.derived, **window},
            latency_span="from the last beat of a row that stays in the window to its first weights",
        )

    @staticmethod
    def stages_of(unit: SoftmaxUnit) -> tuple[int, int, int]:
        """Return the latencies in cycles of the three parts."""
        return unit.power_cycles, LevelSum.latency_cycles_of(unit), Normalise.latency_cycles_of(unit)

    @staticmethod
    def row_bits_of(unit: SoftmaxUnit) -> int:
        """Return the bits of a row's entry."""
        return int(_row_layout(unit).size)

    @staticmethod
    def _parameters(unit: SoftmaxUnit) -> tuple[str, ...]:
        return ("exp_segments", "phi", "window")

    def _statistic(self) -> Any:
        return LevelSum(self._unit)

    def _back(self) -> Any:
        return FallbackNormalise(self._unit, self.sink_beat)

    def _row_buffer(self, shape: Any) -> Any:
        return ReplayFifo(shape, depth=self.buffer_beats)

    def _left(self, row_buffer: Any) -> Any:
        return row_buffer.release

    def _observe(self, m: Any, *, front: Any, statistic: Any, back: Any, row_buffer: Any) -> None:
        """Let the output say which words are needed no more, and when to go back."""
        m.d.comb += [row_buffer.release.eq(back.release), row_buffer.rewind.eq(back.rewind)]
