"""The FuseSoC core file of an emitted block (CAPI2)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

__all__ = ["core_file"]


def core_file(name: str, summary: str, bench: Sequence[str] = ()) -> str:
    """Return the text of ``name.core``.

    Its targets: ``default`` (the Verilog, for a design that depends on the core), ``lint`` (Verilator), and with a
    bench ``sim``: after the lint the bench's own runner builds and runs it, as a script of the build. (The cocotb
    support of FuseSoC's simulation flow did not link in the versions tried: edalize 0.6.8, cocotb 2.1.0, and
    Verilator from its Python package, 5.48.0.)

    Parameters
    ----------
    name : str
        Of the top module and its files.
    summary : str
        What the block is, in one line.
    bench : sequence of str
        Files of the bench: its test, its vectors and its runner.
    """
    described = summary.replace('"', "'")
    lines = [
        "CAPI=2:",
        "# SPDX-License-Identifier: Apache-2.0",
        f"name: einrtl:units:{name}:{version('einrtl')}",
        f'description: "{described}"',
        "filesets:",
        "  rtl:",
        "    files:",
        f"      - {name}.v",
        "    file_type: verilogSource",
    ]
    if bench:
        lines += ["  bench:", "    files:", *(f"      - {each}: {{file_type: user, copyto: {each}}}" for each in bench)]
        lines += [f"      - {name}.v: {{file_type: user, copyto: {name}.v}}"]
        lines += ["scripts:", "  bench:", f"    cmd: [python3, run_{name}.py]"]
    lines += [
        "targets:",
        "  default: &default",
        "    description: The Verilog, for designs that depend on this core",
        "    filesets: [rtl]",
        f"    toplevel: {name}",
        "  lint: &lint",
        "    <<: *default",
        "    description: Verilator's warnings, all of them",
        "    flow: lint",
        "    flow_options:",
        "      tool: verilator",
        "      verilator_options: [-Wall]",
    ]
    if bench:
        lines += [
            "  sim:",
            "    <<: *lint",
            "    description: The cocotb bench with its vectors, by its own runner; python3 must have cocotb",
            "    filesets: [rtl, bench]",
            "    hooks:",
            "      post_build: [bench]",
        ]
    return "\n".join(lines) + "\n"
