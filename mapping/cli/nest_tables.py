"""Tables that show the price of a nest to a person."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from accel.cli import table
from accel.nest_result import NestResult, StageCycles

__all__ = ["loads_text", "nest_tables"]


def loads_text(stage: StageCycles) -> str:
    """Return each resource of a stage with its part of the stage's time, the busiest first."""
    ordered = sorted(stage.loads.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {cycles / stage.cycles:.1%}" for name, cycles in ordered if stage.cycles)


def nest_tables(result: NestResult) -> Iterable[Any]:
    """Yield the tables of totals, stages, Einsums, energy and memories."""
    sizes = ", ".join(f"{symbol}={size:,}" for symbol, size in result.sizes.items())
    yield table(
        f"Nest of {result.cascade} on {result.architecture}",
        ["quantity", "value"],
        [
            ("instances", f"{result.instances:,} of {sizes}"),
            ("latency", f"{result.latency_cycles:,.0f} cycles, {result.latency_s:.4g} s"),
            ("limited by", f"{result.limit} most of the time"),
            *((f"use of array {name}", f"{result.utilisation(name):.2%}") for name in result.work_cycles),
            ("DRAM traffic", f"{result.traffic_bytes:,.0f} bytes"),
            ("spilled", f"{result.spilled:.2%} of what the buffer keeps"),
            ("energy", f"{result.energy_pj:.6g} pJ ({result.technology})"),
        ],
    )
    yield table(
        "Stages",
        ["stage", "Einsums", "cycles", "limited by", "resources, part of the time"],
        [
            (index, ", ".join(stage.einsums), f"{stage.cycles:,.0f}", stage.limit, loads_text(stage))
            for index, stage in enumerate(result.stages)
        ],
        right=(2,),
    )
    yield table(
        "Einsums",
        ["Einsum", "array", "stage", "cycles", "points", "points of the tiles that run"],
        [
            (each.einsum, each.array, each.stage, f"{each.cycles:,}", f"{each.points:,}", f"{each.executed_points:,}")
            for each in result.einsums
        ],
        right=(3, 4, 5),
    )
    total = result.energy_pj
    yield table(
        "Actions",
        ["unit", "action", "tensor", "Einsum", "count", "energy, pJ", "part"],
        [
            (
                each.unit,
                each.action,
                each.tensor,
                each.einsum,
                f"{each.count:,.1f}",
                f"{each.energy_pj:.4g}",
                f"{each.energy_pj / total:.2%}" if total else "",
            )
            for each in result.actions
        ],
        right=(4, 5, 6),
    )
    yield table(
        "Memories on chip, fullest stage",
        ["memory", "tensor", "bits"],
        [
            *(("buffer", tensor, f"{bits:,}") for tensor, bits in result.occupancy_bits.items() if bits),
            *(
                (level, tensor, f"{bits:,}")
                for level, parts in result.level_occupancy_bits.items()
                for tensor, bits in parts.items()
            ),
        ],
        right=(2,),
    )
