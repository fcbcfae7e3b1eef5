"""The spatial attention array as a whole: Q, K and V in, AV out."""

from __future__ import annotations

from typing import Any

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from accel.attention_array import ACTIONS, AttentionArray, check_timing, end_cycles
from rtl.attention.array.buffers import TileBuffer, job_layout
from rtl.attention.array.counters import COUNTER_BITS, ActionCounters
from rtl.attention.array.grid import Grid
from rtl.attention.array.layouts import Layouts
from rtl.attention.array.sequencer import EINSUM_CODES, Sequencer, step_layout
from rtl.attention.array.tiles import TileWalk
from rtl.contract import Contract
from rtl.stream import MemoryFifo, element_shape

__all__ = ["AttentionArrayCore", "array_contract"]


def _status(counters: bool) -> dict[str, tuple[int, str]]:
    return {
        "busy": (1, "a job is being done"),
        "job_error": (
            1,
            "a job was refused since reset: a length or the heads are 0, or a length is above the maximum",
        ),
        "wait_cycles": (32, "cycles of this job in which an epoch waited for a port"),
        **{name: (COUNTER_BITS, text) for name, text in ACTIONS.items() if counters},
    }


def array_contract(unit: AttentionArray, *, counters: bool = True) -> Contract:
    """Return what an ``AttentionArrayCore`` of these parameters promises, without building it."""
    plan = unit.plan
    names = ("query_format", "key_format", "value_format")
    return Contract(
        unit="attention-array",
        family="attention-array",
        summary=(
            f"Attention in one pass over the keys on {unit.rows} x {unit.columns} PEs and {unit.columns} below them.",
            "Order of the streams, arithmetic and time: docs/attention-array.md.",
        ),
        parameters={
            **{
                name: getattr(unit, name)
                for name in (
                    "rows",
                    "columns",
                    "query_key_dim",
                    "value_dim",
                    "max_length",
                    "keys_per_tile",
                    "queries_per_tile",
                    "query_tiles",
                )
            },
            "lone_stall_cycles": unit.lone_stall_cycles,
            "exponential_degree": unit.exponential.degree,
            "weight_fraction_bits": unit.weight_fraction_bits,
            **{name: str(getattr(unit, name)) for name in names},
            "epoch": [
                {
                    "slots": [{array: list(steps) for array, steps in slot.items()} for slot in group.slots],
                    "stall_cycles": group.stall_cycles,
                }
                for group in plan.epoch
            ],
            "offsets": dict(plan.offsets),
            "copies": {name: plan.residency[name].copies for name in ("Q", "K", "V")},
            "counters": counters,
        },
        derived={
            "score_bits": unit.score_bits,
            "link_bits": unit.link_bits,
            "row_link_bits": unit.row_link_bits,
            "running_denominator_bits": unit.sum_bits,
            "running_numerator_bits": unit.value_bits,
            "exponential_relative_error": unit.exponential.relative_error,
        },
        input_format=unit.query_format,
        output_format=unit.output_format,
        latency_cycles=end_cycles(unit),
        interval_cycles=1,
        latency_span="from the last division to its beat",
        max_error=unit.error_bound(unit.max_length),
        actions=ACTIONS if counters else {},
    )


class AttentionArrayCore(wiring.Component):
    """Attention in one pass over the keys on a spatial array that follows a schedule.

    Arithmetic, order of the streams and time are in ``accel.attention_array``. One job at a time: the next one is taken
    when all of the last one's AV is delivered. Every port may pause; results stay the same.

    Parameters
    ----------
    unit : AttentionArray
        Its parameters.
    counters : bool
        Whether it counts actions.
    cells : str, optional
        As ``Grid``.

    Members
    -------
    job : In(stream.Signature(job_layout))
        What to do: lengths, heads, mask.
    q, k, v : In(stream)
        Lanes of one feature.
    av : Out(stream)
        ``av`` (C lanes), ``keep`` and ``last``.
    busy, job_error, wait_cycles, (actions) : Out
        Status.

    Raises
    ------
    InputError
        The plan reads a value before it is there in an array of this size.
    """

    def __init__(self, unit: AttentionArray, *, counters: bool = True, cells: str | None = None) -> None:
        check_timing(unit)
        self._cells = cells
        self._unit, self._counters, self._status = unit, counters, _status(counters)
        layouts = Layouts(unit=unit)
        self.output_layout = data.StructLayout(
            {
                "av": data.ArrayLayout(element_shape(unit.output_format), unit.columns),
                "keep": unit.columns,
                "last": 1,
            }
        )
        super().__init__(
            {
                "job": In(stream.Signature(job_layout(unit))),
                "q": In(stream.Signature(layouts.payload(unit.columns, unit.query_format.width_bits))),
                "k": In(stream.Signature(layouts.payload(unit.rows, unit.key_format.width_bits))),
                "v": In(stream.Signature(layouts.payload(unit.rows, unit.value_format.width_bits))),
                "av": Out(stream.Signature(self.output_layout)),
                **{name: Out(width) for name, (width, _) in self._status.items()},
            }
        )

    @property
    def unit(self) -> AttentionArray:
        """Its parameters."""
        return self._unit

    @property
    def status(self) -> dict[str, tuple[int, str]]:
        """Width and meaning of each status output."""
        return dict(self._status)

    @property
    def contract(self) -> Contract:
        """What it promises."""
        return array_contract(self._unit, counters=self._counters)

    def elaborate(self, platform: Any) -> Any:
        """Build the parts, connect the micro-operations, and take up jobs."""
        m = Module()
        unit = self._unit
        m.submodules.walk = walk = TileWalk(unit)
        m.submodules.sequencer = sequencer = Sequencer(unit)
        m.submodules.grid = grid = Grid(unit, cells=self._cells)
        buffers = {tensor: TileBuffer(unit, tensor) for tensor in "QKV"}
        start = Signal()
        job = self.job.payload
        matrix, vector = (Signal(step_layout(unit), name=name) for name in ("matrix", "vector"))
        m.d.sync += [matrix.eq(sequencer.matrix), vector.eq(sequencer.vector)]
        m.d.comb += [
            walk.start.eq(start),
            walk.job.eq(job),
            walk.next.eq(sequencer.next),
            sequencer.start.eq(start),
            sequencer.tile.eq(walk.tile),
            grid.matrix.eq(matrix),
            grid.vector.eq(vector),
        ]
        for tensor, buffer in buffers.items():
            small = tensor.lower()
            m.submodules[f"buffer_{small}"] = buffer
            wiring.connect(m, buffer.beats, wiring.flipped(getattr(self, small)))
            reads = matrix.einsum == EINSUM_CODES["SLNV" if tensor == "V" else "BQK"]
            m.d.comb += [
                buffer.start.eq(start),
                buffer.job.eq(job),
                getattr(sequencer, f"loaded_{small}").eq(buffer.loaded),
                buffer.release.eq(getattr(sequencer, f"release_{small}")),
                buffer.enable.eq(reads & ~matrix.inner.any() if tensor == "Q" else reads),
                buffer.slot.eq(matrix.tile.query_tile if tensor == "Q" else matrix.tile.key_tile),
                buffer.turn.eq(matrix.inner),
                buffer.feature.eq(matrix.outer),
                getattr(grid, small).eq(buffer.data),
            ]
        owed = self._output(m, grid, sequencer)
        loading = buffers["Q"].busy | buffers["K"].busy | buffers["V"].busy
        self._jobs(m, start, sequencer, grid, loading | sequencer.busy | owed)
        if self._counters:
            self._count(m, start, matrix, vector, buffers)
        return m

    def _output(self, m: Any, grid: Any, sequencer: Any) -> Any:
        """Build the queue of results; return whether any beat that was promised is not delivered."""
        unit = self._unit
        # Query tiles that may end before the first of them has left, the output being ready.
        tiles = 2 + -(-(end_cycles(unit) + 8) // (3 * unit.value_dim + 8))
        capacity = tiles * unit.value_dim
        m.submodules.results = queue = MemoryFifo(self.output_layout, depth=max(2, capacity))
        owed = Signal(range(capacity + unit.value_dim + 1))
        left = Signal()
        m.d.comb += [
            queue.i.payload.av.eq(grid.av),
            queue.i.payload.keep.eq(grid.keep),
            queue.i.payload.last.eq(grid.last),
            queue.i.valid.eq(grid.valid),
            self.av.payload.eq(queue.o.payload),
            self.av.valid.eq(queue.o.valid),
            queue.o.ready.eq(self.av.ready),
            left.eq(self.av.valid & self.av.ready),
            sequencer.room.eq(owed <= capacity - unit.value_dim),
        ]
        m.d.sync += owed.eq(owed + Mux(sequencer.reserve, unit.value_dim, 0) - left)
        return owed != 0

    def _jobs(self, m: Any, start: Any, sequencer: Any, grid: Any, working: Any) -> None:
        """Take up a job when nothing of the last one is left; refuse one that cannot be done."""
        job, limit = self.job.payload, self._unit.max_length
        causal, active, wrong, taken, lone = Signal(), Signal(), Signal(), Signal(), Signal()
        single = (job.queries <= self._unit.queries_per_tile) & (job.keys <= self._unit.keys_per_tile)
        m.d.comb += [
            wrong.eq(
                ~job.queries.any() | ~job.keys.any() | ~job.heads.any() | (job.queries > limit) | (job.keys > limit)
            ),
            taken.eq(self.job.valid & self.job.ready),
            start.eq(taken & ~wrong),
            self.job.ready.eq(~active),
            self.busy.eq(active),
            grid.causal.eq(causal),
            sequencer.lone.eq(lone),
        ]
        with m.If(start):
            m.d.sync += [causal.eq(job.causal), active.eq(1), self.wait_cycles.eq(0)]
            m.d.sync += lone.eq(single & (job.heads == 1))
        with m.Elif(~working):
            m.d.sync += active.eq(0)
        with m.If(taken & wrong):
            m.d.sync += self.job_error.eq(1)
        with m.If(sequencer.waiting):
            m.d.sync += self.wait_cycles.eq(self.wait_cycles + 1)

    def _count(self, m: Any, start: Any, matrix: Any, vector: Any, buffers: Any) -> None:
        m.submodules.counters = counters = ActionCounters(self._unit)
        m.d.comb += [counters.clear.eq(start), counters.matrix.eq(matrix), counters.vector.eq(vector)]
        for tensor, buffer in buffers.items():
            m.d.comb += getattr(counters, f"written_{tensor.lower()}").eq(buffer.written)
        m.d.comb += [getattr(self, action).eq(getattr(counters, action)) for action in ACTIONS]
