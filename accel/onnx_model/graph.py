"""An ONNX graph that can be walked from a value to its maker and its readers, with shapes and constants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.errors import InputError, ToolMissingError, did_you_mean

__all__ = ["Graph"]

_LAYOUT = ("Cast", "Dropout", "Identity")
"""Operators that hand on the values they get."""


class Graph:
    """The nodes of a model's main graph, whose sizes are all known.

    Parameters
    ----------
    path : Path
        The .onnx file; weights in files beside it are not read.
    dims : mapping of str to int
        Sizes of the model's named dimensions.

    Raises
    ------
    InputError
        The file cannot be read or is not ONNX, or a named dimension has no size or is not one of the model's.
    ToolMissingError
        The library onnx is not installed.
    """

    def __init__(self, path: Path, dims: Mapping[str, int]) -> None:
        try:
            import onnx
        except ImportError:
            raise ToolMissingError(
                "models in ONNX need onnx, which is not installed; run: pip install 'einrtl[onnx]'"
            ) from None
        self.path = path
        model = _load(onnx, path)
        self._fix(model, dims)
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
        self.nodes = tuple(model.graph.node)
        self._to_array = onnx.numpy_helper.to_array
        self._attribute = onnx.helper.get_attribute_value
        self.initializers = {each.name: each for each in model.graph.initializer}
        self.outputs = {each.name for each in model.graph.output}
        values = (*model.graph.input, *model.graph.value_info, *model.graph.output)
        self._shapes = {each.name: _shape(each.type.tensor_type.shape) for each in values}
        self._shapes |= {name: tuple(each.dims) for name, each in self.initializers.items()}

    def _fix(self, model: Any, dims: Mapping[str, int]) -> None:
        """Give each named dimension its size, and drop the shapes that were inferred with the names."""
        constants = {each.name for each in model.graph.initializer}
        inputs = [value for value in model.graph.input if value.name not in constants]
        named = {dim.dim_param for value in inputs for dim in value.type.tensor_type.shape.dim} - {""}
        for name, size in dims.items():
            if name not in named:
                raise InputError(
                    f"{self.path}: a size must belong to a named dimension, but {name!r} is none",
                    hint=did_you_mean(name, named),
                )
            if size < 1:
                raise InputError(f"dimension {name!r} must be at least 1, not {size}", hint=f"use --dim {name}=1")
        for value in inputs:
            for axis, dim in enumerate(value.type.tensor_type.shape.dim):
                if dim.dim_param in dims:
                    dim.dim_value = dims[dim.dim_param]
                elif not dim.HasField("dim_value"):
                    name = dim.dim_param
                    raise InputError(
                        f"{self.path}: axis {axis} of input {value.name!r} must have a size, but has "
                        + (f"only the name {name!r}" if name else "neither size nor name"),
                        hint=f"add --dim {name}=SIZE" if name else "export the model with sizes or names",
                    )
        del model.graph.value_info[:]
        for value in model.graph.output:
            value.type.tensor_type.ClearField("shape")

    @cached_property
    def makers(self) -> Mapping[str, Any]:
        """Value to the node that makes it."""
        return {name: node for node in self.nodes for name in node.output if name}

    @cached_property
    def readers(self) -> Mapping[str, tuple[Any, ...]]:
        """Value to the nodes that read it."""
        found: defaultdict[str, list[Any]] = defaultdict(list)
        for node in self.nodes:
            for name in dict.fromkeys(node.input):
                found[name].append(node)
        return {name: tuple(nodes) for name, nodes in found.items()}

    def label(self, node: Any) -> str:
        """Return how messages call a node: its name, or the value it makes."""
        return str(node.name or node.output[0])

    def shape(self, value: str, node: Any) -> tuple[int, ...]:
        """Return the shape of a value; ``node`` is what messages name.

        Raises
        ------
        InputError
            A size is not known.
        """
        shape = self._shapes.get(value)
        if shape is None or None in shape:
            raise InputError(
                f"{self.path}: the shape of {value!r} at node {self.label(node)!r} must be known, but is "
                f"{'absent' if shape is None else list(shape)}",
                hint="export the model with fixed sizes, or simplify it with onnxsim",
            )
        return tuple(size for size in shape if size is not None)

    def constant(self, value: str) -> NDArray[Any] | None:
        """Return the array of a value that is part of the model, or None."""
        if value in self.initializers:
            tensor = self.initializers[value]
            outside = len(tensor.external_data) > 0
            return None if outside else np.asarray(self._to_array(tensor))
        node = self.makers.get(value)
        if node is not None and node.op_type == "Constant":
            tensor = self.attributes(node).get("value")
            return None if tensor is None else np.asarray(self._to_array(tensor))
        return None

    def is_constant(self, value: str) -> bool:
        """Whether a value is part of the model, directly or over nodes that only change layout or type."""
        if value in self.initializers:
            return True
        node = self.makers.get(value)
        if node is None:
            return False
        if node.op_type == "Constant":
            return True
        layout = (*_LAYOUT, "DequantizeLinear", "Reshape", "Transpose", "Unsqueeze")
        return node.op_type in layout and all(self.is_constant(name) for name in node.input if name)

    def scalar(self, value: str) -> float | None:
        """Return the number that a value always is, or None."""
        array = self.constant(value)
        return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else None

    def attributes(self, node: Any) -> dict[str, Any]:
        """Return the attributes of a node."""
        return {each.name: self._attribute(each) for each in node.attribute}

    def back(self, value: str, through: tuple[str, ...]) -> Iterator[Any]:
        """Yield the makers of ``value``, the nearest first, the last being the first that is not in ``through``.

        Of a node with several inputs the walk takes the first that is not constant.
        """
        node = self.makers.get(value)
        while node is not None:
            yield node
            if node.op_type not in (*through, *_LAYOUT):
                return
            source = next((name for name in node.input if name and not self.is_constant(name)), None)
            node = self.makers.get(source) if source is not None else None

    def forward(self, value: str, through: tuple[str, ...]) -> Iterator[Any]:
        """Yield the readers of ``value`` and of what nodes ``through`` make of it, nearest first."""
        waiting = [value]
        while waiting:
            for node in self.readers.get(waiting.pop(0), ()):
                yield node
                if node.op_type in (*through, *_LAYOUT):
                    waiting.append(node.output[0])


def _load(onnx: Any, path: Path) -> Any:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} must be readable: {error.strerror}", hint="check the path") from None
    try:
        model = onnx.load_model_from_string(data)
    except Exception:  # noqa: BLE001 (protobuf's own errors differ between its versions)
        model = None
    if model is None or not model.graph.node:
        raise InputError(f"{path} must be an ONNX model with nodes", hint="export one with torch.onnx.export")
    return model


def _shape(shape: Any) -> tuple[int | None, ...]:
    return tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in shape.dim)
