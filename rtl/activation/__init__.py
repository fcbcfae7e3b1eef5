"""Activation functions by the table of a residual."""

from rtl.activation.core import ActivationBlock, activation_contract

__all__ = ["ActivationBlock", "activation_contract"]
