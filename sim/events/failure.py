"""What a schedule can do wrong when it is executed."""

from __future__ import annotations

from enum import StrEnum

from accel.errors import InputError

__all__ = ["ExecutionError", "Kind"]


class Kind(StrEnum):
    """How an execution goes wrong."""

    NOT_MADE = "not made"
    """A value is read that no Einsum has begun to make."""
    TOO_EARLY = "too early"
    """A value is read in a cycle before the one after it is made."""
    NOT_HELD = "not held"
    """A value is read that is kept no more: another took its place, or it was streamed by."""
    TWICE = "twice"
    """A point is computed a second time."""
    BUFFER_FULL = "buffer full"
    """The buffer would hold more than its capacity."""
    LEVEL_FULL = "level full"
    """An inner level would hold more than its capacity."""
    REGISTERS_FULL = "registers full"
    """A PE would hold more values than it has registers for."""


class ExecutionError(InputError):
    """A schedule cannot be executed as it stands.

    Parameters
    ----------
    kind : Kind
        How it goes wrong.
    message : str
        What must hold, what happened instead, and where.
    hint : str, optional
        The way out.
    """

    def __init__(self, kind: Kind, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind
