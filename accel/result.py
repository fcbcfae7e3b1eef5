"""Results: what a model says that a schedule costs, as plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter

from accel.html_table import html_table
from accel.json_values import from_json_values
from accel.schedule import Schedule
from accel.workload import Workload

__all__ = ["ActionCount", "ArrayUse", "EinsumCycles", "Result"]


@dataclass(frozen=True, kw_only=True)
class EinsumCycles:
    """The time that one Einsum takes.

    Parameters
    ----------
    einsum, array : str
        The Einsum and the array that runs it.
    tile_cycles : int
        Cycles for one full tile; of an Einsum that runs after a loop, each time that it runs.
    runs : int
        Tiles for which it runs.
    cycles : int
        Cycles for all of them, partial tiles at their own cost.
    points : int
        Points of its iteration space, all instances together.
    """

    einsum: str
    array: str
    tile_cycles: int
    runs: int
    cycles: int
    points: int

    __pydantic_config__ = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class ArrayUse:
    """How well one array is used.

    Parameters
    ----------
    array : str
        Its name.
    busy_cycles : int
        Cycles in which it works on some Einsum.
    busy : float
        ``busy_cycles`` as a part of latency: the utilisation that the FuseMax paper plots.
    utilisation : float
        Work of its PEs as a part of what they could do in that time; below ``busy`` where tiles do not fill the array.
    """

    array: str
    busy_cycles: int
    busy: float
    utilisation: float

    __pydantic_config__ = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class ActionCount:
    """Actions of one kind and what they cost.

    Parameters
    ----------
    unit : str
        Where they happen: ``dram``, ``buffer``, an inner level or the name of an array.
    component, action : str
        Their entry in the cost table.
    tensor : str
        The tensor that is moved or computed.
    einsum : str, optional
        The Einsum that causes them; None for transfers between DRAM and buffer.
    count : int
        How many, all instances together.
    energy_pj : float
        Energy of all of them, pJ.
    """

    unit: str
    component: str
    action: str
    tensor: str
    einsum: str | None
    count: int
    energy_pj: float

    __pydantic_config__ = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class Result:
    """The price of one schedule for one workload.

    Parameters
    ----------
    accounting : str
        Rules by which it was counted.
    left_out : tuple of str
        What those rules do not charge.
    workload : Workload
        What was priced.
    schedule : Schedule
        The schedule that was priced, with its cascade and architecture by name.
    technology : str
        Cost table of the energies.
    clock_hz : float
        Clock that turns cycles to seconds.
    epochs : int
        Epochs charged: one for each tile, and those that fill and drain the pipeline where they are charged.
    epoch_cycles : int
        Cycles of one epoch when all its tiles are full and none is the last of a loop.
    compute_cycles : int
        Cycles of all epochs.
    memory_cycles : float
        Cycles that DRAM needs for the traffic.
    latency_cycles : float
        Cycles from begin to end.
    limit : str
        What limits latency: ``dram``, a memory on chip whose ports are busy longest (``buffer`` or the name of a
        level), the name of an array that is always busy, or ``dependencies`` where no array is.
    dram_read_bits, dram_written_bits : int
        DRAM traffic in whole words.
    buffer_size_bits : int
        Capacity of the buffer.
    occupancy_bits : mapping of str to int
        Most that each tensor takes of it, in whole rows.
    registers : mapping of str to int
        Array to registers for tensors in its fullest PE.
    einsums : tuple of EinsumCycles
        In the order of the cascade.
    arrays : tuple of ArrayUse
        In the order of the architecture.
    actions : tuple of ActionCount
        By unit, component, action, tensor and Einsum.
    level_occupancy_bits : mapping of str to mapping of str to int
        Inner level to most that each tensor takes of it, in whole rows.
    buffer_cycles : mapping of str to float
        Memory on chip that states its ports to the cycles that they are busy: ``buffer`` or the name of a level.
    """

    accounting: str
    left_out: tuple[str, ...]
    workload: Workload
    schedule: Schedule
    technology: str
    clock_hz: float
    epochs: int
    epoch_cycles: int
    compute_cycles: int
    memory_cycles: float
    latency_cycles: float
    limit: str
    dram_read_bits: int
    dram_written_bits: int
    buffer_size_bits: int
    occupancy_bits: Mapping[str, int]
    registers: Mapping[str, int]
    einsums: tuple[EinsumCycles, ...]
    arrays: tuple[ArrayUse, ...]
    actions: tuple[ActionCount, ...]
    level_occupancy_bits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    buffer_cycles: Mapping[str, float] = field(default_factory=dict)

    __pydantic_config__ = {"extra": "forbid"}

    @property
    def latency_s(self) -> float:
        """Latency, s."""
        return self.latency_cycles / self.clock_hz

    @property
    def traffic_bytes(self) -> float:
        """DRAM traffic in both directions, bytes."""
        return (self.dram_read_bits + self.dram_written_bits) / 8

    @property
    def energy_pj(self) -> float:
        """Energy of all actions, pJ."""
        return math.fsum(action.energy_pj for action in self.actions)

    @property
    def energy_pj_by_action(self) -> dict[tuple[str, str], float]:
        """Energy by unit and action, pJ."""
        parts: dict[tuple[str, str], list[float]] = {}
        for action in self.actions:
            parts.setdefault((action.unit, action.action), []).append(action.energy_pj)
        return {key: math.fsum(energies) for key, energies in parts.items()}

    @property
    def energy_pj_by_unit(self) -> dict[str, float]:
        """Energy by unit, pJ."""
        parts: dict[str, list[float]] = {}
        for action in self.actions:
            parts.setdefault(action.unit, []).append(action.energy_pj)
        return {unit: math.fsum(energies) for unit, energies in parts.items()}

    def use(self, array: str) -> ArrayUse:
        """Return the use of an array; ``KeyError`` if there is none of that name."""
        return {use.array: use for use in self.arrays}[array]

    def count(self, unit: str, action: str, tensor: str | None = None) -> int:
        """Return the number of actions of one kind in one unit, of one tensor or of all."""
        return sum(
            each.count
            for each in self.actions
            if each.unit == unit and each.action == action and tensor in (None, each.tensor)
        )

    def _repr_html_(self) -> str:
        return html_table(f"{self.schedule.cascade} on {self.schedule.architecture}", (), self.summary())

    def summary(self) -> tuple[tuple[str, str], ...]:
        """Return its main figures for people: pairs of a quantity and its value."""
        work = self.workload
        return (
            ("work", f"{work.batch} x {work.heads} heads, {work.queries} queries x {work.keys} keys"),
            ("tiles", ", ".join(f"{rank}={size}" for rank, size in self.schedule.tiles.items())),
            ("latency", f"{self.latency_cycles:,.0f} cycles, {self.latency_s * 1e3:.4g} ms"),
            ("limited by", self.limit),
            *((f"array {use.array} busy", f"{use.busy:.2%} of the time") for use in self.arrays),
            ("DRAM traffic", f"{self.traffic_bytes / 2**20:,.4g} MiB"),
            *((f"energy of {unit}", f"{energy * 1e-9:.4g} mJ") for unit, energy in self.energy_pj_by_unit.items()),
            ("energy", f"{self.energy_pj * 1e-9:.4g} mJ ({self.technology}, accounting {self.accounting})"),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON values; what follows from them stands under ``derived``."""
        values: dict[str, Any] = TypeAdapter(Result).dump_python(self, mode="json")
        values["derived"] = {
            "latency_s": self.latency_s,
            "traffic_bytes": self.traffic_bytes,
            "energy_pj": self.energy_pj,
            "energy_pj_by_unit": self.energy_pj_by_unit,
        }
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Result:
        """Return the result whose ``as_dict`` gave ``values``.

        Raises
        ------
        InputError
            They are not those of a result.
        """
        return from_json_values(cls, values, "a result")
