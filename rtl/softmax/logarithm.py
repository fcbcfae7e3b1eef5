"""The units that take the logarithm of a row's sum: weights as powers of two, and log-sum-exp."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Const, Module, Mux, Shape, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from accel.numerics import Overflow, Rounding
from accel.softmax_family.logarithm import LN2, LN2_FRACTION_BITS, Log2SoftmaxUnit, LogSumExpUnit
from rtl.arith import signed_bits
from rtl.contract import Contract
from rtl.elastic import PipelineEnd
from rtl.mantissa import MantissaFunction
from rtl.multiply import multiply
from rtl.softmax.describe import describe
from rtl.softmax.exponentials import Exponentials
from rtl.softmax.layouts import powers_layout
from rtl.softmax.normalise import take_words
from rtl.softmax.online import OnlineSum
from rtl.softmax.rows import BufferedRows, FlowingRows
from rtl.stream import Beat, delay, flow

__all__ = ["Log2Softmax", "LogSumExp"]

_DERIVED = ("mantissa_fraction_bits", "halvings_bits", "sum_bits", "sum_fraction_bits", "log_fraction_bits")


def _log_shape(unit: Any) -> Shape:
    return signed(signed_bits(*unit.log_range))


class SumLog(wiring.Component):
    """Sums the exponentials of a row and takes log2 of the sum (steps 4 and 5).

    Latency ``latency_cycles_of(unit)``, interval 1. Error: ``unit.log_error``.

    Parameters
    ----------
    unit : Log2SoftmaxUnit or LogSumExpUnit
        Widths, lanes, tables.

    Members
    -------
    powers : In(flow(powers_layout))
        Exponentials.
    rows : Out(flow(signed))
        L of each row.
    """

    interval_cycles = 1

    def __init__(self, unit: Any) -> None:
        self._unit = unit
        super().__init__({"powers": In(flow(powers_layout(unit))), "rows": Out(flow(_log_shape(unit)))})

    @staticmethod
    def latency_cycles_of(unit: Any) -> int:
        """Return the cycles from a row's last beat to its logarithm."""
        return OnlineSum.latency_cycles_of(unit) + int(unit.log2.latency_cycles) + 1

    def elaborate(self, platform: Any) -> Any:
        """Connect the sum and the logarithm; add up (1)."""
        m = Module()
        unit, waited = self._unit, self._unit.log2.latency_cycles
        m.submodules.online = online = OnlineSum(unit, find_top=False)
        m.submodules.log2 = log2 = MantissaFunction(unit.log2)
        wiring.connect(m, wiring.flipped(self.powers), online.powers)
        k = unit.log_fraction_bits
        start = Signal(signed(_log_shape(unit).width - k), name="start", reset_less=True)
        m.d.sync += start.eq(Const(-unit.sum_fraction_bits) - online.totals.payload.fewest)
        whole = delay(m, start, waited - 1, name="started").as_signed()
        exponent, fraction = log2.result.payload.exponent, log2.result.payload.mantissa
        logarithm = Signal(_log_shape(unit), name="logarithm", reset_less=True)
        m.d.sync += logarithm.eq(Cat(Const(0, k), whole + exponent).as_signed() + fraction)
        m.d.comb += [
            log2.value.payload.eq(online.totals.payload.sum),
            log2.value.valid.eq(online.totals.valid),
            self.rows.payload.eq(logarithm),
            self.rows.valid.eq(delay(m, log2.result.valid, 1, name="valid", reset_less=False)),
        ]
        return m


def _distance_word(unit: Log2SoftmaxUnit) -> data.StructLayout:
    """Return a word of the row buffer: t of each lane to k fraction bits."""
    bits = unit.halvings_bits + unit.log_fraction_bits
    return data.StructLayout({"distance": data.ArrayLayout(unsigned(bits), unit.lanes), "keep": unit.lanes, "last": 1})


class DistanceFront(wiring.Component):
    """Computes exponentials for the sum, and keeps their scaled distances for the output.

    Latency ``unit.power_cycles``.

    Members
    -------
    scores : In(flow(beat of scores))
        Scores.
    powers : Out(flow(powers_layout))
        As those of ``Exponentials``.
    words : Out(flow({distance, keep, last}))
        Scaled distances.
    """

    def __init__(self, unit: Log2SoftmaxUnit, beat: Beat) -> None:
        self._unit, self._beat = unit, beat
        super().__init__(
            {
                "scores": In(flow(beat.layout)),
                "powers": Out(flow(powers_layout(unit))),
                "words": Out(flow(_distance_word(unit))),
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Connect, and cut the distances to k fraction bits."""
        m = Module()
        m.submodules.exponentials = exponentials = Exponentials(self._unit, self._beat)
        wiring.connect(m, wiring.flipped(self.scores), exponentials.scores)
        wiring.connect(m, exponentials.powers, wiring.flipped(self.powers))
        powers, word = exponentials.powers.payload, self.words.payload
        cut = self._unit.mantissa_fraction_bits - self._unit.log_fraction_bits
        for lane in range(self._unit.lanes):
            m.d.comb += word.distance[lane].eq(Cat(powers.fraction[lane][cut:], powers.word.halvings[lane]))
        m.d.comb += [
            word.keep.eq(powers.word.keep),
            word.last.eq(powers.word.last),
            self.words.valid.eq(exponentials.powers.valid),
        ]
        return m


class RoundLog(wiring.Component):
    """Adds distances to the logarithm of their row's sum and rounds to whole halvings (step 6 of ``log2-softmax``).

    Latency 3 cycles from taking a word to its codes at an idle output, interval 1.

    Members
    -------
    words : In(stream.Signature({distance, keep, last}))
        The row buffer's output.
    rows : In(stream.Signature(signed))
        L of the rows, in order.
    results : Out(stream of beats)
        Codes; lanes that are not kept are 0.

    """

    latency_cycles = 3
    interval_cycles = 1

    def __init__(self, unit: Log2SoftmaxUnit, beat: Beat) -> None:
        self._unit, self._beat = unit, beat
        super().__init__(
            {
                "words": In(stream.Signature(_distance_word(unit))),
                "rows": In(stream.Signature(_log_shape(unit))),
                "results": Out(beat.signature),
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Build the sum with half a step (1), the limits (2), and the queue (3)."""
        m = Module()
        word, k, most = self.words.payload, self._unit.log_fraction_bits, self._unit.output_format.max_code
        m.submodules.end = end = PipelineEnd(self._beat.layout, latency_cycles=2)
        wiring.connect(m, end.output, wiring.flipped(self.results))
        taken = take_words(m, self.words, self.rows, end)
        keep = delay(m, word.keep, 2, name="keep")
        for lane in range(self._unit.lanes):
            bits = max(len(word.distance[lane]) + 1, len(self.rows.payload)) + 1
            total = Signal(signed(bits), name=f"total_{lane}", reset_less=True)
            code = Signal(self._unit.output_format.width_bits, name=f"code_{lane}", reset_less=True)
            whole = Signal(bits - k - 1, name=f"whole_{lane}")
            m.d.comb += whole.eq(total[k:-1])
            m.d.sync += [
                total.eq(word.distance[lane] + self.rows.payload + Const(1 << (k - 1), k)),
                code.eq(Mux(total[-1], 0, Mux(whole > most, most, whole))),
            ]
            m.d.comb += end.results.payload[self._beat.field][lane].eq(Mux(keep[lane], code, 0))
        m.d.comb += [
            end.results.payload.keep.eq(keep),
            end.results.payload.last.eq(delay(m, word.last, 2, name="last")),
            end.results.valid.eq(delay(m, taken, 2, name="valid", reset_less=False)),
        ]
        return m


def _rom_bits(unit: Any) -> dict[str, int]:
    return {"exp_rom_bits": unit.exp_rom_bits, "log2_rom_bits": unit.log2.table.rom_bits}


class Log2Softmax(BufferedRows):
    """The softmax with log2-quantised weights of ``accel.softmax_family.logarithm``.

    Parameters
    ----------
    unit : Log2SoftmaxUnit
        All parameters of the arithmetic.

    Members
    -------
    scores : In(stream of beats: score, keep, last)
        Scores; lanes whose ``keep`` is low hold none.
    weights : Out(stream of beats: halvings, keep, last)
        Codes, beat for beat and lane for lane.
    overrun : Out(1)
        A row was too long.
    """

    SINK = ("weights", "halvings")

    @staticmethod
    def stages_of(unit: Log2SoftmaxUnit) -> tuple[int, int, int]:
        """Return the latencies in cycles of the three parts."""
        return unit.power_cycles, SumLog.latency_cycles_of(unit), RoundLog.latency_cycles

    @classmethod
    def contract_of(cls, unit: Log2SoftmaxUnit) -> Contract:
        """Return what a block of these parameters promises, without building it."""
        return describe(
            unit,
            summary=(
                f"{unit.summary}.",
                f"Every weight is the exact one within a factor of 2**{unit.code_error:.3g}, if it is not 0.",
            ),
            parameters={"exp_segments": unit.exp_segments},
            derived={name: getattr(unit, name) for name in _DERIVED}
            | {
                "buffer_beats": cls.buffer_beats_of(unit),
                "buffer_word_bits": _distance_word(unit).size,
                "row_queue_word_bits": _log_shape(unit).width,
                "code_error": unit.code_error,
            }
            | _rom_bits(unit),
            latency_cycles=cls.latency_cycles_of(unit),
            latency_span="from a row's last beat to its first codes",
        )

    def _front(self) -> Any:
        return DistanceFront(self._unit, self.source_beat)

    def _statistic(self) -> Any:
        return SumLog(self._unit)

    def _back(self) -> Any:
        return RoundLog(self._unit, self.sink_beat)


class LogSumExp(FlowingRows):
    """The log-sum-exp of ``accel.softmax_family.logarithm``.

    Parameters
    ----------
    unit : LogSumExpUnit
        All parameters of the arithmetic.

    Members
    -------
    scores : In(stream of beats: score, keep, last)
        Scores; lanes whose ``keep`` is low hold none.
    sums : Out(stream of beats: log, keep, last)
        Beat for beat; lane 0 of a row's last beat holds the result.
    overrun : Out(1)
        A row was too long.
    """

    SINK = ("sums", "log")

    @staticmethod
    def pipeline_cycles_of(unit: LogSumExpUnit) -> int:
        """Return the cycles of the pipeline: exponentials, sum and logarithm, product, sum and rounding."""
        return unit.power_cycles + SumLog.latency_cycles_of(unit) + unit.product_cycles + 2

    @classmethod
    def contract_of(cls, unit: LogSumExpUnit) -> Contract:
        """Return what a block of these parameters promises, without building it."""
        return describe(
            unit,
            summary=(f"{unit.summary}.", f"Every result is within {unit.max_error:.3g} of the exact one."),
            parameters={"exp_segments": unit.exp_segments},
            derived={name: getattr(unit, name) for name in _DERIVED} | _rom_bits(unit),
            latency_cycles=cls.latency_cycles_of(unit),
            latency_span="from a beat to its result",
        )

    def _pipeline(self, m: Any, accept: Any, last: Any) -> tuple[Any, Any]:
        unit, target = self._unit, self._unit.output_format
        m.submodules.exponentials = exponentials = Exponentials(unit, self.source_beat)
        m.submodules.sum = total = SumLog(unit)
        self._send(m, exponentials.scores, accept, last)
        wiring.connect(m, exponentials.powers, total.powers)

        shift = unit.log_fraction_bits + LN2_FRACTION_BITS - target.fraction_bits
        start = unit.input_format.max_code << (
            unit.log_fraction_bits + LN2_FRACTION_BITS - unit.input_format.fraction_bits
        )
        product = multiply(m, total.rows.payload, Const(LN2, LN2.bit_length()), name="product")
        exact = Signal(signed(max(len(product), start.bit_length() + 1) + 1), name="exact", reset_less=True)
        m.d.sync += exact.eq(product + Const(start, signed(start.bit_length() + 1)))
        up = {
            Rounding.TRUNCATE: Const(0, 1),
            Rounding.NEAREST_UP: exact[shift - 1],
            Rounding.NEAREST_EVEN: exact[shift - 1] & (exact[: shift - 1].any() | exact[shift]),
        }[target.rounding]
        rounded = Signal(signed(len(exact) - shift + 1), name="rounded")
        m.d.comb += rounded.eq((exact >> shift) + up)
        fitted: Any = rounded
        if target.overflow is Overflow.SATURATE and len(rounded) > target.width_bits:
            ends = (Const(code, signed(len(rounded))) for code in (target.max_code, target.min_code))
            high, low = ends
            fitted = Mux(rounded > high, high, Mux(rounded < low, low, rounded))
        result = Signal(signed(target.width_bits), name="result", reset_less=True)
        m.d.sync += result.eq(fitted)
        return result, self._any_score(m, accept, last)

    def _any_score(self, m: Any, accept: Any, last: Any) -> Any:
        """Return, as late as the result, whether a row ends that had a score."""
        seen = Signal(name="seen")
        some = Signal(name="some")
        m.d.comb += some.eq(seen | self.scores.payload.keep.any())
        with m.If(accept):
            m.d.sync += seen.eq(some & ~last)
        return delay(m, some & last, self.pipeline_cycles_of(self._unit), name="some")
