"""Energy of single operations, as combinational circuits of standard cells under random operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rtl.synth import Design
from rtl.synth.asic import CellNetlist, map_to_cells
from rtl.synth.liberty import Liberty
from sim.power.gates import GateSimulator
from sim.power.measure import cell_energy

__all__ = ["PRIMITIVES", "Primitive", "PrimitiveEnergy", "measure_primitive"]

_MEASURED_CYCLES = 64


@dataclass(frozen=True, kw_only=True)
class Primitive:
    """An operation as a circuit without registers.

    Parameters
    ----------
    summary : str
        What it does, with its widths.
    ports : str
        Its ports in Verilog; the inputs are uniformly random.
    body : str
        Its Verilog.
    """

    summary: str
    ports: str
    body: str

    def design(self) -> Design:
        """Return it as a design."""
        return Design(verilog=f"module operation({self.ports});\n{self.body}\nendmodule\n", top="operation")


_TWO = "input signed [15:0] a, input signed [15:0] b, "

PRIMITIVES: Mapping[str, Primitive] = {
    "multiply": Primitive(
        summary="16 x 16 bits, signed, Booth-coded, 32-bit product",
        ports=f"{_TWO}output signed [31:0] y",
        body="assign y = a * b;",
    ),
    "add": Primitive(
        summary="32 bits",
        ports="input [31:0] a, input [31:0] b, output [31:0] y",
        body="assign y = a + b;",
    ),
    "max": Primitive(
        summary="larger of two signed numbers of 16 bits",
        ports=f"{_TWO}output signed [15:0] y",
        body="assign y = a > b ? a : b;",
    ),
    "divide": Primitive(
        summary="16 by 16 bits, unsigned, one array of subtractions without registers",
        ports="input [15:0] a, input [15:0] b, output [15:0] y",
        body="assign y = a / b;",
    ),
    "mac": Primitive(
        summary="16 x 16 bits, signed, added to 40 bits",
        ports=f"{_TWO}input signed [39:0] c, output signed [39:0] y",
        body="assign y = a * b + c;",
    ),
    "shift": Primitive(
        summary="32 bits to the right by 0 to 31",
        ports="input [31:0] a, input [4:0] b, output [31:0] y",
        body="assign y = a >> b;",
    ),
}
"""Operations by the names that cost tables use."""


@dataclass(frozen=True, kw_only=True)
class PrimitiveEnergy:
    """What one operation costs.

    Parameters
    ----------
    netlist : CellNetlist
        Its cells.
    low_pj, high_pj : float
        Energy of one operation without glitches, and with the glitches of equal delays.
    """

    netlist: CellNetlist
    low_pj: float
    high_pj: float


def measure_primitive(
    primitive: Primitive, library: Liberty, *, cache: Path | None = None, seed: int = 1
) -> PrimitiveEnergy:
    """Map an operation to cells, and price its toggles under uniformly random operands.

    Raises
    ------
    ToolMissingError, SynthesisError
        As ``map_to_cells`` does.
    """
    netlist = map_to_cells(primitive.design(), library, cache=cache)
    energies = []
    for unit_delay in (False, True):
        rng, simulator = np.random.default_rng(seed), GateSimulator(netlist, library)
        inputs = {name: len(port["bits"]) for name, port in netlist.ports.items() if port["direction"] == "input"}
        for cycle in range(1 + _MEASURED_CYCLES):
            words = {name: rng.integers(0, 2**64, width, np.uint64) for name, width in inputs.items()}
            simulator.cycle(words, unit_delay=unit_delay)
            if cycle == 0:
                simulator.reset_counts()
        energies.append(1e-3 * cell_energy(netlist, library, simulator).total_fj)
    return PrimitiveEnergy(netlist=netlist, low_pj=energies[0], high_pj=energies[1])
