"""The contracts of the softmax family beside the default ``accel.softmax_unit``."""

from accel.softmax_family.elementwise import ReluAttentionUnit, SigmoidAttentionUnit
from accel.softmax_family.integer import IntegerSoftmaxUnit
from accel.softmax_family.logarithm import Log2SoftmaxUnit, LogSumExpUnit
from accel.softmax_family.online import OnlineSoftmaxUnit
from accel.softmax_family.skip import BlockSkipUnit
from accel.softmax_family.softermax import SoftermaxUnit
from accel.softmax_family.softpick import SoftpickUnit
from accel.softmax_family.top_k import TopKSoftmaxUnit
from accel.softmax_family.two_pass import TwoPassSoftmaxUnit
from accel.softmax_family.unified_max import UnifiedMaxUnit

__all__ = [
    "BlockSkipUnit",
    "IntegerSoftmaxUnit",
    "Log2SoftmaxUnit",
    "LogSumExpUnit",
    "OnlineSoftmaxUnit",
    "ReluAttentionUnit",
    "SigmoidAttentionUnit",
    "SoftermaxUnit",
    "SoftpickUnit",
    "TopKSoftmaxUnit",
    "TwoPassSoftmaxUnit",
    "UnifiedMaxUnit",
]
