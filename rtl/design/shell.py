"""The spatial array as a complete design: AXI4-Stream data, AXI4-Lite registers, an interrupt."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from amaranth import ClockDomain, DomainRenamer, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from accel.attention_array import ACTIONS, AttentionArray
from accel.design_registers import Register, array_registers
from rtl.attention.array.ports import ArrayWrapper, AttentionArrayPorts
from rtl.contract import Contract
from rtl.design.registers import RegisterPort, axi_lite_ports

__all__ = ["ArrayDesign"]

_STREAMS = ("s_axis_", "m_axis_")


@dataclass(frozen=True, kw_only=True)
class _Silent:
    """What a wrapper asks of its core, for a core whose status stands in registers and not at ports."""

    contract: Contract
    status: dict[str, tuple[int, str]] = dataclasses.field(default_factory=dict)


class ArrayDesign(ArrayWrapper):
    """An attention array that a host starts by registers and feeds by streams.

    START takes the job from the registers, in one to three cycles; the streams carry the job's beats in the order of
    ``accel.attention_array``, before or after START. CYCLES counts from START to the last beat of AV.

    Parameters
    ----------
    unit : AttentionArray
        Its parameters.
    counters : bool
        Whether it counts actions.
    cells : str, optional
        As ``AttentionArrayPorts``.

    Members
    -------
    aclk, aresetn : In(1)
        Clock; reset, active low and synchronous.
    s_axil_* : AXI4-Lite
        Registers, as ``registers`` says.
    s_axis_(q, k, v)_*, m_axis_*
        As ``AttentionArrayPorts``.
    irq : Out(1)
        High while DONE or an error is set and INTERRUPT_ENABLE says so.
    """

    def __init__(self, unit: AttentionArray, *, counters: bool = True, cells: str | None = None) -> None:
        self._unit, self._counters = unit, counters
        self._array = AttentionArrayPorts(unit, counters=counters, cells=cells)
        self._port = RegisterPort(array_registers(unit, counters=counters))
        members, meanings = self._array.signature.members, self._array.meanings
        ports: dict[str, tuple[Any, str]] = {
            "aclk": (In(1), meanings["aclk"]),
            "aresetn": (In(1), meanings["aresetn"]),
            **{f"s_axil_{name}": port for name, port in axi_lite_ports(self._port.address_width).items()},
            **{name: (members[name], text) for name, text in meanings.items() if name.startswith(_STREAMS)},
            "irq": (Out(1), "DONE or an error is set, and INTERRUPT_ENABLE"),
        }
        contract = dataclasses.replace(self._array.contract, unit="attention-array-design")
        core: Any = _Silent(contract=contract)
        super().__init__(core, ports)

    @property
    def registers(self) -> tuple[Register, ...]:
        """The register map."""
        return self._port.registers

    def elaborate(self, platform: Any) -> Any:
        """Connect array and registers in a domain clocked by ``aclk``."""
        m = Module()
        domain = ClockDomain("host", local=True)
        m.domains += domain
        m.submodules.array = array = self._array
        port = self._port
        m.submodules.registers = DomainRenamer("host")(port)
        m.d.comb += [domain.clk.eq(self.aclk), domain.rst.eq(~self.aresetn)]
        m.d.comb += [array.aclk.eq(self.aclk), array.aresetn.eq(self.aresetn)]
        for name in self.meanings:
            if name.startswith(_STREAMS):
                self._pass(m, name, getattr(array, name))
            elif name.startswith("s_axil_"):
                self._pass(m, name, getattr(port, name.removeprefix("s_axil_")))
        self._jobs(m, array, port)
        self._counts(m, array, port)
        return m

    def _pass(self, m: Any, name: str, inner: Any) -> None:
        outer = getattr(self, name)
        m.d.comb += inner.eq(outer) if self.signature.members[name].flow == In else outer.eq(inner)

    def _jobs(self, m: Any, array: Any, port: Any) -> None:
        """Take up a job at START, and say when it is done."""
        limit = self._unit.max_length
        start, clear = port.act_CONTROL[0], port.act_CONTROL[1]
        asking, running, was_busy, done, wrong, ignored = (Signal() for _ in range(6))
        bad = Signal()
        queries, keys, heads = port.held_QUERIES, port.held_KEYS, port.held_HEADS
        m.d.comb += [
            bad.eq(~queries.any() | ~keys.any() | ~heads.any() | (queries > limit) | (keys > limit)),
            array.job_queries.eq(queries),
            array.job_keys.eq(keys),
            array.job_heads.eq(heads),
            array.job_causal.eq(port.held_FLAGS[0]),
            array.job_valid.eq(asking),
            port.value_STATUS.eq(running | (done << 1) | (wrong << 2) | (ignored << 3)),
            self.irq.eq(port.held_INTERRUPT_ENABLE[0] & (done | wrong | ignored)),
        ]
        m.d.host += was_busy.eq(array.busy)
        with m.If(asking & array.job_ready):
            m.d.host += asking.eq(0)
        with m.If(was_busy & ~array.busy):
            m.d.host += [running.eq(0), done.eq(1)]
        with m.If(start & running):
            m.d.host += ignored.eq(1)
        with m.Elif(start):
            m.d.host += [asking.eq(~bad), running.eq(~bad), done.eq(0), wrong.eq(bad), ignored.eq(0)]
        with m.Elif(clear):
            m.d.host += [done.eq(Mux(was_busy & ~array.busy, 1, 0)), wrong.eq(0), ignored.eq(0)]
        cycles = Signal(64)
        with m.If(start & ~running):
            m.d.host += cycles.eq(0)
        with m.Elif(running & ~(was_busy & ~array.busy)):
            m.d.host += cycles.eq(cycles + 1)
        self._wide(m, port, "CYCLES", cycles)

    def _counts(self, m: Any, array: Any, port: Any) -> None:
        m.d.comb += port.value_WAIT_CYCLES.eq(array.wait_cycles)
        if self._counters:
            for action in ACTIONS:
                self._wide(m, port, f"COUNT_{action.upper()}", getattr(array, action))

    @staticmethod
    def _wide(m: Any, port: Any, name: str, value: Any) -> None:
        """Show a wide number in two words; the high one is that of the moment in which the low one was read."""
        high = Signal(32, name=f"high_{name}")
        with m.If(getattr(port, f"read_{name}_LOW")):
            m.d.host += high.eq(value[32:])
        m.d.comb += [getattr(port, f"value_{name}_LOW").eq(value[:32]), getattr(port, f"value_{name}_HIGH").eq(high)]
