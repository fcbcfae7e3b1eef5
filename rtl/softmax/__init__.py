"""The softmax family."""

from rtl.softmax.core import Softmax, softmax_contract

__all__ = ["Softmax", "softmax_contract"]
