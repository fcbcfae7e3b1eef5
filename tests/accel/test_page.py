"""Pages: charts, tables and timelines as HTML that opens anywhere."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from accel.page import (
    Lane,
    Point,
    Section,
    Series,
    Slice,
    Track,
    bars,
    lines,
    page,
    scatter,
    table,
    timeline,
    transfers,
)
from accel.page.axis import Axis, fit_axis, short
from tests.browser import open_page


def whole(body: str = "<p>x</p>", **changes: object) -> str:
    section = Section(title="A part: first", body=body, source="here")
    arguments: dict[str, object] = {
        "title": "Title <b>",
        "verdict": "Right & good",
        "good": True,
        "summary": (("name", "1 < 2"),),
        "command": "einrtl run 'a b.yaml'",
        "sections": (section,),
    }
    return page(**{**arguments, **changes})  # type: ignore[arg-type]


def test_text_is_escaped_everywhere_but_in_bodies() -> None:
    text = whole()
    assert "Title &lt;b&gt;" in text
    assert "Right &amp; good" in text
    assert "1 &lt; 2" in text
    assert "<p>x</p>" in text
    assert 'href="#a-part-first"' in text
    assert 'id="a-part-first"' in text


@pytest.mark.parametrize(("good", "style"), [(True, "verdict good"), (False, "verdict bad"), (None, '"verdict"')])
def test_the_verdict_shows_in_words_sign_and_colour(good: bool | None, style: str) -> None:
    assert style in whole(good=good)


def test_a_page_asks_for_nothing_outside_itself() -> None:
    text = whole()
    assert "default-src 'none'" in text
    assert "http" not in text.replace("http-equiv", "")


def test_bars_are_as_long_as_their_values() -> None:
    drawn = ET.fromstring(bars("title", [("a", 1.0, "one"), ("b <", 4.0, "four"), ("c", 0.0, "none")]))
    widths = [float(each.attrib["width"]) for each in drawn.iter() if each.tag.endswith("rect")]
    assert widths[1] == pytest.approx(4 * widths[0], abs=0.2)
    assert widths[2] == 1.0
    assert "b <" in "".join(drawn.itertext())


def test_no_bar_is_no_error() -> None:
    ET.fromstring(bars("title", []))


def test_points_stand_where_their_values_are_and_differ_in_shape() -> None:
    series = (
        Series(name="first", points=(Point(x=1, y=1, title="<p>"), Point(x=100, y=10_000))),
        Series(name="second", points=(Point(x=10, y=100),), joined=True, dashed=True),
    )
    drawn, legend = scatter("title", series, x="time (s)", y="energy (J)").split('<ul class="legend">')
    root = ET.fromstring(drawn)
    circles = [each for each in root.iter() if each.tag.endswith("circle")]
    squares = [each for each in root.iter() if each.tag.endswith("rect") and each.attrib["class"] == "f1"]
    across = [float(each.attrib["cx"]) for each in circles]
    assert float(squares[0].attrib["x"]) + 4.5 == pytest.approx(sum(across) / 2, abs=0.1)
    assert "<p>" in "".join(root.itertext())
    assert "first" in legend
    assert "second" in legend


def test_a_line_leaves_no_chart() -> None:
    axes = Axis(label="x", low=0, high=1), Axis(label="y", low=0, high=1)
    drawn = lines("t", (Series(name="n", points=(Point(x=-5, y=9), Point(x=5, y=0.5)), joined=True),), *axes)
    root = ET.fromstring(drawn[: drawn.index("<ul")])
    path = next(each for each in root.iter() if each.tag.endswith("polyline")).attrib["points"]
    assert path == "74.0,14.0 704.0,162.0"


@pytest.mark.parametrize(
    ("axis", "expected"),
    [
        (Axis(label="", low=0, high=100), [0, 20, 40, 60, 80, 100]),
        (Axis(label="", low=-0.3, high=0.3), [-0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3]),
        (Axis(label="", low=1e-6, high=1, log=True), [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1]),
        (Axis(label="", low=2, high=30, log=True), [2, 5, 10, 20]),
    ],
)
def test_ticks_are_round_numbers(axis: Axis, expected: list[float]) -> None:
    assert axis.ticks() == pytest.approx(expected)


@pytest.mark.parametrize("values", [[], [0.0], [5.0], [-1.0, 1.0], [1e-300, 1e300], [float("inf"), 2.0]])
@pytest.mark.parametrize("log", [False, True])
def test_every_set_of_values_has_an_axis_with_ticks_on_it(values: list[float], log: bool) -> None:
    axis = fit_axis("x", values, log=log)
    assert axis.low < axis.high
    assert axis.ticks()
    assert all(-1e-9 <= axis.place(tick) <= 1 + 1e-9 for tick in axis.ticks())


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.25, "0.25"), (20_000, "20,000"), (1e-7, "1e-7"), (2.5e9, "2.5e9"), (1e6, "1e6")]
)
def test_ticks_are_short(value: float, text: str) -> None:
    assert short(value) == text


def test_a_timeline_has_its_slices_in_place() -> None:
    drawn = timeline("t", [Lane(name="2d", slices=(Slice(name="A", begin=0, end=30, title="A & B", colour=8),))])
    assert 'style="left:0.0000%;width:100.0000%"' in drawn
    assert "slice b1" in drawn
    assert "A &amp; B" in drawn


def test_transfers_outside_the_stretch_are_left_out() -> None:
    drawn = transfers("t", [Track(name="in", beats=((3, "7"), (9, "8")))], first=0, cycles=8)
    assert "cycle 3: 7" in drawn
    assert "cycle 9" not in drawn


def test_a_browser_loads_sorts_and_zooms_without_a_complaint(tmp_path: Path) -> None:
    shown = table("numbers", ("name", "count"), [("b", "1,000"), ("a", "20"), ("c", "3")], numbers=(1,))
    lane = Lane(name="2d", slices=(Slice(name="A", begin=0, end=10, title="A", colour=0),))
    path = tmp_path / "page.html"
    path.write_text(whole(shown + timeline("t", [lane])), encoding="utf-8")
    script = """
      document.querySelectorAll('th button')[1].click();
      const zoom = document.querySelector('.zoom input'); zoom.value = 4; zoom.dispatchEvent(new Event('input'));
    """
    opened = open_page(path, tmp_path, script=script)
    assert opened.console == ()
    assert opened.html.index(">3<") < opened.html.index(">20<") < opened.html.index(">1,000<")
    assert 'class="lanes" style="width: 400%;"' in opened.html


def test_the_browser_reports_an_error_if_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(whole(), encoding="utf-8")
    assert open_page(path, tmp_path, script="nothing.here()").console != ()
