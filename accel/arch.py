"""Architectures: compute arrays, the global buffer and DRAM that a cascade runs on, as plain data."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from accel.errors import InputError, did_you_mean
from accel.presets import load_preset, preset_names

__all__ = [
    "Architecture",
    "ComputeArray",
    "Dram",
    "GlobalBuffer",
    "InnerBuffer",
    "Operator",
    "PipelineFill",
    "architecture_names",
    "load_architecture",
]


def _at_least(value: int, least: int, name: str) -> None:
    if value < least:
        raise InputError(f"{name} must be at least {least}, not {value}", field=(name,))


@dataclass(frozen=True, kw_only=True)
class Operator:
    """How a PE of an array computes one operation.

    Parameters
    ----------
    cycles : int
        Cycles that one PE is busy with one operation; at least 1.
    actions : mapping of str to int
        What is charged for one operation: actions of the array's component in the cost table, and how many of each. An
        exponential by polynomial is several ``mac``.

    Raises
    ------
    InputError
        A number is below 1, or nothing is charged.
    """

    cycles: int
    actions: Mapping[str, int]

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every field."""
        _at_least(self.cycles, 1, "cycles")
        if not self.actions:
            raise InputError(
                "actions must name what one operation costs", hint="for example {mac: 1}", field=("actions",)
            )
        for action, count in self.actions.items():
            if count < 1:
                raise InputError(
                    f"action {action!r} must count at least 1, not {count}",
                    hint="leave out what is not done",
                    field=("actions", action),
                )


@dataclass(frozen=True, kw_only=True)
class ComputeArray:
    """A rectangle of equal PEs that work in lockstep.

    Parameters
    ----------
    rows, columns : int
        PEs along each axis; a vector unit has one row.
    registers_per_pe : int
        Data words that a PE holds.
    working_registers : int
        Those of them that operands in flight and the steps of an operator need; the others hold tensors.
    component : str
        Component of the cost table that its operators are charged to.
    operators : mapping of str to Operator
        What a PE computes: operations of the cascade notation (``multiply``, ``add``, ``max``, ``exp`` ...) and
        ``multiply_add``, which serves a multiplication whose results are summed. ``subtract_exp`` serves an exponential
        of a difference where a unit subtracts and exponentiates in one pass.
    parts : mapping of str to int
        What one PE is made of, for area: entries of the cost table's ``areas`` and how many of each. Empty where the
        area is not known.

    Raises
    ------
    InputError
        A size is below 1, no register is left for tensors, there is no operator, or a part counts less than 1.
    """

    rows: int
    columns: int
    registers_per_pe: int
    working_registers: int
    component: str
    operators: Mapping[str, Operator]
    parts: Mapping[str, int] = dataclasses.field(default_factory=dict)

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every field."""
        _at_least(self.rows, 1, "rows")
        _at_least(self.columns, 1, "columns")
        _at_least(self.registers_per_pe, 1, "registers_per_pe")
        _at_least(self.working_registers, 0, "working_registers")
        if self.working_registers >= self.registers_per_pe:
            raise InputError(
                f"working_registers must leave a register for tensors, but takes {self.working_registers} "
                f"of {self.registers_per_pe}",
                hint="raise registers_per_pe",
                field=("working_registers",),
            )
        if not self.operators:
            raise InputError("operators must name at least one operator", field=("operators",))
        for part, count in self.parts.items():
            if count < 1:
                raise InputError(
                    f"part {part!r} must count at least 1, not {count}",
                    hint="leave out what is not there",
                    field=("parts", part),
                )

    @property
    def pes(self) -> int:
        """Number of PEs."""
        return self.rows * self.columns


@dataclass(frozen=True, kw_only=True)
class GlobalBuffer:
    """The on-chip memory between DRAM and the arrays.

    Parameters
    ----------
    size_bits : int
        Capacity.
    row_bits : int
        Bits of one access; the capacity is a whole number of rows, and a tile begins at a row.
    component : str
        Component of the cost table with actions ``read`` and ``write``.
    banks : int, optional
        Parts that work side by side, each with the same number of rows; one if not stated.
    ports : int, optional
        Accesses of a bank in a cycle. If not stated, bandwidth is taken as sufficient.

    Raises
    ------
    InputError
        A number is below 1, or the capacity is not a whole number of rows, or these do not divide into the banks.
    """

    size_bits: int
    row_bits: int
    component: str
    banks: int | None = None
    ports: int | None = None

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every field."""
        _at_least(self.row_bits, 1, "row_bits")
        _at_least(self.size_bits, 1, "size_bits")
        rows, rest = divmod(self.size_bits, self.row_bits)
        if rest:
            raise InputError(
                f"size_bits must be a multiple of row_bits ({self.row_bits}), not {self.size_bits}",
                hint=f"use {max(rows, 1) * self.row_bits}",
                field=("size_bits",),
            )
        for name, value in (("banks", self.banks), ("ports", self.ports)):
            if value is not None:
                _at_least(value, 1, name)
        if self.banks is not None and rows % self.banks:
            raise InputError(
                f"banks must divide the {rows} rows of the memory evenly, but {self.banks} do not",
                hint=f"use {math.gcd(rows, self.banks)}",
                field=("banks",),
            )

    @property
    def accesses_per_cycle(self) -> int | None:
        """Rows that are read or written in a cycle, all banks busy; None if not limited."""
        return None if self.ports is None else self.ports * (self.banks or 1)

    def rows(self, bits: int) -> int:
        """Return the rows that hold ``bits`` of one tensor."""
        return -(-bits // self.row_bits)


@dataclass(frozen=True, kw_only=True)
class InnerBuffer(GlobalBuffer):
    """A memory between the global buffer and the arrays, described as that one is.

    Parameters
    ----------
    array : str, optional
        The one array that it serves; all if not stated.
    """

    array: str | None = None


@dataclass(frozen=True, kw_only=True)
class Dram:
    """The memory off chip.

    Parameters
    ----------
    bandwidth_bits_per_s : float
        Reads and writes together.
    word_bits : int
        Bits of one access; a tile begins at a word.
    component : str
        Component of the cost table with actions ``read`` and ``write``.

    Raises
    ------
    InputError
        The bandwidth is not a positive number or the width is below 1.
    """

    bandwidth_bits_per_s: float
    word_bits: int
    component: str

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every field."""
        if not (math.isfinite(self.bandwidth_bits_per_s) and self.bandwidth_bits_per_s > 0):
            raise InputError(
                f"bandwidth_bits_per_s must be a positive number, not {self.bandwidth_bits_per_s}",
                field=("bandwidth_bits_per_s",),
            )
        _at_least(self.word_bits, 1, "word_bits")


class PipelineFill(StrEnum):
    """Whether the epochs in which the software pipeline fills and drains are charged."""

    CHARGED = "charged"
    """They are: once for the whole run."""
    HIDDEN = "hidden"
    """They are not: other work is assumed to fill them."""


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A spatial accelerator: named compute arrays, one global buffer and DRAM, and perhaps buffers inside.

    Parameters
    ----------
    name : str
        Name that schedules refer to.
    description : str
        What it stands for.
    clock_hz : float
        Clock of everything on chip.
    width_bits : int
        Width of one value of any tensor.
    technology : str
        Name of the cost table that prices its actions.
    arrays : mapping of str to ComputeArray
        The compute arrays.
    buffer : GlobalBuffer
        The on-chip memory.
    dram : Dram
        The memory off chip.
    memory_overlaps_compute : bool
        Whether DRAM transfers run while the arrays compute: latency is the larger of both times, otherwise their sum.
    pipeline_fill : PipelineFill
        Whether filling and draining the software pipeline is charged.
    sources : mapping of str to str
        Dotted path of a number, or of a part that holds several, to where it comes from.
    levels : mapping of str to InnerBuffer
        Memories between the global buffer and the arrays, the one next to the global buffer first.

    Raises
    ------
    InputError
        A field is out of range, a source names a path that is not there, or a level serves no array or has the name of
        another unit.
    """

    name: str
    description: str
    clock_hz: float
    width_bits: int
    technology: str
    arrays: Mapping[str, ComputeArray]
    buffer: GlobalBuffer
    dram: Dram
    memory_overlaps_compute: bool
    pipeline_fill: PipelineFill
    sources: Mapping[str, str]
    levels: Mapping[str, InnerBuffer] = dataclasses.field(default_factory=dict)

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every field."""
        if not (math.isfinite(self.clock_hz) and self.clock_hz > 0):
            raise InputError(f"clock_hz must be a positive number, not {self.clock_hz}", field=("clock_hz",))
        _at_least(self.width_bits, 1, "width_bits")
        if not self.arrays:
            raise InputError("arrays must name at least one compute array", field=("arrays",))
        self._check_levels()
        paths = {path for path, _ in self._parts()}
        for path in self.sources:
            if path not in paths:
                raise InputError(
                    f"a source must belong to a field, but {path!r} is none",
                    hint=did_you_mean(path, paths - {"name", "description"}),
                    field=("sources", path),
                )

    def _check_levels(self) -> None:
        for name, level in self.levels.items():
            if name in ("dram", "buffer", *self.arrays):
                raise InputError(
                    f"level {name!r} must have a name of its own, but another unit is called so",
                    hint="rename it",
                    field=("levels", name),
                )
            if level.array is not None and level.array not in self.arrays:
                raise InputError(
                    f"level {name!r} must serve an array, but {level.array!r} is none",
                    hint=did_you_mean(level.array, self.arrays),
                    field=("levels", name, "array"),
                )

    def _parts(self) -> Iterator[tuple[str, object]]:
        """Yield the dotted path and the value of every field, and of every part that holds fields."""

        def walk(path: str, value: object) -> Iterator[tuple[str, object]]:
            if path:
                yield path, value
            if dataclasses.is_dataclass(value):
                items = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            elif isinstance(value, Mapping):
                items = dict(value)
            else:
                return
            for name, item in items.items():
                if path or name != "sources":
                    yield from walk(f"{path}.{name}" if path else str(name), item)

        return walk("", self)

    @property
    def numbers_without_source(self) -> tuple[str, ...]:
        """Dotted paths of numbers and assumptions that no source covers, neither directly nor by a part around them."""
        missing = []
        for path, value in self._parts():
            steps = path.split(".")
            around = {".".join(steps[:end]) for end in range(1, len(steps) + 1)}
            if isinstance(value, int | float | PipelineFill) and not around & self.sources.keys():
                missing.append(path)
        return tuple(missing)

    def path(self, array: str) -> tuple[str, ...]:
        """Return the inner levels between an array and the global buffer, the one next to the array first."""
        return tuple(name for name, level in self.levels.items() if level.array in (None, array))[::-1]

    def memory(self, unit: str) -> GlobalBuffer:
        """Return the global buffer (``buffer``) or an inner level by its name."""
        return self.buffer if unit == "buffer" else self.levels[unit]

    def seconds(self, cycles: float) -> float:
        """Return the duration of ``cycles``, s."""
        return cycles / self.clock_hz

    def memory_cycles(self, traffic_bits: int) -> float:
        """Return the cycles that DRAM needs to move ``traffic_bits``."""
        return traffic_bits * self.clock_hz / self.dram.bandwidth_bits_per_s


def load_architecture(name_or_path: str | Path) -> Architecture:
    """Return a packaged architecture by name, or the one of a file; raises ``InputError`` as ``load_preset``."""
    return load_preset(Architecture, "arch", name_or_path, what="an architecture")


def architecture_names() -> tuple[str, ...]:
    """Return the names of the packaged architectures."""
    return preset_names("arch")
