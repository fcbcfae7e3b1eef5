import math
from fractions import Fraction

import numpy as np
import pytest

from accel.numerics import LinearTable, exp2_table, reciprocal_table


def evaluate(table: LinearTable) -> np.ndarray:
    """Return the results of all arguments, as the docstring of ``LinearTable`` defines them."""
    codes = np.arange(1 << table.argument_bits, dtype=np.int64)
    index, low = codes >> table.low_bits, codes & ((1 << table.low_bits) - 1)
    base, drop = np.array(table.base, np.int64), np.array(table.drop, np.int64)
    shift = table.low_bits + table.guard_bits
    return ((base[index] << table.low_bits) - drop[index] * low + (1 << (shift - 1))) >> shift


def worst_error(table: LinearTable, function) -> float:
    """Return the largest distance to ``function`` over all arguments."""
    arguments = np.arange(1 << table.argument_bits) / 2.0**table.argument_bits
    return float(np.abs(evaluate(table) / 2.0**table.result_fraction_bits - function(arguments)).max())


CASES = [
    (segments, bits, result, guard)
    for bits in (4, 9, 14, 17)
    for segments in (1, 2, 8, 64, 512)
    for result, guard in ((bits, 2), (bits + 3, 0), (max(bits - 3, 2), 1))
    if segments < 1 << bits
]


@pytest.mark.parametrize(("segments", "bits", "result", "guard"), CASES)
def test_every_argument_is_within_the_stated_bound(segments, bits, result, guard):
    sizes = {"segments": segments, "argument_bits": bits, "result_fraction_bits": result, "guard_bits": guard}
    for table, function in (
        (exp2_table(**sizes), lambda u: 2.0**-u),
        (reciprocal_table(**sizes), lambda u: 1.0 / (1.0 + u)),
    ):
        worst = worst_error(table, function)
        assert worst <= table.max_error
        assert table.max_error <= 6 * worst, "the bound is of use"


@pytest.mark.parametrize("make", [exp2_table, reciprocal_table])
def test_results_fall_from_1_to_about_a_half_and_never_pass_1(make):
    table = make(segments=64, argument_bits=12, result_fraction_bits=12, guard_bits=2)
    results = evaluate(table)
    assert results[0] == 1 << 12
    assert (np.diff(results) <= 0).all()
    assert results[-1] == pytest.approx(1 << 11, abs=2)


def test_reciprocal_entries_match_exact_fractions():
    table = reciprocal_table(segments=16, argument_bits=10, result_fraction_bits=12, guard_bits=3)
    scale = 1 << 15
    for index in range(16):
        left, middle, right = (1 / (1 + Fraction(2 * index + step, 32)) for step in (0, 1, 2))
        assert table.drop[index] == round((left - right) * scale)
        assert table.base[index] == round((left - ((left + right) / 2 - middle) / 2) * scale)


def test_a_table_with_one_wrong_entry_breaks_its_bound():
    good = exp2_table(segments=64, argument_bits=12, result_fraction_bits=17, guard_bits=2)
    base = list(good.base)
    base[40] += round(4 * good.max_error * 2**19)
    bad = LinearTable(
        argument_bits=12,
        result_fraction_bits=17,
        guard_bits=2,
        base=tuple(base),
        drop=good.drop,
        max_error=good.max_error,
    )
    assert worst_error(good, lambda u: 2.0**-u) <= good.max_error < worst_error(bad, lambda u: 2.0**-u)


def test_derived_widths_hold_every_entry():
    table = exp2_table(segments=64, argument_bits=17, result_fraction_bits=17, guard_bits=2)
    assert max(table.base) < 1 << table.base_bits
    assert max(table.drop) < 1 << table.drop_bits
    assert table.rom_bits == 64 * (table.base_bits + table.drop_bits)
    assert table.segments << table.low_bits == 1 << 17


def test_four_times_the_segments_cut_the_error_by_sixteen_until_rounding_rules():
    errors = [
        exp2_table(segments=n, argument_bits=20, result_fraction_bits=40, guard_bits=2).max_error for n in (4, 16, 64)
    ]
    assert errors[0] / errors[1] == pytest.approx(16, rel=0.2)
    assert errors[1] / errors[2] == pytest.approx(16, rel=0.2)
    assert errors[2] == pytest.approx((math.log(2) / 64) ** 2 / 16, rel=0.02)
