"""Measures the linear unit and the block unit in compiled simulation, against golden model, cycles and float64.

    .venv/bin/python benchmarks/encoder_block.py settings   # random programs on the units of the tests
    .venv/bin/python benchmarks/encoder_block.py blocks     # dense, experts and patch embedding at 16 bits
    .venv/bin/python benchmarks/encoder_block.py m3vit      # cycles and traffic of M3ViT, by the closed forms

Each prints what it found; the first two end with 1 if anything differs from the prediction.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from accel.block_cycles import program_times
from accel.block_unit import BlockUnit, Experts
from accel.encoder_block import EncoderBlock
from accel.numerics import FixedPoint
from mapping.experts import compare_orders, even_counts
from sim.block import PORTS, compile_block, run_block
from sim.encoder_block import encoder_data, exact_encoder, random_weights, stream_of

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.sim.block_cases import BLOCK, LINEAR, random_block_program, random_linear_program

FEATURES = FixedPoint.parse("s16f10,nearest_even,saturate")
WEIGHTS = FixedPoint.parse("s16f14,nearest_even,saturate")
SMALL = {
    "dense": EncoderBlock(tokens=10, features=16, heads=2, hidden_features=32),
    "experts": EncoderBlock(tokens=10, features=16, heads=2, hidden_features=32, experts=4),
    "experts, patches embedded": EncoderBlock(
        tokens=10, features=16, heads=2, hidden_features=32, experts=4, patch_features=24
    ),
}
M3VIT = EncoderBlock(tokens=129, features=192, heads=3, hidden_features=768)
M3VIT_EXPERTS = EncoderBlock(tokens=129, features=192, heads=3, hidden_features=384, experts=16)


def settings(folder: Path) -> bool:
    """Run random programs, every third with pauses of all ports."""
    right = True
    for name, unit, make, count in (
        ("linear unit alone", LINEAR, random_linear_program, 2000),
        ("block unit", BLOCK, random_block_program, 500),
    ):
        compiled, equal = compile_block(unit, folder, folder / "cache"), 0
        for seed in range(1000, 1000 + count):
            case = make(np.random.default_rng(seed))
            pauses = dict.fromkeys(PORTS, 0.5) if seed % 3 == 0 else None
            run = run_block(unit, compiled, case.program, case.data, shares=pauses, seed=seed)
            equal += run.right if pauses is None else run.bit_exact and run.actions_rtl == run.actions_model
        print(f"{name}: {equal} of {count} random programs as predicted")
        right &= equal == count
    return right


def blocks(folder: Path) -> bool:
    """Run an encoder block of each kind."""
    # One unit for all: the widest of them.
    widest = SMALL["experts, patches embedded"]
    unit = widest.fitting_unit(tile=4, feature_format=FEATURES, weight_format=WEIGHTS)
    compiled, right = compile_block(unit, folder, folder / "cache"), True
    for name, block in SMALL.items():
        source = np.random.default_rng(3)
        weights = random_weights(block, source)
        inputs = source.normal(0, 1, (block.tokens, block.features))
        patches = source.normal(0, 1, (block.tokens - 1, block.patch_features)) if block.patch_features else None
        run = run_block(unit, compiled, block.program(unit), encoder_data(unit, block, weights, inputs, patches))
        exact = exact_encoder(unit, block, weights, inputs, patches)
        errors = np.abs(stream_of(unit, block, run.outputs[-1]) - exact)
        print(
            f"{name}: bits {'equal' if run.bit_exact else 'DIFFER'}; cycles {run.cycles_model} predicted, "
            f"{run.cycles_rtl} measured; {run.actions_rtl['mac']} multiply-accumulates of linear layers, "
            f"actions {'equal' if run.actions_rtl == run.actions_model else 'DIFFER'}; "
            f"from float64 at most {errors.max():.2g}, {errors.mean():.2g} on average"
        )
        right &= run.right
    return right


def m3vit() -> bool:
    """Print the cycles of both kinds of blocks of M3ViT, and both orders of experts."""
    for name, block in (("dense", M3VIT), ("experts", M3VIT_EXPERTS)):
        unit = block.fitting_unit(tile=16, feature_format=FEATURES, weight_format=WEIGHTS)
        counts = even_counts(block.tokens, 2, block.experts) if block.experts else ()
        chosen = [list(enumerate(counts))] if block.experts else []
        times = program_times(unit, block.program(unit), chosen)
        print(f"{name} block of {block.tokens} x {block.features}: {times.total_cycles} cycles")
        for each, time in zip(block.program(unit), times.operations, strict=True):
            print(f"  {type(each).__name__:10} from {time.begin_cycle:7} to {time.end_cycle:7}")
        if block.experts:
            _print_orders(unit, block, counts)
    return True


def _print_orders(unit: BlockUnit, block: EncoderBlock, counts: tuple[int, ...]) -> None:
    wide, hidden = block.features, block.hidden_features
    each = Experts(source=0, hidden=0, target=0, in_features=wide, hidden_features=hidden)
    for order, cost in compare_orders(unit, each, counts).items():
        print(
            f"{order}: weights {cost.weight_bits / 8e6:.2f} MB in {cost.load_cycles} beats, "
            f"{cost.step_cycles} steps in {cost.cycles} cycles ({cost.utilisation:.1%})"
        )


def main() -> int:
    """Run one measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("settings", "blocks", "m3vit"))
    what = parser.parse_args().what
    with tempfile.TemporaryDirectory() as folder:
        right = m3vit() if what == "m3vit" else {"settings": settings, "blocks": blocks}[what](Path(folder))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
