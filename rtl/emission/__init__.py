"""What is written beside the Verilog of a block: a bench with its vectors, and a FuseSoC core file."""

from rtl.emission.core_file import core_file
from rtl.emission.write import BENCH_GROUP, Bench, emit_all, with_core

__all__ = ["BENCH_GROUP", "Bench", "core_file", "emit_all", "with_core"]
