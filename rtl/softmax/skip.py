"""The block-skip flag: which blocks of keys come near the running maximum of their row."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Const, Mux, Signal

from accel.softmax_family.skip import BlockSkipUnit
from rtl.arith import minimum, tree_stages
from rtl.contract import Contract
from rtl.softmax.describe import describe
from rtl.softmax.exponentials import distance
from rtl.softmax.layouts import register_tree
from rtl.softmax.rows import FlowingRows
from rtl.stream import delay

__all__ = ["BlockSkip"]


class BlockSkip(FlowingRows):
    """The block-skip flag of ``accel.softmax_family.skip``.

    Parameters
    ----------
    unit : BlockSkipUnit
        Formats, block and threshold.

    Members
    -------
    scores : In(stream of beats: score, keep, last)
        Scores; lanes whose ``keep`` is low hold none.
    flags : Out(stream of beats: skip, keep, last)
        Beat for beat; lane 0 of a block's last beat holds the flag.
    overrun : Out(1)
        A row was too long.
    """

    SINK = ("flags", "skip")

    @staticmethod
    def pipeline_cycles_of(unit: BlockSkipUnit) -> int:
        """Return the cycles of the pipeline: operands, tree, running minima, flag."""
        return 3 + tree_stages(unit.lanes)

    @classmethod
    def contract_of(cls, unit: BlockSkipUnit) -> Contract:
        """Return what a block of these parameters promises, without building it."""
        return describe(
            unit,
            summary=(
                f"{unit.summary}.",
                f"Blocks of {unit.block_beats} beats; a skipped score has a weight below {unit.threshold:.3g}.",
            ),
            parameters={"block_beats": unit.block_beats, "threshold": unit.threshold},
            derived={"distance_code": unit.distance_code},
            latency_cycles=cls.latency_cycles_of(unit),
            latency_span="from a beat to its flag",
        )

    def _pipeline(self, m: Any, accept: Any, last: Any) -> tuple[Any, Any]:
        unit, scores, stages = self._unit, self.scores.payload, tree_stages(self._unit.lanes)
        far: list[Any] = []
        for lane in range(unit.lanes):
            # The top bit says that there is no score.
            value = Cat(distance(scores.score[lane], unit.input_format), Const(0, 1))
            operand = Signal(len(value), name=f"distance_{lane}", reset_less=True)
            m.d.sync += operand.eq(Mux(scores.keep[lane], value, Const(1 << (len(value) - 1), len(value))))
            far.append(operand)
        nearest = register_tree(m, far, minimum, name="nearest")
        valid = delay(m, accept, 1 + stages, name="valid_at_minima", reset_less=False)
        ends, block_ends = self._ends(m, accept, last)
        ends, closing = delay(m, ends, 1 + stages, name="ends"), delay(m, block_ends, 1 + stages, name="closes")

        starts_row, starts_block = Signal(name="starts_row", init=1), Signal(name="starts_block", init=1)
        row, block = (Signal(len(nearest), name=name, reset_less=True) for name in ("row_nearest", "block_nearest"))
        with m.If(valid):
            m.d.sync += [
                starts_row.eq(ends),
                starts_block.eq(closing),
                row.eq(Mux(starts_row, nearest, minimum(nearest, row))),
                block.eq(Mux(starts_block, nearest, minimum(nearest, block))),
            ]
        gap = Signal(len(nearest), name="gap")
        flag = Signal(name="flag", reset_less=True)
        m.d.comb += gap.eq((block - row)[: len(gap)])
        m.d.sync += flag.eq(block[-1] | (gap > unit.distance_code))
        return flag, delay(m, closing, 2, name="closed")

    def _ends(self, m: Any, accept: Any, last: Any) -> tuple[Any, Any]:
        """Return whether the offered beat ends its row, and its block."""
        most = self._unit.block_beats
        if most == 1:
            return last, Const(1, 1)
        beats = Signal(range(most), name="block_beats")
        closes = Signal(name="block_closes")
        m.d.comb += closes.eq(last | (beats == most - 1))
        with m.If(accept):
            m.d.sync += beats.eq(Mux(closes, 0, (beats + 1)[: len(beats)]))
        return last, closes
