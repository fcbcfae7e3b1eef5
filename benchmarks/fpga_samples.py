"""Makes the samples and the model of ``accel.fpga``: ``python benchmarks/fpga_samples.py --target ecp5``.

Synthesises every line of ``fpga_samples_TARGET.txt``, or of ``fpga_samples.txt`` if there is none (what did not
change comes from the cache), writes
``accel/data/fpga/TARGET.csv`` and ``TARGET.yaml``, and prints the errors of the model: on its samples, each predicted
from all others, and on designs that it never saw.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from accel import spec
from accel.fpga import QUANTITIES, fit_model, read_samples, write_samples
from sim.synth.sampling import read_requests, take_samples, try_model

ROOT = Path(__file__).parents[1]
DATA = ROOT / "accel" / "data" / "fpga"


def main() -> None:
    """Run it."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--target", default="ecp5", choices=("ecp5", "ice40", "xilinx"))
    options.add_argument("--jobs", type=int, default=1, help="syntheses at a time")
    options.add_argument("--cache", type=Path, default=ROOT / "build" / "synth")
    options.add_argument("--fit-only", action="store_true", help="synthesise nothing; fit the samples that are there")
    chosen = options.parse_args()
    csv = DATA / f"{chosen.target}.csv"
    if chosen.fit_only:
        samples = read_samples(csv.read_text(encoding="utf-8"), csv.name)
    else:
        listed = Path(__file__).with_name(f"fpga_samples_{chosen.target}.txt")
        if not listed.exists():
            listed = Path(__file__).with_suffix(".txt")
        requests = read_requests(listed.read_text(encoding="utf-8"), listed.name)
        started = time.perf_counter()
        samples = take_samples(
            requests,
            chosen.target,
            cache=chosen.cache,
            jobs=chosen.jobs,
            on_sample=lambda sample: print(f"{sample.command}: {dict(sample.counts)}", flush=True),
        )
        print(f"{len(samples)} samples in {time.perf_counter() - started:.0f} s")
        write_samples(csv, samples)
    model = fit_model(chosen.target, samples)
    (DATA / f"{chosen.target}.yaml").write_text(spec.dump(model), encoding="utf-8")
    for family, fitted in model.families.items():
        for quantity in QUANTITIES:
            each = fitted.quantities[quantity]
            errors = f"mean {each.mean_error:.3f}, worst {each.worst_error:.3f}"
            print(f"{family:12} {quantity:16} error, one left out: {errors}")
    for trial in try_model(model, samples):
        where = " (extrapolated)" if trial.extrapolated else ""
        print(
            f"{trial.command:70} {trial.quantity:16} predicted {trial.predicted:8.1f} synthesised "
            f"{trial.synthesised:8.1f} error {100 * trial.error:+6.1f} %{where}"
        )


if __name__ == "__main__":
    main()
