"""Finds attention in an ONNX graph: products around a softmax, or nodes that fuse all of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from accel.errors import InputError
from accel.onnx_model.found import AttentionNode
from accel.onnx_model.graph import Graph

__all__ = ["find_attentions"]

_BETWEEN = ("Add", "Clip", "Div", "Expand", "Max", "Mul", "Reshape", "Squeeze", "Sub", "Tanh", "Unsqueeze", "Where")
"""What may stand between the scores' product and their softmax: scale, cap, bias, mask and layout."""

_AFTER = ("Mul", "Reshape", "Where")
"""What may stand between the softmax and the product with V."""

_REPEATS = ("Concat", "Expand", "Reshape", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Mul")

_MASKED = -1e3
"""A bias below this hides a score: exporters write the lowest number of a type, or -10000, or minus infinity."""


def find_attentions(graph: Graph) -> Iterator[tuple[AttentionNode, list[Any]]]:
    """Yield each attention and the nodes that belong to it.

    Raises
    ------
    InputError
        A size that it needs is not known, or a fused node is not understood; the message names the node.
    """
    for node in graph.nodes:
        if node.op_type == "Softmax":
            found = _around(graph, node)
            if found is not None:
                yield found
        elif node.op_type in ("Attention", "MultiHeadAttention", "GroupQueryAttention"):
            yield _fused(graph, node), [node]


def _around(graph: Graph, softmax: Any) -> tuple[AttentionNode, list[Any]] | None:
    """Return the attention whose softmax this is, or None: the softmax of a classifier has no products around it."""
    back = list(graph.back(softmax.input[0], _BETWEEN))
    scores = back[-1] if back and back[-1].op_type == "MatMul" else None
    product = next(
        (
            node
            for node in graph.forward(softmax.output[0], _AFTER)
            if node.op_type == "MatMul" and any(each is softmax for each in graph.back(node.input[0], _AFTER))
        ),
        None,
    )
    if scores is None or product is None or any(graph.is_constant(name) for name in scores.input):
        return None
    query, key = (graph.shape(name, scores) for name in scores.input)
    weights, value = (graph.shape(name, product) for name in product.input)
    if len(query) < 2 or len(key) < 2 or query[-1] != key[-2] or weights[-1] != value[-2] or key[-1] != value[-2]:
        raise InputError(
            f"{graph.path}: node {graph.label(softmax)!r} must be the softmax of Q K^T, followed by a product with V, "
            f"but its products have the shapes {list(query)} x {list(key)} and {list(weights)} x {list(value)}",
            hint="export attention as MatMul, Softmax, MatMul",
        )
    batch, heads = _leading(query)
    repeat = _repeats(graph, scores.input[1])
    found = AttentionNode(
        name=graph.label(softmax),
        batch=batch,
        heads=heads,
        kv_heads=heads // repeat if heads % repeat == 0 else heads,
        queries=query[-2],
        keys=key[-1],
        query_key_dim=query[-1],
        value_dim=value[-1],
        mask=_mask(graph, back),
    )
    return found, [*back, softmax, product]


def _leading(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return batch and heads: the axes before the last two, of which the last counts heads."""
    axes = shape[:-2]
    return (math.prod(axes[:-1]), axes[-1]) if axes else (1, 1)


def _repeats(graph: Graph, key: str) -> int:
    """Return how many query heads share a key head: by how much a node repeats the keys on their way."""
    times = 1
    for node in graph.back(key, _REPEATS):
        if node.op_type in ("Expand", "Tile"):
            before = math.prod(graph.shape(node.input[0], node))
            times *= math.prod(graph.shape(node.output[0], node)) // before
    return max(times, 1)


def _mask(graph: Graph, back: list[Any]) -> str:
    for node in back:
        if node.op_type not in ("Add", "Where"):
            continue
        arrays = [graph.constant(name) for name in node.input if name]
        hidden = next((_hidden(array, node.op_type) for array in arrays if array is not None and array.ndim >= 2), None)
        if hidden is None:
            return "given"
        return "causal" if _is_causal(hidden) else "given"
    return "none"


def _hidden(array: np.ndarray[Any, Any], operator: str) -> np.ndarray[Any, Any]:
    matrix = array.reshape(-1, *array.shape[-2:])[0]
    hidden: np.ndarray[Any, Any] = ~matrix.astype(bool) if operator == "Where" else matrix < _MASKED
    return hidden


def _is_causal(hidden: np.ndarray[Any, Any]) -> bool:
    """Whether exactly the keys after a query are hidden; the last query is that of the last key."""
    queries, keys = hidden.shape
    after = np.arange(keys)[None, :] > np.arange(keys - queries, keys)[:, None]
    return bool(keys > 1 and queries > 1 and (np.array_equal(hidden, after) or np.array_equal(~hidden, after)))


def _fused(graph: Graph, node: Any) -> AttentionNode:
    """Return the sizes of a node that is a whole attention, with heads packed into the last axis or on their own."""
    attributes = graph.attributes(node)
    heads = int(attributes.get("q_num_heads", attributes.get("num_heads", 0)))
    kv_heads = int(attributes.get("kv_num_heads", heads))
    if len(node.input) < 3 or not all(node.input[:3]):
        raise InputError(
            f"{graph.path}: node {graph.label(node)!r} ({node.op_type}) must have Q, K and V as inputs of their own",
            hint="export attention as MatMul, Softmax, MatMul",
        )
    query, key, value = (graph.shape(name, node) for name in node.input[:3])
    if len(query) == 4:
        batch, heads, queries, width = query
        kv_heads, keys, value_dim = key[1], key[2], value[3]
    elif len(query) == 3 and heads and kv_heads:
        batch, queries, width = query[0], query[1], query[2] // heads
        keys, value_dim = key[1], value[2] // kv_heads
    else:
        raise InputError(
            f"{graph.path}: node {graph.label(node)!r} ({node.op_type}) must have a Q of 4 axes, or of 3 and the "
            f"number of heads, not {list(query)} and {heads} heads",
            hint="export attention as MatMul, Softmax, MatMul",
        )
    masked = len(node.input) > 3 and bool(node.input[3])
    causal = attributes.get("is_causal", attributes.get("unidirectional", 0)) or node.op_type.startswith("Group")
    return AttentionNode(
        name=graph.label(node),
        batch=batch,
        heads=heads,
        kv_heads=kv_heads,
        queries=queries,
        keys=keys,
        query_key_dim=width,
        value_dim=value_dim,
        mask="causal" if causal else "given" if masked else "none",
    )
