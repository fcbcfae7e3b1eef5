"""Every cascade of the zoo against its formula: in float64, and in float32 with scores that break careless forms."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from accel.cascade import Cascade, cascade_names, load_cascade, load_cascades
from accel.notation import parse
from accel.zoo import TEMPLATES, load_zoo
from tests.accel.zoo_reference import OUTPUTS, WEIGHTS

ZOO = load_zoo()
FORMS = [(name, form) for name, entry in ZOO.entries.items() for form in entry.forms]
EXTENTS = {
    "p": 5, "m": 12, "k": 11, "e": 4, "f": 3, "h": 2, "d": 6, "n": 5, "c": 3, "half": 2, "s": 5, "v": 12, "r": 7,
    "g": 4, "m0": 3,
}  # fmt: skip
SIZES = {"M0": 3, "V0": 3, "W": 3}
LARGEST = {"sparsemax": 12, "entmax15": 12}


def sizes_of(name: str) -> dict[str, int]:
    return SIZES | {"J": LARGEST.get(name, 4)}


def inputs_of(name: str, cascade: Cascade, seed: int = 1) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    found: dict[str, Any] = {}
    for tensor in cascade.inputs:
        shape = tuple(EXTENTS[rank] for rank in tensor.ranks)
        found[tensor.name] = rng.normal(scale=1.5 if tensor.name == "X" else 1.0, size=shape)
    if name == "simplified-channel-attention":
        found["W"] = rng.normal(size=(EXTENTS["c"], EXTENTS["c"]))
    if name == "gumbel-softmax":
        found["U"] = rng.uniform(0.05, 0.95, size=found["U"].shape)
    if name == "vq-logits":
        found["N"] = rng.integers(1, 9, size=found["N"].shape).astype(float)
    if name == "sdm":
        found["Q"] = rng.integers(0, 5, size=found["Q"].shape).astype(float)
        found["D"] = rng.uniform(0.1, 1, size=found["D"].shape)
    if name == "cut-cross-entropy":
        found["T"] = np.eye(EXTENTS["v"])[rng.integers(0, EXTENTS["v"], size=EXTENTS["p"])]
    return found


def expected(name: str, form: str, inputs: dict[str, Any]) -> Any:
    wide = SimpleNamespace(**{key: np.asarray(value, np.longdouble) for key, value in inputs.items()})
    with np.errstate(all="ignore"):
        if form == "materialised":
            return WEIGHTS[name](wide)
        return OUTPUTS[name](wide) if name in OUTPUTS else WEIGHTS[name](wide) @ wide.V


def result(name: str, cascade: Cascade, inputs: dict[str, Any], dtype: str = "float64") -> Any:
    return cascade.evaluate(inputs, sizes_of(name), dtype)[cascade.outputs[0]]


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_a_cascade_computes_its_formula(name: str, form: str) -> None:
    cascade = ZOO.entries[name].forms[form]
    for seed in (1, 2, 3):
        inputs = inputs_of(name, cascade, seed)
        reference = expected(name, form, inputs).astype(np.float64)
        np.testing.assert_allclose(
            result(name, cascade, inputs), reference, rtol=1e-9, atol=1e-9 * float(np.abs(reference).max())
        )


# Rows of scores that overflow, cancel or are masked.
COLUMNS = EXTENTS["m"]
ROWS = {
    "alternating": np.tile([1e4, -1e4], COLUMNS // 2),
    "rising": np.linspace(-1e4, 1e4, COLUMNS),
    "falling": np.linspace(1e4, -1e4, COLUMNS),
    "equal and high": np.full(COLUMNS, 1e4),
    "equal and low": np.full(COLUMNS, -1e4),
    "zero": np.zeros(COLUMNS),
    "one above all": np.where(np.arange(COLUMNS) == 7, 0.0, -1e4),
    "all masked but the first": np.where(np.arange(COLUMNS) == 0, 2.0, -math.inf),
    "all masked but the last": np.where(np.arange(COLUMNS) == COLUMNS - 1, -3.0, -math.inf),
    "masked ahead": np.where(np.arange(COLUMNS) < 5, -math.inf, np.linspace(-2, 2, COLUMNS)),
}
# What a row must not be: masked, where no mask is defined on scores; equal, where its deviation divides.
ROUNDED_SUMS = {"gumbel-softmax": 2e-3}
"""Noise is added to the scores themselves, and 1e4 leaves it 11 bits in single precision."""
UNMASKED = {"nap", "multimax", "mixed-pooling", "gated-pooling", "rela", "fourier-attention", "soft-moe", "scap"}
SPREAD = {"nap"}
NAIVE = {"softmax-naive", "attention-naive", "attention-naive-deferred"}
SCORED = [
    (name, form)
    for name, form in FORMS
    if any(tensor.ranks == ("p", "m") and tensor.name in ("X", "QK") for tensor in ZOO.entries[name].forms[form].inputs)
    and name not in NAIVE
    and name != "forgetting-attention"  # its mask is its own; below
]


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize(("name", "form"), SCORED)
def test_a_cascade_survives_adversarial_scores_in_single_precision(name: str, form: str, row: str) -> None:
    scores = ROWS[row].astype(np.float32)
    if (name in UNMASKED and "masked" in row) or (name in SPREAD and ("equal" in row or row == "zero")):
        pytest.skip("the formula does not define it")
    cascade = ZOO.entries[name].forms[form]
    inputs = {key: value.astype(np.float32) for key, value in inputs_of(name, cascade).items()}
    inputs["QK" if "QK" in inputs else "X"] = np.tile(scores, (EXTENTS["p"], 1))
    reference = expected(name, form, inputs).astype(np.float64)
    assert np.isfinite(reference).all()
    found = result(name, cascade, inputs, "float32").astype(np.float64)
    rtol = ROUNDED_SUMS.get(name, 1e-4)
    np.testing.assert_allclose(found, reference, rtol=rtol, atol=1e-5 * max(float(np.abs(reference).max()), 1))


@pytest.mark.parametrize("value", [1e4, -1e4, 0.0])
def test_forgetting_attention_survives_large_scores_and_gates(value: float) -> None:
    cascade = load_cascade("forgetting-attention")
    inputs = {key: array.astype(np.float32) for key, array in inputs_of("forgetting-attention", cascade).items()}
    inputs["X"] = np.full_like(inputs["X"], value)
    inputs["F"] = np.tile(np.float32([-50, 50]), EXTENTS["m"] // 2)
    reference = expected("forgetting-attention", "contracted", inputs)
    np.testing.assert_allclose(result("", cascade, inputs, "float32"), reference.astype(float), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["gelu", "swish", "mish", "aglu", "pau", "gelu-tanh"])
def test_activations_stay_finite_far_from_zero(name: str) -> None:
    cascade = load_cascade(name)
    x = np.float32([[-1e4, -100, -20.5, 0, 20.5, 100, 1e4]])
    reference = expected(name, "materialised", {"X": x}).astype(np.float64)
    np.testing.assert_allclose(result(name, cascade, {"X": x}, "float32"), reference, rtol=1e-4, atol=2e-7)


def test_softpick_without_the_zero_in_its_maximum_loses_rows_that_rise() -> None:
    # exp(-M) overflows in the first tile, and the correction that takes it to the second makes 0 times infinity.
    text = str(load_cascade("softpick")).replace("RM[p,0] = 0", "RM[p,0] = -1e30")
    inputs = {"X": np.array([[-200.0] * 3 + [2.0] * 3]), "V": np.ones((6, 1))}
    assert np.isnan(parse(text).evaluate(inputs, {"M0": 3}, "float32")["O"]).all()
    e = math.exp(2) - 1
    assert load_cascade("softpick").evaluate(inputs, {"M0": 3}, "float32")["O"] == pytest.approx(3 * e / (3 * e + 3))


@pytest.mark.parametrize("name", ["softpick", "self-adjust-normalised", "nap", "adaptive-temperature"])
def test_a_wrong_correction_is_noticed(name: str) -> None:
    cascade = ZOO.entries[name].forms["contracted"]
    text = str(cascade)
    for right, wrong in (
        ("RM[p,m1] - RM[p,m1+1]", "0 * RM[p,m1]"),
        ("- (RU[p,m+1] - RU[p,m])", "+ (RU[p,m+1] - RU[p,m])"),
    ):
        text = text.replace(right, wrong)
    assert text != str(cascade) or name == "adaptive-temperature"
    if name == "adaptive-temperature":
        text = text.replace("0.481", "0.581")
    inputs = inputs_of(name, cascade)
    reference = expected(name, "contracted", inputs).astype(np.float64)
    assert np.abs(result(name, parse(text), inputs) - reference).max() > 1e-4


def test_every_packaged_cascade_has_an_entry_and_every_entry_a_source() -> None:
    assert set(ZOO.entries) == set(cascade_names())
    for name, entry in ZOO.entries.items():
        assert load_cascades(name)[-1].name == name
        assert "Source: " in load_cascade(name).description
        assert entry.template in TEMPLATES
        for cascade in entry.forms.values():
            assert entry.rank in cascade.ranks


def test_what_is_left_out_names_its_reason() -> None:
    assert len(ZOO.left_out) > 20
    assert all(each.name and each.reason for each in ZOO.left_out)
