"""The payloads between the parts of the softmax family, and a tree over lanes.

The names are those of the contract ``accel.softmax_rows``.
"""

from __future__ import annotations

from typing import Any

from amaranth import Shape, Signal, signed, unsigned
from amaranth.lib import data

from accel.softmax_rows import PowerRows, ScoreRows
from accel.softmax_unit import SoftmaxUnit
from rtl.arith import LEVELS_PER_STAGE, reduce_pairs, signed_bits, tree_stages

__all__ = [
    "count_bits",
    "halvings_shape",
    "powers_layout",
    "register_tree",
    "row_layout",
    "scaling_layout",
    "shift_offset",
    "shift_range",
    "top_layout",
    "totals_layout",
    "word_layout",
]


def count_bits(limit: int) -> int:
    """Return the width of a number below ``limit``; 0 if it can only be 0."""
    return (limit - 1).bit_length()


def halvings_shape(unit: PowerRows) -> Shape:
    """Return the shape of h."""
    return unsigned(unit.halvings_bits)


def scaling_layout(unit: PowerRows) -> data.StructLayout:
    """Return a scaled distance: g and h, which together are t."""
    return data.StructLayout({"fraction": unsigned(unit.mantissa_fraction_bits), "halvings": halvings_shape(unit)})


def word_layout(unit: PowerRows) -> data.StructLayout:
    """Return a word of the row buffer: exponentials of all lanes, which of them count, and whether the row ends.

    Without a table all mantissas are 1 and none is kept.
    """
    mantissas = {"mantissa": data.ArrayLayout(unsigned(unit.mantissa_bits), unit.lanes)} if unit.mantissa_bits else {}
    return data.StructLayout(
        {
            **mantissas,
            "halvings": data.ArrayLayout(halvings_shape(unit), unit.lanes),
            "keep": unit.lanes,
            "last": 1,
        }
    )


def powers_layout(unit: PowerRows) -> data.StructLayout:
    """Return the exponentials of a beat, their scaled distances, and the fewest halvings of the valid lanes."""
    return data.StructLayout(
        {
            "word": word_layout(unit),
            "fraction": data.ArrayLayout(unsigned(unit.mantissa_fraction_bits), unit.lanes),
            "fewest": halvings_shape(unit),
        }
    )


def top_layout(unit: ScoreRows) -> data.StructLayout:
    """Return the place of the first score with the largest exponential in its row."""
    return data.StructLayout({"beat": unsigned(count_bits(unit.max_beats)), "lane": unsigned(count_bits(unit.lanes))})


def totals_layout(unit: PowerRows) -> data.StructLayout:
    """Return the result of step 4 for a row: the fewest halvings H, the sum S, and the place of the largest term."""
    return data.StructLayout(
        {"fewest": halvings_shape(unit), "sum": unsigned(unit.sum_bits), "top": top_layout(unit)},
    )


def shift_offset(unit: SoftmaxUnit) -> int:
    """Return the constant part of a row's ``shift``."""
    fractions = unit.mantissa_fraction_bits + unit.reciprocal_fraction_bits - unit.output_format.fraction_bits
    return fractions + unit.sum_drop_bits - unit.sum_fraction_bits - unit.least_shift


def shift_range(unit: SoftmaxUnit) -> tuple[int, int]:
    """Return the range of ``shift`` of a row: what z of step 6 is beyond ``least_shift``, but for the lane's h.

    For a valid lane ``shift + h`` is never negative: that is what ``least_shift`` means.
    """
    offset = shift_offset(unit)
    return offset - unit.max_halvings, offset + unit.sum_bits - unit.sum_drop_bits - 1


def row_layout(unit: SoftmaxUnit) -> data.StructLayout:
    """Return what the output needs to know of a row: y, ``shift``, and where the largest weight stands."""
    top = {"top": top_layout(unit)} if unit.keep_row_sum else {}
    return data.StructLayout(
        {
            "reciprocal": unsigned(unit.reciprocal_fraction_bits + 1),
            "shift": signed(signed_bits(*shift_range(unit))),
            **top,
        }
    )


def register_tree(m: Any, values: list[Any], join: Any, *, name: str) -> Any:
    """Return all ``values`` joined, ``tree_stages(len(values))`` cycles later."""
    for stage in range(tree_stages(len(values))):
        registers = []
        for index, value in enumerate(reduce_pairs(values, join, levels=LEVELS_PER_STAGE)):
            registers.append(Signal(value.shape(), name=f"{name}_{stage}_{index}", reset_less=True))
            m.d.sync += registers[-1].eq(value)
        values = registers
    return values[0]
