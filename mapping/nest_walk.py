"""Walks through the tiles of a loop nest: what they move and take, with the tiles that a mask leaves empty skipped.

Iterations that are alike are taken once and multiplied. Under a mask only tiles at its edge differ, so that a walk goes
along that edge, never through all tiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from accel.cascade import Einsum
from accel.errors import InputError
from accel.expression import Condition

__all__ = ["Band", "Box", "Loops", "band_of", "touched", "turns", "visited"]

Box = Mapping[str, tuple[int, int]]
"""Rank to its first coordinate and the one behind its last."""

Loops = tuple[tuple[str, int], ...]
"""Rank and tile size of each loop, outermost first."""

_INFINITE = 2**80  # beyond every coordinate


@dataclass(frozen=True, kw_only=True)
class Band:
    """The points at which ``lower <= rank // stacked - other // other_stacked <= upper``.

    Parameters
    ----------
    rank : str
        The rank that is compared.
    other : str, optional
        The rank that it is compared with; None if with constants only.
    lower, upper : int
        Both sides included.
    stacked, other_stacked : int
        Neighbouring coordinates of each rank that count as one: query heads that share their keys, stacked.
    """

    rank: str
    other: str | None
    lower: int
    upper: int
    stacked: int = 1
    other_stacked: int = 1

    @property
    def ranks(self) -> tuple[str, ...]:
        """Both ranks."""
        return (self.rank,) if self.other is None else (self.rank, self.other)

    def towards(self, rank: str) -> Band:
        """Return the same band as a condition on one of its ranks."""
        if rank == self.rank:
            return self
        assert rank == self.other
        return Band(
            rank=rank,
            other=self.rank,
            lower=-self.upper,
            upper=-self.lower,
            stacked=self.other_stacked,
            other_stacked=self.stacked,
        )

    def _differences(self, box: Box) -> tuple[int, int]:
        begin, end = box[self.rank]
        low, high = begin // self.stacked, (end - 1) // self.stacked
        if self.other is None:
            return low, high
        begin, end = box[self.other]
        return low - (end - 1) // self.other_stacked, high - begin // self.other_stacked

    def meets(self, box: Box) -> bool:
        """Return whether some point of a box is in the band: the differences of a box have no gaps."""
        least, most = self._differences(box)
        return self.lower <= self.upper and least <= self.upper and most >= self.lower

    def holds(self, box: Box) -> bool:
        """Return whether every point of a box is in the band."""
        least, most = self._differences(box)
        return self.lower <= least and most <= self.upper

    def iterations(self, box: Box, rank: str, size: int, count: int) -> tuple[range, range]:
        """Return which of ``count`` tiles of ``size`` along a rank of the box meet the band, and which lie in it."""
        if self.lower > self.upper:
            return range(0), range(0)
        band, begin = self.towards(rank), box[rank][0]
        low, high = (0, 0)
        if band.other is not None:
            low, high = box[band.other][0] // band.other_stacked, (box[band.other][1] - 1) // band.other_stacked
        # A tile begins at begin + i * size; its coordinates are divided by ``stacked``, rounded down.
        first = -((begin - 1 - band.stacked * (band.lower + low)) // size) - 1
        last = (band.stacked * (band.upper + high + 1) - 1 - begin) // size
        inner_first = -((begin - band.stacked * (band.lower + high)) // size)
        inner_last = (band.stacked * (band.upper + low + 1) - begin) // size - 1
        meeting = range(max(first, 0), max(min(last, count - 1) + 1, max(first, 0)))
        start = min(max(inner_first, meeting.start), meeting.stop)
        return meeting, range(start, min(max(min(inner_last, count - 1) + 1, start), meeting.stop))

    def points(self, sizes: Mapping[str, int]) -> int:
        """Return the points of the whole space of its ranks that are in the band; ``rank`` must not be stacked."""
        assert self.stacked == 1
        if self.lower > self.upper:
            return 0

        def below(rows: int) -> int:
            width = sizes[self.rank]
            return _clamped_sum(rows, self.upper + 1, width) - _clamped_sum(rows, self.lower, width)

        if self.other is None:
            return below(1)
        whole, rest = divmod(sizes[self.other], self.other_stacked)
        return self.other_stacked * below(whole) + rest * (below(whole + 1) - below(whole))


def _clamped_sum(count: int, offset: int, width: int) -> int:
    """Return the sum over i in 0 .. count - 1 of i + offset, taken as 0 below 0 and as ``width`` above it."""
    rising = min(max(-offset, 0), count)
    full = min(max(width - offset, rising), count)
    steps = full - rising
    return steps * offset + (rising + full - 1) * steps // 2 + (count - full) * width


def band_of(einsum: Einsum, sizes: Mapping[str, int]) -> Band | None:
    """Return the filter of an Einsum as a band; None if it has none.

    Conditions compare one rank with constants, or one or a multiple of it with another: ``m > p - W``, ``G*m <= p``.

    Parameters
    ----------
    einsum : Einsum
        The Einsum.
    sizes : mapping of str to int
        Value of every size symbol of its conditions.

    Raises
    ------
    InputError
        The filter is no band.
    """
    lower, upper = -_INFINITE, _INFINITE
    shape: tuple[str, str | None, int] | None = None
    for condition in einsum.conditions:
        found = _edges(condition, sizes)
        if found is None or shape not in (None, found[0]):
            raise InputError(
                f"the filter of Einsum {einsum.name!r} must be a band of two ranks, such as m <= p, m > p - W, or "
                f"bounds of one, in a nest, but is 'where {', '.join(map(str, einsum.conditions))}'",
                hint="price the cascade without it, which is an upper bound",
            )
        shape, lower, upper = found[0], max(lower, found[1]), min(upper, found[2])
    if shape is None:
        return None
    return Band(rank=shape[0], other=shape[1], lower=lower, upper=upper, other_stacked=shape[2])


def _edges(condition: Condition, sizes: Mapping[str, int]) -> tuple[tuple[str, str | None, int], int, int] | None:
    """Return the ranks, the stack and both sides of one condition; None if it is no band."""
    factors, constant = condition.difference(sizes)
    names = sorted(factors, key=lambda rank: (-abs(factors[rank]), rank))
    if len(names) not in (1, 2) or condition.comparison == "!=" or abs(factors[names[-1]]) != 1:
        return None
    stack, sign = abs(factors[names[0]]), 1 if factors[names[0]] > 0 else -1
    if len(names) == 2 and factors[names[1]] != -sign:
        return None
    comparison, edge = condition.comparison, -sign * constant
    if sign < 0:
        comparison = comparison.translate(str.maketrans("<>", "><"))
    # stack * rank - other <= most, > least
    most = edge - (comparison == "<") if comparison in ("<", "<=", "==") else None
    least = edge - (comparison != ">") if comparison in (">", ">=", "==") else None
    if any(each is not None and each % stack for each in (most, least)):
        return None  # such an edge lies inside a stack
    upper = _INFINITE if most is None else most // stack
    lower = -_INFINITE if least is None else least // stack + 1
    return (names[0], names[1] if len(names) == 2 else None, stack), lower, upper


@dataclass(frozen=True, slots=True)
class _Part:
    """The part of a tensor that a tile touches: an interval of each of its ranks, and the values in it."""

    place: tuple[tuple[int, int], ...]
    values: int


@dataclass(frozen=True, slots=True)
class _Stretch:
    """What successive tiles move, and the parts that the first and last of them touch."""

    values: int
    first: _Part
    last: _Part


@dataclass(frozen=True, kw_only=True)
class _Walk:
    """One walk: its loops, the part of a tile, and whether a part stays for a next tile that touches the same one."""

    loops: Loops
    ranks: tuple[str, ...]
    band: Band | None
    stays: bool
    part: Callable[[Box], _Part]
    inner: Loops = ()
    """Loops inside the tile on which its part depends."""

    def go(self, depth: int, box: Box) -> _Stretch | None:
        """Return what the loops from ``depth`` on move within a box; None if the band leaves no tile."""
        if self.band is not None and not self.band.meets(box):
            return None
        if depth == len(self.loops):
            part = self.part(box)
            return _Stretch(part.values, part, part)
        rank, size = self.loops[depth]
        begin, end = box[rank]
        count, rest = divmod(end - begin, size)
        if count + (rest > 0) == 1:
            return self.go(depth + 1, box)
        found: _Stretch | None = None
        for run in self._runs(depth, box, count):
            found = self._joined(found, self._repeated(depth, box, run))
        if rest:
            found = self._joined(found, self.go(depth + 1, {**box, rank: (end - rest, end)}))
        return found

    def _runs(self, depth: int, box: Box, count: int) -> list[range]:
        """Return the iterations that are not empty, in runs of which all iterations are alike."""
        rank, size = self.loops[depth]
        if self.band is None or rank not in self.band.ranks or self.band.holds(box):
            return [range(count)]
        meeting, inside = self.band.iterations(box, rank, size, count)
        later = (*self.loops[depth + 1 :], *self.inner)
        extents = {name: end - begin for name, (begin, end) in box.items()} | {rank: size}
        cut = {name for name, each in later if name in self.band.ranks and each < extents[name]}
        if not cut:
            return [meeting]
        before = range(meeting.start, inside.start if inside else meeting.stop)
        after = range(inside.stop, meeting.stop) if inside else range(0)
        if rank in cut:
            crossed = [[range(index, index + 1) for index in edge] for edge in (before, after)]
        else:
            own = tuple(loop for loop in later if loop[0] in cut)
            crossed = [list(self._groups(edge, box, rank, size, own)) for edge in (before, after)]
        return [*crossed[0], inside, *crossed[1]]

    def _groups(self, edge: range, box: Box, rank: str, size: int, others: Loops) -> Iterator[range]:
        """Yield the iterations of a loop in runs for which the same tiles along the other rank are not empty.

        These tiles have no gaps, and with each iteration they stay or go up.
        """
        assert self.band is not None
        other = others[0][0]
        at, end = edge.start, edge.stop
        while at < end:
            tile = {**box, rank: (box[rank][0] + at * size, box[rank][0] + (at + 1) * size)}
            first, last = (self._outermost(tile, others, which) for which in (0, -1))
            leaves = self.band.iterations({**box, other: first}, rank, size, end)[0].stop
            enters = end
            if last[1] < box[other][1]:
                entered = self.band.iterations({**box, other: (last[1], last[1] + 1)}, rank, size, end)[0]
                enters = entered.start if entered else end
            stop = min(end, leaves, enters)
            yield range(at, stop)
            at = stop

    def _outermost(self, box: Box, loops: Loops, which: int) -> tuple[int, int]:
        """Return the first (0) or last (-1) tile along the rank of ``loops`` that meets the band."""
        assert self.band is not None
        for rank, size in loops:
            begin, end = box[rank]
            count, rest = divmod(end - begin, size)
            last = {**box, rank: (end - rest, end)}
            meeting = self.band.iterations(box, rank, size, count)[0]
            if rest and (which or not meeting) and self.band.meets(last):
                box = last
            else:
                at = begin + meeting[which] * size
                box = {**box, rank: (at, at + size)}
        return box[loops[0][0]]

    def _repeated(self, depth: int, box: Box, run: range) -> _Stretch | None:
        """Return what iterations that are alike move together."""
        if not run:
            return None
        rank, size = self.loops[depth]
        at = box[rank][0] + run.start * size
        one = self.go(depth + 1, {**box, rank: (at, at + size)})
        if one is None or len(run) == 1:
            return one
        if rank in self.ranks:
            index, shift = self.ranks.index(rank), (len(run) - 1) * size
            low, high = one.last.place[index]
            place = (*one.last.place[:index], (low + shift, high + shift), *one.last.place[index + 1 :])
            return _Stretch(len(run) * one.values, one.first, _Part(place, one.last.values))
        saved = one.first.values if self.stays and one.first.place == one.last.place else 0
        return _Stretch(len(run) * one.values - (len(run) - 1) * saved, one.first, one.last)

    def _joined(self, before: _Stretch | None, after: _Stretch | None) -> _Stretch | None:
        if before is None or after is None:
            return before or after
        saved = after.first.values if self.stays and before.last.place == after.first.place else 0
        return _Stretch(before.values + after.values - saved, before.first, after.last)


_Sides = tuple[tuple[str, tuple[int, int]], ...]


def _sides(box: Box) -> _Sides:
    return tuple(box.items())


def turns(loops: Loops, box: Box, band: Band | None, widths: Mapping[str, int]) -> int:
    """Return the turns of an array over all tiles that are not empty.

    A tile takes the product over its ranks of its extent by the width of the array along the rank, rounded up; 1 where
    no width is given, so that without any width the turns are the points of the tiles.
    """
    return _turns(loops, _sides(box), band, tuple(sorted(widths.items())))


def visited(loops: Loops, box: Box, band: Band | None, ranks: tuple[str, ...], *, stays: bool) -> int:
    """Return the values of a tensor with ``ranks`` that the tiles move, one tile after the other.

    Parameters
    ----------
    loops, box, band
        The tiles.
    ranks : tuple of str
        Ranks of the tensor.
    stays : bool
        Whether a part that the next tile touches too stays, or is moved again.
    """
    return _visited(loops, _sides(box), band, ranks, stays)


def touched(outside: Loops, inside: Loops, box: Box, band: Band | None, ranks: tuple[str, ...]) -> int:
    """Return the values that come in when all that the ``inside`` loops touch is kept for an iteration of ``outside``.

    Nothing comes in for an iteration that touches what the one before did.
    """
    return _touched(outside, inside, _sides(box), band, ranks)


# The Einsums of a nest that share loops and filter ask for the same walks.


@lru_cache(maxsize=1024)
def _turns(loops: Loops, sides: _Sides, band: Band | None, widths: tuple[tuple[str, int], ...]) -> int:
    wide = dict(widths)

    def part(tile: Box) -> _Part:
        return _Part((), math.prod(-(-(end - begin) // wide.get(rank, 1)) for rank, (begin, end) in tile.items()))

    found = _Walk(loops=loops, ranks=(), band=band, stays=False, part=part).go(0, dict(sides))
    return 0 if found is None else found.values


@lru_cache(maxsize=1024)
def _visited(loops: Loops, sides: _Sides, band: Band | None, ranks: tuple[str, ...], stays: bool) -> int:
    def part(tile: Box) -> _Part:
        place = tuple(tile[rank] for rank in ranks)
        return _Part(place, math.prod(end - begin for begin, end in place))

    found = _Walk(loops=loops, ranks=ranks, band=band, stays=stays, part=part).go(0, dict(sides))
    return 0 if found is None else found.values


@lru_cache(maxsize=1024)
def _touched(outside: Loops, inside: Loops, sides: _Sides, band: Band | None, ranks: tuple[str, ...]) -> int:
    def part(tile: Box) -> _Part:
        place, values = _region(inside, tile, band, ranks)
        return _Part(place, values)

    found = _Walk(loops=outside, ranks=ranks, band=band, stays=True, part=part, inner=inside).go(0, dict(sides))
    return 0 if found is None else found.values


def _region(
    loops: Loops, box: Box, band: Band | None, ranks: tuple[str, ...]
) -> tuple[tuple[tuple[int, int], ...], int]:
    """Return the interval of each rank that the tiles which are not empty touch together, and the values in them."""
    shared = () if band is None or band.holds(box) else tuple(rank for rank in ranks if rank in band.ranks)
    hull = dict(box)
    for rank in shared:

        def along(tile: Box, rank: str = rank) -> _Part:
            return _Part((tile[rank],), tile[rank][1] - tile[rank][0])

        own = tuple(loop for loop in loops if loop[0] == rank)
        found = _Walk(loops=own, ranks=(rank,), band=band, stays=False, part=along).go(0, box)
        assert found is not None, "a box without a point of the band is not asked for"
        hull[rank] = (found.first.place[0][0], found.last.place[0][1])
    place = tuple(hull[rank] for rank in ranks)
    if len(shared) < 2:
        return place, math.prod(end - begin for begin, end in place)
    cuts = tuple(loop for loop in loops if loop[0] in shared)
    return place, visited(cuts, box, band, ranks, stays=False)
