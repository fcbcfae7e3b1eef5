"""A plain reading of ``accel.softmax_rows`` and ``accel.softmax_unit`` in Python integers, one row at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from accel.numerics import LinearTable, Rounding
from accel.softmax_unit import SOFTMAX_ACTIONS, SoftmaxUnit

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


def rounded(unit: SoftmaxUnit, value: int, shift: int) -> int:
    """Return ``value / 2**shift`` by the rounding of the output format."""
    shift = min(shift, value.bit_length() + 2)  # leaves less than a quarter, as any larger shift does
    whole, rest, half = value >> shift, value & ((1 << shift) - 1), 1 << (shift - 1)
    up = {
        Rounding.TRUNCATE: False,
        Rounding.NEAREST_UP: rest >= half,
        Rounding.NEAREST_EVEN: rest > half or (rest == half and whole % 2 == 1),
    }[unit.output_format.rounding]
    return whole + up


def fitted(unit: SoftmaxUnit, code: int) -> int:
    """Return a rounded weight, at most 1 and in the range of the output format."""
    return min(code, 1 << unit.output_format.fraction_bits, unit.output_format.max_code)


@dataclass
class Softmax:
    """Runs rows through the unit's arithmetic and counts its actions."""

    unit: SoftmaxUnit
    actions: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SOFTMAX_ACTIONS, 0))

    def power(self, code: int) -> tuple[int, int]:
        """Return halvings h and mantissa w of a score (steps 1 to 3)."""
        unit, bits = self.unit, self.unit.mantissa_fraction_bits
        factor, fraction_bits = unit.scale
        shift = unit.input_format.fraction_bits + fraction_bits - bits
        scaled = half_up((unit.input_format.max_code - code) * factor, shift)
        return scaled >> bits, look_up(unit.exp2, scaled & ((1 << bits) - 1)) if bits else 1

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
            fewest = min([h for h, _ in valid] + ([] if top is None else [top]))
            if top is not None and fewest < top:
                count["rescale"] += 1
                total >>= top - fewest
            spare = unit.sum_fraction_bits - unit.mantissa_fraction_bits
            total += sum((w << spare) >> (h - fewest) for h, w in valid)
            top = fewest
        count["reciprocal"] += 1
        if top is None:
            return [[None] * unit.lanes for _ in beats]
        assert total < 1 << unit.sum_bits, "the sum is wide enough"
        bits = unit.reciprocal_fraction_bits
        exponent, y = reciprocal(total >> unit.sum_drop_bits, bits, unit.reciprocal)
        base = unit.mantissa_fraction_bits + bits - unit.output_format.fraction_bits
        base += exponent + unit.sum_drop_bits - unit.sum_fraction_bits
        quotients = [
            [None if power is None else (power[1] * y, base + power[0] - top) for power in beat] for beat in powers
        ]
        if unit.keep_row_sum:
            return self.carried(quotients, self.place_of_top(powers, top))
        return [
            [None if quotient is None else fitted(unit, rounded(unit, *quotient)) for quotient in beat]
            for beat in quotients
        ]

    def place_of_top(self, powers: Sequence[Sequence[tuple[int, int] | None]], fewest: int) -> tuple[int, int]:
        """Return beat and lane of the first score with the largest exponential."""
        found = [
            (-power[1], beat, lane)
            for beat, each in enumerate(powers)
            for lane, power in enumerate(each)
            if power is not None and power[0] == fewest
        ]
        return min(found)[1:]

    def carried(
        self, quotients: Sequence[Sequence[tuple[int, int] | None]], top: tuple[int, int]
    ) -> list[list[int | None]]:
        """Return the weights of a row, rounded with the rest that each lane carries."""
        unit, bits = self.unit, self.unit.residue_bits
        rest = [1 << (bits - 1)] * unit.lanes
        weights: list[list[int | None]] = []
        for beat, each in enumerate(quotients):
            weights.append([])
            for lane, quotient in enumerate(each):
                if quotient is None:
                    weights[-1].append(None)
                    continue
                value, shift = quotient
                fine = value << (bits - shift) if shift < bits else value >> (shift - bits)
                if (beat, lane) == top:
                    code = (fine + (1 << bits) - 1) >> bits
                else:
                    code, rest[lane] = divmod(fine + rest[lane], 1 << bits)
                weights[-1].append(fitted(unit, code))
        return weights

    def rows(self, rows: Sequence[Row]) -> list[list[list[int | None]]]:
        """Return the weights of all rows."""
        return [self.row(row) for row in rows]
