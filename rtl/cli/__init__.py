"""The ``einrtl rtl`` command: blocks as Verilog, one module for each family."""

from __future__ import annotations

import click

from rtl.cli import (
    activation,
    attention,
    attention_array,
    closed_activation,
    linear,
    moe,
    norm,
    primitive,
    reordered,
    softmax,
)

__all__ = ["rtl"]


@click.group()
def rtl() -> None:
    """Write a hardware block as Verilog, with a JSON sidecar that says what it is."""


for _family in (
    softmax,
    activation,
    closed_activation,
    norm,
    primitive,
    reordered,
    attention_array,
    closed_activation,
    attention,
    linear,
    moe,
):
    for _command in _family.COMMANDS:
        rtl.add_command(_command)
