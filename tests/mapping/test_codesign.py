"""Co-design: areas, bounds, errors of exponentials, and the design that comes out."""

from __future__ import annotations

import dataclasses
import json
import random

import pytest

from accel import spec
from accel.codesign import DesignSpace, load_design_space
from accel.configuration import load_study
from accel.polynomial_exp import Base, Counting, PolynomialExp
from accel.workload import Workload
from mapping.beyond import Machine
from mapping.codesign import Codesign
from mapping.codesign_accuracy import Accuracy, attention_cascades, measure
from mapping.codesign_work import Work
from mapping.model import price
from mapping.reproduce import area_mm2
from mapping.search import Limits, search
from tests.mapping.test_beyond import trimmed

SPACE = load_design_space("fusemax-area")
SMALL = dataclasses.replace(
    SPACE,
    least_columns=120,
    most_columns=150,
    vector_parts=(1,),
    buffer_bits=(16777216, 134217728),
    evaluations=1,
    accuracy=dataclasses.replace(SPACE.accuracy, queries=8, keys=128, tile=32, score_deviations=(1.0,)),
)
SHORT = PolynomialExp(base=Base.TWO, degree=2)
FINE = tuple(
    Accuracy(exponential=each, row_error=0.1 if each.degree == 1 else 0.01, max_error=0.0, worst="")
    for each in SPACE.exponentials
)


@pytest.fixture(scope="module")
def codesign():
    return Codesign(trimmed("published", ("BERT",), (1024, 4096)), SMALL, Counting.PAPER)


@pytest.fixture(scope="module")
def result(codesign):
    return codesign.run(FINE)


def test_no_candidate_is_larger_than_the_reference_and_one_row_more_would_be(codesign) -> None:
    candidates = codesign.candidates([SHORT])
    assert len(candidates) > 40
    for each in candidates:
        machine = codesign.machine(each.design)
        assert area_mm2(machine.architecture, machine.costs) == pytest.approx(each.area_mm2, rel=1e-12)
        assert each.area_mm2 <= codesign.area_mm2
        taller = codesign.machine(dataclasses.replace(each.design, rows=each.design.rows + 1))
        assert area_mm2(taller.architecture, taller.costs) > codesign.area_mm2


def test_candidates_come_in_the_order_of_their_estimates(codesign) -> None:
    candidates = codesign.candidates([SHORT])
    assert [each.estimate for each in candidates] == sorted((each.estimate for each in candidates), reverse=True)
    assert all(each.estimate <= each.bound * (1 + 1e-12) for each in candidates)


def test_the_work_of_the_reference_design_is_that_of_the_paper(codesign) -> None:
    """E + F + 9 cycles for a tile of 256 x 256, and 2 F + 10 for its 256 updates (FuseMax, section V)."""
    machine = codesign.reference
    workload = codesign.baselines[0].workload
    work = Work.of(machine.cascade, machine.architecture, ("2d", "1d"), workload)
    assert work.shares[0] == (64 + 64 + 9, 0)
    assert work.updates == 2 * 64 + 10
    arrays = machine.architecture.arrays
    assert work.bound(arrays["2d"], arrays["1d"]) == 16 * 137
    assert work.estimate(arrays["2d"], arrays["1d"]) == 16 * 137


def test_no_schedule_goes_below_the_bound_of_a_design() -> None:
    """Random small arrays and sizes; the whole map space is searched."""
    machine = Machine.of(load_study("published"))
    chance = random.Random(5)
    below = 0
    for _ in range(6):
        base = machine.architecture
        shape = {"rows": chance.randint(2, 9), "columns": chance.randint(2, 9)}
        arrays = {
            "2d": dataclasses.replace(base.arrays["2d"], **shape),
            "1d": dataclasses.replace(base.arrays["1d"], columns=chance.choice((2, 4, 8, 40))),
        }
        architecture = dataclasses.replace(base, arrays=arrays)
        workload = Workload(
            name="random",
            batch=1,
            heads=1,
            kv_heads=1,
            queries=chance.randint(1, 40),
            keys=chance.randint(1, 40),
            query_key_dim=chance.choice((1, 4, 8)),
            value_dim=chance.choice((1, 4, 8)),
        )
        work = Work.of(machine.cascade, architecture, ("2d", "1d"), workload)
        bound = work.bound(arrays["2d"], arrays["1d"])
        found = search(machine.cascade, architecture, workload, limits=Limits(points=10))
        assert bound <= found.result.latency_cycles * (1 + 1e-12)
        below += bound > 0.8 * found.result.latency_cycles
    assert below >= 2  # the bound is worth something


def test_the_best_design_is_faster_takes_no_more_area_and_no_more_energy(codesign, result) -> None:
    best = result.best
    assert best is not None
    assert best.candidate.area_mm2 <= result.area_mm2
    assert best.energy_ratio <= 1
    assert result.reference_speedup < result.scheduled.speedup < result.exponential_alone.speedup < best.speedup
    assert best.speedup <= best.candidate.bound * (1 + 1e-12)
    assert best.candidate.bound <= result.bound
    assert result.exponential_alone.candidate.design.exponential == SHORT


def test_the_schedules_of_the_best_design_price_on_it_as_reported(codesign, result) -> None:
    machine = codesign.machine(result.best.candidate.design)
    for each in result.best.points:
        workload = each.baseline.workload
        again = price(machine.cascade, machine.architecture, each.result.schedule, workload, machine.costs)
        assert again.latency_cycles == each.result.latency_cycles
        assert again.energy_pj == each.result.energy_pj
        assert each.lower_bound_cycles <= again.latency_cycles * (1 + 1e-12)
        assert each.gap < 0.1


def test_an_exponential_beyond_the_error_budget_is_left_out(codesign) -> None:
    assert codesign.exponentials(FINE) == (SHORT,)
    every = [dataclasses.replace(each, row_error=0.01) for each in FINE]
    assert codesign.exponentials(every) == (PolynomialExp(base=Base.TWO, degree=1),)
    none = [dataclasses.replace(each, row_error=1.0 if each.exponential != SPACE.reference else 0.01) for each in FINE]
    assert codesign.exponentials(none) == (SPACE.reference,)


def test_the_cascades_in_which_base_2_can_be_folded_into_the_scaling_are_found() -> None:
    names = {each.name for each in attention_cascades(SMALL.accuracy)}
    assert {"attention-1pass", "attention-1pass-causal", "attention-3pass", "attention-naive"} <= names
    assert "taylor-attention" not in names


def test_a_short_polynomial_costs_no_more_error_than_the_paper_but_a_straight_line_does() -> None:
    cascades = [each for each in attention_cascades(SMALL.accuracy) if each.name.startswith("attention-1pass")]
    line = PolynomialExp(base=Base.TWO, degree=1)
    exact, paper, short, straight = measure((None, SPACE.reference, SHORT, line), cascades, SMALL.accuracy)
    assert exact.row_error > 1e-3  # bfloat16 itself
    assert paper.row_error < 1.5 * exact.row_error
    assert short.row_error < 1.5 * exact.row_error
    assert straight.row_error > 2 * exact.row_error
    assert exact.exponential is None and straight.exponential == line
    assert all(each.max_error > 0 for each in (exact, paper, short, straight))


def test_a_design_space_is_read_as_it_is_written() -> None:
    assert spec.loads(DesignSpace, spec.dump(SPACE)) == SPACE


def test_the_command_prints_the_design_and_the_exponentials(einrtl, monkeypatch) -> None:
    monkeypatch.setattr("mapping.cli.beyond.load_study", lambda name: trimmed(name, ("BERT",), (1024,)))
    monkeypatch.setattr("mapping.cli.beyond.load_design_space", lambda name: SMALL)
    shown = einrtl("reproduce", "fusemax-codesign", "--counting", "all")
    assert shown.code == 0
    for words in ("within budget", "our schedules", "best", "No schedule on any design"):
        assert words in shown.out
    printed = json.loads(einrtl("reproduce", "fusemax-codesign", "--json").out)
    assert printed["best"]["area_mm2"] <= printed["area_mm2"]
    assert len(printed["exponentials"]) == 1 + len(SMALL.exponentials)
