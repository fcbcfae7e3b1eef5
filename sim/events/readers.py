"""Who reads what each tile makes: known before the first cycle, so that a value is given up with its last reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from accel.schedule import Level
from sim.events.points import Array
from sim.events.tiles import Tile
from sim.events.work import Shop

__all__ = ["Readers"]

Block = tuple[str, int]
"""A tensor and the number of the tile in which a part of it is made."""


class Readers:
    """Counts the jobs that have yet to read each block.

    Tiles are gone through in the order of the loops, one finished before the next. What is streamed is for its own
    tile alone.

    Parameters
    ----------
    shop : Shop
        What is to be done.
    tiles : sequence of Tile
        In which tiles.
    instances : int
        Instances of a repetition.

    Members
    -------
    blocks : dict of (Einsum, tile) to list of Block
        What a job reads.
    """

    def __init__(self, shop: Shop, tiles: Sequence[Tile], instances: int) -> None:
        copies = (tiles[-1].run + 1) * instances
        self.blocks: dict[tuple[str, int], list[Block]] = {}
        self._left: Counter[Block] = Counter()
        self._left_on: Counter[tuple[str, int, str]] = Counter()
        self._arrays = shop.schedule.plan.binding
        self._last_maker: dict[str, Array] = {
            name: np.full((copies, shop.size(name)), -1) for name in shop.cascade.tensors
        }
        residency = shop.schedule.plan.residency
        for tile in tiles:
            copy = tile.copy(instances)
            for einsum in shop.einsums:
                if not shop.runs(einsum, tile):
                    continue
                work = shop.work(einsum, tile)
                found: set[Block] = set()
                for access in shop.needs(einsum, tile):
                    makers = np.unique(self._last_maker[access.tensor][copy, work.reads[access]])
                    found |= {(access.tensor, int(maker)) for maker in makers if maker >= 0}
                found = {
                    each for each in found if residency[each[0]].level is not Level.STREAM or each[1] == tile.number
                }
                self.blocks[einsum.name, tile.number] = sorted(found)
                for block in found:
                    self._left[block] += 1
                    self._left_on[*block, self._arrays[einsum.name]] += 1
                self._last_maker[einsum.name][copy, work.makes] = tile.number

    def left(self, block: Block) -> int:
        """Return how many jobs have yet to read a block."""
        return self._left[block]

    def left_on(self, block: Block, array: str) -> int:
        """Return how many of them run on an array."""
        return self._left_on[*block, array]

    def has_read(self, einsum: str, block: Block) -> None:
        """Note that the job of an Einsum is done with a block."""
        self._left[block] -= 1
        self._left_on[*block, self._arrays[einsum]] -= 1

    def is_last_maker(self, tensor: str, tile: int, copy: int, places: Array) -> bool:
        """Return whether no later tile goes on with the values of ``places``."""
        return bool(self._last_maker[tensor][copy, places].max() == tile)
