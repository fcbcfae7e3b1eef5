"""The contract of the integer softmax: every exponential is a power of two, so that no table and no product is needed.

After ITA (Islamoglu et al., ISLPED 2023, arXiv 2307.03493): 8-bit scores whose scale makes the top bits whole powers of
two; a running maximum whose rises shift the sum; one inversion for each row; each weight a shift of the inverse. Two
things differ. ITA rounds the distance from the running maximum down, again at each rise, so that the sum of a slowly
rising row comes out up to eight octaves too large; here each exponent is rounded once, to nearest, from a fixed origin,
and all later shifts are exact. And the inverse has a mantissa, not an integer quotient.

Steps 1 to 4 are those of ``accel.softmax_rows`` with the scale 1 and without a table (m = 0, w = 1): for scores with f
fraction bits, code x stands for ``2**(x / 2**f)``, and ``h = rnd((largest code - x) / 2**f)``. For 8-bit codes of the
base e choose the scale of the scores so that 2**f steps are ln 2. Steps 5 and 6 and the timing are those of
``accel.softmax_unit``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from accel.errors import InputError
from accel.softmax_unit import SoftmaxUnit

__all__ = ["IntegerSoftmaxUnit"]


@dataclass(frozen=True, kw_only=True)
class IntegerSoftmaxUnit(SoftmaxUnit):
    """Parameters of the integer softmax: those of ``SoftmaxUnit``, without a table.

    Parameters
    ----------
    exp_segments : int
        0: there is no table.

    Raises
    ------
    InputError
        A parameter is out of range.
    """

    exp_segments: int = 0
    keep_row_sum: bool = False

    scale: ClassVar[tuple[int, int]] = (1, 0)
    name: ClassVar[str] = "integer-softmax"
    summary: ClassVar[str] = "Integer softmax: exponentials are powers of two, weights are shifts"

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every parameter."""
        super().__post_init__()
        if self.exp_segments:
            raise InputError(
                f"exp_segments must be 0 where exponentials are powers of two, not {self.exp_segments}",
                hint="leave it out, or use softermax",
                field=("exp_segments",),
            )

    @property
    def mantissa_fraction_bits(self) -> int:
        """0: there is no mantissa."""
        return 0

    @property
    def spare_sum_bits(self) -> int:
        """Fraction bits of the sum beyond log2(N): as many as the weights have, and one, as there is no mantissa."""
        return self.output_format.fraction_bits + 1
