"""Random schedules on architectures with inner levels: model and execution agree in every number."""

from __future__ import annotations

import dataclasses
import functools
import random

import pytest

from accel.cost import load_cost_table
from accel.errors import InputError
from accel.result import Result
from mapping.model import price
from sim.events import Execution, ExecutionError, Kind, differences
from tests.sim.event_cases import check_conservation, executed, worst_error
from tests.sim.random_schedules import Case, draw, levelled

SEEDS = range(48)
COSTS = {name: load_cost_table(name) for name in ("open-45nm", "fusemax-45nm")}


def priced(given: Case) -> Result:
    costs = COSTS[given.architecture.technology]
    return price(given.cascade, given.architecture, given.schedule, given.workload, costs)


@functools.cache
def drawn(seed: int) -> tuple[Case, Execution, Result] | None:
    rng = random.Random(seed)
    given = draw(rng, masked=seed % 2 == 1)
    if given is None:
        return None
    given = levelled(rng, given)
    return given, executed(given, seed), priced(given)


def known() -> dict[int, tuple[Case, Execution, Result]]:
    return {seed: found for seed in SEEDS if (found := drawn(seed)) is not None}


@pytest.mark.parametrize("first", [0, 12, 24, 36])
def test_model_and_execution_agree_on_random_levels(first):
    agreed = 0
    for seed in range(first, first + 12):
        found = drawn(seed)
        if found is None:
            continue
        given, execution, result = found
        assert worst_error(given, execution, seed) < 1e-9, seed
        check_conservation(given, execution)
        assert differences(execution, result) == [], seed
        agreed += 1
    assert agreed >= 8


def test_random_levels_cover_what_the_model_claims():
    cases = list(known().values())

    def share(holds) -> float:
        return sum(any(holds(*each)) for each in cases) / len(cases)

    def stores(given):
        return [kept for home in given.schedule.plan.residency.values() for kept in home.levels.items()]

    loops = {"p1", "p2", "m1"}
    features = {
        "several levels on the way": lambda g, e, r: [len(g.architecture.path(each)) > 1 for each in ("2d", "1d")],
        "a level for one array": lambda g, e, r: [each.array is not None for each in g.architecture.levels.values()],
        "rows wider than a value": lambda g, e, r: [each.row_bits > 16 for each in g.architecture.levels.values()],
        "kept for a loop": lambda g, e, r: [kept.within in loops for _, kept in stores(g)],
        "kept for an instance": lambda g, e, r: [kept.within in (None, "instance") for _, kept in stores(g)],
        "two copies": lambda g, e, r: [kept.copies > 1 for _, kept in stores(g)],
        "fewer reads of the buffer": lambda g, e, r: [
            e.count(level, "write", name) < e.count(level, "read", name)
            for name in ("Q", "K", "V")
            for level in g.architecture.levels
        ],
        "ports that bind": lambda g, e, r: [r.limit in r.buffer_cycles],
        "banks": lambda g, e, r: [each.banks is not None for each in g.architecture.levels.values()],
        "levels filled to the last row": lambda g, e, r: [full(e, r, level) for level in g.architecture.levels],
    }
    rare = {name: share(holds) for name, holds in features.items() if share(holds) < 0.05}
    assert rare == {}


def full(execution: Execution, result: Result, level: str) -> bool:
    reserved = sum(result.level_occupancy_bits[level].values())
    return 0 < reserved == sum(execution.level_peak_bits[level].values())


def test_a_level_with_a_row_less_is_refused_by_both():
    refused = 0
    for seed, (given, _, result) in known().items():
        for level, memory in given.architecture.levels.items():
            if (
                memory.size_bits != sum(result.level_occupancy_bits[level].values())
                or memory.size_bits == memory.row_bits
            ):
                continue
            small = dataclasses.replace(memory, size_bits=memory.size_bits - memory.row_bits, banks=None)
            built = dataclasses.replace(given.architecture, levels={**given.architecture.levels, level: small})
            smaller = dataclasses.replace(given, architecture=built)
            with pytest.raises(InputError, match=f"level '{level}' must hold"):
                priced(smaller)
            try:
                executed(smaller, seed)
            except ExecutionError as error:  # not all places need be taken at the same time
                assert error.kind is Kind.LEVEL_FULL
                assert str(error).startswith(f"level {level!r} must hold {memory.size_bits} bits in cycle ")
                refused += 1
    assert refused >= 5


def test_an_execution_differs_from_the_prices_of_other_levels():
    told_apart = 0
    for given, execution, result in list(known().values())[:16]:
        name, level = next(iter(given.architecture.levels.items()))
        if not result.count(name, "read"):
            continue
        wide = dataclasses.replace(level, size_bits=2**40, banks=None, row_bits=4 * level.row_bits)
        elsewhere = dataclasses.replace(level, array="1d" if level.array == "2d" else "2d", size_bits=2**40)
        for other in (wide, elsewhere):
            built = dataclasses.replace(given.architecture, levels={**given.architecture.levels, name: other})
            try:
                found = priced(dataclasses.replace(given, architecture=built))
            except InputError:  # a tensor may be kept in a level that does not serve its array now
                continue
            assert differences(execution, found)
            told_apart += 1
    assert told_apart >= 12
