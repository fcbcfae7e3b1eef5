"""cocotb bench of the AXI4-Stream softmax: sends rows, records every beat, its cycle, and the action counters."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiStreamBus, AxiStreamFrame, AxiStreamSink, AxiStreamSource

__all__ = ["send_rows"]

CLOCK_PERIOD_NS = 10
STALL_CYCLES = 2000
"""Cycles without a transfer on either port, rows being due, after which the bench gives up; pauses are far shorter."""
QUIET_CYCLES = 64
COUNTER_PREFIX = "count_"


class _Monitor:
    """Samples both ports at each clock edge: the cycles of all transfers, and whether anything still moves."""

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        self.cycle = 0
        self.in_cycles: list[int] = []
        self.out_cycles: list[int] = []
        self.last_transfer = 0

    async def run(self) -> None:
        dut = self.dut
        edge = RisingEdge(dut.aclk)
        while True:
            await edge
            if dut.s_axis_tvalid.value and dut.s_axis_tready.value:
                self.in_cycles.append(self.cycle)
                self.last_transfer = self.cycle
            if dut.m_axis_tvalid.value and dut.m_axis_tready.value:
                self.out_cycles.append(self.cycle)
                self.last_transfer = self.cycle
            self.cycle += 1

    def start(self) -> None:
        """Forget the transfers seen so far."""
        self.in_cycles, self.out_cycles = [], []
        self.last_transfer = self.cycle

    @property
    def stalled(self) -> bool:
        return self.cycle - self.last_transfer > STALL_CYCLES

    def state(self) -> str:
        """Return the handshake signals of both ports in words."""

        def bit(port: str, signal: str) -> str:
            return f"{signal}={int(getattr(self.dut, f'{port}_{signal}').value)}"

        return ", ".join(f"{port} has {bit(port, 'tvalid')} {bit(port, 'tready')}" for port in ("s_axis", "m_axis"))


def _pauses(seed: str, probability: float) -> Iterator[bool]:
    source = random.Random(seed)
    while True:
        yield source.random() < probability


def _pack(codes: np.ndarray, size: int) -> bytes:
    """Return ``codes`` as little-endian two's complement integers of ``size`` bytes each."""
    return codes.astype("<i8").view(np.uint8).reshape(-1, 8)[:, :size].tobytes()


def _unpack(data: bytes, size: int, signed: bool) -> list[int]:
    return [int.from_bytes(data[at : at + size], "little", signed=signed) for at in range(0, len(data), size)]


def _counters(dut: Any) -> dict[str, int]:
    """Return the values of the action counters, whose ports all start with the same prefix."""
    names = sorted(name for name in dir(dut) if name.startswith(COUNTER_PREFIX))
    return {name.removeprefix(COUNTER_PREFIX): int(getattr(dut, name).value) for name in names}


class _Bench:
    """The bus models around one design."""

    def __init__(self, dut: Any, job: dict[str, Any], folder: Path) -> None:
        self.dut, self.job, self.folder = dut, job, folder
        self.source = AxiStreamSource(
            AxiStreamBus.from_prefix(dut, "s_axis"), dut.aclk, dut.aresetn, reset_active_level=False
        )
        self.sink = AxiStreamSink(
            AxiStreamBus.from_prefix(dut, "m_axis"), dut.aclk, dut.aresetn, reset_active_level=False
        )
        self.monitor = _Monitor(dut)

    async def reset(self) -> None:
        self.dut.aresetn.value = 0
        await ClockCycles(self.dut.aclk, 4)
        self.dut.aresetn.value = 1
        await ClockCycles(self.dut.aclk, 2)
        cocotb.start_soon(self.monitor.run())

    async def scenario(self, scenario: dict[str, Any], rows: list[np.ndarray]) -> None:
        """Send all rows and write what came out to ``NAME.npz``."""
        for model, kind in ((self.source, "source"), (self.sink, "sink")):
            probability = scenario[f"{kind}_pause_probability"]
            if probability:
                model.set_pause_generator(_pauses(f"{kind}{scenario['seed']}", probability))
        self.monitor.start()
        before = _counters(self.dut)
        for row in rows:
            self.source.send_nowait(AxiStreamFrame(_pack(row, self.job["input_bytes"])))
        answers = [await self._receive(index, len(rows), scenario["name"]) for index in range(len(rows))]
        for model in (self.source, self.sink):
            model.clear_pause_generator()
            model.pause = False
        await ClockCycles(self.dut.aclk, QUIET_CYCLES)  # a beat too many would show now
        first = self.monitor.in_cycles[0]
        # The counters are free-running 32-bit counters: a difference modulo their width is right across a wrap.
        counts = {name: (now - before[name]) % 2**32 for name, now in _counters(self.dut).items()}
        np.savez(
            self.folder / f"{scenario['name']}.npz",
            codes=np.array([code for answer in answers for code in answer], np.int64),
            lengths=np.array([len(answer) for answer in answers], np.int64),
            in_cycles=np.array(self.monitor.in_cycles, np.int64) - first,
            out_cycles=np.array(self.monitor.out_cycles, np.int64) - first,
            action_names=np.array(list(counts), np.str_),
            action_counts=np.array(list(counts.values()), np.int64),
            overrun=bool(self.dut.overrun.value),
        )

    async def _receive(self, index: int, rows: int, name: str) -> list[int]:
        while self.sink.empty():
            await ClockCycles(self.dut.aclk, 16)
            if self.monitor.stalled:
                raise TimeoutError(
                    f"scenario {name}: no transfer for {STALL_CYCLES} cycles with {index} of {rows} rows received: "
                    f"{self.monitor.state()}"
                )
        frame = self.sink.recv_nowait()
        return _unpack(bytes(frame.tdata), self.job["output_bytes"], self.job["output_signed"])


@cocotb.test()
async def send_rows(dut: Any) -> None:
    """Run every scenario of the job in order, with one reset at the start."""
    path = Path(str(cocotb.plusargs["einrtl_job"]))
    job = json.loads(path.read_text(encoding="utf-8"))
    with np.load(path.parent / "rows.npz") as stimulus:
        rows = np.split(stimulus["codes"], np.cumsum(stimulus["lengths"])[:-1])
    Clock(dut.aclk, CLOCK_PERIOD_NS, unit="ns").start()
    bench = _Bench(dut, job, path.parent)
    await bench.reset()
    try:
        for scenario in job["scenarios"]:
            await bench.scenario(scenario, rows)
    except TimeoutError as error:
        (path.parent / "problem.txt").write_text(str(error), encoding="utf-8")
        raise
