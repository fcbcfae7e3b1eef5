"""What happens when: a timeline that can be widened, and the transfers of streams cycle by cycle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["Lane", "Slice", "Track", "timeline", "transfers"]

COLOURS = 7
CELL, ROW, HEAD = 22, 34, 18


@dataclass(frozen=True, kw_only=True)
class Slice:
    """A stretch of work: its name, from which cycle to which, and what shows when it is pointed at."""

    name: str
    begin: float
    end: float
    title: str
    colour: int


@dataclass(frozen=True, kw_only=True)
class Lane:
    """A row of a timeline."""

    name: str
    slices: tuple[Slice, ...]


@dataclass(frozen=True, kw_only=True)
class Track:
    """The beats that moved at one port: in which cycle, and what each carried."""

    name: str
    beats: tuple[tuple[int, str], ...]


def timeline(title: str, lanes: Sequence[Lane], *, unit: str = "cycles") -> str:
    """Return rows of slices over a common axis, with a slider that widens it."""
    end = max((each.end for lane in lanes for each in lane.slices), default=1.0) or 1.0
    rows = []
    for lane in lanes:
        marks = "".join(
            f'<div class="slice b{each.colour % COLOURS}" tabindex="0" title="{escape(each.title)}" '
            f'style="left:{100 * each.begin / end:.4f}%;width:{100 * (each.end - each.begin) / end:.4f}%">'
            f"{escape(each.name)}</div>"
            for each in lane.slices
        )
        rows.append(
            f'<div class="lane"><div class="lane-name">{escape(lane.name)}</div><div class="bar">{marks}</div></div>'
        )
    return (
        f'<div class="timeline" role="group" aria-label="{escape(title)}">'
        f'<label class="zoom">Zoom <input type="range" min="1" max="24" step="0.25" value="1" '
        f'aria-label="Zoom of {escape(title)}"></label>'
        f'<div class="scroll" tabindex="0"><div class="lanes">{"".join(rows)}'
        f'<div class="ends"><span>0</span><span>{end:,.0f} {escape(unit)}</span></div></div></div></div>'
    )


def transfers(title: str, tracks: Sequence[Track], *, first: int, cycles: int) -> str:
    """Return a timing diagram: a box for each cycle in which a beat moved, empty where none did.

    Parameters
    ----------
    title : str
        For readers that do not see it.
    tracks : sequence of Track
        Ports, from the top.
    first, cycles : int
        The stretch that is shown.
    """
    left = 16 + 8 * max(len(each.name) for each in tracks)
    width, height = left + cycles * CELL + 8, HEAD + len(tracks) * ROW + 4
    parts = [
        f'<text class="tick" x="{left + (cycle - first) * CELL + CELL / 2}" y="12" text-anchor="middle">{cycle}</text>'
        for cycle in range(first, first + cycles, 4)
    ]
    for index, each in enumerate(tracks):
        y = HEAD + index * ROW
        parts.append(f'<text class="label" x="{left - 8}" y="{y + 20}" text-anchor="end">{escape(each.name)}</text>')
        parts.append(f'<line class="grid" x1="{left}" x2="{left + cycles * CELL}" y1="{y + 26}" y2="{y + 26}"/>')
        for cycle, text in each.beats:
            if first <= cycle < first + cycles:
                x = left + (cycle - first) * CELL
                parts.append(
                    f"<g><title>{escape(f'{each.name}, cycle {cycle}: {text}')}</title>"
                    f'<path class="f{index % COLOURS}" d="M{x} {y + 16}l3 -10h{CELL - 6}l3 10l-3 10h-{CELL - 6}z"/></g>'
                )
    return (
        f'<div class="scroll" tabindex="0"><svg role="img" aria-label="{escape(title)}" width="{width}" '
        f'height="{height}" xmlns="http://www.w3.org/2000/svg"><title>{escape(title)}</title>'
        f"{''.join(parts)}</svg></div>"
    )
