"""Measures the reordered attention unit in compiled simulation: its cycles and actions against their closed forms.

    .venv/bin/python benchmarks/reordered_settings.py settings   # 12 designs x 30 random settings
    .venv/bin/python benchmarks/reordered_settings.py table      # T(N, p) measured, for the docs
    .venv/bin/python benchmarks/reordered_settings.py minilm     # the recorded head, at 16 and 8 bits

Each prints what it measured and ends with 1 if anything differs from the prediction.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from accel.cost import load_cost_table
from accel.numerics import FixedPoint
from accel.reordered_schedule import AttentionJob, reordered_iterations
from accel.reordered_unit import ReorderedUnit
from mapping.reordered import reordered_cost, unordered_cost
from sim.golden.reordered import Head, exact_attention
from sim.reordered import ReorderedRun, compile_reordered, quantized_head, report, run_reordered

DESIGNS, SETTINGS = 12, 30
TABLE = ((128, 4), (129, 4), (129, 8), (129, 16), (129, 3), (197, 4), (197, 16), (3, 8), (16, 16))
DATA = Path(__file__).parents[1] / "examples" / "data" / "minilm-layer4-head9.npz"


def random_unit(source: random.Random) -> ReorderedUnit:
    """Return a small unit of any shape."""
    block = source.choice([1, 2, 3, 4, 8])
    value = FixedPoint.parse(source.choice(["s8f4", "s16f12", "u7f5", "s12f0"]) + ",nearest_even,saturate")
    finer = source.choice([0, 1, 3])
    return ReorderedUnit(
        max_length=source.choice([5, 12, 31, 32, 40]),
        key_features=block * source.choice([1, 2, 3, 8]),
        value_features=block * source.choice([1, 2, 5, 8]),
        slots=source.choice([1, 2, 3, 4, 5, 8, 11]),
        block=block,
        banks=source.choice([1, 2]),
        query_format=FixedPoint.parse(source.choice(["s8f4", "s16f12", "u6f3"]) + ",nearest_even,saturate"),
        key_format=FixedPoint.parse(source.choice(["s8f4", "s16f12", "s5f1"]) + ",nearest_even,saturate"),
        value_format=value,
        output_format=dataclasses.replace(
            value, width_bits=value.width_bits + finer, fraction_bits=value.fraction_bits + finer
        ),
        weight_fraction_bits=source.choice([6, 10, 16, 18]),
        guard_bits=source.choice([1, 4, 6]),
        score_scale=source.choice([0.0, 1.0, 0.01]),
        exp_segments=source.choice([1, 16, 32]),
    )


def random_heads(unit: ReorderedUnit, source: np.random.Generator) -> list[Head]:
    """Return up to four heads with any lengths and masks, of narrow and wide numbers."""
    heads = []
    for _ in range(int(source.integers(1, 5))):
        causal = bool(source.random() < 0.5)
        queries, keys = (int(each) for each in source.integers(1, unit.max_length + 1, 2))
        offset = int(source.integers(0, min(9, unit.max_length))) if causal else 0
        tensors = []
        for shape, element in (
            ((queries, unit.key_features), unit.query_format),
            ((keys, unit.key_features), unit.key_format),
            ((keys, unit.value_features), unit.value_format),
        ):
            numbers = np.rint(source.normal(0, 2 ** source.uniform(0, element.width_bits), shape))
            tensors.append(np.clip(numbers, element.min_code, element.max_code).astype(np.int64))
        job = AttentionJob(queries=queries, keys=keys, causal=causal, offset=offset)
        heads.append(Head(job=job, queries=tensors[0], keys=tensors[1], values=tensors[2]))
    return heads


def holds(run: ReorderedRun, *, waits: bool) -> bool:
    """Return whether all that was predicted was measured; cycles only where no port waits."""
    timed = waits or (run.cycles_model == run.cycles_rtl and run.output_cycles_equal)
    return run.bit_exact and timed and run.actions_model == run.actions_rtl and run.max_error <= run.error_bound


def settings(folder: Path) -> bool:
    """Run random settings on random designs, each also with random pauses of all ports."""
    good = True
    for design in range(DESIGNS):
        unit = random_unit(random.Random(design))
        compiled = compile_reordered(unit, folder / str(design), folder / "cache")
        source = np.random.default_rng(design)
        equal = paused = cycles = 0
        for setting in range(SETTINGS):
            heads = random_heads(unit, source)
            run = run_reordered(unit, compiled, heads)
            equal += holds(run, waits=False)
            cycles += run.cycles_rtl
            ports = ("s_axis_job", "s_axis_q", "s_axis_k", "s_axis_v", "m_axis")
            shares = {port: float(source.choice([0.1, 0.5, 1.0])) for port in ports}
            paused += holds(run_reordered(unit, compiled, heads, shares=shares, seed=setting), waits=True)
        shape = f"N<={unit.max_length} E={unit.key_features} F={unit.value_features} p={unit.slots} B={unit.block}"
        print(
            f"design {design:2} {shape:35} bits, cycles, actions equal {equal}/{SETTINGS} ({cycles} cycles); "
            f"with pauses, bits and actions equal {paused}/{SETTINGS}",
            flush=True,
        )
        good &= equal == paused == SETTINGS
    return good


def table(folder: Path) -> bool:
    """Measure T(N, p) as cycles of work, with one feature block and so one cycle an iteration."""
    good = True
    print(
        "N, p: iterations by the formula, measured cycles of work; use of the slots; rows read, reordered / unordered"
    )
    tensor = FixedPoint.parse("s8f4,nearest_even,saturate")
    for length, slots in TABLE:
        unit = ReorderedUnit(
            max_length=length,
            key_features=2,
            value_features=2,
            slots=slots,
            block=2,
            query_format=tensor,
            key_format=tensor,
            value_format=tensor,
            output_format=tensor,
        )
        compiled = compile_reordered(unit, folder / f"{length}-{slots}", folder / "cache")
        ones = np.ones((length, 2))
        run = run_reordered(unit, compiled, [quantized_head(unit, ones, ones, ones)])
        job = AttentionJob(queries=length, keys=length)
        order, other = reordered_cost(slots, job), unordered_cost(slots, job)
        # One block in a key: K is read once in an iteration.
        measured = run.actions_rtl["key_read"]
        good &= holds(run, waits=False) and measured == reordered_iterations(length, slots)
        print(
            f"{length}, {slots}: {reordered_iterations(length, slots)}, {measured}; {order.utilisation:.2%}; "
            f"{order.loads} / {other.loads}",
            flush=True,
        )
    return good


def minilm(folder: Path) -> bool:
    """Run the recorded head; the recording has no values, so that its keys stand for them."""
    with np.load(DATA) as data:
        q, k = (np.asarray(data[name], np.float64) for name in ("q", "k"))
    good = True
    for width, fraction, weight in ((16, 12, 16), (8, 4, 8)):
        tensor = FixedPoint.parse(f"s{width}f{fraction},nearest_even,saturate")
        unit = ReorderedUnit(
            max_length=128,
            key_features=32,
            value_features=32,
            slots=4,
            block=8,
            query_format=tensor,
            key_format=tensor,
            value_format=tensor,
            output_format=tensor,
            weight_fraction_bits=weight,
        )
        compiled = compile_reordered(unit, folder / str(width), folder / "cache")
        for causal in (False, True):
            head = quantized_head(unit, q, k, k, causal=causal)
            run = run_reordered(unit, compiled, [head])
            exact = exact_attention(q, k, k, head.job, unit.scale)
            whole = np.abs(tensor.to_real(run.outputs[0]) - exact).max()
            shown = report(unit, run, load_cost_table("open-45nm"))
            print(
                f"{width} bits{', causal' if causal else ''}: error {run.max_error:.3g} (bound {run.error_bound:.3g}), "
                f"with the inputs' rounding {whole:.3g}; cycles {run.cycles_rtl} (model {run.cycles_model}); "
                f"use {run.utilisation:.2%}; energy {shown['energy_pj'] / 1e6:.3f} uJ; "
                f"{run.simulated_cycles_per_second:.0f} cycles/s",
                flush=True,
            )
            good &= holds(run, waits=False)
    return good


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one measurement and return 0 if all was as predicted."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("settings", "table", "minilm"))
    chosen = parser.parse_args(arguments).what
    with tempfile.TemporaryDirectory(prefix="einrtl-") as folder:
        good = {"settings": settings, "table": table, "minilm": minilm}[chosen](Path(folder))
    print("all as predicted" if good else "NOT as predicted")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
