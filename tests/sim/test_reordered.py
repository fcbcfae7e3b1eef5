"""The reordered attention unit: golden model against float64, and compiled hardware against golden model and cycles."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import sim.golden.reordered as golden
from accel.cost import load_cost_table
from accel.errors import InputError, SimulationError
from accel.numerics import FixedPoint
from accel.reordered_schedule import AttentionJob
from accel.reordered_unit import REORDERED_ACTIONS, ReorderedUnit
from sim.golden.reordered import Head, exact_attention, reordered_attention
from sim.reordered import (
    compile_reordered,
    price_reordered,
    quantized_head,
    report,
    run_reordered,
    streams_of,
)
from sim.streams import CompiledStreams

ROOT = Path(__file__).parents[2]


def parse(text: str) -> FixedPoint:
    return FixedPoint.parse(text)


WIDE = parse("s16f12,nearest_even,saturate")
DESIGNS = {
    "four slots": ReorderedUnit(
        max_length=33,
        key_features=8,
        value_features=4,
        slots=4,
        block=2,
        query_format=parse("s10f6,nearest_even,saturate"),
        key_format=parse("s9f6,nearest_even,saturate"),
        value_format=parse("s12f8,nearest_even,saturate"),
        output_format=parse("s14f10,nearest_even,saturate"),
    ),
    "more slots than cycles": ReorderedUnit(
        max_length=16,
        key_features=4,
        value_features=8,
        slots=5,
        block=4,
        banks=1,
        query_format=parse("u6f3,truncate,saturate"),
        key_format=parse("s8f4,truncate,saturate"),
        value_format=parse("u8f8,nearest_even,saturate"),
        output_format=parse("u9f8,nearest_up,saturate"),
        weight_fraction_bits=8,
        guard_bits=1,
        exp_segments=1,
        score_scale=1.0,
    ),
    "MiniLM": ReorderedUnit(
        max_length=128,
        key_features=32,
        value_features=32,
        slots=4,
        block=8,
        query_format=WIDE,
        key_format=WIDE,
        value_format=WIDE,
        output_format=WIDE,
    ),
}
SMALL = ("four slots", "more slots than cycles")


@pytest.fixture(scope="module")
def built(simulators: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, CompiledStreams]:
    """Each design, compiled once."""
    return {
        name: compile_reordered(unit, tmp_path_factory.mktemp("reordered"), simulators)
        for name, unit in DESIGNS.items()
    }


def random_head(unit: ReorderedUnit, source: np.random.Generator, job: AttentionJob | None = None) -> Head:
    """A head of narrow or wide numbers, now and then at the ends of the formats."""
    if job is None:
        causal = bool(source.random() < 0.5)
        queries, keys = (int(each) for each in source.integers(1, unit.max_length + 1, 2))
        job = AttentionJob(
            queries=queries, keys=keys, causal=causal, offset=int(source.integers(0, 9)) if causal else 0
        )
    tensors = []
    for shape, element in (
        ((job.queries, unit.key_features), unit.query_format),
        ((job.keys, unit.key_features), unit.key_format),
        ((job.keys, unit.value_features), unit.value_format),
    ):
        numbers = np.rint(source.normal(0, 2 ** source.uniform(0, element.width_bits), shape))
        if source.random() < 0.1:
            numbers = np.where(source.random(shape) < 0.5, element.min_code, element.max_code)
        tensors.append(np.clip(numbers, element.min_code, element.max_code).astype(np.int64))
    return Head(job=job, queries=tensors[0], keys=tensors[1], values=tensors[2])


def wide_head(length: int) -> Head:
    """A head of the first design with spread scores and values that fill their format."""
    source = np.random.default_rng(2)
    return Head(
        job=AttentionJob(queries=length, keys=length),
        queries=source.integers(-100, 101, (length, 8)),
        keys=source.integers(-100, 101, (length, 8)),
        values=source.integers(-2048, 2048, (length, 4)),
    )


def exact(unit: ReorderedUnit, head: Head) -> np.ndarray:
    return exact_attention(
        unit.query_format.to_real(head.queries),
        unit.key_format.to_real(head.keys),
        unit.value_format.to_real(head.values),
        head.job,
        unit.scale,
    )


@pytest.mark.parametrize("name", DESIGNS)
def test_the_golden_model_keeps_its_bound_on_random_and_extreme_heads(name: str) -> None:
    unit, source = DESIGNS[name], np.random.default_rng(3)
    worst = 0.0
    for _ in range(30 if name in SMALL else 3):
        head = random_head(unit, source)
        (outputs,) = reordered_attention(unit, [head]).outputs
        worst = max(worst, float(np.abs(unit.output_format.to_real(outputs) - exact(unit, head)).max()))
    assert 0 < worst <= unit.max_error


def test_float64_attention_is_a_mean_of_the_values_that_a_mask_cuts_short() -> None:
    flat = np.zeros((3, 2))
    values = np.arange(6.0).reshape(3, 2)
    whole = exact_attention(flat, flat, values, AttentionJob(queries=3, keys=3), 1.0)
    assert np.allclose(whole, values.mean(axis=0))
    masked = exact_attention(flat, flat, values, AttentionJob(queries=3, keys=3, causal=True), 1.0)
    assert np.allclose(masked, [values[:1].mean(axis=0), values[:2].mean(axis=0), values.mean(axis=0)])


def test_the_bits_follow_the_rotated_order() -> None:
    unit = dataclasses.replace(DESIGNS["four slots"], guard_bits=1, weight_fraction_bits=8)
    head = wide_head(32)
    rotated = reordered_attention(unit, [head]).outputs[0]
    one_slot = reordered_attention(dataclasses.replace(unit, slots=1), [head]).outputs[0]
    assert not np.array_equal(rotated, one_slot), "sums that are shifted and cut depend on the order"
    assert np.array_equal(rotated[::4], one_slot[::4]), "slot 0 starts with key 0"


@pytest.mark.parametrize("name", SMALL)
def test_bits_cycles_and_actions_of_random_heads_are_those_predicted(
    name: str, built: dict[str, CompiledStreams]
) -> None:
    unit, source = DESIGNS[name], np.random.default_rng(1)
    for _ in range(40):
        run = run_reordered(unit, built[name], [random_head(unit, source) for _ in range(source.integers(1, 5))])
        assert run.bit_exact
        assert run.cycles_rtl == run.cycles_model
        assert run.output_cycles_equal
        assert run.actions_rtl == run.actions_model
        assert run.max_error <= run.error_bound


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("slow", ["s_axis_job", "s_axis_q", "s_axis_k", "s_axis_v", "m_axis", "all"])
def test_pauses_of_any_port_change_no_bit_and_no_action(
    name: str, slow: str, built: dict[str, CompiledStreams]
) -> None:
    unit, source = DESIGNS[name], np.random.default_rng(7)
    ports = ("s_axis_job", "s_axis_q", "s_axis_k", "s_axis_v", "m_axis")
    shares = dict.fromkeys(ports, 0.4) if slow == "all" else {slow: 0.05}
    heads = [random_head(unit, source) for _ in range(5)]
    run = run_reordered(unit, built[name], heads, shares=shares, seed=5)
    assert run.bit_exact
    assert run.actions_rtl == run.actions_model
    # Jobs that come late may still be in time.
    assert run.cycles_rtl > run.cycles_model or slow == "s_axis_job"


CORNERS = [
    AttentionJob(queries=1, keys=1),
    AttentionJob(queries=1, keys=33),
    AttentionJob(queries=33, keys=1),
    AttentionJob(queries=33, keys=2, causal=True),
    AttentionJob(queries=3, keys=3),
    AttentionJob(queries=4, keys=4, causal=True),
    AttentionJob(queries=33, keys=33),
    AttentionJob(queries=33, keys=33, causal=True),
    AttentionJob(queries=2, keys=33, causal=True, offset=31),
    AttentionJob(queries=2, keys=33, causal=True),
    AttentionJob(queries=33, keys=33, causal=True, offset=33),
    AttentionJob(queries=32, keys=32),
]


def test_lengths_at_their_ends_and_masks_that_hide_nearly_all_or_nothing(built: dict[str, CompiledStreams]) -> None:
    unit, source = DESIGNS["four slots"], np.random.default_rng(9)
    heads = [random_head(unit, source, job) for job in CORNERS]
    for each in ([head] for head in heads):
        run = run_reordered(unit, built["four slots"], each)
        assert (run.bit_exact, run.cycles_rtl, run.actions_rtl) == (True, run.cycles_model, run.actions_model)
    run = run_reordered(unit, built["four slots"], heads)
    assert (run.bit_exact, run.cycles_rtl, run.actions_rtl) == (True, run.cycles_model, run.actions_model)
    assert run.output_cycles_equal


def test_a_second_run_without_reset_gives_the_same(built: dict[str, CompiledStreams]) -> None:
    unit, compiled, source = DESIGNS["four slots"], built["four slots"], np.random.default_rng(4)
    streams = streams_of(unit, [random_head(unit, source) for _ in range(3)])
    compiled.reset()
    first, second = compiled.run(streams), compiled.run(streams)
    assert np.array_equal(first.data, second.data)
    assert all(second.status[f"count_{name}"] == 2 * first.status[f"count_{name}"] for name in REORDERED_ACTIONS)


def test_the_recorded_head_has_the_golden_bits_and_cycles_and_a_small_error(
    built: dict[str, CompiledStreams],
) -> None:
    # The recording has no values: its keys stand for them.
    with np.load(next((ROOT / "examples" / "data").glob("minilm-layer4-head9.npz"))) as data:
        q, k = (np.asarray(data[name], np.float64) for name in ("q", "k"))
    unit = DESIGNS["MiniLM"]
    head = quantized_head(unit, q, k, k)
    run = run_reordered(unit, built["MiniLM"], [head])
    shown = report(unit, run, load_cost_table("open-45nm"))
    assert (run.bit_exact, run.cycles_rtl) == (True, run.cycles_model)
    assert run.actions_rtl == run.actions_model
    assert run.max_error < 2 * WIDE.resolution
    whole = np.abs(WIDE.to_real(run.outputs[0]) - exact_attention(q, k, k, head.job, unit.scale)).max()
    assert whole < 2e-3
    assert run.utilisation == 128 * 128 / (4 * 4099)
    assert shown["energy_pj"] == pytest.approx(sum(shown["energy_by_action_pj"].values()))
    assert shown["cycles_rtl"] == 1 + 1 + 128 * 4 + 4099 * 4 + unit.latency_cycles + 4


def test_energy_is_counts_times_the_table_split_by_action() -> None:
    unit, costs = DESIGNS["four slots"], load_cost_table("open-45nm")
    actions = unit.actions(AttentionJob(queries=8, keys=8), rescales=5)
    priced = {each.action: each for each in price_reordered(unit, actions, costs)}
    assert priced.keys() == REORDERED_ACTIONS.keys()
    assert priced["mac_qk"].energy_pj == pytest.approx(8 * 8 * 8 * (3.65 + 0.242))
    assert priced["key_read"].energy_pj == pytest.approx(actions["key_read"] * 25.9 * 2 * 9 / 64)
    assert all(each.energy_pj == pytest.approx(each.count * each.energy_each_pj) for each in priced.values())


def test_a_job_that_is_too_long_or_empty_is_dropped_and_reported(built: dict[str, CompiledStreams]) -> None:
    unit, compiled, source = DESIGNS["four slots"], built["four slots"], np.random.default_rng(4)
    good = random_head(unit, source)
    streams = streams_of(unit, [good])
    for wrong in (0, 34 | 5 << 16, 5 | 34 << 16, 5 | 0x4005 << 16, 5 | 5 << 16 | 34 << 32):
        compiled.reset()
        words = np.concatenate([np.array([[wrong]], np.uint64).view(np.uint8), streams.data["s_axis_job"]])
        seen = compiled.run(dataclasses.replace(streams, data={**streams.data, "s_axis_job": words}))
        assert seen.status["refused"] == 1
        assert seen.status["count_reciprocal"] == good.job.queries


@pytest.mark.parametrize("port", ["s_axis_q", "s_axis_k", "s_axis_v"])
def test_a_tensor_that_does_not_end_where_its_job_says_is_reported(
    port: str, built: dict[str, CompiledStreams]
) -> None:
    unit, compiled = DESIGNS["four slots"], built["four slots"]
    streams = streams_of(unit, [random_head(unit, np.random.default_rng(4), AttentionJob(queries=5, keys=6))])
    compiled.reset()
    assert compiled.run(streams).status["misaligned"] == 0
    for last in (np.zeros_like(streams.last[port]), np.ones_like(streams.last[port])):
        compiled.reset()
        seen = compiled.run(dataclasses.replace(streams, last={**streams.last, port: last}))
        assert seen.status["misaligned"] == 1


def test_a_run_with_a_wrong_port_or_share_is_refused(built: dict[str, CompiledStreams]) -> None:
    compiled = built["four slots"]
    streams = streams_of(DESIGNS["four slots"], [wide_head(4)])
    ports = "s_axis_job, s_axis_q, s_axis_k, s_axis_v"
    for shares, text in (
        ({"q": 0.5}, f"shares must name ports of the block ({ports}, m_axis), not 'q'"),
        (
            {"m_axis": 0.0},
            "the share of m_axis must be from 2**-16 to 1, not 0.0; use 1 for a port that never pauses",
        ),
    ):
        with pytest.raises(InputError) as told:
            compiled.run(streams, shares=shares)
        assert str(told.value) == text
    one = dataclasses.replace(streams, data={"s_axis_q": streams.data["s_axis_q"]})
    with pytest.raises(InputError) as told:
        compiled.run(one)
    assert str(told.value) == f"the streams must be {ports}, not s_axis_q; give all of them"


def test_a_missing_tensor_stalls_the_run_and_the_message_counts_the_beats(built: dict[str, CompiledStreams]) -> None:
    unit, compiled = DESIGNS["four slots"], built["four slots"]
    streams = streams_of(unit, [random_head(unit, np.random.default_rng(4), AttentionJob(queries=5, keys=6))])
    compiled.reset()
    short = {**streams.data, "s_axis_v": streams.data["s_axis_v"][:-1]}
    last = {**streams.last, "s_axis_v": streams.last["s_axis_v"][:-1]}
    with pytest.raises(SimulationError, match=r"no port moved for 500 cycles; .* s_axis_q 0 of 20, .* m_axis 0 of 10"):
        compiled.run(dataclasses.replace(streams, data=short, last=last), patience_cycles=500)
    compiled.reset()


@pytest.mark.parametrize("step", ["_mantissa_exponent", "_reciprocal"])
def test_a_golden_model_that_is_off_by_one_step_is_told_from_the_hardware(
    step: str, built: dict[str, CompiledStreams], monkeypatch: pytest.MonkeyPatch
) -> None:
    unit, right = DESIGNS["four slots"], getattr(golden, step)

    def broken(*given: object) -> object:
        number, exponent = right(*given)
        return number + 64, exponent

    head = wide_head(20)
    assert run_reordered(unit, built["four slots"], [head]).bit_exact
    monkeypatch.setattr(golden, step, broken)
    assert not run_reordered(unit, built["four slots"], [head]).bit_exact
