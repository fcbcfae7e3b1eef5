"""The softmax family."""

from rtl.softmax.core import Softmax, softmax_contract
from rtl.softmax.entries import ENTRIES
from rtl.softmax.exact import OnlineSoftmax
from rtl.softmax.logarithm import Log2Softmax, LogSumExp
from rtl.softmax.skip import BlockSkip
from rtl.softmax.top_k import TopKSoftmax
from rtl.softmax.two_pass import TwoPassSoftmax

__all__ = [
    "ENTRIES",
    "BlockSkip",
    "Log2Softmax",
    "LogSumExp",
    "OnlineSoftmax",
    "Softmax",
    "TopKSoftmax",
    "TwoPassSoftmax",
    "softmax_contract",
]
