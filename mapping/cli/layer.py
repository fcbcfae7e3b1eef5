"""``einrtl layer``: what a whole Transformer layer costs, part by part."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from accel.cli import console, json_option, print_json, table
from accel.layer import load_layer
from mapping.layer import price_layer

__all__ = ["layer_command"]


@click.command(name="layer")
@click.argument("layer", type=click.Path(path_type=Path))
@click.option("--arch", "architecture", help="Architecture: name or .yaml.  [default: the layer's own]")
@click.option("--cascade", help="Cascade of attention: name or .ein file.  [default: the layer's own]")
@click.option("--batch", type=click.IntRange(min=1), help="Sequences.  [default: the layer's own]")
@click.option("--length", type=click.IntRange(min=1), help="Keys.  [default: the layer's own]")
@click.option("--queries", type=click.IntRange(min=1), help="Queries, such as 1 for decoding.")
@json_option
def layer_command(
    layer: Path,
    architecture: str | None,
    cascade: str | None,
    batch: int | None,
    length: int | None,
    queries: int | None,
    as_json: bool,
) -> None:
    """Price a whole Transformer layer: attention, linear layers, norms, activation, residual additions.

    LAYER is a .yaml file that names a model, an architecture and how attention runs (docs/layers.md).
    """
    given = load_layer(layer)
    attention = given.attention if cascade is None else dataclasses.replace(given.attention, cascade=cascade, tiles={})
    found = price_layer(
        dataclasses.replace(
            given,
            architecture=architecture or given.architecture,
            batch=batch or given.batch,
            length=length or given.length,
            queries=queries or given.queries,
            attention=attention,
        )
    )
    if as_json:
        print_json(found.as_dict())
        return
    out = console()
    asked = found.layer
    queries_text = asked.length if asked.queries is None else asked.queries
    out.print(
        table(
            f"{asked.name} on {asked.architecture}: {asked.batch} x {queries_text:,} queries, {asked.length:,} keys",
            ["part", "how", "cycles", "of the time", "DRAM, bytes", "energy, pJ", "limited by"],
            [
                *(
                    (
                        part.name,
                        part.how,
                        f"{part.price.latency_cycles:,.0f}",
                        f"{part.price.latency_cycles / found.latency_cycles:.2%}",
                        f"{part.price.traffic_bytes:,.0f}",
                        f"{part.price.energy_pj:.4g}",
                        part.price.limit,
                    )
                    for part in found.parts
                ),
                (
                    "all",
                    "",
                    f"{found.latency_cycles:,.0f}",
                    "",
                    f"{found.traffic_bytes:,.0f}",
                    f"{found.energy_pj:.4g}",
                    "",
                ),
            ],
            right=(2, 3, 4, 5),
        )
    )
    out.print(f"{found.latency_s:.4g} s a layer; the model has {found.model_layers}. Left out:")
    for item in found.left_out:
        out.print(f"  - {item}")
