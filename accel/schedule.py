"""Schedules: how a cascade runs on an architecture, as plain data between mapping, hardware and simulation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from accel import spec
from accel.errors import InputError, did_you_mean
from accel.presets import load_preset, preset_names

__all__ = [
    "INSTANCE",
    "Axis",
    "Group",
    "Level",
    "LevelStore",
    "MaskedTiles",
    "Plan",
    "Residence",
    "Schedule",
    "ScheduleTemplate",
    "load_schedule",
    "load_template",
    "template_names",
]

INSTANCE = "instance"
"""The loop around all others: one batch element and one key/value head for each iteration."""


class Axis(StrEnum):
    """An axis of a compute array."""

    ROWS = "rows"
    COLUMNS = "columns"


class Level(StrEnum):
    """Where a tensor lives between the Einsum that makes it and those that read it."""

    BUFFER = "buffer"
    """In the global buffer; an input is fetched from DRAM into it, an output written from it."""
    REGISTERS = "registers"
    """In the PEs of each array that reads it."""
    STREAM = "stream"
    """Nowhere: each value goes to its reader, or from or to DRAM, over a link and is not kept."""


class MaskedTiles(StrEnum):
    """What becomes of tiles in which the filters of the cascade leave no point."""

    SKIPPED = "skipped"
    """They take no cycles, and nothing is read or fetched for them."""
    RUN = "run"
    """They run like all others."""


@dataclass(frozen=True, kw_only=True)
class LevelStore:
    """What of a tensor an inner buffer keeps.

    Parameters
    ----------
    within : str, optional
        The loop for one iteration of which it keeps all values that are touched; without one, for all of an instance.
    copies : int
        For capacity: 2 for double buffering.

    Raises
    ------
    InputError
        ``copies`` is below 1.
    """

    within: str | None = None
    copies: int = 1

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check the copies."""
        if self.copies < 1:
            raise InputError(f"copies must be at least 1, not {self.copies}", field=("copies",))


@dataclass(frozen=True, kw_only=True)
class Residence:
    """Where one tensor lives and for how long.

    Parameters
    ----------
    level : Level
        Where it lives.
    within : str, optional
        Only in the buffer: the loop during one iteration of which all values touched are kept; ``instance`` stands for
        the loop around all others.
    copies : int
        Only in the buffer: 2 for double buffering.
    levels : mapping of str to LevelStore
        Only of an input in the buffer: inner buffers (``accel.arch.InnerBuffer``) that keep its tiles, so that a tile
        is brought there once for each iteration in which it changes. Other levels on the way of a tensor between the
        buffer and an array pass its tiles on and keep none.

    Raises
    ------
    InputError
        ``within`` is missing for the buffer or given for another level, ``copies`` is out of range, or ``levels`` are
        given for a tensor that is not in the buffer.
    """

    level: Level
    within: str | None = None
    copies: int = 1
    levels: Mapping[str, LevelStore] = field(default_factory=dict)

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every field."""
        if (self.level is Level.BUFFER) != (self.within is not None):
            raise InputError(
                "within must be given for level buffer and for no other, "
                f"but level is {self.level.value} and within is {self.within or 'absent'}",
                hint="name the loop for one iteration of which the tensor is kept"
                if self.within is None
                else "remove within",
                field=("within",),
            )
        if self.copies < 1 or (self.copies > 1 and self.level is not Level.BUFFER):
            raise InputError(
                f"copies must be 1, or more in the buffer, not {self.copies} in level {self.level.value}",
                field=("copies",),
            )
        if self.levels and self.level is not Level.BUFFER:
            raise InputError(
                f"levels must be given for level buffer and for no other, but level is {self.level.value}",
                hint="remove levels",
                field=("levels",),
            )


@dataclass(frozen=True, kw_only=True)
class Group:
    """A stretch of the epoch that all arrays begin and end together.

    Parameters
    ----------
    slots : tuple of mapping of str to tuple of str
        Of each slot the Einsums of each array in their order. The arrays run a slot side by side; it ends when the last
        is done. Several slots alternate cycle by cycle, so that none waits for the results of its own previous cycle.
    stall_cycles : int
        Cycles that all arrays wait after it, such as for an array to drain.

    Raises
    ------
    InputError
        There is no slot, a slot is empty, or the stall is negative.
    """

    slots: tuple[Mapping[str, tuple[str, ...]], ...]
    stall_cycles: int = 0

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every field."""
        if not self.slots:
            raise InputError("slots must hold at least one slot", field=("slots",))
        for index, slot in enumerate(self.slots):
            if not any(slot.values()):
                raise InputError("a slot must hold at least one Einsum", hint="remove the slot", field=("slots", index))
        if self.stall_cycles < 0:
            raise InputError(f"stall_cycles must be 0 or more, not {self.stall_cycles}", field=("stall_cycles",))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything about a schedule but its tile sizes.

    An epoch takes in one tile and runs every Einsum once, each on a tile that entered ``offsets`` epochs ago.

    Parameters
    ----------
    splits : mapping of str to tuple of str
        Rank to the ranks it is cut into, outermost first: ``p: [p2, p1, p0]``. The innermost one is the tile.
    loops : tuple of str
        The other ranks of the splits, outermost loop first.
    axes : mapping of str to Axis
        Tile rank to the axis of every array along which it is spread. Other ranks run one point after the other.
    epoch : tuple of Group
        The groups of one epoch in order.
    offsets : mapping of str to int
        Einsum to its tile offset: 0 for the newest tile, 1 for the one before.
    residency : mapping of str to Residence
        Tensor to where it lives.
    masked_tiles : MaskedTiles
        What becomes of tiles that the filters of the cascade empty; of no concern to a cascade without filters.

    Raises
    ------
    InputError
        A name is missing, unknown or used twice, or loops stand in the wrong order.
    """

    splits: Mapping[str, tuple[str, ...]]
    loops: tuple[str, ...]
    axes: Mapping[str, Axis]
    epoch: tuple[Group, ...]
    offsets: Mapping[str, int]
    residency: Mapping[str, Residence]
    masked_tiles: MaskedTiles = MaskedTiles.SKIPPED

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check that the names fit together."""
        self._check_splits()
        self._check_loops()
        for rank in self.axes:
            if rank not in self.tile_ranks:
                raise InputError(
                    f"axes must name tile ranks, but {rank!r} is none",
                    hint=did_you_mean(rank, self.tile_ranks),
                    field=("axes", rank),
                )
        if len(set(self.axes.values())) < len(self.axes):
            raise InputError(
                "each axis must serve one tile rank, but one serves two",
                hint="leave one of the two without an axis",
                field=("axes",),
            )
        self._check_einsums()
        for tensor, residence in self.residency.items():
            self._check_within(residence.within, ("residency", tensor, "within"))
            for level, kept in residence.levels.items():
                self._check_within(kept.within, ("residency", tensor, "levels", level, "within"))

    def _check_within(self, within: str | None, where: tuple[str, ...]) -> None:
        if within is not None and within not in (INSTANCE, *self.loops):
            raise InputError(
                f"within must name a loop, but {within!r} is none",
                hint=did_you_mean(within, (INSTANCE, *self.loops)),
                field=where,
            )

    def _check_splits(self) -> None:
        counts = Counter(part for parts in self.splits.values() for part in parts)
        for rank, parts in self.splits.items():
            if len(parts) < 2:
                raise InputError(
                    f"rank {rank!r} must be split into at least two ranks, not {len(parts)}",
                    hint=f"write [{rank}1, {rank}0]",
                    field=("splits", rank),
                )
            twice = next((part for part in parts if counts[part] > 1), None)
            if twice is not None:
                raise InputError(f"a rank must come from one split, but {twice!r} stands twice", field=("splits", rank))

    def _check_loops(self) -> None:
        expected = [part for parts in self.splits.values() for part in parts[:-1]]
        if sorted(self.loops) != sorted(expected):
            raise InputError(
                f"loops must hold each of {', '.join(expected)} once, not {', '.join(self.loops) or 'nothing'}",
                hint="list every rank of the splits but the innermost",
                field=("loops",),
            )
        for parts in self.splits.values():
            order = [loop for loop in self.loops if loop in parts]
            if order != list(parts[:-1]):
                raise InputError(
                    f"loop {parts[0]!r} must stand outside {parts[1]!r}", hint="swap the two", field=("loops",)
                )

    def _check_einsums(self) -> None:
        counts = Counter(
            name for group in self.epoch for slot in group.slots for names in slot.values() for name in names
        )
        for name, count in counts.items():
            if count > 1:
                raise InputError(
                    f"Einsum {name!r} must run once in an epoch, not {count} times",
                    hint="remove all but one",
                    field=("epoch",),
                )
            if name not in self.offsets:
                raise InputError(f"Einsum {name!r} must have a tile offset", hint=f"add {name}: 0", field=("offsets",))
        for name, offset in self.offsets.items():
            if name not in counts:
                raise InputError(
                    f"an offset must belong to an Einsum of the epoch, but {name!r} is none",
                    hint=did_you_mean(name, counts),
                    field=("offsets", name),
                )
            if offset < 0:
                raise InputError(f"the offset of {name!r} must be 0 or more, not {offset}", field=("offsets", name))

    @cached_property
    def tile_ranks(self) -> tuple[str, ...]:
        """The innermost rank of each split."""
        return tuple(parts[-1] for parts in self.splits.values())

    @cached_property
    def binding(self) -> Mapping[str, str]:
        """Einsum to the array it runs on, in the order of the epoch."""
        return {
            name: array
            for group in self.epoch
            for slot in group.slots
            for array, names in slot.items()
            for name in names
        }

    @cached_property
    def split_of(self) -> Mapping[str, str]:
        """Part of a split to the rank that is split."""
        return {part: rank for rank, parts in self.splits.items() for part in parts}

    @property
    def depth(self) -> int:
        """Largest tile offset: the epochs that the software pipeline takes to fill."""
        return max(self.offsets.values(), default=0)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How one cascade runs on one architecture.

    Parameters
    ----------
    cascade : str
        Name of the cascade.
    architecture : str
        Name of the architecture.
    tiles : mapping of str to int
        Size of each rank of a split but the outermost, whose size follows. The innermost counts elements, one further
        out counts tiles: ``p1 = 4`` keeps 4 tiles of ``p0`` queries on chip. The last tile of a rank may be smaller.
    plan : Plan
        Loops, binding, software pipeline and residency.

    Raises
    ------
    InputError
        A tile size is missing, unknown, or below 1.
    """

    cascade: str
    architecture: str
    tiles: Mapping[str, int]
    plan: Plan

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check the tile sizes."""
        expected = [part for parts in self.plan.splits.values() for part in parts[1:]]
        for rank, size in self.tiles.items():
            if rank not in expected:
                raise InputError(
                    f"tiles must give the sizes of {', '.join(expected)}, but has {rank!r}",
                    hint=did_you_mean(rank, expected),
                    field=("tiles", rank),
                )
            if size < 1:
                raise InputError(
                    f"tile size {rank} must be at least 1, not {size}", hint="use 1", field=("tiles", rank)
                )
        for rank in expected:
            if rank not in self.tiles:
                raise InputError(f"tiles must give the size of {rank}", hint=f"add {rank}: SIZE", field=("tiles",))


@dataclass(frozen=True, kw_only=True)
class ScheduleTemplate:
    """A plan that fits every cascade of one structure, whatever its Einsums are called.

    Parameters
    ----------
    name : str
        Its name.
    description : str
        What it does and where it comes from.
    cascade : str
        Packaged cascade whose Einsum and rank names the plan uses.
    plan : Plan
        Everything but the tile sizes.
    """

    name: str
    description: str
    cascade: str
    plan: Plan

    __pydantic_config__ = {"extra": "forbid"}


def load_schedule(path: str | Path) -> Schedule:
    """Return the schedule of a file; raises ``InputError`` as ``spec.load``."""
    return spec.load(Schedule, Path(path))


def load_template(name_or_path: str | Path) -> ScheduleTemplate:
    """Return a packaged schedule template by name, or the one of a file; raises ``InputError`` as ``load_preset``."""
    return load_preset(ScheduleTemplate, "template", name_or_path, what="a schedule template")


def template_names() -> tuple[str, ...]:
    """Return the names of the packaged schedule templates."""
    return preset_names("template")
