import random

import pytest
from amaranth.sim import Simulator

from rtl.stream import MemoryFifo

CYCLES = 400


def run_fifo(depth, offer, take):
    """Return (cycle, value) of what went in and of what came out of a queue under two rhythms."""
    queue = MemoryFifo(16, depth=depth)
    entered, left = [], []

    async def drive(ctx):
        value, offering = 100, False
        for cycle in range(CYCLES):
            offering = offering or offer(cycle)
            ctx.set(queue.i.payload, value if offering else 0)
            ctx.set(queue.i.valid, offering)
            ctx.set(queue.o.ready, take(cycle))
            if offering and ctx.get(queue.i.ready):
                entered.append((cycle, value))
                value, offering = value + 1, False
            if ctx.get(queue.o.valid) and ctx.get(queue.o.ready):
                left.append((cycle, ctx.get(queue.o.payload)))
            await ctx.tick()

    simulator = Simulator(queue)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
    return entered, left


@pytest.mark.parametrize("depth", [2, 3, 8, 13])
def test_a_memory_fifo_keeps_order_and_loses_nothing_under_any_rhythm(depth):
    source = random.Random(depth)
    entered, left = run_fifo(
        depth, lambda cycle: source.random() < 0.6, lambda cycle: cycle > CYCLES - 60 or source.random() < 0.5
    )
    assert len(left) > 100
    assert [value for _, value in left] == [value for _, value in entered][: len(left)]
    assert len(entered) - len(left) <= 3, "all but what entered last came out"


def test_a_memory_fifo_takes_and_gives_one_payload_a_cycle_with_its_stated_latency():
    entered, left = run_fifo(4, lambda cycle: True, lambda cycle: True)
    assert [cycle for cycle, _ in entered] == list(range(CYCLES))
    assert [cycle for cycle, _ in left] == list(range(MemoryFifo.latency_cycles, CYCLES))


@pytest.mark.parametrize("depth", [2, 5])
def test_a_full_memory_fifo_holds_its_depth_and_two_more_and_then_stalls(depth):
    entered, left = run_fifo(depth, lambda cycle: True, lambda cycle: False)
    assert len(entered) == depth + 2
    assert left == []
