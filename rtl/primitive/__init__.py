"""Streams of 2^x, e^x, 1/x, 1/sqrt(x) and log2(x)."""

from rtl.primitive.core import PrimitiveBlock, primitive_contract
from rtl.primitive.entries import DEFAULTS, ENTRIES

__all__ = ["DEFAULTS", "ENTRIES", "PrimitiveBlock", "primitive_contract"]
