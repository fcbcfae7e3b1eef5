"""The exact search for tables, against brute force where that is possible."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.numerics import Rounding
from accel.numerics.segments import Corridor, Field, SegmentTable, fit_segment, fixed_table, smallest_table

LOW = 24
"""Corridors of the brute-force test lie within this distance of 0."""


def value(c: tuple[int, ...], place: int, low_bits: int) -> int:
    """A table's value by its docstring, in plain integers."""
    slope = c[1] if len(c) == 2 else c[1] + math.floor(c[2] * place / 2**low_bits)
    return c[0] * 2**low_bits + slope * place


@pytest.fixture(scope="module")
def all_values() -> dict[int, np.ndarray]:
    """For degree 1 and 2 the values at the four places of a segment of every polynomial that stays within ``LOW``."""
    found = {}
    for degree, bends in ((1, range(1)), (2, range(-160, 161))):
        c0, c1, c2 = np.meshgrid(np.arange(-6, 7), np.arange(-100, 101), np.array(bends), indexing="ij")
        values = np.stack([4 * c0 + (c1 + np.floor(c2 * place / 4).astype(int)) * place for place in range(4)])
        flat = values.reshape(4, -1)
        found[degree] = np.unique(flat[:, (np.abs(flat) <= LOW).all(axis=0)], axis=1)
    return found


corridors = st.lists(st.tuples(st.integers(-LOW, LOW), st.integers(-LOW, LOW)).map(sorted), min_size=4, max_size=4).map(
    lambda ends: (np.array([low for low, _ in ends]), np.array([high for _, high in ends]))
)
narrow = st.tuples(st.lists(st.integers(-LOW + 3, LOW - 3), min_size=4, max_size=4), st.integers(0, 3)).map(
    lambda drawn: (np.array(drawn[0]) - drawn[1], np.array(drawn[0]) + drawn[1])
)


@given(st.one_of(corridors, narrow), st.sampled_from([1, 2]))
@settings(max_examples=400)
def test_a_segment_is_fitted_exactly_if_brute_force_finds_coefficients(
    all_values: dict[int, np.ndarray], ends: tuple[np.ndarray, np.ndarray], degree: int
) -> None:
    lower, upper = ends
    values = all_values[degree]
    possible = bool(((values >= lower[:, None]) & (values <= upper[:, None])).all(axis=0).any())
    found = fit_segment(lower, upper, low_bits=2, degree=degree)
    assert (found is not None) == possible
    if found is not None:
        assert all(lower[place] <= value(found, place, 2) <= upper[place] for place in range(4))


@given(
    st.integers(2, 9),
    st.tuples(*(st.integers(-2000, 2000),) * 3),
    st.integers(1, 2),
    st.integers(0, 2**32),
)
@settings(max_examples=150)
def test_a_corridor_round_a_polynomial_is_always_fitted(
    low_bits: int, coefficients: tuple[int, int, int], degree: int, seed: int
) -> None:
    planted = coefficients[: degree + 1]
    random = np.random.default_rng(seed)
    middle = np.array([value(planted, place, low_bits) for place in range(1 << low_bits)])
    slack = random.integers(0, 3 << low_bits, (2, len(middle)))
    lower, upper = middle - slack[0], middle + slack[1]
    found = fit_segment(lower, upper, low_bits=low_bits, degree=degree)
    assert found is not None
    assert all(lower[at] <= value(found, at, low_bits) <= upper[at] for at in range(len(middle)))


def decay(max_error: float, rounding: Rounding = Rounding.NEAREST_UP, sign: int = 1, codes: int = 128) -> Corridor:
    """The corridor of ``sign * e**-a`` on 4 fraction bits, rounded to 8, on top of a ramp."""
    ramp = np.arange(codes)
    exact = ramp / 16 + sign * np.exp(-ramp / 16)
    return Corridor(
        lowest=np.ceil((exact - max_error) * 256).astype(int),
        highest=np.floor((exact + max_error) * 256).astype(int),
        base=ramp,
        base_fraction_bits=4,
        fraction_bits=8,
        sign=sign,
        rounding=rounding,
    )


@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("max_error", [0.004, 0.0078, 0.03])
def test_a_found_table_keeps_the_error_and_one_step_outside_a_corridor_breaks_it(
    rounding: Rounding, sign: int, max_error: float
) -> None:
    corridor = decay(max_error, rounding, sign)
    table = smallest_table([[corridor]], degrees=(1, 2), fraction_bits=range(1, 13), whole=False)
    assert table is not None
    codes = np.arange(128)
    covered = table.segments << table.low_bits
    value_bits = table.value_fraction_bits

    def worst(values: np.ndarray) -> bool:
        """Whether all results are within the error, in real arithmetic."""
        total = codes * 2.0**-4 + sign * values * 2.0**-value_bits
        scaled = total * 256
        if rounding is Rounding.NEAREST_EVEN:
            rounded = np.rint(scaled)
        else:
            rounded = np.floor(scaled + (0.5 if rounding is Rounding.NEAREST_UP else 0))
        exact = codes / 16 + sign * np.exp(-codes / 16)
        return bool((np.abs(rounded / 256 - exact) <= max_error).all())

    values = np.where(codes < covered, table.evaluate(np.minimum(codes, covered - 1)), 0)
    assert worst(values)
    lower, upper = corridor.bounds(codes, value_bits)
    assert worst(lower)
    assert worst(upper)
    assert not worst(lower - 1)
    assert not worst(upper + 1)


@pytest.mark.parametrize("max_error", [0.0025, 0.004, 0.01])
def test_no_point_of_the_space_has_a_smaller_table(max_error: float) -> None:
    parts = [[decay(max_error)], [decay(max_error, codes=100)]]
    space = itertools.product((1, 2), range(2, 8), range(1, 12))
    tables = [
        fixed_table(parts, degree=degree, low_bits=low_bits, fraction_bits=bits) for degree, low_bits, bits in space
    ]
    smallest = smallest_table(parts, degrees=(1, 2), fraction_bits=range(1, 12), whole=False)
    assert smallest is not None
    assert smallest.rom_bits == min(table.rom_bits for table in tables if table is not None)


def test_an_error_below_the_rounding_has_no_table() -> None:
    assert smallest_table([[decay(0.001)]], degrees=(1, 2), fraction_bits=range(1, 12), whole=False) is None


@given(st.lists(st.integers(-300, 300), min_size=1))
def test_a_field_holds_all_its_values_and_is_as_narrow_as_it_can_be(values: list[int]) -> None:
    field = Field.of(values)
    low = -(1 << field.width_bits >> 1) if field.signed else field.offset
    high = low + (1 << field.width_bits) - 1
    assert low <= min(values) <= max(values) <= high
    if field.width_bits:
        half = 1 << field.width_bits >> 1
        narrower = range(-half // 2, half // 2) if field.signed else range(-half, 0) if field.offset else range(half)
        assert min(values) not in narrower or max(values) not in narrower


def test_the_ranges_of_a_table_are_those_of_its_values() -> None:
    table = SegmentTable(low_bits=3, fraction_bits=4, coefficients=((5, -3, 7), (-2, 4, -9)), parts=(2,))
    values = [value(table.coefficients[code >> 3], code & 7, 3) for code in range(16)]
    assert table.evaluate(np.arange(16)).tolist() == values
    assert table.value_range == (min(values), max(values))
    slopes = [c[1] + (c[2] * place >> 3) for c in table.coefficients for place in range(8)]
    assert table.slope_range == (min(slopes), max(slopes))
    assert table.rom_bits == 2 * sum(each.width_bits for each in table.fields) == 2 * (4 + 4 + 5)
