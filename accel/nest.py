"""Nests: schedules of Einsums that run as loop nests of their own, in stages, with spills; as plain data.

A ``Plan`` (``accel.schedule``) moves all Einsums of a cascade through one pipeline of tiles. A cascade that needs
several passes cannot run so. In a nest each Einsum has its own loops and spatial axes, and stages follow each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from accel import spec
from accel.errors import InputError, did_you_mean
from accel.schedule import Axis, LevelStore

__all__ = [
    "EinsumNest",
    "LevelStore",
    "Nest",
    "NestSchedule",
    "Overflow",
    "Store",
    "TensorStore",
    "TileLoop",
    "load_nest",
]


class Store(StrEnum):
    """Where a tensor lives between the Einsum that makes it, or the input of the cascade, and those that read it."""

    DRAM = "dram"
    BUFFER = "buffer"


class Overflow(StrEnum):
    """What happens if the tensors of the buffer do not fit together."""

    REFUSED = "refused"
    """The nest is illegal."""
    SPILLED = "spilled"
    """The share that does not fit lives in DRAM, of every tensor in the buffer alike."""


@dataclass(frozen=True, kw_only=True)
class TileLoop:
    """A loop over the tiles of one rank.

    Parameters
    ----------
    rank : str
        The rank of the cascade.
    size : int
        Elements that one iteration covers; the last may cover fewer. A size beyond the rank is one iteration.

    Raises
    ------
    InputError
        The size is below 1.
    """

    rank: str
    size: int

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check the size."""
        if self.size < 1:
            raise InputError(f"size must be at least 1, not {self.size}", field=("size",))


@dataclass(frozen=True, kw_only=True)
class EinsumNest:
    """How one Einsum runs.

    Parameters
    ----------
    array : str
        The compute array.
    loops : tuple of str
        The tile loops around it, outermost first.
    axes : mapping of str to Axis
        Rank to the axis of the array along which a tile is spread. Its other ranks run one point after the other inside
        a tile. A tensor without such a rank is stationary: it stays in the PEs for the tile, and from one tile to the
        next if it is the same part of the tensor.

    Raises
    ------
    InputError
        An axis serves two ranks.
    """

    array: str
    loops: tuple[str, ...]
    axes: Mapping[str, Axis]

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check that no axis is taken twice."""
        if len(set(self.axes.values())) < len(self.axes):
            raise InputError(
                "each axis must serve one rank, but one serves two", hint="leave one without", field=("axes",)
            )


@dataclass(frozen=True, kw_only=True)
class TensorStore:
    """Where one tensor lives.

    Parameters
    ----------
    store : Store
        Between its maker and its readers; of an input or output of the cascade always DRAM.
    within : str, optional
        The loop for one iteration of which the buffer keeps it; without one, for all of an instance. A tensor in DRAM
        may be staged there: inputs are then fetched once for each iteration in which they change, outputs accumulate.
    staged : bool
        For a tensor in DRAM: it passes through the buffer. Without, it streams between DRAM and the arrays.
    copies : int
        For capacity: 2 for double buffering; 0 for a tensor that takes the place of another or is not counted.
    spills : bool
        Whether its share that does not fit lives in DRAM where the nest lets the buffer overflow.
    levels : mapping of str to LevelStore
        Inner buffers (``accel.arch.InnerBuffer``) through which it passes on the way to and from the arrays that they
        serve. Inputs are brought to one once for each iteration in which they change, outputs accumulate there.

    Raises
    ------
    InputError
        ``within`` is given for a tensor that the buffer never keeps, or ``copies`` is negative.
    """

    store: Store
    within: str | None = None
    staged: bool = False
    copies: int = 1
    spills: bool = True
    levels: Mapping[str, LevelStore] = field(default_factory=dict)

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check the fields against each other."""
        if self.store is Store.DRAM and not self.staged and self.within is not None:
            raise InputError(
                f"within must belong to a tensor that the buffer keeps, but this one streams and has {self.within!r}",
                hint="set staged: true",
                field=("within",),
            )
        if self.store is Store.BUFFER and self.staged:
            raise InputError("staged must be left out for store: buffer", field=("staged",))
        if self.copies < 0:
            raise InputError(f"copies must be 0 or more, not {self.copies}", field=("copies",))


@dataclass(frozen=True, kw_only=True)
class Nest:
    """How a cascade runs in stages of loop nests.

    Parameters
    ----------
    stages : tuple of tuple of str
        Einsums of each stage, producers first. Stages follow each other; within one, DRAM and all arrays work side by
        side, so that it takes as long as the busiest of them.
    loops : mapping of str to TileLoop
        The loops that Einsums and tensors name.
    einsums : mapping of str to EinsumNest
        How each Einsum runs.
    tensors : mapping of str to TensorStore
        Where each tensor lives.
    overflow : Overflow
        What happens if the buffer is too small.

    Raises
    ------
    InputError
        A stage is empty, or a name is missing, unknown or used twice.
    """

    stages: tuple[tuple[str, ...], ...]
    loops: Mapping[str, TileLoop]
    einsums: Mapping[str, EinsumNest]
    tensors: Mapping[str, TensorStore]
    overflow: Overflow = Overflow.REFUSED

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check that the names fit together."""
        counts = Counter(name for stage in self.stages for name in stage)
        if not self.stages or not all(self.stages):
            raise InputError("stages must hold at least one stage, and each an Einsum", field=("stages",))
        for name, count in counts.items():
            if count > 1:
                raise InputError(f"Einsum {name!r} must stand in one stage, not in {count}", field=("stages",))
            if name not in self.einsums:
                raise InputError(f"Einsum {name!r} must have a nest", hint=f"add {name}", field=("einsums",))
        for name, nest in self.einsums.items():
            if name not in counts:
                raise InputError(
                    f"a nest must belong to an Einsum of a stage, but {name!r} is none",
                    hint=did_you_mean(name, counts),
                    field=("einsums", name),
                )
            for loop in nest.loops:
                self._check_loop(loop, ("einsums", name, "loops"))
        for name, tensor in self.tensors.items():
            if tensor.within is not None:
                self._check_loop(tensor.within, ("tensors", name, "within"))
            for level, kept in tensor.levels.items():
                if kept.within is not None:
                    self._check_loop(kept.within, ("tensors", name, "levels", level, "within"))

    def _check_loop(self, loop: str, where: tuple[str, ...]) -> None:
        if loop not in self.loops:
            raise InputError(
                f"a loop must be defined, but {loop!r} is not", hint=did_you_mean(loop, self.loops), field=where
            )


@dataclass(frozen=True, kw_only=True)
class NestSchedule:
    """How one cascade runs on one architecture as a nest: what a nest file holds.

    Parameters
    ----------
    cascade : str
        Name of the cascade.
    architecture : str
        Name of the architecture.
    nest : Nest
        Stages, loops, binding and stores.
    """

    cascade: str
    architecture: str
    nest: Nest

    __pydantic_config__ = {"extra": "forbid"}


def load_nest(path: str | Path) -> NestSchedule:
    """Return the nest of a file; raises ``InputError`` as ``spec.load``."""
    return spec.load(NestSchedule, Path(path))
