"""Results as comma-separated values: one row for each unit, component, action, tensor and Einsum."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from accel.files import write_text
from accel.nest_result import NestResult
from accel.result import Result

__all__ = ["ACTION_HEADS", "actions_csv", "write_actions_csv"]

ACTION_HEADS = ("unit", "component", "action", "tensor", "einsum", "count", "energy_pj")
"""Columns of the file; ``einsum`` is empty for transfers between DRAM and buffer of a pipeline."""


def actions_csv(result: Result | NestResult) -> str:
    """Return the actions of a result as comma-separated values with a row of heads; numbers read back exactly."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(ACTION_HEADS)
    for each in result.actions:
        writer.writerow(
            [
                each.unit,
                each.component,
                each.action,
                each.tensor,
                each.einsum or "",
                repr(each.count),
                repr(each.energy_pj),
            ]
        )
    return text.getvalue()


def write_actions_csv(result: Result | NestResult, file: str | Path) -> None:
    """Write ``actions_csv`` to a file.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    path = Path(file)
    write_text(path, actions_csv(result))
