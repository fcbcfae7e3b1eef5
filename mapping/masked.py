"""The sequence of tiles under a mask: groups of rows, of which equal ones are counted and written out once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from mapping.excerpt import Bools, Excerpt, Ints
from mapping.mask import Mask
from mapping.sequence import Sequence
from mapping.tile_class import TileClass

if TYPE_CHECKING:
    from accel.schedule import Plan
    from mapping.tiling import Tiling

__all__ = ["MaskedTiles", "Pattern", "masked_fetches", "touched_rows"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Pattern:
    """The tiles of a group, in their order.

    Parameters
    ----------
    row, column : ndarray[tiles], int64
        Place of the tile along the rows of the group, and along the masked rank from the first tile of the group on.
    final : ndarray[tiles], bool
        Whether it is the last of its row.
    partial_row, partial_column : ndarray[tiles], bool
        Whether it is the last of its rank, which may be smaller.
    """

    row: Ints
    column: Ints
    final: Bools
    partial_row: Bools
    partial_column: Bools

    def __len__(self) -> int:
        """Return the number of tiles."""
        return int(self.row.size)

    @cached_property
    def least_distance(self) -> int | None:
        """The least distance of two tiles that follow each other in a row; None if no row has two."""
        order = np.lexsort((self.column, self.row))
        same = self.row[order[1:]] == self.row[order[:-1]]
        return int((order[1:] - order[:-1])[same].min()) if same.any() else None


class MaskedTiles:
    """The tiles of one instance that run, in groups: the rows inside the loop over the masked rank.

    All loops of rows stand outside the loop over the masked rank, or inside it. A group is one iteration of those
    outside: for each tile of the masked rank its rows follow each other, as far as they run there. Where all rows run
    for many tiles of the masked rank, only a few of these are written out; the others are the same.

    Parameters
    ----------
    tiling : Tiling
        The tiling; no other rank is split.
    mask : Mask
        Its mask.
    first, last : ndarray[rows], int64
        For each tile of the row rank the tiles of the masked rank between which it runs.
    """

    def __init__(self, tiling: Tiling, mask: Mask, first: Ints, last: Ints) -> None:
        self.tiling, self.mask = tiling, mask
        self.first, self.last = first, last
        plan = tiling.bound.plan
        self._sequences: dict[int, Sequence[TileClass | None]] = {}
        self.rows = int(first.size)
        self.columns = tiling.iterations(plan.splits[mask.rank][-2])
        outside = plan.loops[: plan.loops.index(plan.splits[mask.rank][0])]
        tile = tiling.tiles[plan.splits[mask.row][-1]] if mask.row is not None and mask.row in plan.splits else 1
        self.height = tiling.span(outside[-1]) // tile if outside else self.rows
        self.groups = -(-self.rows // self.height)
        padding = self.groups * self.height - self.rows
        self._low = np.pad(first, (0, padding), constant_values=self.columns).reshape(self.groups, -1)
        self._high = np.pad(last, (0, padding), constant_values=-1).reshape(self.groups, -1)
        self.begin, self.end = self._low.min(axis=1), self._high.max(axis=1)

    # Groups ---------------------------------------------------------------------------------------------------------

    def _cut(self, depth: int) -> tuple[Ints, Ints]:
        """Return how many tiles of the masked rank are left out in each group, and the group's own kind.

        Of those for which all rows of the group run and none begins or ends, some stay: more than ``depth`` tiles.
        """
        real = self._high >= 0
        keep = -(-depth // real.sum(axis=1)) + 2
        middle = np.where(real, self._high, self.columns).min(axis=1) - np.where(real, self._low, -1).max(axis=1) - 1
        extra = np.maximum(middle - keep, 0)
        joined = np.zeros(self.groups, dtype=np.int64)
        joined[1:] = self.end[:-1] == self.begin[1:]
        is_last = np.zeros(self.groups, dtype=np.int64)
        is_last[-1] = 1
        low = np.where(real, self._low - self.begin[:, None], -1)
        high = np.where(real, self._high - (self.begin + extra)[:, None], -1)
        columns = [*low.T, *high.T, joined, is_last, (self.end == self.columns - 1).astype(np.int64)]
        return extra, _kinds(columns)

    def pattern(self, group: int, extra: int) -> Pattern:
        """Return the tiles of a group, ``extra`` tiles of the masked rank left out of its middle."""
        low = self._low[group] - self.begin[group]
        high = np.where(self._high[group] >= 0, self._high[group] - self.begin[group] - extra, -1)
        columns = np.arange(int(high.max()) + 1)[:, None]
        column, row = np.nonzero((columns >= low) & (columns <= high))
        ends = self.end[group] == self.columns - 1
        return Pattern(
            row=row.astype(np.int64),
            column=column.astype(np.int64),
            final=column == high[row],
            partial_row=row + group * self.height == self.rows - 1,
            partial_column=(column == high.max()) & ends,
        )

    def _known(self, depth: int) -> tuple[Ints, Ints, dict[int, Pattern]]:
        """Return left-out tiles and kind of each group, and the pattern of each kind."""
        extra, kinds = self._cut(depth)
        found, places = np.unique(kinds, return_index=True)
        patterns = {
            kind: self.pattern(place, int(extra[place]))
            for kind, place in zip(found.tolist(), places.tolist(), strict=True)
        }
        return extra, kinds, patterns

    # Windows --------------------------------------------------------------------------------------------------------

    def sequence(self, depth: int) -> Sequence[TileClass | None]:
        """Return the tiles of one instance, known by windows of ``depth + 1``."""
        if depth not in self._sequences:
            self._sequences[depth] = self._sequence(depth)
        return self._sequences[depth]

    def _sequence(self, depth: int) -> Sequence[TileClass | None]:
        extra, kinds, patterns = self._known(depth)
        joined = np.zeros(self.groups, dtype=np.bool_)
        joined[1:] = self.end[:-1] == self.begin[1:]
        places = dict(zip(*(each.tolist() for each in np.unique(kinds, return_index=True)), strict=True))
        codes = {kind: self._codes(pattern, bool(joined[places[kind]])) for kind, pattern in patterns.items()}
        lengths = np.array([len(patterns[kind]) for kind in range(len(patterns))], dtype=np.int64)
        back = -(-depth // int(lengths.min()))
        windows: Counter[tuple[int, ...]] = Counter()
        for place, count in _neighbourhoods(kinds, back):
            before = [codes[int(kind)] for kind in kinds[max(place - back, 0) : place]]
            tail = np.concatenate(before)[-depth:] if before and depth else codes[0][:0]
            _count(windows, np.concatenate([tail, codes[int(kinds[place])]]), depth, count)
        for kind, pattern in patterns.items():
            left_out = int(extra[kinds == kind].sum())
            if left_out:
                body = self._middle(pattern)
                around = np.concatenate([body] * (-(-depth // body.size) + 1))[-(depth + body.size) :]
                _count(windows, around, depth, left_out)
        classes = self._classes
        ends = [self._end(codes, kinds, depth, direction) for direction in (1, -1)]
        known: Counter[tuple[TileClass | None, ...]] = Counter()
        for each, count in windows.items():  # some differ in what makes no difference here, such as a whole last tile
            known[tuple(classes[code] for code in each)] += count
        return Sequence(
            depth=depth,
            length=int(lengths[kinds].sum() + self._left_out_tiles(extra)),
            first=tuple(classes[code] for code in ends[0]),
            last=tuple(classes[code] for code in ends[1]),
            windows=known,
        )

    def _left_out_tiles(self, extra: Ints) -> int:
        return int((extra * (self._high >= 0).sum(axis=1)).sum())

    def _end(self, codes: Mapping[int, Ints], kinds: Ints, depth: int, direction: int) -> tuple[int, ...]:
        """Return the first or the last ``depth`` tiles."""
        found: list[int] = []
        for kind in kinds[::direction]:
            if len(found) >= depth:
                break
            own = codes[int(kind)].tolist()
            found = found + own if direction > 0 else own + found
        return tuple(found[:depth] if direction > 0 else found[max(len(found) - depth, 0) :])

    def _codes(self, pattern: Pattern, joined: bool) -> Ints:
        """Return a number of each tile for its class."""
        new_column = np.ones(len(pattern), dtype=np.bool_)
        new_column[1:] = pattern.column[1:] != pattern.column[:-1]
        new_column[0] = not joined
        new_row = np.ones(len(pattern), dtype=np.bool_)
        new_row[1:] = pattern.row[1:] != pattern.row[:-1]
        found = np.zeros(len(pattern), dtype=np.int64)
        for flags in (pattern.partial_row, pattern.partial_column, pattern.final, new_row, new_column):
            found = found * 2 + flags
        return found

    def _middle(self, pattern: Pattern) -> Ints:
        """Return the classes of the rows for one of the tiles of the masked rank that were left out."""
        height = int(pattern.row.max()) + 1
        rows = np.arange(height)
        whole = Pattern(
            row=rows,
            column=np.ones(height, dtype=np.int64),
            final=np.zeros(height, dtype=np.bool_),
            partial_row=(rows == height - 1) & pattern.partial_row[pattern.row == height - 1].any(),
            partial_column=np.zeros(height, dtype=np.bool_),
        )
        codes = self._codes(whole, joined=False)
        if height == 1:
            codes &= ~2  # the same row as the tile before
        return codes

    @cached_property
    def _classes(self) -> Mapping[int, TileClass]:
        """The class of each number."""
        tiling, plan = self.tiling, self.tiling.bound.plan
        full = tiling.full_extents
        rest = tiling.last_extents
        found = {}
        for code in range(32):
            partial_row, partial_column, final, new_row, new_column = (bool(code & bit) for bit in (16, 8, 4, 2, 1))
            partial = {self.mask.row: partial_row, self.mask.rank: partial_column}
            new = {self.mask.row: new_row, self.mask.rank: new_column}
            found[code] = TileClass(
                tuple(rest[rank] if partial[rank] else full[rank] for rank in plan.splits),
                (final,) * len(tiling.bound.once_ranks),
                tuple(new[rank] for rank in plan.splits),
            )
        return found

    # What follows from the spans -------------------------------------------------------------------------------------

    @cached_property
    def least_distance(self) -> int | None:
        """The least distance of two tiles that follow each other along the masked rank; None if no row has two."""
        _, _, patterns = self._known(1)
        found = [each.least_distance for each in patterns.values()]
        return min((each for each in found if each is not None), default=None)

    @cached_property
    def touched(self) -> Bools:
        """For each tile of the masked rank whether any row runs for it."""
        steps = np.zeros(self.columns + 1, dtype=np.int64)
        np.add.at(steps, self.first, 1)
        np.add.at(steps, self.last + 1, -1)
        return np.cumsum(steps[:-1]) > 0

    def excerpts(self, reach: int, instances: int) -> tuple[Excerpt, ...]:
        """Return excerpts as ``mapping.excerpt.excerpts`` does."""
        extra, kinds, patterns = self._known(reach)
        back = -(-reach // min(map(len, patterns.values())))
        wanted = np.zeros(self.groups, dtype=np.bool_)
        for place, _ in _neighbourhoods(kinds, back):
            wanted[max(place - back, 0) : place + 1] = True
        if instances > 1:  # the end of one instance and the beginning of the next
            wanted[: back + 1] = wanted[-(back + 1) :] = True
        edges = np.flatnonzero(np.diff(np.concatenate([[0], wanted.astype(np.int8), [0]])))
        runs = [range(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]
        found = [self._excerpt([(0, group) for group in run], extra) for run in runs]
        if instances > 1:
            whole = [(number, group) for number in range(instances) for group in range(self.groups)]
            seam = [*((0, group) for group in runs[-1]), *((1, group) for group in runs[0])]
            found.append(self._excerpt(whole if len(runs) == 1 else seam, extra, whole=len(runs) == 1))
        return tuple(found)

    def _excerpt(self, groups: list[tuple[int, int]], extra: Ints, *, whole: bool = True) -> Excerpt:
        plan = self.tiling.bound.plan
        patterns = [self.pattern(group, int(extra[group])) for _, group in groups]
        sizes = [len(pattern) for pattern in patterns]
        numbers = {self.mask.rank: np.concatenate([pattern.column for pattern in patterns])}
        last = {self.mask.rank: np.concatenate([pattern.partial_column for pattern in patterns])}
        final = {self.mask.rank: np.concatenate([pattern.final for pattern in patterns])}
        row = self.mask.row
        if row in plan.splits:
            assert row is not None
            places = zip(patterns, groups, strict=True)
            numbers[row] = np.concatenate([pattern.row + group * self.height for pattern, (_, group) in places])
            last[row] = final[row] = numbers[row] == self.rows - 1
        tiles = {rank: self.tiling.tiles[parts[-1]] for rank, parts in plan.splits.items()}
        return Excerpt(
            instances=np.repeat(np.array([instance for instance, _ in groups], dtype=np.int64), sizes),
            numbers={rank: numbers[rank] for rank in plan.splits},
            final=final,
            last=last,
            opens=whole and groups[0][1] == 0,
            closes=whole and groups[-1][1] == self.groups - 1,
            per_iteration={loop: self.tiling.span(loop) // tiles[plan.split_of[loop]] for loop in plan.loops},
        )


def _kinds(columns: list[Ints]) -> Ints:
    """Return a number for each place, counted from 0, equal where all columns are."""
    found = np.zeros(columns[0].size, dtype=np.int64)
    for column in columns:
        if column.size and (column == column[0]).all():
            continue
        low = int(column.min())
        found = found * (int(column.max()) - low + 1) + (column - low)
        found = np.unique(found, return_inverse=True)[1].reshape(-1)
    return found


def _neighbourhoods(kinds: Ints, back: int) -> list[tuple[int, int]]:
    """Return one place of each different run of ``back + 1`` kinds up to there, and how often it occurs."""
    known = kinds + 1
    padded = np.pad(known, (back, 0))
    columns = [padded[back - offset : padded.size - offset] for offset in range(back + 1)]
    _, places, counts = np.unique(_kinds(columns), return_index=True, return_counts=True)
    return list(zip(places.tolist(), counts.tolist(), strict=True))


def _count(windows: Counter[tuple[int, ...]], codes: Ints, depth: int, times: int) -> None:
    """Add ``times`` each window of ``depth + 1`` codes."""
    number = codes.size - depth
    if number <= 0:
        return
    columns = [codes[offset : offset + number] for offset in range(depth + 1)]
    _, places, counts = np.unique(_kinds(columns), return_index=True, return_counts=True)
    for place, count in zip(places.tolist(), counts.tolist(), strict=True):
        windows[tuple(codes[place : place + depth + 1].tolist())] += count * times


# Rows of memories ----------------------------------------------------------------------------------------------------


def touched_rows(tiling: Tiling, masked: MaskedTiles, tensor: str, row_bits: int) -> int:
    """Return the rows of all tiles of a tensor for which some tile of one instance runs, each counted once."""
    own, mask = tiling.split_ranks(tensor), masked.mask
    if mask.rank not in own:  # each row runs at least once
        return tiling.region_rows(tensor, {rank: tiling.size(rank) for rank in tiling.bound.plan.splits}, row_bits)
    if mask.row in own:  # no two tiles of the sequence share one
        return _rows_where(tiling, masked, tensor, own, row_bits)
    ranks, full = tiling.tensor_ranks(tensor), tiling.full_extents
    whole = tiling.rows(ranks, full, row_bits)
    partial = tiling.rows(ranks, {**full, mask.rank: tiling.last_extents[mask.rank]}, row_bits)
    return int(masked.touched[:-1].sum()) * whole + int(masked.touched[-1]) * partial


def _rows_where(tiling: Tiling, masked: MaskedTiles, tensor: str, ranks: tuple[str, ...], row_bits: int) -> int:
    """Return the rows of a tensor over all tiles of one instance that enter another one along any of ``ranks``."""
    places = [number for number, rank in enumerate(tiling.bound.plan.splits) if rank in ranks]
    return sum(
        count * tiling.rows(tiling.tensor_ranks(tensor), tiling.extents(tile), row_bits)
        for (tile,), count in masked.sequence(0).windows.items()
        if tile is not None and any(tile.entered[place] for place in places)
    )


def masked_fetches(tiling: Tiling, masked: MaskedTiles, tensor: str, outside: tuple[str, ...], row_bits: int) -> int:
    """Return the rows by which an input comes to a memory for one instance.

    A tile of it is fetched when it is first needed in the region that one iteration of the loops ``outside`` covers.
    That region is left where a tile needs another one.
    """
    plan, own = tiling.bound.plan, tiling.split_ranks(tensor)
    loops = [loop for loop in outside if plan.split_of[loop] in own]
    if not loops or len(own) == 2 or (own == (masked.mask.row,) and masked.mask.rank not in _ranks(plan, outside)):
        return touched_rows(tiling, masked, tensor, row_bits)  # once, since the region is never left or never returns
    if all(plan.splits[rank][-2] in loops for rank in own):  # the region is one tile
        return _rows_where(tiling, masked, tensor, own, row_bits)
    return _block_fetches(tiling, masked, tensor, loops[-1], row_bits)


def _ranks(plan: Plan, loops: tuple[str, ...]) -> set[str]:
    return {plan.split_of[loop] for loop in loops}


def _block_fetches(tiling: Tiling, masked: MaskedTiles, tensor: str, loop: str, row_bits: int) -> int:
    """Return fetches where a region holds some rows, and the loop over the masked rank stands around: tile by tile."""
    (rank,) = tiling.split_ranks(tensor)
    block = tiling.span(loop) // tiling.tiles[tiling.bound.plan.splits[rank][-1]]
    ranks, full = tiling.tensor_ranks(tensor), tiling.full_extents
    total = 0
    stay = 0  # how often a region was entered, over all groups: rows of different groups share none
    for group in range(masked.groups):
        pattern = masked.pattern(group, 0)
        row = pattern.row + group * masked.height
        entered = np.concatenate([[True], np.diff(row // block) != 0])
        visits = stay + np.cumsum(entered)
        stay = int(visits[-1])
        fetched = np.unique(visits * masked.rows + row)
        partial = int((fetched % masked.rows == masked.rows - 1).sum())
        total += (fetched.size - partial) * tiling.rows(ranks, full, row_bits)
        total += partial * tiling.rows(ranks, {**full, rank: tiling.last_extents[rank]}, row_bits)
    return total
