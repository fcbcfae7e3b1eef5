"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from accel.errors import unwritable

__all__ = ["write_text", "writing"]

_MODE = 0o644


@contextmanager
def writing(path: Path, *, make_folder: bool = False, otherwise: str = "check the folder") -> Iterator[IO[bytes]]:
    """Open a file for new content, which takes the place of the old once the block has ended without an error.

    Until then ``path`` holds what it held before, whatever happens: a full disk, an interrupt, a fault. What is no
    regular file, as ``/dev/stdout``, is written directly. A link stays one; its target is replaced.

    Parameters
    ----------
    path : Path
        The file.
    make_folder : bool
        Make its folder if it is missing.
    otherwise : str
        The way out where the kind of fault tells no better one.

    Raises
    ------
    InputError
        It cannot be written.
    """
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            with path.open("wb") as file:
                yield file
            return
        final = path.resolve()
        if make_folder:
            final.parent.mkdir(parents=True, exist_ok=True)
        if final.is_dir():
            final.open("wb").close()  # says what is wrong
        mode = final.stat().st_mode & 0o777 if final.exists() else _MODE
        handle, temporary = tempfile.mkstemp(dir=final.parent, prefix=f".{final.name[:100]}.")
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
            Path(temporary).chmod(mode)
            Path(temporary).replace(final)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise unwritable(path, error, otherwise=otherwise) from None


def write_text(path: Path, text: str, *, make_folder: bool = False, otherwise: str = "check the folder") -> None:
    r"""Write ``text`` as UTF-8, lines ending in ``\n`` on every system; else as ``writing``.

    Raises
    ------
    InputError
        It cannot be written.
    """
    with writing(path, make_folder=make_folder, otherwise=otherwise) as file:
        file.write(text.encode("utf-8"))
