"""The payloads between the parts of the softmax.

The hardware keeps ``halvings = -n`` in place of the exponent n of the contract (``accel.softmax_unit``): e**x is
``mantissa * 2**-halvings``. Then step 1 and 2 need no negation, the running maximum is a running minimum, and all the
differences of step 4 are plain shift amounts.
"""

from __future__ import annotations

from amaranth import Shape, signed, unsigned
from amaranth.lib import data

from accel.softmax_unit import LOG2E, LOG2E_FRACTION_BITS, SoftmaxUnit
from rtl.arith import signed_bits

__all__ = [
    "halvings_range",
    "halvings_shape",
    "powers_layout",
    "row_layout",
    "scale_shift",
    "scaling_layout",
    "shift_offset",
    "shift_range",
    "totals_layout",
    "word_layout",
]


def scale_shift(unit: SoftmaxUnit) -> int:
    """Return by how many bits step 1 shifts the product right; negative: left."""
    return unit.input_format.fraction_bits + LOG2E_FRACTION_BITS - unit.mantissa_fraction_bits


def _negated(unit: SoftmaxUnit, code: int) -> int:
    """Return ``-t`` of step 1 for a score code."""
    shift = scale_shift(unit)
    product = -code * LOG2E
    # -floor((p + h) / 2**s) with h = 2**(s-1) is floor((-p + h - 1) / 2**s).
    return product << -shift if shift <= 0 else (product + (1 << (shift - 1)) - 1) >> shift


def halvings_range(unit: SoftmaxUnit) -> tuple[int, int]:
    """Return the smallest and largest ``halvings``; the largest also stands for lanes without a score."""
    bits = unit.mantissa_fraction_bits
    source = unit.input_format
    return _negated(unit, source.max_code) >> bits, _negated(unit, source.min_code) >> bits


def halvings_shape(unit: SoftmaxUnit) -> Shape:
    """Return the shape of ``halvings``."""
    return signed(signed_bits(*halvings_range(unit)))


def scaling_layout(unit: SoftmaxUnit) -> data.StructLayout:
    """Return a scaled score: the fraction g and the exponent, which together are ``-t``."""
    return data.StructLayout({"fraction": unsigned(unit.mantissa_fraction_bits), "halvings": halvings_shape(unit)})


def word_layout(unit: SoftmaxUnit) -> data.StructLayout:
    """Return a word of the row buffer: exponentials of all lanes, which of them count, and whether the row ends."""
    return data.StructLayout(
        {
            "mantissa": data.ArrayLayout(unsigned(unit.mantissa_bits), unit.lanes),
            "halvings": data.ArrayLayout(halvings_shape(unit), unit.lanes),
            "keep": unit.lanes,
            "last": 1,
        }
    )


def powers_layout(unit: SoftmaxUnit) -> data.StructLayout:
    """Return a word of the row buffer, and the fewest halvings of its valid lanes."""
    return data.StructLayout({"word": word_layout(unit), "fewest": halvings_shape(unit)})


def totals_layout(unit: SoftmaxUnit) -> data.StructLayout:
    """Return the result of step 4 for a row: the fewest halvings (-M) and the sum S."""
    return data.StructLayout({"fewest": halvings_shape(unit), "sum": unsigned(unit.sum_bits)})


def shift_offset(unit: SoftmaxUnit) -> int:
    """Return the constant part of a row's ``shift``: ``m + r - 2 * output fraction - s``."""
    fractions = unit.mantissa_fraction_bits + unit.reciprocal_fraction_bits - 2 * unit.output_format.fraction_bits
    return fractions - unit.sum_fraction_bits


def shift_range(unit: SoftmaxUnit) -> tuple[int, int]:
    """Return the range of ``shift`` of a row: ``e - s - halvings + (m + r - 2 * output fraction)``.

    The shift of step 6 is ``shift + halvings of the lane + output fraction``. For a valid lane ``shift + halvings`` is
    never negative: ``e - s >= -2``, for the largest term alone is more than a quarter, and ``m + r`` is twice the
    output fraction and 2.
    """
    low, high = halvings_range(unit)
    offset = shift_offset(unit)
    return offset - high, offset + (unit.sum_bits - 1) - low


def row_layout(unit: SoftmaxUnit) -> data.StructLayout:
    """Return what the output needs to know of a row: the reciprocal's mantissa y, and ``shift``."""
    return data.StructLayout(
        {
            "reciprocal": unsigned(unit.reciprocal_fraction_bits + 1),
            "shift": signed(signed_bits(*shift_range(unit))),
        }
    )
