"""The sequencer: a table of steps, two counters for each, and the rules by which groups, slots and epochs follow."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Any

from amaranth import Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from accel.attention_array import EINSUMS, AttentionArray
from rtl.attention.array.layouts import Layouts
from rtl.attention.array.tiles import Rings, tile_layout

__all__ = ["Sequencer", "step_layout"]

EINSUM_CODES = {name: code for code, name in enumerate(EINSUMS, start=1)}
"""Number of each Einsum in a step; 0 is none."""


def step_layout(unit: AttentionArray) -> data.StructLayout:
    """Return one micro-operation as the sequencer issues it: of which Einsum, its counters, and its tile."""
    layouts = Layouts(unit=unit)
    inner = max(layouts.turn_bits, (unit.stages - 1).bit_length())
    return data.StructLayout(
        {
            "einsum": len(EINSUM_CODES).bit_length(),
            "outer": max(layouts.feature_bits, layouts.turn_bits),
            "inner": inner,
            "outer_ends": 1,
            "inner_ends": 1,
            "tile": tile_layout(unit),
        }
    )


@dataclass(kw_only=True)
class _Step:
    """One row of the table, and its signals."""

    name: str
    array: str
    tile: Any
    pending: Any
    outer: Any
    inner: Any
    outer_ends: Any
    inner_ends: Any
    chosen: Any
    left: Any


@dataclass(kw_only=True)
class _Group:
    """A group of the plan: for each slot the queue of each array, and the signals that follow."""

    slots: list[dict[str, list[_Step]]] = field(default_factory=list)
    turn: Any = None
    stall: Any = None
    stalling: Any = None
    chosen: Any = None


def _any(values: Any) -> Any:
    return reduce(or_, values, Const(0, 1))


class Sequencer(wiring.Component):
    """Issues the micro-operations of the plan, as ``accel.attention_array.program`` says.

    The plan is read where the table is built; the machine that runs it is always the same. An epoch begins in the cycle
    after the last micro-operation of the one before, if everything it needs is there; otherwise it waits.

    Parameters
    ----------
    unit : AttentionArray
        The array.

    Members
    -------
    start : In(1)
        A job begins: waiting counts from its first epoch on.
    lone : In(1)
        The job is a single tile.
    tile : In(tile_layout)
        The tile that comes in next.
    next : Out(1)
        It is taken.
    loaded_q, loaded_k, loaded_v : In
        Tiles that the buffers hold.
    release_q, release_k, release_v : Out(1)
        A tile is no longer needed.
    room : In(1)
        The output takes all beats of another query tile.
    reserve : Out(1)
        They will come.
    matrix, vector : Out(step_layout)
        Micro-operation of each array.
    waiting : Out(1)
        An epoch cannot begin in this cycle.
    busy : Out(1)
        A tile is on its way.
    """

    def __init__(self, unit: AttentionArray) -> None:
        self._unit = unit
        rings = Rings(unit=unit)
        super().__init__(
            {
                "start": In(1),
                "lone": In(1),
                "tile": In(tile_layout(unit)),
                "next": Out(1),
                **{f"loaded_{tensor.lower()}": In(rings.count_bits(tensor)) for tensor in "QKV"},
                **{f"release_{tensor.lower()}": Out(1) for tensor in "QKV"},
                "room": In(1),
                "reserve": Out(1),
                "matrix": Out(step_layout(unit)),
                "vector": Out(step_layout(unit)),
                "waiting": Out(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Build the window of tiles, the table of steps, the choice of each cycle, and the change of epochs."""
        m = Module()
        depth = self._unit.plan.depth
        window = [Signal(tile_layout(self._unit), name=f"tile_{offset}") for offset in range(depth + 1)]
        following = [self.tile, *window[:-1]]
        load = Signal()
        groups = self._table(m, window)
        steps = [step for group in groups for slot in group.slots for queue in slot.values() for step in queue]
        self._choose(m, groups)
        for step in steps:
            self._count(m, step)

        idle, ready, work = Signal(), Signal(), Signal()
        m.d.comb += [
            idle.eq(~(_any(step.left for step in steps) | _any(group.stall > group.stalling for group in groups))),
            work.eq(_any(tile.there for tile in following)),
            ready.eq(self._ready(following)),
            load.eq(idle & work & ready),
            self.next.eq(load & self.tile.there),
            self.busy.eq(work | ~idle),
        ]
        started = Signal()
        m.d.comb += self.waiting.eq(idle & work & ~ready & started)
        with m.If(load):
            m.d.sync += [old.eq(new) for old, new in zip(window, following, strict=True)]
            m.d.sync += started.eq(1)
            for step in steps:
                tile = following[self._unit.plan.offsets[step.name]]
                runs = tile.there & tile.last if step.name == "AV" else tile.there
                m.d.sync += [step.pending.eq(runs), step.outer.eq(0), step.inner.eq(0)]
            for group, planned in zip(groups, self._unit.plan.epoch, strict=True):
                m.d.sync += [group.turn.eq(0), group.stall.eq(planned.stall_cycles)]
            with m.If(self.lone):
                m.d.sync += groups[-1].stall.eq(self._longest_stall(len(groups) - 1))
        with m.If(self.start):
            m.d.sync += started.eq(0)
        divided = following[self._unit.plan.offsets["AV"]]
        m.d.comb += self.reserve.eq(load & divided.there & divided.last)
        self._issue(m, steps)
        return m

    def _table(self, m: Any, window: list[Any]) -> list[_Group]:
        """Return the groups of the plan with the registers of their steps."""
        layout = step_layout(self._unit)
        groups = []
        for index, planned in enumerate(self._unit.plan.epoch):
            group = _Group(
                turn=Signal(range(max(2, len(planned.slots))), name=f"turn_{index}"),
                stall=Signal(range(self._longest_stall(index) + 1), name=f"stall_{index}"),
                stalling=Signal(name=f"stalling_{index}"),
                chosen=Signal(name=f"group_{index}"),
            )
            for slot in planned.slots:
                queues = {}
                for array, names in slot.items():
                    queues[array] = [
                        _Step(
                            name=name,
                            array=array,
                            tile=window[self._unit.plan.offsets[name]],
                            outer=Signal(layout["outer"].width, name=f"{name}_outer"),
                            inner=Signal(layout["inner"].width, name=f"{name}_inner"),
                            **{
                                part: Signal(name=f"{name}_{part}")
                                for part in ("pending", "outer_ends", "inner_ends", "chosen", "left")
                            },
                        )
                        for name in names
                    ]
                group.slots.append(queues)
            groups.append(group)
        return groups

    def _longest_stall(self, group: int) -> int:
        """Return the stall cycles of a group in a job of a single tile."""
        last = group == len(self._unit.plan.epoch) - 1
        return self._unit.plan.epoch[group].stall_cycles + (self._unit.lone_stall_cycles if last else 0)

    def _choose(self, m: Any, groups: list[_Group]) -> None:
        """Choose a group, in it a slot, and in each of its queues a step."""
        before: Any = Const(0, 1)
        for group in groups:
            pending = [_any(step.pending for queue in slot.values() for step in queue) for slot in group.slots]
            busy = Signal()
            m.d.comb += [
                busy.eq(_any(pending)),
                group.chosen.eq(~before & busy),
                group.stalling.eq(~before & ~busy & (group.stall != 0)),
            ]
            before = before | busy | (group.stall != 0)
            number = len(group.slots)
            with m.If(group.stalling):
                m.d.sync += group.stall.eq(group.stall - 1)
            with m.Elif(group.chosen), m.Switch(group.turn):
                for turn in range(number):
                    with m.Case(turn):
                        taken: Any = Const(0, 1)
                        for index in ((turn + at) % number for at in range(number)):
                            mine = ~taken & pending[index]
                            with m.If(mine):
                                m.d.sync += group.turn.eq((index + 1) % number)
                            self._take(m, group.slots[index], mine)
                            taken = taken | pending[index]

    def _take(self, m: Any, slot: dict[str, list[_Step]], mine: Any) -> None:
        for queue in slot.values():
            passed: Any = Const(0, 1)
            for step in queue:
                with m.If(mine & ~passed & step.pending):
                    m.d.comb += step.chosen.eq(1)
                passed = passed | step.pending

    def _count(self, m: Any, step: _Step) -> None:
        """Build the two counters of a step."""
        unit = self._unit
        last = {
            "1": Const(0, 1),
            "e": Const(unit.query_key_dim - 1, 8),
            "f": Const(unit.value_dim - 1, 8),
            "stage": Const(unit.stages - 1, 4),
            "turn": (step.tile.turns - 1)[: len(step.tile.turns)],
        }
        outer, inner = EINSUMS[step.name][1]
        m.d.comb += [
            step.outer_ends.eq(step.outer == last[outer]),
            step.inner_ends.eq(step.inner == last[inner]),
            step.left.eq(step.pending & ~(step.chosen & step.outer_ends & step.inner_ends)),
        ]
        with m.If(step.chosen):
            m.d.sync += step.pending.eq(step.left)
            m.d.sync += step.inner.eq(Mux(step.inner_ends, 0, step.inner + 1))
            with m.If(step.inner_ends):
                m.d.sync += step.outer.eq(step.outer + 1)

    def _ready(self, following: list[Any]) -> Any:
        """Return whether all that the next epoch needs from outside is there."""
        offsets = self._unit.plan.offsets
        scored, weighted, divided = (following[offsets[name]] for name in ("BQK", "SLNV", "AV"))
        bits = {tensor: len(getattr(self, f"loaded_{tensor.lower()}")) for tensor in "QKV"}
        return (
            (~scored.there | (self.loaded_q != scored.query_tile))
            & (~scored.there | (self.loaded_k != scored.key_tile[: bits["K"]]))
            & (~weighted.there | (self.loaded_v != weighted.key_tile[: bits["V"]]))
            & (~(divided.there & divided.last) | self.room)
        )

    def _issue(self, m: Any, steps: list[_Step]) -> None:
        """Drive the micro-operations, and release what their last ones have read."""
        for array, port in (("2d", self.matrix), ("1d", self.vector)):
            for step in steps:
                if step.array != array:
                    continue
                with m.If(step.chosen):
                    m.d.comb += [
                        port.einsum.eq(EINSUM_CODES[step.name]),
                        port.outer.eq(step.outer),
                        port.inner.eq(step.inner),
                        port.outer_ends.eq(step.outer_ends),
                        port.inner_ends.eq(step.inner_ends),
                        port.tile.eq(step.tile),
                    ]
        for step in steps:
            done = step.chosen & step.outer_ends & step.inner_ends
            if step.name == "BQK":
                m.d.comb += [
                    self.release_q.eq(done & step.tile.releases_q),
                    self.release_k.eq(done & step.tile.releases_k),
                ]
            if step.name == "SLNV":
                m.d.comb += self.release_v.eq(done & step.tile.releases_k)
