"""A PE of the vector row below the array."""

from __future__ import annotations

from typing import Any

from amaranth import Array, Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from accel.attention_array import AttentionArray
from accel.numerics import Rounding
from rtl.attention.array import exponential as steps
from rtl.attention.array.layouts import Layouts, MatrixOp, VectorOp, clamp
from rtl.reciprocal import Reciprocal
from rtl.stream import delay

__all__ = ["VectorPE", "vector_signature"]


def vector_signature(unit: AttentionArray) -> wiring.Signature:
    """Return the ports of a ``VectorPE``."""
    layouts = Layouts(unit=unit)
    return wiring.Signature(
        {
            "control": In(layouts.vector),
            "control_out": Out(layouts.vector),
            "north": In(signed(unit.link_bits)),
            "climb": Out(layouts.climb),
            "quotient": Out(signed(unit.output_format.width_bits)),
            "valid": Out(1),
            "keep": Out(1),
            "last": Out(1),
        }
    )


class VectorPE(wiring.Component):
    """Keeps the running values of the queries of one column, and divides at the end.

    Works in two cycles: in the first the control is in ``control`` and memories are addressed; in the second it is in
    ``control_out``, where the next PE sees it, and computes. The wide product is registered, then shifted, so that SPD
    and SPNV are kept two cycles after their micro-operation; a quotient leaves three cycles after its own.

    Parameters
    ----------
    unit : AttentionArray
        The array.

    Members
    -------
    control, control_out : In, Out(Layouts.vector)
        Micro-operation, and what to take from above.
    north : In(signed(link_bits))
        LM, SLD or SLNV of the column, in the second cycle.
    climb : Out(Layouts.climb)
        Running maximum, on its way up.
    quotient : Out(output_format)
        AV.
    valid, keep, last : Out(1)
        ``quotient`` holds a value; of a query of the job; the last of a head.
    """

    def __init__(self, unit: AttentionArray) -> None:
        self._unit, self._layouts = unit, Layouts(unit=unit)
        super().__init__(vector_signature(unit))

    def elaborate(self, platform: Any) -> Any:
        """Build the control, the memories, the captured values, and the two multipliers."""
        m = Module()
        m.d.sync += self.control_out.eq(self.control)
        m.d.sync += self.control_out.lanes.eq(
            Mux(self.control.lanes.any(), (self.control.lanes - 1)[: len(self.control.lanes)], 0)
        )
        # Whether this very column holds a query: the count before it shrinks.
        self._held = Signal()
        m.d.sync += self._held.eq(self.control.lanes != 0)
        self._capture(m)
        self._maximum(m)
        y, n = self._correction(m)
        self._sums(m, y, n)
        return m

    def _place(self, einsum: str, number: Any) -> Any:
        depth = self._layouts.depths[einsum]
        return number[: self._layouts.slot_bits(einsum)] if depth > 1 else Const(0, 1)

    def _kept(self, einsum: str, shape: Any) -> Any:
        """Return the registers in which values of ``einsum`` are kept, one for each tile alive."""
        return Array(Signal(shape, name=f"{einsum.lower()}_{index}") for index in range(self._layouts.depths[einsum]))

    def _capture(self, m: Any) -> None:
        """Take LM and SLD from above; SLNV goes to its memory in ``_sums``."""
        unit, capture = self._unit, self.control_out.capture
        self._lm = self._kept("LM", signed(unit.score_bits))
        self._sld = self._kept("SLD", unsigned(unit.tile_sum_bits))
        with m.If(capture.op == MatrixOp.LM):
            m.d.sync += self._lm[self._place("LM", capture.number)].eq(self.north[: unit.score_bits])
        with m.If(capture.op == MatrixOp.SLD):
            m.d.sync += self._sld[self._place("SLD", capture.number)].eq(self.north[: unit.tile_sum_bits])

    def _memory(self, m: Any, name: str, width: int, depth: int) -> tuple[Any, Any]:
        """Return the write and the read port of a memory; the read port is enabled where it is used."""
        storage = memory.Memory(shape=unsigned(width), depth=max(2, depth), init=[])
        m.submodules[name] = storage
        return storage.write_port(), storage.read_port()

    def _maximum(self, m: Any) -> None:
        """Build RM."""
        unit, control, before = self._unit, self.control_out, self.control
        shape = signed(unit.score_bits)
        writer, reader = self._memory(m, "rm", unit.score_bits, unit.query_tiles)
        self._old, self._new = Signal(shape, name="maximum_old"), Signal(shape, name="maximum_new")
        old, new = Signal(shape, name="maximum_read"), Signal(shape, name="maximum_next")
        taken = self._lm[self._place("LM", control.number)]
        m.d.comb += [
            reader.addr.eq(before.place),
            reader.en.eq(before.op == VectorOp.RM),
            old.eq(Mux(control.first_tile, unit.score_floor, reader.data.as_signed())),
            new.eq(Mux(old < taken, taken, old)),
            writer.addr.eq(control.place),
            writer.data.eq(new),
            writer.en.eq(control.op == VectorOp.RM),
            self.climb.maximum.eq(self._new),
        ]
        m.d.sync += self.climb.valid.eq(control.op == VectorOp.RM)
        with m.If(control.op == VectorOp.RM):
            m.d.sync += [self._old.eq(old), self._new.eq(new)]

    def _correction(self, m: Any) -> tuple[Any, Any]:
        """Build PRM; return y and n of the tile that the control asks for."""
        unit, control, op = self._unit.exponential, self.control_out, self.control_out.op
        u, n = Signal(unit.difference_bits), Signal(unit.exponent_bits)
        f, y = Signal(unit.weight_fraction_bits), Signal(signed(unit.value_bits))
        log2e, half = steps.scale_constants(unit)
        left = Signal(signed(max(len(u) + 1, len(y))))
        right = Signal(signed(max(len(log2e), len(f) + 1)))
        addend = Signal(signed(max(len(left) + len(right), len(y) + len(f))))
        total = Signal(signed(len(addend) + 1))
        scaling = Signal()
        start = Const(unit.coefficients[-1], signed(unit.value_bits))
        m.d.comb += [
            scaling.eq(op == VectorOp.SCALE),
            left.eq(Mux(scaling, u, Mux(control.first, start, y))),
            right.eq(Mux(scaling, log2e, f)),
            addend.eq(Mux(scaling, half, steps.step_constant(unit, control.step))),
            total.eq(left * right + addend),
        ]
        cut = steps.difference(m, unit, self._new, self._old, self._unit.score_fraction_bits, name="difference")
        with m.If(op == VectorOp.SUBTRACT):
            m.d.sync += u.eq(cut)
        with m.If(scaling):
            whole, fraction = steps.rescale(unit, total)
            m.d.sync += [n.eq(whole), f.eq(fraction)]
        stepped = total[len(f) :][: len(y)]
        values, exponents = self._kept("PRM", unsigned(len(y) - 1)), self._kept("PRM", unsigned(len(n)))
        place = self._place("PRM", control.number)
        with m.If(op == VectorOp.STEP):
            m.d.sync += y.eq(stepped)
            with m.If(control.final):
                m.d.sync += [values[place].eq(stepped[:-1]), exponents[place].eq(n)]
        return values[place], exponents[place]

    def _sums(self, m: Any, y: Any, n: Any) -> None:
        """Build SPD, SPNV, RD, RNV and AV around one wide multiplier."""
        unit, control, op = self._unit, self.control_out, self.control_out.op
        before, layouts = self.control, self._layouts
        w, r = unit.weight_fraction_bits, unit.reciprocal_fraction_bits
        stored = 1 << layouts.value_index_bits
        rnv_write, rnv_read = self._memory(m, "rnv", unit.value_bits, unit.query_tiles * stored)
        slnv_write, slnv_read = self._memory(m, "slnv", unit.tile_value_bits, layouts.depths["SLNV"] * stored)
        spnv_write, spnv_read = self._memory(m, "spnv", unit.value_bits, layouts.depths["SPNV"] * stored)
        rd = self._denominator(m)
        mantissa, exponent = self._reciprocal(m)

        rnv = Signal(signed(unit.value_bits))
        left = Signal(signed(max(unit.value_bits, unit.sum_bits + 1)))
        right = Signal(unit.exponential.value_bits - 1)
        offset = r + unit.value_format.fraction_bits - unit.output_format.fraction_bits - 1
        amount = Signal(range(max(w + (1 << len(n)), offset + (1 << len(exponent)))))
        product = Signal(signed(len(left) + len(right)))
        places = Signal.like(amount)
        halves = Signal(signed(len(product)))
        dividing = Signal()
        m.d.comb += [
            rnv_read.addr.eq(Cat(before.feature, before.place)),
            rnv_read.en.eq((before.op == VectorOp.SPNV) | (before.op == VectorOp.AV)),
            rnv.eq(Mux(control.first_tile & ~dividing, 0, rnv_read.data.as_signed())),
            dividing.eq(op == VectorOp.AV),
            left.eq(Mux(op == VectorOp.SPD, rd, rnv)),
            right.eq(Mux(dividing, mantissa, y)),
            amount.eq(Mux(dividing, exponent + offset, n + w)),
            halves.eq(product >> places),
        ]
        m.d.sync += [product.eq(left * right), places.eq(amount)]
        # One cycle later: the product is shifted, but for its last place, which rounds it.
        rounded = Signal(signed(unit.value_bits + 2))
        m.d.comb += rounded.eq(halves[: unit.value_bits + 1].as_signed() + 1)
        corrected = rounded[1:][: unit.value_bits]
        after = delay(m, Cat(op, control.feature, control.number), 1, name="after", reset_less=False)
        after_op, after_feature = after[: len(op)], after[len(op) :][: len(control.feature)]
        after_number = after[len(op) + len(control.feature) :]
        is_spnv = Signal()
        m.d.comb += is_spnv.eq(after_op == VectorOp.SPNV)
        with m.If(after_op == VectorOp.SPD):
            m.d.sync += self._spd[self._place("SPD", after_number)].eq(corrected[: unit.sum_bits])
        m.d.comb += [
            spnv_write.addr.eq(self._at("SPNV", after_feature, after_number)),
            spnv_write.data.eq(corrected),
            spnv_write.en.eq(is_spnv),
            slnv_write.addr.eq(self._at("SLNV", control.capture.feature, control.capture.number)),
            slnv_write.data.eq(self.north[: unit.tile_value_bits]),
            slnv_write.en.eq(control.capture.op == MatrixOp.SLNV),
            spnv_read.addr.eq(self._at("SPNV", before.feature, before.number)),
            slnv_read.addr.eq(self._at("SLNV", before.feature, before.number)),
            spnv_read.en.eq(before.op == VectorOp.RNV),
            slnv_read.en.eq(before.op == VectorOp.RNV),
        ]
        # RNV may read an SPNV in the cycle that writes it.
        passed = Signal(unit.value_bits)
        passing = Signal()
        m.d.sync += [passed.eq(corrected), passing.eq(is_spnv & (spnv_write.addr == spnv_read.addr))]
        spnv = Mux(passing, passed, spnv_read.data).as_signed()
        m.d.comb += [
            rnv_write.addr.eq(Cat(control.feature, control.place)),
            rnv_write.data.eq((slnv_read.data.as_signed() + spnv)[: unit.value_bits]),
            rnv_write.en.eq(op == VectorOp.RNV),
        ]
        self._round(m, halves, product, places, dividing)

    def _at(self, einsum: str, feature: Any, number: Any) -> Any:
        if self._layouts.depths[einsum] == 1:
            return feature
        return Cat(feature, number[: self._layouts.slot_bits(einsum)])

    def _denominator(self, m: Any) -> Any:
        """Build RD; return the one that SPD corrects."""
        unit, control, before, op = self._unit, self.control_out, self.control, self.control_out.op
        storage = memory.Memory(shape=unsigned(unit.sum_bits), depth=max(2, unit.query_tiles), init=[])
        m.submodules.rd = storage
        writer, reader, finisher = storage.write_port(), storage.read_port(), storage.read_port()
        self._spd = self._kept("SPD", unsigned(unit.sum_bits))
        spd, sld = self._spd[self._place("SPD", control.number)], self._sld[self._place("SLD", control.number)]
        done = Signal()
        place = Signal(len(control.place))
        m.d.sync += [done.eq((op == VectorOp.RD) & control.last_tile), place.eq(control.place)]
        m.d.comb += [
            reader.addr.eq(before.place),
            reader.en.eq(before.op == VectorOp.SPD),
            writer.addr.eq(control.place),
            writer.data.eq((spd + sld)[: unit.sum_bits]),
            writer.en.eq(op == VectorOp.RD),
            finisher.addr.eq(place),
            finisher.en.eq(done),
        ]
        self._finished, self._divisor = Signal(), finisher.data
        m.d.sync += self._finished.eq(done)
        rd = Signal(unit.sum_bits)
        m.d.comb += rd.eq(Mux(control.first_tile, 0, reader.data))
        return rd

    def _reciprocal(self, m: Any) -> tuple[Any, Any]:
        """Return mantissa and exponent of the last row's reciprocal."""
        unit = self._unit
        m.submodules.reciprocal = reciprocal = Reciprocal(
            value_bits=unit.sum_bits, fraction_bits=unit.reciprocal_fraction_bits, guess=unit.reciprocal
        )
        mantissa, exponent = Signal.like(reciprocal.result.payload.mantissa), Signal(range(unit.sum_bits))
        m.d.comb += [reciprocal.value.payload.eq(self._divisor), reciprocal.value.valid.eq(self._finished)]
        with m.If(reciprocal.result.valid):
            m.d.sync += [
                mantissa.eq(reciprocal.result.payload.mantissa),
                exponent.eq(reciprocal.result.payload.exponent),
            ]
        return mantissa, exponent

    def _round(self, m: Any, halves: Any, product: Any, places: Any, dividing: Any) -> None:
        """Round the shifted quotient by the output format, and bring it into range."""
        target = self._unit.output_format
        held = Signal(signed(len(halves)), reset_less=True)
        lost = Signal(reset_less=True)
        m.d.sync += held.eq(halves)
        if target.rounding is Rounding.NEAREST_EVEN:
            # Whether the lowest 1 lies below the places that stay.
            lowest, seen = Signal(len(product)), Signal(len(product))
            m.d.comb += [lowest.eq(product & -product), seen.eq(lowest >> places)]
            m.d.sync += lost.eq(lowest.any() & ~seen.any())
        up = {
            Rounding.TRUNCATE: Const(0, 1),
            Rounding.NEAREST_UP: held[0],
            Rounding.NEAREST_EVEN: held[0] & (lost | held[1]),
        }[target.rounding]
        whole = Signal(signed(len(held)))
        m.d.comb += whole.eq(held[1:].as_signed() + up)
        m.d.sync += self.quotient.eq(clamp(whole, target.min_code, target.max_code))
        flags = Cat(dividing, self._held, self.control_out.ends)
        m.d.comb += Cat(self.valid, self.keep, self.last).eq(delay(m, flags, 3, name="flags", reset_less=False))
