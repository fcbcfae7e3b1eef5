"""What ``einrtl rtl`` writes beside the Verilog: a bench for users who have nothing of ours, and a core file."""

from __future__ import annotations

import ast
import importlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from amaranth import Shape
from rich.console import Console

from accel.reordered_unit import ReorderedUnit
from rtl.attention.reordered import ReorderedPorts
from rtl.axi import AxisWrapper, FlatWrapper, PortWrapper
from rtl.contract import StreamUnit
from rtl.emission import core_file
from rtl.registry import UNITS
from sim.bench.emission import bench_of
from sim.bench.vectors import vectors_of
from sim.toolchain import find_toolchain

NAME = "relu_attention"
FILES = {f"{NAME}.v", f"{NAME}.json", f"{NAME}.core", f"test_{NAME}.py", f"{NAME}_vectors.json", f"run_{NAME}.py"}


def ports_of(name: str, *, flat: bool = False) -> PortWrapper:
    """A unit with its default parameters behind its ports."""
    block = UNITS[name].build(UNITS[name].default)
    if isinstance(UNITS[name].default, ReorderedUnit):
        return ReorderedPorts(block)
    return FlatWrapper(block) if flat else AxisWrapper(block)


def has_streams(name: str) -> bool:
    """Whether a unit has streams only: units on a memory bus have benches of another kind."""
    return isinstance(UNITS[name].default, ReorderedUnit) or issubclass(UNITS[name].build, StreamUnit)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [name for name in UNITS if has_streams(name)])
def test_every_unit_has_vectors_for_exactly_its_ports(name: str) -> None:
    for flat in (False, True):
        component = ports_of(name, flat=flat)
        vectors = vectors_of(component)
        assert vectors is not None
        members = component.signature.members
        used = {vectors["clock"], vectors["reset"]}
        for port in (*vectors["sources"], *vectors["sinks"]):
            used |= {port["valid"], port["ready"], *port["fields"]}
            assert len(port["beats"]) > 3
            for field, words in zip(port["fields"], zip(*port["beats"], strict=True), strict=True):
                bits = Shape.cast(members[field].shape).width
                assert all(int(word, 16) < 1 << bits for word in words), field
        assert used == set(component.meanings) - set(component.status)
        sent = [len(port["beats"]) for port in (*vectors["sources"], *vectors["sinks"])]
        assert vectors["cycles"] is None or sent == [len(vectors["cycles"])] * 2


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that ``einrtl rtl`` writes for a small unit."""
    folder = tmp_path_factory.mktemp("emitted")
    command = "from accel.cli import main; main()"
    words = ["rtl", "relu-attention", "--divisor", "100", "--bias", "0.25", "-o", str(folder)]
    done = subprocess.run([sys.executable, "-c", command, *words], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(file in done.stdout.replace("\n", "") for file in FILES)
    return folder


def run_bench(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the bench of ``folder`` where none of our packages can be imported."""
    hidden = folder / "hidden"
    hidden.mkdir()
    for package in ("accel", "mapping", "rtl", "sim"):
        (hidden / f"{package}.py").write_text("raise ImportError('this package is not here')\n")
    environment = {**os.environ, "PYTHONPATH": str(hidden), "MAKEFLAGS": ""}
    command = [sys.executable, f"run_{NAME}.py"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900)


def test_the_bench_passes_without_our_packages_and_fails_if_a_constant_of_the_verilog_is_changed(
    emitted: Path, tmp_path: Path
) -> None:
    assert {path.name for path in emitted.iterdir()} == FILES
    text = (emitted / f"{NAME}.v").read_text()
    # Synthesis takes the powers of two out of the constant factor.
    (literal,) = re.findall(r"\* \d+'d(\d+)", text)
    wrong = str(int(literal) ^ 2)
    for changed in (False, True):
        folder = tmp_path / str(changed)
        folder.mkdir()
        for name in FILES:
            (folder / name).write_text((emitted / name).read_text())
        if changed:
            (folder / f"{NAME}.v").write_text(text.replace(f"'d{literal}", f"'d{wrong}"))
        done = run_bench(folder)
        assert done.returncode == int(changed), done.stdout[-2000:] + done.stderr[-2000:]
        assert ("m_axis_tdata is 0x" in done.stdout) == changed


def test_the_bench_imports_the_standard_library_and_cocotb_only(emitted: Path) -> None:
    for name in (f"test_{NAME}.py", f"run_{NAME}.py"):
        for node in ast.walk(ast.parse((emitted / name).read_text())):
            modules = [node.module] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for module in modules:
                assert str(module).split(".")[0] in {*sys.stdlib_module_names, "cocotb", "cocotb_tools"}


def fusesoc(*arguments: str, folder: Path) -> str:
    """What fusesoc prints; it must end with 0."""
    toolchain = find_toolchain()
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    if not (tools / "verilator").exists():
        (tools / "verilator").symlink_to(toolchain.verilator)
    search = os.pathsep.join([str(tools), os.environ["PATH"]])
    environment = {**os.environ, "PATH": search, "VERILATOR_ROOT": str(toolchain.verilator_root)}
    command = [sys.executable, "-c", "from fusesoc.main import main; main()", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_fusesoc_lists_shows_and_lints_the_core(emitted: Path, tmp_path: Path) -> None:
    roots = ("--cores-root", str(emitted))
    assert f"einrtl:units:{NAME}:" in fusesoc(*roots, "core", "list", folder=tmp_path)
    shown = fusesoc(*roots, "core", "show", f"einrtl:units:{NAME}", folder=tmp_path)
    assert all(f"{target} " in shown for target in ("default", "lint", "sim"))
    linted = fusesoc(*roots, "run", "--target=lint", f"einrtl:units:{NAME}", folder=tmp_path)
    assert "verilator -f" in linted and "Warning" not in linted
    fusesoc(*roots, "run", "--setup", "--target=sim", f"einrtl:units:{NAME}", folder=tmp_path)
    (work,) = tmp_path.glob("build/*/sim")
    assert {path.name for path in work.iterdir()} >= FILES - {f"{NAME}.core", f"{NAME}.json"}


def test_a_block_without_a_golden_model_has_a_core_file_without_a_bench() -> None:
    assert bench_of(SimpleNamespace(core=SimpleNamespace()), "unknown") is None  # type: ignore[arg-type]
    text = core_file("unknown", 'a "quoted" block')
    assert "description: \"a 'quoted' block\"" in text
    assert "bench" not in text and "sim:" not in text


def test_the_table_of_units_fits_100_columns_and_shows_formats_short(
    einrtl: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Console(width=100, highlight=False, record=True, file=io.StringIO())
    monkeypatch.setattr(importlib.import_module("accel.cli.root"), "console", lambda: out)
    einrtl("list", "units")
    shown, full = out.export_text(), json.loads(einrtl("list", "units", "--json").out)
    for unit in full:
        (line,) = (line for line in shown.splitlines() if line.startswith(f" {unit['name']} "))
        short = [unit[f"{port}_format"].partition(",")[0] for port in ("input", "output")]
        assert line.split()[-3:] == [*short, f"{unit['max_error']:.3g}"]
        assert len(line.rstrip()) <= 100
    assert "s16f10,nearest_even,saturate" in {unit["input_format"] for unit in full}
