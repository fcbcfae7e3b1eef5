"""``einrtl map``: the best schedule of a model's attention on an architecture, and what it costs."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from accel import spec
from accel.arch import load_architecture
from accel.cascade import load_cascade
from accel.cli import console, json_option, print_json, table
from accel.errors import InputError
from accel.result import Result
from accel.workload import read_hugging_face_config
from mapping.search import Objective, SearchResult, search

__all__ = ["map_command", "tables"]


def _tile_sizes(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, int]:
    """Read ``RANK=SIZE`` options."""
    sizes: dict[str, int] = {}
    for text in values:
        rank, sign, size = text.partition("=")
        if not (rank and sign and size.isascii() and size.isdigit() and len(size) < 19):
            raise click.BadParameter(f"{text!r} must be RANK=SIZE with a whole number, such as m0=256", ctx, parameter)
        if rank in sizes:
            raise click.BadParameter(f"{rank} must be given once, not as {sizes[rank]} and {size}", ctx, parameter)
        sizes[rank] = int(size)
    return sizes


@click.command(name="map")
@click.argument("workload", type=click.Path(path_type=Path))
@click.option("--arch", "architecture", default="fusemax-cloud", show_default=True, help="Architecture: name or .yaml.")
@click.option("--cascade", default="attention-1pass", show_default=True, help="Cascade: name or .ein file.")
@click.option("--batch", type=click.IntRange(min=1), default=1, show_default=True, help="Sequences.")
@click.option("--length", type=click.IntRange(min=1), help="Keys, and queries too.  [default: the model's own]")
@click.option("--queries", type=click.IntRange(min=1), help="Queries where fewer than keys, such as 1 for decoding.")
@click.option(
    "--objective", type=click.Choice([each.value for each in Objective]), default="latency", show_default=True
)
@click.option("--tile", "tiles", multiple=True, callback=_tile_sizes, help="Fix a tile size: m0=256. Repeatable.")
@click.option("--save", type=click.Path(path_type=Path), help="Write the schedule to a .yaml file.")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw one epoch of the schedule to a .png file.")
@json_option
def map_command(
    workload: Path,
    architecture: str,
    cascade: str,
    batch: int,
    length: int | None,
    queries: int | None,
    objective: str,
    tiles: dict[str, int],
    save: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Find the best schedule of the attention of one layer.

    WORKLOAD is the config.json of a Hugging Face model.
    """
    sizes = read_hugging_face_config(workload).workload(batch=batch, length=length, queries=queries)
    begin = time.perf_counter()
    found = search(load_cascade(cascade), load_architecture(architecture), sizes, objective, tiles=tiles)
    wall_time_s = time.perf_counter() - begin
    if save is not None:
        _write(save, spec.dump(found.schedule))
    if plot is not None:
        from mapping.plot import gantt  # matplotlib takes longer to import than the search takes

        gantt(found.result, plot)
    if as_json:
        print_json(_as_json(found, wall_time_s))
        return
    out = console()
    for each in tables(found.result):
        out.print(each)
        out.print()
    out.print(_certificate(found, wall_time_s))
    out.print(f"\nAccounting: {found.result.accounting}. Left out:")
    for item in found.result.left_out:
        out.print(f"  - {item}")
    for file in (save, plot):
        if file is not None:
            out.print(f"Wrote {file}")


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file} must be writable: {error.strerror}", hint="check the folder") from None


def _as_json(found: SearchResult, wall_time_s: float) -> dict[str, Any]:
    result = found.result.as_dict()
    return {
        "latency_cycles": found.result.latency_cycles,
        "latency_s": found.result.latency_s,
        "energy_pj": found.result.energy_pj,
        "traffic_bytes": found.result.traffic_bytes,
        "limit": found.result.limit,
        "objective": found.objective.value,
        "lower_bound_cycles": found.lower_bound_cycles,
        "floors_cycles": {floor.resource: floor.cycles for floor in found.floors},
        "gap": found.gap,
        "optimal": found.optimal,
        "points_considered": found.points_considered,
        "points_illegal": found.points_illegal,
        "points_evaluated": found.points_priced,
        "points_pruned": found.points_pruned,
        "wall_time_s": wall_time_s,
        "schedule": result["schedule"],
        "result": result,
    }


def _seconds(value: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if value * factor >= 1:
            return f"{value * factor:.4g} {unit}"
    return f"{value * 1e9:.4g} ns"


def _joules(energy_pj: float) -> str:
    for unit, factor in (("J", 1e-12), ("mJ", 1e-9), ("uJ", 1e-6), ("nJ", 1e-3)):
        if energy_pj * factor >= 1:
            return f"{energy_pj * factor:.4g} {unit}"
    return f"{energy_pj:.4g} pJ"


def _bytes(value: float) -> str:
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= factor:
            return f"{value / factor:.4g} {unit}"
    return f"{value:.4g} B"


def _limit(result: Result) -> str:
    if result.limit == "dram":
        return f"DRAM bandwidth: its transfers take {result.memory_cycles:,.0f} cycles"
    if result.limit == "dependencies":
        busiest = max(result.arrays, key=lambda use: use.busy_cycles)
        return f"waiting between the arrays; the busiest, {busiest.array}, works {busiest.busy:.1%} of the time"
    return f"array {result.limit}, which works all the time"


def tables(result: Result) -> Iterable[Any]:
    """Yield the tables that show a result to a person: totals, Einsums, energy and buffer."""
    workload, schedule = result.workload, result.schedule
    heads = f"{workload.heads}" + (f" ({workload.kv_heads} kv)" if workload.heads != workload.kv_heads else "")
    yield table(
        f"{schedule.cascade} of {workload.name} on {schedule.architecture}",
        ["quantity", "value"],
        [
            ("batch x heads", f"{workload.batch} x {heads}"),
            (
                "queries x keys, E, F",
                f"{workload.queries} x {workload.keys}, {workload.query_key_dim}, {workload.value_dim}",
            ),
            ("tiles", ", ".join(f"{rank}={size}" for rank, size in schedule.tiles.items())),
            ("epoch", f"{result.epoch_cycles:,} cycles, {result.epochs:,} times"),
            ("latency", f"{result.latency_cycles:,.0f} cycles, {_seconds(result.latency_s)}"),
            ("limited by", _limit(result)),
            *(
                (
                    f"use of array {use.array}",
                    f"{use.busy:.2%} of the time busy, {use.utilisation:.2%} of its PEs' cycles",
                )
                for use in result.arrays
            ),
            ("DRAM traffic", f"{_bytes(result.traffic_bytes)}, {result.memory_cycles:,.0f} cycles"),
            ("energy", f"{_joules(result.energy_pj)} ({result.technology})"),
        ],
    )
    yield table(
        "Einsums",
        ["Einsum", "array", "cycles a tile", "runs", "cycles", "points"],
        [
            (each.einsum, each.array, f"{each.tile_cycles:,}", f"{each.runs:,}", f"{each.cycles:,}", f"{each.points:,}")
            for each in result.einsums
        ],
        right=(2, 3, 4, 5),
    )
    total = result.energy_pj
    yield table(
        "Energy",
        ["unit", "action", "count", "energy", "part"],
        [
            (unit, action, f"{result.count(unit, action):,}", _joules(energy_pj), f"{energy_pj / total:.2%}")
            for unit in result.energy_pj_by_unit
            for (where, action), energy_pj in result.energy_pj_by_action.items()
            if where == unit
        ],
        right=(2, 3, 4),
    )
    used = sum(result.occupancy_bits.values())
    yield table(
        "Buffer",
        ["tensor", "bits", "part"],
        [
            *(
                (tensor, f"{bits:,}", f"{bits / result.buffer_size_bits:.2%}")
                for tensor, bits in result.occupancy_bits.items()
            ),
            ("all", f"{used:,}", f"{used / result.buffer_size_bits:.2%}"),
        ],
        right=(1, 2),
    )


def _certificate(found: SearchResult, wall_time_s: float) -> Any:
    counts = {rank: len(sizes) for rank, sizes in found.space.items()}
    schedules = (
        f"{found.points_considered:,}: {found.points_priced:,} priced, {found.points_pruned:,} pruned by a bound, "
        f"{found.points_illegal:,} illegal"
    )
    floors = ", ".join(f"{floor.resource} {floor.cycles:,.0f}" for floor in found.floors)
    return table(
        "Search",
        ["quantity", "value"],
        [
            ("objective", found.objective.value),
            ("sizes tried", ", ".join(f"{rank}: {count}" for rank, count in counts.items())),
            (
                "schedules",
                schedules,
            ),
            ("proof", "no schedule of this space is better" if found.optimal else "none"),
            ("no tile sizes go below", f"{floors} cycles"),
            ("above that", f"{found.gap:.2%}"),
            ("wall time", f"{wall_time_s:.2f} s"),
        ],
    )
