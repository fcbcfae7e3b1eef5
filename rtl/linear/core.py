"""The unified linear unit: rows of any layer against tiles of weights, one tile a cycle."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from accel.block_unit import BlockUnit
from rtl.linear.counting import up_and_down
from rtl.linear.layouts import job_layout, list_layout, shape_layout, weight_signature, word_layout
from rtl.linear.products import Products
from rtl.linear.results import Results
from rtl.linear.rows import Rows
from rtl.linear.weights import WeightBanks
from rtl.stream import delay

__all__ = ["LinearCore"]

JOB_QUEUE_DEPTH = 2


class LinearCore(wiring.Component):
    """All linear layers of a model, one after the other, as ``accel.linear_unit`` says bit for bit and cycle for cycle.

    One loop of counters runs over words of the row, words of the output, rows and jobs; it never drains between them.
    It waits for the weights of a job, and where a job must see what another wrote. Nothing behind it ever waits.

    Parameters
    ----------
    unit : BlockUnit
        The linear unit, and the sizes of memory and lists.

    Members
    -------
    jobs : In(stream of job_layout)
        Layers.
    shapes : In(stream of shape_layout)
        Their dimensions, in the same order, for the loader, which is ahead.
    weights : In(weight_signature)
        Weights and biases.
    list_address : Out, list_data : In(list_layout)
        Port of the token lists, read in one cycle.
    read_address : Out, read : Out(1), read_data : In(word_layout)
        Port of the memory for rows, read in one cycle.
    old_address : Out, old_read : Out(1), old_data : In(word_layout)
        Port of the memory for accumulation.
    write_address : Out, write_data : Out(word_layout), write : Out(1)
        Port of the memory for results.
    job_end : Out(1)
        The last word of a job is written.
    list_read, stepped, weight_written : Out(1)
        For counters: an entry, a tile of weights, a beat of weights.
    macs, activated, scaled, accumulated : Out
        For counters: how often that happens in this cycle.
    misaligned : Out(1)
        A beat of weights is taken whose ``last`` is wrong.
    """

    def __init__(self, unit: BlockUnit) -> None:
        self._unit = unit
        address, count = range(unit.memory_words), range(unit.linear.tile + 1)
        super().__init__(
            {
                "jobs": In(stream.Signature(job_layout(unit))),
                "shapes": In(stream.Signature(shape_layout(unit))),
                "weights": In(weight_signature(unit)),
                "list_address": Out((unit.max_rows - 1).bit_length() + (unit.list_count - 1).bit_length()),
                "list_data": In(list_layout(unit)),
                "read_address": Out(address),
                "read": Out(1),
                "read_data": In(word_layout(unit)),
                "old_address": Out(address),
                "old_read": Out(1),
                "old_data": In(word_layout(unit)),
                "write_address": Out(address),
                "write_data": Out(word_layout(unit)),
                "write": Out(1),
                **{name: Out(1) for name in ("job_end", "list_read", "stepped", "weight_written", "misaligned")},
                "macs": Out(range(unit.linear.tile**2 + 1)),
                **{name: Out(count) for name in ("activated", "scaled", "accumulated")},
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Connect the parts."""
        m = Module()
        unit = self._unit
        m.submodules.banks = banks = WeightBanks(unit)
        m.submodules.rows = rows = Rows(unit)
        m.submodules.results = results = Results(unit)
        queue = fifo.SyncFIFO(width=len(Value.cast(self.jobs.payload)), depth=JOB_QUEUE_DEPTH)
        m.submodules.job_queue = queue
        wiring.connect(m, wiring.flipped(self.shapes), banks.shapes)
        wiring.connect(m, wiring.flipped(self.weights), banks.beats)
        m.d.comb += [
            queue.w_data.eq(Value.cast(self.jobs.payload)),
            queue.w_en.eq(self.jobs.valid),
            self.jobs.ready.eq(queue.w_rdy),
            Value.cast(rows.jobs.payload).eq(queue.r_data),
            rows.jobs.valid.eq(queue.r_rdy),
            queue.r_en.eq(rows.jobs.ready),
            self.list_address.eq(rows.list_address),
            rows.list_data.eq(self.list_data),
            self.list_read.eq(rows.list_read),
            self.weight_written.eq(banks.written),
            self.misaligned.eq(banks.misaligned),
            self.old_address.eq(results.old_address),
            self.old_read.eq(results.old_read),
            results.old.eq(self.old_data),
            self.write_address.eq(results.address),
            self.write_data.eq(results.numbers),
            self.write.eq(results.write),
            self.job_end.eq(results.job_end),
            *(getattr(self, name).eq(getattr(results, name)) for name in ("activated", "scaled", "accumulated")),
        ]
        step = self._steps(m, rows, banks, results)
        self._sums(m, step, banks, results)
        return m

    def _steps(self, m: Any, rows: Any, banks: Any, results: Any) -> dict[str, Any]:
        """Build the loop: what the step of this cycle is, and whether it is taken."""
        row = rows.rows.payload
        block, word = Signal(row.in_end.shape()), Signal(row.out_end.shape())
        tile, inside = Signal(banks.tile.shape()), Signal()
        taken, block_end, word_end, row_end = Signal(), Signal(), Signal(), Signal()
        may_start = self._interlocks(m, row, taken & ~inside, row_end, results)
        m.d.comb += [
            taken.eq(rows.rows.valid & banks.loaded & (inside | may_start)),
            block_end.eq(block == row.in_end),
            word_end.eq(word == row.out_end),
            row_end.eq(taken & block_end & word_end),
            rows.rows.ready.eq(row_end),
            banks.ended.eq(row_end & row.last),
            banks.tile.eq(tile),
            self.read_address.eq((row.source + block)[: len(self.read_address)]),
            self.read.eq(taken),
            self.stepped.eq(taken),
        ]
        with m.If(taken):
            m.d.sync += [
                inside.eq(~row_end),
                block.eq(Mux(block_end, 0, (block + 1)[: len(block)])),
                tile.eq(Mux(row_end, 0, (tile + 1)[: len(tile)])),
            ]
            with m.If(block_end):
                m.d.sync += word.eq(Mux(word_end, 0, (word + 1)[: len(word)]))
        in_lanes = Signal(range(self._unit.linear.tile + 1))
        out_lanes = Signal(in_lanes.shape())
        m.d.comb += [
            in_lanes.eq(Mux(block_end, row.in_lanes, self._unit.linear.tile)),
            out_lanes.eq(Mux(word_end, row.out_lanes, self._unit.linear.tile)),
            self.macs.eq(Mux(taken, in_lanes * out_lanes, 0)),
        ]
        return {
            "row": row,
            "taken": taken,
            "first": ~block.any(),
            "block_end": block_end,
            "row_end": row_end,
            "word": word,
            "in_lanes": in_lanes,
            "out_lanes": out_lanes,
        }

    def _interlocks(self, m: Any, row: Any, starts: Any, row_end: Any, results: Any) -> Any:
        """Return whether the next row may start: what it must see is written.

        ``in_flight`` counts rows whose steps are taken and whose last word is not written; ``granted`` counts rows
        written for a layer that follows row by row, less the rows of it that have started.
        """
        rows = range(self._unit.max_rows + 1)
        in_flight, granted = Signal(8), Signal(rows)
        up_and_down(m, in_flight, row_end, results.row_end)
        up_and_down(m, granted, results.feeds, starts & row.chained)
        return (~row.chained | granted.any()) & (~row.drained | ~in_flight.any())

    def _sums(self, m: Any, step: dict[str, Any], banks: Any, results: Any) -> None:
        """Build operands (2), products (1), trees, and running sums (1)."""
        unit = self._unit
        linear = unit.linear
        late = linear.sum_cycles - 1
        lanes = delay(m, step["in_lanes"], 1, name="in_lanes")
        bits = linear.feature_format.width_bits
        features = []
        for lane in range(linear.tile):
            masked = Mux(lanes > lane, Value.cast(self.read_data)[lane * bits : (lane + 1) * bits], 0)
            features.append(delay(m, masked, 1, name=f"feature_{lane}").as_signed())
        summing = delay(m, step["taken"], late, name="summing", reset_less=False)
        first = delay(m, step["first"], late, name="first")
        m.d.comb += [
            banks.bias.eq(delay(m, step["word"], late - 1, name="bias_word")),
            banks.bias_bank.eq(delay(m, banks.tile_bank, late - 1, name="bias_bank")),
            banks.released.eq(delay(m, banks.ended, linear.bank_cycles - 1, name="released", reset_less=False)),
        ]
        for out in range(linear.tile):
            m.submodules[f"products_{out}"] = products = Products(linear)
            m.d.comb += [
                Value.cast(products.features).eq(Cat(features)),
                products.weights.eq(delay(m, banks.weights[out], 1, name=f"weights_{out}")),
            ]
            running = Signal(signed(linear.accumulator_bits), name=f"running_{out}", reset_less=True)
            bias = banks.biases[out].as_signed()
            with m.If(summing):
                m.d.sync += running.eq((Mux(first, bias, running) + products.total)[: linear.accumulator_bits])
            m.d.comb += results.sums.payload.sum[out].eq(running)
        row = step["row"]
        about = {
            "address": (row.target + step["word"])[: len(self.write_address)],
            "score": row.score,
            "lanes": step["out_lanes"],
            "accumulate": row.accumulate,
            "scaled": row.scaled,
            "activate": row.activate,
            "row_end": step["row_end"],
            "feeds": row.feeds,
            "job_end": row.last,
        }
        for name, value in about.items():
            m.d.comb += Value.cast(results.sums.payload.about[name]).eq(
                delay(m, value, linear.sum_cycles, name=f"about_{name}")
            )
        complete = step["taken"] & step["block_end"]
        m.d.comb += results.sums.valid.eq(delay(m, complete, linear.sum_cycles, name="complete", reset_less=False))
