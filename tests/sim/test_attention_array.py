"""The spatial attention array: golden model against float64; hardware against golden model, closed forms and model."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from accel.attention_array import Exponential, Job, actions, compute_cycles, lone_cycles
from accel.errors import SimulationError
from accel.numerics import FixedPoint
from sim.attention_array import CompiledArray, expected_cycles, pack
from sim.attention_model import model_actions, price_array
from sim.compiled import Rhythm
from sim.golden.attention_array import attention, exact_attention
from sim.toolchain import find_toolchain
from tests.sim.array_designs import FORMATS, Design, design, inputs, random_job, sequential_plan

DESIGNS = {
    "interleaved": lambda: design(shape=(2, 3), dims=(4, 4), max_length=31, tiles=(2, 2, 3)),
    "several keys in a PE": lambda: design(
        shape=(2, 2),
        dims=(3, 4),
        max_length=30,
        tiles=(6, 1, 2),
        exp_cycles=3,
        weight_fraction_bits=8,
        element=FORMATS[2],
    ),
    "sequential": lambda: design(
        shape=(3, 2), dims=(5, 2), max_length=24, tiles=(3, 2, 2), element=FORMATS[3], plan=sequential_plan()
    ),
}
JOBS = 25


@pytest.fixture(scope="module", params=DESIGNS)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Design, CompiledArray]:
    made = DESIGNS[request.param]()
    cache = tmp_path_factory.getbasetemp() / "arrays"
    return made, CompiledArray.build(made.unit, toolchain=find_toolchain(), cache=cache)


def test_hardware_golden_model_closed_forms_and_model_agree(built: tuple[Design, CompiledArray]) -> None:
    made, array = built
    unit, source = made.unit, np.random.default_rng(7)
    tile = Job(queries=unit.queries_per_tile, keys=unit.keys_per_tile)
    small = [tile, Job(queries=1, keys=1), dataclasses.replace(tile, heads=2)]
    for job in [*small, *(random_job(unit, source) for _ in range(JOBS))]:
        array.reset()  # a value that is read too early is not one that an equal job has left
        given = inputs(unit, job, source)
        run, priced = array.run(*given, causal=job.causal), price_array(unit, made.architecture, job)
        np.testing.assert_array_equal(run.av, attention(unit, *given, causal=job.causal), err_msg=str(job))
        assert (run.cycles, run.wait_cycles) == (expected_cycles(unit, job), 0), job
        assert priced.compute_cycles == compute_cycles(unit, job) - lone_cycles(unit, job), job
        assert run.actions == actions(unit, job) == model_actions(priced), job


def test_pauses_change_no_bit_and_no_action(built: tuple[Design, CompiledArray]) -> None:
    made, array = built
    unit, source = made.unit, np.random.default_rng(8)
    waited = 0
    for seed in range(8):
        job = random_job(unit, source)
        given = inputs(unit, job, source)
        rhythm = Rhythm(offer_share=float(source.choice([0.1, 0.6])), take_share=0.1, seed=seed)
        run = array.run(*given, causal=job.causal, rhythm=rhythm)
        np.testing.assert_array_equal(run.av, attention(unit, *given, causal=job.causal), err_msg=str(job))
        assert run.actions == actions(unit, job), job
        waited += run.wait_cycles
    assert waited, "no epoch ever waited: the pauses tested nothing"


def test_a_missing_beat_ends_in_a_message_that_counts_beats(
    built: tuple[Design, CompiledArray], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, array = built
    unit, job = made.unit, Job(queries=2, keys=3)
    given = inputs(unit, job, np.random.default_rng(1))
    beats = pack(unit, job, *given)
    monkeypatch.setattr("sim.attention_array.PATIENCE_CYCLES", 500)
    monkeypatch.setattr("sim.attention_array.pack", lambda *_: {**beats, "v": beats["v"][:-1]})
    with pytest.raises(SimulationError, match=r"beats of Q, K and V and 0 of AV"):
        array.run(*given)
    array.reset()


@pytest.mark.parametrize("causal", (False, True))
def test_the_golden_model_is_near_float64_and_within_the_bound(causal: bool) -> None:
    unit = design(shape=(4, 4), dims=(16, 8), max_length=128, tiles=(4, 2, 4)).unit
    source = np.random.default_rng(3)
    given = [
        FORMATS[0].quantize(source.normal(size=(2, 100, dim)) * scale) for dim, scale in ((16, 0.4), (16, 1), (8, 1))
    ]
    error = np.abs(
        unit.output_format.to_real(attention(unit, *given, causal=causal))
        - exact_attention(unit, *given, causal=causal)
    ).max()
    assert error <= unit.error_bound(100)
    assert error < 4e-4, "measured 2e-4: half a step of the output is 1.2e-4"


def test_a_coarse_exponential_is_seen_in_the_error() -> None:
    unit = design(shape=(4, 4), dims=(8, 4), max_length=64, tiles=(4, 2, 4)).unit
    coarse = dataclasses.replace(unit, exponential=Exponential(degree=1, weight_fraction_bits=15))
    source = np.random.default_rng(4)
    given = [FORMATS[0].quantize(source.normal(size=(1, 64, dim))) for dim in (8, 8, 4)]
    exact = exact_attention(unit, *given)
    fine, rough = (np.abs(each.output_format.to_real(attention(each, *given)) - exact).max() for each in (unit, coarse))
    assert rough > 10 * fine


def test_scores_at_the_ends_of_their_range_do_not_overflow() -> None:
    element = FixedPoint.parse("s8f0,nearest_even,saturate")
    unit = design(shape=(2, 2), dims=(4, 2), max_length=8, tiles=(2, 1, 2), element=element).unit
    q = np.full((1, 4, 4), element.min_code)
    k = np.stack([np.full((8, 4), element.min_code)])
    k[0, ::2] = element.max_code
    v = np.arange(16).reshape(1, 8, 2)
    np.testing.assert_array_equal(attention(unit, q, k, v), np.rint(exact_attention(unit, q, k, v)).astype(np.int64))
