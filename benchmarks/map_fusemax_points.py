"""The 24 points of FuseMax (4 models by 6 lengths): the schedule found, the published one, and the floor.

    python benchmarks/map_fusemax_points.py

Prints cycles for each 256 x 256 tile, the gap that the search proves, and the seconds it took.
"""

import time

from accel.arch import load_architecture
from accel.cascade import load_cascade
from accel.workload import Workload
from mapping.search import search

MODELS = {"BERT": (12, 64), "TrXL": (16, 64), "T5": (8, 64), "XLM": (16, 128)}
"""Heads and head dimension (FuseMax, section VI, and artifact); batch 64."""


def main() -> None:
    """Print one line for each point."""
    cascade, architecture = load_cascade("attention-1pass"), load_architecture("fusemax-cloud")
    print(f"{'model':6} {'length':>8} {'found':>10} {'FuseMax':>10} {'floor':>7} {'above':>8} {'faster':>7} {'s':>6}")
    for model, (heads, dim) in MODELS.items():
        for power in range(10, 21, 2):
            length = 1 << power
            workload = Workload(
                name=model,
                batch=64,
                heads=heads,
                kv_heads=heads,
                queries=length,
                keys=length,
                query_key_dim=dim,
                value_dim=dim,
            )
            begin = time.perf_counter()
            found = search(cascade, architecture, workload)
            seconds = time.perf_counter() - begin
            tiles = 64 * heads * (length // 256) ** 2
            ours = found.result.latency_cycles / tiles
            # Section V: max(E + 1, 1 + F + F / M1) + 1 + 8 + F cycles a tile.
            published = 9 + dim + max(dim + 1, 1 + dim + dim / (length // 256))
            floor = 2 * dim + 9
            print(
                f"{model:6} {length:8} {ours:10.4f} {published:10.4f} {floor:7} {ours / floor - 1:8.3%} "
                f"{published / ours:6.3f}x {seconds:6.2f}" + ("" if found.optimal else "  not proved")
            )


if __name__ == "__main__":
    main()
