"""The reordered schedule by its properties, and the unit's derived widths by the worst that can happen."""

from __future__ import annotations

import dataclasses
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.numerics import FixedPoint
from accel.reordered_cycles import job_times
from accel.reordered_schedule import AttentionJob, ReorderedSchedule, reordered_iterations
from accel.reordered_unit import REORDERED_ACTIONS, ReorderedUnit

TENSOR = FixedPoint.parse("s8f4,nearest_even,saturate")
UNIT = ReorderedUnit(
    max_length=32,
    key_features=8,
    value_features=4,
    slots=4,
    block=2,
    query_format=TENSOR,
    key_format=TENSOR,
    value_format=TENSOR,
    output_format=TENSOR,
)

plain = st.builds(AttentionJob, queries=st.integers(1, 20), keys=st.integers(1, 20))
masked = st.builds(
    AttentionJob,
    queries=st.integers(1, 20),
    keys=st.integers(1, 20),
    causal=st.just(True),
    offset=st.integers(0, 25),
)
orders = st.builds(ReorderedSchedule, slots=st.integers(1, 9), job=plain | masked)


@pytest.mark.parametrize(
    ("length", "slots", "iterations"),
    [
        (128, 4, 4099),
        (129, 4, 4257),
        (129, 8, 2193),
        (129, 16, 1161),
        (129, 3, 5549),
        (197, 4, 9850),
        (197, 16, 2565),
        (4, 4, 7),
        (3, 8, 5),
        (1, 4, 1),
    ],
)
def test_the_iterations_are_those_of_the_published_schedule(length: int, slots: int, iterations: int) -> None:
    assert reordered_iterations(length, slots) == iterations
    assert ReorderedSchedule(slots=slots, job=AttentionJob(queries=length, keys=length)).iterations == iterations


@given(length=st.integers(1, 400), slots=st.integers(1, 40))
def test_it_is_the_papers_figure_exactly_if_the_slots_divide_the_length(length: int, slots: int) -> None:
    exact = reordered_iterations(length, slots) * slots == length**2 + (slots - 1) * slots
    assert exact == (length % slots == 0)


@settings(max_examples=300)
@given(order=orders)
def test_every_pair_that_counts_meets_once_and_rows_are_loaded_and_finished_one_by_one(
    order: ReorderedSchedule,
) -> None:
    job = order.job
    steps = list(order.walk())
    met = Counter((visit.query, visit.key) for step in steps for visit in step)
    counting = {(query, key) for query in range(job.queries) for key in range(job.keys) if job.sees(query, key)}
    assert max(met.values()) == 1
    assert counting <= met.keys()
    assert {(visit.query, visit.key) for step in steps for visit in step if visit.live} == counting
    loads = [[visit.query for visit in step if visit.first] for step in steps]
    ends = [[visit.query for visit in step if visit.last] for step in steps]
    for events in (loads, ends):
        assert max(map(len, events)) == 1
        assert [query for step in events for query in step] == list(range(job.queries))
    for step in steps:
        assert len({visit.key for visit in step}) == 1, "one key for all slots"
        assert len({visit.slot for visit in step}) == len(step) <= order.slots
        assert all(visit.live for visit in step if visit.first)
    for earlier, later in pairwise(steps):
        assert later[0].key in (earlier[0].key + 1, 0), "keys pass in their order"


@settings(max_examples=300)
@given(order=orders)
def test_the_closed_forms_are_those_of_the_walk(order: ReorderedSchedule) -> None:
    steps = list(order.walk())
    assert order.iterations == len(steps)
    visits = [(index, visit) for index, step in enumerate(steps) for visit in step]
    assert order.job.live_pairs == sum(visit.live for _, visit in visits)
    assert order.blind_ends == sum(visit.last and not visit.live for _, visit in visits)
    assert order.utilisation == order.job.live_pairs / (len(steps) * order.slots)
    for query in range(order.job.queries):
        mine = [(index, visit) for index, visit in visits if visit.query == query]
        assert (order.row_start(query), order.row_end(query)) == (mine[0][0], mine[-1][0])
        assert order.keys_of(query) == tuple(visit.key for _, visit in mine)


@settings(max_examples=100)
@given(job=plain | masked)
def test_the_actions_are_counted_as_their_definitions_say(job: AttentionJob) -> None:
    job = dataclasses.replace(job, offset=min(job.offset, 20))
    counts = UNIT.actions(job, rescales=3)
    assert counts.keys() == REORDERED_ACTIONS.keys()
    steps = list(ReorderedSchedule(slots=UNIT.slots, job=job).walk())
    visits = [visit for step in steps for visit in step]
    live = [visit for visit in visits if visit.live]
    for name in ("exp", "max", "add"):
        assert counts[name] == len(live)
    assert counts["mac_qk"] == 8 * len(live)
    assert counts["mac_av"] == 4 * len(live)
    assert (counts["rescale"], counts["rescale_av"]) == (3, 12)
    assert counts["query_read"] == 4 * sum(not visit.first for visit in live)
    assert counts["accumulator_write"] == 2 * sum(not visit.last for visit in live)
    assert counts["accumulator_read"] == 2 * sum(not v.first and (v.live or v.last) for v in visits)
    assert (counts["key_read"], counts["value_read"]) == (4 * len(steps), 2 * len(steps))


def test_one_block_of_keys_and_one_of_values_is_read_in_a_cycle_whatever_the_slots_are() -> None:
    job = AttentionJob(queries=32, keys=32)
    for slots in (1, 4, 16):
        unit = dataclasses.replace(UNIT, slots=slots, value_features=8)
        counts, compute = unit.actions(job, rescales=0), job_times(unit, [job])[0].compute_cycles
        assert counts["key_read"] == counts["value_read"] == compute


def test_two_banks_hide_the_loading_of_the_next_head_and_one_does_not() -> None:
    jobs = [AttentionJob(queries=32, keys=32)] * 3
    two, one = (job_times(dataclasses.replace(UNIT, banks=banks), jobs) for banks in (2, 1))
    gaps = [b.first_read_cycle - a.last_read_cycle for a, b in pairwise(two)]
    assert gaps == [2, 2]
    load = 32 * UNIT.key_blocks
    assert all(b.first_read_cycle - a.last_read_cycle > load for a, b in pairwise(one))


def test_scores_and_outputs_at_the_ends_of_their_formats_fit_their_widths() -> None:
    low, high = UNIT.score_range
    assert (low, high) == (8 * -128 * 127, 8 * 128 * 128)
    assert -(1 << (UNIT.score_bits - 1)) <= low < high < 1 << (UNIT.score_bits - 1)
    most = UNIT.max_length << UNIT.sum_fraction_bits
    assert most < 1 << UNIT.sum_bits
    assert -(1 << (UNIT.accumulator_bits - 1)) <= -128 * most
    assert 127 * most < 1 << (UNIT.accumulator_bits - 1)


def test_the_bound_shrinks_with_more_bits_and_promises_nothing_where_the_sum_is_too_coarse() -> None:
    wide = FixedPoint.parse("s16f12,nearest_even,saturate")
    bounds = [
        dataclasses.replace(UNIT, value_format=wide, output_format=wide, weight_fraction_bits=bits).max_error
        for bits in (8, 12, 16, 20)
    ]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] < 2 * wide.resolution
    coarse = dataclasses.replace(UNIT, max_length=4096, weight_fraction_bits=6, guard_bits=1, exp_segments=1)
    assert coarse.weight_error == 1.0
    assert coarse.max_error == TENSOR.max_value - TENSOR.min_value
