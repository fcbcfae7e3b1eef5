"""The heart of the softmax: running maximum and running sum of a row (step 4 of ``accel.softmax_rows``)."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from accel.softmax_rows import PowerRows
from rtl.arith import LEVELS_PER_STAGE, minimum, reduce_pairs, shift_right, tree_stages
from rtl.softmax.layouts import count_bits, halvings_shape, powers_layout, register_tree, totals_layout
from rtl.stream import delay, flow

__all__ = ["OnlineSum"]


class OnlineSum(wiring.Component):
    """Sums the exponentials of a row relative to the largest exponent seen so far, one beat a cycle.

    The exponents are whole numbers, so a risen maximum shifts the running sum; shift and addition fit in one cycle,
    and no interleaving of rows is needed for an interval of 1. Latency ``4 + tree_stages(lanes)`` cycles: maximum,
    differences, shifted terms, tree, sum. No sum overflows: ``sum_bits`` holds ``capacity`` terms of 1.0.

    The online form of the softmax denominator is due to Milakov and Gimelshein, arXiv 1805.02867; the rescaling by a
    shift to Softermax, arXiv 2103.09301.

    Parameters
    ----------
    unit : PowerRows
        Widths and lanes.
    find_top : bool
        Find the place of the largest term, the first of several; else ``totals.top`` means nothing.

    Members
    -------
    powers : In(flow(powers_layout))
        The exponentials of a beat.
    totals : Out(flow(totals_layout))
        One for each row: the fewest halvings and the sum.
    compared, added : Out(lanes)
        Lanes that enter the running maximum, and the running sum, in this cycle.
    rescaled : Out(1)
        A maximum that earlier scores of the row left is raised.
    """

    interval_cycles = 1

    def __init__(self, unit: PowerRows, *, find_top: bool) -> None:
        self._unit, self._find_top = unit, find_top
        super().__init__(
            {
                "powers": In(flow(powers_layout(unit))),
                "totals": Out(flow(totals_layout(unit))),
                "compared": Out(unit.lanes),
                "added": Out(unit.lanes),
                "rescaled": Out(1),
            }
        )

    @staticmethod
    def latency_cycles_of(unit: PowerRows) -> int:
        """Return the cycles from a row's last beat to its totals, without building anything."""
        return 4 + tree_stages(unit.lanes)

    @property
    def latency_cycles(self) -> int:
        """Cycles from a row's last beat to its totals."""
        return self.latency_cycles_of(self._unit)

    def elaborate(self, platform: Any) -> Any:
        """Build the running maximum, the terms and the running sum."""
        m = Module()
        unit, word = self._unit, self.powers.payload.word
        valid = [self.powers.valid]
        for stage in range(1, self.latency_cycles + 1):
            valid.append(delay(m, valid[-1], 1, name=f"valid_{stage}", reset_less=False))
        keep = delay(m, word.keep, 1, name="keep")
        last = delay(m, word.last, self.latency_cycles - 1, name="last")

        fewest, previous, first = self._running_minimum(m, valid[0])
        m.d.comb += self.compared.eq(keep & valid[1].replicate(unit.lanes))

        terms, largest = self._terms(m, fewest, keep)
        m.d.comb += self.added.eq(delay(m, keep, 2, name="added") & valid[3].replicate(unit.lanes))
        beat_sum = register_tree(m, terms, lambda left, right: left + right, name="sum")

        amount, vanish = self._amount(m, previous, fewest, unit.sum_bits, first, name="rescale")
        stages = 1 + tree_stages(unit.lanes)
        amount, vanish = (delay(m, amount, stages, name="amount"), delay(m, vanish, stages, name="vanish"))
        total = Signal(unit.sum_bits, reset_less=True)
        kept = Signal(unit.sum_bits)
        m.d.comb += kept.eq(Mux(vanish, 0, shift_right(total, amount)))
        with m.If(valid[-2]):
            m.d.sync += total.eq((kept + beat_sum)[: unit.sum_bits])
        if self._find_top:
            self._top(m, *self._largest(m, largest), vanish | amount.any(), valid[-2], last)

        m.d.comb += [
            self.totals.payload.sum.eq(total),
            self.totals.payload.fewest.eq(delay(m, fewest, self.latency_cycles - 1, name="fewest")),
            self.totals.valid.eq(valid[-1] & delay(m, last, 1, name="ended")),
        ]
        return m

    def _terms(self, m: Any, fewest: Any, keep: Any) -> tuple[list[Any], list[Any]]:
        """Return registers: the shifted term of each lane, and its mantissa with its lane if the shift is 0, else 0."""
        unit, word = self._unit, self.powers.payload.word
        terms, largest = [], []
        for lane in range(unit.lanes):
            mantissa = Const(1, 1)
            if unit.mantissa_bits:
                mantissa = delay(m, word.mantissa[lane], 2, name=f"mantissa_{lane}")
            whole = Cat(Const(0, unit.sum_fraction_bits - unit.mantissa_fraction_bits), mantissa)
            halvings = delay(m, word.halvings[lane], 1, name=f"halvings_{lane}")
            amount, vanish = self._amount(m, halvings, fewest, len(whole), ~keep[lane], name=f"shift_{lane}")
            term = Signal(len(whole), name=f"term_{lane}", reset_less=True)
            m.d.sync += term.eq(Mux(vanish, 0, shift_right(whole, amount)))
            terms.append(term)
            if self._find_top:
                large = Signal(len(mantissa), name=f"large_{lane}", reset_less=True)
                m.d.sync += large.eq(Mux(vanish | amount.any(), 0, mantissa))
                largest.append((large, Const(lane, count_bits(unit.lanes))))
        return terms, largest

    def _largest(self, m: Any, terms: list[tuple[Any, Any]]) -> tuple[Any, Any]:
        """Return the largest mantissa and its lane, ``tree_stages`` cycles later; of equal ones the lower lane.

        Each bit of the lane is a register of its own: where two have one constant value, synthesis makes them one, and
        a signal that drives a part of itself is a loop for Verilator.
        """
        for stage in range(tree_stages(self._unit.lanes)):
            registers = []
            for index, (mantissa, lane) in enumerate(reduce_pairs(terms, _larger, levels=LEVELS_PER_STAGE)):
                kept = Signal(mantissa.shape(), name=f"top_{stage}_{index}", reset_less=True)
                bits = [Signal(name=f"top_{stage}_{index}_lane_{bit}", reset_less=True) for bit in range(len(lane))]
                m.d.sync += [kept.eq(mantissa), Cat(bits).eq(lane)]
                registers.append((kept, Cat(bits)))
            terms = registers
        return terms[0]

    def _top(self, m: Any, largest: Any, lane: Any, restart: Any, valid: Any, last: Any) -> None:
        """Keep the place of the largest term since the running maximum last rose."""
        place = Signal(count_bits(self._unit.max_beats), name="place")
        mantissa = Signal(len(largest), name="top_mantissa", reset_less=True)
        top = Signal(self.totals.payload.top.shape(), name="top_place", reset_less=True)
        m.d.comb += self.totals.payload.top.eq(top)
        with m.If(valid):
            m.d.sync += place.eq(Mux(last, 0, (place + 1)[: len(place)]))
            with m.If(restart | (largest > mantissa)):
                m.d.sync += [mantissa.eq(largest), top.beat.eq(place), top.lane.eq(lane)]

    def _running_minimum(self, m: Any, valid: Any) -> tuple[Any, Any, Any]:
        """Return, after one cycle, the fewest halvings with and without this beat, and whether it starts the row."""
        powers = self.powers.payload
        start = Signal(init=1)
        fewest = Signal(halvings_shape(self._unit), reset_less=True)
        previous = Signal(halvings_shape(self._unit), reset_less=True)
        first = Signal(reset_less=True)
        seen = Signal()
        had = Signal(reset_less=True)
        with m.If(valid):
            m.d.sync += [
                start.eq(powers.word.last),
                first.eq(start),
                previous.eq(fewest),
                fewest.eq(Mux(start, powers.fewest, minimum(powers.fewest, fewest))),
                had.eq(seen & ~start),
                seen.eq((seen & ~start) | powers.word.keep.any()),
            ]
        risen = Signal()
        m.d.comb += risen.eq(had & (fewest < previous))
        m.d.comb += self.rescaled.eq(risen & delay(m, valid, 1, name="compared", reset_less=False))
        return fewest, previous, first

    def _amount(self, m: Any, high: Any, low: Any, width: int, vanish: Any, *, name: str) -> tuple[Any, Any]:
        """Return registers: ``high - low`` as a shift amount below ``width``, and whether nothing is left."""
        bits = (width - 1).bit_length()
        difference = Signal(halvings_shape(self._unit).width, name=f"{name}_difference")
        amount = Signal(min(bits, len(difference)), name=f"{name}_amount", reset_less=True)
        nothing = Signal(name=f"{name}_nothing", reset_less=True)
        # Never negative where it counts.
        m.d.comb += difference.eq((high - low)[: len(difference)])
        m.d.sync += [amount.eq(difference[: len(amount)]), nothing.eq(vanish | (difference >= width))]
        return amount, nothing


def _larger(left: tuple[Any, Any], right: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return the one with the larger mantissa; of equal ones the left."""
    wins = right[0] > left[0]
    return Mux(wins, right[0], left[0]), Mux(wins, right[1], left[1])
