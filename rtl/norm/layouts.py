"""What the parts of the normalisation units pass to each other."""

from __future__ import annotations

from amaranth import signed, unsigned
from amaranth.lib import data

from accel.norm_unit import NormUnit
from rtl.stream import element_shape

__all__ = ["row_layout", "statistics_layout", "word_layout"]


def word_layout(unit: NormUnit) -> data.StructLayout:
    """Return a buffered beat: the numbers, which lanes hold one, and whether the row ends."""
    numbers = data.ArrayLayout(element_shape(unit.input_format), unit.lanes)
    return data.StructLayout({"number": numbers, "keep": unit.lanes, "last": 1})


def statistics_layout(unit: NormUnit) -> data.StructLayout:
    """Return a row's n, S and Q."""
    return data.StructLayout(
        {
            "count": unsigned(unit.count_bits),
            "total": signed(unit.sum_bits),
            "squares": unsigned(unit.square_sum_bits),
        }
    )


def row_layout(unit: NormUnit) -> data.StructLayout:
    """Return what the results of a row need: n, S, y, and half of e."""
    return data.StructLayout(
        {
            "count": unsigned(unit.count_bits),
            "total": signed(unit.sum_bits),
            "scale": unsigned(unit.rsqrt.result_fraction_bits + 1),
            "halvings": range((unit.rsqrt.value_bits - 1) // 2 + 1),
        }
    )
