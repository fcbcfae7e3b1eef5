"""Requests for cost tables: which component model of an estimator gives each number, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from accel import spec
from accel.errors import InputError

__all__ = ["ModelEntry", "TechnologyRequest", "load_request"]


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """One component model with its arguments, and what it gives.

    Parameters
    ----------
    model : str
        Class of the ``hwcomponents`` family, such as ``SRAM``.
    arguments : mapping of str to number, text or truth
        What it is made with, in the units of that package: ``tech_node`` in metres, sizes in bits.
    component : str
        Component of the cost table.
    actions : mapping of str to str
        Action of the cost table to the action of the model.
    per_bits : int, optional
        Bits that one action moves; for memories.
    area : str, optional
        Part of the cost table that has the model's area; none if absent.

    Raises
    ------
    InputError
        There is no action, or ``per_bits`` is below 1.
    """

    model: str
    arguments: Mapping[str, int | float | str | bool]
    component: str
    actions: Mapping[str, str]
    per_bits: int | None = None
    area: str | None = None

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every field."""
        if not self.actions:
            raise InputError(
                "actions must name at least one action", hint="for example {read: read}", field=("actions",)
            )
        if self.per_bits is not None and self.per_bits < 1:
            raise InputError(f"per_bits must be at least 1, not {self.per_bits}", field=("per_bits",))


@dataclass(frozen=True, kw_only=True)
class TechnologyRequest:
    """A cost table to be made.

    Parameters
    ----------
    name, description : str
        Those of the table.
    entries : tuple of ModelEntry
        Several may give actions of one component.

    Raises
    ------
    InputError
        There is no entry, or two give the same action or part.
    """

    name: str
    description: str
    entries: tuple[ModelEntry, ...]

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check that each number is asked for once."""
        if not self.entries:
            raise InputError("entries must hold at least one model", field=("entries",))
        seen: set[tuple[str, str]] = set()
        for index, entry in enumerate(self.entries):
            areas = [] if entry.area is None else [("area of part", entry.area)]
            for kind, name in (*((f"action of {entry.component!r}", each) for each in entry.actions), *areas):
                if (kind, name) in seen:
                    raise InputError(
                        f"{kind} {name!r} must come from one entry, not from two",
                        hint="remove one of them",
                        field=("entries", index),
                    )
                seen.add((kind, name))


def load_request(path: str | Path) -> TechnologyRequest:
    """Return the request of a file; raises ``InputError`` as ``spec.load``."""
    return spec.load(TechnologyRequest, Path(path))
