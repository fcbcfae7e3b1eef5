"""The HTML report of a sweep."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from accel.sweep import Measure
from mapping.sweep.export import MEASURE_LABELS
from mapping.sweep.page import sweep_page
from tests.browser import open_page

SWEEP = """\
name: tiny
architectures:
  - base: fpga-8x8
    vary:
      - fields: [buffer.size_bits]
        values: [131072, 262144]
workloads:
  - {{model: {model}, batches: [1], lengths: [64]}}
minimise: [latency_s, energy_pj]
"""
MODEL = Path(__file__).parents[2] / "examples" / "models" / "all-MiniLM-L6-v2" / "config.json"


def row(**changes: object) -> dict[str, Any]:
    values = {"model": "m", "batch": 1, "queries": 8, "keys": 8, "cascade": "c", "architecture": "a", "objective": "o"}
    results = {"status": "done", "latency_s": 1e-3, "energy_pj": 2e9, "limited_by": "2d", "tiles": '{"m0": 8}'}
    return {**values, **results, "settings": {}, "on_front": True, "reason": None, **changes}


def show(*rows: dict[str, Any], asked: int) -> str:
    measures = (Measure.LATENCY_S, Measure.ENERGY_PJ)
    return sweep_page("s", rows, measures, asked=asked, database=Path("s.sqlite"), command="einrtl sweep s.yaml")


def test_every_measure_has_a_label() -> None:
    assert set(MEASURE_LABELS) == set(Measure)


def test_a_finished_sweep_is_good_news() -> None:
    text = show(row(), row(on_front=False, latency_s=2e-3), asked=2)
    assert "verdict good" in text
    assert "2 of 2 designs scheduled" in text
    assert "latency (ms): 1" in text


def test_failures_and_what_is_left_are_said_first() -> None:
    text = show(row(), row(status="failed", reason="the buffer is too small", on_front=False), asked=4)
    assert "1 of 4 designs scheduled, 1 failed, 2 still to do" in text
    assert "the buffer is too small" in text
    assert "verdict good" not in text


def test_a_sweep_writes_its_page_beside_its_database(
    tmp_path: Path, monkeypatch: Any, einrtl: Callable[..., Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(SWEEP.format(model=MODEL), encoding="utf-8")
    done = einrtl("sweep", "tiny.yaml", "--workers", "0")
    assert done.code == 0, done.err
    assert "Wrote tiny.html" in done.out
    opened = open_page(tmp_path / "tiny.html", tmp_path)
    assert opened.console == ()
    assert "2 of 2 designs scheduled" in opened.html

    shown = einrtl("sweep", "--show", "tiny.sqlite", "--report", "other.html")
    assert (shown.code, Path("other.html").exists()) == (0, True)


def test_a_page_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: Any, einrtl: Callable[..., Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(SWEEP.format(model=MODEL), encoding="utf-8")
    done = einrtl("sweep", "tiny.yaml", "--report", "nowhere/page.html")
    assert (done.code, done.err) == (
        2,
        "error: nowhere/page.html must be in a folder, but nowhere is none; make it first\n",
    )
    assert not Path("tiny.sqlite").exists()
