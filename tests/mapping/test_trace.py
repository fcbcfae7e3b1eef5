"""Traces of schedules: valid trace events, at the times that the model says."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from accel.errors import InputError
from accel.result import Result
from mapping.timeline import epoch_bars
from mapping.trace import trace_events, write_trace
from tests.mapping.test_plot import RESULTS


@pytest.mark.parametrize("result", RESULTS)
def test_events_of_a_thread_follow_each_other_at_the_times_of_their_epochs(result: Result) -> None:
    trace = trace_events(result, epochs=6)
    threads: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            args = event["args"]
            assert event["ts"] == pytest.approx(args["begin_cycle"] / result.clock_hz * 1e6)
            assert event["dur"] == pytest.approx(args["cycles"] / result.clock_hz * 1e6)
            assert args["tile"] == args["epoch"] - result.schedule.plan.offsets[event["name"]] >= 0
            threads.setdefault((event["pid"], event["tid"]), []).append(
                (args["begin_cycle"], args["begin_cycle"] + args["cycles"])
            )
    for spans in threads.values():
        ordered = sorted(spans)
        assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(ordered))
        assert ordered[-1][1] <= 6 * result.epoch_cycles


def test_every_bar_of_the_last_epoch_and_every_array_is_named() -> None:
    result = RESULTS[0]
    trace = trace_events(result, epochs=5)
    last = [event for event in trace["traceEvents"] if event["ph"] == "X" and event["args"]["epoch"] == 4]
    assert sorted(event["name"] for event in last) == sorted(bar.einsum for bar in epoch_bars(result))
    named = {event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "process_name"}
    assert named == {f"array {use.array}" for use in result.arrays}


def test_a_trace_is_written_as_strict_json(tmp_path: Path) -> None:
    write_trace(RESULTS[0], tmp_path / "t.json", epochs=3)
    text = (tmp_path / "t.json").read_text(encoding="utf-8")
    assert json.loads(text) == json.loads(json.dumps(trace_events(RESULTS[0], epochs=3)))


@pytest.mark.parametrize(
    ("name", "epochs", "message"),
    [
        ("t.txt", 3, "the trace must be a .json file, not 't.txt'; use t.json"),
        ("no/t.json", 3, "no/t.json must be writable: No such file or directory; check the folder"),
        ("t.json", 0, "a trace must show 1 to 10000 epochs, not 0; use 8"),
        ("t.json", 10_001, "a trace must show 1 to 10000 epochs, not 10001; use 8"),
    ],
)
def test_a_trace_that_cannot_be_is_refused(
    name: str, epochs: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        write_trace(RESULTS[0], name, epochs)
    assert str(caught.value) == message
