"""What other authors published of their units."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files

__all__ = ["PublishedFigure", "load_published"]


@dataclass(frozen=True, kw_only=True)
class PublishedFigure:
    """One figure, as published: each in its own set-up and technology, so not comparable with one another.

    Parameters
    ----------
    unit, kind : str
        Which unit, and what it computes.
    figure, value : str
        What was measured, and the value with its unit.
    source : str
        Where it is published.
    """

    unit: str
    kind: str
    figure: str
    value: str
    source: str


def load_published() -> tuple[PublishedFigure, ...]:
    """Return the committed figures."""
    text = (files("accel") / "data" / "published" / "units" / "units.csv").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return tuple(PublishedFigure(**row) for row in csv.DictReader(lines))
