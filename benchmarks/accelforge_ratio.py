"""The time to map one attention head: AccelForge and EinRTL in turn on the same sizes, and what differs.

    python benchmarks/accelforge_ratio.py [--length 1024] [--accelforge-python PYTHON] [--workload FILE --arch FILE]

AccelForge (pip install accelforge==1.0.467) needs Python 3.12 or newer in an environment of its own, whose interpreter
is given. Its workload (QK, GM, SN, SD, A, AV) and architecture are YAML files in its own format, given too, for none
come with its package. Without an interpreter or the files only ours runs.
"""

import argparse
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from accel.arch import load_architecture
from accel.cascade import load_cascade
from accel.workload import Workload
from mapping.search import SearchResult, search

DIFFERENCES = (
    "form: AccelForge maps the 3-pass cascade as it is; EinRTL maps the 1-pass form that it derives from it",
    "time: AccelForge runs the arrays one after the other; EinRTL searches a software pipeline over both",
    "exponential: 1 cycle for each operation and lane in AccelForge's model, 6 multiply-accumulates here",
    "buffer: FuseMax's 16 MiB and 400 x 2^30 B/s on both sides, if the files given say so",
)

THEIRS = """
import json, sys, time
import accelforge as af
begin = time.perf_counter()
spec = af.Spec.from_yaml(sys.argv[1], sys.argv[2])
found = spec.map_workload_to_arch()
print(json.dumps({"seconds": time.perf_counter() - begin, "latency_s": float(found.latency())}))
"""


def ours(length: int) -> tuple[SearchResult, float]:
    """Return the schedule for one head of the 3-pass cascade, and the seconds that reading and searching took."""
    begin = time.perf_counter()
    workload = Workload(
        name="head", batch=1, heads=1, kv_heads=1, queries=length, keys=length, query_key_dim=64, value_dim=64
    )
    found = search(load_cascade("attention-3pass"), load_architecture("fusemax-cloud"), workload)
    return found, time.perf_counter() - begin


def theirs(python: str, files: tuple[Path, Path]) -> dict[str, float]:
    """Run AccelForge in a folder of its own, for it leaves files where it runs."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(file.resolve()) for file in files]
        run = subprocess.run([python, "-c", THEIRS, *paths], cwd=folder, capture_output=True, text=True, check=False)
    if run.returncode:
        raise SystemExit(f"AccelForge failed with {python}:\n{run.stderr[-2000:]}")
    return dict(json.loads(run.stdout.splitlines()[-1]))


def main() -> None:
    """Run both in turn and print the ratio."""
    parser = argparse.ArgumentParser(description="The time to map one attention head: AccelForge and EinRTL in turn.")
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--accelforge-python", help="interpreter that has accelforge")
    parser.add_argument("--workload", type=Path, help="workload of AccelForge, .yaml")
    parser.add_argument("--arch", type=Path, help="architecture of AccelForge, .yaml")
    given = parser.parse_args()
    found, seconds = ours(given.length)
    proof = "optimal" if found.optimal else f"within {found.gap:.3%}"
    print(f"EinRTL: {seconds:.2f} s, {found.result.latency_cycles:,.0f} cycles, {proof} in its space")
    if given.accelforge_python is None:
        there = shutil.which("python3.12")
        where = f"There is {there}: install it in an environment" if there else "There is no python3.12"
        print(f"AccelForge: not run. {where}; give --accelforge-python.")
    elif given.workload is None or given.arch is None:
        print("AccelForge: not run. Give its --workload and --arch.")
    else:
        other = theirs(given.accelforge_python, (given.arch, given.workload))
        cycles = other["latency_s"] * load_architecture("fusemax-cloud").clock_hz
        print(f"AccelForge: {other['seconds']:.2f} s, {cycles:,.0f} cycles at our clock")
        print(f"EinRTL maps {other['seconds'] / seconds:.1f} times as fast")
    for line in DIFFERENCES:
        print(f"  - {line}")


if __name__ == "__main__":
    main()
