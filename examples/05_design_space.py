"""Explore: which array shapes nothing beats in latency, energy and area, for one layer of a vision transformer."""

from dataclasses import replace
from pathlib import Path

from accel import load_architecture, load_cascade, read_workload
from accel.cost import load_cost_table
from mapping import search
from mapping.pareto import pareto_front
from mapping.reproduce import area_mm2

config = Path(__file__).parent / "models" / "vit-base-patch16-224" / "config.json"
work = read_workload(config, batch=1)
cascade, base = load_cascade("attention-1pass"), load_architecture("fusemax-cloud")
costs = load_cost_table(base.technology)

designs, measures = [], []
for rows in (64, 128, 256):
    for columns in (64, 128, 256):
        arrays = {
            "2d": replace(base.arrays["2d"], rows=rows, columns=columns),
            "1d": replace(base.arrays["1d"], columns=columns),
        }
        design = replace(base, name=f"{rows} x {columns}", arrays=arrays)
        price = search(cascade, design, work).result
        designs.append(design.name)
        measures.append((price.latency_s * 1e6, price.energy_pj * 1e-6, area_mm2(design, costs)))

for name, (latency_us, energy_uj, area), best in zip(designs, measures, pareto_front(measures), strict=True):
    print(f"{name:10} {latency_us:9.1f} us {energy_uj:9.1f} uJ {area:6.1f} mm2 {'on the front' if best else ''}")
