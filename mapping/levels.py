"""The way of values between an array and a memory through the levels in between: one rule for plans and for nests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple

from accel.arch import Architecture

__all__ = ["Crossing", "access_width", "inward", "latency", "outward", "port_cycles"]


class Crossing(NamedTuple):
    """Values that pass through one memory.

    Parameters
    ----------
    unit, action : str
        The memory, and ``read`` or ``write``.
    border : int
        Which values: those that cross the border between the array and the first level (0), between the first and the
        second level (1) and so on, the last border being that of the store.
    again : bool
        Of these only the ones that did so before: parts of a sum that are read back, to go on.
    """

    unit: str
    action: str
    border: int
    again: bool = False


def inward(path: tuple[str, ...], store: str) -> Iterator[Crossing]:
    """Yield what reading from a store takes: each level on the way is read, and written with what it takes in.

    Parameters
    ----------
    path : tuple of str
        The levels, the one next to the array first.
    store : str
        Where the values live.
    """
    for border, level in enumerate(path):
        yield Crossing(level, "read", border)
        yield Crossing(level, "write", border + 1)
    yield Crossing(store, "read", len(path))


def outward(path: tuple[str, ...], store: str) -> Iterator[Crossing]:
    """Yield what writing to a store takes; what comes to a memory again is read back from there before.

    Parameters
    ----------
    path, store
        As for ``inward``.
    """
    for border, level in enumerate(path):
        yield Crossing(level, "write", border)
        yield Crossing(level, "read", border, again=True)
        yield Crossing(level, "read", border + 1)
        yield Crossing(level, "write", border + 1, again=True)
    yield Crossing(store, "write", len(path))
    yield Crossing(store, "read", len(path), again=True)


def access_width(architecture: Architecture, unit: str) -> tuple[str, int]:
    """Return the component of a memory in the cost table, and the bits of one access."""
    if unit == "dram":
        return architecture.dram.component, architecture.dram.word_bits
    memory = architecture.memory(unit)
    return memory.component, memory.row_bits


def port_cycles(architecture: Architecture, accesses: Mapping[str, int | Fraction]) -> dict[str, float]:
    """Return each memory on chip that states its ports, with the cycles that these need for its accesses.

    Parameters
    ----------
    architecture : Architecture
        The memories; rows are spread evenly over the banks of each.
    accesses : mapping of str to number
        Rows read and written, by ``buffer`` or level.
    """
    return {
        unit: float(Fraction(accesses.get(unit, 0)) / each)
        for unit in ("buffer", *architecture.levels)
        if (each := architecture.memory(unit).accesses_per_cycle) is not None
    }


def latency(architecture: Architecture, memory_cycles: float, *on_chip_cycles: float) -> float:
    """Return the time of what runs side by side: the longest on chip, and DRAM beside or behind it.

    Parameters
    ----------
    architecture : Architecture
        Whether DRAM transfers overlap with the rest.
    memory_cycles : float
        Cycles of DRAM.
    *on_chip_cycles : float
        Cycles of the arrays, and of memories whose ports may be busy longer.
    """
    longest = max(on_chip_cycles)
    return max(memory_cycles, longest) if architecture.memory_overlaps_compute else memory_cycles + longest
