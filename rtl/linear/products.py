"""The products of one output, summed."""

from __future__ import annotations

from typing import Any

from amaranth import Module, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from accel.linear_unit import LinearUnit
from rtl.arith import LEVELS_PER_STAGE, reduce_pairs

__all__ = ["Products"]


class Products(wiring.Component):
    """Multiplies T features by T weights and sums the products exactly.

    Latency ``1 + unit.tree_stages`` cycles, interval 1. All outputs have the same module.

    Parameters
    ----------
    unit : LinearUnit
        Tile and formats.

    Members
    -------
    features : In(T features), weights : In(T weights side by side)
        Operands.
    total : Out(signed)
        The sum.
    """

    interval_cycles = 1

    def __init__(self, unit: LinearUnit) -> None:
        self._unit = unit
        product = unit.feature_format.width_bits + unit.weight_format.width_bits
        super().__init__(
            {
                "features": In(data.ArrayLayout(signed(unit.feature_format.width_bits), unit.tile)),
                "weights": In(unsigned(unit.tile * unit.weight_format.width_bits)),
                "total": Out(signed(product + (unit.tile - 1).bit_length())),
            }
        )

    @property
    def latency_cycles(self) -> int:
        """Cycles from operands to their sum."""
        return 1 + self._unit.tree_stages

    def elaborate(self, platform: Any) -> Any:
        """Build products (1) and the tree."""
        m = Module()
        bits = self._unit.weight_format.width_bits
        terms: list[Any] = []
        for lane in range(self._unit.tile):
            weight = self.weights[lane * bits : (lane + 1) * bits].as_signed()
            feature = self.features[lane]
            product = Signal((feature * weight).shape(), name=f"product_{lane}", reset_less=True)
            m.d.sync += product.eq(feature * weight)
            terms.append(product)
        for stage in range(self._unit.tree_stages):
            registers = []
            for index, value in enumerate(reduce_pairs(terms, lambda a, b: a + b, levels=LEVELS_PER_STAGE)):
                registers.append(Signal(value.shape(), name=f"sum_{stage}_{index}", reset_less=True))
                m.d.sync += registers[-1].eq(value)
            terms = registers
        m.d.comb += self.total.eq(Value.cast(terms[0]))
        return m
