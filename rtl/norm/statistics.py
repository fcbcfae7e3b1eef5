"""Exact sums of a row and the denominator that follows (steps 1 and 2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amaranth import Const, Module, Mux, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from accel.norm_unit import NormUnit
from rtl.arith import LEVELS_PER_STAGE, reduce_pairs, tree_stages
from rtl.multiply import multiply, multiply_cycles
from rtl.norm.layouts import statistics_layout, word_layout
from rtl.stream import delay, flow

__all__ = ["Denominator", "RowSums"]


class RowSums(wiring.Component):
    """Sums numbers, squares and valid lanes of a row exactly; one beat a cycle.

    Latency ``3 + T`` cycles (``latency_of``) from a row's last beat, T being the stages of the adder trees; interval 1.
    The sums have the widths that the contract derives and cannot overflow for rows of up to ``unit.capacity`` numbers.

    Parameters
    ----------
    unit : NormUnit
        Lanes and widths.

    Members
    -------
    words : In(flow(word_layout))
        Beats.
    sums : Out(flow(statistics_layout))
        n, S and Q of each row; S is 0 for RMSNorm.
    """

    interval_cycles = 1

    def __init__(self, unit: NormUnit) -> None:
        self._unit = unit
        super().__init__({"words": In(flow(word_layout(unit))), "sums": Out(flow(statistics_layout(unit)))})

    @staticmethod
    def latency_of(unit: NormUnit) -> int:
        """Return the cycles from a row's last beat to its sums."""
        return 3 + tree_stages(unit.lanes)

    def elaborate(self, platform: Any) -> Any:
        """Build: masked numbers (1), squares (2), trees (T), running sums (1)."""
        m = Module()
        unit, word = self._unit, self.words.payload
        waited = 2 + tree_stages(unit.lanes)
        numbers, squares, lanes = [], [], []
        for lane in range(unit.lanes):
            number = Signal(word.number[lane].shape(), name=f"number_{lane}", reset_less=True)
            square = Signal(unsigned(2 * unit.input_format.width_bits - 1), name=f"square_{lane}", reset_less=True)
            m.d.sync += number.eq(Mux(word.keep[lane], word.number[lane], 0))
            m.d.sync += square.eq((number * number).as_unsigned()[: len(square)])
            numbers.append(delay(m, number, 1, name=f"number_{lane}").as_signed())
            squares.append(square)
            lanes.append(delay(m, word.keep[lane], 2, name=f"keep_{lane}"))

        valid = delay(m, self.words.valid, waited, name="valid", reset_less=False)
        last = delay(m, word.last, waited, name="last")
        first = Signal(init=1)
        with m.If(valid):
            m.d.sync += first.eq(last)
        sums = self.sums.payload
        for name, values in (("count", lanes), ("total", numbers), ("squares", squares)):
            if name == "total" and not unit.centred:
                m.d.comb += sums.total.eq(0)
                continue
            beat = self._tree(m, values, name)
            register = Signal(sums[name].shape(), name=f"sum_{name}", reset_less=True)
            with m.If(valid):
                m.d.sync += register.eq(Mux(first, 0, register) + beat)
            m.d.comb += sums[name].eq(register)
        m.d.comb += self.sums.valid.eq(delay(m, valid & last, 1, name="complete", reset_less=False))
        return m

    @staticmethod
    def _tree(m: Any, values: list[Any], name: str) -> Any:
        """Return the sum of the lanes after the stages of the tree."""
        stage, add = 0, _sum
        while len(values) > 1:
            stage += 1
            level = []
            for index, value in enumerate(reduce_pairs(values, add, levels=LEVELS_PER_STAGE)):
                register = Signal(value.shape(), name=f"{name}_{stage}_{index}", reset_less=True)
                m.d.sync += register.eq(value)
                level.append(register)
            values = level
        return values[0]


_sum: Callable[[Any, Any], Any] = lambda left, right: left + right  # noqa: E731 - an operation for reduce_pairs


class Denominator(wiring.Component):
    """Computes ``D = n * Q - S**2 + n**2 * epsilon_code`` exactly.

    Latency ``unit.denominator_cycles``, interval 1.

    Parameters
    ----------
    unit : NormUnit
        Widths and epsilon.

    Members
    -------
    sums : In(flow(statistics_layout))
        n, S and Q.
    value : Out(flow(unsigned(rsqrt.value_bits)))
        D.
    """

    interval_cycles = 1

    def __init__(self, unit: NormUnit) -> None:
        self._unit = unit
        super().__init__(
            {"sums": In(flow(statistics_layout(unit))), "value": Out(flow(unsigned(unit.rsqrt.value_bits)))}
        )

    @property
    def latency_cycles(self) -> int:
        """Cycles from a row's sums to D."""
        return self._unit.denominator_cycles

    def elaborate(self, platform: Any) -> Any:
        """Build: products, their difference (1), and epsilon times n^2 meanwhile; the sum (1)."""
        m = Module()
        unit, sums = self._unit, self.sums.payload
        bits, waited = unit.rsqrt.value_bits, unit.denominator_cycles - 2
        terms = [self._product(m, sums.count, sums.squares, waited, "product")]
        if unit.centred:
            terms.append(self._product(m, sums.total, sums.total, waited, "square"))
        difference, value = (Signal(bits, name=name, reset_less=True) for name in ("difference", "denominator"))
        m.d.sync += difference.eq((terms[0] - terms[1])[:bits] if unit.centred else terms[0][:bits])
        # n^2 is one product of at most 15 bits each; epsilon comes a cycle later than the other products begin.
        counted = self._product(m, sums.count, sums.count, 1, "counted")
        floor = self._product(m, counted, Const(unit.epsilon_code), waited, "floor")
        m.d.sync += value.eq((difference + floor)[:bits])
        m.d.comb += [
            self.value.payload.eq(value),
            self.value.valid.eq(delay(m, self.sums.valid, self.latency_cycles, name="valid", reset_less=False)),
        ]
        return m

    @staticmethod
    def _product(m: Any, left: Any, right: Any, cycles: int, name: str) -> Any:
        """Return a product ``cycles`` later; it waits in front of the multiplier, where it is narrower."""
        early = cycles - multiply_cycles(left, right)
        left = delay(m, left, early, name=f"{name}_left")
        if not isinstance(right, Const):
            right = delay(m, right, early, name=f"{name}_right")
        return multiply(m, left, right, name=name)
