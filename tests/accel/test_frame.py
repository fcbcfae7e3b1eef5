"""Frames of vision transformers and designs for them, as plain data; what devices offer and what fits them."""

from __future__ import annotations

import pytest

from accel import spec
from accel.fpga import QUANTITIES, device_names, load_device, shortages, smallest_fitting
from accel.frame import FeedForward, VisionTransformer, frame_names, load_frame
from accel.frame_design import FrameDesign, design_names, load_design
from accel.listings import devices, frames


def test_m3vit_has_the_tokens_weights_and_work_that_its_shape_gives() -> None:
    model = load_frame("m3vit")
    assert (model.tokens, model.patches, len(model.feed_forwards)) == (129, 128, 12)
    # By hand: 12 blocks of 4 x 192^2; 6 dense ones of 2 x 192 x 768; 6 of 16 experts of 2 x 192 x 384 and a gate.
    blocks = 12 * 4 * 192**2 + 6 * 2 * 192 * 768 + 6 * 16 * (2 * 192 * 384 + 192)
    assert model.weights == blocks + 768 * 192
    assert model.macs == {
        "patch embedding": 128 * 768 * 192,
        "projections": 12 * 129 * 4 * 192 * 192,
        "attention": 12 * 2 * 129 * 129 * 192,
        "feed-forward": 6 * 129 * 2 * 192 * 768 + 6 * 129 * 2 * 2 * 192 * 384,
        "gates": 6 * 129 * 192 * 16,
    }


def test_a_dense_model_has_no_gates() -> None:
    model = load_frame("deit-tiny")
    assert (model.tokens, model.macs["gates"]) == (197, 0)
    assert not any(layer.is_moe for layer in model.feed_forwards)


@pytest.mark.parametrize("name", frame_names())
def test_packaged_frames_survive_their_text(name: str) -> None:
    model = load_frame(name)
    assert spec.loads(VisionTransformer, spec.dump(model)) == model


@pytest.mark.parametrize("name", design_names())
def test_packaged_designs_survive_their_text(name: str) -> None:
    design = load_design(name)
    assert spec.loads(FrameDesign, spec.dump(design)) == design


def test_a_single_expert_is_a_dense_layer() -> None:
    assert not FeedForward(hidden=8).is_moe
    assert FeedForward(hidden=8, experts=2).is_moe


def test_what_a_device_lacks_is_counted() -> None:
    device = load_device("artix7-100t")
    counts = {"lut_count": 63400, "ff_count": 0, "dsp_count": 241, "block_ram_count": 200}
    short = shortages(device, counts)
    assert [(each.quantity, each.needed, each.available) for each in short] == [
        ("dsp_count", 241, 240),
        ("block_ram_count", 200, 135),
    ]
    assert str(short[0]) == "241 of 240 multipliers (1 too many)"
    assert smallest_fitting("xilinx", counts) == "zcu102"
    assert smallest_fitting("xilinx", counts | {"dsp_count": 1e6}) is None


def test_every_device_is_listed_with_a_clock_and_its_counts() -> None:
    rows = {row["name"]: row for row in devices()}
    assert set(rows) == set(device_names())
    for name, row in rows.items():
        device = load_device(name)
        assert [row["lut"], row["ff"], row["dsp"]] == [str(device.budget[each]) for each in QUANTITIES[:3]]
        assert float(row["clock_mhz"]) > 0
        assert bool(row["memory"]) == bool(row["port_bits"]) == bool(row["gbit_per_s"])
        if device.memory is not None:  # a peak is a width times a rate of transfers, up to 4 Gbit/s a pin
            assert 0.1e9 <= device.memory.bandwidth_bits_per_s / device.memory.port_bits <= 4e9
    assert [row["name"] for row in frames()] == list(frame_names())
