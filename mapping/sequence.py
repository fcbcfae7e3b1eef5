"""Counting the windows of a long sequence of tiles in time that does not grow with its length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Generic, TypeVar

__all__ = ["Sequence"]

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, kw_only=True)
class Sequence(Generic[T]):
    """What is known of a sequence: its length, its two ends, and how often each window occurs in it.

    A window is a run of ``depth + 1`` neighbouring items. Sequences form a monoid: the windows of a concatenation are
    those of its parts and those across the seam, which the two ends tell. Repeating a sequence n times multiplies the
    windows by n and those across its seam by n - 1, so a million tiles are counted as fast as ten.

    Parameters
    ----------
    depth : int
        Neighbours before an item that its window holds.
    length : int
        Items.
    first, last : tuple
        The first and the last ``depth`` items, or all where there are fewer.
    windows : Counter
        Window, oldest item first, to how often it occurs.
    """

    depth: int
    length: int
    first: tuple[T, ...]
    last: tuple[T, ...]
    windows: Counter[tuple[T, ...]]

    @classmethod
    def empty(cls, depth: int) -> Sequence[T]:
        """Return the sequence of no item."""
        return cls(depth=depth, length=0, first=(), last=(), windows=Counter())

    @classmethod
    def one(cls, depth: int, item: T) -> Sequence[T]:
        """Return the sequence of one item."""
        ends = (item,) if depth else ()
        return cls(depth=depth, length=1, first=ends, last=ends, windows=Counter() if depth else Counter([(item,)]))

    def _across(self, items: tuple[T, ...]) -> Counter[tuple[T, ...]]:
        width = self.depth + 1
        return Counter(items[start : start + width] for start in range(len(items) - width + 1))

    def then(self, other: Sequence[T]) -> Sequence[T]:
        """Return this sequence followed by ``other``, which has the same depth."""
        depth = self.depth
        windows = self.windows + other.windows
        if depth:
            windows += self._across(self.last + other.first)
        first = self.first if self.length >= depth else (self.first + other.first)[:depth]
        last = other.last if other.length >= depth else (self.last + other.last)[-depth:]
        return Sequence(depth=depth, length=self.length + other.length, first=first, last=last, windows=windows)

    def times(self, count: int) -> Sequence[T]:
        """Return this sequence ``count`` times in a row."""
        if count == 0 or self.length == 0:
            return Sequence.empty(self.depth)
        if count == 1:
            return self
        if self.length >= self.depth:
            windows = Counter({window: number * count for window, number in self.windows.items()})
            if self.depth:
                for window, number in self._across(self.last + self.first).items():
                    windows[window] += number * (count - 1)
            return replace(self, length=self.length * count, windows=windows)
        # Shorter than a window: join a few until they are not, and repeat those.
        few = -(-self.depth // self.length)
        if count <= few:
            return reduce(Sequence.then, [self] * count)
        return self.times(few).times(count // few).then(self.times(count % few))

    def cyclic_windows(self) -> Counter[tuple[T, ...]]:
        """Return the windows where the end is followed by the beginning: as many as there are items."""
        if self.length > self.depth:
            return self.windows + (self._across(self.last + self.first) if self.depth else Counter())
        if not self.length:
            return Counter()
        # Shorter than a window: the ends are the whole sequence, which a window passes several times.
        around = self.first * (self.depth // self.length + 2)
        return self._across(around[: self.depth + self.length])
