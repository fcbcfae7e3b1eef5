"""The contract of the spatial attention array: its exponential, its timing, its closed forms against its program."""

from __future__ import annotations

import dataclasses
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from accel.attention_array import (
    EINSUMS,
    AttentionArray,
    Exponential,
    Job,
    actions,
    compute_cycles,
    issues,
    lates,
    tiles,
    with_stalls,
)
from accel.schedule import Group
from tests.sim.array_designs import design, interleaved_plan, sequential_plan

SMALL = design(shape=(2, 3), dims=(3, 4), max_length=20, tiles=(5, 2, 3)).unit
OTHER = design(shape=(3, 2), dims=(4, 2), max_length=20, tiles=(3, 1, 2), plan=sequential_plan()).unit
JOBS = (
    Job(queries=20, keys=20),
    Job(queries=1, keys=1),
    Job(queries=7, keys=13, heads=2),
    Job(queries=16, keys=4, heads=2, causal=True),
)


@pytest.mark.parametrize("w", (4, 9, 15))
@pytest.mark.parametrize("degree", (1, 2, 4, 6))
def test_a_difference_of_0_gives_exactly_1_and_no_step_leaves_its_width(degree: int, w: int) -> None:
    unit = Exponential(degree=degree, weight_fraction_bits=w)
    f = np.arange(1 << w, dtype=np.int64)
    y = np.full_like(f, unit.coefficients[-1])
    for coefficient in reversed(unit.coefficients[:-1]):
        y = (y * f + (coefficient << w) + (1 << (w - 1))) >> w
        assert -(1 << (unit.value_bits - 1)) <= y.min() and y.max() < 1 << (unit.value_bits - 1)
    assert y[0] == 1 << (w + 1)
    assert y.min() > 0 and y.max() == y[0], "a correction factor above 1 would let the running sums outgrow their width"


def test_more_steps_come_nearer_until_rounding_is_all_that_is_left() -> None:
    errors = [Exponential(degree=degree, weight_fraction_bits=15).polynomial_error for degree in range(1, 5)]
    assert all(fine < coarse / 5 for coarse, fine in pairwise(errors)), errors


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("unit", (SMALL, OTHER), ids=("interleaved", "sequential"))
def test_the_closed_forms_count_what_the_program_issues(unit: AttentionArray, job: Job) -> None:
    found: Counter[str] = Counter()
    last = 0
    for issue in issues(unit, job):
        tile = issue.tile
        turn = issue.outer if issue.einsum == "SLN" else issue.inner
        rows = min(unit.rows, tile.keys - turn * unit.rows)
        found[issue.einsum] += tile.queries * (rows if EINSUMS[issue.einsum][0] == "2d" else 1)
        found["fresh q"] += tile.queries * (issue.einsum == "BQK" and issue.inner == 0)
        found["k"] += rows * (issue.einsum == "BQK")
        last = issue.cycle
    counted = actions(unit, job)
    stages, exp = unit.stages, unit.exponential.cycles
    assert counted["max_2d"] == found["LM"] and counted["max_1d"] == found["RM"]
    assert counted["exp_2d"] * stages == found["SLN"] and counted["exp_1d"] * stages == found["PRM"]
    assert counted["multiply_2d"] == found["BQK"] + found["SLNV"] + found["SLN"] * exp // stages
    assert counted["add_2d"] == found["BQK"] + found["SLNV"] + found["SLN"] + found["SLD"]
    assert counted["multiply_1d"] == found["SPD"] + found["SPNV"] + found["PRM"] * exp // stages
    assert counted["add_1d"] == found["RD"] + found["RNV"] + found["PRM"]
    assert counted["divide_1d"] == found["AV"]
    assert counted["read_q"] == found["fresh q"] and counted["read_k"] == found["k"]
    stalls = sum(group.stall_cycles for group in unit.plan.epoch)
    assert 0 <= compute_cycles(unit, job) - 1 - last <= stalls


def test_tiles_cover_every_point_once() -> None:
    for job in JOBS:
        seen = np.zeros((job.heads, job.queries, job.keys), int)
        for tile in tiles(SMALL, job):
            queries = slice(tile.first_query, tile.first_query + tile.queries)
            seen[tile.head, queries, tile.first_key : tile.first_key + tile.keys] += 1
        assert (seen == 1).all()


def test_a_large_array_of_short_heads_needs_stalls_and_one_of_long_heads_none() -> None:
    assert sum(group.stall_cycles for group in SMALL.plan.epoch) > 0
    plan = interleaved_plan()
    long = dataclasses.replace(SMALL, query_key_dim=32, value_dim=32, plan=plan)
    assert not lates(long) and with_stalls(long).plan == plan


@pytest.mark.parametrize("unit", (SMALL, OTHER), ids=("interleaved", "sequential"))
def test_one_stall_cycle_less_is_too_few(unit: AttentionArray) -> None:
    tried = 0
    for at, group in enumerate(unit.plan.epoch):
        if group.stall_cycles:
            epoch = list(unit.plan.epoch)
            epoch[at] = Group(slots=group.slots, stall_cycles=group.stall_cycles - 1)
            plan = dataclasses.replace(unit.plan, epoch=tuple(epoch))
            found = lates(dataclasses.replace(unit, plan=plan))
            assert found and found[0].missing_cycles == 1, at
            tried += 1
    assert tried
