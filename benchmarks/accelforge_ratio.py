"""The time to map one attention head: AccelForge and EinRTL in turn, on the same sizes and the same chip.

    python benchmarks/accelforge_ratio.py [--length 1024] [--accelforge-python PYTHON]

AccelForge (pip install accelforge==1.0.467) needs Python 3.12 or newer in an environment of its own, whose interpreter
is given, and the program dot (Graphviz). Its workload is written from our 3-pass cascade; its architecture is
benchmarks/data/accelforge_cloud.yaml. Without an interpreter only ours runs.
"""

import argparse
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from accel.accelforge import accelforge_workload
from accel.arch import load_architecture
from accel.cascade import load_cascade
from accel.workload import Workload
from mapping.search import SearchResult, search

ARCHITECTURE = Path(__file__).parent / "data" / "accelforge_cloud.yaml"

DIFFERENCES = (
    "form: AccelForge maps the 3-pass cascade as it is; EinRTL may also take the 1-pass form that it derives",
    "time: AccelForge runs the arrays one after the other, EinRTL searches a software pipeline over both",
    "operators: AccelForge counts one cycle for each point, fusemax-cloud six for an exponential",
    "binding: AccelForge keeps products on the matrix, EinRTL binds each Einsum to any array with its operators",
    "buffer: AccelForge's has ports of a row of 256 values, ours are taken as sufficient",
)

THEIRS = """
import json, sys, time
import accelforge as af
begin = time.perf_counter()
spec = af.Spec.from_yaml(sys.argv[1], sys.argv[2])
spec.mapper.metrics = af.mapper.Metrics.LATENCY
found = spec.map_workload_to_arch(print_progress=False)
print(json.dumps({"seconds": time.perf_counter() - begin, "latency_s": float(found.latency())}))
"""


def head(length: int) -> Workload:
    """Return one head of ``length`` queries and keys, E = F = 64."""
    return Workload(
        name="head", batch=1, heads=1, kv_heads=1, queries=length, keys=length, query_key_dim=64, value_dim=64
    )


def ours(cascade: str, length: int) -> tuple[SearchResult, float]:
    """Return the schedule for one head, and the seconds that reading and searching took."""
    begin = time.perf_counter()
    found = search(load_cascade(cascade), load_architecture("fusemax-cloud"), head(length))
    return found, time.perf_counter() - begin


def one_cycle_a_point(found: SearchResult) -> float:
    """Return the cycles of a schedule at AccelForge's price: each array one cycle for a point, DRAM as it is.

    Nothing waits for another array in this price, as nothing waits between Einsums that overlap: it is the busiest.
    """
    architecture, points = load_architecture("fusemax-cloud"), dict[str, int]()
    for each in found.result.einsums:
        points[each.array] = points.get(each.array, 0) + each.points
    cycles = (count / architecture.arrays[array].pes for array, count in points.items())
    return max(*cycles, found.result.memory_cycles)


def theirs(python: str, workload: str) -> dict[str, float]:
    """Run AccelForge in a folder of its own, for it leaves files where it runs."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "workload.yaml"
        file.write_text(workload, encoding="utf-8")
        command = [python, "-c", THEIRS, str(ARCHITECTURE.resolve()), str(file)]
        try:
            run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        except OSError as error:
            raise SystemExit(f"{python} must be an interpreter: {error.strerror}") from None
    if run.returncode:
        raise SystemExit(f"AccelForge failed with {python}:\n{run.stderr[-2000:]}")
    return dict(json.loads(run.stdout.splitlines()[-1]))


def main() -> None:
    """Run both in turn and print the ratio."""
    parser = argparse.ArgumentParser(description="The time to map one attention head: AccelForge and EinRTL in turn.")
    parser.add_argument("--length", type=int, default=1024, help="queries and keys")
    parser.add_argument("--accelforge-python", metavar="PYTHON", help="interpreter that has accelforge")
    given = parser.parse_args()
    if given.length < 1:
        parser.error(f"--length must be at least 1, not {given.length}")
    found, seconds = ours("attention-3pass", given.length)
    proof = "optimal" if found.optimal else f"within {found.gap:.3%}"
    print(f"EinRTL: {seconds:.2f} s, {found.result.latency_cycles:,.0f} cycles as {found.schedule.cascade}, {proof}")
    print(f"  at one cycle for each point its busiest array takes {one_cycle_a_point(found):,.0f} cycles")
    if given.accelforge_python is None:
        there = shutil.which("python3.12")
        where = f"There is {there}: install it in an environment" if there else "There is no python3.12"
        print(f"AccelForge: not run. {where}; give --accelforge-python.")
    elif shutil.which("dot") is None:
        print("AccelForge: not run. It needs the program dot; install Graphviz (apt install graphviz).")
    else:
        other = theirs(
            given.accelforge_python, accelforge_workload(load_cascade("attention-3pass"), head(given.length))
        )
        cycles = other["latency_s"] * load_architecture("fusemax-cloud").clock_hz
        print(f"AccelForge: {other['seconds']:.2f} s, {cycles:,.0f} cycles at our clock, one for each point")
        print(f"EinRTL maps {other['seconds'] / seconds:.1f} times as fast")
        print(f"Its schedule takes {found.result.latency_cycles / cycles:.3f} of AccelForge's cycles")
    for line in DIFFERENCES:
        print(f"  - {line}")


if __name__ == "__main__":
    main()
