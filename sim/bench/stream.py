"""cocotb bench of one block: sends the vectors beside this file to its streams and compares every beat that comes out.

It needs Python, cocotb 2 and a simulator, and nothing else: ``einrtl rtl`` writes it as ``test_NAME.py`` beside
``NAME.v``. ``NAME_vectors.json`` holds the beats of every port, field by field as hexadecimal numbers, and the cycle in
which each answer must stand at the output when no port waits; ``run_NAME.py`` builds and runs it.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

__all__ = ["answers_are_right_at_full_rate", "pauses_at_every_port_change_no_answer"]

CLOCK_PERIOD_NS = 10
STALL_CYCLES = 20_000
"""Cycles without a transfer, answers being due, after which the bench gives up."""
QUIET_CYCLES = 100
"""Cycles after the last answer in which no other may come."""

VECTORS = Path(__file__).with_name(f"{Path(__file__).stem.removeprefix('test_')}_vectors.json")


@dataclass
class Port:
    """A stream of the block: its signals, its beats, and how far they have come."""

    dut: Any
    plan: dict[str, Any]
    busy: float
    pauses: random.Random
    done: int = 0
    active: bool = False
    cycles: list[int] = field(default_factory=list)

    @property
    def beats(self) -> list[list[int]]:
        """All beats: for each field of the port a number."""
        return [[int(each, 16) for each in beat] for beat in self.plan["beats"]]

    def signal(self, name: str) -> Any:
        """Return a signal of the block by its role: valid or ready."""
        return getattr(self.dut, self.plan[name])

    def choose(self, *, hold: bool) -> None:
        """Choose for a cycle whether the port takes part; an offer that was made is not taken back."""
        self.active = (hold and self.active) or self.pauses.random() < self.busy


class Bench:
    """The block, and the loop that moves its ports: they change at falling edges and are read before rising ones."""

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        self.plan = json.loads(VECTORS.read_text(encoding="utf-8"))
        self.cycle = 0

    async def reset(self) -> None:
        """Start the clock and reset the block, every port idle."""
        for plan in self.plan["sources"]:
            for name in (plan["valid"], *plan["fields"]):
                getattr(self.dut, name).value = 0
        for plan in self.plan["sinks"]:
            getattr(self.dut, plan["ready"]).value = 0
        reset, level = getattr(self.dut, self.plan["reset"]), self.plan["reset_level"]
        clock = getattr(self.dut, self.plan["clock"])
        reset.value = level
        Clock(clock, CLOCK_PERIOD_NS, unit="ns").start()
        self.edge = FallingEdge(clock)
        for _ in range(4):
            await self.edge
        reset.value = 1 - level
        await self.edge

    async def run(self, *, seed: int, source_busy: float, sink_busy: float) -> tuple[list[Port], list[Port]]:
        """Send all beats and compare all answers; return the ports with the cycle of each transfer."""
        sources, sinks = (
            [Port(self.dut, plan, busy, random.Random(f"{seed} {plan['valid']}")) for plan in self.plan[side]]
            for side, busy in (("sources", source_busy), ("sinks", sink_busy))
        )
        beats = {id(port): port.beats for port in (*sources, *sinks)}
        moved, quiet = self.cycle, 0
        while quiet < QUIET_CYCLES:
            self._drive(sources, sinks, beats)
            await ReadOnly()
            if self._transfer(sources, sinks, beats):
                moved = self.cycle
            finished = all(port.done == len(beats[id(port)]) for port in (*sources, *sinks))
            quiet = quiet + 1 if finished else 0
            if not finished and self.cycle - moved > STALL_CYCLES:
                raise TimeoutError(f"no transfer for {STALL_CYCLES} cycles: {self._state([*sources, *sinks], beats)}")
            self.cycle += 1
            await self.edge
        return sources, sinks

    def _drive(self, sources: list[Port], sinks: list[Port], beats: dict[int, list[list[int]]]) -> None:
        """Set what the bench drives in this cycle."""
        for port in sources:
            offered = beats[id(port)]
            port.choose(hold=True)
            port.active = port.active and port.done < len(offered)
            port.signal("valid").value = int(port.active)
            if port.active:
                for name, value in zip(port.plan["fields"], offered[port.done], strict=True):
                    getattr(self.dut, name).value = value
        for port in sinks:
            port.choose(hold=False)
            port.signal("ready").value = int(port.active)

    def _transfer(self, sources: list[Port], sinks: list[Port], beats: dict[int, list[list[int]]]) -> bool:
        """Count the beats that move in this cycle; compare those that come out."""
        moved = False
        for port in sources:
            if port.active and port.signal("ready").value == 1:
                port.done, port.active, moved = port.done + 1, False, True
                port.cycles.append(self.cycle)
        for port in sinks:
            if port.active and port.signal("valid").value == 1:
                wanted = beats[id(port)]
                assert port.done < len(wanted), f"{port.plan['valid']}: a beat more than the {len(wanted)} expected"
                found = [int(getattr(self.dut, name).value) for name in port.plan["fields"]]
                words = dict(zip(port.plan["fields"], zip(found, wanted[port.done], strict=True), strict=True))
                wrong = [f"{name} is {seen:#x}, not {due:#x}" for name, (seen, due) in words.items() if seen != due]
                assert not wrong, f"beat {port.done}: {', '.join(wrong)}"
                port.done, moved = port.done + 1, True
                port.cycles.append(self.cycle)
        return moved

    def _state(self, ports: list[Port], beats: dict[int, list[list[int]]]) -> str:
        """Return how far each port is, and its handshake, in words."""
        return "; ".join(
            f"{port.plan['valid']}={port.signal('valid').value} {port.plan['ready']}={port.signal('ready').value}, "
            f"{port.done} of {len(beats[id(port)])} beats"
            for port in ports
        )


@cocotb.test()
async def answers_are_right_at_full_rate(dut: Any) -> None:
    """Every port always takes part: all answers are right, and come in the cycles that the contract says."""
    bench = Bench(dut)
    await bench.reset()
    sources, sinks = await bench.run(seed=0, source_busy=1.0, sink_busy=1.0)
    expected = bench.plan["cycles"]
    if expected is not None:
        start = sources[0].cycles[0]
        found = [cycle - start for cycle in sinks[0].cycles]
        assert found == expected, f"answers came in cycles {found}, not {expected}"


@cocotb.test()
async def pauses_at_every_port_change_no_answer(dut: Any) -> None:
    """Ports pause at random, in two runs without a reset between them: all answers are right."""
    bench = Bench(dut)
    await bench.reset()
    await bench.run(seed=1, source_busy=0.6, sink_busy=0.7)
    await bench.run(seed=2, source_busy=0.9, sink_busy=0.4)
