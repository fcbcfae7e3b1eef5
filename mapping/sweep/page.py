"""The report of a sweep as one HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from accel.page import Point, Section, Series, page, scatter, table
from accel.sweep import Measure
from mapping.sweep.export import MEASURE_LABELS, WORKLOAD

__all__ = ["sweep_page"]

Row = Mapping[str, Any]


def sweep_page(
    name: str, rows: Sequence[Row], minimise: Sequence[Measure], *, asked: int, database: Path, command: str
) -> str:
    """Return the page of a sweep: for each workload the front among all designs, then every design and every failure.

    Parameters
    ----------
    name : str
        Of the sweep.
    rows : sequence of mapping
        What ``mark_fronts`` returned.
    minimise : sequence of Measure
        What the fronts compare.
    asked : int
        Points that the sweep file asks for.
    database : Path
        Where the results are.
    command : str
        The command line that makes the page again.
    """
    done, failed = ([row for row in rows if row["status"] == status] for status in ("done", "failed"))
    left = asked - len(done) - len(failed)
    verdict = f"{len(done):,} of {asked:,} designs scheduled"
    if failed:
        verdict += f", {len(failed):,} failed"
    if left:
        verdict += f", {left:,} still to do"
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in done:
        groups.setdefault(tuple(row[key] for key in WORKLOAD), []).append(row)
    return page(
        title=f"EinRTL sweep {name}",
        verdict=verdict,
        good=None if left else not failed,
        summary=(
            ("workloads", f"{len(groups):,}"),
            ("on a front", f"{sum(row['on_front'] for row in done):,}"),
            ("least of", ", ".join(MEASURE_LABELS[measure][0] for measure in minimise)),
        ),
        command=command,
        sections=tuple(_sections(groups, failed, minimise, database)),
    )


def _sections(
    groups: Mapping[tuple[Any, ...], Sequence[Row]], failed: Sequence[Row], minimise: Sequence[Measure], database: Path
) -> Iterator[Section]:
    source = f"each design searched as by einrtl map; {database.name}, tables point and asked"
    for (model, batch, queries, keys), rows in groups.items():
        title = f"{model}, batch {batch}, {queries:,} x {keys:,}"
        front = sorted((row for row in rows if row["on_front"]), key=lambda row: tuple(row[each] for each in minimise))
        chart = _front(title, rows, front, minimise) if len(minimise) > 1 else ""
        note = (
            ""
            if len(minimise) < 3
            else "The chart shows the first two measures; a design may be on the front by others."
        )
        body = chart + _designs("Designs on the front", front, minimise)
        yield Section(title=title, body=body, source=source, note=note)
    for (model, batch, queries, keys), rows in groups.items():
        title = f"All designs: {model}, batch {batch}, {queries:,} x {keys:,}"
        yield Section(title=title, body=_designs(f"{len(rows):,} designs", rows, minimise), source=source)
    if failed:
        body = table("Failed", ("design", "reason"), [(_name(row), str(row["reason"])) for row in failed])
        yield Section(title="Designs that failed", body=body, source=source)


def _front(title: str, rows: Sequence[Row], front: Sequence[Row], minimise: Sequence[Measure]) -> str:
    (x_label, x_unit), (y_label, y_unit) = (MEASURE_LABELS[measure] for measure in minimise[:2])

    def points(chosen: Sequence[Row]) -> tuple[Point, ...]:
        return tuple(
            Point(
                x=row[minimise[0]] * x_unit,
                y=row[minimise[1]] * y_unit,
                title="; ".join((_name(row), *(f"{label}: {value}" for label, value in _measures(row, minimise)))),
            )
            for row in chosen
        )

    others = [row for row in rows if not row["on_front"]]
    series = (Series(name="on the front", points=points(front)), Series(name="other designs", points=points(others)))
    return scatter(f"Designs for {title}", [each for each in series if each.points], x=x_label, y=y_label)


def _designs(caption: str, rows: Sequence[Row], minimise: Sequence[Measure]) -> str:
    heads = ("design", *(MEASURE_LABELS[measure][0] for measure in minimise), "limited by", "tiles")
    body = [
        (
            _name(row),
            *(value for _, value in _measures(row, minimise)),
            str(row["limited_by"]),
            str(row["tiles"]).strip("{}").replace('"', "").replace(": ", "="),
        )
        for row in rows
    ]
    return table(caption, heads, body, numbers=range(1, 1 + len(minimise)))


def _measures(row: Row, minimise: Sequence[Measure]) -> tuple[tuple[str, str], ...]:
    labels = ((MEASURE_LABELS[measure], row[measure]) for measure in minimise)
    return tuple((label, f"{value * unit:,.6g}") for (label, unit), value in labels)


def _name(row: Row) -> str:
    settings = ", ".join(f"{path}={value}" for path, value in row["settings"].items())
    parts = (str(row["cascade"]), "on", str(row["architecture"]), settings, str(row["objective"]))
    return " ".join(filter(None, parts))
