"""The k largest of numbers that pass one by one, and their renormalised scores."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from accel.gate_unit import GateUnit
from rtl.arith import shift_right
from rtl.reciprocal import Reciprocal
from rtl.stream import delay, flow

__all__ = ["Choice", "Renormalise", "places_layout"]


def places_layout(unit: GateUnit) -> data.ArrayLayout:
    """Return the chosen experts with their scores, the largest first."""
    place = {"expert": range(unit.experts), "score": unsigned(unit.score_fraction_bits + 1)}
    return data.ArrayLayout(data.StructLayout(place), unit.top_k)


class Choice(wiring.Component):
    """Keeps the ``top_k`` largest scores of a token in order (step 2 of ``accel.gate_unit``).

    Latency 1 cycle from a token's last score, interval 1.

    Parameters
    ----------
    unit : GateUnit
        Experts and k.

    Members
    -------
    score : In(unsigned), last : In(1), valid : In(1)
        Scores by rising index, and the last of a token.
    places : Out(flow(places_layout))
        The choice.
    """

    latency_cycles = 1
    interval_cycles = 1

    def __init__(self, unit: GateUnit) -> None:
        self._unit = unit
        super().__init__(
            {
                "score": In(unsigned(unit.score_fraction_bits + 1)),
                "last": In(1),
                "valid": In(1),
                "places": Out(flow(places_layout(unit))),
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Build the places: each takes the new score or its upper neighbour, or holds."""
        m = Module()
        unit = self._unit
        expert = Signal(range(unit.experts))
        places = Signal(places_layout(unit), reset_less=True)
        filled = Signal(unit.top_k)
        larger = Signal(unit.top_k)
        m.d.comb += larger.eq(Cat(~filled[at] | (self.score > places[at].score) for at in range(unit.top_k)))
        with m.If(self.valid):
            m.d.sync += expert.eq(Mux(self.last, 0, (expert + 1)[: len(expert)]))
            m.d.sync += filled.eq(Mux(self.last, 0, Cat(Const(1, 1), filled)[: unit.top_k]))
            for at in range(unit.top_k):
                above = larger[at - 1] if at else Const(0, 1)
                with m.If(larger[at] & above):
                    m.d.sync += Value.cast(places[at]).eq(Value.cast(places[at - 1 if at else 0]))
                with m.Elif(larger[at]):
                    m.d.sync += [places[at].expert.eq(expert), places[at].score.eq(self.score)]
        m.d.comb += [
            Value.cast(self.places.payload).eq(Value.cast(places)),
            self.places.valid.eq(delay(m, self.valid & self.last, 1, name="complete", reset_less=False)),
        ]
        return m


class Renormalise(wiring.Component):
    """Divides the chosen scores by their sum (step 3 of ``accel.gate_unit``).

    Latency ``unit.renormalise_cycles``, interval 1.

    Parameters
    ----------
    unit : GateUnit
        Widths and table.

    Members
    -------
    places : In(flow(places_layout))
        The choice.
    results : Out(flow(places_layout))
        The same experts, their scores divided.
    """

    interval_cycles = 1

    def __init__(self, unit: GateUnit) -> None:
        self._unit = unit
        super().__init__({"places": In(flow(places_layout(unit))), "results": Out(flow(places_layout(unit)))})

    def elaborate(self, platform: Any) -> Any:
        """Build: the sum (1), its reciprocal (10), products (1), shifts (1)."""
        m = Module()
        unit = self._unit
        r, bits = unit.reciprocal_fraction_bits, unit.score_fraction_bits
        m.submodules.reciprocal = reciprocal = Reciprocal(
            value_bits=unit.sum_bits, fraction_bits=r, guess=unit.reciprocal
        )
        total = Signal(unit.sum_bits, reset_less=True)
        scores = [self.places.payload[at].score for at in range(unit.top_k)]
        added: Any = scores[0]
        for score in scores[1:]:
            added = added + score
        m.d.sync += total.eq(added[: unit.sum_bits])
        started = delay(m, self.places.valid, 1, name="started", reset_less=False)
        m.d.comb += [reciprocal.value.payload.eq(total), reciprocal.value.valid.eq(started)]
        waited = unit.renormalise_cycles - 2
        exponent = delay(m, reciprocal.result.payload.exponent, 1, name="exponent")
        for at, score in enumerate(scores):
            late = delay(m, score, waited, name=f"score_{at}")
            product = Signal(len(late) + r + 1, name=f"product_{at}", reset_less=True)
            m.d.sync += product.eq(late * reciprocal.result.payload.mantissa)
            # The shift is r - score fraction + e, at least 1: all but its last place, and that one rounds.
            near = product[r - bits - 1 :] if r > bits + 1 else Cat(Const(0, bits + 1 - r), product)
            moved = Signal(len(near), name=f"moved_{at}")
            rounded = Signal(len(near), name=f"rounded_{at}")
            result = Signal(bits + 1, name=f"result_{at}", reset_less=True)
            m.d.comb += [moved.eq(shift_right(near, exponent)), rounded.eq(moved[1:] + moved[0])]
            m.d.sync += result.eq(Mux(rounded > 1 << bits, 1 << bits, rounded[: bits + 1]))
            m.d.comb += self.results.payload[at].score.eq(result)
            m.d.comb += self.results.payload[at].expert.eq(
                delay(m, self.places.payload[at].expert, waited + 2, name=f"expert_{at}")
            )
        m.d.comb += self.results.valid.eq(delay(m, started, waited + 1, name="valid", reset_less=False))
        return m
