"""A register map behind AXI4-Lite (Arm IHI 0022, part B)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from accel.design_registers import Access, Register, address_bits, check_registers

__all__ = ["RegisterPort", "axi_lite_ports"]

OKAY, SLAVE_ERROR = 0, 2


def axi_lite_ports(address_width: int) -> dict[str, tuple[Any, str]]:
    """Return the signals of an AXI4-Lite subordinate of 32 bits, without prefix, with their meanings.

    There is no ``awprot`` and no ``arprot``: all accesses are alike.
    """
    return {
        "awaddr": (In(address_width), "write address, bytes"),
        "awvalid": (In(1), "a write address is offered"),
        "awready": (Out(1), "it is accepted in this cycle if offered"),
        "wdata": (In(32), "write data"),
        "wstrb": (In(4), "bytes that are written"),
        "wvalid": (In(1), "write data are offered"),
        "wready": (Out(1), "they are accepted in this cycle if offered"),
        "bresp": (Out(2), "0, or 2 if the address has no register that can be written"),
        "bvalid": (Out(1), "the answer to a write is offered"),
        "bready": (In(1), "it is taken in this cycle if offered"),
        "araddr": (In(address_width), "read address, bytes"),
        "arvalid": (In(1), "a read address is offered"),
        "arready": (Out(1), "it is accepted in this cycle if offered"),
        "rdata": (Out(32), "read data"),
        "rresp": (Out(2), "0, or 2 if the address has no register that can be read"),
        "rvalid": (Out(1), "read data are offered"),
        "rready": (In(1), "they are taken in this cycle if offered"),
    }


class RegisterPort(wiring.Component):
    """The subordinate: one write and one read at a time, no combinational path from an input to an output.

    A write is answered two cycles after address and data are there, a read two cycles after its address. ``wstrb``
    holds for registers that can be read and written; a register that only acts (``wo``) acts on the bytes written.

    Parameters
    ----------
    registers : sequence of Register
        The map.

    Members
    -------
    aw*, w*, b*, ar*, r* : AXI4-Lite
        Of ``address_width`` address bits and 32 data bits.
    value_NAME : In(width)
        What a register without a constant that can be only read reads.
    held_NAME : Out(width)
        What was written to a register that can be read and written; 0 after reset.
    act_NAME : Out(width)
        For one cycle, the bits of a register that can be only written to which 1 was written.
    read_NAME : Out(1)
        For one cycle, that ``value_NAME`` was taken: a counter may latch its other half.
    """

    def __init__(self, registers: Sequence[Register]) -> None:
        check_registers(registers)
        self._registers = tuple(registers)
        self._address_width = address_bits(registers)
        members: dict[str, Any] = {name: port for name, (port, _) in axi_lite_ports(self._address_width).items()}
        for each in registers:
            if each.access is Access.READ_WRITE:
                members[f"held_{each.name}"] = Out(each.width_bits)
            elif each.access is Access.WRITE_ONLY:
                members[f"act_{each.name}"] = Out(each.width_bits)
            elif each.constant is None:
                members[f"value_{each.name}"] = In(each.width_bits)
                members[f"read_{each.name}"] = Out(1)
        super().__init__(members)

    @property
    def registers(self) -> tuple[Register, ...]:
        """The map."""
        return self._registers

    @property
    def address_width(self) -> int:
        """Address bits."""
        return self._address_width

    def elaborate(self, platform: Any) -> Any:
        """Build the two channels."""
        m = Module()
        self._writes(m)
        self._reads(m)
        return m

    def _writes(self, m: Any) -> None:
        addressed, loaded = Signal(), Signal()
        address, data, strobe = Signal(self._address_width), Signal(32), Signal(4)
        known, done = Signal(), Signal()
        mask = Cat(bit.replicate(8) for bit in strobe)
        m.d.comb += [
            self.awready.eq(~addressed),
            self.wready.eq(~loaded),
            done.eq(addressed & loaded & ~self.bvalid),
        ]
        with m.If(self.awvalid & self.awready):
            m.d.sync += [addressed.eq(1), address.eq(self.awaddr)]
        with m.If(self.wvalid & self.wready):
            m.d.sync += [loaded.eq(1), data.eq(self.wdata), strobe.eq(self.wstrb)]
        with m.Switch(address[2:]):
            for each in self._registers:
                if each.access is Access.READ_ONLY:
                    continue
                with m.Case(each.offset_bytes >> 2):
                    m.d.comb += known.eq(1)
                    if each.access is Access.READ_WRITE:
                        held = getattr(self, f"held_{each.name}")
                        with m.If(done):
                            m.d.sync += held.eq((held & ~mask[: each.width_bits]) | (data & mask)[: each.width_bits])
                    else:
                        with m.If(done):
                            m.d.comb += getattr(self, f"act_{each.name}").eq((data & mask)[: each.width_bits])
        with m.If(done):
            m.d.sync += [
                addressed.eq(0),
                loaded.eq(0),
                self.bvalid.eq(1),
                self.bresp.eq(Mux(known, OKAY, SLAVE_ERROR)),
            ]
        with m.Elif(self.bready):
            m.d.sync += self.bvalid.eq(0)

    def _reads(self, m: Any) -> None:
        addressed, address = Signal(), Signal(self._address_width)
        known, done, value = Signal(), Signal(), Signal(32)
        m.d.comb += [self.arready.eq(~addressed), done.eq(addressed & ~self.rvalid)]
        with m.If(self.arvalid & self.arready):
            m.d.sync += [addressed.eq(1), address.eq(self.araddr)]
        with m.Switch(address[2:]):
            for each in self._registers:
                if each.access is Access.WRITE_ONLY:
                    continue
                with m.Case(each.offset_bytes >> 2):
                    m.d.comb += known.eq(1)
                    if each.access is Access.READ_WRITE:
                        m.d.comb += value.eq(getattr(self, f"held_{each.name}"))
                    elif each.constant is not None:
                        m.d.comb += value.eq(each.constant)
                    else:
                        m.d.comb += value.eq(getattr(self, f"value_{each.name}"))
                        m.d.comb += getattr(self, f"read_{each.name}").eq(done)
        with m.If(done):
            m.d.sync += [
                addressed.eq(0),
                self.rvalid.eq(1),
                self.rdata.eq(value),
                self.rresp.eq(Mux(known, OKAY, SLAVE_ERROR)),
            ]
        with m.Elif(self.rready):
            m.d.sync += self.rvalid.eq(0)
