"""The compiled model behind numpy batches: the softmax against its golden model, and faults that a run must find."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from accel.errors import InputError, SimulationError
from accel.numerics import FixedPoint
from accel.softmax_unit import SoftmaxUnit
from rtl.axi import AxisWrapper, FlatWrapper
from rtl.emit import emit
from rtl.softmax import Softmax
from sim.compiled import ALWAYS, CompiledUnit, Rhythm
from sim.golden import softmax as golden
from sim.toolchain import find_toolchain

UNIT = SoftmaxUnit(
    max_length=64,
    lanes=3,
    input_format=FixedPoint.parse("s13f7,nearest_even,saturate"),
    output_format=FixedPoint.parse("u16f16,nearest_up,saturate"),
)
PAUSES = Rhythm(offer_share=0.7, take_share=0.6, seed=5)

Beats = tuple[np.ndarray, np.ndarray, np.ndarray]


def corner_and_random_rows(count: int) -> list[np.ndarray]:
    """Rows of every length: wide and narrow random scores, equal scores, one huge score, both ends, ramps."""
    random = np.random.default_rng(7)
    low, high = UNIT.input_format.min_code, UNIT.input_format.max_code
    rows = []
    for index in range(count):
        length = int(random.integers(1, UNIT.max_length + 1))
        match index % 8:
            case 0 | 1 | 2:
                row = random.integers(low, high + 1, length)
            case 3 | 4:
                row = np.clip(np.rint(random.normal(0, 2 ** random.uniform(5, 10), length)), low, high)
            case 5:
                row = np.full(length, random.choice([low, -1, 0, 1, high]))
            case 6:
                row = np.full(length, low)
                row[random.integers(length)] = high
            case _:
                row = np.sort(random.integers(low, high + 1, length))[:: random.choice([-1, 1])]
        rows.append(row.astype(np.int64))
    return rows


def beats_of(rows: list[np.ndarray]) -> Beats:
    """Codes, kept lanes and ends of the beats that carry ``rows``."""
    codes, keep, last = [], [], []
    for row in rows:
        beats = -(-len(row) // UNIT.lanes)
        padded = np.zeros(beats * UNIT.lanes, np.int64)
        padded[: len(row)] = row
        codes.append(padded.reshape(beats, UNIT.lanes))
        keep.append((np.arange(beats * UNIT.lanes) < len(row)).reshape(beats, UNIT.lanes))
        last.append(np.arange(beats) == beats - 1)
    return np.concatenate(codes), np.concatenate(keep), np.concatenate(last)


@pytest.fixture(scope="module")
def compiled(simulators: Path, tmp_path_factory: pytest.TempPathFactory) -> CompiledUnit:
    """The softmax as a library."""
    emitted = emit(AxisWrapper(Softmax(UNIT, counters=True)), "softmax", tmp_path_factory.mktemp("emitted"))
    return CompiledUnit.build(emitted.verilog, emitted.description, toolchain=find_toolchain(), cache=simulators)


def test_more_than_a_million_corner_and_random_scores_have_the_golden_bits_and_counts(compiled: CompiledUnit) -> None:
    rows = corner_and_random_rows(32_500)
    codes, keep, last = beats_of(rows)
    assert keep.sum() > 1_000_000
    expected = golden.softmax(UNIT, rows)
    compiled.reset()
    batch = compiled.run(codes, keep=keep, last=last)
    assert np.array_equal(batch.codes[keep], np.concatenate(expected.weights))
    assert not batch.codes[~keep].any()
    assert np.array_equal(batch.keep, keep)
    assert np.array_equal(batch.last, last)
    assert batch.status == {"overrun": 0} | {f"count_{name}": count for name, count in expected.actions.items()}
    times = golden.row_times(UNIT, [len(row) for row in rows], UNIT.latency_cycles)
    assert batch.in_cycles[last].tolist() == list(times.last_in)
    assert batch.out_cycles[last].tolist() == list(times.last_out)


def test_pauses_change_the_cycles_and_no_bit_in_a_second_run_without_reset(compiled: CompiledUnit) -> None:
    codes, keep, last = beats_of(corner_and_random_rows(2000))
    calm = compiled.run(codes, keep=keep, last=last)
    paused = compiled.run(codes, keep=keep, last=last, rhythm=PAUSES)
    assert np.array_equal(paused.codes, calm.codes)
    assert np.array_equal(paused.keep, keep)
    assert np.array_equal(paused.last, last)
    assert calm.in_cycles[-1] == len(codes) - 1
    # The slower port decides: the output takes in 60 % of the cycles.
    assert 0.59 < len(codes) / paused.out_cycles[-1] < 0.61


def test_a_rhythm_gives_the_same_cycles_again_and_its_seed_gives_others(compiled: CompiledUnit) -> None:
    codes, keep, last = beats_of(corner_and_random_rows(50))

    def run(seed: int) -> np.ndarray:
        compiled.reset()
        rhythm = Rhythm(offer_share=0.5, take_share=0.5, seed=seed)
        return compiled.run(codes, keep=keep, last=last, rhythm=rhythm).out_cycles

    assert np.array_equal(run(1), run(1))
    assert not np.array_equal(run(1), run(3))


def test_a_library_is_built_once_for_the_same_text(compiled: CompiledUnit, simulators: Path, tmp_path: Path) -> None:
    emitted = emit(AxisWrapper(Softmax(UNIT, counters=True)), "softmax", tmp_path)
    again = CompiledUnit.build(emitted.verilog, emitted.description, toolchain=find_toolchain(), cache=simulators)
    assert again.build_seconds == 0
    assert again.library == compiled.library
    assert not list(simulators.glob(".*.so-*"))


LOOSE = """\
module loose(
  input aclk, input aresetn, input [7:0] s_axis_tdata, input s_axis_tkeep, input s_axis_tlast, input s_axis_tvalid,
  output s_axis_tready, output [7:0] m_axis_tdata, output m_axis_tkeep, output m_axis_tlast, output m_axis_tvalid,
  input m_axis_tready);
  reg [7:0] cycle = 0;
  always @(posedge aclk) cycle <= aresetn ? cycle + 1 : 0;
  assign {m_axis_tkeep, m_axis_tlast} = {s_axis_tkeep, s_axis_tlast};
  BODY
endmodule
"""
PASS = "assign s_axis_tready = m_axis_tready;"

FAULTS = {
    "takes nothing": (
        "assign s_axis_tready = 0; assign m_axis_tvalid = 0; assign m_axis_tdata = 0;",
        "port s_axis did not move for 50 cycles, after 0 beats in and 0 out of 40",
    ),
    "gives nothing": (
        "assign s_axis_tready = 1; assign m_axis_tvalid = 0; assign m_axis_tdata = 0;",
        "port m_axis did not move for 50 cycles, after 40 beats in and 0 out of 40",
    ),
    "takes valid back": (
        f"{PASS} assign m_axis_tvalid = s_axis_tvalid & cycle[0]; assign m_axis_tdata = s_axis_tdata;",
        "port m_axis must keep tvalid until tready, but took it back, after",
    ),
    "changes its payload": (
        f"{PASS} assign m_axis_tvalid = s_axis_tvalid; assign m_axis_tdata = s_axis_tdata ^ cycle;",
        "port m_axis must keep its payload until tready, but changed it, after",
    ),
    "repeats beats": (
        "assign s_axis_tready = 1; assign m_axis_tvalid = 1; assign m_axis_tdata = 0;",
        "port m_axis must deliver one beat for each beat of s_axis, but offered another, after",
    ),
}


def loose_description() -> dict[str, object]:
    """The part of a sidecar that describes ``LOOSE``."""
    widths = {"tdata": 8, "tkeep": 1, "tlast": 1, "tvalid": 1, "tready": 1}
    ports = [
        {"name": f"{side}_axis_{part}", "width_bits": width} for side in ("s", "m") for part, width in widths.items()
    ]
    number = FixedPoint.parse("u8f4,truncate,saturate").as_dict()
    what = {"top": "loose", "wrapper": "AxisWrapper", "input_format": number, "output_format": number}
    return what | {"ports": [{"name": "aclk", "width_bits": 1}, {"name": "aresetn", "width_bits": 1}, *ports]}


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_block_is_found_and_its_port_named(name: str, tmp_path: Path, simulators: Path) -> None:
    body, message = FAULTS[name]
    (tmp_path / "loose.v").write_text(LOOSE.replace("BODY", body))
    unit = CompiledUnit.build(tmp_path / "loose.v", loose_description(), toolchain=find_toolchain(), cache=simulators)
    rhythm = ALWAYS if "nothing" in name else Rhythm(offer_share=1, take_share=0.4, seed=9)
    with pytest.raises(SimulationError) as caught:
        unit.run(np.arange(40)[:, None], rhythm=rhythm, patience_cycles=50)
    assert str(caught.value).startswith(message)


def test_verilog_that_does_not_compile_shows_the_tools_last_lines(tmp_path: Path, simulators: Path) -> None:
    (tmp_path / "loose.v").write_text(LOOSE.replace("BODY", "assign nowhere = ;"))
    with pytest.raises(SimulationError, match=r"(?s)\AVerilator failed; its last lines:\n.*loose\.v:8"):
        CompiledUnit.build(tmp_path / "loose.v", loose_description(), toolchain=find_toolchain(), cache=simulators)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"codes": np.zeros((2, 2), int)}, "codes must have the shape (beats, 3), not (2, 2); give at least one beat"),
        ({"codes": np.zeros((0, 3), int)}, "codes must have the shape (beats, 3), not (0, 3); give at least one beat"),
        (
            {"codes": np.full((1, 3), 4096)},
            "codes must be integers from -4096 to 4095; quantize the numbers by s13f7,nearest_even,saturate",
        ),
        (
            {"codes": np.zeros((2, 3), int), "last": np.ones(3)},
            "last must have the shape (2,), not (3,); as codes has",
        ),
    ],
)
def test_wrong_arrays_are_refused(compiled: CompiledUnit, arguments: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(InputError) as caught:
        compiled.run(**arguments)
    assert str(caught.value) == message


def test_a_port_that_never_moves_and_another_wrapper_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        Rhythm(offer_share=0.0, take_share=1.0, seed=1)
    assert str(caught.value) == ("offer_share must be from 2**-16 to 1, not 0.0; use 1 for a port that never pauses")
    emitted = emit(FlatWrapper(Softmax(UNIT)), "softmax", tmp_path)
    with pytest.raises(InputError) as caught:
        CompiledUnit.build(emitted.verilog, emitted.description, toolchain=find_toolchain(), cache=tmp_path)
    assert str(caught.value) == (
        "a compiled unit must have AXI4-Stream ports, not those of FlatWrapper; emit it with --axi"
    )
