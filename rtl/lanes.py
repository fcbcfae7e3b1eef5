"""Blocks that apply one function to every number of a stream: pipelines of fixed latency and a queue behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amaranth import Module, Mux, Signal, Value
from amaranth.lib import data

from rtl.contract import StreamUnit
from rtl.elastic import PipelineEnd
from rtl.stream import Beat, delay

__all__ = ["LaneBlock"]


class LaneBlock(StreamUnit):
    """A function of every number of a stream, several lanes wide.

    A beat is accepted every ``lanes_per_pipeline`` cycles as long as the output is taken; its results leave
    ``latency_cycles`` later. The pipelines never stall: a beat enters only if the output queue will have room for it,
    so there is no combinational path from the output's ready to the input's, and back-pressure loses nothing. ``keep``
    and ``last`` pass; lanes that are not kept give 0.

    Parameters
    ----------
    unit : description
        With ``lanes``, ``input_format`` and ``output_format``.
    make_pipeline : callable
        Returns a new component with flows ``argument`` and ``result``.
    pipeline_cycles : int
        From an argument to its result.
    lanes_per_pipeline : int
        Lanes that share a pipeline, one after the other; divides ``unit.lanes``.

    Members
    -------
    inputs : In(stream of beats: number, keep, last)
        Numbers; lanes whose ``keep`` is low hold none.
    results : Out(stream of beats: result, keep, last)
        Results, beat for beat and lane for lane.
    """

    def __init__(
        self, unit: Any, *, make_pipeline: Callable[[], Any], pipeline_cycles: int, lanes_per_pipeline: int = 1
    ) -> None:
        self._make_pipeline, self._pipeline_cycles, self._shared = make_pipeline, pipeline_cycles, lanes_per_pipeline
        super().__init__(
            source="inputs",
            source_beat=Beat(field="number", element=unit.input_format, lanes=unit.lanes),
            sink="results",
            sink_beat=Beat(field="result", element=unit.output_format, lanes=unit.lanes),
            status={},
        )

    @property
    def latency_cycles(self) -> int:
        """Cycles from accepting a beat to its results, the output being idle and ready."""
        return self._pipeline_cycles + self._shared

    @property
    def interval_cycles(self) -> int:
        """Cycles between accepted beats, the output being ready."""
        return self._shared

    def elaborate(self, platform: Any) -> Any:
        """Build the pipelines and the queue behind them."""
        m = Module()
        cycles = self.latency_cycles - 1
        beat, lanes = self.inputs.payload, self.sink_beat.lanes
        pipelines = [self._make_pipeline() for _ in range(lanes // self._shared)]
        # The queue holds results as narrow as they are; the bits that only repeat the sign come behind it.
        narrow = data.ArrayLayout(Value.cast(pipelines[0].result.payload).shape(), lanes)
        layout = data.StructLayout({"result": narrow, "keep": lanes, "last": 1})
        m.submodules.end = end = PipelineEnd(layout, latency_cycles=cycles)
        self._leave(m, end.output)
        accept = Signal()
        m.d.comb += [
            accept.eq(self.inputs.valid & self.inputs.ready),
            end.taken.eq(accept),
            end.results.valid.eq(delay(m, accept, cycles, name="valid", reset_less=False)),
            end.results.payload.last.eq(delay(m, beat.last, cycles, name="last")),
        ]
        keep = delay(m, beat.keep, cycles, name="keep")
        m.d.comb += end.results.payload.keep.eq(keep)
        rounds, given = self._rounds(m, accept, end.room)
        for index, pipeline in enumerate(pipelines):
            m.submodules[f"lane_{index}"] = pipeline
            m.d.comb += pipeline.argument.payload.eq(rounds[index])
            m.d.comb += pipeline.argument.valid.eq(given)
            result = Value.cast(pipeline.result.payload)
            for turn in reversed(range(self._shared)):
                lane = turn * len(pipelines) + index
                m.d.comb += end.results.payload.result[lane].eq(Mux(keep[lane], result, 0))
                result = delay(m, result, 1, name=f"result_{lane}") if turn else result
        return m

    def _leave(self, m: Any, queue: Any) -> None:
        """Connect the queue to the output, lane by lane."""
        shown, beat = self.results.payload, queue.payload
        m.d.comb += [
            self.results.valid.eq(queue.valid),
            queue.ready.eq(self.results.ready),
            shown.keep.eq(beat.keep),
            shown.last.eq(beat.last),
            *(shown.result[lane].eq(beat.result[lane]) for lane in range(self.sink_beat.lanes)),
        ]

    def _rounds(self, m: Any, accept: Any, room: Any) -> tuple[list[Any], Any]:
        """Set the input's ready; return what each pipeline takes, the first lanes of a beat at once, and when."""
        numbers = [Value.cast(number) for number in self.inputs.payload.number]
        if self._shared == 1:
            m.d.comb += self.inputs.ready.eq(room)
            return numbers, accept
        pipelines = len(numbers) // self._shared
        turn = Signal(range(self._shared))
        m.d.comb += self.inputs.ready.eq(room & (turn == 0))
        with m.If(accept | (turn != 0)):
            m.d.sync += turn.eq(Mux(turn == self._shared - 1, 0, (turn + 1)[: len(turn)]))
        # The lanes that wait move up, so that the next ones always stand in the same place.
        waiting: dict[int, Any] = {}
        for at in reversed(range(pipelines, len(numbers))):
            waiting[at] = Signal(numbers[at].shape(), name=f"waiting_{at}", reset_less=True)
            behind = waiting.get(at + pipelines, waiting[at])
            m.d.sync += waiting[at].eq(Mux(accept, numbers[at], behind))
        chosen = [Mux(turn == 0, numbers[index], waiting[pipelines + index]) for index in range(pipelines)]
        return chosen, accept | (turn != 0)
