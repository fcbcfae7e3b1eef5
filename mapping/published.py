"""Published results beside computed ones; they are read to be shown, and no computation sees them."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from accel.errors import InputError
from mapping.reproduce import StudyResult

__all__ = ["QUANTITIES", "Mean", "Point", "Published", "load_published", "mean_rows", "points"]

QUANTITIES = (
    "latency_s",
    "traffic_bytes",
    "util_2d",
    "util_1d",
    "energy_pj",
    "linear_latency_s",
    "linear_traffic_bytes",
    "linear_energy_pj",
)
"""What is priced at each point; ratios to the baselines come on top."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One quantity of one configuration, ours and published.

    Parameters
    ----------
    configuration, model : str
        Which.
    length : int
        Sequence length.
    quantity : str
        What; the unit is in its name, and ratios have none.
    ours : float
        As computed.
    published : float, optional
        As published; None where nothing was.
    known_fault : bool
        Whether the published value is known to be wrong.
    """

    configuration: str
    model: str
    length: int
    quantity: str
    ours: float
    published: float | None
    known_fault: bool

    @property
    def relative_error(self) -> float | None:
        """Ours over published, less one."""
        return None if not self.published else self.ours / self.published - 1


@dataclass(frozen=True, kw_only=True)
class Mean:
    """An arithmetic mean over all models and lengths, ours and published."""

    configuration: str
    quantity: str
    ours: float
    published: float | None

    @property
    def relative_error(self) -> float | None:
        """Ours over published, less one."""
        return None if not self.published else self.ours / self.published - 1


@dataclass(frozen=True, kw_only=True)
class Published:
    """The files of one publication.

    Parameters
    ----------
    points : mapping of (configuration, model, length) to mapping of quantity to float
        Every point.
    means : mapping of configuration to mapping of quantity to float
        Headline means.
    sweep : mapping of (model, side) to mapping of quantity to float
        The sweep over array sizes.
    areas_mm2 : mapping of architecture to float
        Chip areas.
    fault_from_length : mapping of quantity to int
        Quantity to the sequence length from which its values are known to be wrong.
    """

    points: Mapping[tuple[str, str, int], Mapping[str, float]]
    means: Mapping[str, Mapping[str, float]]
    sweep: Mapping[tuple[str, int], Mapping[str, float]]
    areas_mm2: Mapping[str, float]
    fault_from_length: Mapping[str, int]


def _rows(folder: Path | None, name: str) -> Iterator[dict[str, str]]:
    packaged = files("accel") / "data" / "published" / "fusemax" / name
    try:
        text = packaged.read_text(encoding="utf-8") if folder is None else (folder / name).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{name} must be a readable file: {error.strerror}", hint="check the folder") from None
    yield from csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))


def _numbers(row: Mapping[str, str], *keys: str) -> dict[str, float]:
    return {name: float(text) for name, text in row.items() if name not in keys}


def load_published(folder: Path | None = None) -> Published:
    """Return what was published with FuseMax, from its packaged files or those of ``folder``.

    Raises
    ------
    InputError
        A file is missing.
    """
    return Published(
        points={
            (row["configuration"], row["model"], int(row["length"])): _numbers(row, "configuration", "model", "length")
            for row in _rows(folder, "points.csv")
        },
        means={row["configuration"]: _numbers(row, "configuration") for row in _rows(folder, "means.csv")},
        sweep={(row["model"], int(row["side"])): _numbers(row, "model", "side") for row in _rows(folder, "sweep.csv")},
        areas_mm2={row["architecture"]: float(row["area_mm2"]) for row in _rows(folder, "area.csv")},
        fault_from_length={row["quantity"]: int(row["from_length"]) for row in _rows(folder, "faults.csv")},
    )


def points(result: StudyResult, published: Published) -> tuple[Point, ...]:
    """Return every quantity of every point beside what was published."""
    found = []
    for layer in result.layers:
        given = published.points.get((layer.configuration, layer.model, layer.length), {})
        ours = {quantity: float(getattr(layer, quantity)) for quantity in QUANTITIES} | result.ratios(layer)
        for quantity, value in ours.items():
            fault = published.fault_from_length.get(quantity)
            found.append(
                Point(
                    configuration=layer.configuration,
                    model=layer.model,
                    length=layer.length,
                    quantity=quantity,
                    ours=value,
                    published=given.get(quantity),
                    known_fault=fault is not None and layer.length >= fault,
                )
            )
    return tuple(found)


def mean_rows(result: StudyResult, published: Published) -> tuple[Mean, ...]:
    """Return every mean beside what was published."""
    return tuple(
        Mean(
            configuration=name,
            quantity=quantity,
            ours=value,
            published=published.means.get(name, {}).get(quantity),
        )
        for name, values in result.means().items()
        for quantity, value in values.items()
    )
