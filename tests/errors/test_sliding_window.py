"""Wrong sliding windows of models, each with the exact text that a user sees."""

import json

import pytest

from accel.cascade import load_cascade
from accel.errors import InputError
from accel.workload import AttentionModel, read_hugging_face_config
from tests.accel.test_sliding_window import GEMMA2, MISTRAL, QWEN2, saved

OWN = "take it from the model's own config.json"
LAYERS = (
    "'layer_types' must list 6 times one of full_attention, sliding_attention, as 'num_hidden_layers' says; take both "
    "from the model's own config.json"
)
REFUSED = {
    "a window of nothing": (
        MISTRAL | {"sliding_window": 0},
        f"'sliding_window' must be a whole number of at least 1, not 0; {OWN}",
    ),
    "a window that is text": (
        MISTRAL | {"sliding_window": "16"},
        f"'sliding_window' must be a whole number of at least 1, not \"16\"; {OWN}",
    ),
    "a flag that is text": (
        QWEN2 | {"use_sliding_window": "no"},
        f"'use_sliding_window' must be true or false, not \"no\"; {OWN}",
    ),
    "layers below none": (
        QWEN2 | {"max_window_layers": -1},
        f"'max_window_layers' must be a whole number of at least 1, not -1; {OWN}",
    ),
    "an unknown kind of layer": (
        GEMMA2 | {"layer_types": ["sliding_attention"] * 5 + ["linear"]},
        LAYERS,
    ),
    "too few layers": (
        GEMMA2 | {"layer_types": ["sliding_attention"]},
        LAYERS,
    ),
    "layers that are no list": (
        GEMMA2 | {"layer_types": {"0": "full_attention"}},
        LAYERS,
    ),
    "layers that are lists": (
        GEMMA2 | {"layer_types": [["full_attention"]] * 6},
        LAYERS,
    ),
}


def message_of(action):
    with pytest.raises(InputError) as caught:
        action()
    return str(caught.value)


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_configuration_is_refused(case, tmp_path, monkeypatch):
    values, expected = REFUSED[case]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(values))
    assert message_of(lambda: read_hugging_face_config("config.json")) == f"config.json: {expected}"


def test_windowed_layers_fit_the_window():
    fields = {"name": "n", "model_type": "t", "hidden": 8, "heads": 1, "kv_heads": 1, "head_dim": 8, "ffn": 8}
    fields |= {"layers": 2, "default_length": 8}
    assert message_of(lambda: AttentionModel(**fields, windowed_layers=1)) == (
        "windowed_layers must be 0 without a window, not 1"
    )
    assert message_of(lambda: AttentionModel(**fields, window=4)) == "windowed_layers must be 1 to 2, not 0"
    assert message_of(lambda: AttentionModel(**fields, window=0)) == "window must be at least 1, not 0"


def test_a_window_for_a_cascade_without_one_is_refused(einrtl, tmp_path):
    file, _ = saved(tmp_path, load_cascade("attention-1pass"))
    config = tmp_path / "config.json"
    config.write_text(json.dumps(MISTRAL))
    for command in (("price", file, config), ("map", config)):
        done = einrtl(*command, "--window", "5")
        assert (done.code, done.out) == (2, "")
        assert done.err == (
            "error: --window must be for a cascade with a window W, but cascade 'attention-1pass' has none; leave it "
            "out, or use --cascade attention-1pass-window\n"
        )
