"""The softmax family."""

from rtl.softmax.core import Softmax, softmax_contract
from rtl.softmax.elementwise import ElementwiseWeights
from rtl.softmax.entries import ENTRIES
from rtl.softmax.exact import OnlineSoftmax
from rtl.softmax.logarithm import Log2Softmax, LogSumExp
from rtl.softmax.skip import BlockSkip
from rtl.softmax.softpick import Softpick
from rtl.softmax.top_k import TopKSoftmax
from rtl.softmax.two_pass import TwoPassSoftmax
from rtl.softmax.unified_max import UnifiedMax

__all__ = [
    "ENTRIES",
    "BlockSkip",
    "ElementwiseWeights",
    "Log2Softmax",
    "LogSumExp",
    "OnlineSoftmax",
    "Softmax",
    "Softpick",
    "TopKSoftmax",
    "TwoPassSoftmax",
    "UnifiedMax",
    "softmax_contract",
]
