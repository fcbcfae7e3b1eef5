"""The tiles of one schedule for one workload: their sizes, their sequence, and what they occupy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from accel.arch import ComputeArray
from accel.errors import InputError
from accel.expression import Access
from accel.schedule import INSTANCE, Axis, Level, LevelStore, Residence
from accel.workload import Workload
from mapping.bound import Bound, Step
from mapping.excerpt import Excerpt
from mapping.mask import spans
from mapping.masked import MaskedTiles, masked_fetches, touched_rows
from mapping.sequence import Sequence
from mapping.tile_class import TileClass

__all__ = ["TileClass", "Tiling"]


@dataclass(frozen=True, kw_only=True)
class Tiling:
    """A bound cascade, cut into tiles for a workload.

    Parameters
    ----------
    bound : Bound
        Cascade, architecture and plan.
    tiles : mapping of str to int
        Tile sizes as in a schedule.
    workload : Workload
        Rank sizes.

    Raises
    ------
    InputError
        A rank of the cascade has no size in the workload.
    """

    bound: Bound
    tiles: Mapping[str, int]
    workload: Workload

    def __post_init__(self) -> None:
        """Settle all sizes once, so that a missing one shows here."""
        symbols = {rank.upper(): size for rank, size in self.tiles.items()}
        given = self.workload.sizes | self.workload.parameters | symbols
        split = {rank for rank in self.bound.plan.splits if rank.upper() not in given}
        if split:
            raise InputError(
                f"workload {self.workload.name!r} must give the size of rank {min(split)!r}, but gives "
                f"{', '.join(self.workload.sizes)}",
                hint="use a cascade over the ranks p, m, e and f",
            )
        object.__setattr__(self, "_sizes", given | self.bound.cascade.sizes(given))

    def size(self, rank: str) -> int:
        """Return the size of a rank of the cascade or of the plan."""
        sizes: Mapping[str, int] = self._sizes  # type: ignore[attr-defined]
        return sizes[rank.upper()]

    @cached_property
    def masked(self) -> MaskedTiles | None:
        """The tiles that run under the mask of the cascade; None if that is all."""
        mask = self.bound.mask
        if mask is None:
            return None
        sizes: Mapping[str, int] = self._sizes  # type: ignore[attr-defined]
        first, last = spans(mask, self.bound.plan, sizes)
        if not first.any() and bool((last == self.iterations(self.bound.plan.splits[mask.rank][-2]) - 1).all()):
            return None
        return MaskedTiles(self, mask, first, last)

    # Tiles ---------------------------------------------------------------------------------------------------------

    def span(self, part: str) -> int:
        """Return the elements that one iteration of the loop over ``part`` covers."""
        parts = self.bound.plan.splits[self.bound.plan.split_of[part]]
        return math.prod(self.tiles[inner] for inner in parts[parts.index(part) + 1 :])

    def iterations(self, part: str) -> int:
        """Return how often the loop over ``part`` iterates in all, loops of the same rank around it included."""
        return -(-self.size(self.bound.plan.split_of[part]) // self.span(part))

    @cached_property
    def full_extents(self) -> Mapping[str, int]:
        """Split rank to the elements of its largest tile."""
        plan = self.bound.plan
        return {rank: min(self.tiles[parts[-1]], self.size(rank)) for rank, parts in plan.splits.items()}

    def extents(self, tile: TileClass) -> Mapping[str, int]:
        """Return split rank to elements for the tiles of a class."""
        return dict(zip(self.bound.plan.splits, tile.extents, strict=True))

    def extents_at(self, excerpt: Excerpt, place: int) -> Mapping[str, int]:
        """Return split rank to elements for a tile of an excerpt: full ones but for the last along a rank."""
        full, rest = self.full_extents, self.last_extents
        return {rank: rest[rank] if excerpt.last[rank][place] else full[rank] for rank in full}

    @cached_property
    def last_extents(self) -> Mapping[str, int]:
        """Split rank to the elements of its last tile."""
        return {
            rank: self.size(rank) - (self.iterations(parts[-2]) - 1) * self.tiles[parts[-1]]
            for rank, parts in self.bound.plan.splits.items()
        }

    def extent(self, rank: str, extents: Mapping[str, int]) -> int:
        """Return the elements of one tile along a rank of the cascade."""
        plan = self.bound.plan
        if rank in extents:
            return extents[rank]
        if rank in plan.split_of:
            return extents[plan.split_of[rank]] if rank in plan.tile_ranks else 1
        return self.size(rank)

    def axis(self, rank: str) -> Axis | None:
        """Return the axis of the arrays along which a rank of the cascade is spread."""
        plan = self.bound.plan
        return plan.axes.get(plan.splits[rank][-1] if rank in plan.splits else rank)

    def per_pe(self, rank: str, extents: Mapping[str, int], array: ComputeArray) -> int:
        """Return the elements along a rank that fall to the fullest PE."""
        extent, axis = self.extent(rank, extents), self.axis(rank)
        return extent if axis is None else -(-extent // (array.rows if axis is Axis.ROWS else array.columns))

    def runs(self, step: Step, tile: TileClass) -> bool:
        """Return whether an Einsum runs for the tiles of a class."""
        missing = self.bound.missing(step)
        return all(final for rank, final in zip(self.bound.once_ranks, tile.final, strict=True) if rank in missing)

    def takes(self, step: Step, access: Access, tile: TileClass) -> bool:
        """Return whether an Einsum takes a stored value for a tile itself: no other that runs has read it before."""
        return self.runs(step, tile) and not any(
            self.runs(other, tile) for other in self.bound.read_before(step, access)
        )

    def points(self, step: Step, extents: Mapping[str, int]) -> int:
        """Return the iteration points of an Einsum in one tile."""
        return math.prod(self.extent(rank, extents) for rank in step.einsum.ranks)

    def cycles(self, step: Step, extents: Mapping[str, int]) -> int:
        """Return the cycles that an Einsum takes for one tile: those of the fullest PE."""
        array = self.bound.architecture.arrays[step.array]
        return step.point_cycles * math.prod(self.per_pe(rank, extents, array) for rank in step.einsum.ranks)

    def sequence(self, depth: int) -> Sequence[TileClass | None]:
        """Return the tiles of all instances in the order of the loops, known by windows of ``depth + 1``."""
        plan, once = self.bound.plan, self.bound.once_ranks
        if self.masked is not None:
            return self.masked.sequence(depth).times(self.workload.instances)

        def nest(
            loops: tuple[str, ...], extents: Mapping[str, int], final: Mapping[str, bool]
        ) -> Sequence[TileClass | None]:
            if not loops:
                tile = TileClass(tuple(extents[rank] for rank in plan.splits), tuple(final[rank] for rank in once))
                return Sequence.one(depth, tile)
            rank, span = plan.split_of[loops[0]], self.span(loops[0])
            trips = -(-extents[rank] // span)
            rest = extents[rank] - (trips - 1) * span
            last = nest(loops[1:], {**extents, rank: rest}, final)
            if trips == 1:
                return last
            before = nest(loops[1:], {**extents, rank: span}, {**final, rank: False})
            return before.times(trips - 1).then(last)

        one = nest(plan.loops, {rank: self.size(rank) for rank in plan.splits}, dict.fromkeys(plan.splits, True))
        return one.times(self.workload.instances)

    def recurrence_tiles(self, rank: str) -> int | None:
        """Return the least distance of two tiles that follow each other along a split rank; None if it has one tile.

        Those are the iterations of the loops inside, of which the last group of another rank may have fewer.
        """
        plan = self.bound.plan
        if self.iterations(plan.splits[rank][-2]) == 1:
            return None
        if self.masked is not None and rank == self.masked.mask.rank:
            return self.masked.least_distance
        inner = plan.loops[plan.loops.index(plan.splits[rank][-2]) + 1 :]
        distance = 1
        for other in {plan.split_of[loop]: None for loop in inner}:
            around = [loop for loop in plan.loops if loop not in inner and plan.split_of[loop] == other]
            whole = self.size(other)
            least = whole
            if around:
                span = self.span(around[-1])
                least = whole - (-(-whole // span) - 1) * span
            innermost = [loop for loop in inner if plan.split_of[loop] == other][-1]
            distance *= -(-least // self.span(innermost))
        return distance

    def longest_recurrence(self, rank: str) -> int:
        """Return how far apart two tiles are at most that follow each other along a split rank; 0 if it has one tile.

        All loops of other ranks inside its outermost one may lie between.
        """
        plan = self.bound.plan
        if self.iterations(plan.splits[rank][-2]) == 1:
            return 0
        distance = 1
        for loop in plan.loops[plan.loops.index(plan.splits[rank][0]) + 1 :]:
            other = plan.split_of[loop]
            if other != rank:
                distance *= min(self.tiles.get(loop, self.iterations(loop)), self.iterations(loop))
        return distance

    # Memories ------------------------------------------------------------------------------------------------------

    def rows(self, tensor_ranks: tuple[str, ...], extents: Mapping[str, int], row_bits: int) -> int:
        """Return the rows of ``row_bits`` that one tile of a tensor takes; a tile begins at a row."""
        values = math.prod(self.extent(rank, extents) for rank in tensor_ranks)
        return -(-values * self.bound.architecture.width_bits // row_bits)

    def tensor_ranks(self, tensor: str) -> tuple[str, ...]:
        """Return the ranks of a tensor as its Einsums index it."""
        step = self.bound.steps.get(tensor)
        if step is not None:
            return step.einsum.output.ranks
        return next(access.ranks for _, access in self.bound.readers(tensor))

    def split_ranks(self, tensor: str) -> tuple[str, ...]:
        """Return the split ranks along which a tensor is cut into tiles."""
        ranks, plan = self.tensor_ranks(tensor), self.bound.plan
        return tuple(rank for rank, parts in plan.splits.items() if rank in ranks or parts[-1] in ranks)

    def _pieces(self, tensor: str, wholes: Mapping[str, int]) -> Iterator[tuple[int, Mapping[str, int]]]:
        """Yield how many tiles of which extents make up the region ``wholes`` of a tensor."""
        options = []
        for rank in self.split_ranks(tensor):
            whole, tile = wholes[rank], self.tiles[self.bound.plan.splits[rank][-1]]
            number = -(-whole // tile)
            options.append([(rank, number - 1, tile), (rank, 1, whole - (number - 1) * tile)])
        for choice in product(*options):
            count = math.prod(number for _, number, _ in choice)
            if count:
                yield count, {**self.full_extents, **{rank: extent for rank, _, extent in choice}}

    def region_rows(self, tensor: str, wholes: Mapping[str, int], row_bits: int) -> int:
        """Return the rows that a region of a tensor takes, tile by tile."""
        ranks = self.tensor_ranks(tensor)
        return sum(count * self.rows(ranks, extents, row_bits) for count, extents in self._pieces(tensor, wholes))

    def outside(self, residence: Residence | LevelStore) -> tuple[str, ...]:
        """Return the loops during one iteration of which a tensor in a memory keeps what it has."""
        loops = self.bound.plan.loops
        return () if residence.within in (None, INSTANCE) else loops[: loops.index(residence.within) + 1]

    def kept(self, outside: tuple[str, ...]) -> Mapping[str, int]:
        """Return split rank to the elements along it that one iteration of all loops ``outside`` covers."""
        kept = {rank: self.size(rank) for rank in self.bound.plan.splits}
        for loop in outside:
            rank = self.bound.plan.split_of[loop]
            kept[rank] = min(kept[rank], self.span(loop))
        return kept

    def fetched_rows(self, tensor: str, row_bits: int) -> int:
        """Return the rows that an input in the buffer is fetched by for one instance, tile by tile.

        What one iteration of its ``within`` loop touches is fetched when that iteration begins, unless the one before
        touched the same.
        """
        readers = [set(self.bound.missing(step)) for step, _ in self.bound.readers(tensor)]
        outside = self.outside(self.bound.plan.residency[tensor])
        return self.brought_rows(tensor, outside, row_bits, frozenset(set.intersection(*readers)))

    def brought_rows(self, tensor: str, outside: tuple[str, ...], row_bits: int, idle: frozenset[str]) -> int:
        """Return the rows by which an input comes to a memory for one instance, tile by tile.

        Parameters
        ----------
        tensor : str
            The input.
        outside : tuple of str
            The loops for one iteration of which the memory keeps what it has (``outside``).
        row_bits : int
            Width of a row.
        idle : frozenset of str
            Split ranks over whose tiles nothing is read: it is read for the last one alone.
        """
        plan, own = self.bound.plan, self.split_ranks(tensor)
        if self.masked is not None:
            if self.masked.mask.rank in idle:
                return touched_rows(self, self.masked, tensor, row_bits)
            return masked_fetches(self, self.masked, tensor, outside, row_bits)

        def nest(loops: tuple[str, ...], wholes: Mapping[str, int]) -> tuple[int, int]:
            """Return how many different regions follow each other, and their rows."""
            if not loops:
                return 1, self.region_rows(tensor, wholes, row_bits)
            rank, span = plan.split_of[loops[0]], self.span(loops[0])
            trips = -(-wholes[rank] // span)
            last = nest(loops[1:], {**wholes, rank: wholes[rank] - (trips - 1) * span})
            if trips == 1 or rank in idle:
                return last
            before = nest(loops[1:], {**wholes, rank: span})
            if rank not in own and before[0] == last[0] == 1:
                return last
            return before[0] * (trips - 1) + last[0], before[1] * (trips - 1) + last[1]

        return nest(outside, {rank: self.size(rank) for rank in plan.splits})[1]

    def made_rows(self, tensor: str, row_bits: int) -> int:
        """Return the rows of all tiles of an Einsum's output that are made in one instance, each counted once."""
        if self.masked is not None:
            return touched_rows(self, self.masked, tensor, row_bits)
        return self.region_rows(tensor, {rank: self.size(rank) for rank in self.bound.plan.splits}, row_bits)

    @cached_property
    def occupancy_bits(self) -> Mapping[str, int]:
        """Tensor in the buffer to the bits that it takes at most, in whole rows."""
        row_bits = self.bound.architecture.buffer.row_bits
        return {
            tensor: residence.copies * row_bits * self.region_rows(tensor, self.kept(self.outside(residence)), row_bits)
            for tensor, residence in self.bound.plan.residency.items()
            if residence.level is Level.BUFFER
        }

    # Registers -----------------------------------------------------------------------------------------------------

    def tiles_alive(self, tensor: str, array: str) -> int:
        """Return how many tiles of a tensor in the registers of an array are alive at a time, or more.

        A tile is alive from the epoch and group in which it is made to those of its last reader; a running value is
        read up to the next step of its rank, and a sum that goes on until its next tile takes its place.
        """
        maker = self.bound.steps[tensor]
        ends = [(maker.offset, maker.group)]
        for step, access in self.bound.readers(tensor):
            if step.array == array:
                ends.append((step.offset + self._read_after(maker, access), step.group))
        if maker.array == array:
            goes_on = max((self.longest_recurrence(rank) for rank in self.bound.reduced_ranks(maker)), default=0)
            ends.append((maker.offset + goes_on, maker.group - 1))
        offset, group = max(ends)
        return max(offset - maker.offset + (group >= maker.group), 1)

    def _read_after(self, maker: Step, access: Access) -> int:
        """Return after how many tiles an access reads what ``maker`` made, at most."""
        rank = maker.einsum.iterative_rank
        if rank is None or rank not in self.bound.plan.split_of or self.bound.is_fresh(access) or access.final_ranks:
            return 0
        return self.bound.steps_back(maker, access) * self.longest_recurrence(self.bound.plan.split_of[rank])

    @cached_property
    def register_demand(self) -> Mapping[str, Mapping[str, int]]:
        """Array to tensor to registers of the fullest PE."""
        demand: dict[str, dict[str, int]] = {array: {} for array in self.bound.architecture.arrays}
        for tensor, residence in self.bound.plan.residency.items():
            if residence.level is not Level.REGISTERS:
                continue
            maker = self.bound.steps[tensor]
            own = [maker.array] if any(map(self.longest_recurrence, self.bound.reduced_ranks(maker))) else []
            for array in dict.fromkeys([*(step.array for step, _ in self.bound.readers(tensor)), *own]):
                shape = self.bound.architecture.arrays[array]
                values = math.prod(self.per_pe(rank, self.full_extents, shape) for rank in self.tensor_ranks(tensor))
                demand[array][tensor] = values * self.tiles_alive(tensor, array)
        return demand
