"""The contract of the softmax with a unified maximum: a fixed number in place of each row's, and an exact fallback.

After the asynchronized softmax of FlashDecoding++ (Hong et al., arXiv 2311.01282, section 3): exponentials count from a
fixed phi in place of the row's maximum, so that parts of a row need not wait for each other; a row whose scores leave
the window around phi is computed again. Steps 1 to 3 are those of ``accel.softmax_rows``. Their exponentials
``w / 2**h`` do not depend on phi, so the window is one of halvings: from ``window_top`` to ``window_bottom``, the h of
the scores ``phi + window`` and ``phi - window``. All quantities integers:

4. A row stays in the window if no valid score has ``h < window_top`` and one has ``h <= window_bottom``, or no score is
   valid. Then ``H = window_top`` and ``S = sum over valid scores of floor(w * 2**(s - m) / 2**(h - H))``. Else the row
   is redone: H and S are those of step 4 of ``accel.softmax_rows``.

Steps 5 and 6 are those of ``accel.softmax_unit``, ``keep_row_sum`` false. FlashDecoding++ redoes a row for any score
below the window; here one in the window is enough, as the others then are too small to matter, or counted exactly.

Timing, the output being always ready. Let ``b[j]`` be the beats of row j, ``C[j]`` the cycle in which its last beat is
accepted, and r[j] be 1 if it is redone, else 0. Its first weights stand at the output in cycle
``S[j] = max(C[j] + latency_cycles, S[j-1] + b[j-1]) + r[j] * (b[j] + redo_cycles)``, and the others follow, one beat a
cycle: a redone row is read twice, and the reciprocal of its sum comes between. A beat leaves the row buffer
``output_cycles`` before its weights stand at the output, and the buffer holds ``buffer_beats``: beat n of all rows is
accepted in the first cycle that offers it after that of beat n - 1 and after beat n - buffer_beats has left. As long as
no row is redone, that is every cycle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from accel.checks import check_range
from accel.errors import InputError
from accel.numerics import Rounding, round_shift
from accel.softmax_unit import SoftmaxUnit

__all__ = ["UnifiedMaxUnit"]

MAX_SUM_BITS = 62


@dataclass(frozen=True, kw_only=True)
class UnifiedMaxUnit(SoftmaxUnit):
    """Parameters of the softmax with a unified maximum: those of ``SoftmaxUnit``, and the window.

    Parameters
    ----------
    keep_row_sum : bool
        False: each weight is rounded alone.
    phi : float
        Fixed number in place of the maximum, in the range of the scores.
    window : float
        Rows whose largest score is within so much of phi, rounded to halvings, are not redone; 0.25 to 8.

    Raises
    ------
    InputError
        A parameter is out of range, or the sum would have more than 62 bits.
    """

    keep_row_sum: bool = False
    phi: float = 4.0
    window: float = 4.0

    name: ClassVar[str] = "unified-max"
    summary: ClassVar[str] = "Softmax with a fixed number in place of the maximum, and an exact fallback"

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every parameter."""
        super().__post_init__()
        if self.keep_row_sum:
            raise InputError(
                "keep_row_sum must be false for the softmax with a unified maximum, which rounds each weight alone",
                hint="use softmax",
                field=("keep_row_sum",),
            )
        check_range(("phi",), self.phi, self.input_format.min_value, self.input_format.max_value)
        check_range(("window",), self.window, 0.25, 8)
        if self.sum_bits > MAX_SUM_BITS:
            raise InputError(
                f"window must leave a sum of at most {MAX_SUM_BITS} bits, but {self.window:g} needs {self.sum_bits}",
                hint="use a smaller window, shorter rows or fewer bits of the weights",
                field=("window",),
            )

    def _halvings(self, score: float) -> int:
        """Return h of a score, brought into the range of the scores."""
        code = min(
            max(math.floor(math.ldexp(score, self.input_format.fraction_bits) + 0.5), self.input_format.min_code),
            self.input_format.max_code,
        )
        product = (self.input_format.max_code - code) * self.scale[0]
        return int(round_shift(product, self.scale_shift, Rounding.NEAREST_UP)) >> self.mantissa_fraction_bits

    @property
    def window_top(self) -> int:
        """Fewest halvings of the window: those of ``phi + window``."""
        return self._halvings(self.phi + self.window)

    @property
    def window_bottom(self) -> int:
        """Most halvings of the window: those of ``phi - window``."""
        return self._halvings(self.phi - self.window)

    @property
    def window_halvings(self) -> int:
        """By how many halvings the largest score may be below the top of the window."""
        return self.window_bottom - self.window_top

    @property
    def spare_sum_bits(self) -> int:
        """Spare fraction bits of the sum: more, as its largest term may be as low as the window reaches."""
        return 1 + self.window_halvings

    @property
    def sum_head_bits(self) -> int:
        """By how much the leading 1 of a finished sum may lie below ``sum_fraction_bits``."""
        return 2 + self.window_halvings

    @property
    def least_shift(self) -> int:
        """Smallest z of step 6.

        As for ``SoftmaxUnit``, whatever the window: the sum holds each score's own term, which is above a quarter of
        ``2**(H - h)``, so that ``(h - H) + (e + sum_drop_bits - s)`` is never below -2.
        """
        return self.mantissa_fraction_bits + self.reciprocal_fraction_bits - self.output_format.fraction_bits - 2

    @property
    def lost_share(self) -> float:
        """Bound on the share of a row's sum that truncation takes away.

        At most capacity + 1 steps in all, as for ``SoftmaxUnit``, of a sum that is at least one smallest mantissa at
        the bottom of the window.
        """
        return super().lost_share * 2.0**self.window_halvings

    @property
    def latency_cycles(self) -> int:
        """Cycles from accepting the last beat of a row that stays in the window to its first weights."""
        return 20 + self.power_cycles + self.search_cycles + self.tree_stages

    @property
    def redo_cycles(self) -> int:
        """Cycles that a redone row takes more, beside those of reading it once more."""
        return 13 + self.search_cycles + 2 * self.tree_stages

    @property
    def output_cycles(self) -> int:
        """Cycles from a beat's leaving the row buffer to its weights at the output."""
        return 5

    @property
    def buffer_beats(self) -> int:
        """Beats that the row buffer and the stages before it hold."""
        return self.max_beats + self.latency_cycles - self.output_cycles
