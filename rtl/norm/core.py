"""LayerNorm and RMSNorm on rows that stream through once."""

from __future__ import annotations

from typing import Any

from amaranth import Const, Module, Mux, Signal
from amaranth.lib import wiring

from accel.norm_unit import NORMS, NormUnit
from rtl.contract import Contract, StreamUnit
from rtl.mantissa import MantissaFunction
from rtl.norm.layouts import row_layout, word_layout
from rtl.norm.scale import Scale
from rtl.norm.statistics import Denominator, RowSums
from rtl.stream import Beat, MemoryFifo, delay

__all__ = ["Norm", "norm_contract"]


def _row_latency_cycles(unit: NormUnit) -> int:
    """Return the cycles from accepting a row's last beat to its entry at the end of the row queue."""
    return RowSums.latency_of(unit) + unit.denominator_cycles + unit.rsqrt.latency_cycles + MemoryFifo.latency_cycles


def _buffer_beats(unit: NormUnit) -> int:
    return unit.max_beats + _row_latency_cycles(unit)


def norm_contract(unit: NormUnit) -> Contract:
    """Return what a ``Norm`` of these parameters promises, without building it."""
    derived = (*("max_beats", "capacity", "epsilon_code", "sum_bits", "square_sum_bits", "count_bits", "centre_bits"),)
    return Contract(
        unit=unit.function,
        family="norm",
        summary=(
            f"{unit.function}: {NORMS[unit.function]}; scale and shift of features fold into the next linear layer.",
            f"Rows of up to {unit.max_beats} beats of {unit.lanes} number(s); one beat a cycle for any mix of lengths.",
            f"Inputs {unit.input_format}; results {unit.output_format}; epsilon {unit.epsilon_code} squared steps.",
            f"Sums are exact; every result is within {unit.max_error:.3g} of the exact function.",
        ),
        parameters={
            "function": unit.function,
            "max_length": unit.max_length,
            "lanes": unit.lanes,
            "epsilon": unit.epsilon,
        },
        derived={name: getattr(unit, name) for name in derived}
        | {
            "denominator_bits": unit.rsqrt.value_bits,
            "rsqrt_fraction_bits": unit.rsqrt.result_fraction_bits,
            "rom_bits": unit.rsqrt.table.rom_bits,
            "buffer_beats": _buffer_beats(unit),
            "buffer_word_bits": word_layout(unit).size,
            "row_queue_word_bits": row_layout(unit).size,
        },
        input_format=unit.input_format,
        output_format=unit.output_format,
        latency_cycles=_row_latency_cycles(unit) + unit.scale_cycles,
        interval_cycles=1,
        latency_span="from a row's last beat to its first results",
        max_error=unit.max_error,
        actions={},
    )


class Norm(StreamUnit):
    """LayerNorm or RMSNorm of rows that stream in once; the results of a row stream out while the next streams in.

    The arithmetic is that of ``accel.norm_unit``, bit for bit, and so are error bound, latency and timing. A beat is
    accepted in every cycle (interval 1) for any mix of row lengths as long as the output is taken. Back-pressure loses
    nothing. A row of more than ``unit.max_beats`` beats is closed after ``max_beats``, its rest starts a new row, and
    ``overrun`` is set until reset. Why the interval is 1 and nothing hangs: as in ``rtl.softmax.Softmax``, whose buffer
    and row queue these are.

    Parameters
    ----------
    unit : NormUnit
        All parameters of the arithmetic.

    Members
    -------
    inputs : In(stream of beats: number, keep, last)
        Numbers; lanes whose ``keep`` is low hold none.
    results : Out(stream of beats: result, keep, last)
        Results, beat for beat and lane for lane; lanes without a number are 0 and not kept.
    overrun : Out(1)
        A row was too long.
    """

    def __init__(self, unit: NormUnit) -> None:
        self._unit = unit
        super().__init__(
            source="inputs",
            source_beat=Beat(field="number", element=unit.input_format, lanes=unit.lanes),
            sink="results",
            sink_beat=Beat(field="result", element=unit.output_format, lanes=unit.lanes),
            status={"overrun": (1, "a row was longer than the unit allows; stays high until reset")},
        )

    @property
    def unit(self) -> NormUnit:
        """The parameters of the arithmetic."""
        return self._unit

    @property
    def latency_cycles(self) -> int:
        """Cycles from accepting a row's last beat to its first results, the output being idle and ready."""
        return _row_latency_cycles(self._unit) + self._unit.scale_cycles

    @property
    def interval_cycles(self) -> int:
        """Cycles between accepted beats, the output being ready."""
        return 1

    @property
    def contract(self) -> Contract:
        """What the unit promises."""
        return norm_contract(self._unit)

    def elaborate(self, platform: Any) -> Any:
        """Connect the parts."""
        m = Module()
        unit, depth = self._unit, _buffer_beats(self._unit)
        m.submodules.sums = sums = RowSums(unit)
        m.submodules.row_denominator = denominator = Denominator(unit)
        m.submodules.rsqrt = rsqrt = MantissaFunction(unit.rsqrt)
        m.submodules.row_buffer = row_buffer = MemoryFifo(word_layout(unit), depth=depth)
        m.submodules.row_queue = row_queue = MemoryFifo(row_layout(unit), depth=depth)
        m.submodules.scale = scale = Scale(unit, self.sink_beat)
        wiring.connect(m, sums.sums, denominator.sums)
        wiring.connect(m, denominator.value, rsqrt.value)
        wiring.connect(m, row_buffer.o, scale.words)
        wiring.connect(m, row_queue.o, scale.rows)
        wiring.connect(m, scale.results, wiring.flipped(self.results))

        accept, last = self._accept(m, left=row_buffer.o.valid & row_buffer.o.ready, depth=depth)
        for word in (sums.words, row_buffer.i):
            m.d.comb += [
                word.payload.number.eq(self.inputs.payload.number),
                word.payload.keep.eq(self.inputs.payload.keep),
                word.payload.last.eq(last),
                word.valid.eq(accept),
            ]
        waited = unit.denominator_cycles + unit.rsqrt.latency_cycles
        row, found = row_queue.i.payload, sums.sums.payload
        m.d.comb += [
            row.count.eq(delay(m, found.count, waited, name="count")),
            row.total.eq(delay(m, found.total, waited, name="total").as_signed() if unit.centred else 0),
            row.scale.eq(rsqrt.result.payload.mantissa),
            row.halvings.eq(rsqrt.result.payload.exponent[1:]),
            row_queue.i.valid.eq(rsqrt.result.valid),
        ]
        return m

    def _accept(self, m: Any, *, left: Any, depth: int) -> tuple[Any, Any]:
        """Connect the input handshake; return whether a beat is accepted, and whether it is the last of its row."""
        held = Signal(range(depth + 1))
        accept = Signal()
        last = Signal()
        m.d.comb += [self.inputs.ready.eq(held != depth), accept.eq(self.inputs.valid & self.inputs.ready)]
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
        m.d.comb += last.eq(self.inputs.payload.last | full)
        with m.If(accept & full & ~self.inputs.payload.last):
            m.d.sync += self.overrun.eq(1)
        return accept, last
