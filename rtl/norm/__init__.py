"""LayerNorm and RMSNorm by exact sums and one 1 / sqrt for each row."""

from rtl.norm.core import Norm, norm_contract

__all__ = ["Norm", "norm_contract"]
