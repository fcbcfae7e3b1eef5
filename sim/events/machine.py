"""The machine: executes a schedule epoch by epoch, with values, and refuses to read what is not there."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from accel.arch import Architecture, PipelineFill
from accel.cascade import Cascade, Einsum
from accel.errors import InputError
from accel.expression import Access
from accel.schedule import Level, Schedule
from accel.workload import Workload
from sim.events.clock import Job, schedule_group
from sim.events.failure import ExecutionError, Kind
from sim.events.levels import Levels
from sim.events.masks import passes, placed, running
from sim.events.memory import NEVER, Buffer, Registers, Values
from sim.events.points import IDENTITY, REDUCE, Array, compute, operators
from sim.events.readers import Readers
from sim.events.report import Action, Execution
from sim.events.tiles import Tile, tiles_in_order
from sim.events.work import Shop, Work

__all__ = ["execute", "random_inputs"]


def execute(
    cascade: Cascade,
    architecture: Architecture,
    schedule: Schedule,
    workload: Workload,
    inputs: Mapping[str, ArrayLike],
) -> Execution:
    """Return what happens when a schedule is executed on given values.

    Time and memory grow with the points of the workload: it is meant for small ones. Where the architecture hides the
    filling of the pipeline, the same workload runs before and behind the one that counts.

    Parameters
    ----------
    cascade, architecture, schedule, workload
        What is computed, on what, how, and at which sizes.
    inputs : mapping of str to array
        Input tensor to its values, one array of the tensor's shape for each instance: ``[instances, ...]``.

    Raises
    ------
    ExecutionError
        The schedule reads a value that is not there, computes a point twice, or overfills a memory.
    InputError
        An input is missing or of the wrong shape, or the plan skips tiles and no rank lends itself to it.
    """
    machine = _Machine(_shop(cascade, architecture, schedule, workload), workload, inputs)
    with np.errstate(all="ignore"):  # as in hardware: -inf minus -inf is NaN, and shows in the outputs
        machine.execute()
    return machine.report()


def random_inputs(cascade: Cascade, schedule: Schedule, workload: Workload, seed: int = 0) -> dict[str, Array]:
    """Return standard normal values for each input, ``[instances, ...]``, the same for the same seed."""
    sizes = _sizes(cascade, schedule, workload)
    random = np.random.default_rng(seed)
    return {
        tensor.name: random.standard_normal((workload.instances, *tensor.shape(sizes))) for tensor in cascade.inputs
    }


def _sizes(cascade: Cascade, schedule: Schedule, workload: Workload) -> dict[str, int]:
    tiles = {rank.upper(): size for rank, size in schedule.tiles.items()}
    given = workload.sizes | workload.parameters | tiles
    return given | cascade.sizes(given)


def _shop(cascade: Cascade, architecture: Architecture, schedule: Schedule, workload: Workload) -> Shop:
    sizes = _sizes(cascade, schedule, workload)
    return Shop(cascade=cascade, architecture=architecture, schedule=schedule, sizes=sizes)


class _Machine:
    """The state of an execution."""

    def __init__(self, shop: Shop, workload: Workload, inputs: Mapping[str, ArrayLike]) -> None:
        self.shop = shop
        self.plan = shop.schedule.plan
        self.architecture = shop.architecture
        self.instances = workload.instances
        sizes = {rank: shop.sizes[rank.upper()] for rank in self.plan.splits}
        alone = len(self._tiles(sizes, 1))
        hidden = self.architecture.pipeline_fill is PipelineFill.HIDDEN
        self.run = -(-self.plan.depth // alone) if hidden else 0  # the repetition that counts
        self.tiles = placed(self._tiles(sizes, self.run + 1))
        self.outputs = frozenset(shop.cascade.outputs)
        self.counted_epochs = range(self.run * alone, len(self.tiles) + (0 if hidden else self.plan.depth))
        self.values = self._initial_values(inputs)
        self.buffer = Buffer(self.architecture, self.values)
        self.levels = Levels(shop)
        self.registers = Registers(self.architecture)
        self.regions: dict[str, tuple[int, ...]] = {}
        self.region_numbers: dict[str, dict[tuple[int, ...], int]] = defaultdict(dict)
        self.handed_on: set[tuple[int, Access]] = set()
        self.counted_for: dict[tuple[int, Access], str] = {}
        self.fetched = {tensor.name: self._mask(tensor.name) for tensor in shop.cascade.inputs}
        self.computed: dict[str, Array] = {}
        self.readers = Readers(shop, self.tiles, self.instances)
        self.clock = 0
        self.epochs = self.cycles = 0
        self.actions: Counter[Action] = Counter()
        self.einsum_runs: Counter[str] = Counter()
        self.einsum_cycles: Counter[str] = Counter()
        self.einsum_points: Counter[str] = Counter()
        self.busy: dict[str, int] = dict.fromkeys(self.architecture.arrays, 0)

    def _tiles(self, sizes: Mapping[str, int], runs: int) -> list[Tile]:
        every = tiles_in_order(self.shop.schedule, sizes, self.instances, runs)
        return running(self.shop.cascade, self.plan, every, self.shop.sizes)

    def _mask(self, tensor: str) -> Array:
        return np.zeros((self.instances, self.shop.size(tensor)), dtype=bool)

    def _initial_values(self, inputs: Mapping[str, ArrayLike]) -> dict[str, Values]:
        """Return all tensors: inputs as given, though not on chip yet, and running ones with their first values."""
        shop, copies = self.shop, (self.run + 1) * self.instances
        values: dict[str, Values] = {}
        for name in shop.cascade.tensors:
            values[name] = Values(copies, shop.size(name))
        for tensor in shop.cascade.inputs:
            shape = (self.instances, *shop.shape(tensor.name))
            given = np.asarray(inputs.get(tensor.name, ()), dtype=float)
            if given.shape != shape:
                raise InputError(
                    f"input {tensor.name!r} must have shape {shape}, not {given.shape}",
                    hint="give one array for each instance, stacked",
                )
            values[tensor.name].value[:] = np.tile(given.reshape(self.instances, -1), (self.run + 1, 1))
            values[tensor.name].made[:] = 0
        for einsum in shop.cascade.einsums:
            if einsum.is_initial:
                coordinates = np.indices([shop.sizes[rank.upper()] for rank in einsum.output.ranks])
                places = np.zeros(coordinates.shape[1:], dtype=np.int64)
                for index, extent in zip(einsum.output.indices, shop.shape(einsum.name), strict=True):
                    along = coordinates[einsum.output.ranks.index(index.ranks[0])] if index.ranks else index.constant
                    places = places * extent + np.asarray(along)
                first = compute(einsum.expression, {}, shop.sizes, ())
                values[einsum.name].give(slice(None), places.ravel(), float(first))
        return values

    def _copy(self, tile: Tile) -> int:
        return tile.copy(self.instances)

    def _level(self, tensor: str) -> Level:
        return self.plan.residency[tensor].level

    # The clock ------------------------------------------------------------------------------------------------------

    def execute(self) -> None:
        """Run all epochs."""
        for epoch in range(len(self.tiles) + self.plan.depth):
            begin = self.clock
            for group in self.plan.epoch:
                slots = [{array: self._queue(names, epoch) for array, names in slot.items()} for slot in group.slots]
                jobs, self.clock = schedule_group(slots, self.clock)
                self._perform(jobs)
                self.clock += group.stall_cycles
            if epoch in self.counted_epochs:
                self.epochs += 1
                self.cycles += self.clock - begin

    def _queue(self, names: tuple[str, ...], epoch: int) -> list[tuple[Work, Tile]]:
        """Return which of an array's Einsums run in an epoch, and for which tiles."""
        queue = []
        for name in names:
            einsum, number = self.shop.by_name[name], epoch - self.plan.offsets[name]
            if 0 <= number < len(self.tiles) and self.shop.runs(einsum, self.tiles[number]):
                queue.append((self.shop.work(einsum, self.tiles[number]), self.tiles[number]))
        return queue

    def _perform(self, jobs: list[Job]) -> None:
        """Let the jobs of a group begin and end in the order of time; in one cycle, ends come before begins."""
        self.counted_for = {}
        for job in sorted(jobs, key=lambda job: self.shop.text_order[job.work.einsum.name]):
            for access in job.work.einsum.reads:
                self.counted_for.setdefault((job.tile.number, access), job.work.einsum.name)
        events = [(job.begin, 1, self.shop.order[job.work.einsum.name], job) for job in jobs]
        events += [(job.done, 0, self.shop.order[job.work.einsum.name], job) for job in jobs]
        for _, begins, _, job in sorted(events, key=lambda event: event[:3]):
            if begins:
                self._begin(job)
            else:
                self._end(job)

    # One job --------------------------------------------------------------------------------------------------------

    def _begin(self, job: Job) -> None:
        """Read the operands, compute, and let the values out on the links, each in its cycle."""
        einsum, tile, work = job.work.einsum, job.tile, job.work
        copy = self._copy(tile)
        self._once(job)
        for access in self.shop.needs(einsum, tile):
            self._read(job, access)
        if self._level(einsum.name) is Level.BUFFER:
            self.levels.make(job, self.shop.values(work.makes))
        operands = {access: self.values[access.tensor].value[copy, work.reads[access]] for access in einsum.reads}
        result = compute(einsum.expression, operands, self.shop.sizes, work.grid.shape)
        outside = 0.0 if einsum.reduction is None else IDENTITY[einsum.reduction.operator]
        result = np.where(work.passed, result, outside)
        made: Array = job.point_ends
        if einsum.reduction is not None:
            reduce = REDUCE[einsum.reduction.operator]
            result = reduce.reduce(result, axis=work.reduced, keepdims=True)
            made = np.max(made, axis=work.reduced, keepdims=True)
            if self.shop.goes_on(einsum, tile):
                result = reduce(self.values[einsum.name].value[copy, work.makes], result)
        values = self.values[einsum.name]
        values.value[copy, work.makes] = result
        values.made[copy, work.makes] = made if self.shop.completes(einsum, tile) else NEVER
        if self._level(einsum.name) is not Level.BUFFER:
            values.held[copy, work.makes] = True
            values.stored[copy, work.makes] = True
            self._take_registers(job)
        elif einsum.iterative_rank is not None:  # the new value is handed on within its tile
            self.handed_on.add((tile.number, einsum.output))
        self._count_work(job)

    def _once(self, job: Job) -> None:
        einsum = job.work.einsum
        size = self.shop.total(tuple(rank for rank in self.shop.cascade.ranks if rank in einsum.ranks))
        copies = (self.run + 1) * self.instances
        done = self.computed.setdefault(einsum.name, np.zeros((copies, size), dtype=bool))
        here = (self._copy(job.tile), job.work.space)
        if done[here].any():
            raise ExecutionError(Kind.TWICE, f"{einsum.name!r} must compute each point once, but does some again")
        done[here] = True

    def _count_work(self, job: Job) -> None:
        if job.tile.run != self.run:
            return
        einsum, array = job.work.einsum, self.architecture.arrays[job.array]
        points = job.work.grid.ordinals.size
        self.einsum_runs[einsum.name] += 1
        self.einsum_cycles[einsum.name] += job.work.cycles
        self.einsum_points[einsum.name] += points
        self.busy[job.array] += job.work.cycles
        for name, number in operators(einsum, array).items():
            for action, each in array.operators[name].actions.items():
                self.actions[job.array, array.component, action, einsum.name, einsum.name] += number * each * points

    def _take_registers(self, job: Job) -> None:
        einsum, tile = job.work.einsum, job.tile
        if self._level(einsum.name) is not Level.REGISTERS:
            return
        for tensor, maker in self.readers.blocks[einsum.name, tile.number]:
            if tensor == einsum.name and self.shop.goes_on(einsum, tile):  # the new sum takes the place of the old
                self.registers.give_back(tensor, maker, job.array)
        demands = [
            (array, self.shop.per_pe(einsum.output.ranks, array, tile))
            for array in self.architecture.arrays
            if self.readers.left_on((einsum.name, tile.number), array)
        ]
        self.registers.take(einsum.name, tile.number, demands, job.begin)

    def _read(self, job: Job, access: Access) -> None:
        """Get the values of one access to where they are needed, and see that each was made in time."""
        tensor, tile = access.tensor, job.tile
        values, here = self.values[tensor], (self._copy(tile), job.work.reads[access])
        unfinished = access == job.work.einsum.output
        # Of the Einsums of a group that read the same of a tile the first of the text stands for all.
        reader = job.work.einsum.name if unfinished else self.counted_for[tile.number, access]
        if (tile.number, access) not in self.handed_on:
            if tensor in self.shop.inputs:
                self._read_input(job, access, reader)
            else:
                self._see_held(job, access)
                if self._level(tensor) is Level.BUFFER:
                    self._count_reads(job, access, reader)
                    values.used[here] = True
            stored = tensor in self.shop.inputs or self._level(tensor) is Level.BUFFER
            if stored and not unfinished:
                # The first Einsum of a tile that needs a stored value reads it; others get it from there.
                self.handed_on.add((tile.number, access))
        late = values.made[here] > job.point_begins
        if late.any() and not unfinished:
            when = int(values.made[here][late].flat[0])
            raise ExecutionError(
                Kind.NOT_MADE if when == NEVER else Kind.TOO_EARLY,
                f"{job.work.einsum.name!r} must read {access} of tile {tile.number} after it is made, but reads it in "
                f"cycle {int(job.point_begins[late].flat[0])} and it is "
                + ("not complete by then" if when == NEVER else f"made by cycle {when}"),
                hint=f"raise the offset of {job.work.einsum.name!r}"
                + (f", or make all of {tensor!r} in a pass before" if when == NEVER else ""),
            )

    def _see_held(self, job: Job, access: Access) -> None:
        tensor, tile = access.tensor, job.tile
        values, here = self.values[tensor], (self._copy(tile), job.work.reads[access])
        missing = ~values.held[here]
        if not missing.any():
            return
        what = f"{job.work.einsum.name!r} must read {access} of tile {tile.number} "
        if not values.stored[here][missing].all():
            made = bool((values.made[here][missing] != NEVER).all())
            raise ExecutionError(
                Kind.TOO_EARLY if made else Kind.NOT_MADE,
                f"{what}after it is made, but in cycle {job.begin} it is not there yet",
                hint=f"raise the offset of {job.work.einsum.name!r}",
            )
        raise ExecutionError(
            Kind.NOT_HELD,
            f"{what}while it is kept, but in cycle {job.begin} {tensor!r} "
            + ("has newer values in its place" if self._level(tensor) is Level.BUFFER else "has passed by"),
            hint=f"keep {tensor!r} within an outer loop or in more copies, or lower the offset of its reader",
        )

    def _read_input(self, job: Job, access: Access, reader: str) -> None:
        """Stream an input from DRAM, or read it from the buffer, into which it is fetched when it is not there."""
        tensor, tile, places = access.tensor, job.tile, job.work.reads[access]
        if self._level(tensor) is not Level.BUFFER:
            self._count_dram("read", tensor, reader, tile, places)
            return
        region = self.shop.region(tensor, tile)
        if self.regions.get(tensor) != region:
            self.buffer.clear(tensor)
            self.regions[tensor] = region
        held = self.values[tensor].held[self._copy(tile), places]
        if not held.all():
            self._count_dram("read", tensor, None, tile, places)
            self._count_rows("buffer", tile, "write", tensor, None, places)
            self.buffer.put(tensor, self.shop.position(tensor, tile), self._copy(tile), places, job.begin)
        self._count_reads(job, access, reader)

    def _count_reads(self, job: Job, access: Access, reader: str) -> None:
        """Count a tile's way from the buffer, or from the level that keeps it, to the array of its reader."""
        places = job.work.reads[access]
        for unit, action in self.levels.take_in(reader, access, job, self.shop.values(places)):
            self._count_rows(unit, job.tile, action, access.tensor, reader, places)

    def _count_rows(self, unit: str, tile: Tile, action: str, tensor: str, einsum: str | None, places: Array) -> None:
        """Count the rows of a tile that the buffer or a level reads or writes."""
        if tile.run == self.run:
            memory = self.architecture.buffer if unit == "buffer" else self.architecture.levels[unit]
            bits = self.shop.values(places) * self.architecture.width_bits
            self.actions[unit, memory.component, action, tensor, einsum] += -(-bits // memory.row_bits)

    def _count_dram(self, action: str, tensor: str, einsum: str | None, tile: Tile, places: Array) -> None:
        if tile.run != self.run:
            return
        dram, bits = self.architecture.dram, self.shop.values(places) * self.architecture.width_bits
        self.actions["dram", dram.component, action, tensor, einsum] += -(-bits // dram.word_bits)
        if tensor in self.fetched:
            self.fetched[tensor][tile.instance, places] = True

    def _end(self, job: Job) -> None:
        """Store what is made, and give up what has been read for the last time."""
        einsum, tile = job.work.einsum, job.tile
        in_buffer = self._level(einsum.name) is Level.BUFFER
        if in_buffer:
            numbers = self.region_numbers[einsum.name]
            number = numbers.setdefault(self.shop.region(einsum.name, tile), len(numbers))
            copy_number = number % self.plan.residency[einsum.name].copies
            address = (copy_number, *self.shop.position(einsum.name, tile))
            self.buffer.put(einsum.name, address, self._copy(tile), job.work.makes, job.done)
            for unit, action in self.levels.give_out(einsum.name):
                self._count_rows(unit, tile, action, einsum.name, einsum.name, job.work.makes)
        self.levels.end(job)
        if einsum.name in self.outputs:
            if in_buffer:
                self._count_rows("buffer", tile, "read", einsum.name, None, job.work.makes)
            self._count_dram("write", einsum.name, None if in_buffer else einsum.name, tile, job.work.makes)
        if not in_buffer and not self.readers.left((einsum.name, tile.number)):
            self._let_go(einsum.name, tile.number)
        for tensor, maker in self.readers.blocks[einsum.name, tile.number]:
            self.readers.has_read(einsum.name, (tensor, maker))
            if not self.readers.left_on((tensor, maker), job.array):
                self.registers.give_back(tensor, maker, job.array)
            if not self.readers.left((tensor, maker)) and self._level(tensor) is not Level.BUFFER:
                self._let_go(tensor, maker)

    def _let_go(self, tensor: str, maker: int) -> None:
        tile = self.tiles[maker]
        work = self.shop.work(self.shop.by_name[tensor], tile)
        if self.readers.is_last_maker(tensor, maker, self._copy(tile), work.makes):
            self.values[tensor].held[self._copy(tile), work.makes] = False

    # Filters --------------------------------------------------------------------------------------------------------

    def _all_points(self, ranks: tuple[str, ...]) -> dict[str, Array]:
        """Return the coordinates of every point over ``ranks``; parts of a split that go past its end are left in."""
        sizes = [self.shop.sizes[rank.upper()] for rank in ranks]
        return dict(zip(ranks, np.indices(sizes, sparse=True), strict=True))

    def _there(self, at: Mapping[str, Array]) -> Array:
        """Return which points lie within the ranks that are split: the last tile may be partial."""
        found: Array = np.ones((), dtype=bool)
        for digits, whole in self.shop.cascade.partitions.items():
            if set(digits) <= at.keys():
                place: Array = np.zeros((), dtype=np.int64)
                for digit in digits:
                    place = place * self.shop.sizes[digit.upper()] + at[digit]
                found = found & (place < self.shop.sizes[whole.upper()])
        return found

    def _missed(self, einsum: Einsum) -> int:
        """Return how many points that a filter leaves were not computed, all instances together."""
        ranks = tuple(rank for rank in self.shop.cascade.ranks if rank in einsum.ranks)
        at = self._all_points(ranks)
        wanted = np.broadcast_to(
            passes(einsum.conditions, at, self.shop.sizes) & self._there(at),
            [self.shop.sizes[r.upper()] for r in ranks],
        )
        done = self.computed[einsum.name][self.run * self.instances :] if einsum.name in self.computed else False
        return int((wanted.ravel() & ~np.asarray(done)).sum()) if einsum.name in self.computed else int(wanted.sum())

    def _needed(self, tensor: str) -> Array:
        """Return which elements of an input some Einsum wants, by its filter."""
        found = np.zeros(self.shop.size(tensor), dtype=bool)
        for einsum in self.shop.einsums:
            for access in einsum.reads:
                if access.tensor != tensor:
                    continue
                if not einsum.conditions:
                    return np.ones(found.size, dtype=bool)
                filtered = {rank for condition in einsum.conditions for rank in condition.ranks}
                at = self._all_points(tuple(r for r in self.shop.cascade.ranks if r in filtered | set(access.ranks)))
                place: Array = np.zeros((), dtype=np.int64)
                for index, extent in zip(access.indices, self.shop.shape(tensor), strict=True):
                    coefficients, constant = index.affine(self.shop.sizes)
                    place = place * extent + constant + sum(factor * at[rank] for rank, factor in coefficients.items())
                wanted = passes(einsum.conditions, at, self.shop.sizes) & self._there(at)
                place, wanted = np.broadcast_arrays(place, wanted)
                found[place[wanted]] = True
        return found

    # The end --------------------------------------------------------------------------------------------------------

    def _buffer_cycles(self) -> dict[str, float]:
        """Return the cycles for which the ports of each memory that states them are busy."""
        found = {}
        for unit, memory in (("buffer", self.architecture.buffer), *self.architecture.levels.items()):
            if memory.ports is not None:
                rows = sum(count for key, count in self.actions.items() if key[0] == unit)
                found[unit] = rows / (memory.ports * (memory.banks or 1))
        return found

    def report(self) -> Execution:
        """Return what happened in the repetition that counts."""
        architecture, copies = self.architecture, slice(self.run * self.instances, None)
        words = sum(count for key, count in self.actions.items() if key[0] == "dram")
        memory_cycles = architecture.memory_cycles(words * architecture.dram.word_bits)
        buffer_cycles = self._buffer_cycles()
        on_chip = max([self.cycles, *buffer_cycles.values()])
        overlapped = architecture.memory_overlaps_compute
        return Execution(
            outputs={
                name: self.values[name].value[copies].reshape(self.instances, *self.shop.shape(name))
                for name in self.shop.cascade.outputs
            },
            epochs=self.epochs,
            compute_cycles=self.cycles,
            memory_cycles=memory_cycles,
            latency_cycles=max(memory_cycles, on_chip) if overlapped else memory_cycles + on_chip,
            buffer_cycles=buffer_cycles,
            actions={key: count for key, count in self.actions.items() if count},
            runs=dict(self.einsum_runs),
            cycles=dict(self.einsum_cycles),
            points=dict(self.einsum_points),
            busy_cycles=self.busy,
            buffer_peak_bits={
                name: rows * architecture.buffer.row_bits for name, rows in self.buffer.peak_rows.items()
            },
            level_peak_bits={
                level: {name: number * architecture.levels[level].row_bits for name, number in rows.items()}
                for level, rows in self.levels.peak_rows.items()
            },
            registers_peak=self.registers.peak,
            unused={
                name: int((values.stored & ~values.used)[copies].sum())
                for name, values in self.values.items()
                if name not in self.shop.inputs and name not in self.outputs and self._level(name) is Level.BUFFER
            },
            unread={name: int((self._needed(name) & ~mask).sum()) for name, mask in self.fetched.items()},
            missed={einsum.name: self._missed(einsum) for einsum in self.shop.einsums if einsum.conditions},
        )
