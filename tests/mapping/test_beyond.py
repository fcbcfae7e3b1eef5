"""Schedules beyond the published ones: never slower, at the floor, with bounds that hold; cases from a file."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest

from accel import spec
from accel.cases import Case, CaseFile, load_case_file
from accel.configuration import Study, load_study
from accel.workload import Workload
from mapping.beyond import Clock, Machine, array_floor, beyond, mean, registers_pj, study_baseline
from mapping.model import price
from mapping.reproduce import price_study
from mapping.search import Limits, search
from mapping.silent import map_cases


def trimmed(setting: str, models: tuple[str, ...], lengths: tuple[int, ...]) -> Study:
    study = load_study(setting)
    return dataclasses.replace(
        study,
        models={name: study.models[name] for name in models},
        lengths=lengths,
        configurations=tuple(each for each in study.configurations if each.name in ("FLAT", "+Binding")),
        baselines=("FLAT",),
        sweep=(),
    )


@pytest.fixture(scope="module")
def few():
    study = trimmed("published", ("BERT", "TrXL", "XLM"), (1024, 4096))
    machine = Machine.of(study)
    return machine, study_baseline(study, machine)


@pytest.fixture(scope="module")
def found(few):
    return tuple(beyond(*few))


def test_no_schedule_is_slower_than_the_published_one_and_all_reach_the_floor_within_a_thousandth(found) -> None:
    assert len(found) == 6
    for each in found:
        workload = each.baseline.workload
        tiles = workload.instances * (workload.keys // 256) ** 2
        floor = (workload.query_key_dim + workload.value_dim + 9) * tiles
        assert each.floor_cycles == floor
        assert each.result.latency_cycles <= each.baseline.reference.latency_cycles
        assert floor <= each.lower_bound_cycles * (1 + 1e-12)
        assert each.lower_bound_cycles <= each.result.latency_cycles <= floor * 1.001
    assert min(each.speedup for each in found if each.baseline.workload.keys == 1024) > 1.12


def test_points_that_share_a_search_have_the_prices_and_bounds_of_their_own(few, found) -> None:
    machine, baselines = few
    bert, trxl = found[0], found[2]
    assert (trxl.baseline.workload.name, trxl.wall_time_s) == ("TrXL", 0.0)
    assert trxl.result.latency_cycles * 12 == bert.result.latency_cycles * 16
    own = search(machine.cascade, machine.architecture, baselines[2].workload)
    assert own.result.latency_cycles == trxl.result.latency_cycles
    assert own.lower_bound_cycles == pytest.approx(trxl.lower_bound_cycles, rel=1e-12)


def test_a_schedule_that_is_reported_prices_as_reported(few, found) -> None:
    machine = few[0]
    for each in found:
        workload = each.baseline.workload
        again = price(machine.cascade, machine.architecture, each.result.schedule, workload, machine.costs)
        assert (again.latency_cycles, again.energy_pj) == (each.result.latency_cycles, each.result.energy_pj)


@pytest.mark.parametrize("setting", ["published", "corrected"])
def test_the_published_schedule_has_the_energy_and_latency_of_the_study_registers_included(setting: str) -> None:
    study = trimmed(setting, ("BERT", "XLM"), (1024, 16384))
    machine, priced = Machine.of(study), price_study(study)
    layers = {(each.configuration, each.model, each.length): each for each in priced.layers}
    for each in study_baseline(study, machine, priced):
        layer = layers["+Binding", each.workload.name, each.workload.keys]
        assert each.reference_energy_pj == pytest.approx(layer.energy_pj, rel=1e-12)
        assert each.reference.latency_s == pytest.approx(layer.latency_s, rel=1e-12)
        flat = layers["FLAT", each.workload.name, each.workload.keys]
        assert each.baseline_cycles == pytest.approx(flat.latency_s * machine.architecture.clock_hz, rel=1e-12)
    assert registers_pj(machine, each.reference) > 0


def test_with_hardly_any_time_the_published_schedule_is_the_answer_at_worst(few) -> None:
    machine, baselines = few
    for each in beyond(machine, baselines[:2], budget_s=1e-3, limits=Limits(points=1)):
        assert each.result.latency_cycles <= each.baseline.reference.latency_cycles
        assert each.lower_bound_cycles <= each.result.latency_cycles


def test_the_floor_of_the_main_array_counts_whole_turns_along_either_axis(few) -> None:
    machine, baselines = few
    workload = dataclasses.replace(baselines[0].workload, queries=257, keys=1)
    assert array_floor(machine, workload) == workload.instances * 2 * (64 + 64 + 9)


def test_means_are_arithmetic() -> None:
    assert mean([1.0, 2.0, 6.0]) == 3.0


def test_a_budget_is_shared_among_the_searches_that_are_left() -> None:
    clock = Clock(10.0, 4)
    first = clock.limits(Limits()).seconds
    assert first is not None and 2.4 < first <= 2.5
    assert clock.searches == 3
    assert Clock(None, 1).limits(Limits(seconds=7.0)).seconds == 7.0


# Cases ----------------------------------------------------------------------------------------------------------------


def case(**changes) -> Case:
    sizes = {"name": "tiny", "batch": 1, "heads": 4, "kv_heads": 2, "queries": 1, "keys": 64}
    dims = {"query_key_dim": 8, "value_dim": 16}
    return Case(workload=Workload(**{**sizes, **dims, **changes}), source="test")


def test_cases_are_mapped_in_their_order_each_with_its_bound() -> None:
    file = CaseFile(name="two", description="", cases=(case(), case(name="square", queries=64)))
    found = list(map_cases(file))
    assert [each.case.workload.name for each in found] == ["tiny", "square"]
    for each in found:
        assert 0 < each.found.lower_bound_cycles <= each.found.result.latency_cycles
        assert each.found.result.workload == each.case.workload
        assert each.wall_time_s > 0


def test_the_packaged_cases_are_what_the_paper_leaves_out() -> None:
    file = load_case_file("paper-silent")
    assert spec.loads(CaseFile, spec.dump(file)) == file
    by_name = {each.workload.name: each.workload for each in file.cases}
    assert any("causal" in each.cascade for each in file.cases)
    assert any(each.heads > each.kv_heads > 1 for each in by_name.values())
    assert {each.batch for each in by_name.values() if each.queries == 1} == {1, 64}
    assert {each.keys for each in by_name.values() if each.queries == 1} >= {8192, 1 << 20}
    assert by_name["ViT-B/16"].keys == 197
    assert any(each.query_key_dim != each.value_dim for each in by_name.values())


# Commands -------------------------------------------------------------------------------------------------------------

CASES = """\
name: mine
description: one step of decoding
cases:
  - workload: {name: step, batch: 2, heads: 4, kv_heads: 2, queries: 1, keys: 128, query_key_dim: 8, value_dim: 8}
    source: made up
    architecture: fusemax-cloud
"""


def test_a_file_of_the_user_is_mapped(einrtl, tmp_path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(CASES)
    shown = einrtl("reproduce", "beyond-paper", "--cases", path)
    assert shown.code == 0 and "step" in shown.out and "limited by" in shown.out
    printed = einrtl("reproduce", "beyond-paper", "--cases", path, "--json")
    (only,) = json.loads(printed.out)["cases"]
    assert only["name"] == "step" and only["source"] == "made up" and only["optimal"]
    assert 0 < only["lower_bound_cycles"] <= only["latency_cycles"]
    assert math.isclose(only["gap"], only["latency_cycles"] / only["lower_bound_cycles"] - 1, abs_tol=1e-12)
    assert set(only["arrays"]) == {"2d", "1d"}


def test_both_commands_print_the_table_of_points(einrtl, monkeypatch) -> None:
    monkeypatch.setattr("mapping.cli.beyond.load_study", lambda name: trimmed(name, ("BERT",), (1024,)))
    first = einrtl("reproduce", "fusemax-beyond")
    assert first.code == 0 and "ours over FLAT" in first.out and "1.1241x" in first.out
    second = einrtl("map", "--reproduce", "fusemax-beyond", "--budget", "30", "--json")
    (point,) = json.loads(second.out)["points"]
    assert second.code == 0
    assert point["latency_cycles"] == 137 * 64 * 12 * 16
    assert point["speedup_over_reference"] == pytest.approx(154 / 137)
