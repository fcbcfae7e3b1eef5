"""The price of a whole Transformer layer: attention by a schedule, linear layers and vector work by nests."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from accel.arch import Architecture, load_architecture
from accel.cascade import Cascade, load_cascade
from accel.cost import CostTable, load_cost_table
from accel.json_values import from_json_values
from accel.layer import FeedForward, Layer
from accel.nest import EinsumNest, Nest, Store, TensorStore, TileLoop
from accel.nest_result import NestResult
from accel.notation import parse
from accel.result import Result
from accel.schedule import Axis, Schedule
from accel.workload import AttentionModel, read_hugging_face_config
from mapping.linear import best_linear
from mapping.model import price
from mapping.nest import NestModel
from mapping.nest_price import price_nest
from mapping.search import search
from mapping.templates import find_plan

__all__ = ["LEFT_OUT", "VECTOR", "LayerPart", "LayerResult", "price_layer"]

LEFT_OUT = (
    "what passes between parts goes through DRAM: no part is fused with the next",
    "rotary embedding, biases, score scaling, dropout, embeddings and the output head",
    "what the results of the parts leave out themselves",
)
"""What the price of a layer does not charge, or charges on the safe side."""

# Of such operators every packaged vector array has exp only: with tanh(z) = 1 - 2 / (1 + exp(2 z)) the tanh form of
# GELU (Hendrycks and Gimpel, arXiv 1606.08415) is x / (1 + exp(-2 z)), and SiLU is x / (1 + exp(-x)).
VECTOR: Mapping[str, Cascade] = {
    name: parse(f"cascade {name}\n{text}", file=name)
    for name, text in {
        "layernorm": (
            "  input X[r,d] G[d] B[d]\n  SM[r] = X[r,d]\n  MU[r] = SM[r] / D\n  C[r,d] = X[r,d] - MU[r]\n"
            "  VS[r] = C[r,d] * C[r,d]\n  RS[r] = 1 / sqrt(VS[r] / D + 1e-5)\n  Y[r,d] = C[r,d] * RS[r] * G[d] + B[d]\n"
        ),
        "rmsnorm": (
            "  input X[r,d] G[d]\n  VS[r] = X[r,d] * X[r,d]\n  RS[r] = 1 / sqrt(VS[r] / D + 1e-5)\n"
            "  Y[r,d] = X[r,d] * RS[r] * G[d]\n"
        ),
        "gelu": (
            "  input X[r,d]\n"
            "  Y[r,d] = X[r,d] / (1 + exp(-1.5957691216057308 * (X[r,d] + 0.044715 * X[r,d] * X[r,d] * X[r,d])))\n"
        ),
        "swiglu": "  input X[r,d] Z[r,d]\n  Y[r,d] = X[r,d] * Z[r,d] / (1 + exp(0 - X[r,d]))\n",
        "residual": "  input X[r,d] Z[r,d]\n  Y[r,d] = X[r,d] + Z[r,d]\n",
    }.items()
}
"""What the vector array computes, by name."""


@dataclass(frozen=True, kw_only=True)
class LayerPart:
    """One part of a layer and its price.

    Parameters
    ----------
    name, kind : str
        Such as ``query``; ``attention``, ``linear`` or ``vector``.
    how : str
        What was chosen for it, in words.
    price : Result or NestResult
        Its price.
    """

    name: str
    kind: str
    how: str
    price: Result | NestResult

    __pydantic_config__ = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class LayerResult:
    """The price of one layer.

    Parameters
    ----------
    layer : Layer
        What was priced.
    model_layers : int
        Layers of the whole model.
    left_out : tuple of str
        What is not charged.
    parts : tuple of LayerPart
        One after the other.
    """

    layer: Layer
    model_layers: int
    left_out: tuple[str, ...]
    parts: tuple[LayerPart, ...]

    __pydantic_config__ = {"extra": "forbid"}

    @property
    def latency_cycles(self) -> float:
        """Cycles of all parts, one after the other."""
        return math.fsum(part.price.latency_cycles for part in self.parts)

    @property
    def latency_s(self) -> float:
        """Latency, s."""
        return math.fsum(part.price.latency_s for part in self.parts)

    @property
    def traffic_bytes(self) -> float:
        """DRAM traffic in both directions, bytes."""
        return math.fsum(part.price.traffic_bytes for part in self.parts)

    @property
    def energy_pj(self) -> float:
        """Energy of all actions, pJ."""
        return math.fsum(part.price.energy_pj for part in self.parts)

    def of_kind(self, kind: str) -> tuple[LayerPart, ...]:
        """Return the parts of one kind."""
        return tuple(part for part in self.parts if part.kind == kind)

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON values; what follows from them stands under ``derived``."""
        values: dict[str, Any] = TypeAdapter(LayerResult).dump_python(self, mode="json")
        values["derived"] = {
            "latency_cycles": self.latency_cycles,
            "latency_s": self.latency_s,
            "traffic_bytes": self.traffic_bytes,
            "energy_pj": self.energy_pj,
            "parts": [
                {
                    "name": part.name,
                    "kind": part.kind,
                    "latency_cycles": part.price.latency_cycles,
                    "traffic_bytes": part.price.traffic_bytes,
                    "energy_pj": part.price.energy_pj,
                    "limit": part.price.limit,
                }
                for part in self.parts
            ],
        }
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> LayerResult:
        """Return the result whose ``as_dict`` gave ``values``.

        Raises
        ------
        InputError
            They are not those of a layer's result.
        """
        return from_json_values(cls, values, "a result")


def price_layer(layer: Layer) -> LayerResult:
    """Return what a whole layer costs, part by part.

    Parameters
    ----------
    layer : Layer
        The layer; its ``config`` is a path from the current folder.

    Raises
    ------
    InputError
        A description it names cannot be read, or a part does not fit the architecture.
    """
    model, architecture = read_hugging_face_config(layer.config), load_architecture(layer.architecture)
    costs = load_cost_table(architecture.technology)
    return LayerResult(
        layer=layer,
        model_layers=model.layers,
        left_out=LEFT_OUT,
        parts=tuple(_parts(layer, model, architecture, costs)),
    )


def _parts(layer: Layer, model: AttentionModel, architecture: Architecture, costs: CostTable) -> Iterator[LayerPart]:
    inner, shared, hidden = model.heads * model.head_dim, model.kv_heads * model.head_dim, model.hidden
    gated = layer.feed_forward is FeedForward.SWIGLU

    def linear(name: str, inputs: int, outputs: int) -> LayerPart:
        found = best_linear(architecture, layer.matrix_array, layer.tokens, inputs, outputs, costs)
        return LayerPart(name=name, kind="linear", how=found.how, price=found.result)

    def vector(name: str, cascade: str, width: int) -> LayerPart:
        found = _vector(layer, VECTOR[cascade], width, architecture, costs)
        return LayerPart(name=name, kind="vector", how=f"{cascade} on {layer.vector_array}", price=found)

    yield vector("norm before attention", layer.norm.value, hidden)
    yield linear("query", hidden, inner)
    yield linear("key", hidden, shared)
    yield linear("value", hidden, shared)
    yield _attention(layer, model, architecture, costs)
    yield linear("output", inner, hidden)
    yield vector("residual of attention", "residual", hidden)
    yield vector("norm before feed-forward", layer.norm.value, hidden)
    if gated:
        yield linear("gate", hidden, model.ffn)
    yield linear("up", hidden, model.ffn)
    yield vector("activation", layer.feed_forward.value, model.ffn)
    yield linear("down", model.ffn, hidden)
    yield vector("residual of feed-forward", "residual", hidden)


def _attention(layer: Layer, model: AttentionModel, architecture: Architecture, costs: CostTable) -> LayerPart:
    cascade = load_cascade(layer.attention.cascade)
    workload = model.workload(batch=layer.batch, length=layer.length, queries=layer.queries)
    if layer.attention.window is not None:
        workload = dataclasses.replace(workload, window=layer.attention.window)
    plan = find_plan(cascade, architecture)
    if layer.attention.tiles:
        schedule = Schedule(
            cascade=cascade.name, architecture=architecture.name, tiles=layer.attention.tiles, plan=plan
        )
        result, how = price(cascade, architecture, schedule, workload, costs), "given tiles"
    else:
        result, how = search(cascade, architecture, workload, plan=plan, costs=costs).result, "searched tiles"
    tiles = ", ".join(f"{rank}={size}" for rank, size in result.schedule.tiles.items())
    return LayerPart(name="attention", kind="attention", how=f"{cascade.name}, {how} {tiles}", price=result)


def _vector(layer: Layer, cascade: Cascade, width: int, architecture: Architecture, costs: CostTable) -> NestResult:
    """Return the price of a cascade over rows and their elements.

    A single Einsum streams. With more of them a row stays in the buffer, where later ones read it again, and so do
    inputs that all rows share.
    """
    names = tuple(einsum.name for einsum in cascade.einsums)
    stream = TensorStore(store=Store.DRAM, copies=2)
    row = TensorStore(store=Store.DRAM, staged=True, within="r1")
    shared = TensorStore(store=Store.DRAM, staged=True)
    inputs = {each.name: row if "r" in each.ranks else shared for each in cascade.inputs}
    if len(names) == 1:
        inputs = dict.fromkeys(inputs, stream)
    array = architecture.arrays.get(layer.vector_array)
    each = EinsumNest(
        array=layer.vector_array,
        loops=("r1", "d1") if len(names) == 1 else ("r1",),
        axes={"r": Axis.ROWS, "d": Axis.COLUMNS},
    )
    nest = Nest(
        stages=(names,),
        loops={
            "r1": TileLoop(rank="r", size=array.rows if array else 1),
            "d1": TileLoop(rank="d", size=array.columns if array else 1),
        },
        einsums=dict.fromkeys(names, each),
        tensors=inputs
        | {name: stream if name in cascade.outputs else TensorStore(store=Store.BUFFER, within="r1") for name in names},
    )
    model = NestModel(cascade=cascade, architecture=architecture, nest=nest, sizes={"R": layer.tokens, "D": width})
    return price_nest(model, instances=1, costs=costs)
