"""Comparison finds what differs first, and says where, what was expected, what came, and when."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from accel.numerics import FixedPoint
from accel.softmax_unit import SoftmaxUnit
from sim.compare import Comparison, compare
from sim.cosim import Observation, Scenario
from sim.golden import softmax as golden

UNIT = SoftmaxUnit(
    max_length=8,
    lanes=2,
    input_format=FixedPoint.parse("s16f10,nearest_even,saturate"),
    output_format=FixedPoint.parse("u16f16,nearest_up,saturate"),
)
LENGTHS = (8, 3, 1, 5)
LATENCY = 11
ROWS = [np.arange(length, dtype=np.int64) * 512 for length in LENGTHS]
GOLDEN = golden.softmax(UNIT, ROWS)
TIMES = golden.row_times(UNIT, LENGTHS, LATENCY)
QUIET = Scenario(name="free-running", source_pause_probability=0, sink_pause_probability=0, seed=0)


def perfect() -> Observation:
    """What a correct unit shows."""
    out = [np.arange(a, b + 1) for a, b in zip(TIMES.first_out, TIMES.last_out, strict=True)]
    return Observation(
        scenario=QUIET,
        rows=GOLDEN.weights,
        in_cycles=np.arange(TIMES.last_in[-1] + 1),
        out_cycles=np.concatenate(out),
        actions=dict(GOLDEN.actions),
        overrun=False,
    )


def results(seen: Observation) -> dict[str, Comparison]:
    """The comparisons by kind."""
    return {result.name.split(",")[0]: result for result in compare(UNIT, LENGTHS, GOLDEN, TIMES, [seen])}


def test_a_perfect_run_holds_in_every_comparison() -> None:
    found = results(perfect())
    assert set(found) == {"bits", "cycles", "actions"}
    assert all(result.holds and result.first_difference is None for result in found.values())


def test_cycles_are_not_compared_where_ports_wait() -> None:
    waiting = replace(perfect(), scenario=replace(QUIET, sink_pause_probability=0.5))
    assert set(results(waiting)) == {"bits", "actions"}


def with_code(row: int, index: int, delta: int) -> tuple[np.ndarray, ...]:
    """The right rows but for one code."""
    rows = [weights.copy() for weights in GOLDEN.weights]
    rows[row][index] += delta
    return tuple(rows)


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (
            {"rows": with_code(1, 2, 5)},
            "bits",
            (
                f"row 1, index 2: expected {GOLDEN.weights[1][2]}, got {GOLDEN.weights[1][2] + 5}, "
                f"cycle {TIMES.first_out[1] + 1}"
            ),
        ),
        ({"rows": GOLDEN.weights[:3]}, "bits", "row 3: expected 5 weights, got none"),
        (
            {"rows": (*GOLDEN.weights[:3], GOLDEN.weights[3][:4])},
            "bits",
            f"row 3: expected 5 weights, got 4, cycle {TIMES.first_out[3]}",
        ),
        (
            {"out_cycles": np.append(perfect().out_cycles, 99)},
            "bits",
            "after the last row: expected 10 beats in all, got 11, cycle 99",
        ),
        ({"overrun": True}, "bits", "overrun: expected 0, got 1, although no row is longer than max_length"),
        (
            {"out_cycles": perfect().out_cycles + np.array([0, 0, 0, 0, 0, 0, 0, 1, 1, 1])},
            "cycles",
            f"output beat 7 (row 3): expected in cycle {TIMES.first_out[3]}, got in cycle {TIMES.first_out[3] + 1}",
        ),
        (
            {"in_cycles": perfect().in_cycles + np.array([0, 1, 1, 1, 1, 1, 1, 1, 1, 1])},
            "cycles",
            "input beat 1 (row 0): expected in cycle 1, got in cycle 2",
        ),
        ({"actions": GOLDEN.actions | {"exp": 16}}, "actions", "action exp: expected 17, got 16"),
        ({"actions": GOLDEN.actions | {"spill": 1}}, "actions", "action spill: expected None, got 1"),
    ],
)
def test_the_first_difference_is_named(change: dict[str, object], kind: str, message: str) -> None:
    result = results(replace(perfect(), **change))[kind]  # type: ignore[arg-type]
    assert not result.holds
    assert result.first_difference == message


@pytest.mark.parametrize("action", sorted(GOLDEN.actions))
def test_every_action_is_compared(action: str) -> None:
    wrong = replace(perfect(), actions={**GOLDEN.actions, action: GOLDEN.actions[action] + 1})
    assert not results(wrong)["actions"].holds
