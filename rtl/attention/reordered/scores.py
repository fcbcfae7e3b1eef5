"""The front of the unit: p rows of Q against one block of K a cycle."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from accel.reordered_unit import ReorderedUnit
from rtl.arith import LEVELS_PER_STAGE, reduce_pairs
from rtl.attention.reordered.layouts import block_layout, score_layout, step_layout
from rtl.stream import delay, flow

__all__ = ["ScoreTurns", "Scores"]


class Scores(wiring.Component):
    """Keeps one row of Q in each slot and multiplies all rows by the same block of a key.

    Step 1 without the scale: exact sums. A row that arrives is multiplied as it comes and kept for its other keys. A
    slot whose key does not count holds its multipliers still. Latency ``4 + unit.tree_stages`` cycles from the step of
    a key's last block: operands (2), products, tree, sum.

    Parameters
    ----------
    unit : ReorderedUnit
        Slots, features, formats.

    Members
    -------
    steps : In(flow(step_layout))
        What the slots do.
    query : In(block_layout of Q)
        The block of a row that is loaded, in the cycle of its step.
    key : In(block_layout of K)
        The block of the key, one cycle after its step.
    scores : Out(flow({score of each slot, first, last, live}))
        All slots' scores, once for each iteration.
    multiplied : Out(slots)
        Slots that multiply a block in this cycle.
    loaded, reread : Out(slots)
        Slots that write a block of their row, and that read one.
    """

    def __init__(self, unit: ReorderedUnit) -> None:
        self._unit = unit
        result = {"score": data.ArrayLayout(signed(unit.score_bits), unit.slots)}
        flags = {name: unsigned(unit.slots) for name in ("first", "last", "live")}
        super().__init__(
            {
                "steps": In(flow(step_layout(unit))),
                "query": In(block_layout(unit, unit.query_format)),
                "key": In(block_layout(unit, unit.key_format)),
                "scores": Out(flow(data.StructLayout(result | flags))),
                "multiplied": Out(unit.slots),
                "loaded": Out(unit.slots),
                "reread": Out(unit.slots),
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Build the slots and the delays beside them."""
        m = Module()
        unit, step = self._unit, self.steps.payload
        latency = 4 + unit.tree_stages
        now = delay(m, self.steps.valid, 1, name="now", reset_less=False)
        valid = delay(m, now, 1, name="valid", reset_less=False)
        first, live = delay(m, step.first, 1, name="first"), delay(m, step.live, 1, name="live")
        held = {
            "query": delay(m, self.query, 1, name="query"),
            "key": delay(m, self.key, 1, name="key"),
            "block": delay(m, step.block, 1, name="block"),
        }
        begin = delay(m, ~step.block.any(), latency - 1, name="begin")
        summing = delay(m, valid, latency - 3, name="summing", reset_less=False)
        live_2 = delay(m, live, 1, name="multiplying")
        m.d.comb += [
            self.loaded.eq(Mux(now, first, 0)),
            self.reread.eq(Mux(now, live & ~first, 0)),
            self.multiplied.eq(Mux(valid, live_2, 0)),
        ]
        for slot in range(unit.slots):
            row = self._row(m, slot, held, load=self.loaded[slot], fresh=first[slot])
            total = self._products(m, slot, row, held["key"], enable=self.multiplied[slot])
            score = Signal(signed(unit.score_bits), name=f"score_{slot}", reset_less=True)
            with m.If(summing):
                m.d.sync += score.eq((Mux(begin, 0, score) + total)[: unit.score_bits])
            m.d.comb += self.scores.payload.score[slot].eq(score)
        m.d.comb += [
            self.scores.payload.first.eq(delay(m, first, latency - 1, name="first_late")),
            self.scores.payload.live.eq(delay(m, live, latency - 1, name="live_late")),
            self.scores.payload.last.eq(delay(m, step.last, latency, name="last_late")),
            self.scores.valid.eq(delay(m, self.steps.valid & step.end, latency, name="end", reset_less=False)),
        ]
        return m

    def _row(self, m: Any, slot: int, held: Any, *, load: Any, fresh: Any) -> Any:
        """Return a block of the slot's row, registered: the one that arrives, or the one kept."""
        unit = self._unit
        width = unit.block * unit.query_format.width_bits
        if unit.key_blocks > 1:
            m.submodules[f"row_{slot}"] = kept = memory.Memory(shape=unsigned(width), depth=unit.key_blocks, init=[])
            writer, reader = kept.write_port(), kept.read_port(domain="comb")
            m.d.comb += [
                writer.addr.eq(held["block"]),
                writer.data.eq(held["query"]),
                writer.en.eq(load),
                reader.addr.eq(held["block"]),
            ]
            stored = reader.data
        else:
            stored = Signal(width, name=f"row_{slot}", reset_less=True)
            with m.If(load):
                m.d.sync += stored.eq(held["query"])
        return delay(m, Mux(fresh, held["query"], stored), 1, name=f"operand_{slot}")

    def _products(self, m: Any, slot: int, row: Any, key: Any, *, enable: Any) -> Any:
        """Return the sum of the products of a block, ``1 + tree_stages`` cycles later."""
        unit = self._unit
        q_bits, k_bits = unit.query_format.width_bits, unit.key_format.width_bits
        terms = []
        for lane in range(unit.block):
            left = row[lane * q_bits : (lane + 1) * q_bits]
            right = Value.cast(key)[lane * k_bits : (lane + 1) * k_bits]
            left = left.as_signed() if unit.query_format.signed else left
            right = right.as_signed() if unit.key_format.signed else right
            product = Signal((left * right).shape(), name=f"product_{slot}_{lane}", reset_less=True)
            with m.If(enable):
                m.d.sync += product.eq(left * right)
            terms.append(product)
        for stage in range(unit.tree_stages):
            registers = []
            for index, value in enumerate(reduce_pairs(terms, lambda a, b: a + b, levels=LEVELS_PER_STAGE)):
                registers.append(Signal(value.shape(), name=f"sum_{slot}_{stage}_{index}", reset_less=True))
                m.d.sync += registers[-1].eq(value)
            terms = registers
        return terms[0]


class ScoreTurns(wiring.Component):
    """Lets the scores of a group of slots pass one by one: the first in the cycle after they come, with no gap.

    Parameters
    ----------
    unit : ReorderedUnit
        Widths and group.

    Members
    -------
    scores : In({score, first, last, live of each slot of the group})
        Side by side.
    taken : In(1)
        They are there.
    turns : Out(flow(score_layout))
        One after the other.
    """

    def __init__(self, unit: ReorderedUnit, slots: int) -> None:
        self._unit, self._slots = unit, slots
        flags = {name: unsigned(slots) for name in ("first", "last", "live")}
        scores = {"score": data.ArrayLayout(signed(unit.score_bits), slots)}
        super().__init__(
            {
                "scores": In(data.StructLayout(scores | flags)),
                "taken": In(1),
                "turns": Out(flow(score_layout(unit))),
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Build a shift register."""
        m = Module()
        turns, count = self.turns.payload, self._slots
        waiting = Signal(count)
        score = Signal(data.ArrayLayout(signed(self._unit.score_bits), count), reset_less=True)
        turn = Signal(turns.turn.shape())
        flags = {name: Signal(count, name=name, reset_less=True) for name in ("first", "last", "live")}
        m.d.sync += [waiting.eq(Mux(self.taken, Cat([1] * count), waiting >> 1))]
        m.d.sync += Value.cast(score).eq(
            Mux(self.taken, Value.cast(self.scores.score), Value.cast(score) >> self._unit.score_bits)
        )
        m.d.sync += turn.eq(Mux(self.taken, 1, Cat(Const(0, 1), turn)[: len(turn)]))
        for name, flag in flags.items():
            m.d.sync += flag.eq(Mux(self.taken, self.scores[name], flag >> 1))
            m.d.comb += turns[name].eq(flag[0])
        m.d.comb += [turns.score.eq(score[0]), turns.turn.eq(turn), self.turns.valid.eq(waiting[0])]
        return m
