"""A plain reading of the contract page ``accel.softmax_unit`` in Python integers, one row at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from accel.numerics import LinearTable, Overflow, Rounding
from accel.softmax_unit import LOG2E, LOG2E_FRACTION_BITS, SOFTMAX_ACTIONS, SoftmaxUnit

Row = Sequence[Sequence[int | None]]
"""Beats of lanes; None is a lane without a score."""


def half_up(value: int, shift: int) -> int:
    """Return ``value / 2**shift`` rounded half up."""
    return value << -shift if shift <= 0 else (value + (1 << (shift - 1))) >> shift


def look_up(table: LinearTable, argument: int) -> int:
    """Return the table's result, as its docstring defines it."""
    index, low = argument >> table.low_bits, argument & ((1 << table.low_bits) - 1)
    return half_up((table.base[index] << table.low_bits) - table.drop[index] * low, table.low_bits + table.guard_bits)


def reciprocal(total: int, bits: int, table: LinearTable) -> tuple[int, int]:
    """Return exponent and mantissa of ``1 / total`` (step 5)."""
    exponent = total.bit_length() - 1
    mantissa = min(half_up(total, exponent - bits), (1 << (bits + 1)) - 1)
    guess_bits = table.result_fraction_bits
    guess = look_up(table, mantissa - (1 << bits))
    correction = ((1 << (bits + guess_bits + 1)) - mantissa * guess) >> guess_bits
    return exponent, half_up(guess * correction, guess_bits)


def output_code(unit: SoftmaxUnit, value: int, shift: int) -> int:
    """Return ``value / 2**shift`` in the output format (step 6)."""
    target = unit.output_format
    shift = min(shift, value.bit_length() + 2)  # leaves less than a quarter, as any larger shift does
    whole, rest, half = value >> shift, value & ((1 << shift) - 1), 1 << (shift - 1)
    up = {
        Rounding.TRUNCATE: False,
        Rounding.NEAREST_UP: rest >= half,
        Rounding.NEAREST_EVEN: rest > half or (rest == half and whole % 2 == 1),
    }[target.rounding]
    code = whole + up
    if target.overflow is Overflow.SATURATE:
        return min(code, target.max_code)
    assert code <= target.max_code, "the contract promises that nothing overflows"
    return code


@dataclass
class Softmax:
    """Runs rows through the unit's arithmetic and counts its actions."""

    unit: SoftmaxUnit
    actions: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SOFTMAX_ACTIONS, 0))

    def power(self, code: int) -> tuple[int, int]:
        """Return exponent n and mantissa w of a score (steps 1 to 3)."""
        bits = self.unit.mantissa_fraction_bits
        scaled = half_up(code * LOG2E, self.unit.input_format.fraction_bits + LOG2E_FRACTION_BITS - bits)
        exponent = -(-scaled >> bits)
        return exponent, look_up(self.unit.exp2, (exponent << bits) - scaled)

    def row(self, beats: Row) -> list[list[int | None]]:
        """Return the weights of a row, None where there was no score."""
        unit, count = self.unit, self.actions
        powers = [[None if code is None else self.power(code) for code in beat] for beat in beats]
        top: int | None = None
        total = 0
        for beat in powers:
            valid = [power for power in beat if power is not None]
            for name in ("exp", "max", "add", "multiply"):
                count[name] += len(valid)
            count["buffer_write"] += 1
            count["buffer_read"] += 1
            if not valid:
                continue
            new_top = max([n for n, _ in valid] + ([] if top is None else [top]))
            if top is not None and new_top > top:
                count["rescale"] += 1
                total >>= new_top - top
            spare = unit.sum_fraction_bits - unit.mantissa_fraction_bits
            total += sum((w << spare) >> (new_top - n) for n, w in valid)
            top = new_top
        count["reciprocal"] += 1
        if top is None:
            return [[None] * unit.lanes for _ in beats]
        assert total < 1 << unit.sum_bits, "the sum is wide enough"
        bits = unit.reciprocal_fraction_bits
        exponent, mantissa = reciprocal(total, bits, unit.reciprocal)
        base = unit.mantissa_fraction_bits + bits - unit.output_format.fraction_bits + exponent - unit.sum_fraction_bits
        return [
            [None if power is None else output_code(unit, power[1] * mantissa, base + top - power[0]) for power in beat]
            for beat in powers
        ]

    def rows(self, rows: Sequence[Row]) -> list[list[list[int | None]]]:
        """Return the weights of all rows."""
        return [self.row(row) for row in rows]
