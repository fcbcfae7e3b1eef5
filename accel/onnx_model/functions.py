"""Finds linear layers, norms and activations in an ONNX graph, fused or in the parts that exporters write."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from accel.onnx_model.found import FunctionNode, LinearNode
from accel.onnx_model.graph import Graph

__all__ = ["find_activations", "find_linears", "find_norms"]

_NORMS = {
    "LayerNormalization": "layernorm",
    "SkipLayerNormalization": "layernorm",
    "RMSNormalization": "rmsnorm",
    "SimplifiedLayerNormalization": "rmsnorm",
    "SkipSimplifiedLayerNormalization": "rmsnorm",
}

_ACTIVATIONS = {
    "Elu": "elu",
    "FastGelu": "gelu-tanh",
    "HardSigmoid": "hard-sigmoid",
    "HardSwish": "hard-swish",
    "LeakyRelu": "leaky-relu",
    "Mish": "mish",
    "QuickGelu": "quick-gelu",
    "Relu": "relu",
    "Softplus": "softplus",
    "Swish": "silu",
}

_NEAR = 1e-3
_QUICK = 1.702


def find_linears(graph: Graph) -> Iterator[tuple[LinearNode, list[Any]]]:
    """Yield products with constant weights; a convolution whose patches do not overlap is one too."""
    for node in graph.nodes:
        if node.op_type in ("MatMul", "Gemm") and len(node.input) > 1 and graph.is_constant(node.input[1]):
            weights = graph.shape(node.input[1], node)
            if len(weights) != 2:
                continue
            transposed = node.op_type == "Gemm" and graph.attributes(node).get("transB", 0)
            inputs, outputs = reversed(weights) if transposed else weights
        elif node.op_type == "Conv" and _is_patches(graph, node):
            weights = graph.shape(node.input[1], node)
            inputs, outputs = math.prod(weights[1:]), weights[0]
        else:
            continue
        tokens = math.prod(graph.shape(node.output[0], node)) // outputs
        yield LinearNode(name=graph.label(node), tokens=tokens, inputs=inputs, outputs=outputs), [node]


def _is_patches(graph: Graph, node: Any) -> bool:
    kernel = list(graph.shape(node.input[1], node)[2:])
    attributes = graph.attributes(node)
    return (
        attributes.get("strides") == kernel and attributes.get("group", 1) == 1 and not any(attributes.get("pads", ()))
    )


def find_norms(graph: Graph) -> Iterator[tuple[FunctionNode, list[Any]]]:
    """Yield norms: a node of their own, or the square root of a mean of squares that something is divided by."""
    for node in graph.nodes:
        if node.op_type in _NORMS:
            yield _function(graph, node, _NORMS[node.op_type]), [node]
        elif node.op_type == "Sqrt":
            parts = _variance(graph, node)
            if parts is not None:
                squares, used = parts
                centred = any(each.op_type == "Sub" for each in graph.back(squares.input[0], ("Cast",)))
                last = _divided(graph, node)
                yield _function(graph, last, "layernorm" if centred else "rmsnorm"), [*used, node, last]


def _variance(graph: Graph, root: Any) -> tuple[Any, list[Any]] | None:
    """Return the node that squares, and all nodes from it to the square root, or None for another square root."""
    used = list(graph.back(root.input[0], ("Add", "ReduceMean")))
    squares = used[-1] if used else None
    names = [each.op_type for each in used]
    if squares is None or "ReduceMean" not in names:
        return None
    squared = squares.op_type == "Pow" and graph.scalar(squares.input[1]) == 2
    squared = squared or (squares.op_type == "Mul" and squares.input[0] == squares.input[1])
    return (squares, used) if squared else None


def _divided(graph: Graph, root: Any) -> Any:
    """Return the last node of a norm: the division, or the product with the reciprocal."""
    for node in graph.forward(root.output[0], ("Reciprocal",)):
        if node.op_type in ("Div", "Mul"):
            if node.op_type == "Div" and graph.scalar(node.input[0]) == 1:
                return next((each for each in graph.readers.get(node.output[0], ()) if each.op_type == "Mul"), node)
            return node
    return root


def find_activations(graph: Graph) -> Iterator[tuple[FunctionNode, list[Any]]]:
    """Yield activations: a node of their own, or one of the forms of GELU and SiLU in parts."""
    for node in graph.nodes:
        kind = node.op_type
        if kind in _ACTIVATIONS:
            yield _function(graph, node, _ACTIVATIONS[kind]), [node]
        elif kind == "Gelu":
            form = graph.attributes(node).get("approximate", b"none")
            yield _function(graph, node, "gelu-tanh" if form == b"tanh" else "gelu"), [node]
        elif kind == "Erf":
            yield _function(graph, _last_product(graph, node), "gelu"), [node]
        elif kind == "Tanh":
            cubed = any(_is_cube(graph, each) for each in _before(graph, node))
            last = _last_product(graph, node) if cubed else node
            yield _function(graph, last, "gelu-tanh" if cubed else "tanh"), [node]
        elif kind == "Sigmoid":
            yield _sigmoid(graph, node), [node]


def _sigmoid(graph: Graph, node: Any) -> FunctionNode:
    """Return what a sigmoid is part of: SiLU and quick GELU multiply it by its own argument."""
    argument, scale = node.input[0], 1.0
    maker = graph.makers.get(argument)
    if maker is not None and maker.op_type == "Mul":
        factors = [graph.scalar(name) for name in maker.input]
        known = next((factor for factor in factors if factor is not None), None)
        if known is not None:
            argument, scale = next(n for n, f in zip(maker.input, factors, strict=True) if f is None), known
    for reader in graph.readers.get(node.output[0], ()):
        if reader.op_type == "Mul" and argument in reader.input:
            if scale == 1:
                return _function(graph, reader, "silu")
            if abs(scale - _QUICK) < _NEAR:
                return _function(graph, reader, "quick-gelu")
    return _function(graph, node, "sigmoid")


def _before(graph: Graph, node: Any) -> Iterator[Any]:
    """Yield the few nodes from which a tanh's argument is made, in both branches of its sums and products."""
    waiting = [(name, 0) for name in node.input]
    while waiting:
        name, depth = waiting.pop()
        maker = graph.makers.get(name)
        if maker is not None and depth < 6:
            yield maker
            if maker.op_type in ("Add", "Mul", "Cast"):
                waiting.extend((each, depth + 1) for each in maker.input)


def _is_cube(graph: Graph, node: Any) -> bool:
    if node.op_type == "Pow":
        return graph.scalar(node.input[1]) == 3
    if node.op_type != "Mul":
        return False
    makers = [graph.makers.get(name) for name in node.input]
    squares = [each for each in makers if each is not None and each.op_type == "Mul" and each.input[0] == each.input[1]]
    return any(each.input[0] in node.input for each in squares)


def _last_product(graph: Graph, node: Any) -> Any:
    """Return the last of the sums and products with constants and x that follow ``node``."""
    last, seen = node, 0
    for each in graph.forward(node.output[0], ("Add", "Mul")):
        if each.op_type not in ("Add", "Mul") or seen == 3:
            break
        last, seen = each, seen + 1
    return last


def _function(graph: Graph, node: Any, function: str) -> FunctionNode:
    values = math.prod(graph.shape(node.output[0], node))
    return FunctionNode(name=graph.label(node), function=function, values=values)
