"""Tables of frames of vision transformers: the reproduction of Edge-MoE, and designs on a device."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from accel.cli import console, print_json, table
from accel.frame import load_frame
from accel.frame_design import load_design
from mapping.published_frame import Row, load_frame_published, reproduce_frame

__all__ = ["print_reproduction", "reproduction_tables"]

_ORDERS = "Orders of attention (rows of Q and K)"


def print_reproduction(*, as_json: bool) -> None:
    """Compute what Edge-MoE published, and print each value beside the published one."""
    begin = time.perf_counter()
    rows = reproduce_frame(load_frame("m3vit"), load_design("edge-moe"), load_frame_published())
    wall_time_s = time.perf_counter() - begin
    if as_json:
        print_json({"what": "edge-moe", "rows": [_as_json(row) for row in rows], "wall_time_s": wall_time_s})
        return
    out = console()
    for each in reproduction_tables(rows):
        out.print(each)
        out.print()
    out.print(
        "published: a figure of the paper; counted: loop counts of its public design; formula: the paper's Table I.\n"
        f"Beyond it: einrtl map m3vit --device zcu102. {len(rows)} values in {wall_time_s:.2f} s."
    )


def _as_json(row: Row) -> dict[str, Any]:
    return {
        "section": row.section,
        "quantity": row.quantity,
        "unit": row.unit,
        "ours": row.ours,
        "reference": row.reference,
        "kind": row.kind,
        "relative_error": row.relative_error,
        "note": row.note,
    }


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) >= 1 else f"{value:.5g}"


def _error(value: float | None) -> str:
    if value is None:
        return "-"
    return "0" if abs(value) < 1e-12 else f"{100 * value:+.2f} %"


def _orders(rows: Sequence[Row]) -> Any:
    """Return the counts of both orders, one line for each N, p and order."""
    lines: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        name, _, where = row.quantity.partition(", N = ")
        count, _, order = name.partition(", ")
        lines.setdefault((where.replace(", p = ", ", "), order), {})[count] = row
    body = []
    for (where, order), each in lines.items():
        cells = [where, order]
        for count in ("iterations", "loads"):
            row = each[count]
            cells += [_number(row.ours), _number(row.reference), _error(row.relative_error)]
        body.append((*cells, _number(each["keys an iteration"].ours)))
    return table(
        "Orders of attention, rows of Q and K; Table I of the paper holds where p divides N",
        ["N, p", "order", "iterations", "Table I", "error", "loads", "Table I", "error", "keys a step"],
        body,
        right=range(2, 9),
    )


def reproduction_tables(rows: Sequence[Row]) -> Iterator[Any]:
    """Yield a table for each section."""
    sections: dict[str, list[Row]] = {}
    for row in rows:
        sections.setdefault(row.section, []).append(row)
    for section, members in sections.items():
        if section == _ORDERS:
            yield _orders(members)
            continue
        yield table(
            section,
            ["quantity", "unit", "ours", "reference", "error", "", "note"],
            [
                (
                    row.quantity,
                    row.unit,
                    _number(row.ours),
                    _number(row.reference),
                    _error(row.relative_error),
                    row.kind,
                    row.note,
                )
                for row in members
            ],
            right=(2, 3, 4),
        )
