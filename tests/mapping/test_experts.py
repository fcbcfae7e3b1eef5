"""The cost of a mixture of experts in both orders: the published case, and limits."""

from __future__ import annotations

import pytest

from accel.block_unit import BlockUnit, Experts
from accel.errors import InputError
from accel.linear_unit import LinearUnit
from accel.numerics import FixedPoint
from mapping.experts import compare_orders, even_counts, expert_order_cost, token_order_cost

FEATURES = FixedPoint.parse("s16f10,nearest_even,saturate")
WEIGHTS = FixedPoint.parse("s16f14,nearest_even,saturate")
UNIT = BlockUnit(
    linear=LinearUnit(tile=16, max_features=768, weight_tiles=576, feature_format=FEATURES, weight_format=WEIGHTS),
    memory_words=65536,
    max_rows=129,
    lists=16,
)
M3VIT = Experts(source=0, hidden=0, target=0, in_features=192, hidden_features=384)
"""An expert of M3ViT as Edge-MoE has it (arXiv 2305.18691): 192 to 384 and back; 129 tokens, 16 experts, 2 of them."""


def test_the_published_traffic_and_compute_cycles_follow() -> None:
    costs = compare_orders(UNIT, M3VIT, even_counts(129, 2, 16))
    token, expert = costs["token by token"], costs["expert by expert"]
    assert expert.weight_bits // 8 == 16 * 294_912 == 4_718_592
    assert token.weight_bits // 8 == 129 * 2 * 294_912 == 76_087_296
    assert expert.step_cycles == token.step_cycles == 148_608
    assert expert.load_cycles - 16 * 2 * (12 + 24) == 147_456
    # A layer is worked on while the next is loaded; what is longer decides, layer by layer.
    assert expert.cycles < 1.1 * 148_608
    assert token.cycles > 258 * 2 * 192 * 384 // 16


def test_an_expert_without_tokens_costs_nothing() -> None:
    some = expert_order_cost(UNIT, M3VIT, [5, 0, 9])
    assert some == expert_order_cost(UNIT, M3VIT, [0, 5, 0, 0, 9])
    assert some.loads == 2


def test_one_token_costs_the_same_in_both_orders() -> None:
    assert expert_order_cost(UNIT, M3VIT, [1, 1]) == token_order_cost(UNIT, M3VIT, 2)


def test_work_hides_the_loads_once_an_expert_has_more_tokens_than_the_tile_has_rows() -> None:
    few, many = (expert_order_cost(UNIT, M3VIT, [tokens] * 16) for tokens in (4, 40))
    assert few.utilisation < 0.3
    assert many.utilisation > 0.95


def test_even_counts_add_up() -> None:
    assert even_counts(129, 2, 16) == (17,) * 2 + (16,) * 14
    assert sum(even_counts(7, 3, 5)) == 21


def test_nothing_to_do_is_refused() -> None:
    with pytest.raises(InputError) as told:
        expert_order_cost(UNIT, M3VIT, [0, 0])
    assert str(told.value) == "counts must have a token for an expert, not [0, 0]; give what a gate chose"
    with pytest.raises(InputError) as told:
        token_order_cost(UNIT, M3VIT, 0)
    assert str(told.value) == "pairs must be at least 1, not 0; a token has top_k of them"
