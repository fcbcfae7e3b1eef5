"""The single-pass softmax."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring

from accel.softmax_unit import SOFTMAX_ACTIONS, SoftmaxUnit
from rtl.arith import population
from rtl.contract import Contract, StreamUnit
from rtl.reciprocal import Reciprocal
from rtl.softmax.exponentials import Exponentials
from rtl.softmax.layouts import row_layout, shift_offset, word_layout
from rtl.softmax.normalise import Normalise
from rtl.softmax.online import OnlineSum
from rtl.stream import Beat, MemoryFifo, delay

__all__ = ["COUNTER_BITS", "Softmax", "softmax_contract"]

COUNTER_BITS = 32


def _row_latency_cycles(unit: SoftmaxUnit) -> int:
    """Return the cycles from accepting a row's last beat to its entry at the end of the row queue."""
    return (
        Exponentials.latency_cycles
        + OnlineSum.latency_cycles_of(unit)
        + Reciprocal.latency_cycles
        + MemoryFifo.latency_cycles
    )


def _buffer_beats(unit: SoftmaxUnit) -> int:
    return unit.max_beats + _row_latency_cycles(unit)


def softmax_contract(unit: SoftmaxUnit, *, counters: bool) -> Contract:
    """Return what a ``Softmax`` of these parameters promises, without building it."""
    derived = (
        *("max_beats", "capacity", "mantissa_bits", "mantissa_fraction_bits", "exponent_bits", "scaled_bits"),
        *("sum_bits", "sum_fraction_bits", "reciprocal_fraction_bits"),
    )
    return Contract(
        unit="softmax",
        family="softmax",
        summary=(
            "Single-pass softmax: each score is read once; the weights of a row leave while the next row enters.",
            f"Rows of up to {unit.max_beats} beats of {unit.lanes} score(s); one beat a cycle for any mix of lengths.",
            f"Scores {unit.input_format}; weights {unit.output_format}.",
            f"Every weight is within {unit.max_error:.3g} of the exact softmax of the scores.",
        ),
        parameters={
            "max_length": unit.max_length,
            "lanes": unit.lanes,
            "exp_segments": unit.exp_segments,
            "counters": counters,
        },
        derived={name: getattr(unit, name) for name in derived}
        | {
            "buffer_beats": _buffer_beats(unit),
            "buffer_word_bits": word_layout(unit).size,
            "row_queue_word_bits": row_layout(unit).size,
            "exp_rom_bits": unit.exp2.rom_bits * unit.lanes,
            "reciprocal_rom_bits": unit.reciprocal.rom_bits,
        },
        input_format=unit.input_format,
        output_format=unit.output_format,
        latency_cycles=_row_latency_cycles(unit) + Normalise.latency_cycles,
        interval_cycles=1,
        latency_span="from a row's last beat to its first weights",
        max_error=unit.max_error,
        actions=dict(SOFTMAX_ACTIONS) if counters else {},
    )


class Softmax(StreamUnit):
    """Softmax of rows of scores that stream in once; the weights of a row stream out while the next row streams in.

    The arithmetic is that of ``accel.softmax_unit``, bit for bit, and so are error bound, latency and timing. A beat is
    accepted in every cycle (interval 1) for any mix of row lengths as long as the output is taken. Back-pressure loses
    nothing. A row of more than ``unit.max_beats`` beats is closed after ``max_beats``, its rest starts a new row, and
    ``overrun`` is set until reset.

    Why the interval is 1. Let X be the cycles from accepting a row's last beat to the first moment its words may leave
    the row buffer, and b_i the beats of row i. With the input always valid, row j starts to leave at ``max over i <= j
    of (C_i + X + b_i + ... + b_(j-1)) = C_j + X + max(b_i) - b_j``, so every word leaves exactly ``X + max(b_i) - 1``
    cycles after it was accepted. ``buffer_beats = max_beats + X`` places for accepted words are therefore never all
    taken when a beat arrives. A row's entry in the row queue leaves with the row's last word, so there are never more
    rows than words, and a queue as deep as the buffer cannot overflow either: one counter guards both.

    Why nothing hangs. If the counter is at its limit, more than ``max_beats`` words are inside, hence at least one
    complete row, and that row leaves as the output is taken.

    Parameters
    ----------
    unit : SoftmaxUnit
        All parameters of the arithmetic.
    counters : bool
        Build an action counter for each of ``SOFTMAX_ACTIONS``.

    Members
    -------
    scores : In(stream of beats: score, keep, last)
        Scores; lanes whose ``keep`` is low hold none.
    weights : Out(stream of beats: weight, keep, last)
        Weights, beat for beat and lane for lane; lanes without a score are 0 and not kept.
    overrun : Out(1)
        A row was too long.
    count_exp, count_max, ... : Out(32)
        With ``counters``: actions since reset, modulo 2**32.
    """

    def __init__(self, unit: SoftmaxUnit, *, counters: bool = False) -> None:
        self._unit, self._counters = unit, counters
        status = {"overrun": "a row was longer than the unit allows; stays high until reset"}
        if counters:
            status |= {f"count_{name}": f"{text} (since reset, modulo 2**32)" for name, text in SOFTMAX_ACTIONS.items()}
        super().__init__(
            source="scores",
            source_beat=Beat(field="score", element=unit.input_format, lanes=unit.lanes),
            sink="weights",
            sink_beat=Beat(field="weight", element=unit.output_format, lanes=unit.lanes),
            status={name: (1 if name == "overrun" else COUNTER_BITS, text) for name, text in status.items()},
        )

    @property
    def unit(self) -> SoftmaxUnit:
        """The parameters of the arithmetic."""
        return self._unit

    @property
    def counters(self) -> bool:
        """Whether action counters are built."""
        return self._counters

    @property
    def latency_cycles(self) -> int:
        """Cycles from accepting a row's last beat to its first weights, the output being idle and ready."""
        return _row_latency_cycles(self._unit) + Normalise.latency_cycles

    @property
    def interval_cycles(self) -> int:
        """Cycles between accepted beats, the output being ready."""
        return 1

    @property
    def buffer_beats(self) -> int:
        """Beats that may be inside between input and output stage."""
        return _buffer_beats(self._unit)

    @property
    def contract(self) -> Contract:
        """What the unit promises."""
        return softmax_contract(self._unit, counters=self._counters)

    def elaborate(self, platform: Any) -> Any:
        """Connect the parts."""
        m = Module()
        unit = self._unit
        m.submodules.exponentials = exponentials = Exponentials(unit, self.source_beat)
        m.submodules.online = online = OnlineSum(unit)
        m.submodules.reciprocal = reciprocal = Reciprocal(
            value_bits=unit.sum_bits, fraction_bits=unit.reciprocal_fraction_bits, guess=unit.reciprocal
        )
        m.submodules.row_buffer = row_buffer = MemoryFifo(word_layout(unit), depth=self.buffer_beats)
        m.submodules.row_queue = row_queue = MemoryFifo(row_layout(unit), depth=self.buffer_beats)
        m.submodules.normalise = normalise = Normalise(unit, self.sink_beat)
        wiring.connect(m, row_buffer.o, normalise.words)
        wiring.connect(m, row_queue.o, normalise.rows)
        wiring.connect(m, normalise.weights, wiring.flipped(self.weights))

        accept, last = self._accept(m, left=row_buffer.o.valid & row_buffer.o.ready)
        powers = exponentials.powers
        m.d.comb += [
            exponentials.scores.payload[self.source_beat.field].eq(self.scores.payload[self.source_beat.field]),
            exponentials.scores.payload.keep.eq(self.scores.payload.keep),
            exponentials.scores.payload.last.eq(last),
            exponentials.scores.valid.eq(accept),
            online.powers.payload.eq(powers.payload),
            online.powers.valid.eq(powers.valid),
            row_buffer.i.payload.eq(powers.payload.word),
            row_buffer.i.valid.eq(powers.valid),
            reciprocal.value.payload.eq(online.totals.payload.sum),
            reciprocal.value.valid.eq(online.totals.valid),
            row_queue.i.payload.reciprocal.eq(reciprocal.result.payload.mantissa),
            row_queue.i.payload.shift.eq(
                self._shift(m, online.totals.payload.fewest, reciprocal.result.payload.exponent)
            ),
            row_queue.i.valid.eq(reciprocal.result.valid),
        ]
        if self._counters:
            self._count(
                m,
                exp=powers.payload.word.keep & powers.valid.replicate(unit.lanes),
                max=online.compared,
                add=online.added,
                rescale=online.rescaled,
                reciprocal=reciprocal.result.valid,
                multiply=normalise.multiplied,
                buffer_write=row_buffer.i.valid & row_buffer.i.ready,
                buffer_read=row_buffer.o.valid & row_buffer.o.ready,
            )
        return m

    def _accept(self, m: Any, *, left: Any) -> tuple[Any, Any]:
        """Connect the input handshake; return whether a beat is accepted, and whether it is the last of its row."""
        held = Signal(range(self.buffer_beats + 1))
        accept = Signal()
        last = Signal()
        m.d.comb += [
            self.scores.ready.eq(held != self.buffer_beats),
            accept.eq(self.scores.valid & self.scores.ready),
        ]
        with m.If(accept & ~left):
            m.d.sync += held.eq((held + 1)[: len(held)])
        with m.Elif(left & ~accept):
            m.d.sync += held.eq((held - 1)[: len(held)])

        full = Const(1, 1)
        if self._unit.max_beats > 1:
            beats = Signal(range(self._unit.max_beats))
            full = Signal(name="full")
            m.d.comb += full.eq(beats == self._unit.max_beats - 1)
            with m.If(accept):
                m.d.sync += beats.eq(Mux(last, 0, (beats + 1)[: len(beats)]))
        m.d.comb += last.eq(self.scores.payload.last | full)
        with m.If(accept & full & ~self.scores.payload.last):
            m.d.sync += self.overrun.eq(1)
        return accept, last

    def _shift(self, m: Any, fewest: Any, exponent: Any) -> Any:
        """Return the ``shift`` of a row (see ``shift_range``) from its fewest halvings and the exponent of its sum."""
        # The offset is folded into the delayed number, so that one addition remains beside the reciprocal's result.
        start = Signal(row_layout(self._unit)["shift"].shape, name="row_shift_start", reset_less=True)
        total = Signal.like(start, name="row_shift")
        m.d.sync += start.eq(Const(shift_offset(self._unit)) - fewest)
        m.d.comb += total.eq(
            delay(m, start, Reciprocal.latency_cycles - 1, name="row_shift_delayed") + Cat(exponent, 0)
        )
        return total

    def _count(self, m: Any, **events: Any) -> None:
        """Count the set bits of each event."""
        for name in SOFTMAX_ACTIONS:
            counter = getattr(self, f"count_{name}")
            # The bits are counted in a register first: with 64 lanes that is a cycle's work.
            bits = population(events[name])
            amount = Signal(len(bits), name=f"amount_{name}")
            m.d.sync += [amount.eq(bits), counter.eq((counter + amount)[:COUNTER_BITS])]
