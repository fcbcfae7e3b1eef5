"""The way of a word of outputs into the memory: rounding, activation, score, and the addition to what is there."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from accel.block_unit import BlockUnit
from accel.numerics import FixedPoint, Rounding
from rtl.activation.core import ActivationLane
from rtl.linear.layouts import result_layout, word_layout
from rtl.stream import delay, flow

__all__ = ["Results"]


def saturated(value: Any, element: FixedPoint) -> Any:
    """Return a signed value brought into the range of ``element``, in its own width."""
    shape = signed(len(value))
    if len(value) <= element.width_bits:
        return value
    high = Mux(value > element.max_code, Const(element.max_code, shape), value)
    return Mux(value < element.min_code, Const(element.min_code, shape), high)


class Results(wiring.Component):
    """Rounds sums, applies the activation, weighs, accumulates, and writes (steps 2 and 3 of ``accel.linear_unit``).

    Latency ``3 + unit.linear.activation_cycles`` cycles from a sum to its write; interval 1, also where a word adds to
    the one just before it: what is on its way to the memory is taken from the way.

    Parameters
    ----------
    unit : BlockUnit
        Formats, activation, memory.

    Members
    -------
    sums : In(flow({sum of each lane, what goes with them}))
        Exact sums.
    old_address : Out, old_read : Out(1), old : In(word_layout)
        The word that is added to: address, whether it counts, and the word one cycle later.
    address, numbers, write : Out
        The word to write.
    row_end, feeds, job_end : Out(1)
        The word that is written ends its row; lets a row that waits for it start; ends its job.
    activated, scaled, accumulated : Out(range(tile + 1))
        Numbers for which that happens in this cycle.
    """

    def __init__(self, unit: BlockUnit) -> None:
        self._unit = unit
        linear, address, count = unit.linear, range(unit.memory_words), range(unit.linear.tile + 1)
        sums = data.ArrayLayout(signed(linear.accumulator_bits), linear.tile)
        super().__init__(
            {
                "sums": In(flow(data.StructLayout({"sum": sums, "about": result_layout(unit)}))),
                "old_address": Out(address),
                "old_read": Out(1),
                "old": In(word_layout(unit)),
                "address": Out(address),
                "numbers": Out(word_layout(unit)),
                "write": Out(1),
                **{name: Out(1) for name in ("row_end", "feeds", "job_end")},
                **{name: Out(count) for name in ("activated", "scaled", "accumulated")},
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Build: rounding (1), activation, score (1), addition (1)."""
        m = Module()
        unit = self._unit
        linear, waited = unit.linear, 1 + unit.linear.activation_cycles
        about, valid = self._beside(m, waited + 2)
        results = []
        for lane in range(linear.tile):
            rounded = self._round(m, self.sums.payload.sum[lane], lane)
            found = delay(m, rounded, linear.activation_cycles, name=f"plain_{lane}").as_signed()
            if linear.activation is not None:
                m.submodules[f"activation_{lane}"] = curve = ActivationLane(linear.activation)
                m.d.comb += [curve.argument.payload.eq(rounded), curve.argument.valid.eq(valid[1])]
                found = Mux(about[waited].activate, curve.result.payload, found)
            result = Signal(signed(linear.feature_format.width_bits), name=f"result_{lane}")
            m.d.comb += result.eq(Mux(about[waited].lanes > lane, found, 0))
            results.append(result)
        now, end = about[waited], about[waited + 2]
        m.d.comb += [
            self.old_address.eq(now.address),
            self.old_read.eq(valid[waited] & now.accumulate),
            self.address.eq(end.address),
            self.write.eq(valid[waited + 2]),
            self.row_end.eq(self.write & end.row_end),
            self.feeds.eq(self.row_end & end.feeds),
            self.job_end.eq(self.row_end & end.job_end),
            self.activated.eq(Mux(valid[1] & about[1].activate, about[1].lanes, 0)),
            self.scaled.eq(Mux(valid[waited] & now.scaled, now.lanes, 0)),
            self.accumulated.eq(Mux(self.old_read, now.lanes, 0)),
        ]
        self._add(m, results, about[waited], about[waited + 1], valid[waited + 2])
        return m

    def _beside(self, m: Any, cycles: int) -> tuple[list[Any], list[Any]]:
        """Return what goes with the sums, and whether there are any, as they were 0 to ``cycles`` cycles ago."""
        about, valid = [self.sums.payload.about], [self.sums.valid]
        for at in range(1, cycles + 1):
            about.append(Signal(result_layout(self._unit), name=f"about_{at}", reset_less=True))
            valid.append(Signal(name=f"valid_{at}"))
            m.d.sync += [Value.cast(about[at]).eq(Value.cast(about[at - 1])), valid[at].eq(valid[at - 1])]
        return about, valid

    def _round(self, m: Any, total: Any, lane: int) -> Any:
        """Return after one cycle the sum without the fraction bits of the weights, rounded and saturated."""
        target, shift = self._unit.linear.feature_format, self._unit.linear.weight_format.fraction_bits
        floor = Value.cast(total)[shift:].as_signed()
        up: Any = Const(0, 1)
        if shift and target.rounding is Rounding.NEAREST_UP:
            up = total[shift - 1]
        elif shift and target.rounding is Rounding.NEAREST_EVEN:
            up = total[shift - 1] & (total[: shift - 1].any() | floor[0])
        whole = Signal(signed(len(floor) + 1), name=f"whole_{lane}")
        value = Signal(signed(target.width_bits), name=f"rounded_{lane}", reset_less=True)
        m.d.comb += whole.eq(floor + up)
        m.d.sync += value.eq(saturated(whole, target))
        return value

    def _add(self, m: Any, results: list[Any], now: Any, following: Any, writes: Any) -> None:
        """Build the last two stages; a word that is still on its way is not read from the memory."""
        linear = self._unit.linear
        bits, target = linear.score_fraction_bits, linear.feature_format
        words = Signal(word_layout(self._unit), name="words", reset_less=True)
        before = Signal(word_layout(self._unit), name="words_before", reset_less=True)
        address = delay(m, self.address, 1, name="address_before")
        m.d.sync += Value.cast(before).eq(Value.cast(words))
        wrote = delay(m, writes, 1, name="wrote", reset_less=False)
        hits = [writes & (self.address == following.address), wrote & (address == following.address)]
        score = Signal(unsigned(bits + 1))
        m.d.comb += score.eq(Mux(now.scaled, now.score, 1 << bits))
        for lane, result in enumerate(results):
            product = Signal(signed(target.width_bits + bits + 1), name=f"scaled_{lane}", reset_less=True)
            m.d.sync += product.eq(result * score)
            moved = Signal(signed(len(product) - bits + 1), name=f"moved_{lane}")
            old = Signal(signed(target.width_bits), name=f"old_{lane}")
            total = Signal(signed(target.width_bits + 2), name=f"total_{lane}")
            held = Mux(hits[0], words[lane], Mux(hits[1], before[lane], self.old[lane]))
            m.d.comb += [
                moved.eq((product + (1 << (bits - 1))) >> bits),
                old.eq(Mux(following.accumulate, held, 0)),
                total.eq((old + moved)[: len(total)].as_signed()),
            ]
            m.d.sync += words[lane].eq(saturated(total, target))
        m.d.comb += Value.cast(self.numbers).eq(Cat(Value.cast(words[lane]) for lane in range(linear.tile)))
