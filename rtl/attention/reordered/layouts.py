"""What the parts of the reordered attention unit pass to each other.

As in the softmax, the hardware keeps ``halvings = -n`` in place of the exponent n of the contract
(``accel.reordered_unit``): then all differences of step 3 are plain shift amounts.
"""

from __future__ import annotations

from amaranth import Shape, signed, unsigned
from amaranth.lib import data, stream

from accel.numerics import FixedPoint
from accel.reordered_unit import ReorderedUnit
from rtl.arith import signed_bits
from rtl.stream import element_shape

__all__ = [
    "accumulator_layout",
    "block_layout",
    "halvings_shape",
    "job_layout",
    "operand_signature",
    "reciprocal_layout",
    "result_layout",
    "score_layout",
    "step_layout",
    "weight_layout",
]


def job_layout(unit: ReorderedUnit) -> data.StructLayout:
    """Return a job: its lengths, and its mask."""
    length = range(unit.max_length + 1)
    return data.StructLayout({"queries": length, "keys": length, "offset": length, "causal": 1})


def block_layout(unit: ReorderedUnit, element: FixedPoint) -> data.ArrayLayout:
    """Return the ``block`` numbers that a beat carries and a memory word holds."""
    return data.ArrayLayout(element_shape(element), unit.block)


def operand_signature(unit: ReorderedUnit, element: FixedPoint) -> stream.Signature:
    """Return a stream of blocks, row by row; ``last`` ends the tensor of a job."""
    return stream.Signature(data.StructLayout({"numbers": block_layout(unit, element), "last": 1}))


def step_layout(unit: ReorderedUnit) -> data.StructLayout:
    """Return one cycle of an iteration.

    Block of the key; for each slot whether its row is new (``first``), is finished (``last``), and meets a key that
    counts (``live``); whether the iteration starts a pass, and whether the block is its last.
    """
    return data.StructLayout(
        {
            "block": range(unit.key_blocks),
            "first": unit.slots,
            "last": unit.slots,
            "live": unit.slots,
            "start": 1,
            "end": 1,
        }
    )


def score_layout(unit: ReorderedUnit) -> data.StructLayout:
    """Return the score of one slot, and which of its group it is, one-hot."""
    return data.StructLayout(
        {"score": signed(unit.score_bits), "first": 1, "last": 1, "live": 1, "turn": unsigned(unit.group)}
    )


def halvings_shape(unit: ReorderedUnit) -> Shape:
    """Return the shape of ``halvings``."""
    low, high = unit.exponent_range
    return signed(signed_bits(-high, -low))


def difference_bits(unit: ReorderedUnit) -> int:
    """Return the width of the distance of two exponents."""
    low, high = unit.exponent_range
    return max(1, (high - low).bit_length())


def weight_layout(unit: ReorderedUnit) -> data.StructLayout:
    """Return what the accumulators of one slot need for a key: b of step 3, and by how much they are shifted before."""
    return data.StructLayout(
        {
            "weight": unsigned(unit.sum_fraction_bits + 1),
            "rescale": unsigned(difference_bits(unit)),
            "first": 1,
            "last": 1,
            "live": 1,
        }
    )


def accumulator_layout(unit: ReorderedUnit) -> data.ArrayLayout:
    """Return a block of accumulators."""
    return data.ArrayLayout(signed(unit.accumulator_bits), unit.block)


def reciprocal_layout(unit: ReorderedUnit) -> data.StructLayout:
    """Return what the outputs of a row need: y, and the shift ``e - h``."""
    most = unit.sum_bits - 1 - unit.quotient_fraction_bits
    return data.StructLayout({"reciprocal": unsigned(unit.reciprocal_fraction_bits + 1), "shift": range(most + 1)})


def result_layout(unit: ReorderedUnit) -> data.StructLayout:
    """Return a block of a finished row: the accumulators, whether the row ends, and whether its job does."""
    return data.StructLayout({"accumulators": accumulator_layout(unit), "row_end": 1, "last": 1})
