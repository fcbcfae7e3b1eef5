"""``einrtl compare``: units beside one another on the same inputs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from accel.cli import EXIT_COMPARISON_FAILED, console, json_option, print_json, progress, table
from accel.errors import InputError, unwritable
from accel.files import write_text
from sim.comparison import (
    ErrorCurve,
    WeightFigures,
    check_wishes,
    compare_activations,
    compare_weights,
    error_curves,
    load_published,
    random_scores,
    recorded_scores,
    unit_costs,
)
from sim.comparison.page import Comparison, activation_rows, cost_rows, page, weight_rows, wish_rows
from sim.comparison.wishes import WISH_LENGTH, measure_default

__all__ = ["compare"]

LENGTHS = (128, 1024, 4096)


@click.group()
def compare() -> None:
    """Compare units with one another."""


@compare.command()
@click.option(
    "--length", "lengths", type=int, multiple=True, default=LENGTHS, show_default=True, help="Scores in a row; repeat."
)
@click.option("--rows", type=int, default=64, show_default=True, help="Random rows for each deviation.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the random scores.")
@click.option("--scores", type=click.Path(path_type=Path), help="Recorded head: .npz file with arrays q and k.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Page to write (.md); pictures go beside it.")
@json_option
def units(
    lengths: tuple[int, ...], rows: int, seed: int, scores: Path | None, output: Path | None, as_json: bool
) -> int:
    """Compare all softmax and activation units by their golden models: errors, cost, what was wanted of them.

    Exits 1 if a wish is not met.
    """
    if output is not None and output.suffix != ".md":
        raise InputError(
            f"the page must be a .md file, not {output.name!r}", hint=f"use {output.with_suffix('.md').name}"
        )
    drawn = [random_scores(length, rows, seed) for length in dict.fromkeys(lengths)]
    sets = [each for group in drawn for each in group] + ([recorded_scores(scores)] if scores else [])
    weights: list[WeightFigures] = []
    with progress("comparing", len(sets) + 1) as advance:
        for done, each in enumerate(sets):
            advance(done, f"N = {each.scores.shape[1]}, {each.name}")
            weights += compare_weights([each])
        advance(len(sets), f"default softmax, N = {WISH_LENGTH}")
        measured = measure_default(seed)
    curves, costs = error_curves(), unit_costs()
    activations = compare_activations(curves)
    found = Comparison(
        command=_command(lengths, rows, seed, scores, output),
        rows=rows,
        seed=seed,
        weights=tuple(weights),
        activations=activations,
        costs=costs,
        published=load_published(),
        wishes=check_wishes(measured, costs, activations),
    )
    if output is not None:
        _write(found, curves, output)
    if as_json:
        print_json(asdict(found))
    else:
        _show(found, output)
    return 0 if all(wish.met for wish in found.wishes) else EXIT_COMPARISON_FAILED


def _command(lengths: tuple[int, ...], rows: int, seed: int, scores: Path | None, output: Path | None) -> str:
    words = ["einrtl compare units"]
    if lengths != LENGTHS:
        words += [f"--length {length}" for length in lengths]
    words += [f"--rows {rows} --seed {seed}"]
    words += [f"--scores {scores}"] if scores else []
    words += [f"-o {output}"] if output else []
    return " ".join(words)


def _write(found: Comparison, curves: tuple[ErrorCurve, ...], output: Path) -> None:
    # Imported here: matplotlib takes a second, and only pages need it.
    from sim.plot_units import draw_curves, draw_errors, draw_pareto, gelu_points, softmax_points

    folder = output.parent / "pictures"
    length = max(each.length for each in found.weights if each.scores.startswith("sd "))
    pictures = (
        ("Largest error of softmax units", "units-softmax-errors.png"),
        ("Error and cost of softmax units", "units-softmax-pareto.png"),
        ("Error of GELU units over their inputs", "units-gelu-errors.png"),
        ("Error and cost of GELU units", "units-gelu-pareto.png"),
    )
    text = page(found, [(title, f"{folder.name}/{file}") for title, file in pictures])
    write_text(output, text)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from None
    files = [folder / file for _, file in pictures]
    draw_errors(found.weights, files[0])
    title = f"Softmax: largest error over random scores of N = {length}, and cost"
    draw_pareto(softmax_points(found.weights, found.costs, length), title, files[1])
    draw_curves(curves, files[2])
    draw_pareto(gelu_points(curves, found.costs), "GELU: largest error over all inputs, and cost", files[3])


def _show(found: Comparison, output: Path | None) -> None:
    out = console()
    for title, (heads, rows), right in (
        ("Softmax units", weight_rows(found.weights), range(2, 8)),
        ("Activation units, all inputs of s16f12", activation_rows(found.activations, found.costs), range(2, 6)),
        ("Cost, default parameters, ECP5", cost_rows(found.costs), range(1, 11)),
        ("What was wanted", wish_rows(found.wishes), ()),
    ):
        out.print(table(title, heads, rows, right=right))
    if output is not None:
        out.print(f"Page: {output}", markup=False)
