"""Shared libraries of emitted Verilog: what ``sim.compiled``, ``sim.streams`` and ``sim.attention_array`` build on.

A library is Verilator's model of one Verilog text and a shim that drives it, in one translation unit; it is built once
for the same texts and tools, and taken from the cache afterwards.
"""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from accel.errors import InputError, SimulationError
from sim.toolchain import Toolchain

__all__ = ["SHARES", "build_library", "load_library"]

BUILD_TIMEOUT_S = 900
SHARES = 1 << 16
"""Steps of the share of cycles in which a port moves, as the shims count it."""

_COMPILE = ("-std=c++20", "-O2", "-fPIC", "-w")
_RUNTIME = ("verilated.cpp", "verilated_threads.cpp")


def load_library(library: Path) -> ctypes.CDLL:
    """Return the calls of a library, which are those of every shim: new, delete, reset, status and run."""
    calls = ctypes.CDLL(str(library))
    calls.einrtl_new.restype = ctypes.c_void_p
    calls.einrtl_run.restype = ctypes.c_int
    for name in ("einrtl_delete", "einrtl_reset", "einrtl_status"):
        getattr(calls, name).restype = None
    return calls


def _tool(command: Sequence[object], folder: Path, what: str) -> None:
    """Run a tool in ``folder``; its last lines are the message if it fails."""
    try:
        done = subprocess.run(
            [str(word) for word in command],
            cwd=folder,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=BUILD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SimulationError(f"{what} did not end within {BUILD_TIMEOUT_S} s") from None
    if done.returncode:
        tail = "\n".join(f"  {line}" for line in (done.stdout + done.stderr).splitlines()[-20:])
        raise SimulationError(f"{what} failed; its last lines:\n{tail}")


def _aside(final: Path) -> Path:
    """Return a new folder beside ``final``: a build that was killed is never taken for a finished one."""
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f".{final.name}-", dir=final.parent))
    except OSError as error:
        raise InputError(
            f"the build folder {final.parent} must be writable: {error.strerror}", hint="choose another"
        ) from None


def _includes(toolchain: Toolchain) -> tuple[str, ...]:
    include = toolchain.verilator_root / "include"
    switches = ("COVERAGE", "SC", "TIMING", "TRACE")
    return (f"-I{include}", f"-I{include / 'vltstd'}", *(f"-DVM_{name}=0" for name in switches))


def _runtime(toolchain: Toolchain, cache: Path) -> list[Path]:
    """Return Verilator's own objects, compiled once for a cache."""
    digest = hashlib.sha256(str((toolchain.verilator_root, toolchain.compiler, _COMPILE)).encode()).hexdigest()[:16]
    found = []
    for name in _RUNTIME:
        final = cache / f"runtime-{digest}-{Path(name).stem}.o"
        if not final.is_file():
            folder = _aside(final)
            try:
                source = toolchain.verilator_root / "include" / name
                command = (toolchain.compiler, *_COMPILE, *_includes(toolchain), "-c", source, "-o", "runtime.o")
                _tool(command, folder, "the build of Verilator's runtime")
                (folder / "runtime.o").replace(final)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        found.append(final)
    return found


def build_library(
    verilog: Path, top: str, *, glue: str, shim: Path, toolchain: Toolchain, cache: Path
) -> tuple[Path, float]:
    """Return the library of a Verilog text, and the seconds that its build took: 0 if ``cache`` had it.

    Parameters
    ----------
    verilog : Path
        The emitted file.
    top : str
        Its top module.
    glue : str
        C++ that goes before the shim: what the shim must know of the ports.
    shim : Path
        C++ that drives the model; beside this module.
    toolchain : Toolchain
        Verilator and the compiler.
    cache : Path
        Folder of libraries, made if missing.

    Raises
    ------
    InputError
        ``cache`` cannot be written.
    SimulationError
        The Verilog does not compile; the message ends with the tool's last lines.
    """
    text, driver = verilog.read_bytes(), shim.read_text(encoding="utf-8")
    parts = (text.decode(), top, glue, driver, str(toolchain.verilator_root), toolchain.compiler, *_COMPILE)
    final = cache.resolve() / f"{hashlib.sha256('|'.join(parts).encode()).hexdigest()[:16]}.so"
    if final.is_file():
        return final, 0.0
    started = time.perf_counter()
    folder = _aside(final)
    try:
        (folder / f"{top}.v").write_bytes(text)
        # "env" sets what Verilator asks for without a change to the environment of this process.
        verilator = ("env", f"VERILATOR_ROOT={toolchain.verilator_root}", toolchain.verilator)
        options = ("--cc", "-O3", "--prefix", "Vunit", "--Mdir", "model", "--top-module", top, f"{top}.v")
        _tool((*verilator, *options), folder, "Verilator")
        # One translation unit: the headers are read once.
        parts_of_model = sorted(path.name for path in (folder / "model").glob("*.cpp"))
        whole = glue + driver + "".join(f'#include "{name}"\n' for name in parts_of_model)
        (folder / "unit.cpp").write_text(whole, encoding="utf-8")
        runtime = _runtime(toolchain, cache.resolve())
        command = (toolchain.compiler, *_COMPILE, *_includes(toolchain), "-Imodel", "-shared", "unit.cpp", *runtime)
        _tool((*command, "-o", "unit.so"), folder, "the build of the compiled unit")
        (folder / "unit.so").replace(final)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return final, time.perf_counter() - started
