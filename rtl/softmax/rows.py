"""The skeleton of the softmax family: rows of scores stream in once, and a beat leaves for each beat that came in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from amaranth import Const, Module, Mux, Signal
from amaranth.lib import wiring

from accel.softmax_rows import ScoreRows
from rtl.contract import Contract, StreamUnit
from rtl.elastic import PipelineEnd
from rtl.stream import Beat, MemoryFifo, delay

__all__ = ["BufferedRows", "FlowingRows", "RowUnit"]


class RowUnit(StreamUnit):
    """A block that takes rows of scores of at most ``unit.max_beats`` beats.

    A row of more beats is closed after ``max_beats``, its rest starts a new row, and ``overrun`` is set until reset.

    Parameters
    ----------
    unit : ScoreRows
        The contract; its ``output_format`` is that of the results.
    status : mapping of str to (int, str)
        Further outputs: width and meaning.

    Members
    -------
    scores : In(stream of beats: score, keep, last)
        Scores; lanes whose ``keep`` is low hold none.
    (SINK) : Out(stream of beats)
        Results; lanes without one are 0 and not kept.
    overrun : Out(1)
        A row was too long.
    """

    SINK: ClassVar[tuple[str, str]] = ("weights", "weight")
    """Name of the stream out, and of its numbers."""

    def __init__(self, unit: Any, *, status: Mapping[str, tuple[int, str]] | None = None) -> None:
        self._unit = unit
        overrun = {"overrun": (1, "a row was longer than the unit allows; stays high until reset")}
        super().__init__(
            source="scores",
            source_beat=Beat(field="score", element=unit.input_format, lanes=unit.lanes),
            sink=self.SINK[0],
            sink_beat=Beat(field=self.SINK[1], element=unit.output_format, lanes=unit.lanes),
            status=overrun | dict(status or {}),
        )

    @property
    def unit(self) -> Any:
        """The contract."""
        return self._unit

    @classmethod
    def contract_of(cls, unit: Any) -> Contract:
        """Return what a block of these parameters promises, without building it."""
        raise NotImplementedError

    @property
    def contract(self) -> Contract:
        """What the unit promises."""
        return self.contract_of(self._unit)

    @property
    def interval_cycles(self) -> int:
        """Cycles between accepted beats, the output being ready."""
        return 1

    def _last(self, m: Any, accept: Any) -> Any:
        """Return whether the offered beat is the last of its row; count beats and report a row that is too long."""
        most = self._unit.max_beats
        full = Const(1, 1)
        last = Signal(name="last")
        if most > 1:
            beats = Signal(range(most))
            full = Signal(name="full")
            m.d.comb += full.eq(beats == most - 1)
            with m.If(accept):
                m.d.sync += beats.eq(Mux(last, 0, (beats + 1)[: len(beats)]))
        m.d.comb += last.eq(self.scores.payload.last | full)
        with m.If(accept & full & ~self.scores.payload.last):
            m.d.sync += self.overrun.eq(1)
        return last

    def _send(self, m: Any, target: Any, accept: Any, last: Any) -> None:
        """Send an accepted beat to a stream that never stalls."""
        beat = self.source_beat
        m.d.comb += [
            target.payload[beat.field].eq(self.scores.payload[beat.field]),
            target.payload.keep.eq(self.scores.payload.keep),
            target.payload.last.eq(last),
            target.valid.eq(accept),
        ]


class BufferedRows(RowUnit):
    """Waits with a row until a statistic of all of it is known, and takes the next rows meanwhile.

    Three parts are swapped: ``_front`` turns scores into numbers, ``_statistic`` a row of numbers into an entry,
    ``_back`` numbers with the entry of their row into results. Between them stand the row buffer, and a queue of
    entries. A beat is accepted in every cycle (interval 1) for any mix of row lengths as long as the output is taken.
    Back-pressure loses nothing.

    Why the interval is 1. Let X be the cycles from accepting a row's last beat to the first moment its words may leave
    the row buffer, and b_i the beats of row i. With the input always valid, row j starts to leave at ``max over i <= j
    of (C_i + X + b_i + ... + b_(j-1)) = C_j + X + max(b_i) - b_j``, so every word leaves exactly ``X + max(b_i) - 1``
    cycles after it was accepted. ``buffer_beats = max_beats + X`` places for accepted words are therefore never all
    taken when a beat arrives. A row's entry in the row queue leaves with the row's last word, so there are never more
    rows than words, and a queue as deep as the buffer cannot overflow either: one counter guards both.

    Why nothing hangs. If the counter is at its limit, more than ``max_beats`` words are inside, hence at least one
    complete row, and that row leaves as the output is taken.
    """

    @staticmethod
    def stages_of(unit: Any) -> tuple[int, int, int]:
        """Return the latencies in cycles of front, statistic and back, without building anything."""
        raise NotImplementedError

    @classmethod
    def buffer_beats_of(cls, unit: ScoreRows) -> int:
        """Return the beats that may be inside between input and output stage."""
        front, statistic, _ = cls.stages_of(unit)
        return unit.max_beats + front + statistic + MemoryFifo.latency_cycles

    @classmethod
    def latency_cycles_of(cls, unit: ScoreRows) -> int:
        """Return the cycles from accepting a row's last beat to its first results."""
        return sum(cls.stages_of(unit)) + MemoryFifo.latency_cycles

    @property
    def latency_cycles(self) -> int:
        """Cycles from accepting a row's last beat to its first results, the output being idle and ready."""
        return self.latency_cycles_of(self._unit)

    @property
    def buffer_beats(self) -> int:
        """Beats that may be inside between input and output stage."""
        return self.buffer_beats_of(self._unit)

    def _front(self) -> Any:
        """Return a component with ``scores`` in, ``powers`` out, and ``words`` out for the row buffer."""
        raise NotImplementedError

    def _statistic(self) -> Any:
        """Return a component with ``powers`` in and ``rows`` out, one for each row."""
        raise NotImplementedError

    def _back(self) -> Any:
        """Return a component with ``words`` and ``rows`` in and ``results`` out."""
        raise NotImplementedError

    def _row_buffer(self, shape: Any) -> Any:
        """Return the row buffer."""
        return MemoryFifo(shape, depth=self.buffer_beats)

    def _left(self, row_buffer: Any) -> Any:
        """Return whether a word leaves the row buffer for good."""
        return row_buffer.o.valid & row_buffer.o.ready

    def elaborate(self, platform: Any) -> Any:
        """Connect the parts."""
        m = Module()
        m.submodules.front = front = self._front()
        m.submodules.statistic = statistic = self._statistic()
        m.submodules.back = back = self._back()
        m.submodules.row_buffer = row_buffer = self._row_buffer(front.words.payload.shape())
        m.submodules.row_queue = row_queue = MemoryFifo(statistic.rows.payload.shape(), depth=self.buffer_beats)
        wiring.connect(m, row_buffer.o, back.words)
        wiring.connect(m, row_queue.o, back.rows)
        wiring.connect(m, back.results, wiring.flipped(getattr(self, self.sink)))

        accept = self._accept(m, left=self._left(row_buffer))
        self._send(m, front.scores, accept, self._last(m, accept))
        m.d.comb += [
            statistic.powers.payload.eq(front.powers.payload),
            statistic.powers.valid.eq(front.powers.valid),
            row_buffer.i.payload.eq(front.words.payload),
            row_buffer.i.valid.eq(front.words.valid),
            row_queue.i.payload.eq(statistic.rows.payload),
            row_queue.i.valid.eq(statistic.rows.valid),
        ]
        self._observe(m, front=front, statistic=statistic, back=back, row_buffer=row_buffer)
        return m

    def _observe(self, m: Any, *, front: Any, statistic: Any, back: Any, row_buffer: Any) -> None:
        """Connect status outputs; there are none but ``overrun``."""

    def _accept(self, m: Any, *, left: Any) -> Any:
        """Connect the input handshake; return whether a beat is accepted."""
        held = Signal(range(self.buffer_beats + 1))
        accept = Signal(name="accept")
        m.d.comb += [
            self.scores.ready.eq(held != self.buffer_beats),
            accept.eq(self.scores.valid & self.scores.ready),
        ]
        with m.If(accept & ~left):
            m.d.sync += held.eq((held + 1)[: len(held)])
        with m.Elif(left & ~accept):
            m.d.sync += held.eq((held - 1)[: len(held)])
        return accept


class FlowingRows(RowUnit):
    """Lets each beat leave a fixed number of cycles after it came in: nothing waits for the end of its row.

    A beat is accepted in every cycle as long as the output is taken; back-pressure loses nothing.
    """

    @staticmethod
    def pipeline_cycles_of(unit: Any) -> int:
        """Return the cycles of the pipeline, without the queue behind it."""
        raise NotImplementedError

    @classmethod
    def latency_cycles_of(cls, unit: Any) -> int:
        """Return the cycles from accepting a beat to its results."""
        return cls.pipeline_cycles_of(unit) + 1

    @property
    def latency_cycles(self) -> int:
        """Cycles from accepting a beat to its results, the output being idle and ready."""
        return self.latency_cycles_of(self._unit)

    def _pipeline(self, m: Any, accept: Any, last: Any) -> tuple[Any, Any]:
        """Build the pipeline; return, after its cycles, the result for lane 0 and whether there is one."""
        raise NotImplementedError

    def elaborate(self, platform: Any) -> Any:
        """Connect the pipeline and the queue at its end."""
        m = Module()
        cycles = self.pipeline_cycles_of(self._unit)
        m.submodules.end = end = PipelineEnd(self.sink_beat.layout, latency_cycles=cycles)
        wiring.connect(m, end.output, wiring.flipped(getattr(self, self.sink)))
        accept = Signal(name="accept")
        m.d.comb += [
            self.scores.ready.eq(end.room),
            accept.eq(self.scores.valid & end.room),
            end.taken.eq(accept),
        ]
        last = self._last(m, accept)
        result, given = self._pipeline(m, accept, last)
        beat = end.results.payload
        m.d.comb += [
            beat[self.sink_beat.field][0].eq(Mux(given, result, 0)),
            beat.keep.eq(given),
            beat.last.eq(delay(m, last, cycles, name="ended")),
            end.results.valid.eq(delay(m, accept, cycles, name="valid", reset_less=False)),
        ]
        return m
