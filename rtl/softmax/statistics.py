"""What a row is divided by: the sum of its exponentials and its reciprocal (steps 4 and 5 of the contract)."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from accel.softmax_unit import SoftmaxUnit
from rtl.reciprocal import Reciprocal
from rtl.softmax.layouts import powers_layout, row_layout, shift_offset, totals_layout
from rtl.softmax.online import OnlineSum
from rtl.stream import delay, flow

__all__ = ["RowReciprocal", "SumReciprocal"]


class RowReciprocal(wiring.Component):
    """Turns the totals of a row into what its weights need.

    Latency ``latency_cycles_of(unit)``, interval 1. Error: ``unit.reciprocal_error``.

    Parameters
    ----------
    unit : SoftmaxUnit
        Widths and table.

    Members
    -------
    totals : In(flow(totals_layout))
        Fewest halvings, sum, place of the largest term.
    rows : Out(flow(row_layout))
        Reciprocal, shift, the same place.
    """

    interval_cycles = 1

    def __init__(self, unit: SoftmaxUnit) -> None:
        self._unit = unit
        super().__init__({"totals": In(flow(totals_layout(unit))), "rows": Out(flow(row_layout(unit)))})

    @staticmethod
    def latency_cycles_of(unit: SoftmaxUnit) -> int:
        """Return the cycles from a row's totals to its entry, without building anything."""
        return Reciprocal.latency_cycles_of(unit.search_cycles)

    def elaborate(self, platform: Any) -> Any:
        """Connect the reciprocal; add up the shift beside it."""
        m = Module()
        unit, totals, row = self._unit, self.totals.payload, self.rows.payload
        m.submodules.reciprocal = reciprocal = Reciprocal(
            value_bits=unit.sum_bits - unit.sum_drop_bits,
            fraction_bits=unit.reciprocal_fraction_bits,
            guess=unit.reciprocal,
            search_cycles=unit.search_cycles,
        )
        # The offset is folded into the delayed number, so that one addition remains beside the reciprocal's result.
        start = Signal(row.shift.shape(), name="shift_start", reset_less=True)
        m.d.sync += start.eq(Const(shift_offset(unit)) - totals.fewest)
        waited = delay(m, start, self.latency_cycles_of(unit) - 1, name="shift_delayed")
        m.d.comb += [
            reciprocal.value.payload.eq(totals.sum[unit.sum_drop_bits :]),
            reciprocal.value.valid.eq(self.totals.valid),
            row.reciprocal.eq(reciprocal.result.payload.mantissa),
            row.shift.eq(waited + Cat(reciprocal.result.payload.exponent, 0)),
            self.rows.valid.eq(reciprocal.result.valid),
        ]
        if unit.keep_row_sum:
            m.d.comb += Value.cast(row.top).eq(delay(m, totals.top, self.latency_cycles_of(unit), name="top"))
        return m


class SumReciprocal(wiring.Component):
    """Sums the exponentials of a row and takes the reciprocal.

    Latency ``latency_cycles_of(unit)``, interval 1. Error: ``unit.sum_error``.

    Parameters
    ----------
    unit : SoftmaxUnit
        Widths, lanes, table.

    Members
    -------
    powers : In(flow(powers_layout))
        Exponentials.
    rows : Out(flow(row_layout))
        One for each row.
    compared, added, rescaled : Out
        As those of ``OnlineSum``.
    """

    interval_cycles = 1

    def __init__(self, unit: SoftmaxUnit) -> None:
        self._unit = unit
        super().__init__(
            {
                "powers": In(flow(powers_layout(unit))),
                "rows": Out(flow(row_layout(unit))),
                "compared": Out(unit.lanes),
                "added": Out(unit.lanes),
                "rescaled": Out(1),
            }
        )

    @staticmethod
    def latency_cycles_of(unit: SoftmaxUnit) -> int:
        """Return the cycles from a row's last beat to its entry, without building anything."""
        return OnlineSum.latency_cycles_of(unit) + RowReciprocal.latency_cycles_of(unit)

    def elaborate(self, platform: Any) -> Any:
        """Connect the two."""
        m = Module()
        m.submodules.online = online = OnlineSum(self._unit, find_top=self._unit.keep_row_sum)
        m.submodules.reciprocal = reciprocal = RowReciprocal(self._unit)
        wiring.connect(m, wiring.flipped(self.powers), online.powers)
        wiring.connect(m, online.totals, reciprocal.totals)
        wiring.connect(m, reciprocal.rows, wiring.flipped(self.rows))
        for name in ("compared", "added", "rescaled"):
            m.d.comb += getattr(self, name).eq(getattr(online, name))
        return m
