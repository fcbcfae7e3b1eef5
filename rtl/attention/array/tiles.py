"""The tiles of a job, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from accel.attention_array import AttentionArray
from rtl.attention.array.buffers import job_layout
from rtl.attention.array.layouts import Layouts

__all__ = ["TileWalk", "tile_layout"]


@dataclass(frozen=True, kw_only=True)
class Rings:
    """Sizes of the rings in which tiles of inputs lie.

    Parameters
    ----------
    unit : AttentionArray
        The array.
    """

    unit: AttentionArray

    def places(self, tensor: str) -> int:
        """Return the places of a ring, a power of two."""
        tiles = self.unit.query_tiles if tensor == "Q" else 1
        return 1 << (self.unit.plan.residency[tensor].copies * tiles - 1).bit_length()

    def count_bits(self, tensor: str) -> int:
        """Return the width of a count of tiles modulo twice the places."""
        return self.places(tensor).bit_length()


def tile_layout(unit: AttentionArray) -> data.StructLayout:
    """Return what the sequencer keeps of a tile.

    ``lead`` is the index of its first key minus that of its first query; ``query_tile`` and ``key_tile`` count tiles as
    the buffers do; ``releases_q`` and ``releases_k`` say that Q, or K and V, are needed no more after it.
    """
    layouts, rings = Layouts(unit=unit), Rings(unit=unit)
    return data.StructLayout(
        {
            "there": 1,
            "queries": layouts.count_bits,
            "keys": unit.keys_per_tile.bit_length(),
            "turns": unit.turns.bit_length(),
            "lead": signed(unit.max_length.bit_length() + 1),
            "place": layouts.place_bits,
            "number": layouts.number_bits,
            "first": 1,
            "last": 1,
            "ends": 1,
            "query_tile": rings.count_bits("Q"),
            "key_tile": max(rings.count_bits("K"), rings.count_bits("V")),
            "releases_q": 1,
            "releases_k": 1,
        }
    )


class TileWalk(wiring.Component):
    """Yields the tiles of a job in the order of the loops: heads, groups of query tiles, key tiles, query tiles.

    ``tile`` is the next one, from registers and a few additions; it is there from the cycle after ``start``, and the
    one after it from the cycle after ``next``.

    Parameters
    ----------
    unit : AttentionArray
        The array.

    Members
    -------
    start : In(1)
        Take up ``job``.
    job : In(job_layout)
        The job.
    next : In(1)
        The tile is taken.
    tile : Out(tile_layout)
        The tile; ``there`` is 0 after the last.
    """

    def __init__(self, unit: AttentionArray) -> None:
        self._unit = unit
        super().__init__({"start": In(1), "job": In(job_layout(unit)), "next": In(1), "tile": Out(tile_layout(unit))})

    def elaborate(self, platform: Any) -> Any:
        """Build four nested loops."""
        m = Module()
        unit, tile = self._unit, self.tile
        bits = unit.max_length.bit_length() + 1
        p0, m0 = unit.queries_per_tile, unit.keys_per_tile
        active, heads = Signal(), Signal(16)
        queries, keys, group, key, query = (
            Signal(bits, name=name) for name in ("queries", "keys", "group", "key", "query")
        )
        number = Signal(len(tile.number))
        query_tile, group_tile = Signal(len(tile.query_tile)), Signal(len(tile.query_tile))
        key_tile = Signal(len(tile.key_tile))
        place = Signal(len(tile.place))
        queries_left, keys_left = Signal(bits), Signal(bits)
        last_query, last_key, last_group, last_place = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            queries_left.eq((queries - query)[:bits]),
            keys_left.eq((keys - key)[:bits]),
            last_query.eq(queries_left <= p0),
            last_place.eq(last_query | (place == unit.query_tiles - 1)),
            last_key.eq(keys_left <= m0),
            last_group.eq(last_query),
            tile.there.eq(active),
            tile.queries.eq(Mux(last_query, queries_left[: len(tile.queries)], p0)),
            tile.keys.eq(Mux(last_key, keys_left[: len(tile.keys)], m0)),
            tile.turns.eq(1 + sum((tile.keys > turn * unit.rows) for turn in range(1, unit.turns))),
            tile.lead.eq(key - query),
            tile.place.eq(place),
            tile.number.eq(number),
            tile.first.eq(~key.any()),
            tile.last.eq(last_key),
            tile.ends.eq(last_key & last_query),
            tile.query_tile.eq(query_tile),
            tile.key_tile.eq(key_tile),
            tile.releases_q.eq(last_key),
            tile.releases_k.eq(last_place & ((keys > m0) | last_query)),
        ]
        following = Signal(len(query_tile))
        m.d.comb += following.eq(query_tile + 1)
        with m.If(self.start):
            m.d.sync += [
                active.eq(1),
                heads.eq(self.job.heads),
                queries.eq(self.job.queries),
                keys.eq(self.job.keys),
                *(each.eq(0) for each in (group, key, query, number, query_tile, group_tile, key_tile, place)),
            ]
        with m.Elif(self.next):
            m.d.sync += [
                number.eq(number + 1),
                query.eq(query + p0),
                place.eq(place + 1),
                query_tile.eq(following),
                key_tile.eq(key_tile + tile.releases_k),
            ]
            with m.If(last_place):
                m.d.sync += [key.eq(key + m0), query.eq(group), place.eq(0), query_tile.eq(group_tile)]
                with m.If(last_key):
                    m.d.sync += [key.eq(0), group.eq(query + p0), query.eq(query + p0)]
                    m.d.sync += [query_tile.eq(following), group_tile.eq(following)]
                    with m.If(last_group):
                        m.d.sync += [group.eq(0), query.eq(0), heads.eq(heads - 1), active.eq(heads != 1)]
        return m
