"""Pictures that a notebook shows with a result: SVG text that needs no style of the page around it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from accel.page.axis import fit_axis, short
from accel.result import Result
from mapping.timeline import epoch_bars

__all__ = ["epoch_picture", "front_picture"]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#9A7500", "#3A8DC8", "#555555")
"""After Okabe and Ito (2008), dark enough for white letters."""
WIDTH, LEFT, ROW = 720, 90, 26
LETTER = 7.2
HEIGHT, BOTTOM = 260, 44


def epoch_picture(result: Result) -> str:
    """Return what each array does in one epoch, full tiles, a row for each array and slot."""
    drawn = epoch_bars(result)
    end = max((bar.end for bar in drawn), default=1) or 1
    scale = (WIDTH - LEFT) / end
    colour = {einsum: COLOURS[at % len(COLOURS)] for at, einsum in enumerate(dict.fromkeys(b.einsum for b in drawn))}
    parts = []
    rows = list(dict.fromkeys((bar.array, bar.slot) for bar in drawn))
    for at, (array, slot) in enumerate(rows):
        y = at * ROW
        parts.append(_text(LEFT - 8, y + 16, array if slot == 0 else f"{array} slot {slot}", anchor="end"))
        for bar in drawn:
            if (bar.array, bar.slot) != (array, slot) or bar.end <= bar.begin:
                continue
            x, width = LEFT + bar.begin * scale, (bar.end - bar.begin) * scale
            title = f"<title>{escape(bar.einsum)}: {bar.end - bar.begin:,} cycles</title>"
            parts.append(
                f'<rect x="{x:.2f}" y="{y}" width="{max(width - 1, 0.5):.2f}" height="{ROW - 6}" '
                f'fill="{colour[bar.einsum]}">{title}</rect>'
            )
            if len(bar.einsum) * LETTER < width - 6:
                parts.append(_text(x + 4, y + 14, bar.einsum, fill="#ffffff"))
    parts += [
        _text(LEFT, len(rows) * ROW + 12, "0"),
        _text(WIDTH, len(rows) * ROW + 12, f"{end:,} cycles", anchor="end"),
    ]
    return _svg(f"One epoch of {result.schedule.cascade}", len(rows) * ROW + 18, parts)


def front_picture(results: Sequence[Result]) -> str:
    """Return latency against energy of schedules that none beats, the buffer used in the text of each mark."""
    x = fit_axis("latency (cycles)", [each.latency_cycles for each in results], log=True)
    y = fit_axis("energy (mJ)", [each.energy_pj * 1e-9 for each in results], log=True)
    parts = []

    def at(latency_cycles: float, energy_mj: float) -> tuple[float, float]:
        across, up = x.place(latency_cycles), y.place(energy_mj)
        return LEFT + across * (WIDTH - LEFT - 10), (1 - up) * (HEIGHT - BOTTOM - 10) + 5

    for tick in x.ticks():
        where = at(tick, y.low)[0]
        parts.append(_text(where, HEIGHT - BOTTOM + 14, short(tick), anchor="middle"))
        parts.append(_line(where, 0, where, HEIGHT - BOTTOM))
    for tick in y.ticks():
        where = at(x.low, tick)[1]
        parts.append(_text(LEFT - 8, where + 4, short(tick), anchor="end"))
        parts.append(_line(LEFT, where, WIDTH, where))
    for each in results:
        across, up = at(each.latency_cycles, each.energy_pj * 1e-9)
        tiles = ", ".join(f"{rank}={size}" for rank, size in each.schedule.tiles.items())
        used = sum(each.occupancy_bits.values())
        parts.append(
            f'<circle cx="{across:.2f}" cy="{up:.2f}" r="5" fill="{COLOURS[0]}"><title>{escape(tiles)}: '
            f"{each.latency_cycles:,.0f} cycles, {each.energy_pj * 1e-9:.4g} mJ, {used:,} bits</title></circle>"
        )
    parts.append(_text((LEFT + WIDTH) / 2, HEIGHT - 6, f"{x.label}; {y.label} upwards", anchor="middle"))
    return _svg("Latency and energy of the front", HEIGHT, parts)


def _svg(title: str, height: float, parts: Iterable[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img" '
        f'aria-label="{escape(title)}" style="max-width:100%;width:{WIDTH}px">{"".join(parts)}</svg>'
    )


def _text(x: float, y: float, text: str, *, anchor: str = "start", fill: str = "currentColor") -> str:
    return (
        f'<text x="{x:.2f}" y="{y:.2f}" text-anchor="{anchor}" fill="{fill}" font-family="sans-serif" '
        f'font-size="12">{escape(text)}</text>'
    )


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}" stroke="currentColor" stroke-opacity="0.2"/>'
