"""Results of a sweep as tables: Pareto fronts, CSV and Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from accel.files import write_text, writing
from accel.sweep import Measure
from mapping.pareto import pareto_front
from mapping.sweep.runners import extra_missing

__all__ = ["MEASURE_LABELS", "WORKLOAD", "columns", "mark_fronts", "write_csv", "write_parquet"]

WORKLOAD = ("model", "batch", "queries", "keys")
"""Columns that say which workload a row is about: there is one front for each."""

MEASURE_LABELS: Mapping[Measure, tuple[str, float]] = {
    Measure.LATENCY_S: ("latency (ms)", 1e3),
    Measure.LATENCY_CYCLES: ("latency (clock cycles)", 1.0),
    Measure.ENERGY_PJ: ("energy (mJ)", 1e-9),
    Measure.BUFFER_SIZE_BITS: ("buffer capacity (KiB)", 1 / 8192),
    Measure.BUFFER_USED_BITS: ("buffer in use (KiB)", 1 / 8192),
    Measure.TRAFFIC_BITS: ("DRAM traffic (MiB)", 1 / 2**23),
    Measure.PES: ("PEs", 1.0),
}
"""Measure to its name for people with a unit, and the factor that brings it to that unit."""

_FIRST = (*WORKLOAD, "cascade", "architecture", "objective")
_RESULTS: Mapping[str, type] = {
    "status": str,
    "reason": str,
    "on_front": bool,
    "latency_cycles": float,
    "latency_s": float,
    "energy_pj": float,
    "traffic_bits": int,
    "buffer_size_bits": int,
    "buffer_used_bits": int,
    "pes": int,
    "area_mm2": float,
    "lower_bound_cycles": float,
    "gap": float,
    "limited_by": str,
    "tiles": str,
    "points_evaluated": int,
    "points_pruned": int,
    "wall_time_s": float,
    "finished_at_utc": str,
    "digest": str,
}


def mark_fronts(rows: Sequence[Mapping[str, Any]], minimise: Sequence[Measure]) -> list[dict[str, Any]]:
    """Return the rows of ``Store.rows`` with ``on_front``: whether a row is on the Pareto front of its workload.

    Failed points are on no front; of points equal in all measures the first is.
    """
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, row in enumerate(rows):
        if row["status"] == "done":
            groups.setdefault(tuple(row[name] for name in WORKLOAD), []).append(index)
    best: set[int] = set()
    for indices in groups.values():
        marks = pareto_front([[rows[index][measure] for measure in minimise] for index in indices])
        best.update(index for index, mark in zip(indices, marks, strict=True) if mark)
    return [{**row, "on_front": index in best} for index, row in enumerate(rows)]


def columns(rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the heads of a table of ``rows``: what was run, the fields that the sweep sets, and what came of it."""
    settings = dict.fromkeys(path for row in rows for path in row["settings"])
    return (*_FIRST, *settings, *_RESULTS)


def _cell(row: Mapping[str, Any], column: str) -> Any:
    return row[column] if column in row else row["settings"].get(column)


def write_csv(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write the rows of ``mark_fronts`` as CSV, numbers in full, nothing where there is no value.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    heads = columns(rows)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([_cell(row, head) for head in heads] for row in rows)
    write_text(path, text.getvalue())


def write_parquet(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write the rows of ``mark_fronts`` as Parquet.

    Raises
    ------
    InputError
        The file cannot be written.
    ToolMissingError
        Pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise extra_missing("pyarrow", "Parquet") from None
    types = {str: pa.string(), bool: pa.bool_(), float: pa.float64(), int: pa.int64()}
    known = {**dict.fromkeys(_FIRST, str), "batch": int, "queries": int, "keys": int, **_RESULTS}
    arrays = {}
    for head in columns(rows):
        cells = [_cell(row, head) for row in rows]
        arrays[head] = pa.array(_alike(cells), type=types[known[head]] if head in known else None)
    with writing(path) as file:
        parquet.write_table(pa.table(arrays), file)


def _alike(cells: list[Any]) -> list[Any]:
    """Return the cells of a varied field with one type, as a column needs."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if len(kinds) < 2:
        return cells
    kind = float if kinds == {int, float} else str
    return [None if cell is None else kind(cell) for cell in cells]
