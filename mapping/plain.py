"""The plain definitions from which derivations start, beside the packaged cascades, which are in their best form."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from accel.cascade import Cascade, load_cascade
from accel.notation import parse

__all__ = ["load_plain", "plain_names"]

_PACKAGED = files("mapping") / "data" / "plain"

_PLAIN_ALREADY = (
    "attention-3pass",
    "attention-3pass-deferred",
    "attention-naive",
    "attention-naive-deferred",
    "pedagogical-2pass",
    "softmax-3pass",
    "softmax-naive",
    "top-k-softmax",
)
"""Packaged cascades that are plain definitions themselves."""


def _own_names() -> tuple[str, ...]:
    names = (entry.name for entry in _PACKAGED.iterdir())
    return tuple(sorted(name.removesuffix(".ein") for name in names if name.endswith(".ein")))


def plain_names() -> tuple[str, ...]:
    """Return the names of all plain definitions, sorted."""
    return tuple(sorted((*_own_names(), *_PLAIN_ALREADY)))


def load_plain(name_or_path: str | Path) -> Cascade:
    """Return the plain definition of that name; where there is none, what ``accel.cascade.load_cascade`` returns.

    Raises
    ------
    InputError
        As ``accel.cascade.load_cascade``.
    """
    text = str(name_or_path)
    if text in _own_names():
        entry = _PACKAGED / f"{text}.ein"
        return parse(entry.read_text(encoding="utf-8"), file=f"{text}.ein")
    return load_cascade(name_or_path)
