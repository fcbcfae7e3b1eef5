"""The contract of the softmax with a fused top-k: the weights of the k largest scores, in one pass.

Milakov and Gimelshein (arXiv 1805.02867, section 4) fuse the search for the k largest scores into the pass that sums.
All steps, bits and bounds are those of ``accel.softmax_unit`` without ``keep_row_sum``: weights are normalised over the
whole row. Beside the running sum, k places hold the largest exponentials so far, in order of (h, w): of two equal ones
the earlier is the larger. At the end of the row the last of the k places is the limit. Of the beats that leave, the
lane is kept if its exponential is not below the limit; all others are 0 and not kept. So the place of a weight in its
row is its index. A row of fewer than k scores keeps all.

There is one lane: a beat inserts one score. Timing: as ``accel.softmax_unit``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from accel.checks import check_range
from accel.errors import InputError
from accel.numerics import Rounding
from accel.softmax_rows import Quality
from accel.softmax_unit import SoftmaxUnit

__all__ = ["TopKSoftmaxUnit"]


@dataclass(frozen=True, kw_only=True)
class TopKSoftmaxUnit(SoftmaxUnit):
    """Parameters of the softmax with top-k: those of ``SoftmaxUnit``, with one lane and without ``keep_row_sum``.

    Parameters
    ----------
    k : int
        Weights to keep in a row; 1 to 64.

    Raises
    ------
    InputError
        A parameter is out of range.
    """

    k: int
    keep_row_sum: bool = False

    name: ClassVar[str] = "top-k-softmax"
    summary: ClassVar[str] = "Softmax with a fused top-k: the weights of the k largest scores"

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every parameter."""
        check_range(("k",), self.k, 1, 64)
        if self.lanes != 1:
            raise InputError(
                f"lanes must be 1 for the top-k softmax, which inserts one score a cycle, not {self.lanes}",
                hint="use 1",
                field=("lanes",),
            )
        if self.keep_row_sum:
            raise InputError(
                "keep_row_sum must be false for the top-k softmax, as most weights of a row are left out",
                hint="leave it out",
                field=("keep_row_sum",),
            )
        super().__post_init__()

    @property
    def quality(self) -> Quality:
        """What holds for every row; the exact sum is that of the exact weights of the same scores."""
        step = self.output_format.resolution * (1.0 if self.output_format.rounding is Rounding.TRUNCATE else 0.5)
        return Quality(
            max_error=self.max_error,
            row_sum_error=min(self.row_sum_error, self.max_error + min(self.k, self.capacity) * step),
            argmax="the first score with the largest computed exponential is kept, and no weight is above its own",
        )
