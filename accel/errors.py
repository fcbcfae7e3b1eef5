"""The errors EinRTL raises on purpose: what must hold, what was given, where, and the way out."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

__all__ = [
    "EinRTLError",
    "InputError",
    "Place",
    "Problem",
    "SimulationError",
    "ToolMissingError",
    "did_you_mean",
    "unwritable",
    "way_out",
]


LISTED_NAMES = 24
"""More names than these are not listed in one message."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A position in an input file; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        """Return the place as ``file:line:column``, which editors can jump to."""
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is wrong with an input.

    Parameters
    ----------
    message : str
        What must hold and what was given instead.
    hint : str, optional
        The way out.
    place : Place, optional
        Where it was found; absent when the input has no file (an argument of a Python call).
    field : tuple of str or int
        Path of the offending value below the object that was checked, so that a reader of a file can find its place.
    excerpt : str, optional
        Lines of the input with a caret below the offending text.
    """

    message: str
    hint: str | None = None
    place: Place | None = None
    field: tuple[str | int, ...] = ()
    excerpt: str | None = None

    def __str__(self) -> str:
        """Return ``place: message; hint`` and the excerpt, leaving out what is absent."""
        head = f"{self.place}: " if self.place else ""
        tail = f"; {self.hint}" if self.hint else ""
        excerpt = f"\n{self.excerpt}" if self.excerpt else ""
        return f"{head}{self.message}{tail}{excerpt}"


class EinRTLError(Exception):
    """Base of all errors that EinRTL raises on purpose; the command line shows them without a traceback."""

    exit_code: ClassVar[int] = 2
    """What the command line exits with: 2 for bad input, 3 for a missing tool, 1 where hardware misbehaves."""


class InputError(EinRTLError, ValueError):
    """The user's input breaks a rule; holds every problem found, not just the first.

    It is a ``ValueError`` too, so that the check of a description may raise it from ``__post_init__`` and the reader of
    a file still learns where the value stood.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        place: Place | None = None,
        field: tuple[str | int, ...] = (),
        excerpt: str | None = None,
    ) -> None:
        self.problems: tuple[Problem, ...] = (
            Problem(message=message, hint=hint, place=place, field=field, excerpt=excerpt),
        )
        super().__init__(str(self.problems[0]))

    @classmethod
    def of(cls, problems: Iterable[Problem]) -> InputError:
        """Return one error that reports all ``problems`` in their order."""
        found = tuple(problems)
        error = cls(found[0].message)
        error.problems = found
        error.args = ("\n".join(map(str, found)),)
        return error


class ToolMissingError(EinRTLError):
    """A program that a step needs (a simulator, a compiler) is not there."""

    exit_code: ClassVar[int] = 3


class SimulationError(EinRTLError):
    """The simulated hardware did not build, hung, or broke a rule of its ports."""

    exit_code: ClassVar[int] = 1


def did_you_mean(word: str, known: Iterable[str], *, also: str = "") -> str:
    """Return a hint that names the nearest known word, or known words where none is near: all, or some of many.

    ``also`` is a further way out, appended.
    """
    from difflib import get_close_matches

    names = sorted(known)
    near = get_close_matches(word, names, n=1)
    if near:
        return f"did you mean {near[0]!r}?{' ' + also if also else ''}"
    if not names:
        return f"none is known{'; ' + also if also else ''}"
    shown = names if len(names) <= LISTED_NAMES else names[: LISTED_NAMES // 2]
    more = f" and {len(names) - len(shown)} more" if len(shown) < len(names) else ""
    return f"known: {', '.join(shown)}{more}{'; ' + also if also else ''}"


_WAYS_OUT = {
    errno.ENOSPC: "free some space, or write to another disk",
    errno.EDQUOT: "free some space, or write to another disk",
    errno.EFBIG: "raise the limit of file sizes, or write to another disk",
    errno.EACCES: "check its permissions, or choose another place",
    errno.EPERM: "check its permissions, or choose another place",
    errno.EROFS: "choose a place that can be written",
    errno.EISDIR: "name a file, not a folder",
    errno.ENAMETOOLONG: "use a shorter name",
    errno.EMFILE: "raise the limit of open files: ulimit -n 4096",
    errno.ENOMEM: "free some memory, or take a smaller problem",
}


def way_out(error: OSError, *, otherwise: str) -> str:
    """Return a hint for what the operating system refused; ``otherwise`` where its kind tells no better one."""
    return _WAYS_OUT.get(error.errno or 0, otherwise)


def unwritable(path: object, error: OSError, *, otherwise: str = "check the folder") -> InputError:
    """Return the error that says why ``path`` could not be written, and the way out.

    Parameters
    ----------
    path : Path or str
        The file, or words that name it.
    error : OSError
        What the operating system says.
    otherwise : str
        The way out where the kind of ``error`` tells no better one.
    """
    return InputError(f"{path} must be writable: {error.strerror or error}", hint=way_out(error, otherwise=otherwise))
