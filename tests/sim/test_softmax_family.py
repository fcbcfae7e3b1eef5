"""The softmax family in compiled Verilog: the bits of the golden models, declared cycles, and bounds that hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accel.numerics import FixedPoint
from accel.softmax_family import BlockSkipUnit, LogSumExpUnit, UnifiedMaxUnit
from accel.softmax_family.elementwise import ElementwiseUnit
from rtl.axi import AxisWrapper
from rtl.emit import emit
from rtl.registry import find_unit
from rtl.softmax.entries import ENTRIES
from sim.compiled import Batch, CompiledUnit, Rhythm
from sim.cosim import Scenario, Simulator, simulate_softmax
from sim.golden.softmax import row_times
from sim.golden.softmax_family import GoldenRow, exact_row, golden_rows
from sim.golden.unified_max import redone, unified_max_times
from sim.toolchain import find_toolchain

NAMES = tuple(entry.name for entry in ENTRIES)
CHANGES: dict[str, dict[str, Any]] = {
    "integer-softmax": {"lanes": 4},
    "softermax": {"lanes": 2},
    "log2-softmax": {"lanes": 3},
    "log-sum-exp": {"lanes": 2},
    "block-skip": {"lanes": 5, "block_beats": 3},
    "softpick": {"lanes": 2},
    "unified-max": {"lanes": 2},
    "sigmoid-attention": {"lanes": 2},
    "relu-attention": {"lanes": 3, "bias": 0.25, "divisor": 100.0},
}
FLOWING = (LogSumExpUnit, BlockSkipUnit, ElementwiseUnit)
UNNORMALISED = ("top-k-softmax", "softpick", "sigmoid-attention", "relu-attention")


def described(name: str) -> Any:
    """The unit that the tests build: rows of up to 600 scores, several lanes where there may be."""
    return replace(find_unit(name).default, max_length=600, **CHANGES.get(name, {}))


def corner_and_random_rows(unit: Any, count: int) -> list[np.ndarray]:
    """Rows of every length: equal, one huge score, all lowest, length 1, ramps, wide and narrow random scores."""
    random = np.random.default_rng(5)
    low, high = unit.input_format.min_code, unit.input_format.max_code
    spike = np.full(unit.max_length, low)
    spike[unit.max_length // 3] = high
    ramp = np.linspace(low, high, unit.max_length).astype(np.int64)
    rows = [spike, ramp, ramp[::-1].copy(), np.clip(np.arange(600) - 300, low, high)]
    for code in (low, -1, 0, high):
        rows += [np.full(length, code) for length in (1, 2, 512, 513, unit.max_length)]
    step = round(2.0**unit.input_format.fraction_bits)
    for _ in range(count):
        length = int(random.choice([1, 3, random.integers(1, 600), 600, 600, 600]))
        spread = random.choice([0.3, 1, 3, 10, 1000]) * step
        rows.append(np.clip(np.rint(random.normal(random.normal(0, 2 * step), spread, length)), low, high))
    return [row.astype(np.int64) for row in rows]


def beats_of(unit: Any, rows: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes, kept lanes and ends of the beats that carry ``rows``."""
    counts = [-(-len(row) // unit.lanes) for row in rows]
    codes, keep = np.zeros((sum(counts), unit.lanes), np.int64), np.zeros((sum(counts), unit.lanes), bool)
    last = np.zeros(len(codes), bool)
    last[np.cumsum(counts) - 1] = True
    for row, end, beats in zip(rows, np.cumsum(counts), counts, strict=True):
        start = (end - beats) * unit.lanes
        codes.reshape(-1)[start : start + len(row)] = row
        keep.reshape(-1)[start : start + len(row)] = True
    return codes, keep, last


@pytest.fixture(scope="module")
def compiled(simulators: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], CompiledUnit]:
    """Return the library of a unit, built once."""
    built: dict[str, CompiledUnit] = {}

    def build(name: str) -> CompiledUnit:
        if name not in built:
            block = find_unit(name).build(described(name))
            emitted = emit(AxisWrapper(block), name.replace("-", "_"), tmp_path_factory.mktemp("emitted"))
            built[name] = CompiledUnit.build(
                emitted.verilog, emitted.description, toolchain=find_toolchain(), cache=simulators
            )
        return built[name]

    return build


def differences(answers: list[GoldenRow], batch: Batch) -> int:
    """How many places differ in code or keep."""
    codes = np.concatenate([answer.codes for answer in answers]).reshape(batch.codes.shape)
    keep = np.concatenate([answer.keep for answer in answers]).reshape(batch.keep.shape)
    return int(((codes != batch.codes) | (keep != batch.keep)).sum())


@pytest.mark.parametrize("name", NAMES)
def test_a_million_corner_and_random_scores_have_the_golden_bits_in_the_declared_cycles(
    name: str, compiled: Callable[[str], CompiledUnit]
) -> None:
    unit = described(name)
    rows = corner_and_random_rows(unit, 3000)
    codes, keep, last = beats_of(unit, rows)
    assert keep.sum() > 1_000_000
    answers = golden_rows(unit, rows)
    batch = compiled(name).run(codes, keep=keep, last=last)
    assert differences(answers, batch) == 0
    assert np.array_equal(batch.last, last)
    assert batch.status["overrun"] == 0
    if isinstance(unit, UnifiedMaxUnit):
        times = unified_max_times(unit, rows)
        assert batch.in_cycles.tolist() == list(times.beats_in)
        assert batch.out_cycles.tolist() == list(times.beats_out)
        assert 0.2 < np.mean([redone(unit, row) for row in rows]) < 0.8
        return
    assert np.array_equal(batch.in_cycles, np.arange(len(codes)))
    if isinstance(unit, FLOWING):
        assert np.array_equal(batch.out_cycles, batch.in_cycles + unit.latency_cycles)
    else:
        ends = row_times(unit, [len(row) for row in rows], unit.latency_cycles).last_out
        assert batch.out_cycles[last].tolist() == list(ends)


@pytest.mark.parametrize("name", NAMES)
def test_back_pressure_and_a_second_run_without_reset_change_no_bit(
    name: str, compiled: Callable[[str], CompiledUnit]
) -> None:
    unit = described(name)
    rows = corner_and_random_rows(unit, 150)
    codes, keep, last = beats_of(unit, rows)
    answers = golden_rows(unit, rows)
    for seed, offer, take in ((1, 0.7, 0.6), (2, 1.0, 0.3), (3, 0.4, 1.0)):
        rhythm = Rhythm(offer_share=offer, take_share=take, seed=seed)
        assert differences(answers, compiled(name).run(codes, keep=keep, last=last, rhythm=rhythm)) == 0
    broken = [replace(answers[0], codes=answers[0].codes ^ 1), *answers[1:]]
    assert differences(broken, compiled(name).run(codes, keep=keep, last=last)) == len(answers[0].codes)


def test_a_unit_of_the_family_keeps_its_protocol_under_cocotb(simulators: Path, tmp_path: Path) -> None:
    unit = replace(find_unit("integer-softmax").default, max_length=24)
    rows = [row[:24] for row in corner_and_random_rows(unit, 20)]
    emitted = emit(AxisWrapper(find_unit("integer-softmax").build(unit)), "integer_softmax", tmp_path)
    simulator = Simulator.build(emitted.verilog, "integer_softmax", toolchain=find_toolchain(), cache=simulators)
    scenarios = [
        Scenario(name=f"{offer} {take}", source_pause_probability=offer, sink_pause_probability=take, seed=3)
        for offer, take in ((0, 0), (0.5, 0), (0, 0.7), (0.4, 0.4), (0, 0))
    ]
    answers = golden_rows(unit, rows)
    for seen in simulate_softmax(simulator, unit, rows, scenarios):
        assert [row.tolist() for row in seen.rows] == [answer.codes.tolist() for answer in answers]
        assert seen.overrun is False


@pytest.mark.parametrize("name", [name for name in NAMES if name != "block-skip"])
def test_beats_and_rows_without_a_score_leave_the_other_results_as_they_are(
    name: str, compiled: Callable[[str], CompiledUnit]
) -> None:
    unit = described(name)
    rows = [row[: unit.max_length // 2] for row in corner_and_random_rows(unit, 60)]
    codes, keep, last = beats_of(unit, rows)
    answers = golden_rows(unit, rows)
    random = np.random.default_rng(9)
    # Before each beat, at times one without a score, and one more to end a row; before a row, at times a row of them.
    blanks = np.where(random.random(len(codes)) < 0.3, 1, 0)
    # The one result of a log-sum-exp stands in the last beat.
    trailing = last & (random.random(len(codes)) < 0.3) & (name != "log-sum-exp")
    starts = np.concatenate([[True], last[:-1]])
    ends = np.cumsum(blanks + 1 + trailing)
    places = ends - 1 - trailing
    sparse_codes = np.full((ends[-1], unit.lanes), unit.input_format.max_code)
    sparse_keep, sparse_last = np.zeros(sparse_codes.shape, bool), np.zeros(len(sparse_codes), bool)
    sparse_codes[places], sparse_keep[places], sparse_last[ends[last] - 1] = codes, keep, True
    sparse_last[places[starts & (blanks > 0) & (random.random(len(codes)) < 0.5)] - 1] = True
    batch = compiled(name).run(sparse_codes, keep=sparse_keep, last=sparse_last)
    assert batch.status["overrun"] == 0
    expected = np.concatenate([answer.codes for answer in answers])
    kept = np.concatenate([answer.keep for answer in answers])
    assert np.array_equal(batch.codes[places].reshape(-1), expected)
    assert np.array_equal(batch.keep[places].reshape(-1), kept)
    others = np.setdiff1d(np.arange(len(sparse_codes)), places)
    assert len(others) > 1000
    assert not batch.keep[others].any()
    assert not batch.codes[others].any()


@pytest.mark.parametrize("name", NAMES)
def test_the_block_has_the_stages_that_its_contract_counts(name: str) -> None:
    entry = find_unit(name)
    for lanes in (1,) if name == "top-k-softmax" else (1, 2, 4, 5, 17, 64):
        unit = replace(entry.default, lanes=lanes)
        contract = entry.contract(unit)
        assert contract.latency_cycles == unit.latency_cycles
        assert contract.interval_cycles == 1
        assert contract.max_error == unit.max_error == unit.quality.max_error
        assert contract.derived["row_sum_error"] == unit.quality.row_sum_error


def real(unit: Any, answer: GoldenRow) -> np.ndarray:
    """The kept results of a row as numbers."""
    codes = answer.codes[answer.keep]
    if unit.name == "log2-softmax":
        return np.where(codes == unit.output_format.max_code, 0.0, 2.0**-codes)
    numbers: np.ndarray = unit.output_format.to_real(codes)
    return numbers


@pytest.mark.parametrize("name", [name for name in NAMES if name != "block-skip"])
def test_no_result_is_further_from_the_exact_one_than_the_contract_says(name: str) -> None:
    unit = described(name)
    rows = corner_and_random_rows(unit, 250)
    worst, sums = 0.0, 0.0
    for row, answer in zip(rows, golden_rows(unit, rows), strict=True):
        got, exact = real(unit, answer), exact_row(unit, row)
        if name == "log-sum-exp":
            worst = max(worst, float(np.abs(got - exact).max()))
            continue
        exact = exact[answer.keep[: len(row)]]
        worst = max(worst, float(np.abs(got - exact).max()))
        sums = max(sums, abs(float(got.sum() - exact.sum())) if name in UNNORMALISED else abs(got.sum() - 1))
        slack = 2 * unit.max_error if name == "sigmoid-attention" else 0.0
        assert got.max() <= got[exact.argmax()] + slack, unit.quality.argmax
    # The bound of the online softmax is for a maximum that rises at every score, each time with the same error.
    assert unit.max_error / (2000 if name == "online-softmax" else 200) < worst <= unit.max_error
    assert sums <= unit.quality.row_sum_error


def test_softpick_of_scores_next_to_0_keeps_its_bound_and_of_zeros_is_0() -> None:
    unit = described("softpick")
    random = np.random.default_rng(8)
    rows = [random.integers(-size, size + 1, length) for size in (1, 2, 9) for length in (1, 2, 3, 7, 600) * 20]
    rows += [np.zeros(length, np.int64) for length in (1, 512)]
    worst = 0.0
    for row, answer in zip(rows, golden_rows(unit, rows), strict=True):
        got, exact = real(unit, answer), exact_row(unit, row)
        worst = max(worst, float(np.abs(got - exact).max()))
        assert not got[row <= 0].any()
        assert row.any() or not got.any()
    assert unit.max_error / 20 < worst <= unit.max_error


def test_log_sum_exp_in_a_narrow_format_saturates_and_rounds_by_each_rule() -> None:
    base = replace(described("log-sum-exp"), exp_segments=16)
    for target in ("s8f2,truncate,saturate", "s8f3,nearest_up,saturate", "s9f4,nearest_even,saturate"):
        unit = replace(base, output_format=FixedPoint.parse(target))
        for row in corner_and_random_rows(unit, 60):
            answer = golden_rows(unit, [row])[0]
            assert abs(real(unit, answer)[0] - exact_row(unit, row)[0]) <= unit.max_error


def test_a_skipped_block_never_holds_a_weight_above_the_threshold() -> None:
    unit = described("block-skip")
    skipped = 0
    for row in corner_and_random_rows(unit, 200):
        answer = golden_rows(unit, [row])[0]
        weights = exact_row(find_unit("softmax").default, row)
        size = unit.block_beats * unit.lanes
        for index, flag in enumerate(answer.codes[answer.keep]):
            if flag:
                skipped += 1
                assert weights[index * size : (index + 1) * size].max() < unit.threshold
    assert skipped > 100


def test_a_row_that_is_too_long_is_closed_and_its_rest_starts_a_row(compiled: Callable[[str], CompiledUnit]) -> None:
    for name in ("log-sum-exp", "log2-softmax"):
        unit = described(name)
        row = np.arange(700) * 20 - 9000
        codes, keep, last = beats_of(unit, [row])
        batch = compiled(name).run(codes, keep=keep, last=last)
        compiled(name).reset()
        assert differences(golden_rows(unit, [row[: unit.capacity], row[unit.capacity :]]), batch) == 0
        assert np.flatnonzero(batch.last).tolist() == [unit.max_beats - 1, len(codes) - 1]
        assert batch.status["overrun"] == 1
