"""The memories: values with the cycle in which each is made, and what the buffer and the registers hold by then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from accel.arch import Architecture
from sim.events.failure import ExecutionError, Kind
from sim.events.points import Array

__all__ = ["NEVER", "Buffer", "Registers", "Values"]

NEVER = np.iinfo(np.int64).max
"""The cycle in which a value is made that is not made yet."""


class Values:
    """All values of one tensor, of every repetition and instance, flattened.

    Parameters
    ----------
    copies : int
        Repetitions times instances.
    size : int
        Elements of the tensor.

    Members
    -------
    value : ndarray[copies, size], float64
        The values; NaN where none was made.
    made : ndarray[copies, size], int64
        First cycle in which it may be read.
    held : ndarray[copies, size], bool
        Whether it is in the memory in which the plan keeps it.
    stored : ndarray[copies, size], bool
        Whether it ever was.
    used : ndarray[copies, size], bool
        Whether it was read from there.
    """

    def __init__(self, copies: int, size: int) -> None:
        self.value: Array = np.full((copies, size), np.nan)
        self.made: Array = np.full((copies, size), NEVER)
        self.held: Array = np.zeros((copies, size), dtype=bool)
        self.stored: Array = np.zeros((copies, size), dtype=bool)
        self.used: Array = np.zeros((copies, size), dtype=bool)

    def give(self, copy: int | slice, places: Array | slice, values: Array | float) -> None:
        """Put values in from outside, before the first cycle."""
        self.value[copy, places] = values
        self.made[copy, places] = 0
        self.held[copy, places] = True
        self.stored[copy, places] = True


@dataclass(frozen=True, kw_only=True, eq=False)
class _Piece:
    """What stands at one address of the buffer: one tile of a tensor."""

    copy: int
    places: Array
    rows: int


class Buffer:
    """The buffer, by addresses: each has room for one tile of one tensor, and a new tile there replaces the old one.

    Parameters
    ----------
    architecture : Architecture
        Its size and its rows.
    values : mapping of str to Values
        The tensors.
    """

    def __init__(self, architecture: Architecture, values: Mapping[str, Values]) -> None:
        self.architecture = architecture
        self.values = values
        self.pieces: dict[str, dict[tuple[int, ...], _Piece]] = {}
        self.rows: Counter[str] = Counter()
        self.peak_rows: Counter[str] = Counter()

    def rows_of(self, number: int) -> int:
        """Return the rows that ``number`` values take; a tile begins at a row."""
        return -(-number * self.architecture.width_bits // self.architecture.buffer.row_bits)

    def put(self, tensor: str, address: tuple[int, ...], copy: int, places: Array, when: int) -> None:
        """Store one tile of a tensor; what stood at its address is gone."""
        self.drop(tensor, address)
        held = self.values[tensor]
        unique = np.unique(places)
        held.held[copy, unique] = True
        held.stored[copy, unique] = True
        piece = _Piece(copy=copy, places=unique, rows=self.rows_of(unique.size))
        self.pieces.setdefault(tensor, {})[address] = piece
        self.rows[tensor] += piece.rows
        self.peak_rows[tensor] = max(self.peak_rows[tensor], self.rows[tensor])
        size, row = self.architecture.buffer.size_bits, self.architecture.buffer.row_bits
        if self.rows.total() * row > size:
            parts = ", ".join(f"{name} {rows * row}" for name, rows in self.rows.items())
            raise ExecutionError(
                Kind.BUFFER_FULL,
                f"the buffer must hold {self.rows.total() * row} bits in cycle {when} ({parts}), but has {size}",
                hint="lower a tile size",
            )

    def drop(self, tensor: str, address: tuple[int, ...]) -> None:
        """Give up what stands at an address, if anything does."""
        piece = self.pieces.get(tensor, {}).pop(address, None)
        if piece is not None:
            self.values[tensor].held[piece.copy, piece.places] = False
            self.rows[tensor] -= piece.rows

    def clear(self, tensor: str) -> None:
        """Give up all of a tensor."""
        for address in list(self.pieces.get(tensor, {})):
            self.drop(tensor, address)


class Registers:
    """The registers that tensors take in the fullest PE of each array.

    Parameters
    ----------
    architecture : Architecture
        Its arrays.
    """

    def __init__(self, architecture: Architecture) -> None:
        self.architecture = architecture
        self.used: Counter[str] = Counter()
        self.peak: dict[str, int] = dict.fromkeys(architecture.arrays, 0)
        self.blocks: dict[tuple[str, int, str], int] = {}

    def take(self, tensor: str, tile: int, demands: Iterable[tuple[str, int]], when: int) -> None:
        """Reserve registers for one tile of a tensor, in the PEs of each array that will read it."""
        for array, number in demands:
            self.blocks[tensor, tile, array] = number
            self.used[array] += number
            self.peak[array] = max(self.peak[array], self.used[array])
            shape = self.architecture.arrays[array]
            held = shape.registers_per_pe - shape.working_registers
            if self.used[array] > held:
                raise ExecutionError(
                    Kind.REGISTERS_FULL,
                    f"a PE of array {array!r} must hold {self.used[array]} values in cycle {when}, "
                    f"but has {held} registers for them",
                    hint="lower a tile size or raise registers_per_pe",
                )

    def give_back(self, tensor: str, tile: int, array: str) -> None:
        """Free what a tile of a tensor takes in an array."""
        self.used[array] -= self.blocks.pop((tensor, tile, array), 0)
