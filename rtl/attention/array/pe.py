"""A PE of the array."""

from __future__ import annotations

from typing import Any

from amaranth import Array, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from accel.attention_array import AttentionArray
from rtl.attention.array import exponential as steps
from rtl.attention.array.layouts import Layouts, MatrixOp

__all__ = ["MatrixPE", "matrix_signature"]


def matrix_signature(unit: AttentionArray) -> wiring.Signature:
    """Return the ports of a ``MatrixPE``."""
    layouts = Layouts(unit=unit)
    return wiring.Signature(
        {
            "control": In(layouts.matrix),
            "control_out": Out(layouts.matrix),
            "west": In(signed(unit.row_link_bits)),
            "east": Out(signed(unit.row_link_bits)),
            "north": In(signed(unit.link_bits)),
            "south": Out(signed(unit.link_bits)),
            "climb": In(layouts.climb),
            "climb_out": Out(layouts.climb),
        }
    )


class MatrixPE(wiring.Component):
    """One multiplier, one adder and one comparator, which a micro-operation puts to use for one cycle.

    What comes from the left goes on to the right a cycle later, the micro-operation included. Downwards goes Q during
    BQK, and the partial maximum or sum of the column after the last turn of LM, SLD and SLNV. The running maximum comes
    from below and goes on upwards. Latency of every link 1 cycle; one micro-operation a cycle.

    Parameters
    ----------
    unit : AttentionArray
        The array.

    Members
    -------
    control, control_out : In, Out(Layouts.matrix)
        Micro-operation.
    west, east : In, Out(signed(row_link_bits))
        K or V.
    north, south : In, Out(signed(link_bits))
        Q, partial maximum or partial sum.
    climb, climb_out : In, Out(Layouts.climb)
        Running maximum.
    """

    def __init__(self, unit: AttentionArray) -> None:
        self._unit, self._layouts = unit, Layouts(unit=unit)
        super().__init__(matrix_signature(unit))

    def elaborate(self, platform: Any) -> Any:
        """Build the links, the registers, and the datapath of one cycle."""
        m = Module()
        control, op = self.control, self.control.op
        m.d.sync += [self.control_out.eq(control), self.east.eq(self.west), self.climb_out.eq(self.climb)]
        m.d.sync += self.control_out.mask.eq(Mux(control.mask.any(), (control.mask - 1)[: len(control.mask)], 0))
        maximum = Signal(signed(self._unit.score_bits))
        with m.If(self.climb.valid):
            m.d.sync += maximum.eq(self.climb.maximum)

        slots = Array(
            Signal(signed(self._unit.score_bits), name=f"score_{slot}_{turn}")
            for slot in range(self._layouts.depths["BQK"])
            for turn in range(self._unit.turns)
        )
        score = slots[self._index(control.score, control.turn, self._layouts.depths["BQK"])]
        dead = Signal()
        n, f, y, u, weight = self._exponential(m, maximum, score, dead)
        total, partial = self._multiply_add(m, score, n, f, y, u, weight)
        with m.If(op == MatrixOp.BQK):
            m.d.sync += score.eq(total[: self._unit.score_bits])
        with m.If(op == MatrixOp.SUBTRACT):
            m.d.sync += dead.eq(control.mask != 0)
        best = self._local_maximum(m, score)
        with m.If(op == MatrixOp.BQK):
            m.d.sync += self.south.eq(self.north)
        with m.Elif(op == MatrixOp.LM):
            m.d.sync += self.south.eq(best)
        with m.Else():
            m.d.sync += self.south.eq(partial)
        return m

    def _index(self, slot: Any, turn: Any, depth: int) -> Any:
        """Return the place of a value of ``turn`` in the tile at ``slot``."""
        if self._unit.turns == 1:
            return slot if depth > 1 else Const(0, 1)
        return slot * self._unit.turns + turn if depth > 1 else turn

    def _exponential(self, m: Any, maximum: Any, score: Any, dead: Any) -> tuple[Any, ...]:
        """Build the registers of the exponential; return n, f, y, u, and the weight that the control asks for."""
        unit, control, op = self._unit.exponential, self.control, self.control.op
        u = Signal(unit.difference_bits)
        n = Signal(unit.exponent_bits)
        f = Signal(unit.weight_fraction_bits)
        y = Signal(signed(unit.value_bits))
        cut = steps.difference(m, unit, maximum, score, self._unit.score_fraction_bits, name="difference")
        with m.If(op == MatrixOp.SUBTRACT):
            m.d.sync += u.eq(cut)

        # The shift by n follows the last step in a cycle of its own, beside the next micro-operation.
        depth = self._layouts.depths["SLN"]
        weights = Array(
            Signal(self._unit.weight_bits, name=f"weight_{slot}_{turn}")
            for slot in range(depth)
            for turn in range(self._unit.turns)
        )
        fresh = Signal()
        place = Signal(range(max(2, depth * self._unit.turns)))
        wanted = Signal.like(place)
        shifted = Signal(self._unit.weight_bits)
        m.d.comb += wanted.eq(self._index(control.weight, control.turn, depth))
        m.d.comb += shifted.eq(Mux(dead, 0, steps.weight(m, unit, y, n, name="weight")))
        m.d.sync += [fresh.eq((op == MatrixOp.STEP) & control.final), place.eq(wanted)]
        with m.If(fresh):
            m.d.sync += weights[place].eq(shifted)
        weight = Signal(self._unit.weight_bits)
        m.d.comb += weight.eq(Mux(fresh & (place == wanted), shifted, weights[wanted]))
        return n, f, y, u, weight

    def _multiply_add(self, m: Any, score: Any, n: Any, f: Any, y: Any, u: Any, weight: Any) -> tuple[Any, Any]:
        """Build the multiply-accumulate; return its result, and what the column passes down."""
        unit, exponential, control, op = self._unit, self._unit.exponential, self.control, self.control.op
        log2e, half = steps.scale_constants(exponential)
        left = Signal(signed(max(unit.query_format.width_bits, len(u) + 1, len(y), len(weight) + 1)))
        right = Signal(signed(max(len(self.west), len(log2e), len(f) + 1)))
        start = Const(exponential.coefficients[-1], signed(exponential.value_bits))
        product = Signal(signed(len(left) + len(right)))
        width = max(len(product), unit.score_bits, unit.tile_value_bits, exponential.value_bits + len(f)) + 1
        addend = Signal(signed(width))
        total = Signal(signed(width))
        m.d.comb += [product.eq(left * right), total.eq((product + addend)[:width])]

        # Sums over the turns of one PE; with a single turn they are never read.
        values = Signal(signed(unit.tile_value_bits))
        sums = Signal(unit.tile_sum_bits)
        above = Mux(control.final, self.north, 0)
        partial = Signal(signed(unit.link_bits))
        added = Signal(signed(unit.link_bits))
        m.d.comb += added.eq((Mux(control.first, 0, sums) + weight + above)[: unit.link_bits])
        with m.Switch(op):
            with m.Case(MatrixOp.BQK):
                m.d.comb += [left.eq(self.north[: unit.query_format.width_bits].as_signed()), right.eq(self.west)]
                m.d.comb += addend.eq(Mux(control.first, 0, score))
            with m.Case(MatrixOp.SCALE):
                m.d.comb += [left.eq(u), right.eq(log2e), addend.eq(half)]
                whole, fraction = steps.rescale(exponential, total)
                m.d.sync += [n.eq(whole), f.eq(fraction)]
            with m.Case(MatrixOp.STEP):
                m.d.comb += [left.eq(Mux(control.first, start, y)), right.eq(f)]
                m.d.comb += addend.eq(steps.step_constant(exponential, control.step))
                m.d.sync += y.eq(total[len(f) :][: len(y)])
            with m.Case(MatrixOp.SLD):
                m.d.comb += partial.eq(added)
                m.d.sync += sums.eq(added[: len(sums)])
            with m.Case(MatrixOp.SLNV):
                m.d.comb += [left.eq(weight), right.eq(self.west)]
                m.d.comb += addend.eq(Mux(control.first, 0, values) + above)
                m.d.comb += partial.eq(total[: unit.link_bits])
                m.d.sync += values.eq(total[: len(values)])
        return total, partial

    def _local_maximum(self, m: Any, score: Any) -> Any:
        """Return the largest score so far of this PE and, in the last turn, of those above."""
        unit, control = self._unit, self.control
        shape = signed(unit.score_bits)
        floor = Const(unit.score_floor, shape)
        held = Signal(shape, name="maximum_held")
        own = Signal(shape, name="maximum_own")
        joined = Signal(shape, name="maximum_joined")
        above = self.north[: unit.score_bits].as_signed()
        living = Mux(control.mask != 0, floor, score)
        m.d.comb += own.eq(Mux(control.first | (held < living), living, held))
        m.d.comb += joined.eq(Mux(control.final & (own < above), above, own))
        with m.If(control.op == MatrixOp.LM):
            m.d.sync += held.eq(own)
        return joined
