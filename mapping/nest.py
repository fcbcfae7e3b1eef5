"""The model of nests: what Einsums with loop nests of their own cost, in stages, with spills; closed-form.

Reuse follows from the loops alone. A tile moves the part of each tensor that it touches; a stationary part that the
next tile touches too stays. Tiles without a point that passes the Einsum's filter are skipped; one at the edge runs
whole. Values are counted exactly, and divided by the width of a row or word.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from accel.arch import Architecture
from accel.cascade import Cascade, Einsum
from accel.errors import InputError, Problem, did_you_mean
from accel.nest import EinsumNest, LevelStore, Nest, Overflow, Store
from accel.schedule import Axis
from mapping.bound import operators
from mapping.levels import inward, outward
from mapping.nest_walk import Band, Box, Loops, band_of, touched, turns, visited

__all__ = ["Move", "NestModel"]


@dataclass(frozen=True, kw_only=True)
class Move:
    """Values of one tensor that pass through one memory for one Einsum.

    Parameters
    ----------
    unit, action : str
        ``dram``, ``buffer`` or an inner level; ``read`` or ``write``.
    tensor, einsum : str
        What moves, and the Einsum whose loops move it.
    stage : int
        When.
    values : Fraction
        How many of one instance; not whole where a share spills.
    """

    unit: str
    action: str
    tensor: str
    einsum: str
    stage: int
    values: Fraction


@dataclass(frozen=True, kw_only=True)
class NestModel:
    """A nest on an architecture, for the rank sizes of one instance.

    Parameters
    ----------
    cascade : Cascade
        What is computed; its tensors have plain ranks, without iteration or partition.
    architecture : Architecture
        What computes it.
    nest : Nest
        How.
    sizes : mapping of str to int
        Upper-case rank to its size; other symbols of filters too, such as the width of a window.

    Raises
    ------
    InputError
        A name of the nest does not fit the cascade or the architecture, an array lacks an operator, an Einsum runs
        before what it reads, a filter is no band, or a memory is too small and may not spill.
    """

    cascade: Cascade
    architecture: Architecture
    nest: Nest
    sizes: Mapping[str, int]

    def __post_init__(self) -> None:
        """Check everything that the descriptions cannot check alone."""
        found = [*self._name_problems()]
        if not found:
            found = [*self._filter_problems(), *self._order_problems(), *self._level_problems()]
        if not found:
            found = [*self._capacity_problems(), *self._level_capacity_problems()]
        if found:
            raise InputError.of(found)

    # What does not fit ----------------------------------------------------------------------------------------------

    def _name_problems(self) -> Iterator[Problem]:
        tensors = {tensor.name for tensor in self.cascade.inputs} | set(self.einsums)
        for what, given, known in (("nest", self.nest.einsums, self.einsums), ("tensor", self.nest.tensors, tensors)):
            for name in given:
                if name not in known:
                    yield Problem(
                        message=f"{what} {name!r} must belong to cascade {self.cascade.name!r}",
                        hint=did_you_mean(name, known),
                    )
            for name in known:
                if name not in given:
                    yield Problem(
                        message=f"the nest must say how {name!r} of cascade {self.cascade.name!r} "
                        f"{'runs' if what == 'nest' else 'is stored'}",
                        hint=f"add {name}",
                    )
        ranks = {rank for einsum in self.einsums.values() for rank in einsum.ranks}
        for name, loop in self.nest.loops.items():
            if loop.rank not in ranks:
                yield Problem(
                    message=f"loop {name!r} must run over a rank of cascade {self.cascade.name!r}, not {loop.rank!r}",
                    hint=did_you_mean(loop.rank, ranks),
                )
        for rank in sorted(ranks):
            if rank.upper() not in self.sizes:
                yield Problem(message=f"rank {rank!r} must have a size", hint=f"give {rank.upper()}")
        for name, each in self.nest.einsums.items():
            if name in self.einsums:
                yield from self._array_problems(name, each)

    def _array_problems(self, name: str, each: EinsumNest) -> Iterator[Problem]:
        arrays = self.architecture.arrays
        if each.array not in arrays:
            yield Problem(
                message=f"Einsum {name!r} must run on an array of architecture {self.architecture.name!r}, "
                f"but {each.array!r} is none",
                hint=did_you_mean(each.array, arrays),
            )
            return
        for operator in operators(self.einsums[name], arrays[each.array]):
            if operator not in arrays[each.array].operators:
                yield Problem(
                    message=f"array {each.array!r} must have operator {operator!r} to run Einsum {name!r}",
                    hint="run it on another array",
                )

    def _filter_problems(self) -> Iterator[Problem]:
        known = self._symbols
        for name, einsum in self.einsums.items():
            missing = sorted({symbol for each in einsum.conditions for symbol in each.symbols} - known.keys())
            for symbol in missing:
                yield Problem(
                    message=f"{symbol!r} in the filter of Einsum {name!r} must have a value", hint=f"give {symbol}"
                )
            if not missing:
                try:
                    band_of(einsum, known)
                except InputError as error:
                    yield from error.problems

    def _order_problems(self) -> Iterator[Problem]:
        place = {name: (index, k) for index, stage in enumerate(self.nest.stages) for k, name in enumerate(stage)}
        for name, einsum in self.einsums.items():
            for access in einsum.reads:
                if access.tensor in place and place[access.tensor] >= place[name]:
                    yield Problem(
                        message=f"{name!r} must stand after {access.tensor!r}, which it reads",
                        hint="move it behind, or to a later stage",
                    )

    def _level_problems(self) -> Iterator[Problem]:
        levels = self.architecture.levels
        for tensor, store in self.nest.tensors.items():
            users = {self.nest.einsums[name].array for name, _ in self._users(tensor)}
            for level in store.levels:
                if level not in levels:
                    yield Problem(
                        message=f"tensor {tensor!r} must pass through levels of architecture "
                        f"{self.architecture.name!r}, but {level!r} is none",
                        hint=did_you_mean(level, levels) if levels else "the architecture has none",
                    )
                elif levels[level].array not in (None, *users):
                    yield Problem(
                        message=f"level {level!r} must serve an array that uses tensor {tensor!r}, but serves "
                        f"{levels[level].array!r} and it is used on {', '.join(sorted(users))}",
                        hint="leave the level out for this tensor",
                    )

    def _level_capacity_problems(self) -> Iterator[Problem]:
        for level, parts in self.fullest_in_levels.items():
            memory, taken = self.architecture.levels[level], sum(parts.values())
            if taken > memory.size_bits:
                listed = ", ".join(f"{name} {bits}" for name, bits in parts.items() if bits)
                yield Problem(
                    message=f"level {level!r} must hold {taken} bits in whole rows ({listed}), but has "
                    f"{memory.size_bits}: {taken - memory.size_bits} too few",
                    hint="keep the tensors within a loop further in, or choose smaller loops",
                )

    def _capacity_problems(self) -> Iterator[Problem]:
        held = self.architecture.buffer.size_bits
        if self.needed_bits > held and self.nest.overflow is Overflow.REFUSED:
            parts = ", ".join(f"{name} {bits}" for name, bits in self.fullest.items() if bits)
            yield Problem(
                message=f"the buffer must hold {self.needed_bits} bits ({parts}), but has {held}: "
                f"{self.needed_bits - held} too few",
                hint="choose smaller loops, or overflow: spilled",
            )

    # Loops ----------------------------------------------------------------------------------------------------------

    @cached_property
    def einsums(self) -> Mapping[str, Einsum]:
        """Name to Einsum, initial values left out."""
        return {einsum.name: einsum for einsum in self.cascade.einsums if not einsum.is_initial}

    def size(self, rank: str) -> int:
        """Return the size of a rank."""
        return self.sizes[rank.upper()]

    def _extents(self, rank: str, loops: tuple[str, ...]) -> Counter[int]:
        """Return the sizes of the tiles of a rank to how many there are."""
        tiles = Counter({self.size(rank): 1})
        for loop in loops:
            if self.nest.loops[loop].rank != rank:
                continue
            size, cut = self.nest.loops[loop].size, Counter[int]()
            for extent, count in tiles.items():
                whole, rest = divmod(extent, size)
                cut[size] += whole * count
                cut[rest] += count if rest else 0
            tiles = +cut
        return tiles

    def slice_of(self, ranks: tuple[str, ...], loops: tuple[str, ...]) -> int:
        """Return the values of a tensor that one iteration of all ``loops`` touches, at most."""
        return math.prod(max(self._extents(rank, loops)) for rank in ranks)

    # Filters --------------------------------------------------------------------------------------------------------

    @cached_property
    def _symbols(self) -> Mapping[str, int]:
        """Values of the symbols of filters."""
        return {each.name: int(each.default) for each in self.cascade.parameters if each.is_size} | dict(self.sizes)

    @cached_property
    def bands(self) -> Mapping[str, Band | None]:
        """Einsum to its filter; None where all points count."""
        return {name: band_of(einsum, self._symbols) for name, einsum in self.einsums.items()}

    def _box(self, name: str) -> Box:
        return {rank: (0, self.size(rank)) for rank in self.einsums[name].ranks}

    def _loops(self, names: tuple[str, ...]) -> Loops:
        return tuple((self.nest.loops[name].rank, self.nest.loops[name].size) for name in names)

    def _turns(self, name: str, widths: Mapping[str, int]) -> int:
        """Return the turns of an array of those widths over the tiles of an Einsum that are not skipped."""
        return turns(self._loops(self.nest.einsums[name].loops), self._box(name), self.bands[name], widths)

    # Compute --------------------------------------------------------------------------------------------------------

    def cycles(self, name: str) -> int:
        """Return the cycles of an Einsum for one instance: those of the fullest PE, tile by tile."""
        einsum, nest = self.einsums[name], self.nest.einsums[name]
        array = self.architecture.arrays[nest.array]
        point_cycles = sum(count * array.operators[each].cycles for each, count in operators(einsum, array).items())
        widths = {
            rank: array.rows if axis is Axis.ROWS else array.columns
            for rank, axis in nest.axes.items()
            if rank in einsum.ranks
        }
        return point_cycles * self._turns(name, widths)

    def points(self, name: str) -> int:
        """Return the points that pass the filter of an Einsum, for one instance."""
        band, sizes = self.bands[name], {rank: self.size(rank) for rank in self.einsums[name].ranks}
        if band is None:
            return math.prod(sizes.values())
        return band.points(sizes) * math.prod(size for rank, size in sizes.items() if rank not in band.ranks)

    def executed(self, name: str) -> int:
        """Return the points of the tiles that run, for one instance: a tile at the edge of the filter runs whole."""
        return self._turns(name, {})

    # Movement -------------------------------------------------------------------------------------------------------

    def moved(self, name: str, ranks: tuple[str, ...]) -> int:
        """Return the values of a tensor with ``ranks`` that an Einsum moves into or out of its array.

        Each tile moves its part, but a stationary tensor only where the part is another than that of the tile before.
        """
        nest = self.nest.einsums[name]
        stationary = not any(
            rank not in nest.axes and max(self._extents(rank, nest.loops)) > 1
            for rank in ranks
            if rank in self.einsums[name].ranks
        )
        return visited(self._loops(nest.loops), self._box(name), self.bands[name], ranks, stays=stationary)

    def fetched(self, name: str, within: str | None, ranks: tuple[str, ...]) -> int:
        """Return the values of a tensor with ``ranks`` that a memory takes in which an Einsum keeps them in a loop."""
        loops = self.nest.einsums[name].loops
        cut = loops.index(within) + 1 if within in loops else 0
        outside, inside = self._loops(loops[:cut]), self._loops(loops[cut:])
        return touched(outside, inside, self._box(name), self.bands[name], ranks)

    def _levels(self, name: str, tensor: str) -> list[tuple[str, LevelStore]]:
        """Return the inner levels between an Einsum's array and the store of a tensor, the innermost first."""
        kept = self.nest.tensors[tensor].levels
        path = self.architecture.path(self.nest.einsums[name].array)
        return [(level, kept[level]) for level in path if level in kept]

    def _crossed(self, name: str, tensor: str, ranks: tuple[str, ...]) -> tuple[tuple[str, ...], list[Fraction]]:
        """Return the levels on the way of a tensor, and the values that cross each border: the array's own first."""
        levels = self._levels(name, tensor)
        taken_in = (self.fetched(name, kept.within, ranks) for _, kept in levels)
        return tuple(level for level, _ in levels), [Fraction(self.moved(name, ranks)), *map(Fraction, taken_in)]

    @cached_property
    def passes(self) -> Mapping[str, int]:
        """Einsum to its pass: one more than that of a reduction that it waits for along a rank of its own."""
        found: dict[str, int] = {}
        for name, einsum in self.einsums.items():
            number = 0
            for access in einsum.reads:
                maker = self.einsums.get(access.tensor)
                if maker is None or self.nest.einsums[maker.name].array != self.nest.einsums[name].array:
                    continue
                waits = maker.reduction is not None and set(maker.reduction.ranks) & set(einsum.ranks)
                number = max(number, found[maker.name] + bool(waits))
            found[name] = number
        return found

    def readers(self, tensor: str) -> list[tuple[str, tuple[str, ...]]]:
        """Return the Einsums that read a tensor from its store, with its ranks.

        Einsums of one array and pass share what the first of them reads, and what one of them has just made.
        """
        seen = set()
        maker = self.einsums.get(tensor)
        if maker is not None and not (maker.reduction and self._reduces(tensor)):
            seen.add((self.nest.einsums[tensor].array, self.passes[tensor]))
        found = []
        for name, einsum in self.einsums.items():
            place = (self.nest.einsums[name].array, self.passes[name])
            for access in einsum.reads:
                if access.tensor == tensor and place not in seen:
                    seen.add(place)
                    found.append((name, access.ranks))
        return found

    def _reduces(self, tensor: str) -> bool:
        """Return whether some reader iterates over a rank that making the tensor reduces."""
        reduction = self.einsums[tensor].reduction
        return reduction is not None and any(
            set(reduction.ranks) & set(einsum.ranks)
            for einsum in self.einsums.values()
            if any(access.tensor == tensor for access in einsum.reads)
        )

    # Capacity -------------------------------------------------------------------------------------------------------

    @cached_property
    def occupancy_bits(self) -> Mapping[str, int]:
        """Tensor to the bits of buffer that it takes: what is kept within a loop, or one tile of what streams."""
        found = {}
        for tensor, store in self.nest.tensors.items():
            name, ranks = self._user(tensor)
            loops = self.nest.einsums[name].loops
            if store.store is Store.BUFFER or store.staged:
                loops = loops[: loops.index(store.within) + 1] if store.within in loops else ()
            found[tensor] = store.copies * self.slice_of(ranks, loops) * self.architecture.width_bits
        return found

    @cached_property
    def fullest(self) -> Mapping[str, int]:
        """Tensor to its bits in the stage that takes most of the buffer; stages share it one after the other."""
        stages = []
        for stage in self.nest.stages:
            touched = {*stage, *(access.tensor for name in stage for access in self.einsums[name].reads)}
            stages.append({name: bits for name, bits in self.occupancy_bits.items() if name in touched})
        return max(stages, key=lambda parts: sum(parts.values()))

    @property
    def needed_bits(self) -> int:
        """Bits of the buffer that the fullest stage takes."""
        return sum(self.fullest.values())

    def _users(self, tensor: str) -> list[tuple[str, tuple[str, ...]]]:
        """Return the Einsums that make or read a tensor, with its ranks."""
        users = [(tensor, self.einsums[tensor].output.ranks)] if tensor in self.einsums else []
        return users + [
            (name, access.ranks)
            for name, einsum in self.einsums.items()
            for access in einsum.reads
            if access.tensor == tensor
        ]

    def _user(self, tensor: str) -> tuple[str, tuple[str, ...]]:
        """Return the Einsum whose loops say how a tensor is cut, and the ranks of the tensor: its maker or a reader."""
        users, within = self._users(tensor), self.nest.tensors[tensor].within
        return next((user for user in users if within in self.nest.einsums[user[0]].loops), users[0])

    @cached_property
    def fullest_in_levels(self) -> Mapping[str, Mapping[str, int]]:
        """Inner level to the bits, in whole rows, that each tensor takes in the stage that takes most of it."""
        return {level: self._fullest_in(level) for level in self.architecture.levels}

    def _fullest_in(self, level: str) -> Mapping[str, int]:
        memory, stages = self.architecture.levels[level], []
        for stage in self.nest.stages:
            parts: dict[str, int] = {}
            for tensor in self.nest.tensors:
                for name, ranks in self._users(tensor):
                    if name in stage and level in (between := dict(self._levels(name, tensor))):
                        kept, loops = between[level], self.nest.einsums[name].loops
                        loops = loops[: loops.index(kept.within) + 1] if kept.within in loops else ()
                        rows = memory.rows(self.slice_of(ranks, loops) * self.architecture.width_bits)
                        parts[tensor] = max(parts.get(tensor, 0), kept.copies * rows * memory.row_bits)
            stages.append(parts)
        return max(stages, key=lambda parts: sum(parts.values()))

    @cached_property
    def spilled(self) -> Fraction:
        """Share of each tensor in the buffer for which there is no room."""
        return max(Fraction(0), 1 - Fraction(self.architecture.buffer.size_bits, max(self.needed_bits, 1)))

    # All movements --------------------------------------------------------------------------------------------------

    def moves(self) -> Iterator[Move]:
        """Yield every movement of values of one instance to and from DRAM, the buffer and the inner levels."""
        stage_of = {name: index for index, stage in enumerate(self.nest.stages) for name in stage}

        def move(unit: str, action: str, tensor: str, einsum: str, values: Fraction) -> Move:
            stage = stage_of[einsum]
            return Move(unit=unit, action=action, tensor=tensor, einsum=einsum, stage=stage, values=values)

        for tensor, store in self.nest.tensors.items():
            kept = store.store is Store.BUFFER or store.staged
            share = self.spilled if kept and store.spills else Fraction(0)
            maker = self.einsums.get(tensor)
            if maker is not None:
                yield from self._made(tensor, maker, share, move)
            first: int | None = None
            for name, ranks in self.readers(tensor):
                path, values = self._crossed(name, tensor, ranks)
                *inside, last = inward(path, "buffer" if kept else "dram")
                for each in inside:
                    yield move(each.unit, each.action, tensor, name, values[each.border])
                if not kept:
                    yield move(last.unit, last.action, tensor, name, values[last.border])
                    continue
                if store.store is Store.DRAM and stage_of[name] != first:
                    once = Fraction(self.fetched(name, store.within, ranks))
                    yield move("dram", "read", tensor, name, (1 - share) * once)
                    yield move("buffer", "write", tensor, name, once)
                first = stage_of[name]
                yield move("dram", "read", tensor, name, share * values[last.border])
                yield move(last.unit, last.action, tensor, name, values[last.border])

    def _made(self, tensor: str, maker: Einsum, share: Fraction, move: Callable[..., Move]) -> Iterator[Move]:
        """Yield the movements of a tensor by the Einsum that makes it, partial sums that leave the array included.

        What comes to a memory for the first time is written; what comes again was read before, to go on with the sum.
        """
        store, ranks = self.nest.tensors[tensor], maker.output.ranks
        once = Fraction(self.fetched(tensor, None, ranks))
        path, values = self._crossed(tensor, tensor, ranks)
        accumulates = store.store is Store.BUFFER or (store.staged and tensor in self.cascade.outputs)
        for each in outward(path, "buffer" if accumulates else "dram"):
            crossing = values[each.border] - (once if each.again else 0)
            yield move(each.unit, each.action, tensor, tensor, crossing)
        if store.store is Store.BUFFER:
            yield move("dram", "write", tensor, tensor, share * values[-1])
        elif accumulates:
            yield move("dram", "write", tensor, tensor, once)
