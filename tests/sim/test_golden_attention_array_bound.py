"""The error bound of the spatial array for given inputs: above what the golden model shows, below the general one."""

from __future__ import annotations

import numpy as np
import pytest

from accel.attention_array import AttentionArray, Job
from sim.golden.attention_array import attention, exact_attention, input_error_bound
from tests.sim.array_designs import FORMATS, design, inputs, random_job


@pytest.fixture(scope="module", params=[(15, FORMATS[0]), (8, FORMATS[2])], ids=["16 bits", "12 bits"])
def unit(request: pytest.FixtureRequest) -> AttentionArray:
    bits, element = request.param
    return design(
        shape=(2, 2), dims=(4, 3), max_length=300, tiles=(2, 2, 2), weight_fraction_bits=bits, element=element
    ).unit


def _error(unit: AttentionArray, given: tuple[np.ndarray, ...], causal: bool) -> float:
    found = unit.output_format.to_real(attention(unit, *given, causal=causal))
    return float(np.abs(found - exact_attention(unit, *given, causal=causal)).max())


def test_it_holds_for_random_inputs_and_is_no_larger_than_the_general_one(unit: AttentionArray) -> None:
    source = np.random.default_rng(5)
    for _ in range(12):
        job = random_job(unit, source)
        given = inputs(unit, job, source)
        bound = input_error_bound(unit, *given, causal=job.causal)
        assert _error(unit, given, job.causal) <= bound <= unit.error_bound(job.keys), job


def test_it_holds_for_a_maximum_that_rises_with_every_tile_by_little(unit: AttentionArray) -> None:
    job = Job(queries=2, keys=300)
    _, k, v = inputs(unit, job, np.random.default_rng(6))
    q = np.zeros((1, 2, 4), np.int64)
    q[..., 0], k[..., 0] = unit.query_format.quantize(0.25), np.arange(300)
    v[..., ::2] = unit.value_format.max_code
    bound = input_error_bound(unit, q, k, v)
    assert _error(unit, (q, k, v), False) <= bound <= unit.error_bound(300)


def test_it_is_far_below_the_general_one_where_weights_are_many_and_the_maximum_seldom_rises(
    unit: AttentionArray,
) -> None:
    source = np.random.default_rng(7)
    job = Job(queries=4, keys=300)
    given = tuple(each // 4 for each in inputs(unit, job, source))
    assert input_error_bound(unit, *given) < unit.error_bound(300) / 4
