"""The rows of linear layers, one after the other whatever job they are of, each read once from its list."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from accel.block_unit import BlockUnit
from rtl.elastic import PipelineEnd
from rtl.linear.layouts import job_layout, list_layout, row_layout
from rtl.stream import delay

__all__ = ["Rows"]


class Rows(wiring.Component):
    """Turns jobs into rows: where each begins, where its results go, and its score.

    Reading and writing side of a row come from the same entry of the list, read once, so they cannot part ways: a list
    that holds every token is a list like any other. Latency 3 cycles and 1 in the queue behind, interval 1.

    Parameters
    ----------
    unit : BlockUnit
        Lists, memory.

    Members
    -------
    jobs : In(stream of job_layout)
        Layers; ``rows`` is at least 1.
    list_address : Out, list_data : In(list_layout)
        Which entry is read, list number above; the entry, one cycle later.
    list_read : Out(1)
        An entry is used.
    rows : Out(stream of row_layout)
        The rows.
    """

    _PIPELINE = 3

    def __init__(self, unit: BlockUnit) -> None:
        self._unit = unit
        super().__init__(
            {
                "jobs": In(stream.Signature(job_layout(unit))),
                "list_address": Out((unit.max_rows - 1).bit_length() + (unit.list_count - 1).bit_length()),
                "list_data": In(list_layout(unit)),
                "list_read": Out(1),
                "rows": Out(stream.Signature(row_layout(unit))),
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Build: the list (1), the row's number (2), its addresses (3)."""
        m = Module()
        unit, job = self._unit, self.jobs.payload
        m.submodules.end = end = PipelineEnd(row_layout(unit), latency_cycles=self._PIPELINE)
        wiring.connect(m, end.output, wiring.flipped(self.rows))
        position = Signal(range(unit.max_rows))
        taken, last = Signal(), Signal()
        m.d.comb += [
            taken.eq(self.jobs.valid & end.room),
            last.eq(position == job.rows - 1),
            end.taken.eq(taken),
            self.jobs.ready.eq(end.room & last),
            self.list_address.eq(Cat(position[: (unit.max_rows - 1).bit_length()], job.queue)),
            self.list_read.eq(taken & (job.flags.gather | job.flags.scatter)),
        ]
        with m.If(taken):
            m.d.sync += position.eq(Mux(last, 0, (position + 1)[: len(position)]))

        early, later = (Signal(job_layout(unit), name=name, reset_less=True) for name in ("job_1", "job_2"))
        m.d.sync += [Value.cast(early).eq(Value.cast(job)), Value.cast(later).eq(Value.cast(early))]
        number = delay(m, position, 1, name="position")
        index = {}
        for side, flag in (("source", "gather"), ("target", "scatter")):
            index[side] = Signal(range(unit.max_rows), name=f"{side}_row", reset_less=True)
            m.d.sync += index[side].eq(Mux(early.flags[flag], self.list_data.token, number))
        score = delay(m, self.list_data.score, 1, name="score")
        self._addresses(m, later, index, score, end.results.payload)
        m.d.comb += [
            end.results.payload.last.eq(delay(m, last, 3, name="last")),
            end.results.payload.drained.eq(delay(m, job.flags.drained & ~position.any(), 3, name="drained")),
            end.results.valid.eq(delay(m, taken, self._PIPELINE, name="valid", reset_less=False)),
        ]
        return m

    def _addresses(self, m: Any, job: Any, index: Any, score: Any, row: Any) -> None:
        """Build the third stage: products, and what the job says of every row."""
        linear = self._unit.linear
        low = linear.tile.bit_length() - 1
        held = {
            **{side: self._address(job, index[side], side, len(row[side])) for side in ("source", "target")},
            "score": score,
            "accumulate": job.flags.accumulate,
            "scaled": job.flags.weighted,
            "activate": job.flags.activate,
            "chained": job.flags.chained,
            "feeds": job.flags.feeds,
        }
        for side in ("in", "out"):
            before = Value.cast(job[f"{side}_features"]) - 1
            held[f"{side}_end"] = before[low:][: len(Value.cast(row[f"{side}_end"]))]
            held[f"{side}_lanes"] = before[:low] + 1
        for name, value in held.items():
            register = Signal(len(Value.cast(row[name])), name=f"row_{name}", reset_less=True)
            m.d.sync += register.eq(value)
            m.d.comb += Value.cast(row[name]).eq(register)

    @staticmethod
    def _address(job: Any, index: Any, side: str, bits: int) -> Any:
        """Return the first word of a row, modulo ``2**bits``."""
        return (job[side] + index[:bits] * job[f"{side}_stride"][:bits])[:bits]
