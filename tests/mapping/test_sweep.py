"""Sweeps: which points a file asks for, what is recorded, what a changed file keeps, and what comes out."""

from __future__ import annotations

import csv
import itertools
import json
import math
import multiprocessing
import os
import signal
import sqlite3
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel import spec
from accel.arch import Architecture, load_architecture
from accel.cascade import load_cascade
from accel.schedule import Schedule
from accel.sweep import Range, SweepFile, load_sweep_file
from accel.workload import Workload
from mapping.model import price
from mapping.pareto import pareto_front
from mapping.search import search
from mapping.sweep import InProcessRunner, Outcome, Point, ProcessRunner, Store, evaluate, load_plan, run_sweep
from mapping.sweep.plan import digest_of
from mapping.sweep.sampler import Study
from mapping.templates import find_plan
from tests.mapping.sweeping import MODEL, content, recorded, sweep_file

ROOT = Path(__file__).parents[2]
FAILED = "buffer: size_bits must be a multiple of row_bits (128), not 1000; use 896"


# Sweep files


@given(st.integers(-1000, 1000), st.integers(0, 500), st.integers(1, 50))
def test_a_range_with_a_step_is_that_of_python(first: int, length: int, step: int) -> None:
    last = first + length
    assert Range(first=first, last=last, step=step).values == tuple(range(first, last + 1, step))


@given(st.integers(1, 1000), st.integers(2, 7), st.integers(0, 10), st.floats(1, 1.99))
def test_a_range_with_a_factor_ends_at_the_last_power_that_fits(
    first: int, factor: int, count: int, more: float
) -> None:
    values = Range(first=first, last=first * factor**count * more, factor=factor).values
    assert values == tuple(first * factor**power for power in range(count + 1))
    assert all(isinstance(value, int) for value in values)


def test_a_range_of_fractions_holds_the_numbers_that_are_written() -> None:
    assert Range(first=0.1, last=0.5, step=0.1).values == (0.1, 0.2, 0.3, 0.4, 0.5)
    assert Range(first=1, last=0.5e2, factor=1.5).values[:3] == (1.0, 1.5, 2.25)


def test_a_sweep_file_is_read_back_as_written(tmp_path: Path) -> None:
    sweep = load_sweep_file(sweep_file(tmp_path, more="sampler: {method: tpe, points: 7}"))
    assert spec.loads(SweepFile, spec.dump(sweep)) == sweep


def test_the_example_names_only_what_is_there() -> None:
    plan = load_plan(ROOT / "examples" / "sweep.yaml")
    points = list(plan.grid())
    assert len(points) == plan.sweep.size == 108
    assert len({point.digest for point in points}) == 108


# Plans


def test_a_grid_is_every_combination_in_order_and_its_architectures_have_the_values(tmp_path: Path) -> None:
    points = list(load_plan(sweep_file(tmp_path)).grid())
    assert [
        (point.workload.keys, point.settings["arrays.2d.columns"], point.settings["buffer.size_bits"])
        for point in points
    ] == list(itertools.product((2, 3), (1, 2), (8192, 16384, 1000)))
    for point in points:
        if point.settings["buffer.size_bits"] != 1000:
            made = spec.loads(Architecture, point.architecture.text)
            side = point.settings["arrays.2d.rows"]
            assert (made.arrays["2d"].rows, made.arrays["2d"].columns, made.arrays["1d"].columns) == (side,) * 3
            assert made.buffer.size_bits == point.settings["buffer.size_bits"]
            assert made.sources["buffer.size_bits"] == "set by a sweep"
            base = load_architecture("fpga-8x8")
            assert replace(made, arrays=base.arrays, buffer=base.buffer, sources=base.sources) == base


def test_a_digest_is_the_same_on_every_machine_and_differs_with_every_input(tmp_path: Path) -> None:
    assert digest_of({"b": [1, 2.5], "a": "é"}) == "123b424b7606d08d0756074e1f760511"
    more = "objectives: [latency, energy]\ncascades: [attention-1pass, attention-2pass]"
    points = list(load_plan(sweep_file(tmp_path, more=more)).grid())
    assert len({point.digest for point in points}) == len(points) == 48


def test_prose_does_not_change_a_digest_but_a_number_does(tmp_path: Path) -> None:
    def digests(architecture: Architecture) -> list[str]:
        (tmp_path / "own.yaml").write_text(spec.dump(architecture), encoding="utf-8")
        file = sweep_file(tmp_path)
        file.write_text(file.read_text().replace("base: fpga-8x8", "base: own.yaml"), encoding="utf-8")
        return [point.digest for point in load_plan(file).grid()]

    base = load_architecture("fpga-8x8")
    before = digests(base)
    assert digests(replace(base, description="other words")) == before
    assert not set(digests(replace(base, clock_hz=99e6))) & set(before)


def test_names_of_files_are_relative_to_the_sweep_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "own.yaml").write_text(spec.dump(load_architecture("fpga-8x8")), encoding="utf-8")
    (folder / "own.ein").write_text(str(load_cascade("attention-1pass")), encoding="utf-8")
    (folder / "config.json").write_bytes(MODEL.read_bytes())
    (folder / "sweep.yaml").write_text(
        "name: x\narchitectures: [{base: own.yaml}]\nworkloads: [{model: config.json}]\ncascades: [own.ein]\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    (point,) = load_plan(Path("folder/sweep.yaml")).grid()
    assert point.workload.keys == 197


# Results


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a finished small sweep: 12 points, 4 of which fail."""
    folder = tmp_path_factory.mktemp("small")
    with Store(folder / "small.sqlite") as store:
        progress = run_sweep(load_plan(sweep_file(folder)), store, InProcessRunner())
    assert (progress.total, progress.present, progress.computed, progress.failed) == (12, 0, 12, 4)
    return folder


def test_a_recorded_point_is_what_the_search_finds_and_its_schedule_prices_to_it(small: Path) -> None:
    tables = content(small / "small.sqlite")
    texts = {(row["kind"], row["digest"]): row["text"] for row in tables["description"]}
    for row in tables["point"]:
        if row["status"] == "failed":
            continue
        architecture = spec.loads(Architecture, texts["architecture", row["architecture_digest"]])
        workload = spec.loads(Workload, texts["workload", row["workload_digest"]])
        cascade = load_cascade("attention-1pass")
        found = search(cascade, architecture, workload, row["objective"], plan=find_plan(cascade, architecture))
        schedule = spec.loads(Schedule, row["schedule"])
        assert schedule == found.schedule
        result = price(cascade, architecture, schedule, workload)
        assert row["latency_cycles"] == result.latency_cycles
        assert row["latency_s"] == result.latency_s
        assert row["energy_pj"] == result.energy_pj
        assert row["traffic_bits"] == result.dram_read_bits + result.dram_written_bits
        assert row["buffer_used_bits"] == sum(result.occupancy_bits.values())
        assert row["buffer_size_bits"] == architecture.buffer.size_bits
        assert row["pes"] == sum(array.rows * array.columns for array in architecture.arrays.values())
        assert row["lower_bound_cycles"] <= row["latency_cycles"]
        assert json.loads(row["tiles"]) == dict(schedule.tiles)


def test_a_point_that_fails_is_recorded_with_its_reason(small: Path) -> None:
    failed = [row for row in content(small / "small.sqlite")["point"] if row["status"] == "failed"]
    assert [row["reason"] for row in failed] == [FAILED] * 4
    assert all(row["latency_s"] is None and row["schedule"] is None for row in failed)


def test_a_defect_in_one_point_does_not_end_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = itertools.count()

    def broken(*arguments: Any, **more: Any) -> Any:
        if next(calls) == 1:
            raise ZeroDivisionError("division by zero")
        return search(*arguments, **more)

    monkeypatch.setattr("mapping.sweep.evaluation.search", broken)
    with Store(tmp_path / "results.sqlite") as store:
        run_sweep(load_plan(sweep_file(tmp_path, sizes="[8192]")), store, InProcessRunner())
        reasons = [row["reason"] for row in store.rows()]
    assert reasons == [
        None,
        "defect of EinRTL, please report it: ZeroDivisionError: division by zero",
        None,
        None,
    ]


def test_a_finished_sweep_computes_nothing_again(small: Path) -> None:
    class NoRunner(InProcessRunner):
        def run(self, points: Any) -> Iterator[Outcome]:
            assert list(points) == []
            return iter(())

    with Store(small / "small.sqlite") as store:
        progress = run_sweep(load_plan(small / "small.yaml"), store, NoRunner())
    assert (progress.total, progress.present, progress.computed) == (12, 12, 0)


def test_a_point_that_stands_twice_in_a_sweep_is_computed_once(tmp_path: Path) -> None:
    file = sweep_file(tmp_path, sizes="[8192, 16384]", lengths="[2]")
    text = file.read_text()
    block = text[text.index("  - base") : text.index("workloads")]
    file.write_text(text.replace(block, block + block), encoding="utf-8")
    with Store(tmp_path / "results.sqlite") as store:
        progress = run_sweep(load_plan(file), store, InProcessRunner())
        assert (progress.total, progress.present, progress.computed) == (8, 4, 4)
        assert len(store.rows()) == 4


def test_processes_find_what_one_process_finds(small: Path, tmp_path: Path) -> None:
    with Store(tmp_path / "results.sqlite") as store, ProcessRunner(2) as runner:
        run_sweep(load_plan(small / "small.yaml"), store, runner)
    assert content(tmp_path / "results.sqlite") == content(small / "small.sqlite")


def _sometimes_deadly(point: Point) -> Outcome:
    if point.workload.keys == 3 and point.settings["buffer.size_bits"] == 16384:
        os.kill(os.getpid(), signal.SIGKILL)
    return evaluate(point)


def test_a_point_that_kills_its_worker_has_failed_and_the_others_have_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mapping.sweep.runners.evaluate", _sometimes_deadly)
    with Store(tmp_path / "results.sqlite") as store, ProcessRunner(2) as runner:
        run_sweep(load_plan(sweep_file(tmp_path, sides="[2]", sizes="[8192, 16384]")), store, runner)
        found = [(row["keys"], row["buffer_size_bits"], row["reason"]) for row in store.rows()]
    lost = "each process that worked on it ended without a word: it was killed, or ran out of memory"
    assert found == [(2, 8192, None), (2, 16384, None), (3, 8192, None), (3, None, lost)]
    assert multiprocessing.active_children() == []


def test_a_changed_sweep_file_keeps_what_it_no_longer_asks_for_and_does_not_show_it(
    tmp_path: Path, einrtl: Callable[..., Any]
) -> None:
    database = tmp_path / "results.sqlite"
    einrtl("sweep", sweep_file(tmp_path), "-o", database, "--workers", 0)
    before = recorded(database)
    changed = sweep_file(tmp_path, sizes="[16384, 32768]")
    shown = einrtl("sweep", changed, "-o", database, "--show", "--json")
    assert (
        shown.err == f"note: {changed} has changed since it was last run; shown are the points that it asked for then\n"
    )
    assert json.loads(shown.out)["points_asked"] == 12
    run = einrtl("sweep", changed, "-o", database, "--workers", 0, "--json")
    assert run.err == (
        f"note: 8 points in {database} are kept but not shown: only earlier versions of the sweep file, or of what it "
        "names, asked for them\n"
    )
    values = json.loads(run.out)
    assert (values["points_asked"], values["points_computed"], values["points_of_other_versions"]) == (8, 4, 8)
    assert before.items() < recorded(database).items()
    assert {row["settings"] for row in content(database)["asked"]} == {
        json.dumps(
            {
                "arrays.2d.registers_per_pe": 6,
                "arrays.1d.registers_per_pe": 8,
                **dict.fromkeys(("arrays.2d.rows", "arrays.2d.columns", "arrays.1d.columns"), side),
                "buffer.size_bits": size,
            }
        )
        for side in (1, 2)
        for size in (16384, 32768)
    }
    again = einrtl("sweep", sweep_file(tmp_path), "-o", database, "--workers", 0, "--json")
    assert json.loads(again.out)["points_computed"] == 0


def test_failed_points_are_tried_again_only_when_asked(tmp_path: Path, einrtl: Callable[..., Any]) -> None:
    file, database = sweep_file(tmp_path), tmp_path / "results.sqlite"
    einrtl("sweep", file, "-o", database, "--workers", 0)
    before = recorded(database)
    assert json.loads(einrtl("sweep", file, "-o", database, "--workers", 0, "--json").out)["points_computed"] == 0
    run = einrtl("sweep", file, "-o", database, "--workers", 0, "--json", "--retry")
    assert run.err == "note: 4 points that failed are tried again\n"
    assert json.loads(run.out)["points_computed"] == 4
    assert len(before.items() & recorded(database).items()) == 8


# Samplers


@pytest.mark.parametrize("method", ["nsga2", "tpe", "random"])
def test_a_sampler_picks_the_same_points_however_often_it_is_interrupted(tmp_path: Path, method: str) -> None:
    file = sweep_file(
        tmp_path,
        sides="[1, 2, 3]",
        sizes="{first: 1000, last: 20000, step: 500}",
        more=f"sampler: {{method: {method}, points: 8, generation: 4, seed: 3}}",
    )
    plan = load_plan(file)
    with Store(tmp_path / "whole.sqlite") as store:
        progress = run_sweep(plan, store, InProcessRunner())
        assert progress.total == progress.present + progress.computed == 16

    class StopError(Exception):
        pass

    class Impatient(InProcessRunner):
        def run(self, points: Any) -> Iterator[Outcome]:
            for count, outcome in enumerate(super().run(points)):
                if count == 3:
                    raise StopError
                yield outcome

    for _ in range(30):
        with Store(tmp_path / "parts.sqlite") as store:
            try:
                run_sweep(load_plan(file), store, Impatient())
                break
            except StopError:
                continue
    assert content(tmp_path / "parts.sqlite") == content(tmp_path / "whole.sqlite")
    with Store(tmp_path / "processes.sqlite") as store, ProcessRunner(2) as runner:
        run_sweep(plan, store, runner)
    assert content(tmp_path / "processes.sqlite") == content(tmp_path / "whole.sqlite")


def test_a_genetic_sampler_comes_nearer_to_the_best_than_chance_does() -> None:
    """A made-up design space of 3.2 million points, where the best sum of both measures is known to be 57."""

    def found(method: str, seed: int) -> float:
        study = Study(_MadeUp(method, seed), 0)  # type: ignore[arg-type]
        best = math.inf
        for _ in range(15):
            costs = [_cost(point) for point in study.ask(20)]  # type: ignore[arg-type]
            study.tell([{"status": "done", "latency_s": one, "energy_pj": other} for one, other in costs])
            best = min(best, *(one + other for one, other in costs))
        return best

    scores = {method: [found(method, seed) for seed in range(3)] for method in ("nsga2", "random")}
    assert 57 <= max(scores["nsga2"]) < min(scores["random"])


def _cost(choice: tuple[int, ...]) -> tuple[float, float]:
    """Return two measures that pull in opposite directions, and are good together only where neighbours are equal."""
    uneven = 3 * sum(abs(one - other) for one, other in itertools.pairwise(choice))
    return 0.6 * sum(choice) + uneven, 0.6 * sum(19 - each for each in choice) + uneven


class _MadeUp:
    """Stands in for a plan: five fields of 20 values, whose point is the tuple of their indices."""

    def __init__(self, method: str, seed: int) -> None:
        fields = ", ".join(f"{{fields: [{name}], values: {{first: 0, last: 19, step: 1}}}}" for name in "vwxyz")
        self.sweep = spec.loads(
            SweepFile,
            f"""
name: made up
architectures: [{{base: any, vary: [{fields}]}}]
workloads: [{{model: any}}]
minimise: [latency_s, energy_pj]
sampler: {{method: {method}, points: 300, generation: 20, seed: {seed}}}
""",
        )

    def point(self, *, choice: Sequence[int], **_: int) -> tuple[int, ...]:
        return tuple(choice)


# What comes out


def test_the_command_shows_fronts_and_failures(small: Path, einrtl: Callable[..., Any]) -> None:
    shown = einrtl("sweep", "--show", small / "small.sqlite")
    assert shown.code == 0 and shown.err == ""
    for text in ("vit-base-patch16-224, batch 1, 2 x 2", "latency, ms", "energy, mJ", "buffer, KiB", FAILED):
        assert text in shown.out
    assert f"8 of 12 points done, 4 failed; results in {small / 'small.sqlite'}" in shown.out


def test_json_has_the_front_of_each_workload_with_its_schedules(small: Path, einrtl: Callable[..., Any]) -> None:
    values = json.loads(einrtl("sweep", "--show", small / "small.sqlite", "--json").out)
    assert values["minimise"] == ["latency_s", "energy_pj", "buffer_size_bits"]
    assert [front["keys"] for front in values["fronts"]] == [2, 3]
    done = [row for row in content(small / "small.sqlite")["point"] if row["status"] == "done"]
    for front in values["fronts"]:
        own = [row for row in done if json.loads(_text(small, row["workload_digest"]))["keys"] == front["keys"]]
        measures = [[row[name] for name in values["minimise"]] for row in own]
        expected = {row["digest"] for row, mark in zip(own, pareto_front(measures), strict=True) if mark}
        found = {point["digest"] for point in front["points"]}
        # Of points that are equal in all measures one is enough: compare what they measure.
        by_digest = {row["digest"]: tuple(row[name] for name in values["minimise"]) for row in own}
        assert {by_digest[digest] for digest in found} == {by_digest[digest] for digest in expected}
        latencies = [point["latency_s"] for point in front["points"]]
        assert latencies == sorted(latencies)
        assert all(spec.loads(Schedule, json.dumps(point["schedule"])) for point in front["points"])
    assert {row["reason"] for row in values["failed"]} == {FAILED}


def _text(folder: Path, digest: str) -> str:
    return next(row["text"] for row in content(folder / "small.sqlite")["description"] if row["digest"] == digest)


def test_csv_and_parquet_hold_every_point_in_full(small: Path, tmp_path: Path, einrtl: Callable[..., Any]) -> None:
    files = tmp_path / "all.csv", tmp_path / "all.parquet"
    run = einrtl("sweep", "--show", small / "small.sqlite", "--csv", files[0], "--parquet", files[1])
    assert run.out.splitlines()[-2:] == [f"Wrote {file}" for file in files]
    with files[0].open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    table = pyarrow.parquet.read_table(files[1])
    assert list(rows[0]) == table.column_names
    typed = table.to_pylist()
    assert len(rows) == len(typed) == 12
    for row, values in zip(rows, typed, strict=True):
        assert row == {name: "" if value is None else str(value) for name, value in values.items()}
    kinds = {name: str(table.schema.field(name).type) for name in ("latency_s", "pes", "on_front", "buffer.size_bits")}
    assert kinds == {"latency_s": "double", "pes": "int64", "on_front": "bool", "buffer.size_bits": "int64"}
    assert 0 < sum(values["on_front"] for values in typed) < 8


def test_a_picture_is_a_png_and_the_same_each_time(small: Path, tmp_path: Path, einrtl: Callable[..., Any]) -> None:
    for name in ("one.png", "two.png"):
        assert einrtl("sweep", "--show", small / "small.sqlite", "--plot", tmp_path / name).code == 0
    data = (tmp_path / "one.png").read_bytes()
    assert data == (tmp_path / "two.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (1000, 450)


def test_results_go_beside_nobody_else_by_default(
    small: Path, tmp_path: Path, einrtl: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert einrtl("sweep", sweep_file(small, lengths="[2]", sizes="[8192]", name="one.yaml"), "--workers", 0).code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.html", "one.sqlite"]


def test_a_running_sweep_can_be_looked_at_and_a_second_writer_cannot_start(
    small: Path, tmp_path: Path, einrtl: Callable[..., Any]
) -> None:
    with Store(tmp_path / "results.sqlite") as store:
        plan = load_plan(small / "small.yaml")
        store.begin(plan)
        store.ask(enumerate(plan.grid()))
        store.record(evaluate(next(plan.grid())), version=plan.version)
        shown = einrtl("sweep", "--show", tmp_path / "results.sqlite", "--json")
        assert shown.err == "note: 11 of 12 points are not done yet; run the sweep to go on\n"
        assert json.loads(shown.out)["points_done"] == 1
        second = einrtl("sweep", small / "small.yaml", "-o", tmp_path / "results.sqlite")
        assert second.code == 2
        assert second.err == (
            f"error: {tmp_path / 'results.sqlite'} must have one writer, but another sweep is writing to it; wait, or "
            "name another with -o\n"
        )
    assert [path.name for path in tmp_path.iterdir()] == ["results.sqlite"]


def test_the_documented_tables_are_those_of_the_database(small: Path) -> None:
    text = (ROOT / "docs" / "sweep.md").read_text(encoding="utf-8")
    connection = sqlite3.connect(small / "small.sqlite")
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        assert f"`{table}`" in text
        for column in connection.execute(f"PRAGMA table_info({table})").fetchall():
            assert f"`{column[1]}`" in text, f"{table}.{column[1]}"
    connection.close()
