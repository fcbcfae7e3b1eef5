"""Messages about attention files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from accel.schedule import load_template
from tests.conftest import Finished
from tests.sim.test_attention_cli import ARRAY, REORDERED, WORK

Run = Callable[..., Finished]

ON_8X8 = ARRAY.replace("small.yaml", "fpga-attention-8x8")


def _write(folder: Path, text: str) -> Path:
    path = folder / "job.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"name: x\nworkload: {WORK}\n",
            "1:1: one core must be given, array or reordered, not none; add array: with its architecture",
        ),
        (
            ON_8X8 + REORDERED[REORDERED.index("reordered:") :],
            "10:1: one core must be given, array or reordered, not both; remove one of them",
        ),
        (
            ON_8X8 + "technologies: []\n",
            "10:1: technologies must name at least one cost table; see einrtl list technologies",
        ),
        (ON_8X8 + "seed: -1\n", "10:1: seed must be 0 or more, not -1"),
        (
            ON_8X8.replace("keys: 11", "keys: 17"),
            "2:66: keys must be at most the core's max_length (16), not 17; raise max_length",
        ),
        (
            ON_8X8.replace("value_dim: 4", "value_dim: 4, window: 3"),
            "2:108: window must be all 11 keys, as no core leaves any out, not 3; remove it",
        ),
        (
            REORDERED.replace("query_key_dim: 4", "query_key_dim: 8"),
            "2:76: query_key_dim must be the core's key_features (4), not 8; use key_features: 8",
        ),
    ],
)
def test_a_file_that_breaks_a_rule_is_refused(tmp_path: Path, einrtl: Run, text: str, message: str) -> None:
    path = _write(tmp_path, text)
    for command in (("sim", path), ("rtl", "attention", path, "-o", tmp_path / "out")):
        done = einrtl(*command)
        assert (done.code, done.err) == (2, f"error: {path}:{message}\n")
    assert not (tmp_path / "out").exists()


def test_a_reordered_unit_has_no_complete_design(tmp_path: Path, einrtl: Run) -> None:
    done = einrtl("rtl", "attention", _write(tmp_path, REORDERED), "--design", "-o", tmp_path / "out")
    assert (done.code, done.err) == (
        2,
        "error: a complete design must have an array, not a reordered unit; leave out --design\n",
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("fpga-attention-8x8", "fpga-8x8"),
            "architecture 'fpga-8x8' must have buffer.row_bits of one word (16), for the hardware counts words; start",
        ),
        (
            ("fpga-attention-8x8", "tpu-like"),
            None,
        ),
    ],
)
def test_an_architecture_that_counts_otherwise_is_refused(
    tmp_path: Path, einrtl: Run, change: tuple[str, str], message: str | None
) -> None:
    done = einrtl("sim", _write(tmp_path, ON_8X8.replace(*change)))
    assert done.code == 2
    assert done.err.startswith("error: architecture ") and "must have" in done.err
    assert message is None or done.err == f"error: {message} from fpga-attention-8x8\n"


def test_a_schedule_is_refused_that_the_core_cannot_follow(tmp_path: Path, einrtl: Run) -> None:
    path, saved = _write(tmp_path, ON_8X8), tmp_path / "found.yaml"
    assert (
        einrtl("map", path, "--arch", "fpga-attention-8x8", "--save", saved, "--budget", "5", "--points", "1").code == 0
    )
    done = einrtl("sim", path, "--schedule", saved)
    assert done.code == 2
    assert done.err.startswith(f"error: {saved}: plan must ")
    assert done.err.endswith("; map with --template spatial-array-1pass, the plan that the array can follow\n")


def test_a_schedule_for_another_machine_or_core_is_refused(tmp_path: Path, einrtl: Run) -> None:
    from accel import spec
    from accel.schedule import Schedule

    saved = tmp_path / "found.yaml"
    plan = load_template("spatial-array-1pass").plan
    schedule = Schedule(cascade="attention-1pass", architecture="edge", tiles={"m0": 4, "p1": 1, "p0": 4}, plan=plan)
    saved.write_text(spec.dump(schedule), encoding="utf-8")
    done = einrtl("sim", _write(tmp_path, ON_8X8), "--schedule", saved)
    wanted = f"error: {saved} must be for architecture 'fpga-attention-8x8', but is for 'edge'; map with --arch "
    assert (done.code, done.err) == (2, f"{wanted}fpga-attention-8x8\n")
    done = einrtl("sim", _write(tmp_path, REORDERED), "--schedule", saved)
    assert (done.code, done.err) == (
        2,
        "error: a schedule must be for an array, but the core is a reordered unit; leave out --schedule\n",
    )
    done = einrtl("sim", saved)
    assert (done.code, done.err) == (
        2,
        f"error: {saved} must be an attention file, not a schedule; give the schedule with --schedule\n",
    )
