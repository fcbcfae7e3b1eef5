"""Random schedules, with and without filters: the model and the execution agree in every number."""

from __future__ import annotations

import functools
import random

import pytest

import mapping.legal
from accel.arch import PipelineFill
from accel.cost import load_cost_table
from accel.schedule import Level, MaskedTiles
from mapping.bound import bind
from mapping.late import late_problems
from mapping.model import price
from mapping.tiling import Tiling
from sim.events import ExecutionError, Kind, differences
from tests.sim.event_cases import (
    ATTENTION,
    CLOUD,
    FPGA,
    PLAN,
    check_conservation,
    executed,
    worst_error,
)
from tests.sim.random_schedules import Case, draw

SEEDS = 90
PER_TEST = 15
COSTS = {name: load_cost_table(name) for name in {FPGA.technology, CLOUD.technology}}


@functools.cache
def drawn(seed: int, masked: bool) -> Case | None:
    return draw(random.Random(seed), masked=masked)


@pytest.mark.parametrize("first", range(0, SEEDS, PER_TEST))
@pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
def test_model_and_execution_agree_on_random_schedules(first, masked):
    agreed = 0
    for seed in range(first, first + PER_TEST):
        given = drawn(seed, masked)
        if given is None:
            continue
        costs = COSTS[given.architecture.technology]
        result = price(given.cascade, given.architecture, given.schedule, given.workload, costs)
        execution = executed(given, seed)
        assert worst_error(given, execution, seed) < 1e-9, seed
        check_conservation(given, execution)
        assert differences(execution, result) == [], seed
        agreed += 1
    assert agreed >= 7


LATE = (40, 52, 60, 65, 75, 76, 83, 92, 93, 99)
"""Seeds of which a value is gone before its reader comes, the odd ones with filters."""


@pytest.mark.parametrize("seed", LATE)
def test_what_the_model_calls_too_late_cannot_run(seed, monkeypatch):
    monkeypatch.setattr(mapping.legal, "late_problems", lambda tiling: iter(()))
    given = draw(random.Random(seed), masked=seed % 2 == 1)
    bound = bind(given.cascade, given.architecture, given.schedule.plan)
    assert list(late_problems(Tiling(bound=bound, tiles=given.schedule.tiles, workload=given.workload)))
    with pytest.raises(ExecutionError) as caught:
        executed(given, seed)
    assert caught.value.kind is Kind.NOT_HELD


def test_random_schedules_cover_what_the_model_claims():
    known = [given for given in (drawn(seed, masked=False) for seed in range(SEEDS)) if given is not None]

    def share(holds):
        return sum(map(bool, map(holds, known))) / len(known)

    def plan(given):
        return given.schedule.plan

    features = {
        "partial key tile": lambda g: g.workload.keys % g.schedule.tiles.get("m0", 1),
        "partial query tile": lambda g: g.workload.sizes["P"] % g.schedule.tiles["p0"],
        "several turns of the array": lambda g: g.schedule.tiles.get("m0", 0) > g.architecture.arrays["2d"].rows,
        "several query tiles on chip": lambda g: g.schedule.tiles.get("p1", 1) > 1,
        "fill charged": lambda g: g.architecture.pipeline_fill is PipelineFill.CHARGED,
        "fill hidden": lambda g: g.architecture.pipeline_fill is PipelineFill.HIDDEN,
        "stalls": lambda g: any(group.stall_cycles for group in plan(g).epoch),
        "double buffering": lambda g: any(home.copies > 1 for home in plan(g).residency.values()),
        "streamed input": lambda g: any(plan(g).residency[t.name].level is Level.STREAM for t in g.cascade.inputs),
        "grouped heads": lambda g: g.workload.heads > g.workload.kv_heads,
        "E other than F": lambda g: g.workload.query_key_dim != g.workload.value_dim,
        "one query": lambda g: g.workload.queries == 1,
        "several instances": lambda g: g.workload.instances > 1,
        "slots that alternate": lambda g: any(len(group.slots) > 1 for group in plan(g).epoch),
        "offsets": lambda g: plan(g).depth > 1,
        "keys outside queries": lambda g: plan(g).loops[0] == "m1",
        "other costs": lambda g: g.architecture.arrays["2d"].operators["add"].cycles > 1,
        "exponential of a difference in one": lambda g: "subtract_exp" in g.architecture.arrays["2d"].operators,
        "not the template": lambda g: plan(g).epoch != PLAN.epoch,
        "another cascade": lambda g: g.cascade is not ATTENTION,
        "no overlap of memory and compute": lambda g: not g.architecture.memory_overlaps_compute,
    }
    rare = {name: share(holds) for name, holds in features.items() if share(holds) < 0.05}
    assert rare == {}


def test_random_masks_skip_run_and_empty_tiles():
    known = [given for given in (drawn(seed, masked=True) for seed in range(SEEDS)) if given is not None]
    tilings = [
        Tiling(bound=bind(g.cascade, g.architecture, g.schedule.plan), tiles=g.schedule.tiles, workload=g.workload)
        for g in known
    ]
    masked = [tiling for tiling in tilings if tiling.masked is not None]
    features = {
        "tiles skipped": len(masked),
        "tiles of the beginning skipped": sum(bool(each.masked.first.any()) for each in masked),
        "decoding": sum(given.workload.queries < given.workload.keys for given in known),
        "queries without a key": sum(given.workload.queries > given.workload.keys for given in known),
        "grouped heads": sum(given.workload.heads > given.workload.kv_heads for given in known),
        "empty tiles run": sum(given.schedule.plan.masked_tiles is MaskedTiles.RUN for given in known),
        "keys outside queries": sum(tiling.bound.plan.loops[0] == "m1" for tiling in masked),
        "sums that go on": sum(given.cascade.name == "filtered-sums" for given in known),
    }
    assert {name: count for name, count in features.items() if count < 2} == {}
