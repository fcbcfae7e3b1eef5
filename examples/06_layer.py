"""Explore: where the time of a whole layer goes, for a prompt and for one token at a time."""

from pathlib import Path

from accel.layer import load_layer
from mapping.layer import price_layer

LAYERS = Path(__file__).parent / "layers"

for name in ("llama-3-8b-prefill", "llama-3-8b-decode"):
    price = price_layer(load_layer(LAYERS / f"{name}.yaml"))
    traffic_mib, energy_mj = price.traffic_bytes / 2**20, price.energy_pj * 1e-9
    print(f"{name}: {price.latency_s * 1e3:.3f} ms, {traffic_mib:.0f} MiB, {energy_mj:.1f} mJ")
    for kind in ("attention", "linear", "vector"):
        parts = price.of_kind(kind)
        share = sum(part.price.latency_cycles for part in parts) / price.latency_cycles
        limits = ", ".join(sorted({part.price.limit for part in parts}))
        print(f"  {kind:9} {share:6.1%} of the time, limited by {limits}")
