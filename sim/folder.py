"""A result folder that appears complete or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from accel.errors import InputError

__all__ = ["MARKER", "result_folder"]

MARKER = "result.json"
"""The file by which an earlier result is known; only such a folder, or an empty one, is replaced."""


@contextmanager
def result_folder(final: Path) -> Iterator[Path]:
    """Give a temporary folder that becomes ``final`` when the block ends well, and vanishes when it does not.

    Raises
    ------
    InputError
        ``final`` is a file, or a folder that holds something else than an earlier result, or cannot be written.
    """
    if final.exists() and not final.is_dir():
        raise InputError(f"the output {final} must be a folder, but is a file", hint="choose another with -o")
    if final.is_dir() and any(final.iterdir()) and not (final / MARKER).is_file():
        raise InputError(
            f"the output folder {final} must be empty or hold an earlier result, but has other files",
            hint="choose another with -o",
        )
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        working = Path(tempfile.mkdtemp(prefix=f".{final.name}-", dir=final.parent))
    except OSError as error:
        raise InputError(
            f"the output folder {final} must be writable: {error.strerror}", hint="choose another with -o"
        ) from None
    try:
        working.chmod(0o755)
        yield working
        if final.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{final.name}-", dir=final.parent))
            final.rename(old / "old")
            working.rename(final)
            shutil.rmtree(old)
        else:
            working.rename(final)
    finally:
        shutil.rmtree(working, ignore_errors=True)
