"""One point, from its description to its result: what runs on a worker."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from accel.arch import Architecture
from accel.cascade import Cascade
from accel.cost import CostTable
from accel.errors import EinRTLError, InputError, Problem
from accel.notation import parse
from mapping.reproduce import area_mm2
from mapping.search import SearchResult, search
from mapping.sweep.plan import Point
from mapping.templates import find_plan

__all__ = ["COLUMNS", "Outcome", "evaluate"]

T = TypeVar("T")

COLUMNS: Mapping[str, str] = {
    "latency_cycles": "REAL",
    "latency_s": "REAL",
    "energy_pj": "REAL",
    "traffic_bits": "INTEGER",
    "buffer_size_bits": "INTEGER",
    "buffer_used_bits": "INTEGER",
    "pes": "INTEGER",
    "area_mm2": "REAL",
    "lower_bound_cycles": "REAL",
    "gap": "REAL",
    "limited_by": "TEXT",
    "tiles": "TEXT",
    "points_evaluated": "INTEGER",
    "points_pruned": "INTEGER",
    "schedule": "TEXT",
}
"""What is kept of a result, with its SQLite type; the schedule prices to all the rest.

The area is that of the PEs and the memories on chip; empty where the cost table lacks a part of it.
"""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a point.

    Parameters
    ----------
    point : Point
        Which.
    values : mapping of str to value, optional
        Its result, by the names of ``COLUMNS``; None if it failed.
    reason : str, optional
        Why it failed; None if it did not.
    wall_time_s : float
        How long it took.
    """

    point: Point
    values: Mapping[str, Any] | None = None
    reason: str | None = None
    wall_time_s: float = 0.0


def evaluate(point: Point) -> Outcome:
    """Return the outcome of a point: its best schedule and the price of that, or the reason why there is none.

    Nothing that goes wrong with one point is raised, for it must not end a sweep of thousands.
    """
    begin = time.perf_counter()
    values, reason = None, None
    try:
        architecture = _architecture(point.architecture.text)
        cascade = _cascade(point.cascade.text, point.cascade.name)
        found = search(
            cascade,
            architecture,
            point.workload,
            point.objective,
            plan=find_plan(cascade, architecture),  # thousands of points: tile sizes only
            costs=_costs(point.technology.text),
        )
        values = _values(found, architecture, _costs(point.technology.text))
    except EinRTLError as error:
        reason = str(error)
    except Exception as error:  # noqa: BLE001 - a defect of ours in one point is a finding, not the end of the sweep
        reason = f"defect of EinRTL, please report it: {type(error).__name__}: {error}"
    return Outcome(point=point, values=values, reason=reason, wall_time_s=time.perf_counter() - begin)


def _area_mm2(architecture: Architecture, costs: CostTable) -> float | None:
    try:
        return area_mm2(architecture, costs)
    except InputError:
        return None


def _values(found: SearchResult, architecture: Architecture, costs: CostTable) -> dict[str, Any]:
    result = found.result
    return {
        "latency_cycles": result.latency_cycles,
        "latency_s": result.latency_s,
        "energy_pj": result.energy_pj,
        "traffic_bits": result.dram_read_bits + result.dram_written_bits,
        "buffer_size_bits": architecture.buffer.size_bits,
        "buffer_used_bits": sum(result.occupancy_bits.values()),
        "pes": sum(array.pes for array in architecture.arrays.values()),
        "area_mm2": _area_mm2(architecture, costs),
        "lower_bound_cycles": found.lower_bound_cycles,
        "gap": found.gap,
        "limited_by": result.limit,
        "tiles": json.dumps(dict(result.schedule.tiles)),
        "points_evaluated": found.points_priced,
        "points_pruned": found.points_pruned,
        "schedule": json.dumps(result.as_dict()["schedule"]),
    }


# Neighbouring points share most descriptions: a few are kept ready in each worker.


@lru_cache(maxsize=16)
def _cascade(text: str, name: str) -> Cascade:
    return parse(text, file=name)


@lru_cache(maxsize=16)
def _architecture(text: str) -> Architecture:
    return _read(Architecture, text)


@lru_cache(maxsize=16)
def _costs(text: str) -> CostTable:
    return _read(CostTable, text)


def _read(cls: type[T], text: str) -> T:
    """Return the description that the JSON ``text`` holds; its errors have no place, for it is no file of the user."""
    try:
        return TypeAdapter(cls).validate_json(text, strict=True)
    except ValidationError as error:
        problems = []
        for item in error.errors():
            own, path = item.get("ctx", {}).get("error"), ".".join(map(str, item["loc"]))
            prefix = f"{path}: " if path else ""
            if isinstance(own, InputError):
                problems += [Problem(message=prefix + each.message, hint=each.hint) for each in own.problems]
            else:
                problems.append(Problem(message=prefix + item["msg"]))
        raise InputError.of(problems) from None
