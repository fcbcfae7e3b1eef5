"""Results as tables in a notebook."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from accel import load_architecture, load_cascade
from accel.html_table import html_table
from accel.workload import Workload
from mapping import front, passes, search

WORK = Workload(name="small", batch=1, heads=2, kv_heads=2, queries=32, keys=64, query_key_dim=8, value_dim=8)


def cells(html: str) -> list[list[str]]:
    rows = ET.fromstring(html).iter("tr")
    return [["".join(cell.itertext()) for cell in row] for row in rows]


def test_text_is_escaped_and_rows_have_heads() -> None:
    html = html_table("a < b", ("name", "value"), [("<script>", 1)])
    assert cells(html) == [["name", "value"], ["<script>", "1"]]
    assert "<script>" not in html
    assert '<th scope="row">' in html


def test_a_table_without_column_heads_has_no_head_row() -> None:
    assert cells(html_table("x", (), [("a", "b"), ("c", "d")])) == [["a", "b"], ["c", "d"]]


def test_a_search_shows_its_price_and_its_proof() -> None:
    found = search(load_cascade("attention-1pass"), load_architecture("fpga-8x8"), WORK)
    shown = dict(cells(found._repr_html_()))
    assert shown["latency"].startswith(f"{found.result.latency_cycles:,.0f} cycles")
    assert shown["proof"] == ("no schedule of the space is better" if found.optimal else shown["proof"])
    assert dict(cells(found.result._repr_html_())).items() <= shown.items()
    bars = re.findall(r"<rect [^>]*><title>(\w+): ([\d,]+) cycles</title>", found._repr_html_())
    cycles = {each.einsum: each.tile_cycles for each in found.result.einsums}
    assert len(bars) > 3
    assert all(cycles[name] == int(count.replace(",", "")) for name, count in bars)


def test_a_front_shows_each_schedule() -> None:
    found = front(load_cascade("attention-1pass"), load_architecture("fpga-8x8"), WORK)
    assert len(cells(found._repr_html_())) == len(found.results) + 1
    assert found._repr_html_().count("<circle") == len(found.results)


@pytest.mark.parametrize("name", ["attention-1pass", "attention-3pass"])
def test_passes_show_every_einsum_with_its_definition(name: str) -> None:
    cascade = load_cascade(name)
    analysis = passes(cascade, "m")
    rows = cells(analysis._repr_html_())[1:]
    assert [row[:2] for row in rows] == [[each.name, str(each.pass_number)] for each in analysis.einsums]
    assert {row[2] for row in rows} <= {str(each) for each in cascade.einsums}
