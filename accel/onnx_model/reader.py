"""Reads an ONNX file into the nodes that matter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from accel.errors import InputError
from accel.onnx_model.attention import find_attentions
from accel.onnx_model.found import OnnxModel
from accel.onnx_model.functions import find_activations, find_linears, find_norms
from accel.onnx_model.graph import Graph

__all__ = ["read_onnx"]


def read_onnx(path: str | Path, dims: Mapping[str, int] | None = None) -> OnnxModel:
    """Return the attention, linear, norm and activation nodes of an ONNX Transformer.

    Weights in files beside it need not be there. Nodes inside the bodies of loops and branches are not looked at.

    Parameters
    ----------
    path : str or Path
        The .onnx file.
    dims : mapping of str to int, optional
        Sizes of dimensions that the model names and leaves open, such as the sequence length.

    Raises
    ------
    InputError
        The file cannot be read or is no ONNX model, a size is missing, or there is no attention in it; messages
        name the node.
    ToolMissingError
        The library onnx is not installed.
    """
    graph = Graph(Path(path), dims or {})
    attentions = list(find_attentions(graph))
    if not attentions:
        softmaxes = [graph.label(node) for node in graph.nodes if node.op_type == "Softmax"]
        raise InputError(
            f"{path} must hold attention (MatMul, Softmax, MatMul), but "
            + (f"node {softmaxes[0]!r} has no product before and after it" if softmaxes else "has no Softmax node"),
            hint="give the ONNX file of a Transformer",
        )
    linears, norms = list(find_linears(graph)), list(find_norms(graph))
    taken = {id(node) for _, nodes in (*attentions, *linears, *norms) for node in nodes}
    activations = [
        (found, nodes) for found, nodes in find_activations(graph) if not any(id(node) in taken for node in nodes)
    ]
    taken |= {id(node) for _, nodes in activations for node in nodes}
    others = Counter(node.op_type for node in graph.nodes if id(node) not in taken and node.op_type != "Constant")
    return OnnxModel(
        name=Path(path).stem,
        attentions=tuple(found for found, _ in attentions),
        linears=tuple(found for found, _ in linears),
        norms=tuple(found for found, _ in norms),
        activations=tuple(found for found, _ in activations),
        others=dict(sorted(others.items())),
    )
