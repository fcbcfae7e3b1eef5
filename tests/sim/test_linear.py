"""The unified linear unit: golden model against float64, and compiled hardware against golden model and cycles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sim.block
import sim.golden.block as golden_block
from accel.block_cycles import program_times
from accel.block_unit import Linear, Store
from accel.numerics import FixedPoint
from sim.block import PORTS, block_streams, compile_block, run_block, weight_beats
from sim.golden.block import run_block_program
from sim.golden.linear import Layer, accumulate, exact_linear, linear, quantized_layer
from sim.streams import CompiledStreams
from tests.sim.block_cases import LINEAR, Case, make_linear, random_linear_program

UNIT = LINEAR.linear


@pytest.fixture(scope="module")
def built(simulators: Path, tmp_path_factory: pytest.TempPathFactory) -> CompiledStreams:
    """The unit, compiled once."""
    return compile_block(LINEAR, tmp_path_factory.mktemp("linear"), simulators)


def tame_layer(source: np.random.Generator, inputs: int, outputs: int) -> tuple[Layer, np.ndarray]:
    """A layer and rows whose results do not leave the range of the features."""
    layer = quantized_layer(UNIT, source.normal(0, 0.3, (outputs, inputs)), source.normal(0, 1, outputs))
    return layer, UNIT.feature_format.quantize(source.normal(0, 2, (7, inputs)))


@pytest.mark.parametrize("activate", [False, True])
def test_the_golden_model_stays_within_the_bound_of_float64(activate: bool) -> None:
    source, worst = np.random.default_rng(3), 0.0
    for _ in range(50):
        layer, rows = tame_layer(source, *(int(each) for each in source.integers(1, 25, 2)))
        found = UNIT.feature_format.to_real(linear(UNIT, layer, rows, activate=activate))
        worst = max(worst, float(np.abs(found - exact_linear(UNIT, layer, rows, activate=activate)).max()))
    assert UNIT.error() / 4 < worst <= UNIT.error(activate=activate)


def test_a_weighted_addition_rounds_half_up_and_saturates() -> None:
    half = 1 << (UNIT.score_fraction_bits - 1)
    old, results = np.array([10, 10, 2000, -2000]), np.array([3, -3, 2000, -2000])
    assert accumulate(UNIT, old, results, half).tolist() == [12, 9, 2047, -2048]
    assert accumulate(UNIT, old, results).tolist() == [13, 7, 2047, -2048]


def test_rounded_weights_lose_much_less_than_truncated_ones() -> None:
    source = np.random.default_rng(5)
    exact, rows = source.normal(0, 0.3, (16, 24)), np.abs(source.normal(0, 1, (50, 24)))
    cut = FixedPoint.parse("s8f6,truncate,saturate")
    errors = [
        np.abs(rows @ (codes.to_real(codes.quantize(exact)) - exact).T).mean() for codes in (UNIT.weight_format, cut)
    ]
    assert errors[1] > 5 * errors[0], "features that are mostly positive add up what every weight loses"


def test_bits_cycles_and_actions_of_random_programs_are_those_predicted(built: CompiledStreams) -> None:
    for seed in range(120):
        case = random_linear_program(np.random.default_rng(seed))
        run = run_block(LINEAR, built, case.program, case.data)
        assert run.bit_exact, seed
        assert run.output_cycles_equal, seed
        assert run.actions_rtl == run.actions_model, seed


@pytest.mark.parametrize("slow", [*PORTS, "all"])
def test_pauses_of_any_port_change_no_bit_and_no_action(slow: str, built: CompiledStreams) -> None:
    shares = dict.fromkeys(PORTS, 0.4) if slow == "all" else {slow: 0.1}
    for seed in range(200, 215):
        case = random_linear_program(np.random.default_rng(seed))
        run = run_block(LINEAR, built, case.program, case.data, shares=shares, seed=seed)
        assert run.bit_exact, seed
        assert run.actions_rtl == run.actions_model, seed


def layers_case(shapes: list[tuple[int, int, int]]) -> Case:
    """Layers with these rows, inputs and outputs, none of which waits for another."""
    case = Case(unit=LINEAR, source=np.random.default_rng(1))
    case.fill()
    for place, (rows, inputs, outputs) in enumerate(shapes):
        after = "nothing" if place else "all"
        case.add(Linear(source=0, target=64, rows=rows, in_features=inputs, out_features=outputs, after=after))
    case.program.append(Store(source=64, words=64))
    return case


def test_steps_follow_each_other_over_tiles_rows_and_layers(built: CompiledStreams) -> None:
    shapes = [(9, 20, 12), (9, 7, 17), (9, 20, 9)]
    case = layers_case(shapes)
    run = run_block(LINEAR, built, case.program, case.data)
    assert run.right
    layers = run.times.operations[1:-1]
    assert [each.last_step_cycle - each.first_step_cycle + 1 for each in layers] == [9 * 15, 9 * 10, 9 * 15]
    assert [after.first_step_cycle for after in layers[1:]] == [each.last_step_cycle + 1 for each in layers[:-1]]
    # Words in; operation seen; fill; steps; last word written; operation seen; words out.
    load, steps = 3 + LINEAR.memory_words + 1, 9 * (15 + 10 + 15)
    assert run.cycles_rtl == load + UNIT.fill_cycles + steps - 1 + UNIT.latency_cycles + 1 + 3 + 64


def test_a_layer_waits_for_its_weights_where_they_take_longer_than_the_layer_before(built: CompiledStreams) -> None:
    case = layers_case([(1, 20, 20), (1, 20, 20), (1, 20, 20)])
    run = run_block(LINEAR, built, case.program, case.data)
    assert run.right
    layers = run.times.operations[1:-1]
    beats = UNIT.load_beats(20, 20)
    assert beats == 20 * 5 + 2 * 5
    assert layers[2].first_step_cycle - layers[1].last_step_cycle > beats - 25


def test_a_list_that_holds_every_token_is_a_list_like_any_other(built: CompiledStreams) -> None:
    case = Case(unit=LINEAR, source=np.random.default_rng(4))
    case.fill()
    case.fill_list(2, np.arange(9))
    shape: dict[str, Any] = {"rows": 9, "in_features": 12, "out_features": 12, "queue": 2}
    case.add(Linear(source=0, target=32, gather=True, activate=True, **shape))
    case.add(Linear(source=32, target=64, scatter=True, accumulate=True, weighted=True, after="rows", **shape))
    case.program.append(Store(source=0, words=128))
    for shares in (None, {"s_axis_w": 0.3, "m_axis": 0.5}):
        run = run_block(LINEAR, built, case.program, case.data, shares=shares)
        assert run.bit_exact
        assert run.actions_rtl == run.actions_model


def test_words_that_are_still_on_their_way_are_added_to(built: CompiledStreams) -> None:
    # One step a row, and a list that names the same row again and again: each sum needs the one just before it.
    case = Case(unit=LINEAR, source=np.random.default_rng(6))
    case.fill()
    case.fill_list(0, np.array([3, 3, 3, 5, 3, 5, 5, 3, 3]))
    layer = Linear(source=0, target=64, rows=9, in_features=4, out_features=4, scatter=True, accumulate=True)
    case.add(layer)
    case.program.append(Store(source=64, words=9))
    run = run_block(LINEAR, built, case.program, case.data)
    assert run.right
    assert run.times.operations[2].last_step_cycle - run.times.operations[2].first_step_cycle == 8


def test_a_second_program_without_reset_gives_the_same(built: CompiledStreams) -> None:
    case = random_linear_program(np.random.default_rng(11))
    golden = run_block_program(LINEAR, case.program, case.data)
    streams = block_streams(LINEAR, case.program, case.data, golden)
    built.reset()
    first, second = built.run(streams), built.run(streams)
    assert np.array_equal(first.data, second.data)
    gaps = [run.cycles_of["m_axis"] - run.cycles_of["s_axis_job"][0] for run in (first, second)]
    assert np.array_equal(*gaps)
    assert second.status["count_mac"] == 2 * first.status["count_mac"]


def test_operations_beyond_the_unit_are_dropped_and_reported(built: CompiledStreams) -> None:
    good = layers_case([(2, 4, 4)])
    golden = run_block_program(LINEAR, good.program, good.data)
    streams = block_streams(LINEAR, good.program, good.data, golden)
    kind = 4
    for fields in (
        [0],
        [9, 0, 0, 0, 1],
        [5, 0, 0, 0, 1, 4],  # a norm, which is not built
        [kind, 0, 0, 0, 0, 4, 4, 1, 1],
        [kind, 0, 0, 0, 10, 4, 4, 1, 1],
        [kind, 0, 0, 0, 1, 0, 4, 1, 1],
        [kind, 0, 0, 0, 1, 25, 4, 1, 1],
        [kind, 0, 0, 0, 1, 4, 4, 1, 1, 3],
        [1, 0, 0, 0, 129],
    ):
        wrong = np.zeros(16, "<u2")
        wrong[: len(fields)] = fields
        built.reset()
        words = np.concatenate([wrong.view(np.uint8)[None], streams.data["s_axis_job"]])
        changed = type(streams)(data={**streams.data, "s_axis_job": words}, last=streams.last, outputs=streams.outputs)
        seen = built.run(changed)
        assert seen.status["refused"] == 1, fields
        assert seen.status["count_mac"] == 2 * 4 * 4


@pytest.mark.parametrize("port", ["s_axis_x", "s_axis_w"])
def test_beats_that_do_not_end_where_the_operation_says_are_reported(port: str, built: CompiledStreams) -> None:
    case = layers_case([(2, 4, 9)])
    streams = block_streams(LINEAR, case.program, case.data, run_block_program(LINEAR, case.program, case.data))
    built.reset()
    assert built.run(streams).status["misaligned"] == 0
    for last in (np.zeros_like(streams.last[port]), np.ones_like(streams.last[port])):
        built.reset()
        changed = type(streams)(data=streams.data, last={**streams.last, port: last}, outputs=streams.outputs)
        assert built.run(changed).status["misaligned"] == 1


def test_a_golden_model_that_is_off_by_one_step_is_told_from_the_hardware(
    built: CompiledStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, right = layers_case([(2, 4, 9)]), linear

    def broken(*given: object, **more: object) -> np.ndarray:
        return right(*given, **more) + 1  # type: ignore[arg-type]

    assert run_block(LINEAR, built, case.program, case.data).right
    monkeypatch.setattr(golden_block, "linear", broken)
    assert not run_block(LINEAR, built, case.program, case.data).bit_exact


def test_times_that_are_off_by_one_cycle_are_told_from_the_hardware(
    built: CompiledStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = layers_case([(2, 4, 9)])
    right = program_times
    monkeypatch.setattr(
        sim.block, "program_times", lambda unit, program, chosen: right(unit, [*program[:1], *program], chosen)
    )
    assert not run_block(LINEAR, built, case.program, case.data).output_cycles_equal


def test_beats_of_weights_are_rows_then_both_halves_of_the_biases() -> None:
    layer = Layer(weights=np.arange(1, 11).reshape(2, 5), biases=np.array([0x1234, -2]))
    beats = weight_beats(LINEAR, layer)
    assert beats[:4].tolist() == [[1, 2, 3, 4], [5, 0, 0, 0], [6, 7, 8, 9], [10, 0, 0, 0]]
    assert beats[4:].tolist() == [[0x34, 0xFE, 0, 0], [0x12, -1, 0, 0]]


def test_cycles_are_those_of_the_closed_form() -> None:
    unit = make_linear(tile=16, max_features=768, weight_tiles=1024, activation=None)
    # M3ViT (Edge-MoE): 129 tokens, Q, K, V and projection 192 x 192, then 192 x 768 and back.
    assert unit.cycles(129, 192, 192) == 129 * 12 * 12
    assert unit.cycles(129, 192, 768) + unit.cycles(129, 768, 192) == 2 * 129 * 12 * 48
    assert unit.load_beats(192, 384) == 192 * 384 // 16 + 2 * 24
