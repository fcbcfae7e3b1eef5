"""FPGA devices, committed samples, and the model that is fitted to them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from accel import spec
from accel.errors import InputError
from accel.fpga import (
    QUANTITIES,
    CostModel,
    device_names,
    features,
    fit_model,
    load_device,
    load_model,
    load_samples,
    model_name,
    read_samples,
    sample_targets,
    write_samples,
)
from accel.fpga.fit import leave_one_out, non_negative_least_squares


def test_the_named_devices_are_there_and_offer_what_synthesis_counts() -> None:
    assert set(device_names()) == {"artix7-100t", "ecp5-25", "ecp5-45", "ecp5-85", "ice40-up5k", "u280", "zcu102"}
    for name in device_names():
        device = load_device(name)
        assert set(device.budget) == set(QUANTITIES)
        assert all(count >= 0 for count in device.budget.values()), name
        assert device.budget["lut_count"] > 1000


def test_a_device_without_a_source_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        dataclasses.replace(load_device("zcu102"), sources={"resources": "a data sheet"})
    assert str(caught.value) == "sources must name where the clock come from; add clock"


@pytest.mark.parametrize("target", sample_targets())
def test_the_committed_model_is_the_fit_of_the_committed_samples(target: str) -> None:
    fitted = fit_model(target, load_samples(target))
    assert spec.loads(CostModel, spec.dump(fitted)) == load_model(target)


def test_samples_survive_their_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    samples = load_samples("ecp5")
    write_samples(tmp_path / "s.csv", samples)
    assert read_samples((tmp_path / "s.csv").read_text(encoding="utf-8"), "s.csv") == samples


def test_designs_that_the_model_never_saw_are_predicted_within_15_per_cent() -> None:
    model = load_model("ecp5")
    held_out = [sample for sample in load_samples("ecp5") if sample.use == "check"]
    assert {sample.family for sample in held_out} == {"activation", "norm", "softmax"}
    for sample in held_out:
        found = model.predict(sample.unit, sample.family, sample.description)
        for quantity in ("lut_count", "ff_count"):
            assert found.counts[quantity] == pytest.approx(sample.counts[quantity], rel=0.15), sample.command
        for quantity in ("dsp_count", "block_ram_count"):
            assert found.counts[quantity] == pytest.approx(sample.counts[quantity], rel=0.15, abs=1), sample.command


def test_outside_the_samples_a_prediction_says_so() -> None:
    model = load_model("ecp5")
    sample = next(each for each in load_samples("ecp5") if each.unit == "softmax")
    assert model.predict("softmax", "softmax", sample.description).extrapolated == ()
    far = {**sample.description, "parameters": {**sample.description["parameters"], "lanes": 1000}}
    assert "lane_input_bits" in model.predict("softmax", "softmax", far).extrapolated
    assert set(features("softmax", far)) == set(features("softmax", sample.description))


def test_a_unit_without_samples_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        load_model("ecp5").predict("softmx", "softmax", {})
    assert str(caught.value) == (
        "a prediction needs a unit with a model on ecp5, and 'softmx' has none; "
        "did you mean 'softmax'? or synthesise it, without --predict"
    )


def test_a_unit_of_another_structure_is_not_predicted_by_its_family() -> None:
    """A softmax that works in another way is no softmax of other widths."""
    with pytest.raises(InputError, match="'online-softmax' has none"):
        load_model("ecp5").predict("online-softmax", "softmax", {})


def test_features_of_every_sample_are_not_negative() -> None:
    for sample in load_samples("ecp5"):
        found = features(model_name(sample.unit, sample.family), sample.description)
        assert min(found.values()) >= 0, sample.command


def test_the_fit_is_the_least_squares_that_is_not_negative() -> None:
    """Against a fine grid: no point of it is better."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, b = rng.normal(size=(8, 2)), rng.normal(size=8)
        x = non_negative_least_squares(a, b)
        assert (x >= 0).all()
        grid = np.linspace(0, 3, 61)
        best = min(float(((a @ np.array([u, v]) - b) ** 2).sum()) for u in grid for v in grid)
        assert float(((a @ x - b) ** 2).sum()) <= best + 1e-9


def test_one_left_out_is_predicted_from_the_others() -> None:
    a = np.array([[1.0], [1.0], [1.0], [1.0]])
    b = np.array([1.0, 2.0, 3.0, 6.0])
    assert leave_one_out(a, b) == pytest.approx([11 / 3, 10 / 3, 3.0, 2.0])


def test_the_page_shows_the_committed_clocks() -> None:
    page = (Path(__file__).parents[2] / "docs" / "synthesis.md").read_text(encoding="utf-8")
    placed = [sample for sample in load_samples("ecp5") if sample.fmax_mhz is not None]
    assert len(placed) >= 16
    for sample in placed:
        counts = " | ".join(f"{sample.counts[quantity]:.0f}" for quantity in QUANTITIES)
        assert f"| {sample.command} | {counts} | {sample.fmax_mhz:.1f} | `{sample.critical_path}` |" in page
