"""Workloads: the shapes of the shipped models, and how query heads share keys."""

import json

import pytest

from accel import spec
from accel.workload import Workload, model_types, read_hugging_face_config


@pytest.fixture(autouse=True)
def _from_the_root(monkeypatch, request):
    monkeypatch.chdir(request.config.rootpath)


@pytest.mark.parametrize(
    ("name", "hidden", "layers", "heads", "kv_heads", "head_dim", "ffn", "length"),
    [
        ("all-MiniLM-L6-v2", 384, 6, 12, 12, 32, 1536, 512),
        ("bert-base-uncased", 768, 12, 12, 12, 64, 3072, 512),
        ("gpt2", 768, 12, 12, 12, 64, 3072, 1024),
        ("vit-base-patch16-224", 768, 12, 12, 12, 64, 3072, 197),
        ("Meta-Llama-3-8B", 4096, 32, 32, 8, 128, 14336, 8192),
        ("Mistral-7B-v0.1", 4096, 32, 32, 8, 128, 14336, 32768),
    ],
)
def test_the_shipped_models_have_their_public_shapes(name, hidden, layers, heads, kv_heads, head_dim, ffn, length):
    model = read_hugging_face_config(f"examples/models/{name}/config.json")
    assert model.name == name
    assert (model.hidden, model.layers, model.heads, model.kv_heads) == (hidden, layers, heads, kv_heads)
    assert (model.head_dim, model.ffn, model.default_length) == (head_dim, ffn, length)
    workload = model.workload(batch=2)
    assert workload.sizes == {"P": length * heads // kv_heads, "M": length, "E": head_dim, "F": head_dim}
    assert workload.instances == 2 * kv_heads


def test_query_heads_that_share_keys_are_stacked_as_queries():
    llama = read_hugging_face_config("examples/models/Meta-Llama-3-8B/config.json")
    decode = llama.workload(batch=3, length=1000, queries=1)
    assert decode.sizes == {"P": 4, "M": 1000, "E": 128, "F": 128}
    assert decode.instances == 24


def test_a_workload_survives_yaml():
    workload = Workload(name="w", batch=1, heads=4, kv_heads=2, queries=3, keys=5, query_key_dim=7, value_dim=11)
    assert spec.loads(Workload, spec.dump(workload)) == workload


def test_optional_fields_have_the_defaults_of_the_library(tmp_path):
    file = tmp_path / "tiny.json"
    file.write_text(json.dumps({"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 2, "n_positions": 32}))
    assert read_hugging_face_config(file).ffn == 256
    llama = {
        "model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2,
        "intermediate_size": 128, "max_position_embeddings": 32, "head_dim": 24, "num_key_value_heads": None,
    }  # fmt: skip
    file.write_text(json.dumps(llama))
    model = read_hugging_face_config(file)
    assert (model.name, model.head_dim, model.kv_heads) == ("tiny", 24, 4)


def test_the_known_model_types_are_listed():
    assert model_types() == ("bert", "gemma2", "gemma3_text", "gpt2", "llama", "mistral", "qwen2", "vit")
