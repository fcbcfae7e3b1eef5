"""What was found in an ONNX file, as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from accel.workload import Workload

__all__ = ["AttentionNode", "FunctionNode", "LinearNode", "OnnxModel"]


@dataclass(frozen=True, kw_only=True)
class AttentionNode:
    """One attention: softmax(Q K^T) V.

    Parameters
    ----------
    name : str
        The node of the scores' softmax, or the fused node.
    batch, heads, kv_heads, queries, keys, query_key_dim, value_dim : int
        As in ``Workload``.
    mask : str
        ``none``, ``causal`` where a constant or an attribute says so, ``given`` where the mask comes from elsewhere.
    """

    name: str
    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    query_key_dim: int
    value_dim: int
    mask: str

    @property
    def sizes(self) -> tuple[int, ...]:
        """Everything but the name and the mask."""
        return (
            self.batch,
            self.heads,
            self.kv_heads,
            self.queries,
            self.keys,
            self.query_key_dim,
            self.value_dim,
        )


@dataclass(frozen=True, kw_only=True)
class LinearNode:
    """A product with constant weights: ``tokens`` vectors of ``inputs`` values become vectors of ``outputs``."""

    name: str
    tokens: int
    inputs: int
    outputs: int


@dataclass(frozen=True, kw_only=True)
class FunctionNode:
    """A norm or an activation.

    Parameters
    ----------
    name : str
        The node, the last one where several compute it.
    function : str
        As EinRTL's units are called, such as ``layernorm`` or ``gelu``; the operator's own name where no unit does it.
    values : int
        Values of the result.
    """

    name: str
    function: str
    values: int


@dataclass(frozen=True, kw_only=True)
class OnnxModel:
    """The nodes of one model that a Transformer's time goes to, each kind in the order of the file.

    Parameters
    ----------
    name : str
        Stem of the file.
    attentions, linears, norms, activations : tuple
        What was found.
    others : mapping of str to int
        Operators of all nodes that belong to none of these, and how many there are: layout, embeddings, residual adds.
    """

    name: str
    attentions: tuple[AttentionNode, ...]
    linears: tuple[LinearNode, ...]
    norms: tuple[FunctionNode, ...]
    activations: tuple[FunctionNode, ...]
    others: Mapping[str, int]

    @property
    def workloads(self) -> dict[Workload, int]:
        """The different attentions, and how many of each the model has."""
        counts = Counter(node.sizes for node in self.attentions)
        found = {}
        for index, (sizes, count) in enumerate(counts.items()):
            batch, heads, kv_heads, queries, keys, query_key_dim, value_dim = sizes
            name = self.name if len(counts) == 1 else f"{self.name}-{index}"
            workload = Workload(
                name=name,
                batch=batch,
                heads=heads,
                kv_heads=kv_heads,
                queries=queries,
                keys=keys,
                query_key_dim=query_key_dim,
                value_dim=value_dim,
            )
            found[workload] = count
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return asdict(self)
