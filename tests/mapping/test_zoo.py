"""The taxonomy of the packaged cascades: pass counts against the literature, state, operations, and its page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accel.cascade import load_cascade
from accel.zoo import load_zoo
from mapping.characteristics import operations_per_score, state_words
from mapping.listings import cascades, source
from mapping.passes import passes

ZOO = load_zoo()
DIFFER = {("soft", "contracted"): 3, ("top-k-softmax", "contracted"): 2, ("product-key-memory", "contracted"): 2}
PUBLISHED = [
    (name, form, DIFFER.get((name, form), getattr(entry.literature, form)))
    for name, entry in ZOO.entries.items()
    for form in entry.forms
    if getattr(entry.literature, form) is not None
]


@pytest.mark.parametrize(("name", "form", "number"), PUBLISHED)
def test_a_form_has_the_passes_of_the_literature(name: str, form: str, number: int) -> None:
    entry = ZOO.entries[name]
    assert passes(entry.forms[form], entry.rank).passes == number


def test_where_the_count_differs_a_note_says_why() -> None:
    assert len(PUBLISHED) > 100
    for name, form in DIFFER:
        assert getattr(ZOO.entries[name].literature, form) != DIFFER[name, form]
        assert ZOO.entries[name].note


@pytest.mark.parametrize(
    ("name", "score", "words"),
    [
        ("attention-1pass", "BQK", "F + 2"),
        ("online-softmax", "X", "2"),
        ("sigmoid-attention", "X", "F"),
        ("self-adjust-normalised", "X", "2*F + 4"),
        ("cosformer", "K", "2*E + 2*E*F"),
        ("gated-slot-attention", "U", "E*S + S*F"),
        ("sparsemax", "X", "F + J"),
    ],
)
def test_the_state_of_a_row_does_not_grow_with_the_keys(name: str, score: str, words: str) -> None:
    assert state_words(load_cascade(name), "m", score) == words


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("online-attention", {"exp": 1, "add": 2, "max": 1}),
        ("edge-moe-softmax", {"exp": 2, "mul": 1, "add": 3, "max": 1}),  # a correction for every score
        ("relu-attention", {"max": 1}),
        ("bivit", {"add": 1, "max": 1, "compare": 1, "select": 1}),
        ("top-k-softmax", {"exp": 1, "add": 2, "compare": 1, "top": 1, "select": 1}),
    ],
)
def test_operations_of_a_score_leave_products_and_tiles_out(name: str, expected: dict[str, int]) -> None:
    found = operations_per_score(load_cascade(name), "X")
    assert {key: count for key, count in found.items() if count} == expected
    assert {"exp", "mul", "add", "max", "div", "compare"} <= set(found)


def test_sources_end_with_their_sentence_not_with_an_initial() -> None:
    assert source("online-softmax") == "M. Milakov and N. Gimelshein, arXiv 1805.02867, here by tiles of M0 keys"
    assert source("softpick") == ("Z. Zuhri, E. Fuadi and A. Aji, arXiv 2504.20966; code zaydzuhri/softpick-attention")


def test_the_listing_gives_plain_objects(einrtl: Callable[..., Any]) -> None:
    rows = json.loads(einrtl("list", "cascades", "--json").out)
    assert len(rows) == len(ZOO.entries)
    row = next(each for each in rows if each["name"] == "softpick")
    assert (row["passes_contracted"], row["passes_materialised"], row["state"]) == (1, 2, "F + 2")
    assert row["operations_per_score"]["exp"] == 2
    assert row["source"].startswith("Z. Zuhri")
    assert row["template"] == "exp-normalised"


def test_the_page_of_the_zoo_is_current(einrtl: Callable[..., Any]) -> None:
    page = Path(__file__).parents[2] / "docs" / "zoo.md"
    assert einrtl("zoo").out == page.read_text(encoding="utf-8"), "run: einrtl zoo > docs/zoo.md"


def test_the_page_lists_every_cascade_and_everything_left_out() -> None:
    page = (Path(__file__).parents[2] / "docs" / "zoo.md").read_text(encoding="utf-8")
    assert all(f"\n| {row['name']} |" in page for row in cascades())
    assert all(each.name in page for each in ZOO.left_out)
