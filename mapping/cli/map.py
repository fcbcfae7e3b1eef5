"""``einrtl map``: the best schedule of a model's attention on an architecture, and what it costs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import click

from accel import spec
from accel.arch import Architecture, load_architecture
from accel.cascade import Cascade, cascade_names, load_cascade
from accel.cli import (
    EXIT_INTERRUPTED,
    check_output,
    console,
    json_option,
    noted_interrupt,
    print_json,
    progress,
    table,
)
from accel.cli.model import dimensions_option
from accel.errors import InputError
from accel.files import write_text
from accel.result import Result
from accel.schedule import Plan, load_schedule, load_template
from accel.workload import Workload
from accel.workload_file import read_workload
from mapping.cli.beyond import reproduce_option, reproduced
from mapping.cli.frame import device_options, map_frame
from mapping.cli.level_tables import level_tables, ports_text
from mapping.cli.window import Window, find_window
from mapping.search import OUTSIDE, Front, Limits, Objective, Progress, SearchResult, front, map_space, search
from mapping.templates import match, rename
from mapping.trace import write_trace

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
@click.argument("workload", type=click.Path(path_type=Path), required=False, metavar="WORKLOAD")
@click.option("--arch", "architecture", default="fusemax-cloud", show_default=True, help="Architecture: name or .yaml.")
@click.option("--cascade", default="attention-1pass", show_default=True, help="Cascade: name or .ein file.")
@click.option("--batch", type=click.IntRange(min=1), help="Sequences.  [default: 1, or what an ONNX model says]")
@click.option("--length", type=click.IntRange(min=1), help="Keys, and queries too.  [default: the model's own]")
@click.option("--queries", type=click.IntRange(min=1), help="Queries where fewer than keys, such as 1 for decoding.")
@click.option(
    "--window",
    type=click.IntRange(min=1),
    help="Keys that a query sees, for cascades with a window W.  [default: the model's own, or the cascade's]",
)
@dimensions_option
@click.option(
    "--objective", type=click.Choice([each.value for each in Objective]), default="latency", show_default=True
)
@click.option("--tile", "tiles", multiple=True, callback=_tile_sizes, help="Fix a tile size: m0=256. Repeatable.")
@click.option("--plan", "plan_of", type=click.Path(path_type=Path), help="Search tile sizes for this schedule's plan.")
@click.option("--template", help="Search tile sizes for a packaged template: interleaved-1pass.")
@click.option("--space", "show_space", is_flag=True, help="Print the map space and its size, and search nothing.")
@click.option("--pareto", is_flag=True, help="All schedules best in latency, energy and buffer together.")
@click.option(
    "--budget", type=click.FloatRange(min=0, min_open=True), help="Seconds after which the best so far is it."
)
@click.option(
    "--points", type=click.IntRange(min=1), default=100, show_default=True, help="Schedules to build at most."
)
@click.option("--exact", is_flag=True, help="Leave nothing open, however long it takes.")
@click.option("--save", type=click.Path(path_type=Path), help="Write the schedule to a .yaml file.")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw one epoch of the schedule to a .png file.")
@click.option("--trace", type=click.Path(path_type=Path), help="Write a timeline for Perfetto to a .json file.")
@device_options
@reproduce_option
@json_option
def map_command(
    as_json: bool,
    save: Path | None,
    plot: Path | None,
    trace: Path | None,
    device: str | None,
    bits: int | None,
    design: str | None,
    reproduce: str | None,
    **options: Any,
) -> int:
    """Find the best schedule of the attention of one layer, or the best FPGA design for a frame (--device).

    WORKLOAD is the config.json of a Hugging Face model, or a Transformer in ONNX. Ctrl-C ends the search with the best
    so far and what is proved about it; the exit code is then 130.
    """
    if reproduced(reproduce, budget=options["budget"], as_json=as_json):
        return 0
    if device is not None:
        shared = {name: options[name] for name in ("workload", "objective", "show_space")}
        map_frame(**shared, device=device, bits=bits, design=design, save=save, as_json=as_json)
        return 0
    if bits is not None or design is not None:
        raise click.UsageError("--bits and --design are for --device; name one, such as --device zcu102")
    request = _Request(**options)
    window = request.mask_window  # what is wrong with it shows before the search
    if (save or plot or trace) is not None and (request.show_space or request.pareto):
        raise click.UsageError("--save, --plot and --trace take one schedule; --space and --pareto have none or many")
    if request.show_space:
        _print_space(request, as_json)
        return 0
    check_output(save)
    check_output(plot, "picture", ".png")
    check_output(trace, "trace", ".json")
    begin = time.perf_counter()
    with noted_interrupt() as interrupt:
        found = request.run(front) if request.pareto else request.run(search, **request.choices)
    wall_time_s = time.perf_counter() - begin
    if request.pareto:
        _print_front(found, wall_time_s, as_json)
    else:
        # Shown before files are written: what was found is not lost where the disk is full.
        _print_best(found, window, wall_time_s, as_json)
        written = _write_files(found, save, plot, trace)
        if not as_json:
            for file in written:
                console().print(f"Wrote {file}")
    if interrupt.asked:
        click.echo("interrupted: this is the best found until then", err=True)
        return EXIT_INTERRUPTED
    return 0


def _print_best(best: SearchResult, window: Window | None, wall_time_s: float, as_json: bool) -> None:
    if as_json:
        print_json(_as_json(best, wall_time_s) | ({} if window is None else {"window": window.as_dict()}))
        return
    out = console()
    for each in tables(best.result):
        out.print(each)
        out.print()
    out.print(_epoch(best.result))
    out.print()
    out.print(_certificate(best, wall_time_s))
    if window is not None:
        out.print(f"\n{window}")
    out.print(f"\nAccounting: {best.result.accounting}. Left out:")
    for item in best.result.left_out:
        out.print(f"  - {item}")


def _write_files(best: SearchResult, save: Path | None, plot: Path | None, trace: Path | None) -> list[Path]:
    """Write what the options name; return the files."""
    files = [] if save is None else _save(save, best)
    if plot is not None:
        from mapping.plot import gantt  # matplotlib takes longer to import than the search takes

        gantt(best.result, plot)
        files.append(plot)
    if trace is not None:
        write_trace(best.result, trace)
        files.append(trace)
    return files


@dataclass(frozen=True, kw_only=True)
class _Request:
    """The options of the command."""

    workload: Path
    architecture: str
    cascade: str
    batch: int | None
    length: int | None
    queries: int | None
    window: int | None
    dims: dict[str, int]
    objective: str
    tiles: dict[str, int]
    plan_of: Path | None
    template: str | None
    show_space: bool
    pareto: bool
    budget: float | None
    points: int
    exact: bool

    def __post_init__(self) -> None:
        """Check options against each other."""
        if self.plan_of is not None and self.template is not None:
            raise click.UsageError("--plan and --template both give the plan; leave one out")
        if (self.plan_of is not None or self.template is not None) and (self.pareto or self.show_space):
            raise click.UsageError("--pareto and --space go through all plans; leave out --plan and --template")

    @cached_property
    def sizes(self) -> Workload:
        """The workload."""
        return read_workload(
            self.workload,
            batch=self.batch,
            length=self.length,
            queries=self.queries,
            window=self.window,
            dims=self.dims,
        )

    @cached_property
    def mask_window(self) -> Window | None:
        """The window that the filters of the cascade use."""
        return find_window(self.given[0], self.sizes, self.workload, self.window)

    @cached_property
    def given(self) -> tuple[Cascade, Architecture]:
        """What is computed, on what."""
        return load_cascade(self.cascade), load_architecture(self.architecture)

    @cached_property
    def plan(self) -> Plan | None:
        """The plan whose tile sizes are searched; None to search plans too."""
        if self.plan_of is not None:
            return load_schedule(self.plan_of).plan
        if self.template is None:
            return None
        template = load_template(self.template)
        names = match(load_cascade(template.cascade), self.given[0])
        if names is None:
            raise InputError(
                f"cascade {self.given[0].name!r} must have the structure of {template.cascade!r}, for which template "
                f"{template.name!r} is",
                hint="leave out --template",
            )
        return rename(template.plan, names)

    @property
    def choices(self) -> dict[str, Any]:
        """What a search for one schedule takes besides."""
        return {"objective": self.objective, "plan": self.plan}

    @property
    def limits(self) -> Limits:
        """How long the search may take."""
        if self.exact:
            return Limits(points=None, seconds=self.budget, nodes=None, visits=None, pipelines=None, interruptible=True)
        return Limits(points=self.points, seconds=self.budget, interruptible=True)

    def run(self, call: Callable[..., Any], **more: Any) -> Any:
        """Run a search, with its progress on a terminal."""
        with progress("searching") as advance:

            def watch(state: Progress) -> None:
                part = state.best / state.bound - 1 if state.bound > 0 and state.best < math.inf else math.inf
                gap = f", gap {part:.2%}" if part < math.inf else ""
                advance(state.done, f"{state.open:,} tile shapes open, {state.priced:,} schedules priced{gap}")

            return call(*self.given, self.sizes, tiles=self.tiles, limits=self.limits, watch=watch, **more)


def _print_space(request: _Request, as_json: bool) -> None:
    dimensions, total = map_space(*request.given, request.sizes, tiles=request.tiles, limits=request.limits)
    if as_json:
        print_json({"dimensions": [asdict(each) for each in dimensions], "points": total, "outside": list(OUTSIDE)})
        return
    rows = [(each.name, f"{each.unconstrained:,}", f"{each.size:,}", each.options) for each in dimensions]
    out = console()
    out.print(table("Map space", ["choice", "without constraints", "options", "which"], rows, right=(1, 2)))
    out.print(f"Schedules: {total:,}. Outside the space:")
    for item in OUTSIDE:
        out.print(f"  - {item}")


def _print_front(found: Front, wall_time_s: float, as_json: bool) -> None:
    if as_json:
        counts = {name: getattr(found, f"points_{name}") for name in ("considered", "illegal", "pruned")}
        print_json(
            {
                "front": [_point(result) | {"schedule": result.as_dict()["schedule"]} for result in found.results],
                "complete": found.complete,
                "points_evaluated": found.points_priced,
                **{f"points_{name}": count for name, count in counts.items()},
                "wall_time_s": wall_time_s,
            }
        )
        return
    out = console()
    rows = [
        (
            f"{each.latency_cycles:,.0f}",
            _joules(each.energy_pj),
            f"{sum(each.occupancy_bits.values()):,}",
            ", ".join(f"{rank}={size}" for rank, size in each.schedule.tiles.items()),
        )
        for each in found.results
    ]
    out.print(table("Pareto front", ["cycles", "energy", "buffer bits", "tiles"], rows, right=(0, 1, 2)))
    proof = "complete: no other schedule of the space belongs to it" if found.complete else "the search ended early"
    out.print(f"{len(rows)} schedules, {proof}. {found.points_priced:,} priced in {wall_time_s:.2f} s.")


def _point(result: Result) -> dict[str, Any]:
    return {
        "latency_cycles": result.latency_cycles,
        "energy_pj": result.energy_pj,
        "buffer_bits": sum(result.occupancy_bits.values()),
    }


def _epoch(result: Result) -> Any:
    """Return the table that shows the software pipeline: stages by arrays, each Einsum with its tile offset."""
    plan = result.schedule.plan
    arrays = [use.array for use in result.arrays]
    rows = [
        (
            f"{number}" + (f", slot {index}" if len(group.slots) > 1 else ""),
            *(" ".join(f"{name}[-{plan.offsets[name]}]" for name in slot.get(array, ())) for array in arrays),
        )
        for number, group in enumerate(plan.epoch)
        for index, slot in enumerate(group.slots)
    ]
    return table("Epoch: each Einsum with the tile it works on, counted back from the newest", ["group", *arrays], rows)


def _save(file: Path, found: SearchResult) -> list[Path]:
    """Write the schedule, and its cascade where that is not packaged; return the files."""
    _write(file, spec.dump(found.schedule))
    if found.cascade is None or found.cascade.name in cascade_names():
        return [file]
    beside = file.with_suffix(".ein")
    _write(beside, str(found.cascade))
    return [file, beside]


def _write(file: Path, text: str) -> None:
    write_text(file, text)


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
        "objective_gap": found.objective_gap,
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
    if result.limit in result.buffer_cycles:
        return ports_text(result)
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
    yield from level_tables(result)


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
            (
                "proof",
                "no schedule of this space is better"
                if found.optimal
                else f"none is better by more than {found.objective_gap:.3%}",
            ),
            ("floors", f"{floors} cycles"),
            ("above the highest", f"{found.result.latency_cycles / found.floor_cycles - 1:.3%}"),
            ("wall time", f"{wall_time_s:.2f} s"),
        ],
    )
