"""Timelines of schedules in the trace event format, which Perfetto and chrome://tracing open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from accel.errors import InputError
from accel.files import write_text
from accel.result import Result
from mapping.timeline import Bar, epoch_bars

__all__ = ["DEFAULT_EPOCHS", "trace_events", "write_trace"]

DEFAULT_EPOCHS = 8
MOST_EPOCHS = 10_000


def trace_events(result: Result, epochs: int = DEFAULT_EPOCHS) -> dict[str, Any]:
    """Return the first epochs of full tiles as a trace: a process for each array, a thread for each slot.

    Times are in microseconds at the architecture's clock; the cycles stand in ``args``. An Einsum that works on an
    older tile begins that many epochs later.

    Parameters
    ----------
    result : Result
        What ``mapping.model.price`` or a search returned.
    epochs : int
        Epochs to show, from 1 to 10,000.

    Raises
    ------
    InputError
        ``epochs`` is out of range.
    """
    if not 1 <= epochs <= MOST_EPOCHS:
        raise InputError(f"a trace must show 1 to {MOST_EPOCHS} epochs, not {epochs}", hint=f"use {DEFAULT_EPOCHS}")
    bars = epoch_bars(result)
    arrays = list(dict.fromkeys(each.array for each in result.arrays))
    return {
        "displayTimeUnit": "ns",
        "otherData": {
            "cascade": result.schedule.cascade,
            "architecture": result.schedule.architecture,
            "workload": result.workload.name,
            "accounting": result.accounting,
            "clock_hz": result.clock_hz,
            "epoch_cycles": result.epoch_cycles,
        },
        "traceEvents": [*_names(arrays, bars), *_bars(result, arrays, bars, epochs)],
    }


def _names(arrays: list[str], bars: tuple[Bar, ...]) -> Iterator[dict[str, Any]]:
    for process, array in enumerate(arrays):
        yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": f"array {array}"}}
        for slot in sorted({bar.slot for bar in bars if bar.array == array}):
            yield {"ph": "M", "name": "thread_name", "pid": process, "tid": slot, "args": {"name": f"slot {slot}"}}


def _bars(result: Result, arrays: list[str], bars: tuple[Bar, ...], epochs: int) -> Iterator[dict[str, Any]]:
    microseconds = 1e6 / result.clock_hz
    for epoch in range(epochs):
        for bar in bars:
            tile = epoch - bar.offset
            if tile < 0:
                continue
            begin = epoch * result.epoch_cycles + bar.begin
            yield {
                "ph": "X",
                "name": bar.einsum,
                "cat": "einsum",
                "pid": arrays.index(bar.array),
                "tid": bar.slot,
                "ts": begin * microseconds,
                "dur": (bar.end - bar.begin) * microseconds,
                "args": {"tile": tile, "epoch": epoch, "begin_cycle": begin, "cycles": bar.end - bar.begin},
            }


def write_trace(result: Result, path: str | Path, epochs: int = DEFAULT_EPOCHS) -> None:
    """Write ``trace_events`` to a .json file.

    Raises
    ------
    InputError
        The file does not end in .json or cannot be written, or ``epochs`` is out of range.
    """
    file = Path(path)
    if file.suffix.lower() != ".json":
        raise InputError(
            f"the trace must be a .json file, not {file.name!r}", hint=f"use {file.with_suffix('.json').name}"
        )
    text = json.dumps(trace_events(result, epochs), allow_nan=False)
    write_text(file, text + "\n")
