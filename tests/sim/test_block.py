"""The block unit: norm, attention, gate and experts on one memory, against golden model, cycles, and float64."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import sim.golden.block as golden_block
from accel.block_program import check_program
from accel.block_unit import KINDS, BlockUnit, Experts, Gate, Linear, LoadList, Store
from accel.encoder_block import EncoderBlock
from accel.errors import InputError
from accel.expert_unit import token_order
from accel.gate_unit import GateUnit
from accel.numerics import FixedPoint
from mapping.experts import expert_order_cost, token_order_cost
from sim.block import PORTS, block_streams, compile_block, run_block
from sim.encoder_block import encoder_data, exact_encoder, random_weights, stream_of
from sim.golden.block import run_block_program
from sim.golden.gate import exact_gate, gate
from sim.golden.linear import Layer
from sim.streams import CompiledStreams
from tests.sim.block_cases import BLOCK, FEATURES, WEIGHTS, WIDTH, Case, make_linear, random_block_program

WIDE = FixedPoint.parse("s16f9,nearest_up,saturate")
GATED = BlockUnit(
    linear=make_linear(
        tile=2, max_features=6, weight_tiles=9, feature_format=WIDE, score_fraction_bits=9, activation=None
    ),
    memory_words=64,
    max_rows=5,
    gate=GateUnit(experts=5, top_k=3, logit_format=WIDE, score_fraction_bits=9, renormalise=True),
)
"""A gate that renormalises, for words of 2 features."""


@pytest.fixture(scope="module")
def block(simulators: Path, tmp_path_factory: pytest.TempPathFactory) -> CompiledStreams:
    """The whole unit, compiled once."""
    return compile_block(BLOCK, tmp_path_factory.mktemp("block"), simulators)


@pytest.fixture(scope="module")
def gated(simulators: Path, tmp_path_factory: pytest.TempPathFactory) -> CompiledStreams:
    """The unit with a gate alone, compiled once."""
    return compile_block(GATED, tmp_path_factory.mktemp("gated"), simulators)


def test_bits_cycles_and_actions_of_random_programs_are_those_predicted(block: CompiledStreams) -> None:
    for seed in range(40):
        case = random_block_program(np.random.default_rng(seed))
        run = run_block(BLOCK, block, case.program, case.data)
        assert run.bit_exact, seed
        assert run.output_cycles_equal, seed
        assert run.actions_rtl == run.actions_model, seed


@pytest.mark.parametrize("slow", [*PORTS, "all"])
def test_pauses_of_any_port_change_no_bit_and_no_action(slow: str, block: CompiledStreams) -> None:
    shares = dict.fromkeys(PORTS, 0.4) if slow == "all" else {slow: 0.1}
    for seed in range(200, 206):
        case = random_block_program(np.random.default_rng(seed))
        run = run_block(BLOCK, block, case.program, case.data, shares=shares, seed=seed)
        assert run.bit_exact, seed
        assert run.actions_rtl == run.actions_model, seed


def gate_case(unit: BlockUnit, logits: np.ndarray) -> Case:
    """Given logits, the choice, and the lists as the experts of a layer that only passes on see them."""
    assert unit.gate is not None
    case = Case(unit=unit, source=np.random.default_rng(1))
    case.fill()
    tokens, experts = logits.shape
    words = unit.linear.blocks(experts)
    padded = np.zeros((tokens, words * unit.linear.tile), np.int64)
    padded[:, :experts] = logits
    case.features[0][32 : 32 + tokens * words] = padded.reshape(-1, unit.linear.tile)
    case.program.append(Gate(source=32, rows=tokens))
    case.program.append(Store(source=0, words=1))
    return case


def run_gate(unit: BlockUnit, compiled: CompiledStreams, logits: np.ndarray) -> list[list[int]]:
    case = gate_case(unit, logits)
    run = run_block(unit, compiled, case.program, case.data)
    assert run.right
    return [[int(each) for each in pair] for pair in run.outputs[0]]


def test_ties_go_to_the_lower_index_and_places_hold_what_is_larger(block: CompiledStreams) -> None:
    assert run_gate(BLOCK, block, np.array([[5, 5, 5, 5, 5, 5]])) == [[0, 1], [1, 1]]
    assert run_gate(BLOCK, block, np.array([[300, 200, 100, 0, -100, -200]])) == [[0, 1], [1, 1]]
    assert run_gate(BLOCK, block, np.array([[-200, -100, 0, 100, 200, 300]])) == [[5, 1], [4, 1]]
    assert run_gate(BLOCK, block, np.array([[0, 300, 0, 200, 300, 200]])) == [[1, 1], [4, 1]]
    # The order of the lists is that of their first token.
    rows = np.array([[0, 0, 0, 0, 200, 100], [100, 0, 0, 200, 0, 0], [0, 0, 0, 0, 100, 200]])
    assert run_gate(BLOCK, block, rows) == [[4, 2], [5, 2], [3, 1], [0, 1]]


def experts_case(unit: BlockUnit, logits: np.ndarray, hidden: int) -> Case:
    """Gate, then experts, on these logits: a layer without weights has them as biases plus the first feature."""
    case = gate_case(unit, logits)
    store = case.program.pop()
    case.program.append(Experts(source=128, hidden=256, target=0, in_features=WIDTH, hidden_features=hidden))
    case.experts.append(
        {
            expert: (case.layer(WIDTH, hidden, spread=20), case.layer(hidden, WIDTH, spread=20))
            for expert in range(logits.shape[1])
        }
    )
    case.program.append(dataclasses.replace(store, words=32) if isinstance(store, Store) else store)
    return case


def test_an_expert_that_takes_every_token_does_not_hang(block: CompiledStreams) -> None:
    logits = np.tile([0, 0, 500, 0, 400, 0], (BLOCK.max_rows, 1))
    case = experts_case(BLOCK, logits, 24)
    for shares in (None, dict.fromkeys(PORTS, 0.5)):
        run = run_block(BLOCK, block, case.program, case.data, shares=shares)
        assert run.outputs[0].tolist() == [[2, 9], [4, 9]]
        assert run.bit_exact
        assert run.actions_rtl == run.actions_model
    assert run_block(BLOCK, block, case.program, case.data).right


def test_experts_without_a_gate_are_refused_and_do_nothing_in_hardware(block: CompiledStreams) -> None:
    case = Case(unit=BLOCK, source=np.random.default_rng(1))
    case.fill()
    case.program.append(Store(source=0, words=4))
    golden = run_block_program(BLOCK, case.program, case.data)
    streams = block_streams(BLOCK, case.program, case.data, golden)
    words = np.zeros((1, 16), "<u2")
    words[0, :10] = [KINDS["experts"], 0, 0, 0, 1, 12, 12, 3, 3, 0]
    block.reset()
    seen = block.run(
        dataclasses.replace(
            streams, data={**streams.data, "s_axis_job": np.insert(streams.data["s_axis_job"], 1, words.view("u1"), 0)}
        )
    )
    assert seen.status["refused"] == 0
    assert seen.status["count_weight_read"] == 0
    with pytest.raises(InputError) as told:
        check_program(BLOCK, [*case.program, Experts(source=0, hidden=9, target=0, in_features=4, hidden_features=4)])
    assert str(told.value) == (
        "operation 2 (Experts) must come behind a Gate, which says who has work; put a Gate before it"
    )


def test_idle_experts_are_never_loaded_and_loads_hide_behind_work(block: CompiledStreams) -> None:
    linear = BLOCK.linear
    logits = np.tile([0, 0, 500, 0, 400, 0], (BLOCK.max_rows, 1))
    case = experts_case(BLOCK, logits, 12)
    run = run_block(BLOCK, block, case.program, case.data)
    assert run.right
    assert run.actions_rtl["weight_write"] == 4 * linear.load_beats(12, 12)
    # 9 tokens x 36 tiles = 324 cycles a layer hide the 84 beats of the next one.
    times = run.times.operations[2]
    assert times.last_step_cycle - times.first_step_cycle + 1 == 4 * linear.cycles(9, 12, 12)


def test_a_gate_that_renormalises_gives_the_scores_of_its_golden_model(gated: CompiledStreams) -> None:
    source = np.random.default_rng(3)
    for seed in range(20):
        case = Case(unit=GATED, source=np.random.default_rng(seed))
        logits = np.rint(source.normal(0, 2 ** source.uniform(4, 12), (5, 5))).astype(np.int64)
        case = gate_case(GATED, logits)
        # A layer that scatters shows list and scores of one expert: 1 times the score is added to 0.
        routing = gate(GATED.gate, logits)  # type: ignore[arg-type]
        expert, tokens = routing.chosen[int(source.integers(len(routing.chosen)))]
        one = Layer(weights=np.array([[WEIGHTS.max_code // 2 + 1, 0]] * 2), biases=np.zeros(2, np.int64))
        case.features[0][16:21] = 1 << WIDE.fraction_bits
        store = case.program.pop()
        case.features[0][:5] = 0
        case.program.append(
            Linear(
                source=16,
                target=0,
                rows=tokens,
                in_features=2,
                out_features=2,
                scatter=True,
                queue=expert,
                accumulate=True,
                weighted=True,
            )
        )
        case.layers.append(one)
        case.program.append(Store(source=0, words=5) if isinstance(store, Store) else store)
        run = run_block(GATED, gated, case.program, case.data)
        assert run.right, seed
        scores = np.zeros(5, np.int64)
        for token, score in routing.lists[expert]:
            scores[token] = score
        assert run.outputs[1][:, 0].tolist() == scores.tolist()


@pytest.mark.parametrize("renormalise", [False, True])
def test_the_golden_gate_is_near_float64(renormalise: bool) -> None:
    unit = GateUnit(experts=8, top_k=2, logit_format=WIDE, renormalise=renormalise)
    logits = np.rint(np.random.default_rng(2).normal(0, 1000, (200, 8))).astype(np.int64)
    exact, found = exact_gate(unit, logits), np.zeros((200, 8))
    for expert, entries in gate(unit, logits).lists.items():
        for token, score in entries:
            found[token, expert] = score / 2**unit.score_fraction_bits
    assert 0 < np.abs(found - exact).max() < 4 * unit.max_error


DENSE = EncoderBlock(tokens=9, features=12, heads=3, hidden_features=24)
MIXED = EncoderBlock(tokens=9, features=12, heads=3, hidden_features=20, experts=6)
EMBEDDED = EncoderBlock(tokens=9, features=12, heads=3, hidden_features=24, patch_features=18)


@pytest.mark.parametrize("shape", [DENSE, MIXED, EMBEDDED], ids=["dense", "experts", "embedded"])
def test_an_encoder_block_runs_end_to_end(shape: EncoderBlock, block: CompiledStreams) -> None:
    source = np.random.default_rng(8)
    weights = random_weights(shape, source)
    inputs = source.normal(0, 1, (shape.tokens, shape.features))
    patches = source.normal(0, 1, (shape.tokens - 1, shape.patch_features)) if shape.patch_features else None
    program = shape.program(BLOCK)
    run = run_block(BLOCK, block, program, encoder_data(BLOCK, shape, weights, inputs, patches))
    assert run.right
    found = stream_of(BLOCK, shape, run.outputs[-1])
    exact = exact_encoder(BLOCK, shape, weights, inputs, patches)
    # Features have steps of 1/64, weights of 1/64: a few steps are lost on a way of nine roundings.
    assert 0 < np.abs(found - exact).max() < 16 * FEATURES.resolution
    assert np.abs(found - exact).mean() < 4 * FEATURES.resolution
    layers = [each for each in run.times.operations if each.first_step_cycle >= 0]
    steps = sum(each.last_step_cycle - each.first_step_cycle + 1 for each in layers)
    wide = BLOCK.linear.cycles(shape.tokens, 12, 12)
    if shape is DENSE:
        hidden = BLOCK.linear.cycles(9, 12, 24) + BLOCK.linear.cycles(9, 24, 12)
        assert run.actions_rtl["weight_read"] == steps == 4 * wide + hidden


def test_both_orders_of_experts_give_the_same_bits_at_the_cost_of_the_model(block: CompiledStreams) -> None:
    # Three tokens; for the order by tokens each pair of a token and its expert has a list of its own.
    logits = np.array([[90, 0, 0, 80, 0, 0], [0, 0, 0, 70, 0, 60], [50, 60, 0, 0, 0, 0]])
    listed = experts_case(BLOCK, logits, 16)
    first = run_block(BLOCK, block, listed.program, listed.data)
    assert first.right
    assert BLOCK.gate is not None
    lists = gate(BLOCK.gate, logits).lists
    pairs = sorted((token, expert, score) for expert, entries in lists.items() for token, score in entries)
    experts = listed.program[2]
    assert isinstance(experts, Experts)
    case = Case(unit=BLOCK, source=listed.source, program=listed.program[:1], features=listed.features[:1])
    for queue, (token, _, score) in enumerate(pairs):
        case.program.append(LoadList(queue=queue, entries=1))
        case.features.append(np.array([[token, score]]))
    for layer in token_order(experts, range(len(pairs))):
        case.program.append(layer)
        case.layers.append(listed.experts[0][pairs[layer.queue][1]][0 if layer.gather else 1])
    case.program.append(Store(source=0, words=32))
    second = run_block(BLOCK, block, case.program, case.data)
    assert second.right
    assert np.array_equal(first.outputs[-1], second.outputs[-1])

    counts = [len(lists.get(expert, ())) for expert in range(6)]
    # The loader waits for the gate; it knows the layers that come one by one while lists are loaded.
    given = second.times.operations[1 + len(pairs)].begin_cycle
    by_expert = expert_order_cost(BLOCK, experts, counts)
    by_token = token_order_cost(BLOCK, experts, len(pairs), ahead_cycles=given - (1 + len(pairs)) - 1)
    for run, cost, begin in (
        (first, by_expert, first.times.operations[2].begin_cycle + 1),
        (second, by_token, given),
    ):
        assert run.actions_rtl["weight_write"] == cost.load_cycles
        assert run.actions_rtl["weight_read"] == cost.step_cycles
        assert run.times.operations[-2].end_cycle - begin + 1 == cost.cycles
    assert by_token.weight_bits / 6 == by_expert.weight_bits / 4


@pytest.mark.parametrize("step", ["norm", "gate", "reordered_attention"])
def test_a_golden_model_that_is_off_is_told_from_the_hardware(
    step: str, block: CompiledStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, right = np.random.default_rng(8), getattr(golden_block, step)
    data = encoder_data(BLOCK, MIXED, random_weights(MIXED, source), source.normal(0, 1, (9, 12)))

    def broken(unit: object, given: object) -> object:
        found = right(unit, given)
        if step == "norm":
            return tuple(row + 8 for row in found)
        if step == "gate":
            lists = {
                expert: tuple((token, score // 2) for token, score in entries)
                for expert, entries in found.lists.items()
            }
            return dataclasses.replace(found, lists=lists)
        return dataclasses.replace(found, outputs=tuple(each + 8 for each in found.outputs))

    assert run_block(BLOCK, block, MIXED.program(BLOCK), data).bit_exact
    monkeypatch.setattr(golden_block, step, broken)
    assert not run_block(BLOCK, block, MIXED.program(BLOCK), data).bit_exact
