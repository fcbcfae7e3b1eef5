"""Excerpts of a sequence of tiles, written out: short, yet with every neighbourhood that the whole sequence has."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from accel.arch import PipelineFill
from accel.schedule import Level

if TYPE_CHECKING:
    from mapping.tiling import Tiling

__all__ = ["Excerpt", "Ints", "excerpts", "shortened"]

Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class Excerpt:
    """Tiles that follow each other.

    Parameters
    ----------
    instances : ndarray[tiles], int64
        The instance of each.
    numbers : mapping of str to ndarray[tiles], int64
        Split rank to the number of the tile along it.
    final : mapping of str to ndarray[tiles], bool
        Split rank to whether no tile of the same place along the other ranks comes after it.
    last : mapping of str to ndarray[tiles], bool
        Split rank to whether the tile is the last along it, which may be smaller.
    per_iteration : mapping of str to int
        Loop to the tiles, along its split rank, of one iteration.
    opens, closes : bool
        Whether no tile comes before the first one, and none after the last.
    """

    instances: Ints
    numbers: Mapping[str, Ints]
    final: Mapping[str, Bools]
    last: Mapping[str, Bools]
    per_iteration: Mapping[str, int]
    opens: bool = True
    closes: bool = True

    def __len__(self) -> int:
        """Return the number of tiles."""
        return int(self.instances.size)

    @cached_property
    def places(self) -> Ints:
        """0, 1, 2 ...: the place of each tile."""
        return np.arange(len(self), dtype=np.int64)

    @cached_property
    def kinds(self) -> Ints:
        """A number for each tile, equal where the same Einsums run for tiles of the same size."""
        found = np.zeros(len(self), dtype=np.int64)
        for flags in (*self.final.values(), *self.last.values()):
            found = found * 2 + flags
        return found

    def runs(self, missing: tuple[str, ...]) -> Bools:
        """Return for which tiles an Einsum runs that does not take part in the loops of the ranks ``missing``."""
        runs = np.ones(len(self), dtype=np.bool_)
        for rank in missing:
            runs &= self.final[rank]
        return runs

    def key(self, columns: list[Ints]) -> Ints:
        """Return a number for each tile, equal where all ``columns`` and the instance are."""
        return self.joined([self.instances, *columns])

    def joined(self, columns: list[Ints]) -> Ints:
        """Return a number for each tile, equal where all ``columns`` are."""
        found = np.zeros(len(self), dtype=np.int64)
        for column in columns:
            found = found * (int(column.max(initial=0)) + 1) + column
        return found


def shortened(count: int, reach: int, period: int) -> int:
    """Return a count that stands for ``count`` where nothing further away than ``reach`` matters.

    It is ``count`` itself or more than ``reach``, and the same modulo ``period``.
    """
    return count if count <= reach else reach + 1 + (count - reach - 1) % period


def _short_rank(inner: tuple[int, ...], count: int, reach: int, period: int) -> tuple[tuple[int, ...], int]:
    """Return shorter loops of a split rank, outermost first, and their tiles in all.

    ``inner`` holds the iterations of each loop but the outermost within one of the loop around it; ``count`` is the
    number of tiles. The last iteration of each loop may have fewer: it stays partial or whole.
    """
    if not inner:
        return (), shortened(count, reach, period)
    block = math.prod(inner)
    whole, rest = divmod(count - 1, block)
    short_inner, short_rest = _short_rank(inner[1:], rest + 1, reach, period)
    within = math.prod(short_inner)
    iterations = -(-short_rest // within)  # of the loop inner[0], in the last iteration of the loop around it
    first = shortened(inner[0], reach, period)
    last_whole = -(-(rest + 1) // math.prod(inner[1:])) == inner[0]
    if last_whole:
        first = max(first, iterations)
        short_rest = (first - iterations) * within + short_rest
    else:
        while first <= iterations:
            first += period
    return (first, *short_inner), (shortened(whole + 1, reach, period) - 1) * first * within + short_rest


@lru_cache(maxsize=256)
def _nest(loops: tuple[tuple[str, str, int], ...], blocks: tuple[tuple[str, int], ...], instances: int) -> Excerpt:
    """Return the tiles of a nest of loops.

    ``loops`` holds each loop, its split rank and its tiles in one iteration, ``blocks`` each rank's tiles in all.
    """
    ranks = dict(blocks)

    def walk(depth: int, ranges: Mapping[str, tuple[int, int]]) -> Iterator[tuple[int, ...]]:
        if depth == len(loops):
            yield tuple(begin for begin, _ in ranges.values())
            return
        _, rank, count = loops[depth]
        begin, end = ranges[rank]
        for start in range(begin, end, count):
            yield from walk(depth + 1, {**ranges, rank: (start, min(start + count, end))})

    one = np.array(list(walk(0, {rank: (0, count) for rank, count in ranks.items()})), dtype=np.int64)
    one = one.reshape(-1, len(ranks))
    numbers = {rank: np.tile(one[:, column], instances) for column, rank in enumerate(ranks)}
    last = {rank: numbers[rank] == count - 1 for rank, count in ranks.items()}
    return Excerpt(
        instances=np.repeat(np.arange(instances, dtype=np.int64), len(one)),
        numbers=numbers,
        final=last,
        last=last,
        per_iteration={loop: count for loop, _, count in loops},
    )


def excerpts(tiling: Tiling, reach: int) -> tuple[Excerpt, ...]:
    """Return excerpts that have, between them, any tiles that lie up to ``reach`` apart in the whole sequence.

    What counts of two tiles is how far apart they are, along which ranks they have the same number or the next one,
    and which are the last. Loops of more iterations than ``reach`` are cut short to that.
    """
    plan, inputs = tiling.bound.plan, tiling.bound.inputs
    homes = [home for tensor, home in plan.residency.items() if tensor not in inputs and home.level is Level.BUFFER]
    period = math.lcm(*(home.copies for home in homes))
    endless = tiling.bound.architecture.pipeline_fill is PipelineFill.HIDDEN
    if tiling.masked is not None:
        instances = 2 + reach // tiling.masked.sequence(0).length
        return tiling.masked.excerpts(reach, instances if endless else min(tiling.workload.instances, instances))
    per_iteration: dict[str, int] = {}
    blocks = []
    for rank, parts in plan.splits.items():
        inner = tuple(tiling.tiles[part] for part in parts[1:-1])
        short, count = _short_rank(inner, tiling.iterations(parts[-2]), reach, period)
        blocks.append((rank, count))
        for place, loop in enumerate(parts[:-1]):
            per_iteration[loop] = math.prod(short[place:])
    loops = tuple((loop, plan.split_of[loop], per_iteration[loop]) for loop in plan.loops)
    instances = 2 + reach // math.prod(count for _, count in blocks)
    return (_nest(loops, tuple(blocks), instances if endless else min(tiling.workload.instances, instances)),)
