"""Measures the spatial attention array in compiled simulation against golden model, closed forms and the model.

    .venv/bin/python benchmarks/attention_array_settings.py settings   # 12 designs x 30 random settings
    .venv/bin/python benchmarks/attention_array_settings.py long       # N = 1024, E = F = 64 on 8 x 8

Each prints what it measured and ends with 1 if anything differs from the prediction.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from accel.attention_array import Job, actions, compute_cycles, end_cycles, is_lone, lone_cycles
from sim.attention_array import CompiledArray, expected_cycles
from sim.attention_model import model_actions, price_array
from sim.compiled import Rhythm
from sim.golden.attention_array import attention, exact_attention
from sim.toolchain import find_toolchain
from tests.sim.array_designs import FORMATS, Design, design, inputs, random_job, sequential_plan

SETTINGS, PAUSED = 30, 6


def designs() -> list[Design]:
    """Return twelve different arrays: shapes, dimensions, tiles, formats, exponentials and two plans."""
    sequential = sequential_plan()
    return [
        design(shape=(2, 2), dims=(2, 2), max_length=24, tiles=(2, 1, 2), exp_cycles=4, element=FORMATS[1]),
        design(shape=(2, 3), dims=(4, 4), max_length=31, tiles=(2, 3, 3)),
        design(shape=(4, 8), dims=(8, 8), max_length=40, tiles=(4, 2, 8)),
        design(shape=(2, 2), dims=(3, 4), max_length=30, tiles=(6, 1, 2), exp_cycles=3, element=FORMATS[2]),
        design(shape=(3, 4), dims=(4, 6), max_length=32, tiles=(3, 2, 4), plan=sequential, element=FORMATS[3]),
        design(shape=(2, 2), dims=(5, 3), max_length=29, tiles=(4, 2, 1), plan=sequential),
        design(shape=(1, 1), dims=(1, 1), max_length=9, tiles=(1, 1, 1), exp_cycles=2, weight_fraction_bits=4),
        design(shape=(8, 4), dims=(8, 5), max_length=33, tiles=(8, 1, 4), exp_cycles=7),
        design(shape=(4, 2), dims=(7, 8), max_length=40, tiles=(12, 4, 2), weight_fraction_bits=10),
        design(shape=(1, 4), dims=(6, 2), max_length=20, tiles=(2, 2, 3), element=FORMATS[4], weight_fraction_bits=8),
        design(shape=(4, 1), dims=(2, 7), max_length=17, tiles=(3, 5, 1)),
        design(shape=(3, 3), dims=(8, 8), max_length=40, tiles=(3, 4, 3), exp_cycles=5, element=FORMATS[2]),
    ]


def differences(made: Design, array: CompiledArray, job: Job, source: np.random.Generator, paused: bool) -> list[str]:
    """Return what of one job is not as predicted."""
    unit, given = made.unit, inputs(made.unit, job, source)
    rhythm = Rhythm(
        offer_share=float(source.choice([0.1, 0.5, 1])) if paused else 1.0,
        take_share=float(source.choice([0.1, 0.5, 1])) if paused else 1.0,
        seed=int(source.integers(1 << 30)),
    )
    run, priced = array.run(*given, causal=job.causal, rhythm=rhythm), price_array(unit, made.architecture, job)
    found = {
        "bits": (run.av == attention(unit, *given, causal=job.causal)).all(),
        "cycles": paused or run.cycles == expected_cycles(unit, job),
        "waits": paused or run.wait_cycles == 0,
        "model's cycles": priced.compute_cycles == compute_cycles(unit, job) - lone_cycles(unit, job),
        "actions": run.actions == actions(unit, job),
        "model's actions": run.actions == model_actions(priced),
    }
    return [name for name, equal in found.items() if not equal]


def settings(cache: Path) -> bool:
    """Run all designs; return whether everything is equal."""
    wrong = total = lone = 0
    for index, made in enumerate(designs()):
        unit = made.unit
        array = CompiledArray.build(unit, toolchain=find_toolchain(), cache=cache)
        source, cycles = np.random.default_rng(index), 0
        tile = Job(queries=unit.queries_per_tile, keys=unit.keys_per_tile)
        jobs = [tile, Job(queries=1, keys=1), *(random_job(unit, source) for _ in range(SETTINGS + PAUSED - 2))]
        lone += sum(is_lone(unit, job) for job in jobs)
        for number, job in enumerate(jobs):
            array.reset()  # a value that is read too early is not one that an equal job has left
            found = differences(made, array, job, source, number >= SETTINGS)
            cycles += compute_cycles(unit, job)
            total += 1
            wrong += bool(found)
            if found:
                print(f"  {job}: {', '.join(found)} differ")
        print(
            f"{unit.rows} x {unit.columns}, E {unit.query_key_dim}, F {unit.value_dim}, m0 {unit.keys_per_tile}, "
            f"p1 {unit.query_tiles}, p0 {unit.queries_per_tile}, exp {unit.exponential.cycles}, "
            f"{unit.query_format}, stalls {[group.stall_cycles for group in unit.plan.epoch]} "
            f"and {unit.lone_stall_cycles} for a lone tile: "
            f"{SETTINGS} settings and {PAUSED} with pauses, {cycles} cycles",
            flush=True,
        )
    print(f"{total - wrong} of {total} jobs equal in bits, cycles and actions; {lone} were a lone tile")
    return not wrong


def long(cache: Path) -> bool:
    """Run one long head; return whether everything is equal."""
    made = design(shape=(8, 8), dims=(64, 64), max_length=1024, tiles=(8, 4, 8))
    unit, job, source = made.unit, Job(queries=1024, keys=1024), np.random.default_rng(0)
    given = [
        element.quantize(source.normal(size=(1, 1024, 64)) * scale)
        for element, scale in ((unit.query_format, 1 / 8), (unit.key_format, 1), (unit.value_format, 1))
    ]
    array = CompiledArray.build(unit, toolchain=find_toolchain(), cache=cache)
    run, priced = array.run(*given), price_array(unit, made.architecture, job)
    golden = attention(unit, *given)
    error = np.abs(unit.output_format.to_real(golden) - exact_attention(unit, *given)).max()
    busy = next(use.busy_cycles for use in priced.arrays if use.array == "2d")
    floor = -(-job.queries // 8) * -(-job.keys // 8) * (64 + 1 + unit.stages + 1 + 64)
    equal = (
        bool((run.av == golden).all())
        and run.cycles == expected_cycles(unit, job)
        and priced.compute_cycles == compute_cycles(unit, job)
        and run.actions == actions(unit, job) == model_actions(priced)
        and busy == floor
    )
    multiplications = run.actions["multiply_2d"] / (unit.rows * unit.columns * run.cycles)
    print(f"cycles: {run.cycles} in the hardware, {priced.compute_cycles} in the model, {end_cycles(unit)} to the end")
    print(f"2D array: {floor} cycles of work for each PE, {floor / run.cycles:.4f} of the time")
    print(f"  in steady state {floor // 16384} of {priced.epoch_cycles}; a multiplier works {multiplications:.4f}")
    print(f"waited: {run.wait_cycles}; largest error against float64: {error:.3g}")
    print(f"build {array.build_seconds:.0f} s, run {run.seconds:.1f} s, {run.simulated_cycles_per_second:.0f} cycles/s")
    print("bits, cycles and actions equal" if equal else "something differs")
    return equal


def main() -> int:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("settings", "long"))
    what = parser.parse_args().what
    with tempfile.TemporaryDirectory() as folder:
        return 0 if {"settings": settings, "long": long}[what](Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(main())
