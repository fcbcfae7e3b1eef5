"""The contract of the two-pass softmax: the row buffer holds scores, whose exponentials are computed twice.

After the two-pass algorithm with an extended exponent (Dukhan and Ablavatski, arXiv 2001.04438): the first pass sums
pairs of mantissa and integer exponent, so that no maximum is needed beforehand and nothing overflows; the second
computes each exponential again. Here both passes run at the same time on two rows. All steps, bits and bounds are those
of ``accel.softmax_unit``. The row buffer is narrower, by a second scale and table for each lane; the latency has the
``power_cycles`` of these in addition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from accel.softmax_unit import SoftmaxUnit

__all__ = ["TwoPassSoftmaxUnit"]


@dataclass(frozen=True, kw_only=True)
class TwoPassSoftmaxUnit(SoftmaxUnit):
    """Parameters of the two-pass softmax: those of ``SoftmaxUnit``.

    Raises
    ------
    InputError
        A parameter is out of range.
    """

    name: ClassVar[str] = "two-pass-softmax"
    summary: ClassVar[str] = "Two-pass softmax: scores wait, and their exponentials are computed twice"

    __pydantic_config__ = {"extra": "forbid"}

    @property
    def latency_cycles(self) -> int:
        """Cycles from accepting a row's last beat to its first weights, the output being idle and ready."""
        return super().latency_cycles + self.power_cycles
