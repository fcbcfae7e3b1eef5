"""The bench that is written beside the Verilog of a block, for users who have nothing of ours."""

from __future__ import annotations

import json
from importlib.resources import files

from rtl.axi import PortWrapper
from rtl.emission import Bench
from sim.bench.vectors import vectors_of

__all__ = ["bench_of"]

_HEADER = "# SPDX-License-Identifier: Apache-2.0\n"


def bench_of(component: PortWrapper, name: str) -> Bench | None:
    """Return the bench of a block: ``sim.bench.stream`` and ``sim.bench.runner`` word for word, and its vectors."""
    vectors = vectors_of(component)
    if vectors is None:
        return None
    folder = files("sim.bench")
    return Bench(
        test=_HEADER + folder.joinpath("stream.py").read_text(encoding="utf-8"),
        runner=_HEADER + folder.joinpath("runner.py").read_text(encoding="utf-8"),
        vectors=_dump({"top": name, **vectors}),
    )


def _dump(vectors: dict[str, object]) -> str:
    """Return JSON with a beat a line."""
    text = json.dumps(vectors)
    return text.replace("]], ", "]],\n").replace("], [", "],\n[") + "\n"
