"""The on-chip copy of K, or of V: filled from a stream, read round and round, one block a cycle."""

from __future__ import annotations

from typing import Any

from amaranth import Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from accel.numerics import FixedPoint
from accel.reordered_unit import ReorderedUnit
from rtl.attention.reordered.layouts import block_layout, operand_signature

__all__ = ["OperandBuffer"]


class OperandBuffer(wiring.Component):
    """Holds the rows of one operand for one job, or for two, in a synchronous-read memory with one port each way.

    A job's length is taken when a bank is free; from the next cycle on one beat a cycle is written. ``loaded`` rises in
    the cycle after the last one. Reading is sequential, one block for each ``advance``, from the first block where
    ``restart`` is set; the block stands at ``numbers`` in the next cycle.

    Parameters
    ----------
    unit : ReorderedUnit
        Block, longest job, banks.
    element : FixedPoint
        Of the numbers.
    blocks : int
        Beats of a row.

    Members
    -------
    lengths : In(stream of unsigned)
        Rows of the next job, at least 1.
    beats : In(operand_signature)
        The numbers.
    loaded : Out(1)
        A job is complete that was not claimed.
    claim : In(1)
        Its reader starts.
    release : In(1)
        The oldest claimed job is not read any more after this cycle.
    advance, restart : In(1)
        Read the next block, or the first one of the job.
    numbers : Out(block_layout)
        The block read in the cycle before.
    written : Out(1)
        A block is written.
    misaligned : Out(1)
        A block is written whose ``last`` is not where the job's length says.
    """

    def __init__(self, unit: ReorderedUnit, element: FixedPoint, blocks: int) -> None:
        self._unit, self._element, self._blocks = unit, element, blocks
        super().__init__(
            {
                "lengths": In(stream.Signature(range(unit.max_length + 1))),
                "beats": In(operand_signature(unit, element)),
                "loaded": Out(1),
                "claim": In(1),
                "release": In(1),
                "advance": In(1),
                "restart": In(1),
                "numbers": Out(block_layout(unit, element)),
                "written": Out(1),
                "misaligned": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Build the memory, the writer, the reader, and the counts of banks."""
        m = Module()
        unit = self._unit
        size = unit.max_length * self._blocks
        width = unit.block * self._element.width_bits
        depth = max(2, unit.banks * size)
        m.submodules.storage = storage = memory.Memory(shape=unsigned(width), depth=depth, init=[])
        writer, reader = storage.write_port(), storage.read_port()

        taken, finished = self._write(m, writer, size, depth)
        base = Const(0, range(depth))
        if unit.banks == 2:
            read_bank = Signal()
            with m.If(self.release):
                m.d.sync += read_bank.eq(~read_bank)
            base = Mux(read_bank, Const(size, range(depth)), 0)
        following = Signal(range(depth))
        m.d.comb += [
            reader.addr.eq(Mux(self.restart, base, following)),
            reader.en.eq(self.advance),
            Value.cast(self.numbers).eq(reader.data),
        ]
        with m.If(self.advance):
            m.d.sync += following.eq((reader.addr + 1)[: len(following)])

        held, complete = Signal(range(unit.banks + 1)), Signal(range(unit.banks + 1))
        self._count(m, held, taken, self.release)
        self._count(m, complete, finished, self.claim)
        m.d.comb += [self._free.eq(held != unit.banks), self.loaded.eq(complete != 0)]
        return m

    @staticmethod
    def _count(m: Any, count: Any, up: Any, down: Any) -> None:
        with m.If(up & ~down):
            m.d.sync += count.eq((count + 1)[: len(count)])
        with m.Elif(down & ~up):
            m.d.sync += count.eq((count - 1)[: len(count)])

    def _write(self, m: Any, writer: Any, size: int, depth: int) -> tuple[Any, Any]:
        """Build the writer; return whether a job is taken, and whether its last block is written, in this cycle."""
        unit = self._unit
        self._free = Signal(name="free")
        active, taken, write, finished = Signal(), Signal(), Signal(), Signal()
        address = Signal(range(depth))
        rows = Signal(range(unit.max_length + 1), reset_less=True)
        m.d.comb += [
            self.lengths.ready.eq(~active & self._free),
            taken.eq(self.lengths.valid & self.lengths.ready),
            self.beats.ready.eq(active),
            write.eq(self.beats.valid & active),
            writer.addr.eq(address),
            writer.data.eq(Value.cast(self.beats.payload.numbers)),
            writer.en.eq(write),
            self.written.eq(write),
            self.misaligned.eq(write & (self.beats.payload.last != finished)),
        ]
        row_ends = Const(1, 1)
        if self._blocks > 1:
            block = Signal(range(self._blocks))
            row_ends = Signal(name="row_ends")
            m.d.comb += row_ends.eq(block == self._blocks - 1)
            with m.If(write):
                m.d.sync += block.eq(Mux(row_ends, 0, (block + 1)[: len(block)]))
        m.d.comb += finished.eq(write & row_ends & (rows == 1))
        start = Const(0, range(depth))
        if unit.banks == 2:
            bank = Signal(name="write_bank")
            with m.If(taken):
                m.d.sync += bank.eq(~bank)
            start = Mux(bank, Const(size, range(depth)), 0)
        with m.If(taken):
            m.d.sync += [active.eq(1), rows.eq(self.lengths.payload), address.eq(start)]
        with m.Elif(write):
            m.d.sync += [address.eq((address + 1)[: len(address)]), active.eq(~finished)]
            with m.If(row_ends):
                m.d.sync += rows.eq((rows - 1)[: len(rows)])
        return taken, finished
