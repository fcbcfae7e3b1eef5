"""Pictures of sweeps: every design of a workload, and the Pareto front among them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from accel.errors import InputError
from accel.files import writing
from accel.sweep import Measure
from mapping.sweep.export import MEASURE_LABELS

__all__ = ["plot_fronts"]

MOST_PANELS = 12

_NUMBER = FuncFormatter(lambda value, position: f"{value:,.12g}")
"""Numbers in full: 20,000 reads better than a power beside a unit."""


def plot_fronts(
    rows: Sequence[Mapping[str, Any]], minimise: Sequence[Measure], path: str | Path, *, title: str
) -> None:
    """Draw the designs of a sweep as a PNG: a panel for each workload, the first two measures on its axes.

    Designs on the front are large; their colour is the third measure, if there is one. Other designs are grey dots. The
    line joins what is best in the first two measures alone.

    Parameters
    ----------
    rows : sequence of mappings
        What ``mapping.sweep.mark_fronts`` returned; failed points are left out.
    minimise : sequence of Measure
        The measures of the front; at least two.
    path : str or Path
        File to write, ending in ``.png``.
    title : str
        Above the panels.

    Raises
    ------
    InputError
        There are fewer than two measures, no point, or too many workloads; or the file does not end in .png or cannot
        be written.
    """
    file = Path(path)
    if file.suffix.lower() != ".png":
        raise InputError(
            f"the picture must be a .png file, not {file.name!r}", hint=f"use {file.with_suffix('.png').name}"
        )
    if len(minimise) < 2:
        raise InputError(
            f"a picture must have two measures for its axes, but minimise has only {minimise[0]}",
            hint="add energy_pj to minimise",
        )
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["status"] == "done":
            groups.setdefault((row["model"], row["batch"], row["queries"], row["keys"]), []).append(row)
    if not groups:
        raise InputError("a picture must show a point, but none is done", hint="see the reasons with --show")
    if len(groups) > MOST_PANELS:
        raise InputError(
            f"a picture must have at most {MOST_PANELS} workloads, one for each panel, not {len(groups)}",
            hint="write --csv, or sweep fewer workloads",
        )
    figure = _draw(groups, minimise, title)
    # Without the name of the drawing program the same results give the same bytes.
    with writing(file) as stream:
        figure.savefig(stream, format="png", dpi=100, metadata={"Software": None})


def _draw(groups: Mapping[tuple[Any, ...], list[Mapping[str, Any]]], minimise: Sequence[Measure], title: str) -> Figure:
    across = min(len(groups), 2 if len(groups) in (2, 4) else 3)
    down = math.ceil(len(groups) / across)
    figure = Figure(figsize=(max(5.0 * across, 7), 3.6 * down + 0.9), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for panel in panels[len(groups) :]:
        panel.set_visible(False)
    for panel, (workload, rows) in zip(panels, groups.items(), strict=False):
        colours = _draw_panel(panel, rows, minimise)
        model, batch, queries, keys = workload
        lengths = f"{keys:,} tokens" if queries == keys else f"{queries:,} queries, {keys:,} keys"
        panel.set_title(f"{model}, batch {batch}, {lengths}", fontsize=9, loc="left")
        if colours is not None:
            bar = figure.colorbar(colours, ax=panel, label=_label(minimise[2]), format=_NUMBER)
            bar.ax.yaxis.set_minor_formatter(NullFormatter())
    figure.suptitle(title, fontsize=11, x=0.01, ha="left")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=len(handles), frameon=False, fontsize=9)
    return figure


def _label(measure: Measure) -> str:
    return MEASURE_LABELS[measure][0]


def _shown(row: Mapping[str, Any], measure: Measure) -> float:
    return float(row[measure]) * MEASURE_LABELS[measure][1]


def _colour_scale(rows: Sequence[Mapping[str, Any]], minimise: Sequence[Measure]) -> Any:
    """Return the colour scale of a panel, or None without a third measure that differs."""
    if len(minimise) < 3:
        return None
    values = [_shown(row, minimise[2]) for row in rows]
    low, high = min(values), max(values)
    if low == high:
        return None
    return LogNorm(low, high) if low > 0 and high > 10 * low else Normalize(low, high)


def _set_scale(axis: Any, values: Sequence[float]) -> None:
    """Make an axis logarithmic where its values span more than a factor of ten, and label it without powers."""
    low, high = min(values), max(values)
    if low > 0 and high > 10 * low:
        axis.axes.set(**{f"{axis.axis_name}scale": "log"})
        # Within two decades a label at each power of ten would leave an axis with one label.
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 300 * low else (1,), numticks=12))
        axis.set_minor_formatter(NullFormatter())
    elif low == high:  # or the axis would be labelled with differences from that value
        margin = 0.05 * abs(low) or 1.0
        axis.axes.set(**{f"{axis.axis_name}lim": (low - margin, high + margin)})
    axis.set_major_formatter(_NUMBER)


def _draw_panel(panel: Any, rows: Sequence[Mapping[str, Any]], minimise: Sequence[Measure]) -> Any:
    """Draw one workload; return what a colour bar explains, if colours mean something."""
    across, up = minimise[0], minimise[1]
    rest = [row for row in rows if not row["on_front"]]
    front = sorted((row for row in rows if row["on_front"]), key=lambda row: (row[across], row[up]))
    _set_scale(panel.xaxis, [_shown(row, across) for row in rows])
    _set_scale(panel.yaxis, [_shown(row, up) for row in rows])
    panel.scatter(
        [_shown(row, across) for row in rest],
        [_shown(row, up) for row in rest],
        s=9,
        color="#aaaaaa",
        linewidths=0,
        label="other designs",
    )
    best, least = [], math.inf
    for row in front:
        if row[up] < least:
            best.append(row)
            least = row[up]
    panel.plot(
        [_shown(row, across) for row in best],
        [_shown(row, up) for row in best],
        color="#0072B2",
        linewidth=1,
        drawstyle="steps-post",
        label=f"front of {_label(across).split(' (')[0]} and {_label(up).split(' (')[0]} alone",
    )
    scale = _colour_scale(front, minimise)
    look: dict[str, Any] = {"color": "#0072B2"}
    if scale is not None:
        look = {"c": [_shown(row, minimise[2]) for row in front], "cmap": "viridis_r", "norm": scale}
    marks = panel.scatter(
        [_shown(row, across) for row in front],
        [_shown(row, up) for row in front],
        s=34,
        edgecolors="black",
        linewidths=0.5,
        zorder=3,
        label="Pareto front",
        **look,
    )
    panel.set_xlabel(_label(across))
    panel.set_ylabel(_label(up))
    panel.grid(visible=True, which="major", color="#e5e5e5", linewidth=0.6)
    panel.set_axisbelow(True)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    return marks if scale is not None else None
