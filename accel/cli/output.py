"""Files that a command writes: refused before its work rather than after."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from accel.errors import InputError, unwritable

__all__ = ["check_output"]


def check_output(file: Path | None, kind: str = "", ending: str = "") -> None:
    """Refuse a file that cannot be written, as far as that shows before there is anything to write.

    Parameters
    ----------
    file : Path, optional
        What an option names, if it is given.
    kind, ending : str
        What the file is in words, and the ending it must have; none if empty.

    Raises
    ------
    InputError
        It has another ending, is a folder, lies in no folder, or may not be written.
    """
    if file is None:
        return
    if ending and file.suffix.lower() != ending:
        raise InputError(f"the {kind} must be a {ending} file, not {file.name!r}", hint=f"use {file.stem}{ending}")
    if not file.parent.is_dir():
        if file.parent.exists():
            raise InputError(f"{file} must be in a folder, but {file.parent} is a file", hint="name another folder")
        raise InputError(f"{file} must be in a folder, but {file.parent} is none", hint="make it first")
    if file.is_dir():
        raise unwritable(file, _system_error(errno.EISDIR))
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise unwritable(file, _system_error(errno.EACCES))


def _system_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
