"""The back of the unit: p rows of running outputs, and one row at a time normalised."""

from __future__ import annotations

from typing import Any

from amaranth import Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from accel.numerics import Rounding
from accel.reordered_unit import ReorderedUnit
from rtl.attention.reordered.choice import chosen, shifted
from rtl.attention.reordered.layouts import (
    accumulator_layout,
    block_layout,
    operand_signature,
    reciprocal_layout,
    result_layout,
    weight_layout,
)
from rtl.elastic import PipelineEnd
from rtl.stream import delay, flow

__all__ = ["Accumulators", "Normalise"]


class Accumulators(wiring.Component):
    """Adds a value, times the weight it has for each slot's row, to the running outputs (the rest of step 3).

    All slots work on the same block of the same value. Two cycles after an iteration was taken its first block is
    added, then one block a cycle. The blocks of a finished row pass on instead of being kept.

    Parameters
    ----------
    unit : ReorderedUnit
        Slots, features, formats.

    Members
    -------
    weights : In(weight_layout of each slot)
        Of an iteration, in the cycle after ``taken``.
    taken : In(1)
        An iteration's weights come in the next cycle.
    done : In(1)
        It is the job's last; in the cycle after ``taken``.
    place : In(range(value_blocks)), working : In(1)
        Which block of the value ``value`` holds, if any; from the cycle after ``taken`` on.
    value : In(block_layout of V)
        The block.
    rows : Out(flow(result_layout))
        Finished rows.
    multiplied, read, written : Out(slots)
        Slots that multiply a block, read accumulators, and write them, in this cycle.
    rescaled : Out(slots)
        Slots that shift the accumulators they read.
    """

    def __init__(self, unit: ReorderedUnit) -> None:
        self._unit = unit
        super().__init__(
            {
                "weights": In(data.ArrayLayout(weight_layout(unit), unit.slots)),
                "done": In(1),
                "place": In(range(unit.value_blocks)),
                "working": In(1),
                "value": In(block_layout(unit, unit.value_format)),
                "rows": Out(flow(result_layout(unit))),
                **{name: Out(unit.slots) for name in ("multiplied", "read", "written", "rescaled")},
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Build products (1) and running outputs (2) of each slot, and the choice of the finished row."""
        m = Module()
        unit = self._unit
        place = delay(m, self.place, 1, name="place")
        working = delay(m, self.working, 1, name="working", reset_less=False)
        results = []
        finished = Signal(unit.slots)
        for slot in range(unit.slots):
            weight = self.weights[slot]
            m.d.comb += self.multiplied[slot].eq(self.working & weight.live)
            products = self._products(m, slot, weight.weight, enable=self.multiplied[slot])
            flags = {name: delay(m, weight[name], 1, name=f"{name}_{slot}") for name in ("first", "last", "live")}
            rise = delay(m, weight.rescale, 1, name=f"rise_{slot}")
            read, written = self.read[slot], self.written[slot]
            m.d.comb += [
                finished[slot].eq(working & flags["last"]),
                read.eq(working & ~flags["first"] & (flags["live"] | flags["last"])),
                written.eq(working & flags["live"] & ~flags["last"]),
                self.rescaled[slot].eq(read & (rise != 0)),
            ]
            kept = self._kept(m, slot, place, written)
            sums = Signal(accumulator_layout(unit), name=f"sums_{slot}")
            for lane in range(unit.block):
                old = Signal(signed(unit.accumulator_bits), name=f"old_{slot}_{lane}")
                moved = shifted(m, kept["stored"][lane], rise, name=f"moved_{slot}_{lane}")
                m.d.comb += [
                    old.eq(Mux(flags["first"], 0, moved)),
                    sums[lane].eq((old + Mux(flags["live"], products[lane], 0))[: unit.accumulator_bits]),
                ]
            m.d.comb += kept["next"].eq(sums)
            results.append(sums)
        row = Signal(len(Value.cast(results[0])), reset_less=True)
        row_end, last = Signal(reset_less=True), Signal(reset_less=True)
        valid = Signal()
        ends = place == unit.value_blocks - 1
        m.d.sync += [
            row.eq(chosen(results, finished)),
            row_end.eq(ends),
            last.eq(ends & delay(m, self.done, 1, name="done")),
            valid.eq(finished.any()),
        ]
        m.d.comb += [
            Value.cast(self.rows.payload.accumulators).eq(row),
            self.rows.payload.row_end.eq(row_end),
            self.rows.payload.last.eq(last),
            self.rows.valid.eq(valid),
        ]
        return m

    def _products(self, m: Any, slot: int, weight: Any, *, enable: Any) -> list[Any]:
        products = []
        for lane in range(self._unit.block):
            value = self.value[lane]
            product = Signal((weight * value).shape(), name=f"product_{slot}_{lane}", reset_less=True)
            with m.If(enable):
                m.d.sync += product.eq(weight * value)
            products.append(product)
        return products

    def _kept(self, m: Any, slot: int, place: Any, written: Any) -> dict[str, Any]:
        """Return the running outputs of a slot at ``place``, and what they become where ``written``."""
        unit = self._unit
        layout = accumulator_layout(unit)
        following, stored = Signal(layout, name=f"next_{slot}"), Signal(layout, name=f"stored_{slot}")
        if unit.value_blocks > 1:
            m.submodules[f"row_{slot}"] = kept = memory.Memory(
                shape=unsigned(Value.cast(stored).shape().width), depth=unit.value_blocks, init=[]
            )
            writer, reader = kept.write_port(), kept.read_port(domain="comb")
            m.d.comb += [
                writer.addr.eq(place),
                writer.data.eq(following),
                writer.en.eq(written),
                reader.addr.eq(place),
                Value.cast(stored).eq(reader.data),
            ]
        else:
            register = Signal(len(Value.cast(stored)), name=f"register_{slot}", reset_less=True)
            with m.If(written):
                m.d.sync += register.eq(following)
            m.d.comb += Value.cast(stored).eq(register)
        return {"next": following, "stored": stored}


class Normalise(wiring.Component):
    """Multiplies the outputs of a finished row by the row's reciprocal and rounds them (step 5).

    A block is taken with the row's reciprocal, which is taken with the row's last block. The pipeline never stalls: a
    block is taken only if the output queue will have room for it. Latency 5 cycles, interval 1.

    Parameters
    ----------
    unit : ReorderedUnit
        Widths and output format.

    Members
    -------
    rows : In(stream of result_layout)
        Finished rows.
    reciprocals : In(stream of reciprocal_layout)
        Theirs, in order.
    outputs : Out(stream of blocks and ``last``)
        Outputs.
    taken : Out(1)
        A block is taken.
    """

    latency_cycles = 5
    _PIPELINE = 4

    def __init__(self, unit: ReorderedUnit) -> None:
        self._unit = unit
        super().__init__(
            {
                "rows": In(stream.Signature(result_layout(unit))),
                "reciprocals": In(stream.Signature(reciprocal_layout(unit))),
                "outputs": Out(operand_signature(unit, unit.output_format)),
                "taken": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Build operands (1), shifts (2), products (3), rounding (4)."""
        m = Module()
        unit, row, scale = self._unit, self.rows.payload, self.reciprocals.payload
        m.submodules.end = end = PipelineEnd(self.outputs.payload.shape(), latency_cycles=self._PIPELINE)
        wiring.connect(m, end.output, wiring.flipped(self.outputs))
        taken = self.taken
        m.d.comb += [
            taken.eq(self.rows.valid & self.reciprocals.valid & end.room),
            end.taken.eq(taken),
            self.rows.ready.eq(taken),
            self.reciprocals.ready.eq(taken & row.row_end),
            end.results.valid.eq(delay(m, taken, self._PIPELINE, name="valid", reset_less=False)),
            end.results.payload.last.eq(delay(m, row.last, self._PIPELINE, name="last")),
        ]
        shift = delay(m, scale.shift, 1, name="shift")
        reciprocal = delay(m, scale.reciprocal, 2, name="reciprocal")
        for lane in range(unit.block):
            total = delay(m, row.accumulators[lane], 1, name=f"total_{lane}").as_signed()
            quotient = Signal(signed(unit.quotient_bits), name=f"quotient_{lane}", reset_less=True)
            product = Signal(signed(len(quotient) + len(reciprocal)), name=f"product_{lane}", reset_less=True)
            moved = shifted(m, total, shift, name=f"moved_{lane}")
            m.d.sync += [quotient.eq(moved[: unit.quotient_bits]), product.eq(quotient * reciprocal)]
            m.d.comb += end.results.payload.numbers[lane].eq(self._round(m, product, lane))
        return m

    def _round(self, m: Any, product: Any, lane: int) -> Any:
        """Return after one cycle the product without its lost bits, rounded and fitted."""
        target, shift = self._unit.output_format, self._unit.output_shift
        floor = product[shift:].as_signed()
        up = {
            Rounding.TRUNCATE: Const(0, 1),
            Rounding.NEAREST_UP: product[shift - 1],
            Rounding.NEAREST_EVEN: product[shift - 1] & (product[: shift - 1].any() | floor[0]),
        }[target.rounding]
        rounded = Signal(signed(len(floor) + 1), name=f"rounded_{lane}")
        m.d.comb += rounded.eq(floor + up)
        fitted: Any = rounded
        shape = signed(len(rounded) + 1)
        if rounded.shape().width > target.width_bits or not target.signed:
            fitted = Mux(rounded > target.max_code, Const(target.max_code, shape), fitted)
            fitted = Mux(rounded < target.min_code, Const(target.min_code, shape), fitted)
        value = Signal(target.width_bits, name=f"output_{lane}", reset_less=True)
        m.d.sync += value.eq(fitted)
        return value
