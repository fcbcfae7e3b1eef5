"""The last step of the activation units: a total rounded and brought into the range of the output."""

from __future__ import annotations

from typing import Any

from amaranth import Const, Mux, Shape, Signal, signed

from accel.numerics import FixedPoint, Overflow, Rounding

__all__ = ["round_total"]


def round_total(
    m: Any, total: Any, *, fraction_bits: int, total_range: tuple[int, int], target: FixedPoint, shape: Shape
) -> Any:
    """Return after one cycle the signed ``total``, which has ``fraction_bits``, rounded and fitted to ``target``.

    Parameters
    ----------
    m : Module
        Takes the register.
    total : Value
        Signed, within ``total_range``.
    fraction_bits : int
        Of ``total``, at least as many as ``target`` has.
    total_range : tuple of int
        Smallest and largest total.
    target : FixedPoint
        Rounding, range.
    shape : Shape
        Of the result; holds every one.
    """
    shift = fraction_bits - target.fraction_bits
    up: Any = Const(0, 1)
    if shift and target.rounding is not Rounding.TRUNCATE:
        half = total[shift - 1]
        odd_or_more = total[shift] | total[: shift - 1].any() if len(total) > shift else total[: shift - 1].any()
        up = half & odd_or_more if target.rounding is Rounding.NEAREST_EVEN else half
    rounded = Signal(signed(max(len(total) - shift, 1) + 1))
    m.d.comb += rounded.eq((total >> shift) + up)
    result = Signal(shape, name="result_code", reset_less=True)
    fitted: Any = rounded
    if target.overflow is Overflow.SATURATE:
        low, high = total_range
        if (high >> shift) + 1 > target.max_code:
            fitted = Mux(rounded > target.max_code, Const(target.max_code, len(rounded)), fitted)
        if low >> shift < target.min_code:
            fitted = Mux(rounded < target.min_code, Const(target.min_code, signed(len(rounded))), fitted)
    m.d.sync += result.eq(fitted[: len(result)])
    return result
