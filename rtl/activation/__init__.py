"""Activation functions, by the table of a residual or by one formula."""

from rtl.activation.closed import ENTRIES, ClosedActivationBlock, closed_activation_contract
from rtl.activation.core import ActivationBlock, ActivationLane, activation_contract

__all__ = [
    "ENTRIES",
    "ActivationBlock",
    "ActivationLane",
    "ClosedActivationBlock",
    "activation_contract",
    "closed_activation_contract",
]
