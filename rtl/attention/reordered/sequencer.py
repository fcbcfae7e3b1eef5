"""The order of the work: which slot loads, works, skips and finishes in each iteration."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from accel.reordered_unit import ReorderedUnit
from rtl.attention.reordered.layouts import job_layout, step_layout
from rtl.stream import flow

__all__ = ["Sequencer"]


class Sequencer(wiring.Component):
    """Walks through the iterations of a job, ``unit.iteration_cycles`` cycles each, as ``accel.reordered_schedule``.

    A job starts, in one cycle, when K and V are loaded. A step waits only for a beat of the row it loads, and, where a
    row is finished, until the row buffer has room for it: behind it nothing ever waits.

    Parameters
    ----------
    unit : ReorderedUnit
        Slots, blocks, longest job.

    Members
    -------
    jobs : In(stream of job_layout)
        Jobs.
    loaded : In(1)
        K and V of the next job are there.
    begins : Out(1)
        They are claimed.
    query_valid, query_last : In(1)
        A block of Q is offered, and it is marked as the job's last.
    query_ready : Out(1)
        It is taken if offered.
    returned : In(1)
        A block has left the row buffer.
    steps : Out(flow(step_layout))
        What all slots do.
    done : Out(1)
        The iteration is the job's last.
    ended : Out(1)
        The last cycle of the last iteration.
    misaligned : Out(1)
        A block of Q is taken whose ``last`` is not where the job's length says.
    """

    def __init__(self, unit: ReorderedUnit) -> None:
        self._unit = unit
        super().__init__(
            {
                "jobs": In(stream.Signature(job_layout(unit))),
                "loaded": In(1),
                "begins": Out(1),
                "query_valid": In(1),
                "query_last": In(1),
                "query_ready": Out(1),
                "returned": In(1),
                "steps": Out(flow(step_layout(unit))),
                "done": Out(1),
                "ended": Out(1),
                "misaligned": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Build the counters, the flags of the slots, and the waiting."""
        m = Module()
        unit, step, job = self._unit, self.steps.payload, self.jobs.payload
        running = Signal()
        block = Signal(range(unit.iteration_cycles))
        key = Signal(range(unit.max_length))
        begins, moves, wraps = self.begins, Signal(name="moves"), Signal(name="wraps")
        m.d.comb += [begins.eq(~running & self.jobs.valid & self.loaded), self.jobs.ready.eq(begins)]

        loading, finishing, more = self._slots(m, key=key, begins=begins, wraps=wraps)
        working = Signal(name="working")
        m.d.comb += [
            working.eq(block < unit.key_blocks if unit.key_blocks < unit.iteration_cycles else 1),
            step.block.eq(block[: len(step.block)]),
            step.first.eq(loading),
            step.last.eq(finishing),
            step.start.eq(~key.any()),
            step.end.eq(block == unit.key_blocks - 1 if unit.key_blocks > 1 else ~block.any()),
            self.done.eq(~more & ((self._busy | loading) == finishing)),
            self.steps.valid.eq(moves & working),
            wraps.eq(moves & (block == unit.iteration_cycles - 1)),
            self.ended.eq(wraps & self.done),
        ]
        room = self._room(m, reserve=moves & ~block.any() & finishing.any())
        waits_for_query, waits_for_room = Signal(), Signal()
        m.d.comb += [
            waits_for_query.eq(loading.any() & working),
            waits_for_room.eq(finishing.any() & ~block.any() & ~room),
            self.query_ready.eq(running & waits_for_query & ~waits_for_room),
            moves.eq(running & ~waits_for_room & (~waits_for_query | self.query_valid)),
            self.misaligned.eq(
                self.query_ready & self.query_valid & (self.query_last != (step.end & ~more & loading.any()))
            ),
        ]
        with m.If(begins):
            m.d.sync += [running.eq(1), key.eq(0)]
        with m.Elif(wraps):
            m.d.sync += [running.eq(~self.done), key.eq(Mux(self._pass_ends, 0, (key + 1)[: len(key)]))]
        if unit.iteration_cycles > 1:
            with m.If(moves):
                m.d.sync += block.eq(Mux(wraps, 0, (block + 1)[: len(block)]))
        # A mask lets a slot skip a key; a row's first key always counts.
        live = [
            loading[slot] | (self._busy[slot] & (~self._causal | (key <= self._limits[slot])))
            for slot in range(unit.slots)
        ]
        m.d.comb += step.live.eq(Cat(live))
        m.d.comb += self._first_pass_last.eq(job.offset + (unit.slots - 1))
        return m

    def _slots(self, m: Any, *, key: Any, begins: Any, wraps: Any) -> tuple[Any, Any, Any]:
        """Build the state of slots and passes; return who loads, who finishes, and whether rows remain after that."""
        unit, job = self._unit, self.jobs.payload
        count = unit.slots
        rows = range(unit.max_length + 1)
        sums = range(2 * unit.max_length + count + 1)
        self._causal = Signal(name="causal")
        self._busy = Signal(count, name="busy")
        self._limits = [Signal(sums, name=f"limit_{slot}", reset_less=True) for slot in range(count)]
        self._pass_ends = Signal(name="pass_ends")
        self._first_pass_last = Signal(sums, name="first_pass_last")
        at = Signal(count)  # one-hot: the slot of this iteration's row, none behind the last slot
        row, queries = Signal(rows), Signal(rows)
        row_limit = Signal(sums)  # last key that counts for the next row
        last_key, pass_last = Signal(rows), Signal(sums)
        loading, finishing, more = Signal(count), Signal(count), Signal()
        m.d.comb += [
            loading.eq(Mux(row != queries, at, 0)),
            more.eq((row + loading.any()) != queries),
            self._pass_ends.eq((key == last_key) | (self._causal & (key == pass_last))),
            finishing.eq(
                Cat(self._pass_ends & (self._busy[0] | loading[0]), at[: count - 1] & self._busy[1:])
                if count > 1
                else self._pass_ends
            ),
        ]
        whole = Signal(sums, name="masked_keys")
        m.d.comb += whole.eq(job.queries + job.offset)
        shown = Mux(job.causal & (whole < job.keys), whole[: len(last_key)], job.keys)
        with m.If(begins):
            m.d.sync += [
                self._causal.eq(job.causal),
                self._busy.eq(0),
                at.eq(1),
                row.eq(0),
                queries.eq(job.queries),
                row_limit.eq(job.offset),
                last_key.eq((shown - 1)[: len(last_key)]),
                pass_last.eq(self._first_pass_last),
            ]
        with m.Elif(wraps):
            m.d.sync += self._busy.eq((self._busy | loading) & ~finishing)
            m.d.sync += at.eq(Mux(self._pass_ends, 1, Cat(Const(0, 1), at)[:count]))
            for slot in range(count):
                with m.If(loading[slot]):
                    m.d.sync += self._limits[slot].eq(row_limit)
            with m.If(loading.any()):
                m.d.sync += [row.eq((row + 1)[: len(row)]), row_limit.eq((row_limit + 1)[: len(row_limit)])]
            # Where the last key ends a pass, it ends all that follow.
            with m.If(key == pass_last):
                m.d.sync += pass_last.eq((pass_last + count)[: len(pass_last)])
        return loading, finishing, more

    def _room(self, m: Any, *, reserve: Any) -> Any:
        """Return whether the row buffer has places for one more row; ``reserve`` takes them."""
        unit = self._unit
        free = Signal(range(unit.row_buffer_beats + 1), init=unit.row_buffer_beats)
        taken = Mux(reserve, unit.value_blocks, 0)
        m.d.sync += free.eq((free + self.returned - taken)[: len(free)])
        return free >= unit.value_blocks
