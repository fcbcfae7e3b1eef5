"""The spatial attention array: R x C PEs, a vector row, buffers, and a sequencer made from a schedule."""

from rtl.attention.array.core import AttentionArrayCore, array_contract
from rtl.attention.array.entry import ENTRIES
from rtl.attention.array.ports import AttentionArrayPorts
from rtl.attention.array.verilog import array_verilog, emit_array

__all__ = [
    "ENTRIES",
    "AttentionArrayCore",
    "AttentionArrayPorts",
    "array_contract",
    "array_verilog",
    "emit_array",
]
