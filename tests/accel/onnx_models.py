"""Small Transformers in ONNX, written node by node as exporters write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

__all__ = ["Builder"]


class Builder:
    """Collects nodes and weights of one model; methods return the name of the value they make."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.inputs: list[Any] = []
        self.rng = np.random.default_rng(0)

    def input(self, name: str, shape: Sequence[int | str | None]) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)))
        return name

    def constant(self, value: Any, name: str = "") -> str:
        array = np.asarray(value)
        array = array.astype(np.float32) if array.dtype == np.float64 else array
        label = name or f"constant{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, label))
        return label

    def node(self, operator: str, *inputs: str, name: str = "", domain: str = "", **attributes: Any) -> str:
        output = f"value{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], name=name, domain=domain, **attributes))
        return output

    def linear(self, x: str, inputs: int, outputs: int, name: str) -> str:
        product = self.node("MatMul", x, self.constant(self.rng.normal(size=(inputs, outputs))), name=name)
        return self.node("Add", product, self.constant(np.zeros(outputs)))

    def heads(self, x: str, count: int, width: int, *, keys: bool = False) -> str:
        split = self.node("Reshape", x, self.constant(np.array([0, -1, count, width])))
        return self.node("Transpose", split, perm=[0, 2, 3, 1] if keys else [0, 2, 1, 3])

    def attention(self, q: str, k: str, v: str, width: int, *, name: str, mask: Any = None, where: Any = None) -> str:
        scores = self.node("Div", self.node("MatMul", q, k), self.constant(np.sqrt(width)))
        if mask is not None:
            scores = self.node("Add", scores, mask if isinstance(mask, str) else self.constant(mask))
        if where is not None:
            scores = self.node("Where", self.constant(where), scores, self.constant(np.array(-1e9)))
        return self.node("MatMul", self.node("Softmax", scores, name=name, axis=-1), v)

    def repeated(self, x: str, shape: Sequence[int]) -> str:
        """Repeat each of ``shape[1]`` heads ``shape[2]`` times, as exporters of grouped queries do."""
        batch, heads, times, *rest = shape
        apart = self.node("Unsqueeze", x, self.constant(np.array([2])))
        wide = self.node("Expand", apart, self.constant(np.array(shape)))
        return self.node("Reshape", wide, self.constant(np.array([batch, heads * times, *rest])))

    def layernorm(self, x: str, *, centred: bool = True, product: bool = False) -> str:
        if centred:
            x = self.node("Sub", x, self.node("ReduceMean", x, self.constant(np.array([-1])), keepdims=1))
        squared = self.node("Mul", x, x) if product else self.node("Pow", x, self.constant(np.array(2.0)))
        mean = self.node("ReduceMean", squared, self.constant(np.array([-1])), keepdims=1)
        root = self.node("Sqrt", self.node("Add", mean, self.constant(np.array(1e-5))))
        if product:
            return self.node("Mul", x, self.node("Div", self.constant(np.array(1.0)), root), name="norm")
        return self.node("Div", x, root, name="norm")

    def gelu(self, x: str) -> str:
        erf = self.node("Erf", self.node("Div", x, self.constant(np.sqrt(2))))
        product = self.node("Mul", x, self.node("Add", erf, self.constant(np.array(1.0))))
        return self.node("Mul", product, self.constant(np.array(0.5)), name="gelu")

    def gelu_tanh(self, x: str) -> str:
        cube = self.node("Pow", x, self.constant(np.array(3.0)))
        inner = self.node("Add", x, self.node("Mul", cube, self.constant(np.array(0.044715))))
        tanh = self.node("Tanh", self.node("Mul", inner, self.constant(np.sqrt(2 / np.pi))))
        product = self.node("Mul", x, self.node("Add", tanh, self.constant(np.array(1.0))))
        return self.node("Mul", product, self.constant(np.array(0.5)), name="gelu-tanh")

    def silu(self, x: str, scale: float | None = None) -> str:
        argument = x if scale is None else self.node("Mul", x, self.constant(np.array(scale)))
        return self.node("Mul", x, self.node("Sigmoid", argument), name="silu")

    def bytes(self, output: str, opset: int = 20) -> bytes:
        graph = helper.make_graph(
            self.nodes,
            "graph",
            self.inputs,
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
            self.weights,
        )
        imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        model: bytes = helper.make_model(graph, opset_imports=imports).SerializeToString()
        return model
