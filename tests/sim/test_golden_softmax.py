"""The golden softmax against real arithmetic, and its cycle law against a queue simulated step by step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.errors import InputError
from accel.numerics import FixedPoint, Overflow, Rounding
from accel.softmax_unit import SOFTMAX_ACTIONS, SoftmaxUnit
from sim.accuracy import measure_accuracy
from sim.golden import softmax as golden
from sim.golden import softmax_steps as steps


def unit(max_length: int = 256, lanes: int = 1, fraction_bits: int = 16, **changes: object) -> SoftmaxUnit:
    """A softmax unit with 16-bit scores and ``fraction_bits`` of output."""
    settings: dict[str, object] = {
        "max_length": max_length,
        "lanes": lanes,
        "input_format": FixedPoint.parse("s16f10,nearest_even,saturate"),
        "output_format": FixedPoint.parse(f"u{fraction_bits}f{fraction_bits},nearest_up,saturate"),
    }
    return SoftmaxUnit(**(settings | changes))  # type: ignore[arg-type]


def error_of(one: SoftmaxUnit, codes: np.ndarray) -> float:
    """Largest distance from the exact softmax of the coded scores."""
    got = one.output_format.to_real(golden.softmax(one, [codes]).weights[0])
    return float(np.abs(got - golden.exact_softmax(one.input_format.to_real(codes))).max())


@pytest.mark.parametrize("deviation", [0.5, 1.0, 2.0, 4.0, 8.0])
@pytest.mark.parametrize("length", [1, 2, 31, 256, 1024])
def test_random_rows_stay_within_the_stated_bound(deviation: float, length: int) -> None:
    one = unit(max_length=length)
    random = np.random.default_rng(length)
    for _ in range(8):
        codes = one.input_format.quantize(random.normal(0, deviation, length))
        assert error_of(one, codes) <= one.max_error


def test_sixteen_bit_weights_are_within_5e_5_of_the_exact_softmax() -> None:
    one = unit(max_length=1024)
    codes = one.input_format.quantize(np.random.default_rng(0).normal(0, 3, (64, 1024)))
    assert max(error_of(one, row) for row in codes) < one.max_error < 5e-5


@st.composite
def units_and_rows(draw: st.DrawFn) -> tuple[SoftmaxUnit, np.ndarray]:
    """Any small unit with any legal row for it."""
    width, signed = draw(st.integers(2, 20)), draw(st.booleans())
    source = FixedPoint(
        signed=signed,
        width_bits=width,
        fraction_bits=draw(st.integers(-2, 14)),
        rounding=Rounding.NEAREST_EVEN,
        overflow=Overflow.SATURATE,
    )
    fraction = draw(st.integers(4, 20))
    target = FixedPoint(
        signed=False,
        width_bits=fraction + draw(st.integers(0, 1)),
        fraction_bits=fraction,
        rounding=draw(st.sampled_from(Rounding)),
        overflow=Overflow.SATURATE,
    )
    length = draw(st.integers(1, 40))
    one = SoftmaxUnit(
        max_length=draw(st.integers(length, 48)),
        lanes=draw(st.integers(1, 5)),
        input_format=source,
        output_format=target,
        exp_segments=1 << draw(st.integers(0, min(6, fraction))),
        keep_row_sum=draw(st.booleans()),
    )
    codes = st.integers(source.min_code, source.max_code)
    return one, np.array(draw(st.lists(codes, min_size=length, max_size=length)), np.int64)


@given(units_and_rows())
@settings(max_examples=300)
def test_the_error_bound_holds_for_any_unit_and_any_row(case: tuple[SoftmaxUnit, np.ndarray]) -> None:
    one, codes = case
    assert error_of(one, codes) <= one.max_error
    weights = golden.softmax(one, [codes]).weights[0]
    assert abs(one.output_format.to_real(weights).sum() - 1) <= one.row_sum_error
    mantissa, halvings = steps.exponentials(one, codes)
    largest = np.where(halvings == halvings.min(), mantissa, -1).argmax()
    assert weights[largest] == weights.max()


@given(units_and_rows())
@settings(max_examples=100)
def test_the_declared_widths_hold_every_intermediate_value(case: tuple[SoftmaxUnit, np.ndarray]) -> None:
    one, codes = case
    mantissa, halvings = steps.exponentials(one, codes)
    fewest, total, _ = steps.accumulate(one, mantissa, halvings)
    assert 0 < mantissa.min() <= mantissa.max() <= 1 << one.mantissa_fraction_bits
    assert 0 <= fewest == halvings.min() <= halvings.max() <= one.max_halvings
    assert 1 << (one.sum_fraction_bits - one.sum_head_bits) <= total <= one.max_length << one.sum_fraction_bits
    assert total.bit_length() <= one.sum_bits
    inverse, _ = steps.reciprocal(one, total)
    assert inverse <= 1 << one.reciprocal_fraction_bits


@pytest.mark.parametrize("length", [512, 1000, 1024, 4096])
def test_equal_scores_share_the_weight_equally(length: int) -> None:
    plain, kept = (unit(max_length=length, keep_row_sum=keep) for keep in (False, True))
    for code in (plain.input_format.min_code, -1, 0, plain.input_format.max_code):
        row = [np.full(length, code)]
        assert set(golden.softmax(plain, row).weights[0].tolist()) == {round(2**16 / length)}
        weights = golden.softmax(kept, row).weights[0]
        assert weights.max() - weights.min() <= 1
        assert abs(weights.sum() - 2**16) <= 4


@pytest.mark.parametrize("deviation", [1.0, 2.0, 4.0])
def test_the_default_keeps_rows_of_1024_within_a_4096th_of_1_and_their_largest_score(deviation: float) -> None:
    one = unit(max_length=1024)
    assert one.max_error < 5e-5
    assert one.row_sum_error < 2.0**-12
    scores = np.random.default_rng(int(deviation)).normal(0, deviation, (250, 1024))
    codes = one.input_format.quantize(scores)
    weights = golden.softmax(one, list(codes)).weights
    found = measure_accuracy(scores, codes, weights, one.input_format, one.output_format)
    assert found.max_error < one.max_error
    assert found.row_sum_error < one.row_sum_error
    assert found.argmax_agreement == 1.0
    plain = replace(one, keep_row_sum=False)
    alone = golden.softmax(plain, list(codes)).weights
    loose = measure_accuracy(scores, codes, alone, one.input_format, one.output_format)
    assert loose.row_sum_error > 3 * found.row_sum_error


def test_one_huge_score_takes_all() -> None:
    one = unit()
    codes = np.full(256, one.input_format.min_code)
    codes[100] = one.input_format.max_code
    weights = golden.softmax(one, [codes]).weights[0]
    assert weights[100] == one.output_format.max_code
    assert weights.sum() == weights[100]


def test_a_row_of_length_one_has_weight_one() -> None:
    one = unit(output_format=FixedPoint.parse("u17f16,nearest_up,saturate"))
    for code in (one.input_format.min_code, 0, 12345, one.input_format.max_code):
        assert golden.softmax(one, [np.array([code])]).weights[0].tolist() == [2**16]


def test_rising_scores_rescale_once_for_each_beat_that_raises_the_maximum() -> None:
    one = unit(lanes=2)
    codes = one.input_format.quantize(np.array([0.0, 0.0, 1.0, 0.5, 1.0, 0.0, 9.0, 2.0, 9.0]))
    actions = golden.softmax(one, [codes, codes]).actions
    assert actions == {
        "exp": 18,
        "max": 18,
        "add": 18,
        "rescale": 4,
        "reciprocal": 2,
        "multiply": 18,
        "buffer_write": 10,
        "buffer_read": 10,
    }
    assert set(actions) == set(SOFTMAX_ACTIONS)


def test_a_broken_table_is_caught_by_the_error_bound() -> None:
    one = unit()
    table = one.exp2
    one.__dict__["exp2"] = replace(
        table, base=tuple(value - value // 64 * (index % 2) for index, value in enumerate(table.base))
    )
    codes = one.input_format.quantize(np.random.default_rng(0).normal(0, 3, 256))
    assert error_of(one, codes) > one.max_error


@given(st.lists(st.integers(1, 12), min_size=1, max_size=20), st.integers(1, 4), st.integers(1, 30))
def test_the_cycle_law_is_that_of_a_pipe_and_a_queue(lengths: list[int], lanes: int, latency: int) -> None:
    """Step by step: a beat enters each cycle; a row may leave ``latency`` after its last beat, one beat a cycle."""
    one = unit(max_length=12, lanes=lanes)
    beats = [-(-length // lanes) for length in lengths]
    entered, cycle, waiting, out = 0, 0, [], []
    ends = np.cumsum(beats).tolist()
    while len(out) < sum(beats):
        if entered < sum(beats):
            entered += 1
            if entered in ends:
                waiting.append((cycle + latency, beats[ends.index(entered)]))
        if waiting and waiting[0][0] <= cycle:
            out.append(cycle)
            ready, left = waiting[0]
            waiting = ([(ready, left - 1)] if left > 1 else []) + waiting[1:]
        cycle += 1
    times = golden.row_times(one, lengths, latency)
    assert [c for a, b in zip(times.first_out, times.last_out, strict=True) for c in range(a, b + 1)] == out
    assert times.total_cycles == out[-1] + 1


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        ([], "row 0 must have 1 to 4 scores, not 0; raise max_length"),
        ([0] * 5, "row 0 must have 1 to 4 scores, not 5; raise max_length"),
        (
            [0, 40000],
            "row 0 must have codes from -32768 to 32767, not 0 to 40000; quantize the scores by the input format",
        ),
    ],
)
def test_an_illegal_row_is_refused(codes: list[int], message: str) -> None:
    with pytest.raises(InputError) as caught:
        golden.softmax(unit(max_length=4), [np.array(codes, np.int64)])
    assert str(caught.value) == message
