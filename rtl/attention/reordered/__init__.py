"""The reordered attention unit: p query rows at a time, one key and one value for all of them."""

from rtl.attention.reordered.core import ReorderedAttention, reordered_contract
from rtl.attention.reordered.entry import ENTRIES
from rtl.attention.reordered.ports import ReorderedPorts

__all__ = ["ENTRIES", "ReorderedAttention", "ReorderedPorts", "reordered_contract"]
