"""The block unit: a token memory, and the units that work on it in the order of a list of operations."""

from rtl.block.engine import BlockEngine, block_contract
from rtl.block.entry import ENTRIES
from rtl.block.ports import BlockPorts

__all__ = ["ENTRIES", "BlockEngine", "BlockPorts", "block_contract"]
