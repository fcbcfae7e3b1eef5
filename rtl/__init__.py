"""Amaranth components and the Verilog made from them."""

from rtl.activation import ActivationBlock
from rtl.axi import AxisWrapper, FlatWrapper
from rtl.contract import Contract, StreamUnit
from rtl.emit import Emitted, emit, verilog_text
from rtl.exp2 import Exp2
from rtl.mantissa import MantissaFunction
from rtl.norm import Norm
from rtl.polynomial import Polynomial
from rtl.reciprocal import Reciprocal
from rtl.registry import UNITS, UnitEntry, find_unit, summaries
from rtl.softmax import Softmax
from rtl.stream import Beat, MemoryFifo

__all__ = [
    "UNITS",
    "ActivationBlock",
    "AxisWrapper",
    "Beat",
    "Contract",
    "Emitted",
    "Exp2",
    "FlatWrapper",
    "MantissaFunction",
    "MemoryFifo",
    "Norm",
    "Polynomial",
    "Reciprocal",
    "Softmax",
    "StreamUnit",
    "UnitEntry",
    "emit",
    "find_unit",
    "summaries",
    "verilog_text",
]
