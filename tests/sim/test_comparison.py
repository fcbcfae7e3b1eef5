"""All units on the same inputs: figures are those of direct computation, and the committed page has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rtl.registry import UNITS
from sim.comparison import (
    check_wishes,
    compare_activations,
    compare_weights,
    error_curves,
    length_section,
    load_published,
    random_scores,
    recorded_scores,
    unit_costs,
)
from sim.comparison.weights import measure_unit, unit_for, weight_units
from sim.golden.softmax import exact_softmax
from sim.golden.softmax_family import golden_rows
from tests.conftest import ROOT, Finished

PAGE = ROOT / "docs" / "units.md"
HEAD = ROOT / "examples" / "data" / "minilm-layer4-head9.npz"


def test_figures_of_the_default_softmax_are_those_computed_one_by_one() -> None:
    rows = random_scores(64, 5, 3)[1]
    unit = unit_for("softmax", 64)
    found = measure_unit("softmax", unit, rows)
    codes = unit.input_format.quantize(rows.scores)
    got = np.stack([unit.output_format.to_real(answer.codes[:64]) for answer in golden_rows(unit, list(codes))])
    exact = exact_softmax(unit.input_format.to_real(codes))
    assert found.max_error == pytest.approx(np.abs(got - exact).max(), rel=1e-9)
    assert found.mean_error == pytest.approx(np.abs(got - exact).mean(), rel=1e-9)
    assert found.row_sum_error == pytest.approx(np.abs(got.sum(axis=1) - 1).max(), abs=1e-12)
    real, q = exact_softmax(rows.scores), got / got.sum(axis=1, keepdims=True)
    divergence = [sum(b * np.log(b / a) for a, b in zip(p, w, strict=True) if b) for p, w in zip(real, q, strict=True)]
    assert found.kl_nats == pytest.approx(np.mean(divergence), rel=1e-6)
    assert found.max_error < unit.max_error


def test_every_unit_of_the_two_kinds_is_compared_and_has_its_cost() -> None:
    costs = {each.unit: each for each in unit_costs()}
    named = {name for name, entry in UNITS.items() if entry.contract(entry.default).family in ("activation", "softmax")}
    closed = {name for name, entry in UNITS.items() if entry.contract(entry.default).family == "closed-activation"}
    assert (named | closed) - {"block-skip"} <= set(costs)
    for each in costs.values():
        assert each.lut_count and each.fmax_mhz and each.lut_count > 0, each.unit


def test_random_scores_of_a_set_do_not_depend_on_the_others() -> None:
    alone, among = random_scores(32, 2, 7), random_scores(32, 4, 7)
    for one, other in zip(alone, among, strict=True):
        assert np.array_equal(one.scores, other.scores[:2])
    assert [each.scores.std() > 0.5 for each in among] == [True] * 3


def test_a_wish_that_is_not_met_says_so() -> None:
    costs = unit_costs()
    measured = [measure_unit("softmax", unit_for("softmax", 1024), random_scores(1024, 2, 1)[0])]
    activations = compare_activations(error_curves())
    assert all(wish.met for wish in check_wishes(measured, costs, activations))
    large = [replace(each, lut_count=1e6) if each.unit == "softmax" else each for each in costs]
    wide = [replace(measured[0], row_sum_error=0.5)]
    assert [wish.met for wish in check_wishes(wide, large, activations)].count(False) == 2


def test_the_committed_page_has_the_figures_of_the_shortest_rows_and_of_the_recorded_head() -> None:
    text = PAGE.read_text(encoding="utf-8")
    figures = compare_weights(random_scores(128, 64, 1))
    assert length_section(figures) in text
    assert length_section(compare_weights([recorded_scores(HEAD)])) in text
    for figure in load_published():
        assert figure.source in text
    for each in unit_costs():
        assert f"| {each.unit} |" in text


def test_the_command_writes_a_page_with_pictures_and_json(einrtl: Callable[..., Finished], tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    finished = einrtl("compare", "units", "--length", "16", "--rows", "2", "-o", page, "--json")
    assert finished.code in (0, 1)
    assert '"wishes"' in finished.out
    assert len(list((tmp_path / "pictures").glob("units-*.png"))) == 4
    assert {each.unit for each in unit_costs()} >= set(weight_units())
    assert "einrtl compare units --length 16 --rows 2 --seed 1 -o" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--rows", "0"), "error: rows must be from 1 to 100000, not 0\n"),
        (("--length", "0"), "error: length must be from 1 to 65536, not 0\n"),
        (("--seed", "-1"), "error: seed must be at least 0, not -1\n"),
        (("-o", "page.html"), "error: the page must be a .md file, not 'page.html'; use page.md\n"),
        (
            ("--scores", "none.npz"),
            "error: none.npz must be a readable array file: No such file or directory; check the path\n",
        ),
    ],
)
def test_wrong_options_are_named(words: tuple[str, ...], message: str, einrtl: Callable[..., Finished]) -> None:
    finished = einrtl("compare", "units", "--length", "16", *words)
    assert (finished.code, finished.out, finished.err) == (2, "", message)
