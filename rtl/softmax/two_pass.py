"""The two-pass softmax: scores wait in the row buffer, and their exponentials are computed twice."""

from __future__ import annotations

from typing import Any

from amaranth import Module, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from accel.softmax_unit import SoftmaxUnit
from rtl.softmax.core import Softmax
from rtl.softmax.exponentials import Exponentials, Power
from rtl.softmax.layouts import powers_layout, row_layout
from rtl.softmax.normalise import Normalise
from rtl.stream import Beat, delay, flow

__all__ = ["ScoreNormalise", "TwoPassSoftmax", "delayed_row"]


class ScoreFront(wiring.Component):
    """Stores the scores as they come, and computes their exponentials for the sum only.

    Latency of the exponentials 6 cycles, of the words 0; interval 1.

    Parameters
    ----------
    unit : SoftmaxUnit
        Formats, lanes and table.
    beat : Beat
        Of scores.

    Members
    -------
    scores : In(flow(beat of scores))
        Scores.
    powers : Out(flow(powers_layout))
        As those of ``Exponentials``.
    words : Out(flow(beat of scores))
        The scores.
    """

    def __init__(self, unit: SoftmaxUnit, beat: Beat) -> None:
        self._unit, self._beat = unit, beat
        super().__init__(
            {
                "scores": In(flow(beat.layout)),
                "powers": Out(flow(powers_layout(unit))),
                "words": Out(flow(beat.layout)),
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Connect both."""
        m = Module()
        m.submodules.exponentials = exponentials = Exponentials(self._unit, self._beat)
        wiring.connect(m, wiring.flipped(self.scores), exponentials.scores)
        wiring.connect(m, exponentials.powers, wiring.flipped(self.powers))
        m.d.comb += [self.words.payload.eq(self.scores.payload), self.words.valid.eq(self.scores.valid)]
        return m


class ScoreNormalise(Normalise):
    """Computes the exponentials of the buffered scores again, and goes on as ``Normalise``.

    Latency from taking a word to its weights ``unit.power_cycles`` more than that, interval 1. Parameters and members
    are those of ``Normalise``, but that words are beats of scores.
    """

    @staticmethod
    def lead_cycles_of(unit: SoftmaxUnit) -> int:
        """Return the cycles of the exponentials."""
        return unit.power_cycles

    def _layouts(self) -> tuple[data.StructLayout, data.StructLayout]:
        beat = Beat(field="score", element=self._unit.input_format, lanes=self._unit.lanes)
        return beat.layout, row_layout(self._unit)

    def _exponentials(self, m: Any) -> tuple[Any, list[tuple[Any, Any]]]:
        numbers = []
        for lane in range(self._unit.lanes):
            m.submodules[f"power_{lane}"] = power = self._power(m, lane)
            numbers.append((power.halvings, power.mantissa))
        return delayed_row(m, self.rows.payload, self._unit.power_cycles), numbers

    def _power(self, m: Any, lane: int) -> Power:
        """Return the exponential of a buffered score."""
        power = Power(self._unit, of_code=True)
        m.d.comb += power.argument.payload.eq(self.words.payload.score[lane])
        return power


def delayed_row(m: Any, row: Any, cycles: int) -> Any:
    """Return a row's entry as it was ``cycles`` ago."""
    return row.shape()(delay(m, Value.cast(row), cycles, name="row"))


class TwoPassSoftmax(Softmax):
    """The softmax of ``accel.softmax_family.two_pass``: bits and members of ``Softmax``, and a narrower buffer."""

    @staticmethod
    def stages_of(unit: SoftmaxUnit) -> tuple[int, int, int]:
        """Return the latencies in cycles of the three parts."""
        front, statistic, _ = Softmax.stages_of(unit)
        return front, statistic, ScoreNormalise.latency_cycles_of(unit)

    @staticmethod
    def word_bits_of(unit: SoftmaxUnit) -> int:
        """Return the bits of a word of the row buffer."""
        return unit.lanes * (unit.input_format.width_bits + 1) + 1

    def _front(self) -> Any:
        return ScoreFront(self._unit, self.source_beat)

    def _back(self) -> Any:
        return ScoreNormalise(self._unit, self.sink_beat)
