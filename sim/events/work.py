"""What one Einsum does in one tile, spelled out: its points, the values it reads, and the values it makes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from accel.arch import Architecture
from accel.cascade import Cascade, Einsum
from accel.expression import Access, Index
from accel.schedule import LevelStore, Schedule
from sim.events.masks import passes
from sim.events.points import Array, Grid, grid, operators
from sim.events.tiles import Tile

__all__ = ["Shop", "Work"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Work:
    """One Einsum in one tile of one instance.

    Parameters
    ----------
    einsum : Einsum
        The Einsum.
    grid : Grid
        Its points, dealt out to the PEs of its array.
    point_cycles : int
        Cycles that a PE takes for a point.
    reads : mapping of Access to ndarray, int
        Access to the place, in the flattened tensor, of what each point reads.
    makes : ndarray, int
        The place in the flattened output of each value made, with extent 1 along reduced ranks.
    reduced : tuple of int
        Axes of the grid that are reduced.
    space : ndarray, int
        The place of each point in the whole iteration space of the Einsum.
    passed : ndarray, bool
        Which points the filter leaves; the others are worked on all the same, and count as the identity.
    """

    einsum: Einsum
    grid: Grid
    point_cycles: int
    reads: Mapping[Access, Array]
    makes: Array
    reduced: tuple[int, ...]
    space: Array
    passed: Array

    @property
    def cycles(self) -> int:
        """Cycles until the fullest PE is done."""
        return self.grid.turns * self.point_cycles


@dataclass(frozen=True, kw_only=True, eq=False)
class Shop:
    """Works out what is to be done: cascade, architecture and schedule at given sizes.

    Parameters
    ----------
    cascade, architecture, schedule
        What is executed.
    sizes : mapping of str to int
        All sizes of the cascade and of the ranks that are split.
    """

    cascade: Cascade
    architecture: Architecture
    schedule: Schedule
    sizes: Mapping[str, int]
    _known: dict[tuple[object, ...], Work] = field(default_factory=dict, init=False)
    _own_ranks: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False)

    @cached_property
    def einsums(self) -> tuple[Einsum, ...]:
        """The Einsums in an order in which each can run, initial values left out."""
        return tuple(each for stage in self.cascade.stages for each in stage.einsums if not each.is_initial)

    @cached_property
    def by_name(self) -> Mapping[str, Einsum]:
        """The Einsums by name, in the same order."""
        return {einsum.name: einsum for einsum in self.einsums}

    @cached_property
    def order(self) -> Mapping[str, int]:
        """The place of each Einsum in that order."""
        return {name: number for number, name in enumerate(self.by_name)}

    @cached_property
    def text_order(self) -> Mapping[str, int]:
        """The place of each Einsum in the text of the cascade."""
        return {einsum.name: number for number, einsum in enumerate(self.cascade.einsums)}

    @cached_property
    def inputs(self) -> frozenset[str]:
        """The tensors that come from outside."""
        return frozenset(tensor.name for tensor in self.cascade.inputs)

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Return the extents of a whole tensor."""
        return self.cascade.tensors[tensor].shape(self.sizes)

    def size(self, tensor: str) -> int:
        """Return the elements of a whole tensor."""
        return math.prod(self.shape(tensor))

    def split_ranks(self, einsum: Einsum) -> tuple[str, ...]:
        """Return the split ranks whose tiles an Einsum works on one by one."""
        splits = self.schedule.plan.splits
        return tuple(rank for rank, parts in splits.items() if {rank, *parts} & set(einsum.ranks))

    def runs(self, einsum: Einsum, tile: Tile) -> bool:
        """Return whether an Einsum runs when a tile is there: for each, or for the last along ranks it knows not."""
        own = self.split_ranks(einsum)
        return all(tile.is_last(rank) for rank in self.schedule.plan.splits if rank not in own)

    def reduced_ranks(self, einsum: Einsum) -> tuple[str, ...]:
        """Return the split ranks over whose tiles an Einsum goes on reducing into the same values."""
        reduced = set(einsum.reduction.ranks) if einsum.reduction else set()
        splits = self.schedule.plan.splits
        return tuple(rank for rank, parts in splits.items() if {rank, *parts[:-1]} & reduced)

    def goes_on(self, einsum: Einsum, tile: Tile) -> bool:
        """Return whether an Einsum goes on with values that earlier tiles began."""
        return any(not tile.is_first(rank) for rank in self.reduced_ranks(einsum))

    def completes(self, einsum: Einsum, tile: Tile) -> bool:
        """Return whether what an Einsum makes for a tile is complete then."""
        return all(tile.is_last(rank) for rank in self.reduced_ranks(einsum))

    def needs(self, einsum: Einsum, tile: Tile) -> tuple[Access, ...]:
        """Return all that an Einsum reads for a tile, its own unfinished values included."""
        return (*einsum.reads, einsum.output) if self.goes_on(einsum, tile) else einsum.reads

    def work(self, einsum: Einsum, tile: Tile) -> Work:
        """Return what an Einsum does in a tile; tiles at the same place in other instances do the same."""
        key = (einsum.name, *tile.begin.values(), *tile.end.values())  # what runs before it is the same there too
        if key not in self._known:
            self._known[key] = self._work(einsum, tile)
        return self._known[key]

    def _work(self, einsum: Einsum, tile: Tile) -> Work:
        array = self.architecture.arrays[self.schedule.plan.binding[einsum.name]]
        ranks = tuple(rank for rank in self.cascade.ranks if rank in einsum.ranks)
        points = grid(ranks, array, self.schedule.plan, tile, self.sizes)
        space: Array = np.zeros((1,) * len(ranks), dtype=np.int64)
        for rank in ranks:
            space = space * self.sizes[rank.upper()] + points.coordinates[rank]
        return Work(
            einsum=einsum,
            grid=points,
            point_cycles=sum(count * array.operators[name].cycles for name, count in operators(einsum, array).items()),
            reads={
                access: np.broadcast_to(self.places(access, points, tile), points.shape)
                for access in (*einsum.reads, einsum.output)
            },
            makes=self.places(einsum.output, points, tile),
            reduced=tuple(axis for axis, rank in enumerate(ranks) if rank not in einsum.output.ranks),
            space=np.broadcast_to(space, points.shape),
            passed=np.broadcast_to(passes(einsum.conditions, points.coordinates, self.sizes), points.shape),
        )

    def places(self, access: Access, points: Grid, tile: Tile) -> Array:
        """Return where an access points to in the flattened tensor, broadcastable over the points."""
        place: Array = np.zeros((1,) * len(points.ranks), dtype=np.int64)
        tensor = self.cascade.tensors[access.tensor]
        for index, rank, extent in zip(access.indices, tensor.ranks, self.shape(access.tensor), strict=True):
            at = None
            if rank == tensor.iterative_rank and rank in self.schedule.plan.split_of:
                at = self._running(index, rank, tile)
            place = place * extent + (points.at(index, self.sizes) if at is None else at)
        return place

    def _running(self, index: Index, rank: str, tile: Tile) -> int | None:
        """Return where a running value stands along its rank: behind the last tile that ran; None for a new one."""
        if index.constant is not None or (index.shift is not None and index.shift[1] > 0):
            return None
        split = self.schedule.plan.split_of[rank]
        steps = 0 if index.shift is None else 1 - index.shift[1]
        return tile.step_before(rank, split, steps)

    def per_pe(self, tensor_ranks: tuple[str, ...], array: str, tile: Tile) -> int:
        """Return the values of one tile of a tensor that the fullest PE of an array holds."""
        return grid(tensor_ranks, self.architecture.arrays[array], self.schedule.plan, tile, self.sizes).turns

    def own_ranks(self, tensor: str) -> tuple[str, ...]:
        """Return the split ranks along which a tensor is cut into tiles."""
        if tensor not in self._own_ranks:
            accesses = (access for each in self.einsums for access in (each.output, *each.reads))
            ranks = next(access.ranks for access in accesses if access.tensor == tensor)
            splits = self.schedule.plan.splits
            self._own_ranks[tensor] = tuple(
                rank for rank, parts in splits.items() if rank in ranks or parts[-1] in ranks
            )
        return self._own_ranks[tensor]

    def position(self, tensor: str, tile: Tile, store: LevelStore | None = None) -> tuple[int, ...]:
        """Return the place of a tile of a tensor in the region that a memory keeps, along each of its own ranks.

        The memory is the buffer, or an inner level of which ``store`` says what it keeps.
        """
        plan = self.schedule.plan
        own = self.own_ranks(tensor)
        starts = tile.region(plan, store or plan.residency[tensor], own)
        return tuple(
            (tile.begin[rank] - start) // self.schedule.tiles[plan.splits[rank][-1]]
            for rank, start in zip(own, starts, strict=True)
        )

    def region(self, tensor: str, tile: Tile, store: LevelStore | None = None) -> tuple[int, ...]:
        """Return which region of a tensor the tile lies in, of those that the buffer or a level keeps at a time."""
        plan = self.schedule.plan
        starts = tile.region(plan, store or plan.residency[tensor], self.own_ranks(tensor))
        return (tile.run, tile.instance, *starts)

    def values(self, places: Array) -> int:
        """Return how many different values an array of places names."""
        return int(np.unique(places).size)

    def total(self, ranks: tuple[str, ...]) -> int:
        """Return the product of the sizes of ranks."""
        return math.prod(self.sizes[rank.upper()] for rank in ranks)
