"""cocotb bench of a complete attention design: its own host driver, over bus models, does jobs."""

from __future__ import annotations

import importlib.util
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.task import bridge, resume
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiStreamBus, AxiStreamFrame, AxiStreamSink, AxiStreamSource

__all__ = ["run_jobs"]

CLOCK_PERIOD_NS = 10
TIMEOUT_CYCLES = 200_000
SLVERR = 2


def _module(path: Path) -> Any:
    """Return a file that stands beside the Verilog as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _pauses(seed: str, probability: float) -> Iterator[bool]:
    source = random.Random(seed)
    while True:
        yield source.random() < probability


class _Registers:
    """What the driver takes for ``pynq.MMIO``: blocking reads and writes, from a thread of its own."""

    def __init__(self, dut: Any) -> None:
        bus = AxiLiteBus.from_prefix(dut, "s_axil")
        self.master = AxiLiteMaster(bus, dut.aclk, dut.aresetn, reset_active_level=False)

    async def answer(self, offset: int, value: int | None = None) -> tuple[int, int]:
        """Return response and data of a read, or of a write of ``value``."""
        if value is None:
            read = await self.master.read(offset, 4)
            return int(read.resp), int.from_bytes(read.data, "little")
        return int((await self.master.write(offset, value.to_bytes(4, "little"))).resp), 0

    async def _checked(self, offset: int, value: int | None) -> int:
        response, data = await self.answer(offset, value)
        if response:
            raise RuntimeError(f"the answer at 0x{offset:x} must be OKAY, not {response}")
        return data

    def read(self, offset: int) -> int:
        """Return the word at an address."""
        return int(resume(self._checked)(offset, None))

    def write(self, offset: int, value: int) -> None:
        """Write the word at an address."""
        resume(self._checked)(offset, value)


class _Streams:
    """What the driver takes for its streams."""

    def __init__(self, dut: Any) -> None:
        self.sources = {
            name: AxiStreamSource(
                AxiStreamBus.from_prefix(dut, f"s_axis_{name}"), dut.aclk, dut.aresetn, reset_active_level=False
            )
            for name in "qkv"
        }
        self.sink = AxiStreamSink(
            AxiStreamBus.from_prefix(dut, "m_axis"), dut.aclk, dut.aresetn, reset_active_level=False
        )
        self.frames = 0

    def send(self, name: str, data: Any) -> None:
        """Queue the bytes of an input."""
        self.sources[name].send_nowait(AxiStreamFrame(bytes(data)))

    def expect(self, size: int) -> None:
        """Note nothing: the sink takes what comes."""

    async def _received(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            frame = await with_timeout(self.sink.recv(compact=False), TIMEOUT_CYCLES * CLOCK_PERIOD_NS, "ns")
            data += bytes(frame.tdata)
            self.frames += 1
        return data

    def receive(self, size: int) -> Any:
        """Return as many bytes of the output."""
        return np.frombuffer(resume(self._received)(size), np.uint8)

    def finish(self) -> None:
        """Do nothing: what is received was sent."""

    def pause(self, seed: int, probability: float) -> None:
        """Let every stream pause."""
        for name, model in (*self.sources.items(), ("av", self.sink)):
            model.clear_pause_generator()
            model.pause = False
            if probability:
                model.set_pause_generator(_pauses(f"{name}{seed}", probability))


async def _refusals(dut: Any, mmio: _Registers, registers: Any, driver: Any, module: Any) -> dict[str, Any]:
    """Return what wrong accesses and jobs are answered with."""
    seen: dict[str, Any] = {
        "unmapped": [(await mmio.answer(0xFC))[0], (await mmio.answer(0xFC, 1))[0]],
        "write_only": (await mmio.answer(registers.CONTROL))[0],
        "read_only": (await mmio.answer(registers.STATUS, 1))[0],
    }

    def refused(queries: int, keys: int, heads: int) -> str:
        try:
            driver.start(queries, keys, heads)
        except module.DesignError as error:
            return str(error)
        return ""

    await mmio.answer(registers.INTERRUPT_ENABLE, 1)
    seen["interrupt_before"] = int(dut.irq.value)
    longest = driver.max_length
    seen["refused"] = [await bridge(refused)(*job) for job in ((0, 1, 1), (1, longest + 1, 1), (1, 1, 0))]
    seen["interrupt"] = int(dut.irq.value)
    await mmio.answer(registers.CONTROL, registers.CONTROL_CLEAR_MASK)
    await ClockCycles(dut.aclk, 2)
    seen["interrupt_cleared"] = int(dut.irq.value)
    seen["status_cleared"] = await bridge(driver.status)()
    await mmio.answer(registers.INTERRUPT_ENABLE, 0)
    return seen


@cocotb.test()
async def run_jobs(dut: Any) -> None:
    """Do every job of the description by the emitted driver, and write down what came."""
    path = Path(str(cocotb.plusargs["einrtl_job"]))
    job = json.loads(path.read_text(encoding="utf-8"))
    folder = path.parent
    registers, module = _module(Path(job["constants"])), _module(Path(job["driver"]))
    Clock(dut.aclk, CLOCK_PERIOD_NS, unit="ns").start()
    mmio, streams = _Registers(dut), _Streams(dut)
    dut.aresetn.value = 0
    await ClockCycles(dut.aclk, 4)
    dut.aresetn.value = 1
    await ClockCycles(dut.aclk, 2)
    driver = await bridge(module.AttentionDriver)(mmio, registers, streams)
    seen: dict[str, Any] = {"reports": [], **await _refusals(dut, mmio, registers, driver, module)}
    found = {}
    with np.load(folder / "jobs.npz") as data:
        for index, each in enumerate(job["jobs"]):
            streams.pause(index, each["pause_probability"])
            given = [data[f"{name}{index}"] for name in "qkv"]
            found[f"av{index}"], report = await bridge(driver.run)(*given, each["causal"])
            seen["reports"].append(report | {"status": await bridge(driver.status)(), "frames": streams.frames})
            streams.frames = 0
    await RisingEdge(dut.aclk)
    np.savez(folder / "found.npz", **found)
    (folder / "seen.json").write_text(json.dumps(seen), encoding="utf-8")
