"""Sliding windows of models: read from their configuration, used by masks, overridden by ``--window``, and reported."""

from __future__ import annotations

import dataclasses
import json

import pytest

from accel import spec
from accel.arch import load_architecture
from accel.cascade import load_cascade
from accel.schedule import Schedule, load_template
from accel.workload import read_hugging_face_config
from accel.workload_file import read_workload
from mapping.model import price
from mapping.templates import find_plan

MISTRAL = {
    "model_type": "mistral",
    "hidden_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 6,
    "intermediate_size": 256,
    "max_position_embeddings": 64,
    "sliding_window": 16,
}
QWEN2 = MISTRAL | {"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 4}
GEMMA2 = MISTRAL | {"model_type": "gemma2", "head_dim": 32}
GEMMA3 = MISTRAL | {"model_type": "gemma3_text", "head_dim": 32, "num_hidden_layers": 26}
CASCADE = load_cascade("attention-1pass-window")
FPGA = load_architecture("fpga-8x8")


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a configuration to a file."""

    def run(values, **changes):
        file = tmp_path / "config.json"
        file.write_text(json.dumps({key: value for key, value in (values | changes).items() if value != "absent"}))
        return file

    return run


MODELS = {
    "mistral": (MISTRAL, {}, (16, 6)),
    "mistral without one": (MISTRAL, {"sliding_window": None}, (None, 0)),
    "mistral that says nothing": (MISTRAL, {"sliding_window": "absent"}, (4096, 6)),
    "qwen2": (QWEN2, {}, (16, 2)),
    "qwen2 in all layers": (QWEN2, {"max_window_layers": 0}, (16, 6)),
    "qwen2 in no layer": (QWEN2, {"max_window_layers": 6}, (None, 0)),
    "qwen2 that says nothing of layers": (QWEN2, {"max_window_layers": "absent"}, (None, 0)),
    "qwen2 that does not use it": (QWEN2, {"use_sliding_window": False}, (None, 0)),
    "qwen2 that does not say": (QWEN2, {"use_sliding_window": "absent"}, (None, 0)),
    "gemma2: every second": (GEMMA2, {"num_hidden_layers": 5}, (16, 3)),
    "gemma3: five of six": (GEMMA3, {}, (16, 22)),
    "gemma3: another pattern": (GEMMA3, {"sliding_window_pattern": 2}, (16, 13)),
    "layer by layer": (
        QWEN2,
        {"layer_types": ["sliding_attention"] + ["full_attention"] * 5},
        (16, 1),
    ),
    "llama has none": (MISTRAL, {"model_type": "llama"}, (None, 0)),
}


@pytest.mark.parametrize("case", MODELS)
def test_the_window_of_a_model_is_read(case, write):
    values, changes, expected = MODELS[case]
    model = read_hugging_face_config(write(values, **changes))
    assert (model.window, model.windowed_layers) == expected
    assert model.workload().window == expected[0]
    assert (model.heads, model.kv_heads, model.head_dim) == (4, 2, 32)


def test_the_shipped_model_has_its_public_window(request):
    # Table 1 of A. Jiang et al., Mistral 7B, arXiv 2310.06825.
    model = read_hugging_face_config(request.config.rootpath / "examples/models/Mistral-7B-v0.1/config.json")
    assert (model.window, model.windowed_layers) == (4096, 32)


def test_a_window_on_the_command_line_goes_before_that_of_the_model(write):
    file = write(MISTRAL)
    assert read_workload(file).window == 16
    assert read_workload(file, window=5).window == 5
    assert read_workload(write(MISTRAL, sliding_window=None)).window is None


def saved(tmp_path, cascade=CASCADE):
    schedule = Schedule(
        cascade=cascade.name,
        architecture=FPGA.name,
        tiles={"m0": 8, "p0": 8, "p1": 2},
        plan=find_plan(cascade, FPGA) if cascade is CASCADE else load_template("interleaved-1pass").plan,
    )
    file = tmp_path / "schedule.yaml"
    file.write_text(spec.dump(schedule))
    return file, schedule


REPORTS = {
    "flag": (MISTRAL, ("--window", "5"), 5, "Window: W = 5 keys (--window)."),
    "model": (MISTRAL, (), 16, "Window: W = 16 keys (the model's own)."),
    "model, some layers": (QWEN2, (), 16, "Window: W = 16 keys (the model's own, in 2 of its 6 layers)."),
    "default": (QWEN2 | {"use_sliding_window": False}, (), 4096, "Window: W = 4096 keys (the cascade's default)."),
}


@pytest.mark.parametrize("case", REPORTS)
def test_masks_use_the_window_and_reports_name_its_source(case, write, tmp_path, einrtl):
    values, options, keys, line = REPORTS[case]
    file, schedule = saved(tmp_path)
    config = write(values)
    done = einrtl("price", file, config, *options)
    assert done.code == 0, done.err
    assert line in done.out.splitlines()
    shown = json.loads(einrtl("price", file, config, *options, "--json").out)
    source = case.split(",")[0]
    assert shown["derived"]["window"] == {"keys": keys, "source": source}
    workload = dataclasses.replace(read_workload(config), window=keys)
    assert shown["compute_cycles"] == price(CASCADE, FPGA, schedule, workload).compute_cycles


@pytest.mark.parametrize("command", ["explain", "events", "map"])
def test_every_command_that_uses_a_window_names_it(command, write, tmp_path, einrtl):
    file, _ = saved(tmp_path)
    given = [file, write(MISTRAL), "--length", "8"]
    if command == "map":
        given = [write(MISTRAL), "--cascade", CASCADE.name, "--arch", "fpga-8x8", "--plan", file]
    done = einrtl(command, *given)
    assert done.code == 0, done.err
    assert "Window: W = 16 keys (the model's own)." in done.out.splitlines()
    assert json.loads(einrtl(command, *given, "--json").out)["window"] == {"keys": 16, "source": "model"}


def test_a_narrower_window_takes_fewer_cycles(write, tmp_path, einrtl):
    file, _ = saved(tmp_path)
    cycles = [
        json.loads(einrtl("price", file, write(MISTRAL), "--window", str(keys), "--json").out)["compute_cycles"]
        for keys in (4, 16, 64)
    ]
    assert cycles[0] < cycles[1] < cycles[2]


def test_without_a_window_in_the_cascade_none_is_reported(write, tmp_path, einrtl):
    file, _ = saved(tmp_path, load_cascade("attention-1pass"))
    done = einrtl("price", file, write(MISTRAL))
    assert done.code == 0, done.err
    assert "Window" not in done.out
    assert "window" not in json.loads(einrtl("price", file, write(MISTRAL), "--json").out)["derived"]
