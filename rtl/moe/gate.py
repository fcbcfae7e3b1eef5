"""The gate: logits in, lists of tokens out."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from accel.block_unit import BlockUnit
from rtl.attention.reordered.choice import chosen
from rtl.linear.layouts import list_layout, word_layout
from rtl.moe.choice import Choice, Renormalise, places_layout
from rtl.softmax import Softmax

__all__ = ["Gate"]


class Gate(wiring.Component):
    """Scores the experts of each token, chooses, and appends the token to the lists (``accel.gate_unit``).

    Takes a logit a cycle. When the last token is in its lists, those that are not empty leave one by one, in the order
    in which they got their first token. A list has a count that reaches ``max_rows``: one expert may get every token.

    Parameters
    ----------
    unit : BlockUnit
        The gate, words, and lists.

    Members
    -------
    begin : In(1), rows : In(range(max_rows + 1))
        Empties the lists; how many tokens come.
    words : In(stream of word_layout)
        Logits, token by token.
    list_address : Out, list_data : Out(list_layout), list_write : Out(1)
        The entry that is appended.
    found, found_last : Out(1), found_ready : In(1)
        ``expert`` and ``tokens`` are those of a list that is not empty, the last of all; it is taken.
    done : Out(1)
        The last of them is taken.
    experts : Out(range(experts + 1))
        How many they are.
    place : In(range(experts)), expert : Out(range(experts)), tokens : Out(range(max_rows + 1))
        The list at a place of their order, and its tokens, in the same cycle, but while ``found``.
    scored, divided : Out(1)
        For counters: a score, a reciprocal.
    """

    def __init__(self, unit: BlockUnit) -> None:
        assert unit.gate is not None
        self._unit, self._gate = unit, unit.gate
        experts, rows = range(unit.gate.experts), range(unit.max_rows + 1)
        super().__init__(
            {
                "begin": In(1),
                "rows": In(rows),
                "words": In(stream.Signature(word_layout(unit))),
                "list_address": Out((unit.max_rows - 1).bit_length() + (unit.list_count - 1).bit_length()),
                "list_data": Out(list_layout(unit)),
                "list_write": Out(1),
                "found": Out(1),
                "found_ready": In(1),
                "found_last": Out(1),
                "done": Out(1),
                "experts": Out(range(unit.gate.experts + 1)),
                "place": In(experts),
                "expert": Out(experts),
                "tokens": Out(rows),
                "scored": Out(1),
                "divided": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Connect softmax, choice and lists."""
        m = Module()
        unit = self._gate
        m.submodules.softmax = softmax = Softmax(unit.softmax)
        m.submodules.choice = choice = Choice(unit)
        self._serialise(m, softmax.scores)
        weights = softmax.weights
        m.d.comb += [
            weights.ready.eq(1),
            choice.score.eq(weights.payload.weight[0]),
            choice.last.eq(weights.payload.last),
            choice.valid.eq(weights.valid),
            self.scored.eq(weights.valid),
        ]
        places = choice.places
        if unit.renormalise:
            m.submodules.renormalise = renormalise = Renormalise(unit)
            wiring.connect(m, choice.places, renormalise.places)
            places = renormalise.results
            m.d.comb += self.divided.eq(choice.places.valid)
        self._append(m, places)
        return m

    def _serialise(self, m: Any, scores: Any) -> None:
        """Offer the logits of a word one after the other."""
        tile = self._unit.linear.tile
        lanes, expert = Signal(tile, init=1), Signal(range(self._gate.experts))  # lanes is one-hot
        last, taken = Signal(), Signal()
        m.d.comb += [
            last.eq(expert == self._gate.experts - 1),
            taken.eq(scores.valid & scores.ready),
            scores.valid.eq(self.words.valid),
            scores.payload.score[0].eq(chosen(list(self.words.payload), lanes)),
            scores.payload.keep.eq(1),
            scores.payload.last.eq(last),
            self.words.ready.eq(taken & (last | lanes[-1])),
        ]
        with m.If(taken):
            m.d.sync += [
                lanes.eq(Mux(last, 1, lanes.rotate_left(1))),
                expert.eq(Mux(last, 0, (expert + 1)[: len(expert)])),
            ]

    def _append(self, m: Any, places: Any) -> None:
        """Append a token to its lists, one a cycle; then show which lists have tokens."""
        unit, count = self._gate, self._unit.max_rows
        waiting = Signal(unit.top_k)
        entries = Signal(places_layout(unit), reset_less=True)
        token = Signal(range(count + 1))
        counts = [Signal(range(count + 1), name=f"count_{expert}") for expert in range(unit.experts)]
        order = [Signal(range(unit.experts), name=f"order_{place}") for place in range(unit.experts)]
        showing, shown = Signal(), Signal(range(unit.experts))
        entry, held, final = entries[0], Signal(range(count + 1), name="held"), Signal()
        width = len(Value.cast(entries)) // unit.top_k
        appended = _one_hot(m, entry.expert, unit.experts, "appended")
        next_place = _one_hot(m, self.experts, unit.experts, "next_place")
        asked = _one_hot(m, Mux(showing, shown, self.place), unit.experts, "asked")
        asked_expert = _one_hot(m, self.expert, unit.experts, "asked_expert")
        m.d.comb += [
            held.eq(chosen(counts, appended)),
            self.list_write.eq(waiting[0]),
            self.list_address.eq(Cat(held[: (count - 1).bit_length()], entry.expert)),
            self.list_data.token.eq(token[: len(Value.cast(self.list_data.token))]),
            self.list_data.score.eq(entry.score),
            final.eq(waiting[0] & ~waiting[1:].any()),
            self.expert.eq(chosen(order, asked)),
            self.tokens.eq(chosen(counts, asked_expert)),
            self.found.eq(showing),
            self.found_last.eq(shown == self.experts - 1),
            self.done.eq(showing & self.found_ready & self.found_last),
        ]
        with m.If(places.valid):
            m.d.sync += [waiting.eq(-1), Value.cast(entries).eq(Value.cast(places.payload))]
        with m.Else():
            m.d.sync += [waiting.eq(waiting >> 1), Value.cast(entries).eq(Value.cast(entries) >> width)]
        with m.If(self.begin):
            m.d.sync += [*(each.eq(0) for each in counts), self.experts.eq(0), token.eq(0)]
        with m.Elif(waiting[0]):
            for expert, each in enumerate(counts):
                with m.If(appended[expert]):
                    m.d.sync += each.eq((held + 1)[: len(held)])
            with m.If(~held.any()):
                m.d.sync += self.experts.eq((self.experts + 1)[: len(self.experts)])
                for place, each in enumerate(order):
                    with m.If(next_place[place]):
                        m.d.sync += each.eq(entry.expert)
            with m.If(final):
                m.d.sync += [token.eq((token + 1)[: len(token)]), showing.eq(token == self.rows - 1)]
        with m.If(showing & self.found_ready):
            m.d.sync += shown.eq(Mux(self.found_last, 0, (shown + 1)[: len(shown)]))
            with m.If(self.found_last):
                m.d.sync += showing.eq(0)


def _one_hot(m: Any, number: Any, count: int, name: str) -> Any:
    """Return ``count`` bits, of which the one that ``number`` names is set."""
    value = Signal(len(Value.cast(number)), name=f"{name}_number")
    bits = Signal(count, name=name)
    m.d.comb += value.eq(number)
    m.d.comb += bits.eq(Cat((value == each) if each else ~value.any() for each in range(count)))
    return bits
