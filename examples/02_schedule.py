"""Explore: the best schedule of BERT-base attention on two architectures, for growing sequences."""

from pathlib import Path

from accel.arch import load_architecture
from accel.cascade import load_cascade
from accel.workload import read_hugging_face_config
from mapping.search import search

model = read_hugging_face_config(Path(__file__).parent / "models" / "bert-base-uncased" / "config.json")
cascade = load_cascade("attention-1pass")

for name in ("fusemax-cloud", "fpga-8x8"):
    architecture = load_architecture(name)
    for length in (512, 2048):
        found = search(cascade, architecture, model.workload(batch=1, length=length))
        result = found.result
        print(
            f"{name:14} {length:6} tokens: {result.latency_s * 1e3:10.3f} ms, {result.energy_pj * 1e-9:9.2f} mJ, "
            f"2D array busy {100 * result.use('2d').busy:5.1f} %, "
            f"{100 * (result.latency_cycles / found.floor_cycles - 1):4.1f} % above the floor"
        )
