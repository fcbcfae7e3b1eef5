"""The register port: AXI4-Lite rules, strobes and answers; and the three documents of a map."""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from amaranth.sim import Simulator

from accel.design_registers import Access, Field, Register, address_bits, array_registers, check_registers
from accel.errors import InputError
from rtl.design.registers import RegisterPort
from rtl.design.text import c_header, markdown, python_constants
from sim.toolchain import find_toolchain
from tests.sim.array_designs import design

MAP = (
    Register(name="NAME", offset_bytes=0, access=Access.READ_ONLY, meaning="constant", constant=0xC0FFEE),
    Register(name="ACT", offset_bytes=4, access=Access.WRITE_ONLY, meaning="acts", width_bits=9),
    Register(name="HELD", offset_bytes=8, access=Access.READ_WRITE, meaning="kept", width_bits=20),
    Register(name="SHOWN", offset_bytes=0x20, access=Access.READ_ONLY, meaning="shown"),
)


def _run(bench: Any) -> None:
    port = RegisterPort(MAP)
    simulator = Simulator(port)
    simulator.add_clock(1e-6)

    async def drive(ctx: Any) -> None:
        await bench(ctx, port)

    simulator.add_testbench(drive)
    simulator.run()


async def _write(ctx: Any, port: Any, address: int, data: int, strobe: int, source: random.Random) -> tuple[int, int]:
    """Write with address and data in any order and a late answer; return the response and what ACT saw."""
    acted, response = 0, None
    offers = {"aw": False, "w": False}
    while response is None:
        for channel in offers:
            if offers[channel] is False and source.random() < 0.5:
                offers[channel] = True
                names = {"aw": {"awaddr": address}, "w": {"wdata": data, "wstrb": strobe}}[channel]
                for name, value in names.items():
                    ctx.set(getattr(port, name), value)
            ctx.set(getattr(port, f"{channel}valid"), offers[channel] is True)
        ctx.set(port.bready, source.random() < 0.3)
        acted |= ctx.get(port.act_ACT)
        moved = {channel: ctx.get(getattr(port, f"{channel}ready")) and offers[channel] is True for channel in offers}
        if ctx.get(port.bvalid) and ctx.get(port.bready):
            response = ctx.get(port.bresp)
        await ctx.tick()
        for channel, gone in moved.items():
            if gone:
                offers[channel] = None
    ctx.set(port.bready, 0)
    assert not ctx.get(port.bvalid)
    return response, acted


async def _read(ctx: Any, port: Any, address: int, source: random.Random) -> tuple[int, int]:
    ctx.set(port.araddr, address)
    offering, answer = True, None
    while answer is None:
        ctx.set(port.arvalid, offering)
        ctx.set(port.rready, source.random() < 0.4)
        if offering and ctx.get(port.arready):
            offering = False
        held = (ctx.get(port.rresp), ctx.get(port.rdata)) if ctx.get(port.rvalid) else None
        if held and ctx.get(port.rready):
            answer = held
        await ctx.tick()
        if held and answer is None:
            assert (ctx.get(port.rvalid), ctx.get(port.rresp), ctx.get(port.rdata)) == (1, *held)
    ctx.set(port.rready, 0)
    return answer


def test_registers_keep_act_and_show_whatever_the_order_of_the_channels() -> None:
    async def bench(ctx: Any, port: Any) -> None:
        source, held = random.Random(4), 0
        for _ in range(200):
            address, data, strobe = source.choice([0, 4, 8, 0x0C, 0x20, 0x3C]), source.getrandbits(32), 0
            strobe = source.getrandbits(4)
            mask = sum(255 << 8 * byte for byte in range(4) if strobe >> byte & 1)
            if address == 8:
                held = (held & ~mask | data & mask) & 0xFFFFF
            response, acted = await _write(ctx, port, address, data, strobe, source)
            assert response == (0 if address in (4, 8) else 2)
            assert acted == (data & mask & 0x1FF if address == 4 else 0)
            assert ctx.get(port.held_HELD) == held
            ctx.set(port.value_SHOWN, data)
            address = source.choice([0, 4, 8, 0x0C, 0x20, 0x3C])
            values = {0: 0xC0FFEE, 8: held, 0x20: data}
            assert await _read(ctx, port, address, source) == (
                0 if address in values else 2,
                values.get(address, 0),
            )

    _run(bench)


def test_a_map_must_not_overlap() -> None:
    twice = Register(name="OTHER", offset_bytes=8, access=Access.READ_ONLY, meaning="")
    with pytest.raises(InputError, match="register 'OTHER' must have a name and an aligned place of its own"):
        check_registers((*MAP, twice))
    fields = (
        Field(name="A", low_bit=0, width_bits=4, meaning=""),
        Field(name="B", low_bit=3, width_bits=1, meaning=""),
    )
    wrong = Register(name="OTHER", offset_bytes=12, access=Access.READ_ONLY, meaning="", fields=fields)
    with pytest.raises(InputError, match="field 'B' of register 'OTHER' must have its own bits of the word"):
        check_registers((*MAP, wrong))


@pytest.fixture(scope="module")
def registers() -> tuple[Register, ...]:
    return array_registers(design(shape=(2, 2), dims=(3, 2), max_length=12, tiles=(2, 2, 2)).unit)


def test_document_c_and_python_name_the_same_places(registers: tuple[Register, ...], tmp_path: Path) -> None:
    constants: dict[str, Any] = {}
    exec(python_constants(registers, "design"), constants)
    header, document = c_header(registers, "design"), markdown(registers, "design")
    found = dict(re.findall(r"^#define DESIGN_(\w+) (0x[0-9a-f]+)u$", header, re.MULTILINE))
    rows = dict(re.findall(r"^\| 0x([0-9a-f]{3}) \| `(\w+)` ", document, re.MULTILINE))
    assert address_bits(registers) == 9
    assert len(rows) == len(registers)
    for each in registers:
        assert constants[each.name] == int(found[each.name], 16) == each.offset_bytes
        assert rows[f"{each.offset_bytes:03x}"] == each.name
        if each.constant is not None:
            assert constants[f"{each.name}_VALUE"] == int(found[f"{each.name}_VALUE"], 16) == each.constant
        for field in each.fields:
            name = f"{each.name}_{field.name}"
            assert constants[f"{name}_MASK"] == int(found[f"{name}_MASK"], 16) == field.mask
            assert f"`{each.name}.{field.name}`" in document
    path = tmp_path / "design.c"
    path.write_text(header + "int main(void) { return (int)DESIGN_ID; }\n", encoding="utf-8")
    command = [find_toolchain().compiler, "-fsyntax-only", "-x", "c", "-Wall", "-Werror", str(path)]
    subprocess.run(command, check=True, timeout=60)
