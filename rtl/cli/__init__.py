"""The ``einrtl rtl`` command: blocks as Verilog, one module for each family."""

from __future__ import annotations

import click

from rtl.cli import activation, attention_array, norm, reordered, softmax

__all__ = ["rtl"]


@click.group()
def rtl() -> None:
    """Write a hardware block as Verilog, with a JSON sidecar that says what it is."""


for _family in (softmax, activation, norm, reordered, attention_array):
    for _command in _family.COMMANDS:
        rtl.add_command(_command)
