"""Wrappers that give a block flat, plain port names: AXI4-Stream, and one port for each part of a beat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amaranth import Cat, ClockDomain, Const, Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.contract import Contract, StreamUnit
from rtl.stream import Beat, element_shape

__all__ = ["AxisWrapper", "FlatWrapper", "PortWrapper", "lane_bytes"]


def lane_bytes(beat: Beat) -> int:
    """Return the whole bytes that one lane takes in ``tdata``."""
    return -(-beat.element.width_bits // 8)


class PortWrapper(wiring.Component):
    """A block behind flat ports, each with a meaning."""

    def __init__(self, core: StreamUnit, ports: Mapping[str, tuple[Any, str]]) -> None:
        self._core = core
        status = {name: (Out(width), text) for name, (width, text) in core.status.items()}
        self._meanings = {name: text for name, (_, text) in {**ports, **status}.items()}
        super().__init__({name: member for name, (member, _) in {**ports, **status}.items()})

    @property
    def core(self) -> StreamUnit:
        """The block inside."""
        return self._core

    @property
    def status(self) -> Mapping[str, tuple[int, str]]:
        """Width and meaning of each status output."""
        return self._core.status

    @property
    def contract(self) -> Contract:
        """What the block inside promises; the wrapper adds no cycle."""
        return self._core.contract

    @property
    def meanings(self) -> Mapping[str, str]:
        """What each port is."""
        return dict(self._meanings)

    def _inside(self, clock: Any, reset: Any) -> tuple[Any, Any, Any]:
        """Return a module that holds the core in a clock domain of these ports, and the core's streams."""
        m = Module()
        domain = ClockDomain("sync", local=True)
        domain.clk = clock
        m.domains += domain
        m.d.comb += domain.rst.eq(reset)
        m.submodules.core = core = self._core
        m.d.comb += [getattr(self, name).eq(getattr(core, name)) for name in core.status]
        return m, getattr(core, core.source), getattr(core, core.sink)


class AxisWrapper(PortWrapper):
    """A block between two AXI4-Stream ports (Arm IHI 0051), to be named in Verilog as its users expect.

    Each lane takes a whole number of bytes of ``tdata``, lane 0 the lowest. On input, bits above the format's width are
    ignored; on output they repeat the sign, or are 0 if the format has none. A lane is present if the ``tkeep`` bit of
    its lowest byte is set; on output all its bytes are kept or none, and the data of a lane that is not kept is 0.

    Parameters
    ----------
    core : StreamUnit
        The block.

    Members
    -------
    aclk, aresetn : In(1)
        Clock; reset, active low and synchronous.
    s_axis_tdata, s_axis_tkeep, s_axis_tlast, s_axis_tvalid, s_axis_tready
        Stream in.
    m_axis_tdata, m_axis_tkeep, m_axis_tlast, m_axis_tvalid, m_axis_tready
        Stream out.
    (status) : Out
        The status outputs of ``core``.
    """

    def __init__(self, core: StreamUnit) -> None:
        source, sink = core.source_beat, core.sink_beat
        read, written = source.lanes * lane_bytes(source), sink.lanes * lane_bytes(sink)
        super().__init__(
            core,
            {
                "aclk": (In(1), "clock, rising edge"),
                "aresetn": (In(1), "reset, active low, synchronous to aclk"),
                "s_axis_tdata": (In(8 * read), self._data(source, "bits above its width are ignored")),
                "s_axis_tkeep": (In(read), f"byte is present; a {source.field} is if its lowest byte is"),
                "s_axis_tlast": (In(1), "last beat of a row"),
                "s_axis_tvalid": (In(1), "a beat is offered"),
                "s_axis_tready": (Out(1), "the beat is accepted in this cycle if offered"),
                "m_axis_tdata": (Out(8 * written), self._data(sink, "extended to whole bytes")),
                "m_axis_tkeep": (Out(written), f"byte is present; those of a {sink.field} all are or none is"),
                "m_axis_tlast": (Out(1), "last beat of a row"),
                "m_axis_tvalid": (Out(1), "a beat is offered"),
                "m_axis_tready": (In(1), "the beat is taken in this cycle if offered"),
            },
        )

    @staticmethod
    def _data(beat: Beat, rest: str) -> str:
        each = 8 * lane_bytes(beat)
        return f"{beat.lanes} {beat.field}(s) of {beat.element}, each in {each} bits, the first lowest; {rest}"

    def elaborate(self, platform: Any) -> Any:
        """Build the core in a domain clocked by ``aclk``."""
        m, source, sink = self._inside(self.aclk, ~self.aresetn)
        read, written = self._core.source_beat, self._core.sink_beat
        step = lane_bytes(read)
        for lane in range(read.lanes):
            start = lane * 8 * step
            code = self.s_axis_tdata[start : start + read.element.width_bits]
            m.d.comb += source.payload[read.field][lane].eq(code)
            m.d.comb += source.payload.keep[lane].eq(self.s_axis_tkeep[lane * step])
        m.d.comb += [
            source.payload.last.eq(self.s_axis_tlast),
            source.valid.eq(self.s_axis_tvalid),
            self.s_axis_tready.eq(source.ready),
        ]

        step = lane_bytes(written)
        spare = 8 * step - written.element.width_bits
        lanes = []
        for lane in range(written.lanes):
            code = sink.payload[written.field][lane]
            top = code[-1] if element_shape(written.element).signed else Const(0, 1)
            lanes.append(Cat(code, top.replicate(spare)))
        m.d.comb += [
            self.m_axis_tdata.eq(Cat(lanes)),
            self.m_axis_tkeep.eq(Cat(bit.replicate(step) for bit in sink.payload.keep)),
            self.m_axis_tlast.eq(sink.payload.last),
            self.m_axis_tvalid.eq(sink.valid),
            sink.ready.eq(self.m_axis_tready),
        ]
        return m


class FlatWrapper(PortWrapper):
    """A block with one plain port for each part of its streams: ``scores_score``, ``scores_keep`` and so on.

    Lanes stand side by side in their port, lane 0 lowest, in exactly the width of their format.

    Parameters
    ----------
    core : StreamUnit
        The block.

    Members
    -------
    clk, rst : In(1)
        Clock; reset, active high and synchronous.
    (stream)_(part) : In or Out
        ``valid``, ``ready``, ``keep``, ``last`` and the numbers of each stream.
    (status) : Out
        The status outputs of ``core``.
    """

    def __init__(self, core: StreamUnit) -> None:
        super().__init__(
            core,
            {
                "clk": (In(1), "clock, rising edge"),
                "rst": (In(1), "reset, active high, synchronous to clk"),
                **self._parts(core.source, core.source_beat, In, Out),
                **self._parts(core.sink, core.sink_beat, Out, In),
            },
        )

    @staticmethod
    def _parts(name: str, beat: Beat, forward: Any, backward: Any) -> dict[str, tuple[Any, str]]:
        width = beat.lanes * beat.element.width_bits
        data = f"{beat.lanes} {beat.field}(s) of {beat.element} side by side, the first lowest"
        return {
            f"{name}_{beat.field}": (forward(width), data),
            f"{name}_keep": (forward(beat.lanes), f"the lane holds a {beat.field}"),
            f"{name}_last": (forward(1), "last beat of a row"),
            f"{name}_valid": (forward(1), "a beat is offered"),
            f"{name}_ready": (backward(1), "the beat moves in this cycle if offered"),
        }

    def elaborate(self, platform: Any) -> Any:
        """Build the core in a domain clocked by ``clk``."""
        m, source, sink = self._inside(self.clk, self.rst)
        core = self._core
        for part in (core.source_beat.field, "keep", "last"):
            m.d.comb += Value.cast(source.payload[part]).eq(getattr(self, f"{core.source}_{part}"))
        for part in (core.sink_beat.field, "keep", "last"):
            m.d.comb += getattr(self, f"{core.sink}_{part}").eq(Value.cast(sink.payload[part]))
        m.d.comb += [
            source.valid.eq(getattr(self, f"{core.source}_valid")),
            getattr(self, f"{core.source}_ready").eq(source.ready),
            getattr(self, f"{core.sink}_valid").eq(sink.valid),
            sink.ready.eq(getattr(self, f"{core.sink}_ready")),
        ]
        return m
