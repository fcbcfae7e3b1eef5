"""``einrtl run``: the whole thread on the shipped example, and that it fails when anything is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sim.cli.run
import sim.flow
from accel import spec
from accel.errors import EinRTLError
from accel.schedule import Schedule
from accel.softmax_unit import SoftmaxUnit
from sim.golden import softmax as golden
from tests.conftest import ROOT, Finished

EXAMPLE = ROOT / "examples" / "minilm.yaml"

Command = Callable[..., Finished]


@pytest.fixture
def run_small(einrtl: Command, simulators: Path, small_run: Path, tmp_path: Path) -> Command:
    """Return a function that runs a run of 16 tokens into ``tmp_path / "out"``."""

    def run(*options: str) -> Finished:
        return einrtl("run", small_run, "-o", tmp_path / "out", "--build-dir", simulators, *options)

    return run


@pytest.fixture
def run_example(einrtl: Command, simulators: Path, tmp_path: Path) -> Command:
    """Return a function that runs the example into ``tmp_path / "out"``."""

    def run(*options: str) -> Finished:
        return einrtl("run", EXAMPLE, "-o", tmp_path / "out", "--build-dir", simulators, *options)

    return run


def test_the_example_is_verified_and_its_report_is_complete(run_example: Command, tmp_path: Path) -> None:
    first = run_example()
    assert first.code == 0
    assert first.out.splitlines()[-1].startswith("Verified: ")
    assert "[9/9] write the report" in first.err
    out = tmp_path / "out"
    assert sorted(path.name for path in out.iterdir()) == [
        "report.html",
        "report.md",
        "result.json",
        "schedule-fpga-8x8.png",
        "schedule-fpga-8x8.yaml",
        "schedule.png",
        "schedule.yaml",
        "softmax.json",
        "softmax.v",
    ]
    result = json.loads((out / "result.json").read_text())
    assert result["holds"] is True
    assert [(each["cascade"], each["passes"]) for each in result["cascades"]] == [
        ("attention-3pass", 3),
        ("attention-3pass-deferred", 2),
        ("attention-1pass", 1),
    ]
    softmax = result["softmax"]
    assert softmax["predicted_cycles"] == softmax["measured_cycles"]
    assert softmax["accuracy"]["max_error"] < 5e-5
    assert softmax["accuracy"]["argmax_agreement"] == 1.0
    report = (out / "report.md").read_text()
    assert report.startswith("# minilm: every comparison holds")
    assert all(name in report for name in ("fusemax-cloud", "fpga-8x8", "attention-1pass", "free-running"))
    saved = spec.load(Schedule, out / "schedule.yaml")
    assert saved.architecture == "fusemax-cloud"
    # The same input gives the same bytes, and a second run replaces the first result.
    verilog, sidecar = (out / "softmax.v").read_bytes(), (out / "softmax.json").read_bytes()
    second = run_example("--json")
    assert second.code == 0
    assert json.loads(second.out)["softmax"]["measured_cycles"] == softmax["measured_cycles"]
    assert ((out / "softmax.v").read_bytes(), (out / "softmax.json").read_bytes()) == (verilog, sidecar)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_broken_golden_model_is_named_and_fails_the_run(
    run_small: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = golden.softmax

    def broken(unit: SoftmaxUnit, rows: Sequence[np.ndarray]) -> golden.GoldenSoftmax:
        right = original(unit, rows)
        weights = [row.copy() for row in right.weights]
        weights[5][7] += 1
        return replace(right, weights=tuple(weights))

    monkeypatch.setattr(golden, "softmax", broken)
    finished = run_small()
    assert finished.code == 1
    last = finished.out.splitlines()[-1]
    assert last.startswith("FAILED: bits, free-running: row 5, index 7: expected ")
    assert last.endswith(f"cycle {6 * 16 - 1 + 28 + 7}")  # the last beat of row 5, the latency, beat 7
    assert "a comparison FAILS" in (tmp_path / "out" / "report.md").read_text()
    assert json.loads((tmp_path / "out" / "result.json").read_text())["holds"] is False


def test_a_broken_cycle_model_fails_the_run(run_small: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    original = golden.row_times
    monkeypatch.setattr(golden, "row_times", lambda unit, lengths, latency: original(unit, lengths, latency + 1))
    finished = run_small()
    assert finished.code == 1
    assert "FAILED: cycles, free-running: output beat 0 (row 0): expected in cycle" in finished.out


def test_broken_action_counts_fail_the_run(run_small: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    original = golden.softmax

    def broken(unit: SoftmaxUnit, rows: Sequence[np.ndarray]) -> golden.GoldenSoftmax:
        right = original(unit, rows)
        return replace(right, actions={**right.actions, "rescale": right.actions["rescale"] + 1})

    monkeypatch.setattr(golden, "softmax", broken)
    finished = run_small()
    assert finished.code == 1
    assert "FAILED: actions, free-running: action rescale: expected" in finished.out


@pytest.mark.parametrize(
    ("failure", "code"), [(KeyboardInterrupt(), 130), (EinRTLError("something is wrong"), 2)], ids=["Ctrl-C", "error"]
)
def test_a_run_that_does_not_finish_leaves_nothing(
    run_small: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException, code: int
) -> None:
    def interrupted(outcome: object, folder: Path, command: str) -> None:
        (folder / "report.md").write_text("half")
        raise failure

    monkeypatch.setattr(sim.cli.run, "write_report", interrupted)
    finished = run_small()
    assert finished.code == code
    assert not (tmp_path / "out").exists()
    assert list(tmp_path.glob(".out*")) == []
