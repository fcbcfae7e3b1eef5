"""The inner levels between the buffer and the arrays: what stands in each, and what passes through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from accel.expression import Access
from accel.schedule import LevelStore
from sim.events.clock import Job
from sim.events.failure import ExecutionError, Kind
from sim.events.tiles import Tile
from sim.events.work import Shop

__all__ = ["Levels"]

Place = tuple[str, str, object]
"""A level, a tensor, and who has room for it there: an Einsum that makes it, or an Einsum and what it reads."""


class Levels:
    """The levels, by places: one for what an Einsum makes, and one for each access by which it reads.

    Parameters
    ----------
    shop : Shop
        What is done where.

    Members
    -------
    peak_rows : dict of level to Counter
        Tensor to the most rows that it held.
    """

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        levels = shop.architecture.levels
        self.rows: dict[str, Counter[str]] = {level: Counter() for level in levels}
        self.peak_rows: dict[str, Counter[str]] = {level: Counter() for level in levels}
        self._held: dict[Place, dict[tuple[int, ...], int]] = {}
        self._regions: dict[Place, tuple[int, ...]] = {}
        self._passing: dict[tuple[str, int], list[Place]] = {}

    def between(self, einsum: str) -> list[str]:
        """Return the levels on the way from an Einsum's array to the buffer."""
        array = self.shop.schedule.plan.binding[einsum]
        found: list[str] = []
        for name, level in self.shop.architecture.levels.items():
            if level.array is None or level.array == array:
                found.insert(0, name)
        return found

    def take_in(self, reader: str, access: Access, job: Job, values: int) -> Iterator[tuple[str, str]]:
        """Let one tile come to an array from where it stands nearest; yield the accesses: unit and action.

        Parameters
        ----------
        reader : str
            The Einsum that reads the tile.
        access : Access
            What it reads.
        job : Job
            The job that needs it first.
        values : int
            Values of the tile.
        """
        stores = self.shop.schedule.plan.residency[access.tensor].levels
        for level in self.between(reader):
            yield level, "read"
            own = access.tensor == reader  # it is updated in place
            place: Place = (level, access.tensor, reader if own else (reader, access))
            if level not in stores:
                self._pass(job, place, values)
            elif self._keep(job.tile, place, stores[level], values, job.begin):
                return
            yield level, "write"
        yield "buffer", "read"

    def make(self, job: Job, values: int) -> None:
        """Give what a job makes for the buffer its places."""
        name = job.work.einsum.name
        for level in self.between(name):
            self._pass(job, (level, name, name), values)

    def give_out(self, maker: str) -> Iterator[tuple[str, str]]:
        """Yield the accesses by which what an Einsum has made goes to the buffer."""
        for level in self.between(maker):
            yield level, "write"
            yield level, "read"
        yield "buffer", "write"

    def end(self, job: Job) -> None:
        """Give up what passed through for a job."""
        for place in self._passing.pop((job.work.einsum.name, job.tile.number), []):
            self._clear(place)

    def _keep(self, tile: Tile, place: Place, store: LevelStore, values: int, when: int) -> bool:
        """Return whether a tile stood at a place where tiles are kept; it does from now on."""
        tensor = place[1]
        region = self.shop.region(tensor, tile, store)
        if self._regions.get(place) != region:
            self._clear(place)
            self._regions[place] = region
        address = self.shop.position(tensor, tile, store)
        if address in self._held.get(place, {}):
            return True
        self._put(place, address, values, when)
        return False

    def _pass(self, job: Job, place: Place, values: int) -> None:
        self._clear(place)
        self._put(place, (), values, job.begin)
        self._passing.setdefault((job.work.einsum.name, job.tile.number), []).append(place)

    def _put(self, place: Place, address: tuple[int, ...], values: int, when: int) -> None:
        level, tensor, _ = place
        memory = self.shop.architecture.levels[level]
        bits = values * self.shop.architecture.width_bits
        rows = -(-bits // memory.row_bits)
        self._held.setdefault(place, {})[address] = rows
        self.rows[level][tensor] += rows
        self.peak_rows[level][tensor] = max(self.peak_rows[level][tensor], self.rows[level][tensor])
        taken = self.rows[level].total() * memory.row_bits
        if taken > memory.size_bits:
            parts = ", ".join(f"{name} {each * memory.row_bits}" for name, each in self.rows[level].items())
            raise ExecutionError(
                Kind.LEVEL_FULL,
                f"level {level!r} must hold {taken} bits in cycle {when} ({parts}), but has {memory.size_bits}",
                hint="lower a tile size",
            )

    def _clear(self, place: Place) -> None:
        level, tensor, _ = place
        for rows in self._held.pop(place, {}).values():
            self.rows[level][tensor] -= rows
