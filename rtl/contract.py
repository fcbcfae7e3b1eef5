"""What a block promises, as plain data, and the base of all blocks with one stream in and one stream out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from accel.numerics import FixedPoint
from rtl.stream import Beat

__all__ = ["Contract", "StreamUnit"]


@dataclass(frozen=True, kw_only=True)
class Contract:
    """What a user of a block needs to know; the sidecar of the emitted Verilog shows it.

    Parameters
    ----------
    unit, family : str
        Name of the block, and of the group of blocks that do the same job.
    summary : tuple of str
        What it does, in a few lines.
    parameters, derived : mapping
        What was chosen, and the widths that follow, as plain data.
    input_format, output_format : FixedPoint
        Number formats of the streams.
    latency_cycles, interval_cycles : int
        As the block defines them.
    latency_span : str
        From which input to which output the latency is counted.
    max_error : float
        Bound on the distance of any output from the exact function.
    actions : mapping of str to str
        What the action counters count; empty if the block has none.
    """

    unit: str
    family: str
    summary: tuple[str, ...]
    parameters: Mapping[str, Any]
    derived: Mapping[str, Any]
    input_format: FixedPoint
    output_format: FixedPoint
    latency_cycles: int
    interval_cycles: int
    latency_span: str
    max_error: float
    actions: Mapping[str, str]


class StreamUnit(wiring.Component):
    """A block with one stream of beats in, one out, and status outputs: what wrappers and the emitter can handle.

    Parameters
    ----------
    source, sink : str
        Names of the stream in and the stream out.
    source_beat, sink_beat : Beat
        What they carry.
    status : mapping of str to (int, str)
        Width and meaning of each further output.

    Members
    -------
    (source) : In(source_beat.signature)
        Stream in.
    (sink) : Out(sink_beat.signature)
        Stream out.
    (status) : Out(width)
        Each status output.
    """

    def __init__(
        self, *, source: str, source_beat: Beat, sink: str, sink_beat: Beat, status: Mapping[str, tuple[int, str]]
    ) -> None:
        self._source, self._source_beat = source, source_beat
        self._sink, self._sink_beat = sink, sink_beat
        self._status = dict(status)
        super().__init__(
            {
                source: In(source_beat.signature),
                sink: Out(sink_beat.signature),
                **{name: Out(width) for name, (width, _) in status.items()},
            }
        )

    @property
    def source(self) -> str:
        """Name of the stream in."""
        return self._source

    @property
    def source_beat(self) -> Beat:
        """What the stream in carries."""
        return self._source_beat

    @property
    def sink(self) -> str:
        """Name of the stream out."""
        return self._sink

    @property
    def sink_beat(self) -> Beat:
        """What the stream out carries."""
        return self._sink_beat

    @property
    def status(self) -> Mapping[str, tuple[int, str]]:
        """Width and meaning of each status output."""
        return dict(self._status)

    @property
    def contract(self) -> Contract:
        """What the block promises."""
        raise NotImplementedError
