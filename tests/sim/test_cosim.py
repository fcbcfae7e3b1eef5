"""Emitted Verilog under cocotb on Verilator: equal to the golden model, and what is not right is named."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from accel.errors import InputError, SimulationError, ToolMissingError
from accel.numerics import FixedPoint
from accel.softmax_unit import SoftmaxUnit
from sim.compare import compare
from sim.cosim import Scenario, Simulator, simulate_softmax
from sim.golden import softmax as golden
from sim.toolchain import find_toolchain

SCENARIOS = (
    Scenario(name="free-running", source_pause_probability=0, sink_pause_probability=0, seed=1),
    Scenario(name="slow sink", source_pause_probability=0, sink_pause_probability=0.7, seed=2),
    Scenario(name="slow source", source_pause_probability=0.7, sink_pause_probability=0, seed=3),
    Scenario(name="both pause", source_pause_probability=0.4, sink_pause_probability=0.4, seed=4),
    Scenario(name="free-running again", source_pause_probability=0, sink_pause_probability=0, seed=5),
)
ONE_LANE = SoftmaxUnit(
    max_length=24,
    lanes=1,
    input_format=FixedPoint.parse("s16f10,nearest_even,saturate"),
    output_format=FixedPoint.parse("u16f16,nearest_up,saturate"),
)
UNITS = {
    "one lane": ONE_LANE,
    "four lanes, odd formats": SoftmaxUnit(
        max_length=22,
        lanes=4,
        input_format=FixedPoint.parse("s11f6,nearest_even,saturate"),
        output_format=FixedPoint.parse("s10f8,nearest_even,error"),
        exp_segments=16,
    ),
}


def random_rows(unit: SoftmaxUnit, seed: int) -> list[np.ndarray]:
    """Rows of all lengths, random and extreme."""
    random = np.random.default_rng(seed)
    low, high = unit.input_format.min_code, unit.input_format.max_code
    rows = [
        unit.input_format.quantize(
            random.normal(0, random.choice([0.5, 2, 8]), random.integers(1, unit.max_length + 1))
        )
        for _ in range(60)
    ]
    for code in (low, -1, 0, high):
        rows += [np.full(unit.max_length, code), np.array([code])]
    spike = np.full(unit.max_length, low)
    spike[unit.max_length // 2] = high
    rising = np.linspace(low, high, unit.max_length).astype(np.int64)
    return [*rows, spike, rising, rising[::-1]]


@pytest.mark.parametrize("name", UNITS)
def test_bits_cycles_and_actions_equal_the_prediction_in_every_scenario(
    name: str, build_softmax: Callable[[SoftmaxUnit], Simulator]
) -> None:
    unit = UNITS[name]
    rows = random_rows(unit, seed=7)
    lengths = [len(row) for row in rows]
    seen = simulate_softmax(build_softmax(unit), unit, rows, SCENARIOS)
    times = golden.row_times(unit, lengths, unit.latency_cycles)
    results = compare(unit, lengths, golden.softmax(unit, rows), times, seen)
    assert [result.first_difference for result in results] == [None] * len(results)
    assert [result.name for result in results if result.name.startswith("cycles")] == [
        "cycles, free-running",
        "cycles, free-running again",
    ]


def test_a_wrong_latency_is_found(build_softmax: Callable[[SoftmaxUnit], Simulator]) -> None:
    rows = random_rows(ONE_LANE, seed=8)[:3]
    lengths = [len(row) for row in rows]
    seen = simulate_softmax(build_softmax(ONE_LANE), ONE_LANE, rows, SCENARIOS[:1])
    wrong = golden.row_times(ONE_LANE, lengths, ONE_LANE.latency_cycles - 1)
    cycles = compare(ONE_LANE, lengths, golden.softmax(ONE_LANE, rows), wrong, seen)[1]
    first = wrong.first_out[0]
    assert cycles.first_difference == (f"output beat 0 (row 0): expected in cycle {first}, got in cycle {first + 1}")


def test_a_unit_with_other_tables_than_predicted_is_found(
    build_softmax: Callable[[SoftmaxUnit], Simulator],
) -> None:
    rows = random_rows(ONE_LANE, seed=9)
    seen = simulate_softmax(build_softmax(ONE_LANE), ONE_LANE, rows, SCENARIOS[:1])
    other = replace(ONE_LANE, exp_segments=8)
    lengths = [len(row) for row in rows]
    times = golden.row_times(other, lengths, other.latency_cycles)
    bits = compare(other, lengths, golden.softmax(other, rows), times, seen)[0]
    assert not bits.holds
    assert re.fullmatch(r"row \d+, index \d+: expected \d+, got \d+, cycle \d+", bits.first_difference or "")


PORTS = """
module softmax(
  input aclk, input aresetn,
  input [15:0] s_axis_tdata, input [1:0] s_axis_tkeep, input s_axis_tlast, input s_axis_tvalid, output s_axis_tready,
  output [15:0] m_axis_tdata, output [1:0] m_axis_tkeep, output m_axis_tlast, output m_axis_tvalid, input m_axis_tready,
  output overrun
);
"""
NEVER_ANSWERS = """
  assign s_axis_tready = 1'b1;
  assign {m_axis_tdata, m_axis_tkeep, m_axis_tlast, m_axis_tvalid, overrun} = 0;
endmodule
"""


def test_a_hanging_unit_is_given_up_with_the_stalled_stream_named(tmp_path: Path) -> None:
    source = tmp_path / "hangs.v"
    source.write_text("/* verilator lint_off UNUSEDSIGNAL */" + PORTS + NEVER_ANSWERS)
    simulator = Simulator.build(source, "softmax", toolchain=find_toolchain(), cache=tmp_path / "cache")
    with pytest.raises(SimulationError) as caught:
        simulate_softmax(simulator, ONE_LANE, [np.zeros(3, np.int64)], SCENARIOS[:1])
    assert str(caught.value) == (
        "scenario free-running: no transfer for 2000 cycles with 0 of 1 rows received: "
        "s_axis has tvalid=0 tready=1, m_axis has tvalid=0 tready=1"
    )
    (simulator.build_dir / "softmax").rename(simulator.build_dir / "gone")
    with pytest.raises(InputError, match="must be absent or hold a finished build; remove it"):
        Simulator.build(source, "softmax", toolchain=find_toolchain(), cache=tmp_path / "cache")
    (simulator.build_dir / "gone").rename(simulator.build_dir / "softmax")
    again = Simulator.build(source, "softmax", toolchain=find_toolchain(), cache=tmp_path / "cache")
    assert again.build_seconds == 0
    assert again.build_dir == simulator.build_dir


def test_verilog_that_does_not_compile_is_reported_with_the_last_lines(tmp_path: Path) -> None:
    source = tmp_path / "broken.v"
    source.write_text(PORTS + "  assign nonsense\nendmodule\n")
    with pytest.raises(SimulationError, match="the build of the simulation failed; its last lines:") as caught:
        Simulator.build(source, "softmax", toolchain=find_toolchain(), cache=tmp_path / "cache")
    assert "syntax error" in str(caught.value)
    assert list((tmp_path / "cache").iterdir()) == []


def test_missing_tools_are_all_named_with_the_way_to_get_them() -> None:
    with pytest.raises(ToolMissingError) as caught:
        find_toolchain(search_path="")
    assert str(caught.value).splitlines() == [
        "make must be installed to build the simulation; run: apt install make",
        "a C++ compiler (c++) must be installed to build the simulation; run: apt install g++",
    ]


def test_a_cache_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    source = tmp_path / "any.v"
    source.write_text(PORTS)
    with pytest.raises(InputError, match="must be writable: Not a directory; choose another with --build-dir"):
        Simulator.build(source, "softmax", toolchain=find_toolchain(), cache=tmp_path / "file" / "cache")
