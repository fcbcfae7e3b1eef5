"""How the units beside the linear one work on the memory: each runs alone, on the reader and the writer of all."""

from __future__ import annotations

from typing import Any

from amaranth import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from accel.block_unit import BlockUnit
from rtl.block.move import region_layout
from rtl.linear.layouts import job_layout

__all__ = ["ExpertJobs", "Heads"]


class ExpertJobs(wiring.Component):
    """Gives the two layers of each expert that has work to the linear unit, one a cycle while it takes them.

    Parameters
    ----------
    unit : BlockUnit
        The parameters.

    Members
    -------
    begin : In(1)
        Start in the next cycle.
    operation : In(job_layout)
        The first layer's source and target, features and strides; the rest follows.
    final_target : In
        Where the second layer adds its results.
    experts : In, place : Out, expert : In, tokens : In
        The gate's order of lists: how many, which is asked for, its number and its tokens.
    active : Out(1), job : Out(job_layout), ready : In(1)
        A layer, and whether it is taken.
    done : Out(1)
        The last one is taken, or there is none.
    """

    def __init__(self, unit: BlockUnit) -> None:
        self._unit = unit
        experts = range(unit.list_count)
        super().__init__(
            {
                "begin": In(1),
                "operation": In(job_layout(unit)),
                "final_target": In(range(unit.memory_words)),
                "experts": In(range(unit.list_count + 1)),
                "place": Out(experts),
                "expert": In(experts),
                "tokens": In(range(unit.max_rows + 1)),
                "active": Out(1),
                "job": Out(job_layout(unit)),
                "ready": In(1),
                "done": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Build the turn through experts and halves."""
        m = Module()
        second, first_expert, idle, given, job = Signal(), Signal(), Signal(), self.operation, self.job
        m.d.comb += [
            first_expert.eq(~self.place.any()),
            self.done.eq(idle | (self.active & self.ready & second & (self.place == self.experts - 1))),
            job.source.eq(Mux(second, given.target, given.source)),
            job.target.eq(Mux(second, self.final_target, given.target)),
            job.rows.eq(self.tokens),
            job.in_features.eq(Mux(second, given.out_features, given.in_features)),
            job.out_features.eq(Mux(second, given.in_features, given.out_features)),
            job.source_stride.eq(Mux(second, given.target_stride, given.source_stride)),
            job.target_stride.eq(Mux(second, given.source_stride, given.target_stride)),
            job.queue.eq(self.expert),
            *(job.flags[name].eq(~second) for name in ("gather", "activate", "feeds")),
            *(job.flags[name].eq(second) for name in ("scatter", "accumulate", "weighted", "chained")),
            job.flags.drained.eq(~second & first_expert),
        ]
        m.d.sync += idle.eq(self.begin & ~self.experts.any())
        with m.If(self.begin):
            m.d.sync += [self.active.eq(self.experts.any()), second.eq(0), self.place.eq(0)]
        with m.Elif(self.active & self.ready):
            m.d.sync += [second.eq(~second), self.active.eq(~self.done)]
            with m.If(second):
                m.d.sync += self.place.eq((self.place + 1)[: len(self.place)])
        return m


class Heads(wiring.Component):
    """Runs the attention head by head: K and V from both read ports, then Q, the results back into the memory.

    A head begins one cycle after ``begin`` or after the last result of the head before; its settings follow a cycle
    later, so that its first key stands at the port in the cycle that can take it.

    Parameters
    ----------
    unit : BlockUnit
        Attention, words.

    Members
    -------
    begin : In(1)
        Start with the operation's regions.
    queries, keys, values, target : In(region_layout)
        Of the first head; all rows, the words of a head.
    heads : In(range(max_stride + 1))
        How many.
    key_region, value_region, target_region : Out(region_layout)
        What the readers and the writer are to do next.
    starts : Out(1)
        A head begins: read keys and values, write results.
    turns : Out(1)
        The last key is read: read queries.
    keys_ended : In(1), ended : In(1)
        The reader of keys reads its last word; the writer writes a head's last.
    asks_queries : Out(1)
        The reader of keys reads queries.
    job_valid : Out(1), job_ready : In(1)
        Settings of a head.
    done : Out(1)
        The last head's last result is written.
    """

    def __init__(self, unit: BlockUnit) -> None:
        self._unit = unit
        region = region_layout(unit)
        super().__init__(
            {
                "begin": In(1),
                **{name: In(region) for name in ("queries", "keys", "values", "target")},
                "heads": In(range(unit.max_stride + 1)),
                **{name: Out(region) for name in ("key_region", "value_region", "target_region")},
                "starts": Out(1),
                "turns": Out(1),
                "keys_ended": In(1),
                "ended": In(1),
                "asks_queries": Out(1),
                "job_valid": Out(1),
                "job_ready": In(1),
                "done": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Build the turn through heads."""
        m = Module()
        unit = self._unit
        active, left = Signal(), Signal(self.heads.shape())
        names = ("queries", "keys", "values", "target")
        regions = {name: Signal(region_layout(unit), name=f"{name}_now", reset_less=True) for name in names}
        last = left == 1
        m.d.comb += [
            self.turns.eq(active & ~self.asks_queries & self.keys_ended),
            self.done.eq(active & self.ended & last),
            Value.cast(self.key_region).eq(
                Mux(self.turns, Value.cast(regions["queries"]), Value.cast(regions["keys"]))
            ),
            Value.cast(self.value_region).eq(Value.cast(regions["values"])),
            Value.cast(self.target_region).eq(Value.cast(regions["target"])),
        ]
        m.d.sync += self.starts.eq(self.begin | (active & self.ended & ~last))
        with m.If(self.begin):
            m.d.sync += [active.eq(1), left.eq(self.heads)]
            m.d.sync += [Value.cast(regions[name]).eq(Value.cast(getattr(self, name))) for name in names]
        with m.Elif(active & self.ended):
            m.d.sync += [active.eq(~last), left.eq((left - 1)[: len(left)])]
            for region in regions.values():
                m.d.sync += region.start.eq((region.start + unit.head_blocks)[: len(region.start)])
        with m.If(self.starts):
            m.d.sync += [self.job_valid.eq(1), self.asks_queries.eq(0)]
        with m.Else():
            with m.If(self.job_ready):
                m.d.sync += self.job_valid.eq(0)
            with m.If(self.turns):
                m.d.sync += self.asks_queries.eq(1)
        return m
