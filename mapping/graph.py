"""The dependency graph of a cascade with the pass of each Einsum, laid out in layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import networkx as nx

from accel.cascade import Cascade, Einsum, Tensor
from accel.expression import Access
from mapping.dependence import Family
from mapping.passes import PassAnalysis, fewest_sweeps, passes

__all__ = ["EDGE_KINDS", "GraphEdge", "GraphNode", "PassGraph", "pass_graph"]

EDGE_KINDS: tuple[str, ...] = ("value", "step", "fiber")
"""What an element needs. ``value``: that of its own place; ``step``: that of the step before; ``fiber``: all of it."""

_SWEEPS_OF_ORDER = 12


@dataclass(frozen=True, kw_only=True)
class GraphNode:
    """An input or an Einsum.

    Parameters
    ----------
    name, label : str
        Its tensor, and the tensor with its ranks.
    layer, place : int
        Its column, and its row within the column; both from 0. Every node stands right of what it depends on.
    pass_number : int, optional
        The pass in which it runs or after which; None for an input, 0 for what depends on no element.
    waits : bool
        It runs after the pass.
    """

    name: str
    label: str
    layer: int
    place: int
    pass_number: int | None
    waits: bool = False


@dataclass(frozen=True, kw_only=True)
class GraphEdge:
    """A read.

    Parameters
    ----------
    source, target : str
        The tensor that is read, and the one that is written.
    kind : str
        One of ``EDGE_KINDS``.
    via : tuple of (int, int)
        Layer and place of the points that keep an edge over several layers clear of the nodes between.
    """

    source: str
    target: str
    kind: str
    via: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class PassGraph:
    """The graph of one cascade for one rank.

    Parameters
    ----------
    analysis : PassAnalysis
        The passes.
    nodes : tuple of GraphNode
        Inputs, then Einsums in order.
    edges : tuple of GraphEdge
        One for each pair of tensors and kind.
    """

    analysis: PassAnalysis
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]

    @property
    def layers(self) -> int:
        """Number of columns."""
        return 1 + max(node.layer for node in self.nodes)

    @property
    def height(self) -> int:
        """Number of rows of the tallest column."""
        return max(self.column_height(layer) for layer in range(self.layers))

    def column_height(self, layer: int) -> int:
        """Return the number of rows of a column, those of passing edges included."""
        nodes = [node.place for node in self.nodes if node.layer == layer]
        passing = [place for edge in self.edges for at, place in edge.via if at == layer]
        return 1 + max([*nodes, *passing])


def pass_graph(cascade: Cascade, rank: str) -> PassGraph:
    """Return the dependency graph of ``cascade`` with its passes over ``rank``.

    Layers are longest paths, so that edges run to the right, but for those from the step before. Within a layer nodes
    are ordered by the mean place of their neighbours (the barycentre method of Sugiyama, Tagawa and Toda, 1981).

    Raises
    ------
    InputError
        As ``mapping.passes.passes``.
    """
    analysis = passes(cascade, rank)
    edges = _edges(cascade, rank)
    tensors = [tensor for tensor in cascade.tensors.values() if any(tensor.name in (e.source, e.target) for e in edges)]
    forward = nx.DiGraph()
    forward.add_nodes_from(tensor.name for tensor in tensors)
    forward.add_edges_from((edge.source, edge.target) for edge in edges if edge.kind != "step")
    layers = _layers(forward, {tensor.name for tensor in cascade.inputs})
    routed, all_layers, waypoints = _routed(forward, layers, edges)
    places = _places(routed, all_layers)
    runs = {each.name: each for each in analysis.einsums}
    nodes = tuple(
        GraphNode(
            name=tensor.name,
            label=_label(cascade, tensor),
            layer=layers[tensor.name],
            place=places[tensor.name],
            pass_number=runs[tensor.name].pass_number if tensor.name in runs else None,
            waits=tensor.name in runs and runs[tensor.name].waits,
        )
        for tensor in tensors
    )
    paths = tuple(
        replace(
            edge,
            via=tuple((all_layers[point], places[point]) for point in waypoints.get((edge.source, edge.target), ())),
        )
        if edge.kind != "step"
        else edge
        for edge in edges
    )
    return PassGraph(analysis=analysis, nodes=nodes, edges=paths)


def _routed(
    graph: Any, layers: Mapping[str, int], edges: tuple[GraphEdge, ...]
) -> tuple[Any, dict[str, int], dict[tuple[str, str], list[str]]]:
    """Return the graph with a point in each layer that an edge crosses, their layers, and the points of each edge."""
    routed, all_layers = nx.DiGraph(), dict(layers)
    routed.add_nodes_from(graph.nodes)
    waypoints: dict[tuple[str, str], list[str]] = {}
    for source, target in dict.fromkeys((edge.source, edge.target) for edge in edges if edge.kind != "step"):
        points = [f"{source} to {target} at {layer}" for layer in range(layers[source] + 1, layers[target])]
        all_layers.update((point, layers[source] + 1 + number) for number, point in enumerate(points))
        nx.add_path(routed, [source, *points, target])
        waypoints[source, target] = points
    return routed, all_layers, waypoints


def _label(cascade: Cascade, tensor: Tensor) -> str:
    written = {einsum.name: einsum.output for einsum in cascade.einsums if not einsum.is_initial}
    return str(written.get(tensor.name, tensor))


def _edges(cascade: Cascade, rank: str) -> tuple[GraphEdge, ...]:
    """Return the reads, each pair of tensors and kind once."""
    found: dict[GraphEdge, None] = {}
    for dependence in fewest_sweeps(Family(cascade=cascade, rank=rank)).dependences.values():
        for read, state in dependence.operands.items():
            kind = "fiber" if state.is_complete else "value"
            if _is_step(cascade, dependence.einsum, read):
                kind = "step"
            found[GraphEdge(source=read.tensor, target=dependence.einsum.name, kind=kind)] = None
    return tuple(found)


def _is_step(cascade: Cascade, einsum: Einsum, read: Access) -> bool:
    """Whether ``read`` takes the value that a step of a loop starts from."""
    loop = next((stage for stage in cascade.stages if einsum in stage.einsums), None)
    if loop is None or loop.rank is None or read.tensor not in {each.name for each in loop.einsums}:
        return False
    tensor = cascade.tensors[read.tensor]
    return any(
        rank == tensor.iterative_rank == loop.rank and index.rank == loop.rank
        for index, rank in zip(read.indices, tensor.ranks, strict=True)
    )


def _layers(graph: Any, inputs: set[str]) -> dict[str, int]:
    layers: dict[str, int] = {}
    for name in nx.lexicographical_topological_sort(graph):
        layers[name] = max((layers[source] + 1 for source in graph.predecessors(name)), default=0)
    # An input stands next to its first reader, so that its edge is short.
    for name in inputs & set(layers):
        layers[name] = min((layers[reader] - 1 for reader in graph.successors(name)), default=0)
    return layers


def _places(graph: Any, layers: Mapping[str, int]) -> dict[str, int]:
    columns: dict[int, list[str]] = {}
    for name, layer in layers.items():
        columns.setdefault(layer, []).append(name)
    places = {name: float(number) for names in columns.values() for number, name in enumerate(names)}
    for sweep in range(_SWEEPS_OF_ORDER):
        for layer in sorted(columns, reverse=bool(sweep % 2)):

            def centre(name: str) -> float:
                near = [places[other] for other in (*graph.predecessors(name), *graph.successors(name))]
                return sum(near) / len(near) if near else places[name]

            columns[layer].sort(key=lambda name: (centre(name), places[name]))
            places.update((name, float(number)) for number, name in enumerate(columns[layer]))
    return {name: int(place) for name, place in places.items()}
