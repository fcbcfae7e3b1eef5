"""The window of a mask: how many keys a query sees, and who says so."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel.cascade import Cascade
from accel.errors import InputError
from accel.workload import Workload, read_hugging_face_config

__all__ = ["SYMBOL", "Window", "find_window"]

SYMBOL = "W"
"""The parameter of a cascade by which its filters name the window."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """The window that the filters of a cascade use.

    Parameters
    ----------
    keys : int
        Keys that a query sees at most, its own position included.
    source : str
        ``flag``, ``model`` or ``default``: the command line, the model's configuration, the cascade's own default.
    note : str
        What else the source says of it; empty if nothing.
    """

    keys: int
    source: str
    note: str = ""

    def __str__(self) -> str:
        """Return what a report says."""
        named = {"flag": "--window", "model": "the model's own", "default": "the cascade's default"}[self.source]
        return f"Window: W = {self.keys} keys ({named}{', ' + self.note if self.note else ''})."

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"keys": self.keys, "source": self.source}


def find_window(cascade: Cascade, workload: Workload, model: Path, given: int | None) -> Window | None:
    """Return the window that the filters of a cascade use; None if they use none.

    Parameters
    ----------
    cascade : Cascade
        What is computed.
    workload : Workload
        As ``accel.workload_file.read_workload`` returned it for ``model`` and ``given``.
    model : Path
        The file of the model.
    given : int, optional
        What ``--window`` says.

    Raises
    ------
    InputError
        A window is given on the command line for a cascade that has none.
    """
    default = next((each.default for each in cascade.parameters if each.name == SYMBOL), None)
    if default is None:
        if given is not None:
            raise InputError(
                f"--window must be for a cascade with a window {SYMBOL}, but cascade {cascade.name!r} has none",
                hint="leave it out, or use --cascade attention-1pass-window",
            )
        return None
    if given is not None:
        return Window(keys=given, source="flag")
    if workload.window is None:
        return Window(keys=int(default), source="default")
    found = read_hugging_face_config(model)  # no model in ONNX has a window
    note = "" if found.windowed_layers == found.layers else f"in {found.windowed_layers} of its {found.layers} layers"
    return Window(keys=workload.window, source="model", note=note)
