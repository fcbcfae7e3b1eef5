"""Pictures of the comparison of units."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from accel.files import writing
from sim.comparison.activations import ErrorCurve
from sim.comparison.costs import UnitCost
from sim.comparison.weights import WeightFigures

__all__ = ["draw_curves", "draw_errors", "draw_pareto", "pareto_front"]

_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#999999")
"""The palette of Okabe and Ito (2008), which all kinds of colour vision tell apart; grey in place of yellow."""
_LINES = ("-", "--", "-.", ":")
_MARKS = ("o", "s", "^", "v", "D", "P", "X")
_BIN = 256


def draw_curves(curves: Sequence[ErrorCurve], path: Path) -> None:
    """Draw the error of every stand-in for GELU over its inputs, as a PNG.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    figure = Figure(figsize=(10, 5.5), layout="constrained")
    axes = figure.add_subplot()
    for place, curve in enumerate(each for each in curves if each.function == "gelu"):
        # The largest error of each 256 neighbours: 65536 points would hide one another.
        x = curve.inputs.reshape(-1, _BIN).mean(axis=1)
        error = np.maximum(curve.errors.reshape(-1, _BIN).max(axis=1), 1e-8)
        colour, line = _COLOURS[place % len(_COLOURS)], _LINES[place % len(_LINES)]
        axes.plot(x, error, line, color=colour, label=curve.unit, linewidth=1.4)
    axes.set(yscale="log", ylim=(1e-8, 1), xlabel="input x", ylabel="error, largest of 256 neighbouring inputs")
    axes.set_title("Distance from GELU")
    axes.grid(visible=True, alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False)
    _save(figure, path)


def draw_errors(figures: Sequence[WeightFigures], path: Path) -> None:
    """Draw the largest error of every softmax over the deviation of random scores, a panel for each length, as a PNG.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    softmaxes = {each.unit for each in figures if each.kl_nats is not None}
    shown = [each for each in figures if each.scores.startswith("sd ") and each.unit in softmaxes]
    lengths = sorted({each.length for each in shown})
    units = list(dict.fromkeys(each.unit for each in shown))
    figure = Figure(figsize=(4 * len(lengths) + 3, 5), layout="constrained")
    panels = figure.subplots(1, len(lengths), sharey=True, squeeze=False)[0]
    for axes, length in zip(panels, lengths, strict=True):
        for place, unit in enumerate(units):
            points = [each for each in shown if each.unit == unit and each.length == length]
            axes.plot(
                [float(each.scores.removeprefix("sd ")) for each in points],
                [each.max_error for each in points],
                _LINES[place // len(_COLOURS) + (points[0].theirs if points else 0)],
                marker=_MARKS[place % len(_MARKS)],
                color=_COLOURS[place % len(_COLOURS)],
                label=unit if axes is panels[0] else None,
            )
        axes.set(xscale="log", yscale="log", title=f"N = {length}", xlabel="standard deviation of the scores")
        axes.set_xticks([1, 2, 4], ["1", "2", "4"])
        axes.minorticks_off()
        axes.grid(visible=True, alpha=0.3)
    panels[0].set_ylabel("largest error of a weight")
    figure.legend(loc="outside right upper", frameon=False)
    _save(figure, path)


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the places of the points that no other is at most as large as in both numbers, by the first number."""
    front: list[int] = []
    for place in sorted(range(len(points)), key=lambda each: points[each]):
        if not front or points[place][1] < points[front[-1]][1]:
            front.append(place)
    return front


def draw_pareto(points: Sequence[tuple[str, float, float]], title: str, path: Path) -> None:
    """Draw error against look-up tables with the Pareto front, as a PNG.

    Parameters
    ----------
    points : sequence of (str, float, float)
        Unit, look-up tables and error.
    title : str
        Of the picture.
    path : Path
        File to write.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.add_subplot()
    front = pareto_front([(each[1], each[2]) for each in points])
    axes.step(
        [points[place][1] for place in front], [points[place][2] for place in front], where="post", color="#999999"
    )
    for place, (unit, luts, error) in enumerate(points):
        axes.plot(
            [luts],
            [error],
            linestyle="",
            marker=_MARKS[place % len(_MARKS)],
            markersize=9 if place in front else 6,
            color=_COLOURS[place % (len(_COLOURS) - 1)],
            label=f"{unit}{' (front)' if place in front else ''}",
        )
    axes.set(yscale="log", xlabel="look-up tables (ECP5)", ylabel="largest error", title=title)
    axes.grid(visible=True, alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False)
    _save(figure, path)


def softmax_points(
    figures: Sequence[WeightFigures], costs: Sequence[UnitCost], length: int
) -> list[tuple[str, float, float]]:
    """Return unit, look-up tables and largest error over all random scores of a length, of every softmax of ours."""
    luts = {each.unit: each.lut_count for each in costs}
    found: dict[str, float] = {}
    for each in figures:
        if each.length == length and each.scores.startswith("sd ") and each.kl_nats is not None and not each.theirs:
            found[each.unit] = max(found.get(each.unit, 0.0), each.max_error)
    return [(unit, count, error) for unit, error in found.items() if (count := luts[unit]) is not None]


def gelu_points(curves: Sequence[ErrorCurve], costs: Sequence[UnitCost]) -> list[tuple[str, float, float]]:
    """Return unit, look-up tables and largest error of everything that stands for GELU and has a sample."""
    luts = {each.unit: each.lut_count for each in costs}
    found = [(each.unit, luts.get(each.unit), float(each.errors.max())) for each in curves if each.function == "gelu"]
    return [(unit, count, error) for unit, count, error in found if count is not None]


def _save(figure: Any, path: Path) -> None:
    FigureCanvasAgg(figure)
    # Without the name of the drawing program the same figures give the same bytes.
    with writing(path) as stream:
        figure.savefig(stream, format="png", dpi=100, metadata={"Software": None})
