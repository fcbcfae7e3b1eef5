"""Model against execution on random schedules: ``python benchmarks/random_schedules.py --cases 2000``.

Draws the cases of ``tests/sim/random_schedules.py``: every second one has filters, two of every four have inner levels,
each as large as the model says it must be, and ports. A case that the model takes as legal must execute with the
model's cycles and counts, and give what the cascade evaluates to. One that it refuses only because a value is gone
before its reader comes must fail in execution. Exits with 1 if any does not.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import mapping.legal
from accel.cost import load_cost_table
from mapping.bound import bind
from mapping.late import late_problems
from mapping.model import price
from mapping.tiling import Tiling
from sim.events import ExecutionError, differences, execute, random_inputs
from tests.sim.random_schedules import Case, draw, levelled

TOLERANCE = 1e-9


def outputs_agree(given: Case, inputs: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> bool:
    """Return whether the outputs are those of the cascade's own evaluation, NaN where that has NaN."""
    known = given.workload.parameters | {"M0": given.workload.keys}
    sizes = {symbol: size for symbol, size in known.items() if symbol in given.cascade.symbols}
    for instance in range(given.workload.instances):
        expected = given.cascade.evaluate({name: array[instance] for name, array in inputs.items()}, sizes)
        if not all(
            np.allclose(outputs[name][instance], values, rtol=0, atol=TOLERANCE, equal_nan=True)
            for name, values in expected.items()
        ):
            return False
    return True


def outcome(given: Case, seed: int) -> str:
    """Return how a case turns out."""
    bound = bind(given.cascade, given.architecture, given.schedule.plan)
    tiling = Tiling(bound=bound, tiles=given.schedule.tiles, workload=given.workload)
    late = any(True for _ in late_problems(tiling))
    inputs = random_inputs(given.cascade, given.schedule, given.workload, seed)
    try:
        execution = execute(given.cascade, given.architecture, given.schedule, given.workload, inputs)
    except ExecutionError:
        return "refused by both" if late else "WRONG: refused in execution alone"
    if late:
        return "WRONG: refused by the model alone"
    costs = load_cost_table(given.architecture.technology)
    found = differences(execution, price(given.cascade, given.architecture, given.schedule, given.workload, costs))
    if found or any(execution.missed.values()) or any(execution.unread.values()):
        return "WRONG: counts differ"
    return "agree" if outputs_agree(given, inputs, dict(execution.outputs)) else "WRONG: outputs differ"


def main() -> int:
    """Run the cases and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=500, help="draws, some of which give no case")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    given = parser.parse_args()
    found: Counter[str] = Counter()
    begin = time.time()
    lateness = mapping.legal.late_problems
    for seed in range(given.first, given.first + given.cases):
        mapping.legal.late_problems = lambda tiling: iter(())  # what comes too late is drawn, too
        case = draw(random.Random(seed), masked=seed % 2 == 1)
        mapping.legal.late_problems = lateness
        if case is not None and seed % 4 >= 2:
            case = levelled(random.Random(seed), case)
        result = "no case" if case is None else outcome(case, seed) + (", levels" if case.architecture.levels else "")
        found[result] += 1
        if result.startswith("WRONG"):
            print(f"seed {seed}: {result}")
    for result, count in sorted(found.items()):
        print(f"{count:6} {result}")
    print(f"{time.time() - begin:.0f} s")
    return int(any(result.startswith("WRONG") for result in found))


if __name__ == "__main__":
    sys.exit(main())
