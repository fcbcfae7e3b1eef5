"""The array behind flat ports: one AXI4-Stream for each of Q, K, V and AV, and plain ports for the job."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, ClockDomain, Module
from amaranth.lib.wiring import In, Out

from accel.attention_array import AttentionArray
from accel.numerics import FixedPoint
from rtl.attention.array.buffers import job_layout
from rtl.attention.array.core import AttentionArrayCore
from rtl.axi import PortWrapper

__all__ = ["ArrayWrapper", "AttentionArrayPorts"]


def _lane_bits(element: FixedPoint) -> int:
    return 8 * -(-element.width_bits // 8)


class ArrayWrapper(PortWrapper):
    """Anything with flat ports that has an array in it."""

    _unit: AttentionArray

    @property
    def unit(self) -> AttentionArray:
        """Parameters of the array."""
        return self._unit


class AttentionArrayPorts(ArrayWrapper):
    """An ``AttentionArrayCore`` to be named in Verilog as its users expect.

    Each lane of ``tdata`` takes a whole number of bytes, lane 0 the lowest; bits above the width of the format are
    ignored on input and repeat the sign on output. Input streams have neither ``tkeep`` nor ``tlast``: the job says how
    many beats they have.

    Parameters
    ----------
    unit : AttentionArray
        Its parameters.
    counters : bool
        Whether it counts actions.
    cells : str, optional
        As ``Grid``.

    Members
    -------
    aclk, aresetn : In(1)
        Clock; reset, active low and synchronous.
    job_queries, job_keys, job_heads, job_causal, job_valid, job_ready
        Job; taken when both of the last two are high.
    s_axis_(q, k, v)_(tdata, tvalid, tready)
        Streams in.
    m_axis_(tdata, tkeep, tlast, tvalid, tready)
        AV.
    (status) : Out
        The status outputs of the core.
    """

    def __init__(self, unit: AttentionArray, *, counters: bool = True, cells: str | None = None) -> None:
        core: Any = AttentionArrayCore(unit, counters=counters, cells=cells)
        self._unit = unit
        self._inputs = {
            "q": (unit.columns, unit.query_format, "feature of the queries of a tile"),
            "k": (unit.rows, unit.key_format, "feature of the keys of a turn"),
            "v": (unit.rows, unit.value_format, "feature of the values of a turn"),
        }
        ports: dict[str, tuple[Any, str]] = {
            "aclk": (In(1), "clock, rising edge"),
            "aresetn": (In(1), "reset, active low, synchronous to aclk"),
            "job_queries": (In(job_layout(unit)["queries"].width), f"queries P of a head, 1 to {unit.max_length}"),
            "job_keys": (In(job_layout(unit)["keys"].width), f"keys M of a head, 1 to {unit.max_length}"),
            "job_heads": (In(16), "heads, one after the other, at least 1"),
            "job_causal": (In(1), "query p sees keys 0 to p only"),
            "job_valid": (In(1), "a job is offered"),
            "job_ready": (Out(1), "the job is taken in this cycle if offered"),
        }
        for name, (lanes, element, what) in self._inputs.items():
            each = _lane_bits(element)
            text = f"one {what}: {lanes} numbers of {element}, each in {each} bits, the first lowest"
            ports[f"s_axis_{name}_tdata"] = (In(lanes * each), text)
            ports[f"s_axis_{name}_tvalid"] = (In(1), "a beat is offered")
            ports[f"s_axis_{name}_tready"] = (Out(1), "the beat is accepted in this cycle if offered")
        each, lanes = _lane_bits(unit.output_format), unit.columns
        numbers = f"{lanes} numbers of {unit.output_format}, each in {each} bits, the first lowest"
        text = f"one feature of AV of a tile: {numbers}"
        ports |= {
            "m_axis_tdata": (Out(lanes * each), text),
            "m_axis_tkeep": (Out(lanes * each // 8), "byte is present; those of a number all are or none is"),
            "m_axis_tlast": (Out(1), "last beat of a head"),
            "m_axis_tvalid": (Out(1), "a beat is offered"),
            "m_axis_tready": (In(1), "the beat is taken in this cycle if offered"),
        }
        super().__init__(core, ports)

    def elaborate(self, platform: Any) -> Any:
        """Build the core in a domain clocked by ``aclk``."""
        m = Module()
        domain = ClockDomain("sync", local=True)
        m.domains += domain
        core: Any = self._core
        m.submodules.core = core
        m.d.comb += [domain.clk.eq(self.aclk), domain.rst.eq(~self.aresetn)]
        m.d.comb += [getattr(self, name).eq(getattr(core, name)) for name in core.status]
        m.d.comb += [core.job.payload[name].eq(getattr(self, f"job_{name}")) for name in job_layout(self._unit).members]
        m.d.comb += [core.job.valid.eq(self.job_valid), self.job_ready.eq(core.job.ready)]
        for name, (lanes, element, _) in self._inputs.items():
            stream, tdata = getattr(core, name), getattr(self, f"s_axis_{name}_tdata")
            for lane in range(lanes):
                start = lane * _lane_bits(element)
                m.d.comb += stream.payload[lane].eq(tdata[start : start + element.width_bits])
            m.d.comb += stream.valid.eq(getattr(self, f"s_axis_{name}_tvalid"))
            m.d.comb += getattr(self, f"s_axis_{name}_tready").eq(stream.ready)
        each = _lane_bits(self._unit.output_format)
        spare = each - self._unit.output_format.width_bits
        words, keep = [], []
        for lane in range(self._unit.columns):
            code, kept = core.av.payload.av[lane], core.av.payload.keep[lane]
            words.append(Cat(code, code[-1].replicate(spare)) & kept.replicate(each))
            keep.append(kept.replicate(each // 8))
        m.d.comb += [
            self.m_axis_tdata.eq(Cat(*words)),
            self.m_axis_tkeep.eq(Cat(*keep)),
            self.m_axis_tlast.eq(core.av.payload.last),
            self.m_axis_tvalid.eq(core.av.valid),
            core.av.ready.eq(self.m_axis_tready),
        ]
        return m
