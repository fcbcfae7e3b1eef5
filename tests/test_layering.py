"""The import rules of the house: what may import what, and where the outside world may be touched."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("accel", "mapping", "rtl", "sim")
FORBIDDEN = {
    "accel": {"mapping", "rtl", "sim", "amaranth", "cocotb", "cocotb_tools", "cocotbext", "matplotlib"},
    "mapping": {"rtl", "sim", "amaranth", "cocotb", "cocotb_tools", "cocotbext"},
    "rtl": {"mapping", "sim", "yaml", "matplotlib", "cocotb", "cocotb_tools", "cocotbext"},
    "sim": set(),
    "sim.golden": {"mapping", "rtl", "amaranth", "cocotb", "cocotb_tools", "cocotbext", "matplotlib"},
}
PROCESS_ENTRIES = {"rtl/synth/worker.py", "sim/bench/runner.py", "sim/formal/worker.py", "sim/worker.py"}
"""Programs of their own, which read the environment and may end their process, as a cli module may.

``sim/bench/runner.py`` is written word for word beside emitted Verilog, for users to run. None is ever imported.
"""


def modules() -> list[Path]:
    """All Python files of the four packages, relative to the root."""
    return sorted(path.relative_to(ROOT) for room in ROOMS for path in (ROOT / room).rglob("*.py"))


def imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every imported module with its line, imports inside functions included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports between modules are absolute"
            yield node.module or "", node.lineno


def violations(path: Path, source: str) -> list[str]:
    """What the module at ``path`` does that its room must not do."""
    tree, found = ast.parse(source), []
    module = ".".join(path.with_suffix("").parts)
    room = "sim.golden" if module.startswith("sim.golden") else path.parts[0]
    may_touch_process = path.name == "cli.py" or "cli" in path.parts or path.as_posix() in PROCESS_ENTRIES
    for name, line in imports(tree):
        top = name.split(".")[0]
        inside_golden = name == "sim.golden" or name.startswith("sim.golden.")
        if top in FORBIDDEN[room] or (room == "sim.golden" and top == "sim" and not inside_golden):
            found.append(f"{path}:{line}: {room} imports {name}")
        if top == "yaml" and module != "accel.spec":
            found.append(f"{path}:{line}: yaml outside accel.spec")
        if top == "matplotlib" and "plot" not in path.stem:
            found.append(f"{path}:{line}: matplotlib outside plot modules")
        if top == "logging" and not may_touch_process:
            found.append(f"{path}:{line}: logging outside cli")
    if not may_touch_process:
        for node in ast.walk(tree):
            text = ast.unparse(node) if isinstance(node, ast.Attribute | ast.Name) else ""
            if text in ("print", "exit", "sys.exit", "sys.stdout", "os.environ", "os.getenv", "os._exit"):
                found.append(f"{path}:{node.lineno}: {text} outside cli")  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("path", modules(), ids=str)
def test_a_module_keeps_to_its_room(path: Path) -> None:
    assert violations(path, (ROOT / path).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("path", "source", "expected"),
    [
        ("accel/x.py", "import rtl", "accel imports rtl"),
        ("accel/x.py", "def f():\n    from mapping.model import price", "accel imports mapping.model"),
        ("mapping/x.py", "from amaranth import *", "mapping imports amaranth"),
        ("rtl/x.py", "import sim.golden", "rtl imports sim.golden"),
        ("sim/golden/x.py", "from rtl import emit", "sim.golden imports rtl"),
        ("sim/golden/x.py", "from sim.compare import compare", "sim.golden imports sim.compare"),
        ("sim/x.py", "import yaml", "yaml outside accel.spec"),
        ("mapping/model.py", "import matplotlib.pyplot", "matplotlib outside plot modules"),
        ("mapping/model.py", "print('x')", "print outside cli"),
        ("sim/x.py", "import os\nos.environ['A'] = 'b'", "os.environ outside cli"),
    ],
)
def test_a_broken_rule_is_found(path: str, source: str, expected: str) -> None:
    assert [line.partition(": ")[2] for line in violations(Path(path), source)] == [expected]


def test_every_room_has_modules() -> None:
    assert {path.parts[0] for path in modules()} == set(ROOMS)
