"""The gate of a mixture of experts: scores, choice, and lists of tokens."""

from rtl.moe.gate import Gate

__all__ = ["Gate"]
