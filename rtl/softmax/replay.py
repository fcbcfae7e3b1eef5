"""A row buffer whose rows can be read again."""

from __future__ import annotations

from typing import Any

from amaranth import Module, Mux, Shape, Signal, Value, unsigned
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["ReplayFifo"]


class ReplayFifo(wiring.Component):
    """First in, first out queue in a synchronous-read memory, that gives the words not yet released again.

    As ``rtl.stream.MemoryFifo``: a word accepted in cycle c stands at the output in cycle c + 3 if nothing is before
    it, else one cycle after the one before it was taken. A taken word keeps its place until it is released; words are
    released in order. After ``rewind`` the first word that is not released stands at the output 3 cycles later.

    Parameters
    ----------
    shape : ShapeLike
        Of the words.
    depth : int
        Words of memory, at least 2; no more than so many are ever held.

    Members
    -------
    i : In(stream.Signature(shape))
        Words in; ready unless the memory is full.
    o : Out(stream.Signature(shape))
        Words out, from a register.
    release : In(1)
        The first word held is needed no more; it was taken earlier, or is in this cycle.
    rewind : In(1)
        Go back to the first word held; nothing is released in this cycle.
    """

    latency_cycles = 3

    def __init__(self, shape: Any, *, depth: int) -> None:
        self._width, self._depth = Shape.cast(shape).width, depth
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "release": In(1),
                "rewind": In(1),
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Build the memory, the addresses of writing, reading and releasing, and the counts of words."""
        m = Module()
        m.submodules.storage = storage = memory.Memory(shape=unsigned(self._width), depth=self._depth, init=[])
        writer, reader = storage.write_port(), storage.read_port()
        written, read, first = (Signal(range(self._depth), name=name) for name in ("written", "read", "first"))
        held, unread = (Signal(range(self._depth + 1), name=name) for name in ("held", "unread"))
        fetched, write, fetch, move = (Signal(name=name) for name in ("fetched", "write", "fetch", "move"))
        m.d.comb += [
            self.i.ready.eq(held != self._depth),
            write.eq(self.i.valid & self.i.ready),
            writer.addr.eq(written),
            writer.data.eq(self.i.payload),
            writer.en.eq(write),
            move.eq(fetched & (~self.o.valid | self.o.ready)),
            fetch.eq((unread != 0) & (~fetched | move)),
            reader.addr.eq(read),
            reader.en.eq(fetch),
        ]
        for address, moves in ((written, write), (read, fetch), (first, self.release)):
            with m.If(moves):
                m.d.sync += address.eq(Mux(address == self._depth - 1, 0, (address + 1)[: len(address)]))
        m.d.sync += [
            held.eq((held + write - self.release)[: len(held)]),
            unread.eq((unread + write - fetch)[: len(unread)]),
            fetched.eq(fetch | (fetched & ~move)),
            self.o.valid.eq(move | (self.o.valid & ~self.o.ready)),
        ]
        output = Signal(self._width, reset_less=True)
        with m.If(move):
            m.d.sync += output.eq(reader.data)
        with m.If(self.rewind):
            m.d.sync += [read.eq(first), unread.eq((held + write)[: len(unread)]), fetched.eq(0), self.o.valid.eq(0)]
        m.d.comb += Value.cast(self.o.payload).eq(output)
        return m
