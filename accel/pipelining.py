"""Cycles of pipelined arithmetic: what contracts state and hardware builds, so that a clock of 100 MHz is in reach."""

from __future__ import annotations

__all__ = ["SEARCH_BITS", "TABLE_BITS", "operand_chunks", "product_cycles", "read_cycles", "search_cycles"]

CHUNK_BITS = 17
"""Magnitude bits of an operand that one hardware multiplier of 18 x 18 signed bits takes."""

SEARCH_BITS = 32
"""Widest value whose leading 1 is found in one cycle."""


TABLE_BITS = 4096
"""Largest table that synthesis makes of logic; a larger one is a block RAM, whose output is late in its cycle."""


def operand_chunks(bits: int, *, signed: bool) -> int:
    """Return the parts into which an operand of ``bits`` bits is cut: the sign stands in the topmost."""
    return max(1, -(-(bits - signed) // CHUNK_BITS))


def product_cycles(left_chunks: int, right_chunks: int) -> int:
    """Return the cycles of a product: one for the products of the parts, one for each level of their adder tree."""
    return 1 + (left_chunks * right_chunks - 1).bit_length()


def search_cycles(bits: int) -> int:
    """Return the cycles in which the leading 1 of a value of ``bits`` bits is found."""
    return 1 if bits <= SEARCH_BITS else 2


def read_cycles(table_bits: int) -> int:
    """Return the cycles in which a table of ``table_bits`` bits is read: a block RAM has a register behind it."""
    return 1 if table_bits <= TABLE_BITS else 2
