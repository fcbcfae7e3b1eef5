"""The stream rules as assertions round a block, whose ports move as a solver likes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from amaranth import Cat, Elaboratable, Module, Mux, ResetSignal, Signal, Value
from amaranth.hdl import Assert, Assume

__all__ = ["RULES", "Ports", "StreamCheck"]

RULES = {
    "valid-holds": "an offered beat stays offered until it is taken",
    "payload-stable": "its payload stays as it is until it is taken",
    "nothing-lost": "the n-th beat out carries what the n-th beat in carried, for every n",
    "nothing-invented": "no beat leaves that did not come in",
    "output-moves": "what is due leaves within the bound of cycles in which the output is ready",
    "input-moves": "an offered beat is accepted within the bound of cycles in which the output is ready",
}
"""The rules by name; each is an assertion of that name."""


@dataclass(frozen=True, kw_only=True)
class Ports:
    """What the checker sees of a block.

    Parameters
    ----------
    design : Elaboratable
        The block.
    source, sink : stream
        Its stream in and its stream out.
    carried_in, carried_out : Value
        What a beat carries from one to the other unchanged.
    shown : Value, optional
        What must stay while a beat waits; its whole payload if absent.
    row_end : Value, optional
        That the offered beat ends its row, if beats leave only after the last of their row; at most
        ``row_beats`` beats are offered in a row.
    row_beats : int
        Longest row.
    """

    design: Any
    source: Any
    sink: Any
    carried_in: Any
    carried_out: Any
    shown: Any = None
    row_end: Any = None
    row_beats: int = 0


class StreamCheck(Elaboratable):
    """A block between a source and a sink that do as the solver likes, and assertions of the ``RULES``.

    The source keeps the rules itself: that is assumed. One beat, any, is followed through the block: what holds for it
    holds for all.

    Parameters
    ----------
    ports : Ports
        The block.
    bound_cycles : int
        In which something must move.
    count_bits : int
        Width of the counters of beats: they must not run over within the cycles that are checked.
    """

    def __init__(self, ports: Ports, *, bound_cycles: int, count_bits: int) -> None:
        self._ports, self._bound_cycles, self._count_bits = ports, bound_cycles, count_bits
        self.offer, self.take, self.choice = Signal(name="offer"), Signal(name="take"), Signal(name="choice")
        self.payload = Signal(len(Value.cast(ports.source.payload)), name="payload")
        self._chosen = Signal(name="chosen")

    @property
    def free(self) -> list[Any]:
        """The inputs, which the solver chooses in every cycle."""
        return [self.offer, self.take, self.choice, self.payload]

    def elaborate(self, platform: Any) -> Any:
        """Build the environment and the assertions."""
        m = Module()
        ports = self._ports
        m.submodules.design = ports.design
        m.d.comb += Assume(~ResetSignal("sync"))
        self._drive(m)
        self._hold(m)
        self._follow(m)
        return m

    def _drive(self, m: Any) -> None:
        """Let the ports move freely, but the source hold what it offers."""
        source, sink = self._ports.source, self._ports.sink
        offered, waited = Value.cast(source.payload), Signal()
        before = Signal(len(offered))
        m.d.comb += [source.valid.eq(self.offer), offered.eq(self.payload), sink.ready.eq(self.take)]
        m.d.sync += [waited.eq(source.valid & ~source.ready), before.eq(offered)]
        with m.If(waited):
            m.d.comb += Assume(source.valid & (offered == before))

    def _hold(self, m: Any) -> None:
        """Assert that an offered beat stays, and stays the same."""
        sink, shown = self._ports.sink, self._ports.shown
        shown = Value.cast(sink.payload if shown is None else shown)
        waited = Signal(name="output_waited")
        before = Signal(len(shown), name="output_before")
        m.d.sync += [waited.eq(sink.valid & ~sink.ready), before.eq(shown)]
        self._assert(m, "valid-holds", ~waited | sink.valid)
        self._assert(m, "payload-stable", ~waited | ~sink.valid | (shown == before))

    def _follow(self, m: Any) -> None:
        """Assert that beats leave as they came, in their order, and soon enough."""
        ports, bits = self._ports, self._count_bits
        source, sink = ports.source, ports.sink
        inside = Signal(bits, name="beats_inside")
        accept, deliver = Signal(), Signal()
        m.d.comb += [accept.eq(source.valid & source.ready), deliver.eq(sink.valid & sink.ready)]
        m.d.sync += inside.eq(inside + accept - deliver)
        # Once, at a time of the solver's choice, a beat is followed: those before it leave first, and then it.
        follow, followed, ahead = Signal(name="follow"), Signal(name="followed"), Signal(bits, name="ahead")
        carried = Signal(len(Value.cast(ports.carried_in)), name="carried")
        here = Signal(name="followed_is_next")
        m.d.comb += [follow.eq(self.choice & accept & ~self._chosen), here.eq(followed & (ahead == 0))]
        with m.If(follow):
            m.d.sync += [self._chosen.eq(1), followed.eq(1), carried.eq(ports.carried_in), ahead.eq(inside - deliver)]
        with m.Elif(followed & deliver):
            m.d.sync += [ahead.eq(ahead - 1), followed.eq(ahead != 0)]
        self._assert(m, "nothing-invented", ~sink.valid | (inside != 0))
        self._assert(m, "nothing-lost", ~(deliver & here) | (ports.carried_out == carried))
        due = inside != 0 if ports.row_end is None else self._whole_rows(m, accept, deliver, inside)
        self._move(m, "output-moves", waiting=due, moved=deliver)
        self._move(m, "input-moves", waiting=source.valid, moved=accept)

    def _whole_rows(self, m: Any, accept: Any, deliver: Any, inside: Any) -> Any:
        """Keep rows short; return whether a beat of a row that came to its end has not left."""
        ports = self._ports
        # Beats of the row that has not come to its end.
        open_beats = Signal(range(ports.row_beats + 1), name="open_beats")
        with m.If(accept):
            m.d.sync += open_beats.eq(Mux(ports.row_end, 0, open_beats + 1))
        with m.If(ports.source.valid & (open_beats == ports.row_beats - 1)):
            m.d.comb += Assume(ports.row_end)
        return inside > open_beats

    def _move(self, m: Any, rule: str, *, waiting: Any, moved: Any) -> None:
        """Assert that what waits moves before the output was ready for the bound of cycles."""
        patience = Signal(range(self._bound_cycles + 2), name=rule.replace("-", "_"))
        with m.If(moved | ~waiting):
            m.d.sync += patience.eq(0)
        with m.Elif(self._ports.sink.ready & (patience <= self._bound_cycles)):
            m.d.sync += patience.eq(patience + 1)
        self._assert(m, rule, patience <= self._bound_cycles)

    @staticmethod
    def _assert(m: Any, rule: str, holds: Any) -> None:
        """Assert a rule under its name: of several that fail in a cycle, the solver names all."""
        kept = Signal(name=f"rule_{rule.replace('-', '_')}")
        m.d.comb += [kept.eq(Cat(holds).all()), Assert(kept, rule)]
