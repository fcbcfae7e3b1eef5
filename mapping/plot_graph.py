"""Pictures of dependency graphs, coloured by pass."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch
from matplotlib.path import Path as CurvePath

from accel.errors import InputError
from accel.files import writing
from mapping.dot import PASS_COLOURS, dot_text
from mapping.graph import GraphEdge, GraphNode, PassGraph

__all__ = ["draw_graph"]

_NO_PASS = "#DDDDDD"
_INPUT = "#FFFFFF"
_EDGES = {"value": ("#777777", "-", 0.9), "step": ("#777777", (0, (2, 2)), 0.9), "fiber": ("#C00000", "-", 1.8)}
_MEANING = {
    "value": "needs the value of its own place",
    "step": "needs the step before",
    "fiber": "needs the whole fiber",
}
_ROW = 0.62
_CHARACTER = 0.088
"""Inches: the distance of rows, and the width of one character of a label."""


def draw_graph(graph: PassGraph, path: str | Path) -> None:
    """Draw ``graph`` to a file: Einsums as boxes in the colour of their pass, each right of what it depends on.

    Parameters
    ----------
    graph : PassGraph
        What ``mapping.graph.pass_graph`` returned.
    path : str or Path
        File to write, ending in ``.svg``, ``.png`` or, for Graphviz, ``.dot``; the same graph gives the same bytes.

    Raises
    ------
    InputError
        The file has another ending, or cannot be written.
    """
    file = Path(path)
    kind = file.suffix.lower().removeprefix(".")
    if kind not in ("svg", "png", "dot"):
        known = ".svg, .png or .dot"
        raise InputError(f"a graph must be drawn to a file that ends in {known}, not {file}", hint="rename it")
    with writing(file, otherwise="choose another path") as stream:
        if kind == "dot":
            stream.write(dot_text(graph).encode("utf-8"))
            return
        # A fixed salt and no date make the file reproducible.
        with rc_context({"svg.hashsalt": "einrtl", "svg.fonttype": "none"}):
            metadata = {"Date": None} if kind == "svg" else None
            _figure(graph).savefig(stream, format=kind, dpi=150, metadata=metadata)


def _figure(graph: PassGraph) -> Figure:
    widths = _column_widths(graph)
    lefts = [sum(widths[:number]) for number in range(graph.layers)]
    width, height = max(sum(widths) + 0.3, 7.5), graph.height * _ROW + 1.5
    figure = Figure(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width)
    axes.set_ylim(0, height)
    axes.axis("off")

    def at(layer: int, place: int) -> tuple[float, float]:
        # Columns are centred on the tallest.
        row = place + (graph.height - graph.column_height(layer)) / 2
        return lefts[layer] + widths[layer] / 2, height - 0.85 - row * _ROW

    places = {node.name: at(node.layer, node.place) for node in graph.nodes}
    for edge in graph.edges:
        _draw_edge(axes, edge, graph, places, [at(*point) for point in edge.via])
    for node in graph.nodes:
        _draw_node(axes, node, places[node.name])
    analysis = graph.analysis
    noun = "pass" if analysis.passes == 1 else "passes"
    axes.text(
        0.15, height - 0.3, f"{analysis.cascade.name}: {analysis.passes} {noun} over {analysis.rank}", weight="bold"
    )
    _draw_legend(axes, graph)
    return figure


def _column_widths(graph: PassGraph) -> list[float]:
    longest = [0] * graph.layers
    for node in graph.nodes:
        longest[node.layer] = max(longest[node.layer], len(node.label))
    return [max(length * _CHARACTER + 0.65, 1.0) for length in longest]


def _colour(node: GraphNode) -> str:
    if node.pass_number is None:
        return _INPUT
    return PASS_COLOURS[(node.pass_number - 1) % len(PASS_COLOURS)] if node.pass_number else _NO_PASS


def _draw_node(axes: Any, node: GraphNode, place: tuple[float, float]) -> None:
    width = len(node.label) * _CHARACTER + 0.16
    axes.add_patch(
        FancyBboxPatch(
            (place[0] - width / 2, place[1] - 0.15),
            width,
            0.3,
            boxstyle="round,pad=0,rounding_size=0.06" if node.pass_number is not None else "square,pad=0",
            facecolor=_colour(node),
            edgecolor="black",
            linewidth=0.9,
            hatch="////" if node.waits else None,
            alpha=1.0,
            zorder=3,
        )
    )
    text = axes.text(*place, node.label, ha="center", va="center", fontsize=8.5, family="monospace", zorder=4)
    if node.waits:
        text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85})


def _draw_edge(
    axes: Any,
    edge: GraphEdge,
    graph: PassGraph,
    places: dict[str, tuple[float, float]],
    via: list[tuple[float, float]],
) -> None:
    labels = {node.name: node.label for node in graph.nodes}
    half = {name: (len(labels[name]) * _CHARACTER + 0.16) / 2 for name in (edge.source, edge.target)}
    colour, style, width = _EDGES[edge.kind]
    (x0, y0), (x1, y1) = places[edge.source], places[edge.target]
    look: dict[str, Any] = {"connectionstyle": "arc3,rad=0.35"}
    if edge.kind == "step" and edge.source == edge.target:
        start, end = (x0 + half[edge.source] * 0.5, y0 + 0.15), (x0 - half[edge.source] * 0.5, y0 + 0.15)
        look = {"connectionstyle": "arc3,rad=0.9"}
    elif edge.kind == "step":
        start, end = (x0, y0 + 0.15), (x1, y1 + 0.15)
    else:
        points = [(x0 + half[edge.source], y0), *via, (x1 - half[edge.target], y1)]
        axes.add_patch(_arrow(colour, style, width, edge.kind, path=_curve(points)))
        return
    axes.add_patch(_arrow(colour, style, width, edge.kind, posA=start, posB=end, **look))


def _arrow(colour: str, style: Any, width: float, kind: str, **course: Any) -> FancyArrowPatch:
    return FancyArrowPatch(
        arrowstyle="-|>",
        mutation_scale=9,
        color=colour,
        linestyle=style,
        linewidth=width,
        shrinkA=0,
        shrinkB=0,
        zorder=2 if kind == "fiber" else 1,
        **course,
    )


def _curve(points: list[tuple[float, float]]) -> CurvePath:
    """Return a curve through ``points`` that is level at each of them."""
    vertices, codes = [points[0]], [CurvePath.MOVETO]
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        middle = (x0 + x1) / 2
        vertices += [(middle, y0), (middle, y1), (x1, y1)]
        codes += [CurvePath.CURVE4] * 3
    return CurvePath(vertices, codes)


def _draw_legend(axes: Any, graph: PassGraph) -> None:
    handles: list[Any] = []
    for number in sorted({node.pass_number for node in graph.nodes if node.pass_number}):
        handles.append(
            Patch(facecolor=PASS_COLOURS[(number - 1) % len(PASS_COLOURS)], edgecolor="black", label=f"pass {number}")
        )
    if any(node.waits for node in graph.nodes):
        handles.append(Patch(facecolor="white", edgecolor="black", hatch="////", label="after its pass"))
    if any(node.pass_number == 0 for node in graph.nodes):
        handles.append(Patch(facecolor=_NO_PASS, edgecolor="black", label="any pass"))
    handles.append(Patch(facecolor=_INPUT, edgecolor="black", label="input"))
    handles.extend(_lines(edge.kind for edge in graph.edges))
    axes.legend(handles=handles, loc="lower left", ncols=4, fontsize=8, frameon=False, borderaxespad=0.3)


def _lines(kinds: Iterable[str]) -> list[Line2D]:
    found = set(kinds)
    return [
        Line2D([], [], color=colour, linestyle=style, linewidth=width, label=_MEANING[kind])
        for kind, (colour, style, width) in _EDGES.items()
        if kind in found
    ]
