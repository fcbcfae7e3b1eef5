"""The run file: what ``einrtl run`` reads, and the real data it names."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accel import spec
from accel.errors import InputError
from accel.softmax_unit import SoftmaxUnit

__all__ = ["AttentionHead", "RunFile", "ScheduleRequest", "SimulationSettings", "load_head", "load_run_file"]


@dataclass(frozen=True, kw_only=True)
class ScheduleRequest:
    """Which schedules to look for.

    Parameters
    ----------
    cascade : str
        Name or file of the cascade to schedule.
    architectures : tuple of str
        Names or files of architectures; one schedule is picked for each.
    """

    cascade: str
    architectures: tuple[str, ...]

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check that there is something to do."""
        if not self.architectures:
            raise InputError(
                "architectures must name at least one", hint="see einrtl list architectures", field=("architectures",)
            )


@dataclass(frozen=True, kw_only=True)
class SimulationSettings:
    """How the hardware is simulated and priced.

    Parameters
    ----------
    technology : str
        Name or file of the cost table that prices the unit's actions.
    pause_probability : float
        Chance, each cycle, that a port waits in the run with back-pressure; 0 to 0.95.
    seed : int
        Of the pauses.
    """

    technology: str
    pause_probability: float
    seed: int

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check the probability."""
        if not 0.0 < self.pause_probability <= 0.95:
            raise InputError(
                f"pause_probability must be above 0 and at most 0.95, not {self.pause_probability}",
                hint="0.3 gives a mix of bursts and pauses",
                field=("pause_probability",),
            )


@dataclass(frozen=True, kw_only=True)
class RunFile:
    """Everything one run needs.

    Parameters
    ----------
    name : str
        Of the run, for the report.
    model : Path
        ``config.json`` of a Hugging Face model; relative to the run file.
    batch, sequence_length : int
        Size of the work; positive.
    cascades : tuple of str
        Names or files of the attention cascades to analyse and compare.
    schedule : ScheduleRequest
        What to schedule, and on what.
    softmax : SoftmaxUnit
        The unit to generate.
    head : Path
        Array file (.npz) with real Q and K of one attention head; relative to the run file.
    simulation : SimulationSettings
        How the unit is simulated.
    """

    name: str
    model: Path
    batch: int
    sequence_length: int
    cascades: tuple[str, ...]
    schedule: ScheduleRequest
    softmax: SoftmaxUnit
    head: Path
    simulation: SimulationSettings

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check the sizes."""
        for name, value in (("batch", self.batch), ("sequence_length", self.sequence_length)):
            if value < 1:
                raise InputError(f"{name} must be at least 1, not {value}", hint="use 1 or more", field=(name,))
        if self.sequence_length > self.softmax.max_length:
            raise InputError(
                f"softmax.max_length must be at least sequence_length ({self.sequence_length}), "
                f"not {self.softmax.max_length}",
                hint=f"use max_length: {self.sequence_length}",
                field=("softmax", "max_length"),
            )


def load_run_file(path: Path) -> RunFile:
    """Return the run file at ``path``, its file names made relative to the working folder.

    Raises
    ------
    InputError
        With every problem of the file.
    """
    run = spec.load(RunFile, path)
    return replace(run, model=path.parent / run.model, head=path.parent / run.head)


@dataclass(frozen=True, kw_only=True)
class AttentionHead:
    """Real queries and keys of one attention head.

    Parameters
    ----------
    queries, keys : ndarray[tokens, dimension], float64
        Not scaled.
    source : str
        Where they come from.
    """

    queries: NDArray[np.float64]
    keys: NDArray[np.float64]
    source: str

    @property
    def scores(self) -> NDArray[np.float64]:
        """Scores QK^T / sqrt(dimension): ndarray[queries, keys], float64."""
        result: NDArray[np.float64] = self.queries @ self.keys.T / np.sqrt(self.queries.shape[1])
        return result


def load_head(path: Path, *, tokens: int, dimension: int) -> AttentionHead:
    """Return the head in the array file at ``path``.

    Raises
    ------
    InputError
        The file is missing or no array file, lacks an array, or an array has a wrong shape or type or holds infinities
        or NaN.
    """
    held = _read_arrays(path)
    problems: list[str] = []
    arrays: dict[str, NDArray[np.float64]] = {}
    for name, array in held.items():
        if name in ("q", "k"):
            problem = _array_problem(name, array, (tokens, dimension))
            if problem:
                problems.append(f"{path}: {problem}")
            else:
                arrays[name] = array.astype(np.float64)
    for name in ("q", "k"):
        if name not in held:
            problems.append(f"{path} must hold an array {name!r}, but holds {', '.join(sorted(held)) or 'none'}")
    if problems:
        raise InputError("\n".join(problems))
    return AttentionHead(queries=arrays["q"], keys=arrays["k"], source=_source(held))


def _read_arrays(path: Path) -> dict[str, NDArray[np.generic]]:
    try:
        # Opened here: numpy leaves a file open whose zip directory is broken.
        with path.open("rb") as stream:
            data = np.load(stream, allow_pickle=False)
            if isinstance(data, np.lib.npyio.NpzFile):
                return dict(data.items())
    except OSError as error:
        raise InputError(f"{path} must be a readable array file: {error.strerror}", hint="check the path") from None
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error):
        pass
    raise InputError(
        f"{path} must be an array file in .npz format without pickled objects", hint="write it with numpy.savez"
    )


def _source(data: Mapping[str, NDArray[np.generic]]) -> str:
    """Return where the arrays come from, as the file's ``metadata`` (JSON) says."""
    try:
        metadata = json.loads(str(data["metadata"]))
        return ", ".join(f"{key} {metadata[key]}" for key in ("model", "layer", "head") if key in metadata)
    except (KeyError, TypeError, json.JSONDecodeError):
        return "not stated"


def _array_problem(name: str, array: NDArray[np.generic], shape: tuple[int, int]) -> str | None:
    if not np.issubdtype(array.dtype, np.floating):
        return f"array {name!r} must hold real numbers, not {array.dtype}; save it as float32"
    if array.shape != shape:
        return (
            f"array {name!r} must have shape {shape} (sequence_length, head dimension), not {array.shape}; "
            f"change sequence_length or the model"
        )
    wrong = np.argwhere(~np.isfinite(array))
    if wrong.size:
        index = tuple(int(part) for part in wrong[0])
        return (
            f"array {name!r} must be finite, but {name}{list(index)} is {array[index]} "
            f"({len(wrong)} such values); remove them"
        )
    return None
