"""The example that puts a network through the arithmetic of the attention cores, on a small random network."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.test_minilm_data import tiny_bert

FOLDER = Path(__file__).parents[1] / "examples" / "data"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("minilm_embeddings", FOLDER / "minilm_embeddings.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_sixteen_bits_are_nearer_to_float64_than_eight(script: ModuleType) -> None:
    weights = tiny_bert(np.random.default_rng(7), layers=2, width=6)
    found = script.embeddings(weights, [[3, 1, 6, 1], [2, 5]], layers=2, heads=3)
    assert set(found) == {f"{core}, {bits} bits" for core in ("array", "reordered") for bits in (16, 8)}
    for core in ("array", "reordered"):
        wide, narrow = (1 - np.array(found[f"{core}, {bits} bits"]) for bits in (16, 8))
        assert len(wide) == 2
        assert (wide < 1e-5).all()
        assert narrow.max() > wide.max()


def test_the_cores_replace_attention_and_nothing_is_passed_by(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = tiny_bert(np.random.default_rng(7), layers=2, width=6)
    monkeypatch.setitem(script.CORES, "array", lambda bits: lambda query, key, value: -value)
    found = script.embeddings(weights, [[3, 1, 6, 1]], layers=2, heads=3)
    assert found["array, 16 bits"][0] < 0.999 < found["reordered, 16 bits"][0]
