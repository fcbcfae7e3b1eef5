"""``einrtl synth``: what a block costs on an FPGA or in standard cells."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from accel.cli import EXIT_COMPARISON_FAILED, console, json_option, print_json, progress, table
from accel.errors import InputError
from accel.fpga import Device, Prediction, load_device, load_model
from rtl.synth import (
    TARGETS,
    Design,
    Placement,
    Resources,
    expect_block_ram,
    find_target,
    place_and_route,
    read_design,
    synthesise,
)
from rtl.synth.tools import TIMEOUT_S
from sim.synth.emission import emit_unit, family_of
from sim.synth.energy import BlockEnergy, as_dict, measure_energy

__all__ = ["synth"]

_DEFAULT_DEVICES = {"ecp5": "ecp5-85", "ice40": "ice40-up5k", "xilinx": "zcu102"}
_QUANTITIES = {
    "lut_count": "look-up tables",
    "ff_count": "flip-flops",
    "dsp_count": "multipliers (DSP)",
    "block_ram_count": "block memories",
}


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("design")
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
@click.option("--file", "parameters", type=click.Path(path_type=Path), help="YAML description of the unit.")
@click.option("--top", help="Top module of a Verilog file; default the one its sidecar names, else its file name.")
@click.option("--target", default="ecp5", show_default=True, help=f"FPGA family: {', '.join(TARGETS)}.")
@click.option("--device", help="Device whose share is shown, and on which an ECP5 design is placed.")
@click.option("--speed", "speed_grade", type=int, default=6, show_default=True, help="Speed grade of an ECP5.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the placement.")
@click.option("--place/--no-place", default=True, show_default=True, help="Place and route for the clock: ECP5 only.")
@click.option("--asic", is_flag=True, help="Map to NanGate 45 nm cells instead: area, leakage, energy from toggles.")
@click.option("--predict", is_flag=True, help="Predict by the fitted model instead; synthesises nothing.")
@click.option(
    "--expect-bram",
    "block_rams",
    multiple=True,
    metavar="NAME",
    help="Fail (exit 1) unless the memory whose name ends so is block memory; '*' is every memory. May be repeated.",
)
@click.option(
    "--cache",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("build/synth"),
    show_default=True,
    help="Folder of earlier results.",
)
@click.option(
    "--time-out", "timeout_s", type=float, default=TIMEOUT_S, show_default=True, help="Seconds that each tool may take."
)
@json_option
def synth(design: str, options: tuple[str, ...], asic: bool, predict: bool, as_json: bool, **settings: Any) -> int:
    """Show what DESIGN costs: a unit, with OPTIONS as `einrtl rtl UNIT` takes them, or a Verilog file NAME.v.

    For FPGAs: look-up tables, flip-flops, multipliers and memories after synthesis by yosys, and for ECP5 the highest
    clock after place and route by nextpnr, every port between flip-flops. With --asic: area, leakage and the energy of
    one number. With --predict: what the model says that was fitted to the committed samples.
    """
    if asic and predict:
        raise InputError("--asic and --predict must not be given together", hint="give one")
    found = _design(design, options, settings["parameters"], settings["top"])
    if asic:
        return _asic(found, settings["cache"], settings["timeout_s"], as_json)
    device = _device(settings["target"], settings["device"])
    if predict:
        return _predict(found, device, as_json)
    return _fpga(found, device, settings, as_json)


def _design(name: str, options: tuple[str, ...], parameters: Path | None, top: str | None) -> Design:
    if not name.endswith(".v"):
        if top is not None:
            raise InputError("--top must come with a Verilog file, not with a unit", hint="leave it out")
        with progress("writing Verilog"):
            return emit_unit(name, options, parameters)
    if options or parameters is not None:
        raise InputError(
            f"a Verilog file must come without options of a unit, not with {' '.join(options) or '--file'}"
        )
    return read_design(Path(name), top)


def _device(target: str, name: str | None) -> Device:
    find_target(target)
    device = load_device(name or _DEFAULT_DEVICES[target])
    if device.target != target:
        raise InputError(
            f"device must be of target {target}, but {device.name} is of {device.target}",
            hint=f"give --target {device.target}",
        )
    return device


def _fpga(design: Design, device: Device, settings: dict[str, Any], as_json: bool) -> int:
    how = {"cache": settings["cache"], "timeout_s": settings["timeout_s"]}
    with progress("synthesising"):
        resources = synthesise(design, device.target, **how)
    expect_block_ram(resources, settings["block_rams"])
    placement = None
    if settings["place"] and device.target == "ecp5":
        with progress("placing and routing"):
            placement = place_and_route(
                design, device=device.name, speed_grade=settings["speed_grade"], seed=settings["seed"], **how
            )
    if as_json:
        print_json(
            {
                "top": design.top,
                "device": device.name,
                "resources": asdict(resources),
                "placement": None if placement is None else asdict(placement),
            }
        )
        return 0
    out = console()
    out.print(_resource_table(design, resources, device))
    for note in find_target(device.target).notes:
        out.print(f"Note: {note}.", style="dim", markup=False)
    if resources.memories:
        rows = [(memory.name, memory.kind, memory.cell) for memory in resources.memories]
        out.print(table("Memories", ("memory", "became", "cell"), rows))
    if placement is not None:
        out.print(_placement_table(placement))
    return 0


def _resource_table(design: Design, found: Resources, device: Device) -> Any:
    rows: list[tuple[str, object, str]] = []
    for name, text in _QUANTITIES.items():
        count, offered = getattr(found, name), device.budget[name]
        rows.append((text, f"{count:g}", f"{100 * count / offered:.1f} %" if offered else ""))
    rows.append(("of the look-up tables, as memory", found.distributed_lut_count, ""))
    rows += [(f"cells {kind}", count, "") for kind, count in found.cells.items()]
    title = f"{design.top} on {found.target} (yosys {found.yosys_version})"
    return table(title, ("what", "count", f"of {device.name}"), rows, right=(1, 2))


def _placement_table(found: Placement) -> Any:
    rows: list[tuple[str, object]] = [
        ("highest clock (MHz)", f"{found.fmax_mhz:.1f}"),
        ("longest path from", found.critical_from),
        ("longest path to", found.critical_to),
        ("its levels of logic", found.critical_levels),
        ("its delay in cells (ns)", f"{found.critical_logic_ns:.2f}"),
        ("its delay in wires (ns)", f"{found.critical_routing_ns:.2f}"),
    ]
    rows += [
        (f"sites {kind}, harness included", f"{used} of {found.available[kind]}") for kind, used in found.used.items()
    ]
    how = f"speed grade {found.speed_grade}, seed {found.seed} (nextpnr {found.nextpnr_version})"
    title = f"Placed on {found.device}, {how}"
    return table(title, ("figure", "value"), rows)


def _predict(design: Design, device: Device, as_json: bool) -> int:
    if not design.description:
        raise InputError(
            "a prediction needs a unit, or a Verilog file with its sidecar", hint="write it with: einrtl rtl"
        )
    found = load_model(device.target).predict(
        str(design.description.get("unit", "")), family_of(design.description), design.description
    )
    if as_json:
        print_json({"top": design.top, "device": device.name, "target": device.target, **asdict(found)})
        return 0
    out = console()
    out.print(_prediction_table(design, found, device))
    if found.extrapolated:
        out.print(f"Extrapolated: outside the samples in {', '.join(found.extrapolated)}.", markup=False)
    return 0


def _prediction_table(design: Design, found: Prediction, device: Device) -> Any:
    rows: list[tuple[str, str, str, str]] = []
    for name, text in _QUANTITIES.items():
        error = found.mean_error[name]
        shown = f"{100 * error:.1f} %" if name in ("lut_count", "ff_count") else f"{error:.2g}"
        share = f"{100 * found.counts[name] / device.budget[name]:.1f} %" if device.budget[name] else ""
        rows.append((text, f"{found.counts[name]:.0f}", shown, share))
    return table(
        f"{design.top} on {device.target}, predicted{' (extrapolated)' if found.extrapolated else ''}",
        ("what", "count", "mean error on samples", f"of {device.name}"),
        rows,
        right=(1, 2, 3),
    )


def _asic(design: Design, cache: Path, timeout_s: float, as_json: bool) -> int:
    with progress("counting toggles"):
        found = measure_energy(design, cache=cache, timeout_s=timeout_s)
    if as_json:
        print_json({"top": design.top, **as_dict(found)})
    else:
        console().print(_asic_table(design, found))
        console().print("Left out: wires, and the clock tree up to the registers' pins.", style="dim")
    return EXIT_COMPARISON_FAILED if found.mismatch_count else 0


def _asic_table(design: Design, found: BlockEnergy) -> Any:
    netlist, agree = found.netlist, found.compared_count - found.mismatch_count
    rows = (
        ("cells", sum(netlist.cells.values())),
        ("area (um2), equal to yosys' own sum", f"{netlist.area_um2:.1f}"),
        ("memories left whole, in neither area nor cells (bits)", netlist.macro_bits),
        ("leakage (uW)", f"{netlist.leakage_uw:.1f}"),
        ("energy of a number, zero delay: no glitches (pJ)", f"{found.low_pj:.2f}"),
        ("energy of a number, unit delay: all glitches (pJ)", f"{found.high_pj:.2f}"),
        ("accesses to memories left whole, at most (pJ)", f"{found.memory_pj:.2f}"),
        ("second estimate: arithmetic by open-45nm (pJ)", f"{found.second_pj:.2f}"),
        ("results equal to the Verilog's", f"{agree} of {found.compared_count}"),
    )
    return table(f"{design.top} in NanGate 45 nm cells, 1.1 V, typical", ("figure", "value"), rows, right=(1,))
