"""Committed samples of synthesised blocks, as CSV files whose heads name the units."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from accel.errors import InputError, did_you_mean

__all__ = ["QUANTITIES", "Sample", "load_samples", "read_samples", "sample_targets", "write_samples"]

QUANTITIES = ("lut_count", "ff_count", "dsp_count", "block_ram_count")
"""What is counted."""

_COLUMNS = (
    *("command", "use", "unit", "family", *QUANTITIES, "fmax_mhz", "critical_path", "latency_cycles"),
    *("tools", "verilog_sha256", "description_json"),
)
USES = ("fit", "check")


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One synthesised block.

    Parameters
    ----------
    command : str
        Unit and options, as ``einrtl synth`` takes them.
    use : str
        ``fit``, or ``check``: kept out of the fit, to try the prediction on.
    unit, family : str
        Name of the block, and of the group that shares a model.
    counts : mapping of str to float
        Of each of ``QUANTITIES``.
    fmax_mhz : float or None
        Highest clock after place and route; None if the block was not placed.
    critical_path : str
        From which register to which; empty if not placed.
    latency_cycles : int
        Of the block.
    tools : str
        Names and versions of the tools.
    verilog_sha256 : str
        Of the text that was synthesised: whether a sample is still of the block as it is.
    description : mapping
        ``parameters``, ``derived``, ``input_format`` and ``output_format`` of the block's sidecar.
    """

    command: str
    use: str
    unit: str
    family: str
    counts: Mapping[str, float]
    fmax_mhz: float | None
    critical_path: str
    latency_cycles: int
    tools: str
    verilog_sha256: str
    description: Mapping[str, Any]


def sample_targets() -> tuple[str, ...]:
    """Return the targets that have committed samples."""
    folder = files("accel") / "data" / "fpga"
    return tuple(sorted(entry.name.removesuffix(".csv") for entry in folder.iterdir() if entry.name.endswith(".csv")))


def load_samples(target: str) -> tuple[Sample, ...]:
    """Return the committed samples of a target.

    Raises
    ------
    InputError
        There are none.
    """
    if target not in sample_targets():
        raise InputError(
            f"target must have committed samples, but {target!r} has none", hint=did_you_mean(target, sample_targets())
        )
    text = (files("accel") / "data" / "fpga" / f"{target}.csv").read_text(encoding="utf-8")
    return read_samples(text, f"{target}.csv")


def read_samples(text: str, file: str) -> tuple[Sample, ...]:
    """Return the samples of CSV ``text``; messages call it ``file``.

    Raises
    ------
    InputError
        The head has other columns, or a line has a value of the wrong kind.
    """
    reader = csv.DictReader(io.StringIO(text))
    if tuple(reader.fieldnames or ()) != _COLUMNS:
        raise InputError(f"{file} must have the columns {', '.join(_COLUMNS)}", hint="write it with write_samples")
    samples = []
    for row in reader:
        try:
            samples.append(_sample(row))
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"{file}:{reader.line_num}: every value must suit its column: {error}") from None
    return tuple(samples)


def _sample(row: Mapping[str, str]) -> Sample:
    if row["use"] not in USES:
        raise ValueError(f"use must be fit or check, not {row['use']!r}")
    return Sample(
        command=row["command"],
        use=row["use"],
        unit=row["unit"],
        family=row["family"],
        counts={name: float(row[name]) for name in QUANTITIES},
        fmax_mhz=float(row["fmax_mhz"]) if row["fmax_mhz"] else None,
        critical_path=row["critical_path"],
        latency_cycles=int(row["latency_cycles"]),
        tools=row["tools"],
        verilog_sha256=row["verilog_sha256"],
        description=json.loads(row["description_json"]),
    )


def write_samples(path: Path, samples: Iterable[Sample]) -> None:
    """Write samples as CSV; ``read_samples`` reads equal ones back."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for sample in samples:
        counts = [f"{sample.counts[name]:g}" for name in QUANTITIES]
        fmax = "" if sample.fmax_mhz is None else f"{sample.fmax_mhz:.1f}"
        description = json.dumps(sample.description, separators=(",", ":"), sort_keys=True)
        writer.writerow(
            [
                *(sample.command, sample.use, sample.unit, sample.family, *counts, fmax, sample.critical_path),
                *(sample.latency_cycles, sample.tools, sample.verilog_sha256, description),
            ]
        )
    path.write_text(out.getvalue(), encoding="utf-8")
