"""Charts as SVG text: bars, lines and scattered points, coloured by the page's style, with a title on every mark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape

from accel.page.axis import Axis, fit_axis, short

__all__ = ["Point", "Series", "bars", "lines", "scatter"]

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 74, 16, 14, 50
ROW = 26
MARKS = 7
"""Colours and shapes of marks; the style has ``--c0`` to ``--c6``."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One mark: its place, and the text that shows when it is pointed at."""

    x: float
    y: float
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class Series:
    """Marks that belong together.

    Parameters
    ----------
    name : str
        In the legend.
    points : tuple of Point
        In the order in which a line joins them.
    joined : bool
        Whether a line joins them.
    marked : bool
        Whether each has a mark.
    dashed : bool
        How the line looks.
    """

    name: str
    points: tuple[Point, ...] = field(repr=False)
    joined: bool = False
    marked: bool = True
    dashed: bool = False


def bars(title: str, rows: Sequence[tuple[str, float, str]]) -> str:
    """Return a chart of horizontal bars.

    Parameters
    ----------
    title : str
        For readers that do not see it.
    rows : sequence of (str, float, str)
        Label, length (at least 0), and the text at the end of the bar.
    """
    most = max((value for _, value, _ in rows), default=0.0) or 1.0
    label_width = min(240, 16 + 8 * max((len(label) for label, _, _ in rows), default=0))
    room = WIDTH - label_width - 14 - 7 * max((len(text) for _, _, text in rows), default=0)
    parts = []
    for index, (label, value, text) in enumerate(rows):
        y = index * ROW
        width = max(room * value / most, 1.0)
        parts.append(
            f"<g><title>{escape(f'{label}: {text}')}</title>"
            f'<text class="label" x="{label_width - 8}" y="{y + 17}" text-anchor="end">{escape(label)}</text>'
            f'<rect class="f0" x="{label_width}" y="{y + 4}" width="{width:.1f}" height="{ROW - 8}"/>'
            f'<text class="label" x="{label_width + width + 6:.1f}" y="{y + 17}">{escape(text)}</text></g>'
        )
    return _svg(title, max(len(rows), 1) * ROW + 4, parts)


def lines(title: str, series: Sequence[Series], x: Axis, y: Axis) -> str:
    """Return a chart of lines over given axes; a point beyond an end of an axis stands at that end."""
    return _plot(title, series, x, y)


def scatter(title: str, series: Sequence[Series], *, x: str, y: str, log: bool = True) -> str:
    """Return a chart of points whose axes hold them all; ``x`` and ``y`` are the labels, with units."""
    points = [point for each in series for point in each.points]
    return _plot(
        title,
        series,
        fit_axis(x, (point.x for point in points), log=log),
        fit_axis(y, (point.y for point in points), log=log),
    )


def _plot(title: str, series: Sequence[Series], x: Axis, y: Axis) -> str:
    def at(point: Point) -> tuple[float, float]:
        across, up = (min(max(place, 0.0), 1.0) for place in (x.place(point.x), y.place(point.y)))
        return LEFT + across * (WIDTH - LEFT - RIGHT), TOP + (1 - up) * (HEIGHT - TOP - BOTTOM)

    parts = list(_grid(x, y))
    for index, each in enumerate(series):
        colour = index % MARKS
        if each.joined:
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b in map(at, each.points))
            dash = ' stroke-dasharray="6 4"' if each.dashed else ""
            parts.append(f'<polyline class="s{colour}" points="{path}" fill="none" stroke-width="2"{dash}/>')
        if each.marked:
            parts += [_mark(colour, *at(point), point.title or each.name) for point in each.points]
    return _svg(title, HEIGHT, parts) + _legend(series)


def _grid(x: Axis, y: Axis) -> Iterator[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for value in x.ticks():
        place = LEFT + x.place(value) * (right - LEFT)
        yield f'<line class="grid" x1="{place:.1f}" x2="{place:.1f}" y1="{TOP}" y2="{bottom}"/>'
        yield f'<text class="tick" x="{place:.1f}" y="{bottom + 18}" text-anchor="middle">{short(value)}</text>'
    for value in y.ticks():
        place = TOP + (1 - y.place(value)) * (bottom - TOP)
        yield f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{place:.1f}" y2="{place:.1f}"/>'
        yield f'<text class="tick" x="{LEFT - 8}" y="{place + 4:.1f}" text-anchor="end">{short(value)}</text>'
    yield f'<rect class="frame" x="{LEFT}" y="{TOP}" width="{right - LEFT}" height="{bottom - TOP}"/>'
    centre, middle = (LEFT + right) / 2, (TOP + bottom) / 2
    yield f'<text class="label" x="{centre}" y="{HEIGHT - 10}" text-anchor="middle">{escape(x.label)}</text>'
    turned = f'transform="rotate(-90 14 {middle})"'
    yield f'<text class="label" x="14" y="{middle}" text-anchor="middle" {turned}>{escape(y.label)}</text>'


def _mark(colour: int, x: float, y: float, title: str) -> str:
    """Return a mark whose shape differs with its colour."""
    shapes = (
        f'<circle class="f{colour}" cx="{x:.1f}" cy="{y:.1f}" r="5"/>',
        f'<rect class="f{colour}" x="{x - 4.5:.1f}" y="{y - 4.5:.1f}" width="9" height="9"/>',
        f'<path class="f{colour}" d="M{x:.1f} {y - 6:.1f}l6 10h-12z"/>',
        f'<path class="f{colour}" d="M{x:.1f} {y - 6.5:.1f}l6.5 6.5l-6.5 6.5l-6.5 -6.5z"/>',
    )
    return f'<g class="mark" tabindex="0"><title>{escape(title)}</title>{shapes[colour % len(shapes)]}</g>'


def _legend(series: Iterable[Series]) -> str:
    items = "".join(
        '<li><svg width="26" height="14" aria-hidden="true">'
        + (f'<line class="s{index % MARKS}" x1="0" x2="26" y1="7" y2="7" stroke-width="2"/>' if each.joined else "")
        + (_mark(index % MARKS, 13, 7, "").replace(' tabindex="0"', "") if each.marked else "")
        + f"</svg>{escape(each.name)}</li>"
        for index, each in enumerate(series)
    )
    return f'<ul class="legend">{items}</ul>'


def _svg(title: str, height: int, parts: Iterable[str]) -> str:
    return (
        f'<svg class="chart" role="img" aria-label="{escape(title)}" viewBox="0 0 {WIDTH} {height}" '
        f'xmlns="http://www.w3.org/2000/svg"><title>{escape(title)}</title>{"".join(parts)}</svg>'
    )
