"""``einrtl export``: a cascade in the notation of another tool."""

from __future__ import annotations

from pathlib import Path

import click

from accel.accelforge import accelforge_workload
from accel.cascade import load_cascade
from accel.cli import console
from accel.cli.model import dimensions_option, read_sizes
from accel.files import write_text
from accel.workload_file import read_workload

__all__ = ["export_command"]


@click.command("export")
@click.argument("cascade")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--batch", type=click.IntRange(min=1), help="Sequences.")
@click.option("--length", type=click.IntRange(min=1), help="Keys, and queries too.  [default: the model's own]")
@click.option("--queries", type=click.IntRange(min=1), help="Queries where fewer than keys, such as 1 for decoding.")
@click.option(
    "--width", "width_bits", type=click.IntRange(1, 128), default=16, show_default=True, help="Bits of a value."
)
@click.option(
    "--size",
    "sizes",
    multiple=True,
    callback=read_sizes,
    metavar="RANK=SIZE",
    help="Size of a rank that an attention does not have, such as N=3072. Repeatable.",
)
@dimensions_option
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write.  [default: standard output]")
def export_command(
    cascade: str,
    model: Path,
    batch: int | None,
    length: int | None,
    queries: int | None,
    width_bits: int,
    sizes: dict[str, int],
    dims: dict[str, int],
    output: Path | None,
) -> None:
    """Write CASCADE, for the attention of MODEL, as a workload file of AccelForge.

    CASCADE is a packaged name or a .ein file, MODEL a Hugging Face config.json or an .onnx file.
    """
    workload = read_workload(model, batch=batch, length=length, queries=queries, dims=dims)
    text = accelforge_workload(load_cascade(cascade), workload, width_bits, sizes)
    if output is None:
        click.echo(text, nl=False)
        return
    write_text(output, text)
    console().print(f"Wrote {output}", markup=False)
