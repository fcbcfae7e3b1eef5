"""The blocks of the softmax family that can be built by name."""

from __future__ import annotations

import math
from typing import Any

from accel.activation_unit import TableShape
from accel.numerics import FixedPoint
from accel.softmax_family import (
    BlockSkipUnit,
    IntegerSoftmaxUnit,
    Log2SoftmaxUnit,
    LogSumExpUnit,
    OnlineSoftmaxUnit,
    ReluAttentionUnit,
    SigmoidAttentionUnit,
    SoftermaxUnit,
    SoftpickUnit,
    TopKSoftmaxUnit,
    TwoPassSoftmaxUnit,
    UnifiedMaxUnit,
)
from rtl.entry import UnitEntry
from rtl.softmax.core import Softmax
from rtl.softmax.elementwise import ElementwiseWeights
from rtl.softmax.exact import OnlineSoftmax
from rtl.softmax.logarithm import Log2Softmax, LogSumExp
from rtl.softmax.skip import BlockSkip
from rtl.softmax.softpick import Softpick
from rtl.softmax.top_k import TopKSoftmax
from rtl.softmax.two_pass import TwoPassSoftmax
from rtl.softmax.unified_max import UnifiedMax

__all__ = ["ENTRIES"]

_SCORES = "s16f10,nearest_even,saturate"
_WEIGHTS = "u16f16,nearest_up,saturate"
_SIGMOID_SHAPE = TableShape(degree=2, low_bits=8, fraction_bits=15)
"""Of the smallest table for the default sigmoid: what the search finds, kept for speed."""


def _entry(description: type[Any], block: type[Any], summary: str, source: str, target: str, **more: Any) -> UnitEntry:
    """Return the entry of a block, with rows of up to 256 scores, one lane, and these formats by default."""
    formats = {"input_format": FixedPoint.parse(source)}
    if target:
        formats["output_format"] = FixedPoint.parse(target)
    return UnitEntry(
        name=description.name,
        summary=summary,
        make_default=lambda: description(max_length=256, lanes=1, **formats, **more),
        contract=block.contract_of,
        build=block,
    )


ENTRIES = (
    _entry(
        OnlineSoftmaxUnit,
        OnlineSoftmax,
        "online softmax with the exact maximum, whose changes rescale the sum by a product: the baseline",
        _SCORES,
        _WEIGHTS,
    ),
    _entry(
        SoftermaxUnit,
        Softmax,
        "softmax to the base 2 in low precision, rescaled by shifts",
        "s8f2,nearest_even,saturate",
        "u8f7,nearest_up,saturate",
    ),
    _entry(
        IntegerSoftmaxUnit,
        Softmax,
        "integer softmax of 8-bit scores: exponentials are powers of two, weights are shifts of one inverse",
        "s8f5,nearest_even,saturate",
        "u8f8,nearest_up,saturate",
    ),
    _entry(
        Log2SoftmaxUnit,
        Log2Softmax,
        "softmax with weights as powers of two, by a subtraction in place of a product",
        _SCORES,
        "u4f0,nearest_up,saturate",
    ),
    _entry(
        TopKSoftmaxUnit,
        TopKSoftmax,
        "softmax with a fused top-k: only the k largest weights of a row are kept",
        _SCORES,
        _WEIGHTS,
        k=8,
    ),
    _entry(
        LogSumExpUnit,
        LogSumExp,
        "log-sum-exp of each row, which merges attention over parts of the keys",
        _SCORES,
        "s18f10,nearest_even,saturate",
    ),
    _entry(
        TwoPassSoftmaxUnit,
        TwoPassSoftmax,
        "softmax that keeps scores in place of exponentials and computes these twice",
        _SCORES,
        _WEIGHTS,
    ),
    _entry(
        UnifiedMaxUnit,
        UnifiedMax,
        "softmax with a fixed number in place of the maximum, which redoes the rows that leave its window",
        _SCORES,
        _WEIGHTS,
    ),
    _entry(
        SoftpickUnit,
        Softpick,
        "softpick, whose weights are relu(e^x - 1) over the sum of |e^x - 1|: no score has to be a sink",
        _SCORES,
        _WEIGHTS,
    ),
    _entry(
        SigmoidAttentionUnit,
        ElementwiseWeights,
        "sigmoid attention weights, sigmoid(x - ln n): each score by itself, without a row's maximum or sum",
        _SCORES,
        _WEIGHTS,
        bias=-math.log(256),
        shape=_SIGMOID_SHAPE,
    ),
    _entry(
        ReluAttentionUnit,
        ElementwiseWeights,
        "ReLU attention weights, relu(x) / n: each score by itself, without a row's maximum or sum",
        _SCORES,
        _WEIGHTS,
        divisor=256.0,
    ),
    _entry(
        BlockSkipUnit,
        BlockSkip,
        "flag of the blocks of keys that are too far below the running maximum to matter",
        _SCORES,
        "",
        block_beats=16,
        threshold=1e-3,
    ),
)
"""All but the default softmax."""
