"""The driver that all stream tests share: sends and collects beats under a given rhythm and notes the cycles."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from amaranth.sim import Simulator

Row = Sequence[Sequence[int | None]]
Rhythm = Callable[[], bool]
"""Asked each cycle whether the port may move."""


def always() -> bool:
    return True


def often(seed: int, share: float) -> Rhythm:
    """Return a rhythm that is true in a random ``share`` of the cycles."""
    source = random.Random(seed)
    return lambda: source.random() < share


@dataclass
class Trace:
    """What was seen at the ports of a unit."""

    rows: list[list[list[int | None]]] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    """Cycle in which each beat was accepted."""
    shown: list[int] = field(default_factory=list)
    """Cycle in which each result beat was taken."""


class StalledError(AssertionError):
    """A stream did not move for too long."""


class Bench:
    """Runs one simulation of a ``StreamUnit``; ``run`` may be called several times without a reset between."""

    def __init__(self, unit: Any) -> None:
        self.unit = unit
        self.steps: list[tuple[Sequence[Row], Rhythm, Rhythm, Trace, int, bool]] = []
        self.status: dict[str, int] = {}

    def run(
        self,
        rows: Sequence[Row],
        *,
        offer: Rhythm = always,
        take: Rhythm = always,
        patience: int = 2000,
        mark_last: bool = True,
    ) -> Trace:
        """Plan a run; its trace is filled by ``simulate``."""
        trace = Trace()
        self.steps.append((rows, offer, take, trace, patience, mark_last))
        return trace

    def simulate(self) -> None:
        """Run all planned runs and read the status outputs."""
        simulator = Simulator(self.unit)
        simulator.add_clock(1e-6)
        simulator.add_testbench(self._drive)
        simulator.run()

    async def _drive(self, ctx: Any) -> None:
        for step in self.steps:
            await self._one(ctx, *step)
        for _ in range(40):  # counters lag by a pipeline
            await ctx.tick()
        self.status = {name: ctx.get(getattr(self.unit, name)) for name in self.unit.status}

    async def _one(
        self, ctx: Any, rows: Sequence[Row], offer: Rhythm, take: Rhythm, trace: Trace, patience: int, mark_last: bool
    ) -> None:
        unit = self.unit
        source, sink = getattr(unit, unit.source), getattr(unit, unit.sink)
        source_layout, lanes = unit.source_beat.layout, unit.source_beat.lanes
        beats = [(beat, index == len(row) - 1) for row in rows for index, beat in enumerate(row)]
        sent, current, idle, cycle = 0, [], 0, 0
        shown = 0
        offering = False
        while shown < len(beats):
            if not offering and sent < len(beats) and offer():
                offering = True
                beat, last = beats[sent]
                junk = random.getrandbits(unit.source_beat.element.width_bits - 1)
                payload = {
                    unit.source_beat.field: [junk if code is None else code for code in beat],
                    "keep": sum(1 << lane for lane in range(lanes) if beat[lane] is not None),
                    "last": int(last and (mark_last or sent == len(beats) - 1)),
                }
                ctx.set(source.payload, source_layout.const(payload))
            ctx.set(source.valid, offering)
            ctx.set(sink.ready, take())
            moved_in = offering and ctx.get(source.ready)
            moved_out = ctx.get(sink.valid) and ctx.get(sink.ready)
            if moved_out:
                payload = ctx.get(sink.payload)
                keep = payload.keep
                numbers = [payload[unit.sink_beat.field][lane] for lane in range(lanes)]
                assert all(number == 0 for lane, number in enumerate(numbers) if not keep >> lane & 1)
                current.append([number if keep >> lane & 1 else None for lane, number in enumerate(numbers)])
                trace.shown.append(cycle)
                shown += 1
                if payload.last:
                    trace.rows.append(current)
                    current = []
            if moved_in:
                trace.accepted.append(cycle)
                sent += 1
                offering = False
            idle = 0 if moved_in or moved_out else idle + 1
            if idle > patience:
                name = unit.source if offering else unit.sink
                raise StalledError(f"stream {name!r} did not move for {patience} cycles ({sent} beats in, {shown} out)")
            await ctx.tick()
            cycle += 1
        ctx.set(source.valid, 0)
        ctx.set(sink.ready, 0)
        assert not current, "the last beat must end its row"
