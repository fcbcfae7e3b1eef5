"""The HTML report of a run, in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser import open_page

SECTIONS = (
    "Checks",
    "Cascades and their passes",
    "Schedules",
    "Use of the arrays",
    "Roofline",
    "Energy",
    "Error of the softmax",
    "Beats at the ports",
    "Where each number comes from",
    "Make this page again",
)


def test_a_run_writes_one_page_that_a_browser_shows_whole(
    small_run: Path, tmp_path: Path, simulators: Path, einrtl: Callable[..., Any]
) -> None:
    done = einrtl("run", small_run, "-o", tmp_path / "out", "--build-dir", simulators)
    assert done.code == 0, done.err
    path = tmp_path / "out" / "report.html"
    assert f"Report: {path} and" in done.out
    text = path.read_text(encoding="utf-8")
    for section in SECTIONS:
        assert f"<h2>{section}</h2>" in text
    assert "verdict good" in text
    assert "free-running" in text
    assert "back-pressure" in text
    assert text.count('<svg class="chart"') >= 6
    assert not [part for part in ('src="', "url(http", '<link rel="stylesheet"') if part in text]

    opened = open_page(path, tmp_path)
    assert opened.console == ()
    assert opened.html.count("<table") >= 8
    assert opened.html.count('class="slice') >= 6


def test_waveforms_are_recorded_on_request(
    small_run: Path, tmp_path: Path, simulators: Path, einrtl: Callable[..., Any]
) -> None:
    waves = tmp_path / "small.vcd"
    done = einrtl("run", small_run, "-o", tmp_path / "out", "--build-dir", simulators, "--waves", waves)
    assert done.code == 0, done.err
    text = waves.read_text(encoding="utf-8")
    assert "$enddefinitions" in text
    assert " s_axis_tvalid $end" in text
    assert " m_axis_tdata" in text


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("waves.txt", "error: waveforms must go to a .vcd or .fst file, not 'waves.txt'; rename it\n"),
        ("nowhere/w.vcd", "error: nowhere/w.vcd must be in a folder, but nowhere is none; make it first\n"),
    ],
)
def test_a_file_for_waveforms_is_checked_before_the_work(
    name: str,
    message: str,
    small_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    einrtl: Callable[..., Any],
) -> None:
    monkeypatch.chdir(tmp_path)
    done = einrtl("run", small_run, "-o", "out", "--waves", name)
    assert (done.code, done.err.splitlines()[-1] + "\n") == (2, message)
