"""The single-pass softmax."""

from __future__ import annotations

from typing import Any, ClassVar

from amaranth import Signal

from accel.softmax_unit import SOFTMAX_ACTIONS, SoftmaxUnit
from rtl.arith import population
from rtl.contract import Contract
from rtl.softmax.describe import describe
from rtl.softmax.exponentials import Exponentials
from rtl.softmax.layouts import row_layout, word_layout
from rtl.softmax.normalise import Normalise
from rtl.softmax.rows import BufferedRows
from rtl.softmax.statistics import SumReciprocal

__all__ = ["COUNTER_BITS", "Softmax", "softmax_contract"]

COUNTER_BITS = 32

_DERIVED = (
    *("mantissa_bits", "mantissa_fraction_bits", "halvings_bits", "scaled_bits", "sum_bits", "sum_fraction_bits"),
    *("sum_drop_bits", "reciprocal_fraction_bits", "residue_bits"),
)


class Softmax(BufferedRows):
    """Softmax of rows of scores that stream in once; the weights of a row stream out while the next row streams in.

    The arithmetic is that of ``accel.softmax_unit``, bit for bit, and so are error bound, latency and timing; how rows
    flow is said in ``rtl.softmax.rows.BufferedRows``.

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

    PACE: ClassVar[str] = "one beat a cycle for any mix of lengths"
    """How fast beats are taken, in the words of the contract."""

    def __init__(self, unit: SoftmaxUnit, *, counters: bool = False) -> None:
        self._counters = counters
        counted = SOFTMAX_ACTIONS if counters else {}
        super().__init__(
            unit,
            status={
                f"count_{name}": (COUNTER_BITS, f"{text} (since reset, modulo 2**32)") for name, text in counted.items()
            },
        )

    @property
    def counters(self) -> bool:
        """Whether action counters are built."""
        return self._counters

    @property
    def contract(self) -> Contract:
        """What the unit promises."""
        return self.contract_of(self._unit, counters=self._counters)

    @staticmethod
    def word_bits_of(unit: SoftmaxUnit) -> int:
        """Return the bits of a word of the row buffer."""
        return int(word_layout(unit).size)

    @staticmethod
    def row_bits_of(unit: SoftmaxUnit) -> int:
        """Return the bits of a row's entry."""
        return int(row_layout(unit).size)

    @classmethod
    def contract_of(cls, unit: SoftmaxUnit, *, counters: bool = False) -> Contract:
        """Return what a block of these parameters promises, without building it."""
        return describe(
            unit,
            summary=(
                f"{unit.summary}: each score is read once; the weights of a row leave while the next row enters.",
                f"Every weight is within {unit.max_error:.3g} of the exact one.",
                f"The sum of a row is within {unit.quality.row_sum_error:.3g} of the exact sum.",
            ),
            parameters={name: getattr(unit, name) for name in cls._parameters(unit)} | {"counters": counters},
            derived={name: getattr(unit, name) for name in _DERIVED}
            | {
                "buffer_beats": cls.buffer_beats_of(unit),
                "buffer_word_bits": cls.word_bits_of(unit),
                "row_queue_word_bits": cls.row_bits_of(unit),
                "exp_rom_bits": unit.exp_rom_bits,
                "reciprocal_rom_bits": unit.reciprocal.rom_bits,
            },
            latency_cycles=cls.latency_cycles_of(unit),
            latency_span="from a row's last beat to its first weights",
            pace=cls.PACE,
            actions=dict(SOFTMAX_ACTIONS) if counters else {},
        )

    @staticmethod
    def _parameters(unit: SoftmaxUnit) -> tuple[str, ...]:
        """Return the names of the parameters beside lanes, length and formats."""
        return (*(("exp_segments",) if unit.mantissa_bits else ()), "keep_row_sum")

    @staticmethod
    def stages_of(unit: SoftmaxUnit) -> tuple[int, int, int]:
        """Return the latencies in cycles of the three parts."""
        return unit.power_cycles, SumReciprocal.latency_cycles_of(unit), Normalise.latency_cycles_of(unit)

    def _front(self) -> Any:
        return Exponentials(self._unit, self.source_beat)

    def _statistic(self) -> Any:
        return SumReciprocal(self._unit)

    def _back(self) -> Any:
        return Normalise(self._unit, self.sink_beat)

    def _observe(self, m: Any, *, front: Any, statistic: Any, back: Any, row_buffer: Any) -> None:
        """Count the set bits of each event."""
        if not self._counters:
            return
        words = row_buffer.i
        events = {
            "exp": words.payload.keep & words.valid.replicate(self._unit.lanes),
            "max": statistic.compared,
            "add": statistic.added,
            "rescale": statistic.rescaled,
            "reciprocal": statistic.rows.valid,
            "multiply": back.multiplied,
            "buffer_write": words.valid & words.ready,
            "buffer_read": row_buffer.o.valid & row_buffer.o.ready,
        }
        for name in SOFTMAX_ACTIONS:
            counter = getattr(self, f"count_{name}")
            # The bits are counted in a register first: with 64 lanes that is a cycle's work.
            bits = population(events[name])
            amount = Signal(len(bits), name=f"amount_{name}")
            m.d.sync += [amount.eq(bits), counter.eq((counter + amount)[:COUNTER_BITS])]


softmax_contract = Softmax.contract_of
"""What a ``Softmax`` promises, without building it."""
