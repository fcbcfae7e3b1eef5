"""``einrtl formal``: the stream rules, proved for every run of a number of cycles from reset."""

from __future__ import annotations

from pathlib import Path

import click

from accel.cli import EXIT_COMPARISON_FAILED, console, json_option, print_json, progress, table
from accel.errors import InputError
from sim.formal.checker import RULES
from sim.formal.prove import Verdict, check_design, tool_versions
from sim.formal.skeletons import SKELETONS, Skeleton, find_skeleton

__all__ = ["formal_command"]

_DEPTHS = (1, 200)


@click.command("formal")
@click.argument("names", nargs=-1, metavar="[SKELETON]...")
@click.option("--depth", "depth_cycles", type=int, help="Cycles from reset, 1 to 200; default what suits the skeleton.")
@click.option(
    "--trace",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for a VCD file of each run that breaks a rule.",
)
@click.option(
    "--time-out", "timeout_s", type=float, default=600.0, show_default=True, help="Seconds that each tool may take."
)
@json_option
def formal_command(
    names: tuple[str, ...], depth_cycles: int | None, trace: Path | None, timeout_s: float, as_json: bool
) -> int:
    """Prove that no run of so many cycles from reset breaks a stream rule, whatever both ports do.

    SKELETONs are the parts that all streaming units are made of; without a name, all are checked.
    """
    if depth_cycles is not None and not _DEPTHS[0] <= depth_cycles <= _DEPTHS[1]:
        raise InputError(
            f"--depth must be from {_DEPTHS[0]} to {_DEPTHS[1]}, not {depth_cycles}",
            hint=f"use {min(max(depth_cycles, _DEPTHS[0]), _DEPTHS[1])}",
        )
    chosen = [find_skeleton(name) for name in names] or list(SKELETONS.values())
    versions = tool_versions()
    found: list[tuple[Skeleton, Verdict]] = []
    with progress("proving", total=len(chosen)) as advance:
        for done, skeleton in enumerate(chosen):
            advance(done, skeleton.name)
            verdict = check_design(
                skeleton.check(),
                depth_cycles=depth_cycles or skeleton.depth_cycles,
                trace=None if trace is None else trace / f"{skeleton.name}.vcd",
                timeout_s=timeout_s,
            )
            found.append((skeleton, verdict))
    if as_json:
        print_json({"tools": versions, "rules": RULES, "skeletons": [_as_dict(*each) for each in found]})
    else:
        _show(found, versions)
    return 0 if all(verdict.holds for _, verdict in found) else EXIT_COMPARISON_FAILED


def _as_dict(skeleton: Skeleton, verdict: Verdict) -> dict[str, object]:
    return {
        "name": skeleton.name,
        "summary": skeleton.summary,
        "depth_cycles": verdict.depth_cycles,
        "bound_cycles": skeleton.bound_cycles,
        "failed_rule": verdict.failed_rule,
        "seconds": verdict.seconds,
    }


def _show(found: list[tuple[Skeleton, Verdict]], versions: dict[str, str]) -> None:
    out = console()
    rows = [
        (
            skeleton.name,
            verdict.depth_cycles,
            skeleton.bound_cycles,
            "holds" if verdict.failed_rule is None else f"broken: {verdict.failed_rule}",
        )
        for skeleton, verdict in found
    ]
    tools = ", ".join(f"{name} {text}" for name, text in versions.items())
    heads = ("skeleton", "cycles from reset", "must move within", "stream rules")
    out.print(table(f"Stream rules ({tools})", heads, rows, right=(1, 2)))
    for verdict in {verdict.failed_rule: verdict for _, verdict in found if verdict.failed_rule}.values():
        rule = str(verdict.failed_rule)
        out.print(f"Broken: {rule}: {RULES.get(rule, 'an assertion')}.", markup=False)
