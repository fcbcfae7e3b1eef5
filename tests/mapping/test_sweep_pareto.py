"""Pareto fronts against their definition."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mapping.pareto import pareto_front


def by_definition(rows: list[tuple[int, ...]]) -> list[bool]:
    def dominates(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
        return all(a <= b for a, b in zip(one, other, strict=True)) and one != other

    return [not any(dominates(other, row) for other in rows) and row not in rows[:at] for at, row in enumerate(rows)]


@given(st.integers(1, 4).flatmap(lambda width: st.lists(st.tuples(*[st.integers(0, 5)] * width), min_size=1)))
def test_a_front_is_what_nothing_dominates_and_of_equals_the_first(rows: list[tuple[int, ...]]) -> None:
    assert pareto_front(rows).tolist() == by_definition(rows)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), min_size=1), st.randoms())
def test_the_order_of_the_rows_changes_nothing(rows: list[tuple[int, ...]], chance: object) -> None:
    shuffled = list(rows)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = pareto_front(rows), pareto_front(shuffled)
    assert {rows[at] for at in np.flatnonzero(one)} == {shuffled[at] for at in np.flatnonzero(other)}


def test_a_front_of_no_designs_is_empty() -> None:
    assert pareto_front(np.empty((0, 3))).tolist() == []


def test_ten_thousand_designs_take_no_time() -> None:
    values = np.random.default_rng(1).random((10_000, 3))
    marks = pareto_front(values)
    front = values[marks]
    for row in values[~marks][::97]:
        assert np.any(np.all(front <= row, axis=1))
    for row in front[::7]:
        assert np.sum(np.all(front <= row, axis=1)) == 1
