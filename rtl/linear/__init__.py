"""The unified linear unit: one matrix engine for all linear layers."""

from rtl.linear.core import LinearCore

__all__ = ["LinearCore"]
