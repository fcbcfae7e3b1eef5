"""The contract of the block-skip flag: which blocks of keys may be left out of an attention row.

BLASST (arXiv 2512.12087): a block whose largest score is below the running maximum by more than ``-ln(threshold)`` can
give no key a weight above ``threshold``, so its exponentials, values and products are skipped. For a row of scores, in
blocks of ``block_beats`` beats (the last block of a row may be shorter), all exact:

1. B is the largest valid score of the block, M that of the row so far, this block included. There is none where no
   score is valid.
2. The flag is 1 if there is no B, or if ``M - B > distance_code`` with
   ``distance_code = floor(-ln(threshold) * 2**(input fraction))``.

A skipped key has a weight below ``threshold``, as M is in the sum: a row loses less than ``threshold`` times the keys
it skips. The flag is lane 0 of the block's last beat; no other lane is kept. Each beat leaves ``latency_cycles`` after
it was accepted, one in every cycle, the output being always ready.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from accel.checks import check_range
from accel.numerics import FixedPoint, Overflow, Rounding
from accel.softmax_rows import Quality, ScoreRows

__all__ = ["BlockSkipUnit"]

FLAG = FixedPoint(signed=False, width_bits=1, fraction_bits=0, rounding=Rounding.TRUNCATE, overflow=Overflow.SATURATE)


@dataclass(frozen=True, kw_only=True)
class BlockSkipUnit(ScoreRows):
    """Parameters of the block-skip flag.

    Parameters
    ----------
    max_length, lanes, input_format
        As those of ``ScoreRows``.
    block_beats : int
        Beats of a block; 1 to 4096.
    threshold : float
        Largest weight that may be lost for a key; above 0, below 1. BLASST's default is 1e-3.

    Raises
    ------
    InputError
        A parameter is out of range.
    """

    block_beats: int
    threshold: float

    name: ClassVar[str] = "block-skip"
    summary: ClassVar[str] = "Block-skip flag: 1 where no score of a block comes near the running maximum"

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every parameter."""
        super().__post_init__()
        check_range(("block_beats",), self.block_beats, 1, 4096)
        check_range(("threshold",), self.threshold, 2.0**-32, 1 - 2.0**-10)

    @property
    def output_format(self) -> FixedPoint:
        """One bit."""
        return FLAG

    @property
    def distance_code(self) -> int:
        """Largest distance from the running maximum, in steps of the scores, that is not skipped."""
        return math.floor(math.ldexp(-math.log(self.threshold), self.input_format.fraction_bits))

    @property
    def latency_cycles(self) -> int:
        """Cycles from accepting a beat to its flag, the output being idle and ready."""
        return 4 + self.tree_stages

    @property
    def max_error(self) -> float:
        """0: the flag is exact."""
        return 0.0

    @property
    def quality(self) -> Quality:
        """What holds for every row."""
        return Quality(
            max_error=0.0,
            row_sum_error=min(1.0, self.threshold * self.capacity),
            argmax="the block with the largest score of its row is never flagged",
        )
