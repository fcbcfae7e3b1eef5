"""What stands between blocks: beats of several lanes, delays, and a queue in block memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from amaranth import Module, Mux, Shape, Signal, Value, unsigned
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from accel.errors import InputError
from accel.numerics import FixedPoint

__all__ = ["Beat", "MemoryFifo", "delay", "element_shape", "flow"]


def element_shape(element: FixedPoint) -> Shape:
    """Return the hardware shape of a code of ``element``."""
    return Shape(element.width_bits, element.signed)


def flow(shape: Any) -> stream.Signature:
    """Return the signature of a stream that never stalls: what is valid is taken."""
    return stream.Signature(shape, always_ready=True)


@dataclass(frozen=True, kw_only=True)
class Beat:
    """What one stream transfer carries: several lanes of one number, which lanes count, and whether the row ends.

    Parameters
    ----------
    field : str
        Name of the number, for example ``score``.
    element : FixedPoint
        Format of the number.
    lanes : int
        Numbers in a beat.
    """

    field: str
    element: FixedPoint
    lanes: int

    @property
    def layout(self) -> data.StructLayout:
        """Return the payload: ``field`` (an array of lanes), ``keep`` (a bit for each lane) and ``last``."""
        return data.StructLayout(
            {self.field: data.ArrayLayout(element_shape(self.element), self.lanes), "keep": self.lanes, "last": 1}
        )

    @property
    def signature(self) -> stream.Signature:
        """Return the signature of a stream of such beats."""
        return stream.Signature(self.layout)


def delay(m: Any, value: Any, cycles: int, *, name: str, reset_less: bool = True) -> Any:
    """Return ``value`` as it was ``cycles`` clock cycles ago; registers are called ``name_1``, ``name_2`` and so on.

    Data needs no reset where a valid bit travels with it; valid bits must be delayed with ``reset_less=False``.
    """
    value = Value.cast(value)
    for stage in range(1, cycles + 1):
        register = Signal(value.shape(), name=f"{name}_{stage}", reset_less=reset_less)
        m.d.sync += register.eq(value)
        value = register
    return value


class MemoryFifo(wiring.Component):
    """First in, first out queue in a synchronous-read memory with a registered output: block RAM at full clock speed.

    A payload accepted in cycle c stands at the output in cycle c + 3 (``latency_cycles``) if nothing is before it,
    else one cycle after the one before it was taken: one payload a cycle goes in and comes out. ``depth`` payloads
    always fit; the two output registers hold up to two more.

    Parameters
    ----------
    shape : ShapeLike
        Of the payload.
    depth : int
        Words of memory, at least 2.

    Members
    -------
    i : In(stream.Signature(shape))
        Payloads in; ready unless the memory is full.
    o : Out(stream.Signature(shape))
        Payloads out, from a register.

    Raises
    ------
    InputError
        ``depth`` is below 2.
    """

    latency_cycles = 3

    def __init__(self, shape: Any, *, depth: int) -> None:
        if depth < 2:
            raise InputError(f"depth must be at least 2, not {depth}", hint="use 2", field=("depth",))
        self._width = Shape.cast(shape).width
        self._depth = depth
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    @property
    def depth(self) -> int:
        """Words of memory."""
        return self._depth

    def elaborate(self, platform: Any) -> Any:
        """Build a memory whose read port and output register form a two-stage pipeline that moves when it can."""
        m = Module()
        m.submodules.storage = storage = memory.Memory(shape=unsigned(self._width), depth=self._depth, init=[])
        writer = storage.write_port()
        reader = storage.read_port()
        write_address = Signal(range(self._depth))
        read_address = Signal(range(self._depth))
        # Words written in earlier cycles only: a word is never read in the cycle that writes it.
        level = Signal(range(self._depth + 1))
        fetched = Signal()

        write = Signal()
        fetch = Signal()
        move = Signal()
        m.d.comb += [
            self.i.ready.eq(level != self._depth),
            write.eq(self.i.valid & self.i.ready),
            writer.addr.eq(write_address),
            writer.data.eq(self.i.payload),
            writer.en.eq(write),
            move.eq(fetched & (~self.o.valid | self.o.ready)),
            fetch.eq((level != 0) & (~fetched | move)),
            reader.addr.eq(read_address),
            reader.en.eq(fetch),
        ]
        with m.If(write):
            m.d.sync += write_address.eq(self._next(write_address))
        with m.If(fetch):
            m.d.sync += [read_address.eq(self._next(read_address)), fetched.eq(1)]
        with m.Elif(move):
            m.d.sync += fetched.eq(0)
        with m.If(write & ~fetch):
            m.d.sync += level.eq((level + 1)[: len(level)])
        with m.Elif(fetch & ~write):
            m.d.sync += level.eq((level - 1)[: len(level)])
        output = Signal(self._width, reset_less=True)
        with m.If(move):
            m.d.sync += [output.eq(reader.data), self.o.valid.eq(1)]
        with m.Elif(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        m.d.comb += Value.cast(self.o.payload).eq(output)
        return m

    def _next(self, address: Any) -> Any:
        return Mux(address == self._depth - 1, 0, (address + 1)[: len(address)])
