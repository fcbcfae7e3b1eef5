"""The rows of scores that all softmax units are given."""

from __future__ import annotations

import math
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accel.errors import InputError

__all__ = ["DEVIATIONS", "ScoreRows", "random_scores", "recorded_scores"]

DEVIATIONS = (1.0, 2.0, 4.0)
"""Standard deviations of the random scores."""


@dataclass(frozen=True, kw_only=True)
class ScoreRows:
    """Rows of scores and what to call them.

    Parameters
    ----------
    name : str
        For tables.
    scores : ndarray[rows, length], float64
        Attention scores in nats: the weight of a score x is proportional to e**x.
    """

    name: str
    scores: NDArray[np.float64]


def random_scores(length: int, rows: int, seed: int) -> tuple[ScoreRows, ...]:
    """Return ``rows`` rows of independent normal scores of mean 0 for each of ``DEVIATIONS``.

    Each set has a generator of its own, seeded by ``seed``, the length and its place, so that no set depends on which
    others are drawn.

    Raises
    ------
    InputError
        A length or a number of rows is out of range.
    """
    for name, value, most in (("length", length, 65536), ("rows", rows, 100_000)):
        if not 1 <= value <= most:
            raise InputError(f"{name} must be from 1 to {most}, not {value}", field=(name,))
    if seed < 0:
        raise InputError(f"seed must be at least 0, not {seed}", field=("seed",))
    return tuple(
        ScoreRows(
            name=f"sd {deviation:g}",
            scores=np.random.default_rng([seed, length, place]).normal(0.0, deviation, (rows, length)),
        )
        for place, deviation in enumerate(DEVIATIONS)
    )


def recorded_scores(path: Path) -> ScoreRows:
    """Return the scores q k^T / sqrt(E) of a recorded attention head: arrays ``q``, ``k`` [tokens, E] of a .npz file.

    Raises
    ------
    InputError
        The file cannot be read, or does not hold two finite arrays of real numbers of matching shapes.
    """
    try:
        # Opened here: numpy leaves a file open whose zip directory is broken.
        with path.open("rb") as stream:
            data = np.load(stream, allow_pickle=False)
            held = {name: data[name] for name in ("q", "k") if name in data} if hasattr(data, "files") else {}
    except OSError as error:
        raise InputError(f"{path} must be a readable array file: {error.strerror}", hint="check the path") from None
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error):
        held = {}
    if len(held) != 2:
        raise InputError(
            f"{path} must be an array file in .npz format with arrays 'q' and 'k'", hint="write it with numpy.savez"
        )
    for name, array in held.items():
        if array.ndim != 2 or not array.size or not np.issubdtype(array.dtype, np.floating):
            raise InputError(
                f"array {name!r} of {path} must hold real numbers [tokens, features], not {array.dtype} "
                f"{list(array.shape)}"
            )
        if not np.isfinite(array).all():
            raise InputError(f"array {name!r} of {path} must be finite")
    q, k = held["q"].astype(np.float64), held["k"].astype(np.float64)
    if q.shape[1] != k.shape[1]:
        raise InputError(f"arrays 'q' and 'k' of {path} must have as many features, not {q.shape[1]} and {k.shape[1]}")
    return ScoreRows(name=path.stem, scores=q @ k.T / math.sqrt(q.shape[1]))
