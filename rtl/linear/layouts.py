"""What the parts of the linear unit, and the units beside it, pass to each other."""

from __future__ import annotations

from amaranth import unsigned
from amaranth.lib import data, stream

from accel.block_unit import FLAGS, BlockUnit
from rtl.stream import element_shape

__all__ = [
    "beat_signature",
    "job_layout",
    "list_layout",
    "result_layout",
    "row_layout",
    "shape_layout",
    "weight_signature",
    "word_layout",
]


def word_layout(unit: BlockUnit) -> data.ArrayLayout:
    """Return a word of the memory: ``tile`` features."""
    return data.ArrayLayout(element_shape(unit.linear.feature_format), unit.linear.tile)


def beat_signature(unit: BlockUnit) -> stream.Signature:
    """Return a stream of words, or of entries of 32 bits where ``is_entry``; ``last`` ends what an operation moves."""
    layout = {"numbers": word_layout(unit), "entry": unsigned(32), "is_entry": 1, "last": 1}
    return stream.Signature(data.StructLayout(layout))


def weight_signature(unit: BlockUnit) -> stream.Signature:
    """Return a stream of ``tile`` weights a beat; ``last`` ends the weights and biases of a layer."""
    numbers = data.ArrayLayout(element_shape(unit.linear.weight_format), unit.linear.tile)
    return stream.Signature(data.StructLayout({"numbers": numbers, "last": 1}))


def shape_layout(unit: BlockUnit) -> data.StructLayout:
    """Return the dimensions of a layer, as the weights come: words of a row, and rows."""
    linear = unit.linear
    return data.StructLayout(
        {"blocks": range(linear.blocks(linear.max_features) + 1), "out_features": range(linear.max_features + 1)}
    )


def job_layout(unit: BlockUnit) -> data.StructLayout:
    """Return a linear layer."""
    features, address, stride = (
        range(unit.linear.max_features + 1),
        range(unit.memory_words),
        range(unit.max_stride + 1),
    )
    return data.StructLayout(
        {
            "source": address,
            "target": address,
            "rows": range(unit.max_rows + 1),
            "in_features": features,
            "out_features": features,
            "source_stride": stride,
            "target_stride": stride,
            "queue": range(unit.list_count),
            "flags": data.StructLayout(dict.fromkeys(FLAGS, 1)),
        }
    )


def list_layout(unit: BlockUnit) -> data.StructLayout:
    """Return an entry of a token list."""
    return data.StructLayout({"token": range(unit.max_rows), "score": unsigned(unit.linear.score_fraction_bits + 1)})


def row_layout(unit: BlockUnit) -> data.StructLayout:
    """Return a row to work on: where it lies, and all that its job says.

    ``first`` and ``last`` are the job's first and last row; lanes count what the last word of a row holds.
    """
    linear = unit.linear
    blocks, lanes = range(linear.blocks(linear.max_features)), range(linear.tile + 1)
    flags = ("accumulate", "scaled", "activate", "chained", "feeds", "drained", "last")
    return data.StructLayout(
        {
            "source": range(unit.memory_words),
            "target": range(unit.memory_words),
            "score": unsigned(linear.score_fraction_bits + 1),
            "in_end": blocks,
            "out_end": blocks,
            "in_lanes": lanes,
            "out_lanes": lanes,
            **{name: unsigned(1) for name in flags},
        }
    )


def result_layout(unit: BlockUnit) -> data.StructLayout:
    """Return what goes with a word of outputs on its way to the memory."""
    flags = ("accumulate", "scaled", "activate", "row_end", "feeds", "job_end")
    return data.StructLayout(
        {
            "address": range(unit.memory_words),
            "score": unsigned(unit.linear.score_fraction_bits + 1),
            "lanes": range(unit.linear.tile + 1),
            **{name: unsigned(1) for name in flags},
        }
    )
