"""The end of a pipeline that never stalls: a queue, and the count of places that lets in only what it can take."""

from __future__ import annotations

from typing import Any

from amaranth import Module, Shape, Signal, Value
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.stream import flow

__all__ = ["PipelineEnd"]


class PipelineEnd(wiring.Component):
    """Collects the results of a fixed-latency pipeline and says when the next entry may start.

    ``latency_cycles`` of the pipeline, from ``taken`` to ``results.valid``, plus one place keep one result a cycle
    moving; with these places the queue never overflows. No path leads from the output's ready to ``room``. Latency 1
    cycle from ``results`` to the output, interval 1.

    Parameters
    ----------
    shape : ShapeLike
        Of a result.
    latency_cycles : int
        Of the pipeline in front.

    Members
    -------
    room : Out(1)
        An entry may start in this cycle.
    taken : In(1)
        One does.
    results : In(flow(shape))
        Results, ``latency_cycles`` after their entries.
    output : Out(stream.Signature(shape))
        The same, with back-pressure.
    """

    def __init__(self, shape: Any, *, latency_cycles: int) -> None:
        self._width = Shape.cast(shape).width
        # One cycle in the queue, and one until a place that was left counts.
        self._places = latency_cycles + 2
        super().__init__(
            {"room": Out(1), "taken": In(1), "results": In(flow(shape)), "output": Out(stream.Signature(shape))}
        )

    def elaborate(self, platform: Any) -> Any:
        """Build the queue and the count."""
        m = Module()
        m.submodules.queue = queue = fifo.SyncFIFO(width=self._width, depth=self._places)
        held = Signal(range(self._places + 1))
        left = Signal()
        m.d.comb += [
            queue.w_data.eq(self.results.payload),
            queue.w_en.eq(self.results.valid),
            Value.cast(self.output.payload).eq(queue.r_data),
            self.output.valid.eq(queue.r_rdy),
            queue.r_en.eq(self.output.ready),
            left.eq(self.output.valid & self.output.ready),
            self.room.eq(held != self._places),
        ]
        with m.If(self.taken & ~left):
            m.d.sync += held.eq((held + 1)[: len(held)])
        with m.Elif(left & ~self.taken):
            m.d.sync += held.eq((held - 1)[: len(held)])
        return m
