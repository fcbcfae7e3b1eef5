"""``einrtl model``: what a model's file says about the work of its layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import click

from accel.cli.display import console, json_option, print_json, table
from accel.onnx_model import OnnxModel, read_onnx
from accel.workload import AttentionModel, read_hugging_face_config

__all__ = ["dimensions_option", "model_command", "read_sizes"]


def read_sizes(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, int]:
    """Read ``NAME=SIZE`` options."""
    sizes: dict[str, int] = {}
    for text in values:
        name, sign, size = text.rpartition("=")
        if not (name and sign and size.isascii() and size.isdigit() and 0 < len(size) < 10):
            raise click.BadParameter(f"{text!r} must be NAME=SIZE with a whole number", ctx, parameter)
        if name in sizes:
            raise click.BadParameter(f"{name} must be given once, not as {sizes[name]} and {size}", ctx, parameter)
        sizes[name] = int(size)
    return sizes


dimensions_option = click.option(
    "--dim",
    "dims",
    multiple=True,
    callback=read_sizes,
    metavar="NAME=SIZE",
    help="Size of a dimension that an ONNX model names and leaves open. Repeatable.",
)
"""For commands that read models in ONNX."""


@click.command("model")
@click.argument("file", type=click.Path(path_type=Path))
@dimensions_option
@json_option
def model_command(file: Path, dims: dict[str, int], as_json: bool) -> None:
    """Show the layers that FILE describes: the config.json of a Hugging Face model, or a Transformer in ONNX.

    Of an ONNX model it finds attention, linear layers, norms and activations with their sizes.
    """
    if file.suffix.lower() == ".onnx":
        model = read_onnx(file, dims)
        if as_json:
            print_json(model.as_dict())
        else:
            _show_onnx(model)
        return
    if dims:
        raise click.UsageError(f"--dim is for models in ONNX, and {file.name} is none")
    config = read_hugging_face_config(file)
    if as_json:
        print_json(asdict(config))
    else:
        _show_config(config)


def _show_config(config: AttentionModel) -> None:
    rows = [(name.replace("_", " "), "none" if value is None else value) for name, value in asdict(config).items()]
    console().print(table("Model", ("quantity", "value"), rows))


def _show_onnx(model: OnnxModel) -> None:
    """Print each kind of node once for each size, and how often it stands in the model."""
    out = console()
    attentions = Counter((*node.sizes, node.mask) for node in model.attentions)
    heads = ("count", "batch", "heads", "kv heads", "queries", "keys", "E", "F", "mask", "first node")
    rows = [
        (count, *sizes, next(node.name for node in model.attentions if (*node.sizes, node.mask) == sizes))
        for sizes, count in attentions.items()
    ]
    out.print(table("Attention", heads, rows, right=range(8)))
    linears = Counter((node.tokens, node.inputs, node.outputs) for node in model.linears)
    names = {(node.tokens, node.inputs, node.outputs): node.name for node in reversed(model.linears)}
    out.print(
        table(
            "Linear layers",
            ("count", "tokens", "inputs", "outputs", "first node"),
            [(count, *sizes, names[sizes]) for sizes, count in linears.items()],
            right=range(4),
        )
    )
    functions = [("norm", node) for node in model.norms] + [("activation", node) for node in model.activations]
    counts = Counter((kind, node.function, node.values) for kind, node in functions)
    first = {(kind, node.function, node.values): node.name for kind, node in reversed(functions)}
    out.print(
        table(
            "Norms and activations",
            ("count", "kind", "function", "values", "first node"),
            [(count, *key, first[key]) for key, count in counts.items()],
            right=(0, 3),
        )
    )
    out.print(f"Other nodes: {_others(model.others.items())}", markup=False)


def _others(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{count} {operator}" for operator, count in counts) or "none"
