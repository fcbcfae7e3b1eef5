"""A design to synthesise: Verilog text, its top module, and what is known of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accel.errors import InputError
from rtl.emit import check_name

__all__ = ["Design", "read_design"]


@dataclass(frozen=True, kw_only=True)
class Design:
    """Verilog text and what is known of it.

    Parameters
    ----------
    verilog : str
        The text of all its modules.
    top : str
        Its top module.
    description : mapping
        Its sidecar: unit, parameters, formats, ports. Empty for Verilog of another origin.
    """

    verilog: str
    top: str
    description: Mapping[str, Any] = field(default_factory=dict)


def read_design(path: Path, top: str | None = None) -> Design:
    """Return the design in the Verilog file at ``path``, with the sidecar that lies beside it, if one does.

    Parameters
    ----------
    path : Path
        A file ``NAME.v``.
    top : str, optional
        Its top module; default the one that the sidecar names, else NAME.

    Raises
    ------
    InputError
        The file cannot be read, the sidecar is no JSON object, or the top is no plain identifier.
    """
    try:
        verilog = path.read_text(encoding="utf-8")
        beside = path.with_suffix(".json")
        description = json.loads(beside.read_text(encoding="utf-8")) if beside.is_file() else {}
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise InputError(
            f"{path} and the .json beside it must be Verilog and its sidecar in UTF-8, but are not",
            hint="write both with: einrtl rtl",
        ) from None
    except OSError as error:
        raise InputError(f"{path} must be a readable file: {error.strerror}", hint="check the path") from None
    if not isinstance(description, dict) or "parameters" not in description:
        description = {}
    name = top or str(description.get("top", path.stem))
    check_name(name)
    return Design(verilog=verilog, top=name, description=description)
