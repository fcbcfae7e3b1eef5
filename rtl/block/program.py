"""The front of the block unit: checks operations, keeps them in order, and runs the loader of weights ahead."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from accel.block_unit import FIELDS, KINDS, MAX_OPERATIONS, BlockUnit
from rtl.linear.layouts import shape_layout
from rtl.stream import MemoryFifo

__all__ = ["Program", "expert_shapes_layout", "operation_layout"]


def operation_layout() -> data.StructLayout:
    """Return an operation as it comes: ``accel.block_unit.FIELDS``, 16 bits each."""
    return data.StructLayout({name: unsigned(16) for name in FIELDS})


def expert_shapes_layout(unit: BlockUnit) -> data.StructLayout:
    """Return what the loader needs of an operation: the layer's dimensions, or those of both layers of each expert.

    A gate has none, but the loader must not pass it before it has chosen.
    """
    return data.StructLayout({"first": shape_layout(unit), "second": shape_layout(unit), "experts": 1, "gate": 1})


class Program(wiring.Component):
    """Takes operations, drops those that the unit cannot do, and gives each to the executor and to the loader.

    An operation stands at ``operations`` 3 cycles after it was taken, or one cycle after the one before it was taken;
    a layer's dimensions stand at ``shapes`` one cycle after, or right behind those before.

    Parameters
    ----------
    unit : BlockUnit
        What the unit can do.

    Members
    -------
    incoming : In(stream of operation_layout)
        Operations.
    operations : Out(stream of operation_layout)
        Those that were taken, in their order.
    shapes : Out(stream of shape_layout)
        The dimensions of their linear layers, in their order.
    experts : In(range(list_count + 1))
        Experts that have work, after ``gated`` until the next gate begins.
    gated : In(1)
        The gate has chosen, in this cycle.
    refused : Out(1)
        An operation is dropped in this cycle.
    """

    def __init__(self, unit: BlockUnit) -> None:
        self._unit = unit
        super().__init__(
            {
                "incoming": In(stream.Signature(operation_layout())),
                "operations": Out(stream.Signature(operation_layout())),
                "shapes": Out(stream.Signature(shape_layout(unit))),
                "experts": In(range(unit.list_count + 1)),
                "gated": In(1),
                "refused": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Build the check, the two queues, and the loader's turn through experts."""
        m = Module()
        unit, incoming = self._unit, self.incoming.payload
        layout = expert_shapes_layout(unit)
        m.submodules.operation_queue = kept = MemoryFifo(operation_layout(), depth=MAX_OPERATIONS)
        m.submodules.shape_queue = ahead = fifo.SyncFIFO(width=layout.size, depth=MAX_OPERATIONS)
        wiring.connect(m, kept.o, wiring.flipped(self.operations))
        good, layered, room = Signal(), Signal(), Signal()
        gate = _is(incoming.kind, "gate")
        m.d.comb += [
            good.eq(self._good(m)),
            layered.eq(_is(incoming.kind, "linear") | _is(incoming.kind, "experts") | gate),
            room.eq(kept.i.ready & ahead.w_rdy),
            self.incoming.ready.eq(room),
            Value.cast(kept.i.payload).eq(Value.cast(incoming)),
            kept.i.valid.eq(self.incoming.valid & room & good),
            ahead.w_en.eq(self.incoming.valid & room & good & layered),
            self.refused.eq(self.incoming.valid & room & ~good),
        ]
        shapes = Signal(layout)
        low = unit.linear.tile.bit_length() - 1
        for side, (inner, outer) in (
            ("first", (incoming.in_features, incoming.out_features)),
            ("second", (incoming.out_features, incoming.in_features)),
        ):
            blocks = (inner + (unit.linear.tile - 1))[low:]
            m.d.comb += [
                shapes[side].blocks.eq(blocks[: len(shapes[side].blocks)]),
                shapes[side].out_features.eq(outer[: len(shapes[side].out_features)]),
            ]
        m.d.comb += [
            shapes.experts.eq(_is(incoming.kind, "experts")),
            shapes.gate.eq(gate),
            ahead.w_data.eq(Value.cast(shapes)),
        ]
        self._load(m, ahead)
        return m

    def _load(self, m: Any, ahead: Any) -> None:
        """Offer the dimensions of each layer to the loader; those of experts as often as the gate says."""
        head = Signal(expert_shapes_layout(self._unit), name="ahead")
        second, expert, ends, chosen, empty = Signal(), Signal(self.experts.shape()), Signal(), Signal(), Signal()
        sent = Signal(name="shape_sent")
        m.d.comb += [
            Value.cast(head).eq(ahead.r_data),
            empty.eq(head.experts & ~self.experts.any()),
            self.shapes.valid.eq(ahead.r_rdy & ~head.gate & ~empty),
            Value.cast(self.shapes.payload).eq(
                Mux(head.experts & second, Value.cast(head.second), Value.cast(head.first))
            ),
            ends.eq(~head.experts | (second & (expert == self.experts - 1))),
            sent.eq(self.shapes.valid & self.shapes.ready),
            ahead.r_en.eq((sent & ends) | (ahead.r_rdy & ((head.gate & chosen) | empty))),
        ]
        with m.If(self.gated):
            m.d.sync += chosen.eq(1)
        with m.Elif(ahead.r_rdy & head.gate):
            m.d.sync += chosen.eq(0)
        with m.If(sent & head.experts):
            m.d.sync += second.eq(~second)
            with m.If(second):
                m.d.sync += expert.eq(Mux(ends, 0, (expert + 1)[: len(expert)]))

    def _good(self, m: Any) -> Any:
        """Return whether the unit can do the operation that is offered; where its rows lie is the sender's affair."""
        unit, given = self._unit, self.incoming.payload
        built = {
            "normalise": unit.norm is not None,
            "attend": unit.attention is not None,
            "gate": unit.gate is not None,
            "experts": unit.gate is not None and unit.linear.activation is not None,
        }
        kinds = [_is(given.kind, kind) for kind in KINDS if built.get(kind, True)]
        moved = _is(given.kind, "load") | _is(given.kind, "store")
        layered = _is(given.kind, "linear") | _is(given.kind, "experts")
        low, linear = unit.linear.tile.bit_length() - 1, unit.linear
        blocks = [Signal(16, name=f"{side}_blocks") for side in ("in", "out")]
        for signal, features in zip(blocks, (given.in_features, given.out_features), strict=True):
            m.d.comb += signal.eq((features + (linear.tile - 1))[low:])
        tiles = blocks[0] * blocks[1]
        fits = (
            given.in_features.any()
            & given.out_features.any()
            & (given.in_features <= linear.max_features)
            & (given.out_features <= linear.max_features)
            & (tiles <= linear.weight_tiles)
        )
        rows = given.rows.any() & (given.rows <= Mux(moved, min(unit.memory_words, 65535), unit.max_rows))
        activates = _is(given.kind, "linear") & given.flags[4]
        checks = [Cat(kinds).any(), rows, ~layered | fits]
        if linear.activation is None:
            checks.append(~activates)
        if unit.norm is not None:
            most = min(unit.norm.capacity, 65535)
            checks.append(~_is(given.kind, "normalise") | (given.in_features.any() & (given.in_features <= most)))
        if unit.attention is not None:
            attends = _is(given.kind, "attend")
            checks.append(~attends | (given.queue.any() & (given.rows <= unit.attention.max_length)))
        lists = _is(given.kind, "load_list") | _is(given.kind, "linear")
        checks.append(~lists | (given.queue < unit.list_count))
        return Cat(checks).all()


def _is(kind: Any, name: str) -> Any:
    return kind == KINDS[name]
