"""``einrtl map --device``: the best design for a frame of a vision transformer on an FPGA."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from accel import spec
from accel.cli import check_output, console, print_json, table
from accel.errors import InputError
from accel.files import write_text
from accel.fpga import QUANTITIES, Device, load_device
from accel.frame import VisionTransformer, load_frame
from accel.frame_design import load_design
from mapping.frame import FrameResult
from mapping.frame_search import FrameChoice, FrameSearchResult, FrameSpace, evaluate_design, search_frame
from mapping.published_frame import Beyond, beyond

__all__ = ["device_options", "map_frame"]

_F = TypeVar("_F", bound=Callable[..., Any])
_WIDTHS = (32, 16, 8)
_SHOWN_BITS = 16
_GOAL = 1.3
"""Speed-up for which the slowest clock is told."""
_USED = ("workload", "device", "bits", "design", "objective", "save", "show_space", "as_json")
_SPARED = ("quiet", "verbose", "help")
_HEADS = {"lut_count": "LUT", "ff_count": "FF", "dsp_count": "DSP", "block_ram_count": "BRAM"}


def device_options(command: _F) -> _F:
    """Add the options of a search on a device to ``einrtl map``."""
    for option in (
        click.option("--design", help="With --device: price this frame design (name or .yaml) and search nothing."),
        click.option(
            "--bits", type=click.IntRange(4, 32), help="With --device: bits of a number.  [default: 32; 16; 8]"
        ),
        click.option("--device", help="FPGA to search a design for; WORKLOAD is then m3vit, deit-tiny or a .yaml."),
    ):
        command = option(command)
    return command


def map_frame(
    workload: Path,
    *,
    device: str,
    bits: int | None,
    design: str | None,
    objective: str,
    save: Path | None,
    show_space: bool,
    as_json: bool,
) -> None:
    """Search, or price, designs for the frame ``workload`` on ``device``, and print them."""
    _refuse_other_options()
    model, target = load_frame(str(workload)), load_device(device)
    if design is not None:
        choice = evaluate_design(model, load_design(design), target)
        _print_choice(model, target, choice, as_json)
        return
    spaces = [FrameSpace(bits=each) for each in ((bits,) if bits else _WIDTHS)]
    if show_space:
        _print_space(model, target, spaces, as_json)
        return
    check_output(save)
    begin = time.perf_counter()
    found, refused = _search(model, target, spaces, objective)
    wall_time_s = time.perf_counter() - begin
    shown = next((each for each in found if each.space.bits == _SHOWN_BITS), found[0])
    if as_json:
        print_json(_as_json(model, target, found, refused, wall_time_s))
    else:
        _print_found(model, target, found, refused, shown, wall_time_s)
    if save is not None:
        write_text(save, spec.dump(shown.best.design))
        if not as_json:
            console().print(f"Wrote {save}")


def _refuse_other_options() -> None:
    context = click.get_current_context()
    for parameter in context.command.params:
        name = str(parameter.name)
        given = context.get_parameter_source(name) not in (ParameterSource.DEFAULT, None)
        if given and name not in (*_USED, *_SPARED):
            raise click.UsageError(f"{parameter.opts[0]} is not for --device; leave one of the two out")


def _search(
    model: VisionTransformer, device: Device, spaces: Sequence[FrameSpace], objective: str
) -> tuple[list[FrameSearchResult], dict[int, str]]:
    """Return the results by width, and why there is none for some; raises if there is none at all."""
    found: list[FrameSearchResult] = []
    refused: dict[int, str] = {}
    for space in spaces:
        try:
            found.append(search_frame(model, device, space, objective=objective))
        except InputError as error:
            refused[space.bits] = str(error)
            last = error
    if not found:
        raise last
    return found, refused


def _describe(choice: FrameChoice) -> str:
    design = choice.design
    sharing = "" if design.fused else ", one set of multipliers for both products"
    tokens = "on chip" if design.activations_on_chip else "through the port"
    cores = f"{design.cores} x " if design.cores > 1 else ""
    return (
        f"T = {design.tile}, attention {cores}p = {design.slots} x {design.block}{sharing}, "
        f"{design.port_bits}-bit port, tokens {tokens}"
    )


def _unit_command(model: VisionTransformer, choice: FrameChoice) -> str | None:
    """Return the command that generates the attention core, if the generated one has these choices."""
    design = choice.design
    if design.feature_bits > 18 or not design.fused:
        return None
    number = f"s{design.feature_bits}f{max(design.feature_bits - 4, 1)},nearest_even,saturate"
    formats = " ".join(f"--{name}-format {number}" for name in ("query", "key", "value", "output"))
    return (
        f"einrtl rtl attention-reordered --max-length {model.tokens} --key-features {model.head_dim} "
        f"--value-features {model.head_dim} --slots {design.slots} --block {design.block} {formats} -o build"
    )


def _choice_json(model: VisionTransformer, device: Device, choice: FrameChoice) -> dict[str, Any]:
    result, design = choice.result, choice.design
    names = (
        *("port_bits", "feature_bits", "weight_bits", "tile", "slots", "block", "cores", "fused", "vector_lanes"),
        *("keys_on_chip", "activations_on_chip", "memory_efficiency", "fill_cycles", "clock_hz"),
    )
    return {
        "design": {name: getattr(design, name) for name in names},
        "latency_s": result.latency_s,
        "latency_cycles": result.latency_cycles,
        "energy_bound_j": choice.energy_j,
        "power_bound_w": choice.power_bound_w,
        "traffic_bits": result.traffic_bits,
        "resources": choice.cost.total,
        "parts": {name: dict(counts) for name, counts in choice.cost.parts.items()},
        "extrapolated": list(choice.cost.extrapolated),
        "stages": {name: {"work_cycles": work, "wait_cycles": wait} for name, (work, wait) in result.by_kind().items()},
        "beside": [each.as_json() for each in beyond(model, device.name, result.latency_s, choice.energy_j)],
    }


def _as_json(
    model: VisionTransformer,
    device: Device,
    found: Sequence[FrameSearchResult],
    refused: Mapping[int, str],
    wall_time_s: float,
) -> dict[str, Any]:
    return {
        "workload": model.name,
        "device": device.name,
        "results": [
            {
                "bits": each.space.bits,
                "objective": each.objective,
                **_choice_json(model, device, each.best),
                "certificate": {
                    "points_considered": each.points_considered,
                    "points_unfit": each.points_unfit,
                    "points_pruned": each.points_pruned,
                    "points_priced": each.points_priced,
                    "optimal": True,
                    "floors": {floor.resource: floor.latency_s for floor in each.floors},
                    "lower_bound_s": each.lower_bound_s,
                    "gap_to_floor": each.gap,
                },
            }
            for each in found
        ],
        "refused": {str(width): why for width, why in refused.items()},
        "wall_time_s": wall_time_s,
    }


def _print_space(model: VisionTransformer, device: Device, spaces: Sequence[FrameSpace], as_json: bool) -> None:
    dimensions = spaces[0].dimensions(model, device)
    size = 1
    for choices in dimensions.values():
        size *= len(choices)
    if as_json:
        print_json(
            {
                "dimensions": {name: list(choices) for name, choices in dimensions.items()},
                "bits": [each.bits for each in spaces],
                "points": size * len(spaces),
            }
        )
        return
    rows = [(name, str(len(choices)), ", ".join(map(str, choices))) for name, choices in dimensions.items()]
    rows.append(("bits", str(len(spaces)), ", ".join(str(each.bits) for each in spaces)))
    out = console()
    out.print(table(f"Designs for {model.name} on {device.name}", ["choice", "options", "values"], rows, right=(1,)))
    out.print(f"{size * len(spaces):,} designs.")


def _resources(device: Device, choice: FrameChoice) -> Any:
    rows = []
    for name, counts in [*choice.cost.parts.items(), ("all", choice.cost.total)]:
        mark = "extrapolated" if name in choice.cost.extrapolated else ""
        rows.append((name, *(f"{counts[each]:,.0f}" for each in QUANTITIES), mark))
    budget = device.budget
    rows.append((device.name, *(f"{budget[each]:,.0f}" for each in QUANTITIES), ""))
    used = (f"{100 * choice.cost.total[each] / budget[each]:.0f} %" if budget[each] else "-" for each in QUANTITIES)
    rows.append(("used", *used, ""))
    return table("Resources", ["part", *(_HEADS[each] for each in QUANTITIES), ""], rows, right=range(1, 5))


def _stages(result: FrameResult) -> Any:
    clock_hz = result.design.clock_hz
    rows = [
        (name, f"{1e3 * work / clock_hz:.3f}", f"{1e3 * wait / clock_hz:.3f}")
        for name, (work, wait) in result.by_kind().items()
    ]
    rows.append(("all", f"{1e3 * result.latency_s:.3f}", ""))
    return table("Stages, ms", ["stage", "work", "waiting for weights"], rows, right=(1, 2))


def _comparison(lines: Sequence[Beyond]) -> Any:
    return table(
        "Beside published designs on this device",
        ["design", "ms", "ours", "speed-up", "J", "ours at most", "ratio", ""],
        [
            (
                each.name,
                f"{each.latency_ms:.2f}",
                f"{each.ours_ms:.3f}",
                f"{each.speedup:.2f}x",
                f"{each.energy_j:.3f}",
                f"{each.ours_j:.3f}",
                f"{each.energy_ratio:.2f}",
                each.note,
            )
            for each in lines
        ],
        right=range(1, 7),
    )


def _print_found(
    model: VisionTransformer,
    device: Device,
    found: Sequence[FrameSearchResult],
    refused: Mapping[int, str],
    shown: FrameSearchResult,
    wall_time_s: float,
) -> None:
    out = console()
    rows = []
    for each in found:
        best = each.best
        used = (f"{100 * best.cost.total[name] / max(device.budget[name], 1):.0f} %" for name in QUANTITIES)
        rows.append(
            (str(each.space.bits), f"{1e3 * best.result.latency_s:.3f}", f"{best.energy_j:.3f}", *used, _describe(best))
        )
    heads = ["bits", "ms", "J at most", *(_HEADS[name] for name in QUANTITIES), "design"]
    clock_mhz = device.typical_clock_hz / 1e6
    title = f"Best designs for {model.name} on {device.name} at {clock_mhz:g} MHz, by {shown.objective}"
    out.print(table(title, heads, rows, right=range(7)))
    for width, why in refused.items():
        out.print(f"{width} bits: {why}")
    out.print(f"\nIn detail: {shown.space.bits} bits.\n")
    limit = f" A design takes at most {shown.space.most_used:.0%} of each resource."
    _print_details(model, device, shown.best, limit)
    out.print(_certificate(shown))
    out.print(f"\nAll widths in {wall_time_s:.2f} s.")


def _print_details(model: VisionTransformer, device: Device, choice: FrameChoice, limit: str = "") -> None:
    out = console()
    for each in (_stages(choice.result), _resources(device, choice)):
        out.print(each)
        out.print()
    lines = beyond(model, device.name, choice.result.latency_s, choice.energy_j)
    if lines:
        out.print(_comparison(lines))
        first = lines[0]
        least_mhz = choice.result.latency_cycles / (first.latency_ms * 1e-3 / _GOAL) / 1e6
        out.print(f"At equal cycles it stays {_GOAL}x faster than {first.name} down to {least_mhz:.0f} MHz.\n")
    command = _unit_command(model, choice)
    if command is not None:
        out.print(f"Its attention core: {command}", soft_wrap=True)
    out.print(
        f"Energy: {choice.power_bound_w:.1f} W, the power measured on Edge-MoE times the largest ratio of any resource "
        "to its own; an upper bound by assumption, not a measurement.\n"
        f"Assumed: the port moves data in {choice.design.memory_efficiency:.0%} of the cycles; "
        f"{choice.design.fill_cycles} cycles to fill and drain in every stage; tokens spread evenly over experts."
        f"{limit}\n"
        "Left out: logic of the memory port, of the gate and of the sequence. Not judged: what narrower numbers do to "
        "accuracy."
    )


def _certificate(found: FrameSearchResult) -> str:
    floors = ", ".join(f"{each.resource} {1e3 * each.latency_s:.3f} ms" for each in found.floors)
    return (
        f"\nCertificate: {found.points_considered:,} designs considered; {found.points_unfit:,} do not fit, "
        f"{found.points_pruned:,} left out by a bound, {found.points_priced:,} priced; none is better by "
        f"{found.objective}.\n"
        f"Floors: {floors}. The design is {100 * found.gap:.1f} % above the higher one."
    )


def _print_choice(model: VisionTransformer, device: Device, choice: FrameChoice, as_json: bool) -> None:
    if as_json:
        print_json({"workload": model.name, "device": device.name, **_choice_json(model, device, choice)})
        return
    out = console()
    latency_ms = 1e3 * choice.result.latency_s
    out.print(f"{choice.design.name}: {_describe(choice)}: {latency_ms:.3f} ms, at most {choice.energy_j:.3f} J\n")
    _print_details(model, device, choice)
