"""Which tiles run under the filters of a cascade: found by looking at every point."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from accel.cascade import Cascade, Einsum
from accel.errors import InputError
from accel.expression import Condition
from accel.schedule import MaskedTiles, Plan
from sim.events.points import Array, coordinates
from sim.events.tiles import Tile

__all__ = ["passes", "placed", "running"]

_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
}


def passes(conditions: Iterable[Condition], at: Mapping[str, Array], sizes: Mapping[str, int]) -> Array:
    """Return which points pass all conditions, from the coordinates of each rank at every point."""
    found: Array = np.ones((), dtype=bool)
    for condition in conditions:
        coefficients, constant = condition.difference(sizes)
        value: Array = np.asarray(constant)
        for rank, factor in coefficients.items():
            value = value + factor * at[rank]
        found = found & _COMPARE[condition.comparison](value, 0)
    return found


def _has_point(einsum: Einsum, plan: Plan, tile: Tile, sizes: Mapping[str, int]) -> bool:
    """Return whether the filter of an Einsum leaves a point in a tile."""
    ranks = tuple(dict.fromkeys(rank for condition in einsum.conditions for rank in condition.ranks))
    grid = np.meshgrid(*(coordinates(rank, plan, tile, sizes) for rank in ranks), indexing="ij")
    return bool(passes(einsum.conditions, dict(zip(ranks, grid, strict=True)), sizes).any())


def _masked_rank(cascade: Cascade, plan: Plan) -> str | None:
    """Return the first split rank that filters mention and no output has."""
    written = {rank for name in cascade.outputs for rank in cascade.einsum(name).output.ranks}
    for einsum in cascade.einsums:
        for condition in einsum.conditions:
            for part in condition.ranks:
                rank = plan.split_of.get(part, part)
                if rank in plan.splits and not written & {rank, *plan.splits[rank]}:
                    return rank
    return None


def running(cascade: Cascade, plan: Plan, tiles: list[Tile], sizes: Mapping[str, int]) -> list[Tile]:
    """Return the tiles that run, numbered anew.

    Along the masked rank those run that lie between the first and the last in which a filtered Einsum has a point; the
    last tile alone where none has.

    Raises
    ------
    InputError
        The plan skips tiles, and there is no rank along which it could.
    """
    filtered = [einsum for einsum in cascade.einsums if einsum.conditions]
    if not filtered or plan.masked_tiles is MaskedTiles.RUN:
        return tiles
    rank = _masked_rank(cascade, plan)
    if rank is None:
        raise InputError(
            "a filter must mention a split rank that no output has for empty tiles to be skipped, but none of those of "
            f"cascade {cascade.name!r} does",
            hint="set masked_tiles: run in the plan",
        )
    rows: dict[tuple[object, ...], list[Tile]] = {}
    for tile in tiles:
        rows.setdefault(_row(tile, rank), []).append(tile)
    wanted: set[int] = set()
    known: dict[tuple[int, ...], bool] = {}
    for row in rows.values():
        row.sort(key=lambda tile: tile.begin[rank])
        found = []
        for place, tile in enumerate(row):
            key = (*tile.begin.values(), *tile.end.values())
            if key not in known:
                known[key] = any(_has_point(einsum, plan, tile, sizes) for einsum in filtered)
            if known[key]:
                found.append(place)
        chosen = row[found[0] : found[-1] + 1] if found else row[-1:]
        wanted |= {tile.number for tile in chosen}
    kept = [tile for tile in tiles if tile.number in wanted]
    return [replace(tile, number=number) for number, tile in enumerate(kept)]


def _row(tile: Tile, rank: str) -> tuple[object, ...]:
    """Return what tiles share that differ along one rank only."""
    return (tile.run, tile.instance, *(begin for other, begin in tile.begin.items() if other != rank))


def placed(tiles: list[Tile]) -> list[Tile]:
    """Return the tiles, each with those before and behind it along every split rank."""
    before: dict[int, dict[str, tuple[Tile, ...]]] = {tile.number: {} for tile in tiles}
    last: dict[int, dict[str, bool]] = {tile.number: {} for tile in tiles}
    for rank in tiles[0].begin if tiles else ():
        rows: dict[tuple[object, ...], list[Tile]] = {}
        for tile in tiles:
            rows.setdefault(_row(tile, rank), []).append(tile)
        for row in rows.values():
            row.sort(key=lambda tile: tile.begin[rank])
            for place, tile in enumerate(row):
                before[tile.number][rank] = tuple(row[:place])
                last[tile.number][rank] = place == len(row) - 1
    return [replace(tile, before=before[tile.number], last=last[tile.number]) for tile in tiles]
