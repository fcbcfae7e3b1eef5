"""Dependency graphs in the language of Graphviz, coloured by pass."""

from __future__ import annotations

from mapping.graph import PassGraph

__all__ = ["PASS_COLOURS", "dot_text"]

PASS_COLOURS = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#D55E00", "#0072B2")
"""The palette of Okabe and Ito (2008), which all kinds of colour vision tell apart; a colour for each pass."""

_EDGES = {"value": "", "step": "style=dashed", "fiber": 'color="#C00000", penwidth=2'}


def dot_text(graph: PassGraph) -> str:
    """Return the graph as a digraph: Einsums as boxes in the colour of their pass, inputs as plain boxes.

    A red edge needs the whole fiber, a dashed one the step before; an Einsum that waits for the end of its pass has a
    double border.
    """
    lines = [
        f'digraph "{graph.analysis.cascade.name}" {{',
        "  rankdir=LR;",
        '  node [shape=box, fontname="monospace"];',
    ]
    for node in graph.nodes:
        look = [f'label="{node.label}"']
        if node.pass_number is not None:
            colour = PASS_COLOURS[(node.pass_number - 1) % len(PASS_COLOURS)] if node.pass_number else "#DDDDDD"
            look += ['style="rounded,filled"', f'fillcolor="{colour}"', f'tooltip="pass {node.pass_number}"']
        if node.waits:
            look.append("peripheries=2")
        lines.append(f'  "{node.name}" [{", ".join(look)}];')
    for edge in graph.edges:
        look_text = _EDGES[edge.kind]
        lines.append(f'  "{edge.source}" -> "{edge.target}"' + (f" [{look_text}];" if look_text else ";"))
    return "\n".join([*lines, "}", ""])
