"""Writes the report folder of a run: pictures, schedules, ``result.json``, ``report.html`` and ``report.md``."""

from __future__ import annotations

import json
from pathlib import Path

from accel import spec
from mapping.plot import gantt
from sim.folder import MARKER
from sim.outcome import Outcome
from sim.run_page import run_page
from sim.summary import SummaryTable, summary_tables

__all__ = ["write_report"]


def write_report(outcome: Outcome, folder: Path, command: str) -> None:
    """Write everything but the emitted files, which are there already, into ``folder``.

    Parameters
    ----------
    outcome : Outcome
        What to report.
    folder : Path
        Existing folder; ``softmax.v`` and ``softmax.json`` stand in it.
    command : str
        The command line that reproduces the run.
    """
    pictures = []
    for index, (name, found) in enumerate(outcome.schedules.items()):
        stem = "schedule" if index == 0 else f"schedule-{Path(name).stem}"
        gantt(found.result, folder / f"{stem}.png")
        (folder / f"{stem}.yaml").write_text(spec.dump(found.schedule), encoding="utf-8")
        pictures.append((name, stem))
    (folder / MARKER).write_text(
        json.dumps({"command": command, **outcome.as_dict()}, indent=2, allow_nan=False) + "\n", encoding="utf-8"
    )
    (folder / "report.html").write_text(run_page(outcome, command), encoding="utf-8")
    (folder / "report.md").write_text(_markdown(outcome, pictures, command), encoding="utf-8")


def _markdown(outcome: Outcome, pictures: list[tuple[str, str]], command: str) -> str:
    difference = f" First difference: {outcome.first_difference}." if outcome.first_difference else ""
    verdict = "every comparison holds" if outcome.holds else "a comparison FAILS"
    work = outcome.workload
    size = f"{work.heads} heads of dimension {work.query_key_dim}, batch {work.batch}, {work.queries} tokens"
    parts = [
        f"# {outcome.name}: {verdict}",
        f"{outcome.model.name}: {size}.{difference}",
        f"Made by `{command}`.",
    ]
    for table in summary_tables(outcome):
        parts.append(f"## {table.title}")
        parts.append(_table(table))
        if table.note:
            parts.append(table.note)
    parts.append("## One epoch of each schedule")
    for name, stem in pictures:
        parts.append(f"{name} (`{stem}.yaml`; price it again with `einrtl map`):")
        parts.append(f"![Gantt chart of one epoch on {name}]({stem}.png)")
    parts.append("## Left out of the prices")
    left_out = dict.fromkeys(text for found in outcome.schedules.values() for text in found.result.left_out)
    parts.append("\n".join(f"- {text}" for text in left_out))
    parts.append("## Files")
    parts.append(
        "\n".join(
            (
                "- `softmax.v`: the unit with AXI4-Stream ports; `softmax.json`: its ports, latency, formats, widths",
                "- `report.html`: this page with charts, in one file that opens without a network",
                "- `result.json`: every number of this page and more",
                "- `schedule*.yaml`: the schedules; `schedule*.png`: one epoch of each",
            )
        )
    )
    return "\n\n".join(parts) + "\n"


def _table(table: SummaryTable) -> str:
    rule = ["---:" if index in table.numbers else "---" for index in range(len(table.heads))]
    lines = [table.heads, rule, *table.rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
