"""Results of nests: what a model says that stages of loop nests cost, as plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from accel.json_values import from_json_values

__all__ = ["NestAction", "NestEinsum", "NestResult", "StageCycles", "UnitEnergy"]


@dataclass(frozen=True, kw_only=True)
class StageCycles:
    """The time of one stage of a nest.

    Parameters
    ----------
    einsums : tuple of str
        What runs in it.
    traffic_bits : float
        Bits between DRAM and chip; not whole where a share spills.
    memory_cycles : float
        Cycles that DRAM needs for them.
    busy_cycles : mapping of str to int
        Array to the cycles that it works.
    buffer_cycles : mapping of str to float
        Memory on chip that states its ports to the cycles that they are busy: ``buffer`` or the name of a level.
    cycles : float
        The largest of these times; where DRAM transfers do not overlap, the largest on chip and that of DRAM together.
    """

    einsums: tuple[str, ...]
    traffic_bits: float
    memory_cycles: float
    busy_cycles: Mapping[str, int]
    buffer_cycles: Mapping[str, float]
    cycles: float

    __pydantic_config__ = {"extra": "forbid"}

    @property
    def loads(self) -> dict[str, float]:
        """Resource to the cycles that it works: ``dram``, each memory on chip that states its ports, each array."""
        return {"dram": self.memory_cycles, **self.buffer_cycles, **self.busy_cycles}

    @property
    def limit(self) -> str:
        """The resource that works longest; of equal ones the first of ``loads``."""
        return max(self.loads, key=lambda name: self.loads[name])


@dataclass(frozen=True, kw_only=True)
class NestEinsum:
    """The time that one Einsum of a nest takes.

    Parameters
    ----------
    einsum, array : str
        The Einsum and the array that runs it.
    stage : int
        The stage in which it runs, from 0.
    cycles : int
        Cycles of all tiles that run, all instances together.
    points : int
        Points that pass its filter, all instances together.
    executed_points : int
        Points of the tiles that run: more than ``points`` where the filter crosses tiles.
    """

    einsum: str
    array: str
    stage: int
    cycles: int
    points: int
    executed_points: int

    __pydantic_config__ = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class NestAction:
    """Actions of one kind and what they cost.

    Parameters
    ----------
    unit : str
        Where they happen: ``dram``, ``buffer``, an inner level or an array.
    component, action : str
        Their entry in the cost table.
    tensor : str
        The tensor that is moved or computed.
    einsum : str
        The Einsum that causes them.
    count : float
        How many, all instances together; values as a part of a row or word, so that it need not be whole.
    energy_pj : float
        Energy of all of them, pJ.
    """

    unit: str
    component: str
    action: str
    tensor: str
    einsum: str
    count: float
    energy_pj: float

    __pydantic_config__ = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class UnitEnergy:
    """Energy of the actions of one kind in one unit.

    Parameters
    ----------
    unit, action : str
        Unit and action as in ``NestAction``.
    energy_pj : float
        Energy, pJ.
    """

    unit: str
    action: str
    energy_pj: float

    __pydantic_config__ = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class NestResult:
    """The price of one nest.

    Parameters
    ----------
    accounting : str
        Rules by which it was counted.
    left_out : tuple of str
        What those rules do not charge.
    cascade, architecture : str
        By name.
    sizes : mapping of str to int
        Size symbols and their values for one instance.
    instances : int
        Times that the nest runs.
    technology : str
        Cost table of the energies.
    clock_hz : float
        Clock that turns cycles to seconds.
    buffer_size_bits : int
        Capacity of the buffer.
    occupancy_bits : mapping of str to int
        What each tensor takes of it in the stage that takes most.
    level_occupancy_bits : mapping of str to mapping of str to int
        The same for each inner level, in whole rows.
    spilled : float
        Share of the tensors in the buffer that did not fit and spilled to DRAM.
    stages : tuple of StageCycles
        In their order.
    einsums : tuple of NestEinsum
        In the order of the cascade.
    work_cycles : mapping of str to float
        Array to its work as cycles of the whole array: less than its busy cycles where tiles do not fill it.
    actions : tuple of NestAction
        By unit, action, tensor and Einsum.
    """

    accounting: str
    left_out: tuple[str, ...]
    cascade: str
    architecture: str
    sizes: Mapping[str, int]
    instances: int
    technology: str
    clock_hz: float
    buffer_size_bits: int
    occupancy_bits: Mapping[str, int]
    level_occupancy_bits: Mapping[str, Mapping[str, int]]
    spilled: float
    stages: tuple[StageCycles, ...]
    einsums: tuple[NestEinsum, ...]
    work_cycles: Mapping[str, float]
    actions: tuple[NestAction, ...]

    __pydantic_config__ = {"extra": "forbid"}

    @property
    def latency_cycles(self) -> float:
        """Cycles of all stages, one after the other."""
        return math.fsum(stage.cycles for stage in self.stages)

    @property
    def latency_s(self) -> float:
        """Latency, s."""
        return self.latency_cycles / self.clock_hz

    @property
    def traffic_bytes(self) -> float:
        """DRAM traffic in both directions, bytes."""
        return math.fsum(stage.traffic_bits for stage in self.stages) / 8

    @property
    def energy_pj(self) -> float:
        """Energy of all actions, pJ."""
        return math.fsum(action.energy_pj for action in self.actions)

    @property
    def energies(self) -> tuple[UnitEnergy, ...]:
        """Energy by unit and action."""
        parts: dict[tuple[str, str], list[float]] = {}
        for each in self.actions:
            parts.setdefault((each.unit, each.action), []).append(each.energy_pj)
        return tuple(UnitEnergy(unit=u, action=a, energy_pj=math.fsum(pj)) for (u, a), pj in parts.items())

    @property
    def energy_pj_by_unit(self) -> dict[str, float]:
        """Energy by unit, pJ."""
        parts: dict[str, list[float]] = {}
        for each in self.actions:
            parts.setdefault(each.unit, []).append(each.energy_pj)
        return {unit: math.fsum(energies) for unit, energies in parts.items()}

    @property
    def limit(self) -> str:
        """The resource that limits most of the time: that of the stages whose cycles are the most together."""
        parts: dict[str, float] = {}
        for stage in self.stages:
            parts[stage.limit] = parts.get(stage.limit, 0.0) + stage.cycles
        return max(parts, key=lambda name: parts[name])

    def count(self, unit: str, action: str, tensor: str | None = None) -> float:
        """Return the number of actions of one kind in one unit, of one tensor or of all."""
        return math.fsum(
            each.count
            for each in self.actions
            if each.unit == unit and each.action == action and tensor in (None, each.tensor)
        )

    def busy_cycles(self, array: str) -> int:
        """Return the cycles in which an array works."""
        return sum(stage.busy_cycles[array] for stage in self.stages)

    def utilisation(self, array: str) -> float:
        """Return the work of an array as a part of what it could do in the time; masked points are no work."""
        return self.work_cycles[array] / self.latency_cycles

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON values; what follows from them stands under ``derived``."""
        values: dict[str, Any] = TypeAdapter(NestResult).dump_python(self, mode="json")
        values["derived"] = {
            "latency_cycles": self.latency_cycles,
            "latency_s": self.latency_s,
            "traffic_bytes": self.traffic_bytes,
            "energy_pj": self.energy_pj,
            "energy_pj_by_unit": self.energy_pj_by_unit,
            "limit": self.limit,
            "stage_limits": [stage.limit for stage in self.stages],
        }
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> NestResult:
        """Return the result whose ``as_dict`` gave ``values``.

        Raises
        ------
        InputError
            They are not those of a result of a nest.
        """
        return from_json_values(cls, values, "a result")
