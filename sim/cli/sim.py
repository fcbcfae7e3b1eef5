"""``einrtl sim``: the core of an attention file in simulation, beside what was predicted."""

from __future__ import annotations

from pathlib import Path

import click

from accel.attention_file import load_attention_file
from accel.cli import EXIT_COMPARISON_FAILED, console, json_option, print_json, progress, table
from sim.attention import AttentionOutcome, run_attention
from sim.toolchain import find_toolchain

__all__ = ["sim_command"]


@click.command(name="sim")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--schedule",
    type=click.Path(path_type=Path),
    help="Schedule that einrtl map has saved, in place of the file's.",
)
@click.option(
    "--build-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("build/simulators"),
    show_default=True,
    help="Folder of compiled simulations, which later runs use again.",
)
@json_option
def sim_command(file: Path, schedule: Path | None, build_dir: Path, as_json: bool) -> int:
    """Simulate the core of an attention file: bits, cycles and actions beside the prediction, and the energy.

    FILE names a workload and the core that does it. Exits 1 if anything differs from what the golden model and the
    model say, with the first difference.
    """
    described = load_attention_file(file).mapped(schedule)
    with progress("compiling and simulating"):
        outcome = run_attention(described, toolchain=find_toolchain(), cache=build_dir)
    if as_json:
        print_json(outcome.as_dict())
    else:
        _show(outcome)
    return 0 if outcome.holds else EXIT_COMPARISON_FAILED


def _show(outcome: AttentionOutcome) -> None:
    out = console()
    use = outcome.use_slots if outcome.use_2d is None else outcome.use_2d
    out.print(
        table(
            f"{outcome.name}: {outcome.core}",
            ("quantity", "model", "hardware"),
            [
                ("cycles", f"{outcome.cycles_model:,}", f"{outcome.cycles_rtl:,}"),
                *(
                    (name, f"{count:,}", f"{outcome.actions_rtl[name]:,}")
                    for name, count in outcome.actions_model.items()
                ),
            ],
            right=(1, 2),
        )
    )
    components = list(next(iter(outcome.energy_pj.values())))
    rows = [(name, *(f"{parts[each] / 1e6:.4g}" for each in components)) for name, parts in outcome.energy_pj.items()]
    out.print(table("Energy (uJ)", ("cost table", *components), rows, right=range(1, len(components) + 1)))
    figures = (
        ("bits equal to the golden model", "yes" if outcome.bit_exact else "no"),
        ("cycles of the prediction", ", ".join(f"{part} {count:,}" for part, count in outcome.cycles.items())),
        ("use of the 2D array" if outcome.use_2d is not None else "use of the slots", f"{use:.2%}"),
        ("largest error against float64", f"{outcome.max_error:.3g}"),
        ("bound on it, proved for all inputs", f"{outcome.error_bound:.3g}"),
        *_input_bound(outcome),
        ("simulated cycles a second", f"{outcome.simulated_cycles_per_second:,.0f}"),
        ("Verilog (sha256)", outcome.verilog_sha256),
    )
    out.print(table("Figures", ("figure", "value"), figures))
    if outcome.holds:
        out.print("The Verilog gives the predicted bits in the predicted cycles with the predicted actions.")
    else:
        out.print(f"FAILED: {outcome.first_difference}", markup=False, style="bold red")


def _input_bound(outcome: AttentionOutcome) -> tuple[tuple[str, str], ...]:
    if outcome.input_error_bound is None:
        return ()
    return (("bound on it, proved for these inputs", f"{outcome.input_error_bound:.3g}"),)
