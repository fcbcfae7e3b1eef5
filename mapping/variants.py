"""Architectures with one more unit of a resource: what an explanation prices."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TypeVar

from accel.arch import Architecture, ComputeArray, GlobalBuffer, InnerBuffer
from accel.cascade import Cascade
from mapping.bound import operators

__all__ = ["machines"]

_Memory = TypeVar("_Memory", bound=GlobalBuffer)


def machines(
    cascade: Cascade, architecture: Architecture, binding: Mapping[str, str]
) -> Iterator[tuple[str, Architecture]]:
    """Yield what is changed, and the architecture with one more unit of each resource.

    Parameters
    ----------
    cascade : Cascade
        What runs.
    architecture : Architecture
        The architecture as it is.
    binding : mapping of str to str
        Einsum to its array.
    """
    for name, array in architecture.arrays.items():
        wider = "one column more" if array.rows > 1 else "one lane more"
        if array.rows > 1:
            taller = dataclasses.replace(array, rows=array.rows + 1)
            yield _with_arrays(architecture, f"{name}: one row more", {name: taller})
        yield _with_arrays(
            architecture, f"{name}: {wider}", {name: dataclasses.replace(array, columns=array.columns + 1)}
        )
        deeper = dataclasses.replace(array, registers_per_pe=array.registers_per_pe + 1)
        yield _with_arrays(architecture, f"{name}: one register more in each PE", {name: deeper})
    yield from _faster(cascade, architecture, binding)
    buffer = dataclasses.replace(architecture.buffer, size_bits=2 * architecture.buffer.size_bits)
    yield "buffer: twice the size", dataclasses.replace(architecture, buffer=buffer)
    yield from _memories(architecture)
    bandwidth = 1.1 * architecture.dram.bandwidth_bits_per_s
    dram = dataclasses.replace(architecture.dram, bandwidth_bits_per_s=bandwidth)
    yield "dram: 10 % more bandwidth", dataclasses.replace(architecture, dram=dram)


def _with_arrays(architecture: Architecture, what: str, arrays: Mapping[str, ComputeArray]) -> tuple[str, Architecture]:
    """Return the architecture with some of its arrays replaced."""
    return what, dataclasses.replace(architecture, arrays={**architecture.arrays, **arrays})


def _memories(architecture: Architecture) -> Iterator[tuple[str, Architecture]]:
    """Yield the architecture with a port or banks more in each memory that states ports, and with larger levels."""
    for what, buffer in _ported(architecture.buffer):
        yield f"buffer: {what}", dataclasses.replace(architecture, buffer=buffer)
    for name, level in architecture.levels.items():
        doubled = dataclasses.replace(level, size_bits=2 * level.size_bits)
        yield f"{name}: twice the size", _with_level(architecture, name, doubled)
        for what, changed in _ported(level):
            yield f"{name}: {what}", _with_level(architecture, name, changed)


def _ported(memory: _Memory) -> Iterator[tuple[str, _Memory]]:
    """Yield a memory that states its ports with one port more, and with the next number of banks that divides it."""
    if memory.ports is None:
        return
    yield "one port more", dataclasses.replace(memory, ports=memory.ports + 1)
    rows, banks = memory.size_bits // memory.row_bits, memory.banks or 1
    most = min(rows, 2 * banks)
    more = next((count for count in range(banks + 1, most + 1) if rows % count == 0), None)
    if more is not None:
        yield f"{more} banks instead of {banks}", dataclasses.replace(memory, banks=more)


def _with_level(architecture: Architecture, name: str, level: InnerBuffer) -> Architecture:
    return dataclasses.replace(architecture, levels={**architecture.levels, name: level})


def _faster(
    cascade: Cascade, architecture: Architecture, binding: Mapping[str, str]
) -> Iterator[tuple[str, Architecture]]:
    """Yield the architecture with an operator one cycle faster: on each array that needs it, and on all together."""
    slow: dict[str, list[str]] = {}
    for einsum_name, array_name in binding.items():
        array = architecture.arrays[array_name]
        for operator in operators(cascade.einsum(einsum_name), array):
            if array.operators[operator].cycles > 1:
                names = slow.setdefault(operator, [])
                names += [array_name] if array_name not in names else []
    for operator, names in sorted(slow.items()):
        for chosen in [*([name] for name in names), *([names] if len(names) > 1 else [])]:
            faster = {name: _sped_up(architecture.arrays[name], operator) for name in chosen}
            yield _with_arrays(architecture, f"{' and '.join(chosen)}: {operator} one cycle faster", faster)


def _sped_up(array: ComputeArray, operator: str) -> ComputeArray:
    faster = dataclasses.replace(array.operators[operator], cycles=array.operators[operator].cycles - 1)
    return dataclasses.replace(array, operators={**array.operators, operator: faster})
