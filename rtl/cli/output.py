"""Writing a block, and showing what it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from accel.cli import console, print_json, progress, table
from rtl.axi import AxisWrapper, FlatWrapper
from rtl.contract import StreamUnit
from rtl.emission import emit_all
from rtl.emit import Emitted

__all__ = ["write"]


def write(core: StreamUnit, axi: bool, name: str, directory: Path, as_json: bool) -> None:
    """Write a block and show what it is."""
    with progress("writing Verilog"):
        emitted, files = emit_all(AxisWrapper(core) if axi else FlatWrapper(core), name, directory)
    if as_json:
        print_json({**emitted.description, "files": {role: str(path) for role, path in files.items()}})
    else:
        _show(emitted, core.contract.family, files)


_FIGURES: dict[str, Callable[[dict[str, Any]], tuple[tuple[str, object], ...]]] = {
    "softmax": lambda derived: (
        ("error bound of a row's sum", f"{derived['row_sum_error']:.3g}"),
        ("2**-u and reciprocal tables (bits)", derived["exp_rom_bits"] + derived["reciprocal_rom_bits"]),
        ("row buffer (words x bits)", f"{derived['buffer_beats']} x {derived['buffer_word_bits']}"),
        ("row queue (words x bits)", f"{derived['buffer_beats']} x {derived['row_queue_word_bits']}"),
    ),
    "activation": lambda derived: (
        ("table, all lanes (bits)", derived["rom_bits"]),
        ("segments", derived["segments"]),
        ("degree, multipliers of a lane", derived["degree"]),
        ("coefficients (bits each)", ", ".join(map(str, derived["coefficient_bits"]))),
    ),
    "closed-activation": lambda derived: (
        ("in place of", derived["stands_for"]),
        ("error against its own formula", f"{derived['formula_error']:.3g}"),
        ("multipliers of a lane", derived["multipliers"]),
    ),
    "norm": lambda derived: (
        ("1 / sqrt table (bits)", derived["rom_bits"]),
        ("denominator (bits)", derived["denominator_bits"]),
        ("row buffer (words x bits)", f"{derived['buffer_beats']} x {derived['buffer_word_bits']}"),
        ("row queue (words x bits)", f"{derived['buffer_beats']} x {derived['row_queue_word_bits']}"),
    ),
}
_FIGURES["primitive"] = _FIGURES["activation"]
"""What is special to a family."""

_LATENCIES = {
    "softmax": "latency, last score to first weight (cycles)",
    "activation": "latency (cycles)",
    "norm": "latency, last input to first result (cycles)",
    "closed-activation": "latency (cycles)",
    "primitive": "latency (cycles)",
}


_ROLES = {
    "verilog": "Verilog",
    "sidecar": "sidecar",
    "test": "cocotb bench",
    "vectors": "its vectors",
    "runner": "its runner",
    "core": "FuseSoC core",
}


def _show(emitted: Emitted, family: str, files: Mapping[str, Path]) -> None:
    """Print the ports and the figures of an emitted block."""
    out, what = console(), emitted.description
    rows = [(port["name"], port["direction"], port["width_bits"], port["meaning"]) for port in what["ports"]]
    out.print(table(f"Ports of {what['top']}", ("port", "direction", "bits", "meaning"), rows, right=(2,)))
    figures = (
        (_LATENCIES[family], what["latency_cycles"]),
        ("interval (cycles a beat)", what["interval_cycles"]),
        ("error bound of a result", f"{what['max_error']:.3g}"),
        *_FIGURES[family](what["derived"]),
        *((_ROLES[role], path) for role, path in files.items()),
    )
    out.print(table("Figures", ("figure", "value"), figures))
