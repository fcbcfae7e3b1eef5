"""The contract of the base-2 softmax: ``2**x / sum 2**x`` in low precision.

After Softermax (Stevens et al., DAC 2021, arXiv 2103.09301): base 2 in place of e, so that scores need no scaling; an
integer running maximum, so that a rise rescales by a shift; 2**-g by few straight pieces, four in the paper. A model
has to be fine-tuned with the base 2, or log2(e) folded into the scale of its scores. Here the integer maximum is that
of ``floor`` counted down from the largest code (``accel.softmax_rows``).

Steps 1 to 4 are those of ``accel.softmax_rows`` with the scale 1: t is the distance itself, exactly where m has no
fewer fraction bits than the scores. Steps 5 and 6 and the timing are those of ``accel.softmax_unit``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from accel.softmax_unit import SoftmaxUnit

__all__ = ["SoftermaxUnit"]


@dataclass(frozen=True, kw_only=True)
class SoftermaxUnit(SoftmaxUnit):
    """Parameters of the base-2 softmax: those of ``SoftmaxUnit``, with four segments unless told otherwise.

    Raises
    ------
    InputError
        A parameter is out of range.
    """

    exp_segments: int = 4
    keep_row_sum: bool = False

    scale: ClassVar[tuple[int, int]] = (1, 0)
    name: ClassVar[str] = "softermax"
    summary: ClassVar[str] = "Base-2 softmax, rescaled by shifts"

    __pydantic_config__ = {"extra": "forbid"}
