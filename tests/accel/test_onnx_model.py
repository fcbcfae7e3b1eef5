"""Transformers in ONNX: nodes found in the forms in which exporters write them, refusals that name the node."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accel.errors import InputError, ToolMissingError
from accel.onnx_model import AttentionNode, FunctionNode, LinearNode, read_onnx
from accel.workload import read_hugging_face_config
from accel.workload_file import read_workload
from tests.accel.onnx_models import Builder
from tests.conftest import ROOT, Finished

CAUSAL = np.where(np.triu(np.ones((6, 6)), 1) > 0, -1e9, 0.0)


def saved(tmp_path: Path, builder: Builder, output: str, **options: Any) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(builder.bytes(output, **options))
    return path


def encoder_layer(builder: Builder, x: str) -> str:
    """One layer of width 8 with 2 heads of 4, and a feed-forward network of 16."""
    q, k, v = (builder.linear(x, 8, 8, name) for name in ("query", "key", "value"))
    q, k, v = builder.heads(q, 2, 4), builder.heads(k, 2, 4, keys=True), builder.heads(v, 2, 4)
    mixed = builder.attention(q, k, v, 4, name="attention", mask=builder.input("mask", [1, 1, 1, "seq"]))
    joined = builder.node("Transpose", mixed, perm=[0, 2, 1, 3])
    joined = builder.node("Reshape", joined, builder.constant(np.array([0, 0, 8])))
    x = builder.layernorm(builder.node("Add", x, builder.linear(joined, 8, 8, "out")))
    hidden = builder.gelu(builder.linear(x, 8, 16, "up"))
    return builder.node("LayerNormalization", builder.linear(hidden, 16, 8, "down"), builder.constant(np.ones(8)))


def test_an_encoder_layer_is_taken_apart(tmp_path: Path) -> None:
    builder = Builder()
    output = encoder_layer(builder, builder.input("x", ["batch", "seq", 8]))
    found = read_onnx(saved(tmp_path, builder, output), {"batch": 3, "seq": 6})
    assert found.name == "model"
    sizes = {"batch": 3, "heads": 2, "kv_heads": 2, "queries": 6, "keys": 6, "query_key_dim": 4, "value_dim": 4}
    assert found.attentions == (AttentionNode(name="attention", mask="given", **sizes),)
    assert found.linears == tuple(
        LinearNode(name=name, tokens=18, inputs=inputs, outputs=outputs)
        for name, inputs, outputs in (
            ("query", 8, 8),
            ("key", 8, 8),
            ("value", 8, 8),
            ("out", 8, 8),
            ("up", 8, 16),
            ("down", 16, 8),
        )
    )
    assert [(norm.function, norm.values) for norm in found.norms] == [("layernorm", 144), ("layernorm", 144)]
    assert found.activations == (FunctionNode(name="gelu", function="gelu", values=288),)
    (workload,) = found.workloads
    assert (workload.name, workload.sizes) == ("model", {"P": 6, "M": 6, "E": 4, "F": 4})


@pytest.mark.parametrize("form", ["add", "where"])
def test_grouped_queries_and_a_constant_causal_mask(form: str, tmp_path: Path) -> None:
    builder = Builder()
    q = builder.input("q", [1, 8, 6, 4])
    k = builder.repeated(builder.input("k", [1, 2, 4, 6]), [1, 2, 4, 4, 6])
    v = builder.repeated(builder.input("v", [1, 2, 6, 5]), [1, 2, 4, 6, 5])
    options = {"mask": CAUSAL[None, None]} if form == "add" else {"where": CAUSAL == 0}
    output = builder.attention(q, k, v, 4, name="scores", **options)
    (node,) = read_onnx(saved(tmp_path, builder, output)).attentions
    assert node.sizes == (1, 8, 2, 6, 6, 4, 5)
    assert node.mask == "causal"


def test_a_bias_is_no_causal_mask(tmp_path: Path) -> None:
    builder = Builder()
    q, k, v = (builder.input(name, shape) for name, shape in (("q", [6, 4]), ("k", [4, 6]), ("v", [6, 4])))
    output = builder.attention(q, k, v, 4, name="scores", mask=CAUSAL.T)
    (node,) = read_onnx(saved(tmp_path, builder, output)).attentions
    assert (node.mask, node.batch, node.heads) == ("given", 1, 1)


def test_one_workload_for_each_size(tmp_path: Path) -> None:
    builder = Builder()
    for index, keys in enumerate((6, 6, 9)):
        q, k, v = (
            builder.input(f"{name}{index}", shape)
            for name, shape in (("q", [1, 2, 6, 4]), ("k", [1, 2, 4, keys]), ("v", [1, 2, keys, 4]))
        )
        output = builder.attention(q, k, v, 4, name=f"layer{index}")
    found = read_onnx(saved(tmp_path, builder, output)).workloads
    assert [(workload.name, workload.keys, count) for workload, count in found.items()] == [
        ("model-0", 6, 2),
        ("model-1", 9, 1),
    ]


@pytest.mark.parametrize(
    ("shapes", "attributes", "expected"),
    [
        (([1, 6, 32], [1, 9, 8], [1, 9, 8]), {"q_num_heads": 8, "kv_num_heads": 2}, (1, 8, 2, 6, 9, 4, 4)),
        (([2, 8, 6, 4], [2, 2, 9, 4], [2, 2, 9, 5]), {}, (2, 8, 2, 6, 9, 4, 5)),
    ],
)
def test_a_fused_node(
    shapes: tuple[list[int], ...], attributes: dict[str, int], expected: tuple[int, ...], tmp_path: Path
) -> None:
    builder = Builder()
    inputs = [builder.input(name, shape) for name, shape in zip("qkv", shapes, strict=True)]
    output = builder.node("Attention", *inputs, name="fused", is_causal=1, **attributes)
    (node,) = read_onnx(saved(tmp_path, builder, output, opset=23)).attentions
    assert (node.sizes, node.mask, node.name) == (expected, "causal", "fused")


@pytest.mark.parametrize(
    ("method", "options", "kind", "function"),
    [
        ("gelu", {}, "activations", "gelu"),
        ("gelu_tanh", {}, "activations", "gelu-tanh"),
        ("silu", {}, "activations", "silu"),
        ("silu", {"scale": 1.702}, "activations", "quick-gelu"),
        ("silu", {"scale": 1.5}, "activations", "sigmoid"),
        ("layernorm", {}, "norms", "layernorm"),
        ("layernorm", {"centred": False}, "norms", "rmsnorm"),
        ("layernorm", {"centred": False, "product": True}, "norms", "rmsnorm"),
    ],
)
def test_functions_in_parts(method: str, options: dict[str, Any], kind: str, function: str, tmp_path: Path) -> None:
    builder = Builder()
    x = builder.input("x", [1, 6, 4])
    y = getattr(builder, method)(x, **options)
    output = builder.attention(y, builder.input("k", [1, 4, 6]), x, 4, name="scores")
    found = read_onnx(saved(tmp_path, builder, output))
    assert [(each.function, each.values) for each in getattr(found, kind)] == [(function, 24)]


@pytest.mark.parametrize(
    ("operator", "function"),
    [("Relu", "relu"), ("Softplus", "softplus"), ("Mish", "mish"), ("HardSwish", "hard-swish"), ("Gelu", "gelu")],
)
def test_functions_of_one_node(operator: str, function: str, tmp_path: Path) -> None:
    builder = Builder()
    x = builder.input("x", [1, 6, 4])
    output = builder.attention(builder.node(operator, x), builder.input("k", [1, 4, 6]), x, 4, name="scores")
    assert [each.function for each in read_onnx(saved(tmp_path, builder, output)).activations] == [function]


def test_patches_and_gemm_are_linear(tmp_path: Path) -> None:
    builder = Builder()
    image = builder.input("image", [1, 3, 8, 12])
    patches = builder.node("Conv", image, builder.constant(np.zeros((10, 3, 4, 4))), name="patches", strides=[4, 4])
    tokens = builder.node("Reshape", patches, builder.constant(np.array([6, 10])))
    x = builder.node("Gemm", tokens, builder.constant(np.zeros((4, 10))), name="embed", transB=1)
    output = builder.attention(x, builder.input("k", [4, 6]), x, 4, name="scores")
    assert read_onnx(saved(tmp_path, builder, output)).linears == (
        LinearNode(name="patches", tokens=6, inputs=48, outputs=10),
        LinearNode(name="embed", tokens=6, inputs=10, outputs=4),
    )


def classifier(builder: Builder) -> str:
    return builder.node("Softmax", builder.linear(builder.input("x", [2, 8]), 8, 3, "head"), name="classes")


def open_model(builder: Builder) -> str:
    return encoder_layer(builder, builder.input("x", ["batch", "seq", 8]))


def nameless(builder: Builder) -> str:
    return builder.node("Relu", builder.input("x", [2, None]))


def packed(builder: Builder) -> str:
    x = builder.input("x", [1, 6, 8])
    return builder.node("Attention", x, builder.constant(np.zeros((8, 24))), name="qkv", domain="com.microsoft")


def crossed(builder: Builder) -> str:
    q, k, v = builder.input("q", [2, 6, 4]), builder.input("k", [2, 4, 6]), builder.input("v", [2, 4, 6])
    scores = builder.node("MatMul", q, k)
    return builder.node("MatMul", v, builder.node("Softmax", scores, name="columns", axis=1))


def folded(builder: Builder) -> str:
    q, k, v = builder.input("q", [2, 6, 4]), builder.input("k", [2, 4, 8]), builder.input("v", [2, 4, 5])
    weights = builder.node("Softmax", builder.node("MatMul", q, k), name="scores")
    halves = builder.node("Reshape", weights, builder.constant(np.array([2, 12, 4])))
    return builder.node("MatMul", halves, v)


def unknown(builder: Builder) -> str:
    x = builder.node("Mystery", builder.input("x", [6, 4]), name="strange", domain="com.microsoft")
    return builder.attention(x, builder.input("k", [4, 6]), builder.input("v", [6, 4]), 4, name="scores")


REFUSALS = {
    "no softmax": (
        lambda builder: builder.node("Relu", builder.input("x", [2, 3])),
        {},
        (
            "model.onnx must hold attention (MatMul, Softmax, MatMul), but has no Softmax node; give the ONNX "
            "file of a "
            "Transformer"
        ),
    ),
    "a classifier": (
        classifier,
        {},
        (
            "model.onnx must hold attention (MatMul, Softmax, MatMul), but node 'classes' has no product before "
            "and after "
            "it; give the ONNX file of a Transformer"
        ),
    ),
    "a product from the wrong side": (
        crossed,
        {},
        (
            "model.onnx must hold attention (MatMul, Softmax, MatMul), but node 'columns' has no product before "
            "and after "
            "it; give the ONNX file of a Transformer"
        ),
    ),
    "keys that do not meet values": (
        folded,
        {},
        (
            "model.onnx: node 'scores' must be the softmax of Q K^T, followed by a product with V, but its "
            "products have "
            "the shapes [2, 6, 4] x [2, 4, 8] and [2, 12, 4] x [2, 4, 5]; export attention as MatMul, Softmax, MatMul"
        ),
    ),
    "an open dimension": (
        open_model,
        {"batch": 1},
        "model.onnx: axis 1 of input 'x' must have a size, but has only the name 'seq'; add --dim seq=SIZE",
    ),
    "a dimension without a name": (
        nameless,
        {},
        (
            "model.onnx: axis 1 of input 'x' must have a size, but has neither size nor name; export the model "
            "with sizes "
            "or names"
        ),
    ),
    "a size for no dimension": (
        open_model,
        {"batch": 1, "seq": 6, "sequence": 6},
        "model.onnx: a size must belong to a named dimension, but 'sequence' is none; known: batch, seq",
    ),
    "a size of nothing": (
        open_model,
        {"batch": 0, "seq": 6},
        "dimension 'batch' must be at least 1, not 0; use --dim batch=1",
    ),
    "a fused node with packed weights": (
        packed,
        {},
        (
            "model.onnx: node 'qkv' (Attention) must have Q, K and V as inputs of their own; export attention as "
            "MatMul, "
            "Softmax, MatMul"
        ),
    ),
    "a shape that cannot be known": (
        unknown,
        {},
        (
            "model.onnx: the shape of 'value0' at node 'value1' must be known, but is absent; export the model "
            "with fixed "
            "sizes, or simplify it with onnxsim"
        ),
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_names_the_node(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    build, dims, message = REFUSALS[case]
    builder = Builder()
    saved(tmp_path, builder, build(builder))
    with pytest.raises(InputError) as caught:
        read_onnx("model.onnx", dims)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "model.onnx must be readable: No such file or directory; check the path"),
        (b"", "model.onnx must be an ONNX model with nodes; export one with torch.onnx.export"),
        (b"not a model \xff\xfe", "model.onnx must be an ONNX model with nodes; export one with torch.onnx.export"),
    ],
)
def test_a_file_that_is_no_model(
    content: bytes | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path("model.onnx").write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_onnx("model.onnx")
    assert str(caught.value) == message


def test_the_command_shows_each_kind_of_node_once(tmp_path: Path, einrtl: Callable[..., Finished]) -> None:
    builder = Builder()
    path = saved(tmp_path, builder, open_model(builder))
    shown = einrtl("model", path, "--dim", "batch=2", "--dim", "seq=6")
    assert shown.code == 0
    assert re.search(r"4 +12 +8 +8 +query", shown.out) and re.search(r"2 +norm +layernorm +96 +norm", shown.out)
    data = json.loads(einrtl("model", path, "--dim", "batch=2", "--dim", "seq=6", "--json").out)
    assert [len(data[kind]) for kind in ("attentions", "linears", "norms", "activations")] == [1, 6, 2, 1]


def test_the_command_shows_a_configuration(einrtl: Callable[..., Finished]) -> None:
    config = ROOT / "examples" / "models" / "bert-base-uncased" / "config.json"
    assert json.loads(einrtl("model", config, "--json").out)["heads"] == 12
    assert re.search(r"ffn +3072", einrtl("model", config).out)
    wrong = einrtl("model", config, "--dim", "seq=4")
    assert (wrong.code, wrong.err.splitlines()[-1]) == (
        2,
        "Error: --dim is for models in ONNX, and config.json is none",
    )


@pytest.mark.parametrize("text", ["seq", "seq=", "=4", "seq=-1", "seq=4.0", "seq=12345678901"])
def test_a_dimension_must_be_a_name_and_a_size(text: str, einrtl: Callable[..., Finished]) -> None:
    wrong = einrtl("model", "m.onnx", "--dim", text)
    assert wrong.code == 2
    assert f"'{text}' must be NAME=SIZE with a whole number" in wrong.err


def test_a_workload_comes_from_either_kind_of_file(tmp_path: Path) -> None:
    builder = Builder()
    path = saved(tmp_path, builder, open_model(builder))
    found = read_workload(path, dims={"batch": 2, "seq": 6})
    assert (found.batch, found.heads, found.queries, found.keys) == (2, 2, 6, 6)
    longer = read_workload(path, dims={"batch": 2, "seq": 6}, batch=5, length=64, queries=1)
    assert (longer.batch, longer.queries, longer.keys) == (5, 1, 64)
    config = ROOT / "examples" / "models" / "bert-base-uncased" / "config.json"
    assert read_workload(config) == read_hugging_face_config(config).workload()
    with pytest.raises(
        InputError, match=r"only an ONNX model has named dimensions, but config.json is none; remove --dim"
    ):
        read_workload(config, dims={"seq": 6})


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ToolMissingError) as caught:
        read_onnx(tmp_path / "m.onnx")
    assert str(caught.value) == "models in ONNX need onnx, which is not installed; run: pip install 'einrtl[onnx]'"
