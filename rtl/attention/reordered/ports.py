"""The reordered attention unit between AXI4-Stream ports."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, ClockDomain, Const, Module, Mux, Value
from amaranth.lib.wiring import In, Out

from accel.numerics import FixedPoint
from accel.reordered_unit import ReorderedUnit
from rtl.attention.reordered.core import ReorderedAttention
from rtl.axi import PortWrapper

__all__ = ["JOB_FIELDS", "ReorderedPorts"]

JOB_FIELDS = {"queries": (0, 16), "keys": (16, 16), "offset": (32, 16), "causal": (48, 1)}
"""First bit and width of each setting in the 64 bits of ``s_axis_job_tdata``; the others are ignored."""


def _number_bytes(element: FixedPoint) -> int:
    return -(-element.width_bits // 8)


class ReorderedPorts(PortWrapper):
    """The unit behind AXI4-Stream ports (Arm IHI 0051) without ``tkeep``: every beat is full.

    Each number takes a whole number of bytes of ``tdata``, the first the lowest. On input, bits above the format's
    width are ignored; on output they repeat the sign, or are 0 if the format has none. ``tlast`` ends the tensor of a
    job.

    Parameters
    ----------
    core : ReorderedAttention
        The unit.

    Members
    -------
    aclk, aresetn : In(1)
        Clock; reset, active low and synchronous.
    s_axis_job_*, s_axis_q_*, s_axis_k_*, s_axis_v_*, m_axis_*
        The streams.
    (status) : Out
        The status outputs of ``core``.
    """

    def __init__(self, core: ReorderedAttention) -> None:
        unit: ReorderedUnit = core.unit
        fields = ", ".join(f"{name} from bit {at}" for name, (at, _) in JOB_FIELDS.items())
        ports: dict[str, tuple[Any, str]] = {
            "aclk": (In(1), "clock, rising edge"),
            "aresetn": (In(1), "reset, active low, synchronous to aclk"),
            "s_axis_job_tdata": (In(64), f"settings of a head: {fields}; the other bits are ignored"),
            "s_axis_job_tvalid": (In(1), "settings are offered"),
            "s_axis_job_tready": (Out(1), "they are accepted in this cycle if offered"),
        }
        self._inputs = {
            "s_axis_q": ("queries", unit.query_format),
            "s_axis_k": ("keys", unit.key_format),
            "s_axis_v": ("values", unit.value_format),
        }
        for port, (name, element) in {**self._inputs, "m_axis": ("outputs", unit.output_format)}.items():
            forward, backward = (Out, In) if port == "m_axis" else (In, Out)
            size = 8 * _number_bytes(element)
            spare = "extended to whole bytes" if port == "m_axis" else "bits above its width are ignored"
            text = f"{unit.block} number(s) of {element}, each in {size} bits, the first lowest; {spare}"
            ports |= {
                f"{port}_tdata": (forward(unit.block * size), f"{name}: {text}"),
                f"{port}_tlast": (forward(1), f"last beat of the {name} of a job"),
                f"{port}_tvalid": (forward(1), "a beat is offered"),
                f"{port}_tready": (backward(1), "the beat moves in this cycle if offered"),
            }
        super().__init__(core, ports)

    def elaborate(self, platform: Any) -> Any:
        """Build the core in a domain clocked by ``aclk``."""
        m = Module()
        domain = ClockDomain("sync", local=True)
        m.domains += domain
        core: Any = self.core
        m.submodules.core = core
        m.d.comb += [domain.clk.eq(self.aclk), domain.rst.eq(~self.aresetn)]
        m.d.comb += [getattr(self, name).eq(getattr(core, name)) for name in core.status]
        self._jobs(m, core)
        for port, (name, element) in self._inputs.items():
            inner, size, given = getattr(core, name), 8 * _number_bytes(element), getattr(self, f"{port}_tdata")
            for lane in range(core.unit.block):
                code = given[lane * size : lane * size + element.width_bits]
                m.d.comb += inner.payload.numbers[lane].eq(code)
            m.d.comb += [
                inner.payload.last.eq(getattr(self, f"{port}_tlast")),
                inner.valid.eq(getattr(self, f"{port}_tvalid")),
                getattr(self, f"{port}_tready").eq(inner.ready),
            ]
        target = core.unit.output_format
        lanes = []
        for lane in range(core.unit.block):
            code = Value.cast(core.outputs.payload.numbers[lane])
            top = code[-1] if target.signed else Const(0, 1)
            lanes.append(Cat(code, top.replicate(8 * _number_bytes(target) - target.width_bits)))
        m.d.comb += [
            self.m_axis_tdata.eq(Cat(lanes)),
            self.m_axis_tlast.eq(core.outputs.payload.last),
            self.m_axis_tvalid.eq(core.outputs.valid),
            core.outputs.ready.eq(self.m_axis_tready),
        ]
        return m

    def _jobs(self, m: Any, core: Any) -> None:
        """Connect the settings; where the core has no bits for a length or an offset, the job has no queries."""
        parts = {name: self.s_axis_job_tdata[at : at + width] for name, (at, width) in JOB_FIELDS.items()}
        job = {name: Value.cast(core.jobs.payload[name]) for name in JOB_FIELDS}
        beyond = Cat(part[len(job[name]) :] for name, part in parts.items()).any()
        m.d.comb += [job[name].eq(part[: len(job[name])]) for name, part in parts.items() if name != "queries"]
        m.d.comb += [
            job["queries"].eq(Mux(beyond, 0, parts["queries"][: len(job["queries"])])),
            core.jobs.valid.eq(self.s_axis_job_tvalid),
            self.s_axis_job_tready.eq(core.jobs.ready),
        ]
