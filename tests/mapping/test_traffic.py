"""Traffic as a function of the buffer: formulas, and a count block by block that shares nothing with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.cascade import load_cascade
from accel.notation import parse
from accel.zoo import load_zoo
from mapping.traffic import TrafficPlan, least_traffic, traffic_plans

SIZES = {"P": 1024, "M": 1024, "E": 64, "F": 64, "M0": 128}


def plans(name: str, rank: str = "m") -> dict[str, TrafficPlan]:
    return {plan.strategy: plan for plan in traffic_plans(load_cascade(name), rank)}


def test_the_one_pass_form_hands_nothing_over_and_its_buffer_does_not_grow_with_the_keys() -> None:
    (plan,) = plans("attention-1pass").values()
    assert plan.formula == "E*P + F*P + (E*M + F*M)*ceil(P/R)"
    assert "M)" not in plan.rows_formula and "+ M " not in plan.rows_formula


def test_the_three_pass_form_pays_in_buffer_in_scores_or_in_keys() -> None:
    found = plans("attention-3pass")
    assert {name: plan.formula for name, plan in found.items()} == {
        "keep": "E*P + F*P + (E*M + F*M)*ceil(P/R)",
        "spill": "E*P + F*P + 4*M*P + (E*M + F*M)*ceil(P/R)",
        "remake": "E*P + F*P + (3*E*M + F*M)*ceil(P/R)",
    }
    assert found["keep"].rows_formula == "floor((B - (E + F)) / (E + F + M + 5))"
    assert found["spill"].rows_formula == "floor((B - (E + F)) / (E + F + 5))"


def test_stand_alone_softmax_moves_what_the_literature_counts() -> None:
    # Milakov and Gimelshein, arXiv 1805.02867: 4 accesses an element for safe softmax, 3 for online softmax.
    assert plans("softmax-3pass")["remake"].formula == "4*M*P"
    assert plans("online-softmax")["remake"].formula == "3*M*P"
    assert plans("softmax-3pass")["keep"].formula == "2*M*P"


def test_keys_of_a_head_are_fetched_for_each_block_of_its_queries() -> None:
    text = "cascade x\ninput X[h,p,m] V[h,m,f]\nW[h,p,m] = exp(X[h,p,m])\nO[h,p,f] = W[h,p,m] * V[h,m,f]\n"
    (plan,) = traffic_plans(parse(text), "m")
    assert plan.rows == ("h", "p")
    assert plan.formula == "F*H*P + H*M*P + (F*H*M)*ceil(P/R)"


def test_a_state_that_serves_all_queries_needs_the_keys_once() -> None:
    (plan,) = plans("cosformer").values()
    assert plan.rows == ()
    assert plan.formula == "E*M + E*P + F*M + F*P"


@pytest.mark.parametrize("name", list(load_zoo().entries))
def test_more_buffer_never_costs_more_and_the_end_is_each_tensor_once(name: str) -> None:
    entry = load_zoo().entries[name]
    cascade = next(iter(entry.forms.values()))
    sizes = cascade.sizes(
        dict.fromkeys(cascade.symbols, 4) | {"M": 16, "V": 16}
        if cascade.partitions
        else dict.fromkeys(cascade.symbols, 4)
    )
    for plan in traffic_plans(cascade, entry.rank):
        moved = [plan.words(sizes, words) for words in range(plan.full_buffer_words(sizes) + 1)]
        known = [words for words in moved if words is not None]
        assert moved[: plan.least_buffer_words(sizes)] == [None] * plan.least_buffer_words(sizes)
        assert known == sorted(known, reverse=True)
    keep = traffic_plans(cascade, entry.rank)[0]
    tensors = {tensor.name: tensor for tensor in cascade.inputs} | {n: cascade.tensors[n] for n in cascade.outputs}
    whole = 0
    for tensor in tensors.values():
        words = 1
        for symbol in cascade.merged_symbols(tensor.ranks):
            words *= sizes[symbol]
        whole += words
    assert keep.words(sizes, keep.full_buffer_words(sizes)) == whole


@settings(max_examples=60)
@given(
    p=st.integers(1, 40), m=st.integers(1, 40), e=st.integers(1, 8), f=st.integers(1, 8), buffer=st.integers(10, 3000)
)
def test_the_formula_counts_what_blocks_of_rows_fetch_one_by_one(p: int, m: int, e: int, f: int, buffer: int) -> None:
    sizes = {"P": p, "M": m, "E": e, "F": f}
    for strategy, plan in plans("attention-3pass").items():
        rows = (buffer - e - f) // (e + f + 5 + (m if strategy == "keep" else 0))
        if rows < 1:
            assert plan.words(sizes, buffer) is None
            continue
        moved = 0
        for start in range(0, p, min(rows, p)):
            block = min(rows, p - start)
            moved += block * e + block * f + m * f  # queries in, results out, values
            moved += {"keep": 1, "spill": 1, "remake": 3}[strategy] * m * e
            moved += 4 * m * block if strategy == "spill" else 0
        assert plan.words(sizes, buffer) == moved


def test_the_least_traffic_changes_its_strategy_with_the_buffer() -> None:
    cascade = load_cascade("attention-3pass")
    chosen = [least_traffic(cascade, "m", SIZES, 1 << power)[0].strategy for power in (9, 14, 18, 21)]
    assert chosen == ["spill", "remake", "remake", "keep"]


def test_the_command_prints_formulas_and_a_table(einrtl: Callable[..., Any]) -> None:
    out = einrtl("passes", "attention-3pass", "--traffic", "--size", "P=1024,M=1024,E=64,F=64").out
    assert "E*P + F*P + (3*E*M + F*M)*ceil(P/R)   R = floor((B - (E + F)) / (E + F + 5))" in out
    assert "Least" in out
    assert "Sizes (--size) put numbers to it." in einrtl("passes", "attention-1pass", "--traffic").out


def test_the_command_prints_traffic_as_json(einrtl: Callable[..., Any]) -> None:
    done = einrtl("passes", "attention-1pass", "--traffic", "--json", "--size", "P=64,M=64,E=8,F=8,M0=8")
    (plan,) = json.loads(done.out)["traffic"]
    assert plan["strategy"] == "keep"
    assert plan["points"][-1]["words"] == 4 * 64 * 8
