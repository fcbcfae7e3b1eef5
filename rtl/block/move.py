"""Words from the token memory as a stream, and addresses for words that come as a stream."""

from __future__ import annotations

from typing import Any

from amaranth import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from accel.block_unit import BlockUnit
from rtl.elastic import PipelineEnd
from rtl.linear.layouts import word_layout
from rtl.stream import delay

__all__ = ["USERS", "Places", "Reader", "region_layout"]

USERS = {"output": 1, "norm": 2, "gate": 3, "key": 4, "query": 5}
"""Who takes the words that are read: they may still stand in the queue when the next operation begins."""


def region_layout(unit: BlockUnit) -> data.StructLayout:
    """Return words of the memory: ``rows`` rows of ``blocks`` words, ``stride`` words apart, from ``start`` on.

    One row may be as long as the memory.
    """
    return data.StructLayout(
        {
            "start": range(unit.memory_words),
            "rows": range(unit.max_rows + 1),
            "blocks": range(unit.memory_words + 1),
            "stride": range(unit.max_stride + 1),
        }
    )


class Places(wiring.Component):
    """Counts through the words of a region.

    Parameters
    ----------
    unit : BlockUnit
        The memory.

    Members
    -------
    region : In(region_layout)
        Which words; read in the cycle of ``begin``.
    begin : In(1)
        The words are those of ``region``, from the next cycle on.
    advance : In(1)
        Go to the next word.
    active : Out(1)
        There is a word.
    address : Out
        Where it is.
    row_end, last : Out(1)
        It is the last of its row, and of the region.
    """

    def __init__(self, unit: BlockUnit) -> None:
        self._unit = unit
        super().__init__(
            {
                "region": In(region_layout(unit)),
                "begin": In(1),
                "advance": In(1),
                "active": Out(1),
                "address": Out(range(unit.memory_words)),
                "row_end": Out(1),
                "last": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Build the counters."""
        m = Module()
        region = self.region
        held = Signal(region_layout(self._unit), reset_less=True)
        block, row = Signal(region.blocks.shape()), Signal(region.rows.shape())
        start = Signal(self.address.shape(), name="row_start", reset_less=True)
        m.d.comb += [
            self.row_end.eq(block == held.blocks - 1),
            self.last.eq(self.row_end & (row == held.rows - 1)),
            self.address.eq((start + block)[: len(self.address)]),
        ]
        with m.If(self.begin):
            m.d.sync += Value.cast(held).eq(Value.cast(region))
            m.d.sync += [start.eq(region.start), block.eq(0), row.eq(0), self.active.eq(1)]
        with m.Elif(self.active & self.advance):
            m.d.sync += [block.eq(Mux(self.row_end, 0, (block + 1)[: len(block)])), self.active.eq(~self.last)]
            with m.If(self.row_end):
                m.d.sync += [row.eq((row + 1)[: len(row)]), start.eq((start + held.stride)[: len(start)])]
        return m


class Reader(wiring.Component):
    """Reads a region of the memory into a stream, one word a cycle while the stream is taken.

    The first word stands at the output 3 cycles after ``begin``: its address 1, the memory 1, the queue 1.

    Parameters
    ----------
    unit : BlockUnit
        The memory.

    Members
    -------
    region : In(region_layout), begin : In(1)
        As in ``Places``.
    user : In
        Who is to take them, one of ``USERS``; read with ``begin``.
    address : Out, read : Out(1), data : In(word_layout)
        Port of the memory, read in one cycle.
    words : Out(stream of {numbers, user, row_end, last})
        The words.
    ended : Out(1)
        The last word is read in this cycle.
    """

    def __init__(self, unit: BlockUnit) -> None:
        self._unit = unit
        self._payload = data.StructLayout(
            {"numbers": word_layout(unit), "user": range(len(USERS) + 1), "row_end": 1, "last": 1}
        )
        super().__init__(
            {
                "region": In(region_layout(unit)),
                "begin": In(1),
                "user": In(range(len(USERS) + 1)),
                "address": Out(range(unit.memory_words)),
                "read": Out(1),
                "data": In(word_layout(unit)),
                "words": Out(stream.Signature(self._payload)),
                "ended": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Build the counters and the queue."""
        m = Module()
        m.submodules.places = places = Places(self._unit)
        m.submodules.end = end = PipelineEnd(self._payload, latency_cycles=1)
        wiring.connect(m, end.output, wiring.flipped(self.words))
        user = Signal(self.user.shape(), reset_less=True)
        with m.If(self.begin):
            m.d.sync += user.eq(self.user)
        m.d.comb += [
            Value.cast(places.region).eq(Value.cast(self.region)),
            places.begin.eq(self.begin),
            self.read.eq(places.active & end.room),
            places.advance.eq(self.read),
            end.taken.eq(self.read),
            self.address.eq(places.address),
            self.ended.eq(self.read & places.last),
            Value.cast(end.results.payload.numbers).eq(Value.cast(self.data)),
            end.results.payload.user.eq(delay(m, user, 1, name="user")),
            end.results.payload.row_end.eq(delay(m, places.row_end, 1, name="row_end")),
            end.results.payload.last.eq(delay(m, places.last, 1, name="last")),
            end.results.valid.eq(delay(m, self.read, 1, name="valid", reset_less=False)),
        ]
        return m
