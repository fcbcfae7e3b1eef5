"""The buffers of Q, K and V: filled from a stream tile by tile, read by address."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from accel.attention_array import AttentionArray
from rtl.attention.array.layouts import Layouts

__all__ = ["TileBuffer", "job_layout"]


def job_layout(unit: AttentionArray) -> data.StructLayout:
    """Return the layout of a job."""
    bits = (unit.max_length + 1).bit_length()  # so that a length above the maximum can be told
    return data.StructLayout({"queries": bits, "keys": bits, "heads": 16, "causal": 1})


class TileBuffer(wiring.Component):
    """A ring of tiles in one block RAM whose output is registered twice.

    A beat is written in the cycle in which it is accepted; a word addressed in cycle c stands at ``data`` in cycle
    c + 2 and stays there until the next one. One beat in and one word out a cycle. A tile counts in ``loaded`` from the
    cycle after its last beat, and its place is free from the cycle after ``release``.

    Parameters
    ----------
    unit : AttentionArray
        The array.
    tensor : str
        ``Q``, ``K`` or ``V``.

    Members
    -------
    start : In(1)
        Take up ``job``.
    job : In(job_layout)
        What to expect.
    beats : In(stream)
        Lanes of one feature.
    loaded : Out(bits)
        Tiles loaded since the job began, modulo twice the places.
    release : In(1)
        The oldest tile is no longer needed.
    enable, slot, turn, feature : In
        Address of the word to read.
    data : Out
        The word.
    written : Out
        Lanes of the job in the beat that is accepted in this cycle; 0 if none is.
    busy : Out(1)
        Beats of the job are still to come.
    """

    def __init__(self, unit: AttentionArray, tensor: str) -> None:
        self._unit, self._tensor, self._layouts = unit, tensor, Layouts(unit=unit)
        layouts = self._layouts
        copies = unit.plan.residency[tensor].copies
        wide, self._element = {
            "Q": (unit.columns, unit.query_format),
            "K": (unit.rows, unit.key_format),
            "V": (unit.rows, unit.value_format),
        }[tensor]
        self._dim = unit.value_dim if tensor == "V" else unit.query_key_dim
        self._places = 1 << (copies * (unit.query_tiles if tensor == "Q" else 1) - 1).bit_length()
        self._lanes = wide
        self._feature_bits = layouts.value_index_bits if tensor == "V" else layouts.query_index_bits
        payload = layouts.payload(wide, self._element.width_bits)
        super().__init__(
            {
                "start": In(1),
                "job": In(job_layout(unit)),
                "beats": In(stream.Signature(payload)),
                "loaded": Out(self._places.bit_length()),
                "release": In(1),
                "enable": In(1),
                "slot": In(self.slot_bits),
                "turn": In(layouts.turn_bits),
                "feature": In(self._feature_bits),
                "data": Out(payload),
                "written": Out(wide.bit_length()),
                "busy": Out(1),
            }
        )

    @property
    def slot_bits(self) -> int:
        """Width of a place in the ring; at least 1."""
        return max(1, (self._places - 1).bit_length())

    def _address(self, slot: Any, turn: Any, feature: Any) -> Any:
        parts = [feature]
        if self._tensor != "Q" and self._unit.turns > 1:
            parts.append(turn)
        if self._places > 1:
            parts.append(slot)
        return Cat(*parts)

    def elaborate(self, platform: Any) -> Any:
        """Build the memory, the counts of tiles, and the loops of the job."""
        m = Module()
        turn, feature = (
            Signal(self._layouts.turn_bits, name="load_turn"),
            Signal(self._feature_bits, name="load_feature"),
        )
        address = self._address(self.loaded[: self.slot_bits], turn, feature)
        width = self._lanes * self._element.width_bits
        m.submodules.storage = storage = memory.Memory(shape=unsigned(width), depth=1 << len(address), init=[])
        writer, reader = storage.write_port(), storage.read_port()
        released = Signal(len(self.loaded))
        full = Signal()
        taken = Signal()
        output = Signal(width, reset_less=True)
        m.d.comb += [
            full.eq((self.loaded - released)[: len(released)] == self._places),
            self.beats.ready.eq(self.busy & ~full),
            taken.eq(self.beats.ready & self.beats.valid),
            writer.addr.eq(address),
            writer.data.eq(self.beats.payload),
            writer.en.eq(taken),
            reader.addr.eq(self._address(self.slot, self.turn, self.feature)),
            reader.en.eq(self.enable),
            self.data.as_value().eq(output),
        ]
        m.d.sync += output.eq(reader.data)
        with m.If(self.release):
            m.d.sync += released.eq((released + 1)[: len(released)])
        self._walk(m, taken, turn, feature)
        with m.If(self.start):
            m.d.sync += [self.loaded.eq(0), released.eq(0)]
        return m

    def _walk(self, m: Any, taken: Any, turn: Any, feature: Any) -> None:
        """Count features, turns, tiles, groups and heads of the job."""
        unit, q = self._unit, self._tensor == "Q"
        bits = unit.max_length.bit_length() + 1
        heads = Signal(16)
        length, first, group, queries = (Signal(bits, name=name) for name in ("length", "first", "group", "queries"))
        tile = unit.queries_per_tile if q else unit.keys_per_tile
        step = unit.queries_per_tile * unit.query_tiles
        inside, last_turn, last_tile, last_group = Signal(bits), Signal(), Signal(), Signal()
        done = Signal(self._lanes.bit_length() + 8)
        m.d.comb += done.eq(turn * self._lanes if not q else 0)
        tile_rest = Signal(bits)
        m.d.comb += [
            tile_rest.eq(Mux((length - first)[:bits] < tile, (length - first)[:bits], tile)),
            inside.eq((tile_rest - done)[:bits]),
            last_turn.eq(1 if q else inside <= self._lanes),
            last_tile.eq((length - first)[:bits] <= tile),
            # K and V of a single tile serve all groups of a head.
            last_group.eq(1 if q else ((queries - group)[:bits] <= step) | (length <= tile)),
        ]
        with m.If(taken):
            m.d.comb += self.written.eq(Mux(inside < self._lanes, inside[: len(self.written)], self._lanes))
        with m.If(self.start):
            m.d.sync += [
                heads.eq(self.job.heads),
                length.eq(self.job.queries if q else self.job.keys),
                queries.eq(self.job.queries),
                *(each.eq(0) for each in (first, group, turn, feature)),
                self.busy.eq(1),
            ]
        with m.Elif(taken):
            m.d.sync += feature.eq((feature + 1)[: len(feature)])
            with m.If(feature == self._dim - 1):
                m.d.sync += [feature.eq(0), turn.eq((turn + 1)[: len(turn)])]
                with m.If(last_turn):
                    m.d.sync += [turn.eq(0), self.loaded.eq((self.loaded + 1)[: len(self.loaded)])]
                    m.d.sync += first.eq((first + tile)[:bits])
                    with m.If(last_tile):
                        m.d.sync += [first.eq(0), group.eq((group + step)[:bits])]
                        with m.If(last_group):
                            m.d.sync += [group.eq(0), heads.eq((heads - 1)[: len(heads)])]
                            with m.If(heads == 1):
                                m.d.sync += self.busy.eq(0)
