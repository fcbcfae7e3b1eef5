"""Descriptions that come with the package, found by name, and the same kind of description in a user's own file."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TypeVar

from accel import spec
from accel.errors import InputError, did_you_mean

__all__ = ["load_preset", "preset_names"]

T = TypeVar("T")


def preset_names(kind: str) -> tuple[str, ...]:
    """Return the sorted names of the packaged descriptions of one ``kind``, a folder of ``accel/data``."""
    folder = files("accel") / "data" / kind
    return tuple(sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml")))


def load_preset(cls: type[T], kind: str, name_or_path: str | Path, *, what: str) -> T:
    """Return the ``cls`` of a packaged name or of a file.

    Text that ends in ``.yaml`` or ``.yml``, or holds a path separator, is a path; anything else is a name.

    Parameters
    ----------
    cls : type
        The dataclass to read.
    kind : str
        Folder of ``accel/data`` that holds the packaged files.
    name_or_path : str or Path
        What to load.
    what : str
        What messages call it, with its article: ``an architecture``.

    Raises
    ------
    InputError
        No packaged description has the name, or the file breaks a rule.
    """
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or text.endswith((".yaml", ".yml")) or "/" in text or "\\" in text:
        return spec.load(cls, Path(name_or_path))
    names = preset_names(kind)
    if text not in names:
        raise InputError(
            f"{text!r} is not the name of {what}",
            hint=did_you_mean(text, names, also="a file needs its .yaml ending"),
        )
    packaged = files("accel") / "data" / kind / f"{text}.yaml"
    return spec.loads(cls, packaged.read_text(encoding="utf-8"), file=f"{text}.yaml")
