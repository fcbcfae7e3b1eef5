"""Pictures of schedules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from accel.errors import InputError
from accel.files import writing
from accel.result import Result
from mapping.timeline import Bar, epoch_bars

__all__ = ["gantt"]

_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
"""The palette of Okabe and Ito (2008), which all kinds of colour vision tell apart; a colour for each tile."""

_DARK = ("#0072B2", "#009E73", "#D55E00")
"""Colours on which a label is white."""

_WIDE_CHARACTER = 0.0085
"""Width of one character of a bar's label as a part of the width of the picture, with room around it."""


def gantt(result: Result, path: str | Path) -> None:
    """Draw one epoch of a schedule on all its arrays, with parts of the epochs before and after it, as a PNG.

    Parameters
    ----------
    result : Result
        What ``mapping.model.price`` or a search returned.
    path : str or Path
        File to write, ending in ``.png``; 1200 pixels wide.

    Raises
    ------
    InputError
        The file does not end in .png or cannot be written.
    """
    file = Path(path)
    if file.suffix.lower() != ".png":
        raise InputError(
            f"the picture must be a .png file, not {file.name!r}", hint=f"use {file.with_suffix('.png').name}"
        )
    figure = _draw(result)
    # Without the name of the drawing program the same schedule gives the same bytes.
    with writing(file) as stream:
        figure.savefig(stream, format="png", dpi=100, metadata={"Software": None})


def _draw(result: Result) -> Figure:
    bars = epoch_bars(result)
    epoch = result.epoch_cycles
    arrays = [use.array for use in result.arrays if any(bar.array == use.array for bar in bars)]
    figure = Figure(figsize=(12, 2.0 + 1.75 * len(arrays)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    low, high = -0.12 * epoch, 1.42 * epoch
    for shift, alpha in ((-1, 0.3), (0, 1.0), (1, 0.3)):
        for lane, array in enumerate(arrays):
            own = [bar for bar in bars if bar.array == array]
            _draw_lane(axes, own, lane=lane, shift=shift, epoch=epoch, alpha=alpha, low=low, high=high)
    for border in (0, epoch):
        axes.axvline(border, color="black", linewidth=1.2, linestyle="--", zorder=0)
    axes.set_xlim(low, high)
    axes.set_ylim(len(arrays) - 0.4, -0.75)
    axes.set_yticks(range(len(arrays)), [f"{array} array" for array in arrays])
    axes.set_xlabel("cycles since the epoch began (clock cycles)")
    tiles = ", ".join(f"{rank}={size}" for rank, size in result.schedule.tiles.items())
    axes.set_title(
        f"One epoch of {result.schedule.cascade} on {result.schedule.architecture} ({tiles}): {epoch} cycles; "
        "neighbouring epochs faint",
        fontsize=10,
        loc="left",
    )
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    ages = sorted({bar.offset for bar in bars})
    handles = [
        Patch(facecolor=_colour(age), label=f"tile {_tile(age)}" + ("" if age else ", which this epoch takes in"))
        for age in ages
    ]
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(0, -0.17), ncols=len(handles), frameon=False)
    axes.text(0, -0.3, _footnote(result, bars), transform=axes.transAxes, va="top", fontsize=9, color="#444444")
    return figure


def _tile(age: int) -> str:
    return "t" if age == 0 else f"t{-age:+d}"


def _colour(age: int) -> str:
    return _COLOURS[age % len(_COLOURS)]


def _footnote(result: Result, bars: tuple[Bar, ...]) -> str:
    shown = {bar.einsum for bar in bars}
    parts = ["half-height bars share the array, cycle by cycle"] if any(bar.slots > 1 for bar in bars) else []
    parts += [
        f"{each.einsum} ({each.tile_cycles} cycles, {each.array}) joins in the last tile of a loop only"
        for each in result.einsums
        if each.einsum not in shown
    ]
    return "; ".join(parts)


def _draw_lane(
    axes: Any, bars: list[Bar], *, lane: int, shift: int, epoch: int, alpha: float, low: float, high: float
) -> None:
    """Draw the bars of one array; labels of short ones stand above it, spread so that they do not touch."""
    height = 0.5
    above: list[tuple[float, float, Bar]] = []
    for bar in bars:
        begin, end, age = bar.begin + shift * epoch, bar.end + shift * epoch, bar.offset - shift
        left, right = max(begin, low), min(end, high)
        if right <= left:
            continue
        share = height / bar.slots
        top = lane - height / 2 + share * bar.slot
        axes.barh(
            top + share / 2,
            right - left,
            left=left,
            height=share * 0.96,
            color=_colour(age),
            alpha=alpha,
            edgecolor="white",
            linewidth=0.6,
        )
        label = f"{bar.einsum}[{_tile(age)}]"
        if (right - left) / (high - low) > _WIDE_CHARACTER * len(label):
            axes.text(
                (left + right) / 2,
                top + share / 2,
                label,
                ha="center",
                va="center",
                fontsize=9,
                color="white" if shift == 0 and _colour(age) in _DARK else "black",
                alpha=max(alpha, 0.6),
                weight="bold" if shift == 0 else "normal",
            )
        elif shift == 0:
            above.append(((left + right) / 2, top, bar))
    _label_above(axes, above, y=lane - height / 2 - 0.24, spacing=0.075 * (high - low))


def _label_above(axes: Any, labels: list[tuple[float, float, Bar]], *, y: float, spacing: float) -> None:
    """Write labels in a row at ``y``, at least ``spacing`` apart, each with a line to its bar."""
    labels.sort(key=lambda each: each[0])
    positions = [at for at, _, _ in labels]
    for _ in range(50):  # push neighbours apart until none is too near
        for index in range(len(positions) - 1):
            lack = spacing - (positions[index + 1] - positions[index])
            if lack > 0:
                positions[index] -= lack / 2
                positions[index + 1] += lack / 2
    for (at, top, bar), position in zip(labels, positions, strict=True):
        axes.annotate(
            f"{bar.einsum}[{_tile(bar.offset)}]",
            xy=(at, top),
            xytext=(position, y),
            ha="center",
            va="bottom",
            fontsize=9,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
            arrowprops={"arrowstyle": "-", "color": "#666666", "linewidth": 0.7, "shrinkA": 0, "shrinkB": 0},
        )
