"""The dependency graph: its colours follow the passes, its edges the dependences, and its picture is reproducible."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from accel.cascade import cascade_names, load_cascade
from accel.zoo import load_zoo
from mapping.dot import PASS_COLOURS
from mapping.graph import PassGraph, pass_graph
from mapping.passes import passes
from mapping.plot_graph import draw_graph


def graph(name: str, rank: str = "m") -> PassGraph:
    return pass_graph(load_cascade(name), rank)


def test_nodes_carry_the_pass_of_their_einsum() -> None:
    found = {node.name: (node.pass_number, node.waits) for node in graph("attention-3pass").nodes}
    assert found == {
        "Q": (None, False), "K": (None, False), "V": (None, False), "QK": (1, False), "GM": (1, False),
        "SN": (2, False), "SD": (2, False), "A": (3, False), "AV": (3, False),
    }  # fmt: skip


def test_edges_tell_what_needs_the_whole_fiber_and_what_the_step_before() -> None:
    three = {(edge.source, edge.target) for edge in graph("attention-3pass").edges if edge.kind == "fiber"}
    assert three == {("GM", "SN"), ("SD", "A")}
    one = graph("attention-1pass").edges
    assert {(edge.source, edge.target) for edge in one if edge.kind == "fiber"} == {("RNV", "AV"), ("RD", "AV")}
    assert {(edge.source, edge.target) for edge in one if edge.kind == "step"} == {
        ("RM", "RM"), ("RD", "SPD"), ("RNV", "SPNV"),
    }  # fmt: skip


@pytest.mark.parametrize("name", cascade_names())
def test_edges_run_to_the_right_and_nothing_shares_a_place(name: str) -> None:
    found = graph(name, load_zoo().entries[name].rank)
    layers = {node.name: node.layer for node in found.nodes}
    for edge in found.edges:
        assert edge.kind == "step" or layers[edge.source] < layers[edge.target]
        if edge.kind != "step":
            assert [layer for layer, _ in edge.via] == list(range(layers[edge.source] + 1, layers[edge.target]))
    taken = [(node.layer, node.place) for node in found.nodes]
    assert len(taken) == len(set(taken))
    # Edges of one pair share their points; those of different pairs, and nodes, do not.
    points = {(edge.source, edge.target, point) for edge in found.edges for point in edge.via}
    assert len({point for *_, point in points} | set(taken)) == len(points) + len(taken)


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_the_same_graph_gives_the_same_bytes(ending: str, tmp_path: Path) -> None:
    first, second = tmp_path / f"a.{ending}", tmp_path / f"b.{ending}"
    draw_graph(graph("attention-1pass"), first)
    draw_graph(graph("attention-1pass"), second)
    assert first.read_bytes() == second.read_bytes()


def test_the_picture_names_every_einsum_and_its_passes(tmp_path: Path) -> None:
    path = tmp_path / "g.svg"
    found = graph("attention-2pass")
    draw_graph(found, path)
    texts = {"".join(each.itertext()).strip() for each in ET.parse(path).iter() if each.tag.endswith("text")}
    assert {node.label for node in found.nodes} <= texts
    assert {"attention-2pass: 2 passes over m", "pass 1", "pass 2", "needs the whole fiber"} <= texts


def test_the_command_draws_and_says_where(einrtl: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "g.png"
    done = einrtl("passes", "softmax-3pass", "--graph", path)
    assert done.code == 0
    assert f"graph drawn to {path}" in done.out.replace("\n", "")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert passes(load_cascade("softmax-3pass"), "m").passes == 3


def test_a_graph_for_graphviz_has_every_node_and_edge_in_the_colour_of_its_pass(tmp_path: Path) -> None:
    graph = pass_graph(load_cascade("attention-3pass"), "m")
    path = tmp_path / "graph.dot"
    draw_graph(graph, path)
    text = path.read_text(encoding="utf-8")
    assert text.startswith('digraph "attention-3pass" {\n')
    assert text.count("->") == len(graph.edges)
    for node in graph.nodes:
        colour = "" if node.pass_number is None else f'fillcolor="{PASS_COLOURS[node.pass_number - 1]}"'
        line = next(line for line in text.splitlines() if line.startswith(f'  "{node.name}" ['))
        assert colour in line
    assert text.count("penwidth=2") == sum(edge.kind == "fiber" for edge in graph.edges)
