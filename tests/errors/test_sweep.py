"""Wrong sweep files and commands, each with the exact text that a user sees."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from accel.errors import EinRTLError, InputError
from mapping.pareto import pareto_front
from mapping.plot_sweep import plot_fronts
from mapping.sweep import DaskRunner, ProcessRunner
from mapping.sweep.plan import load_plan

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "examples" / "models" / "vit-base-patch16-224" / "config.json"

RIGHT = """\
name: x
architectures:
  - base: fpga-8x8
    vary:
      - {fields: [buffer.size_bits], values: [8192]}
workloads:
  - {model: config.json, lengths: [2]}
"""

FILES = {
    "a field that is not there": (
        ("buffer.size_bits", "buffer.size_bit"),
        (
            "s.yaml: a sweep must set fields of architecture 'fpga-8x8', but 'buffer.size_bit' is none; did you mean "
            "'buffer.size_bits'?"
        ),
    ),
    "a part that holds fields": (
        ("buffer.size_bits", "buffer"),
        (
            "s.yaml: a sweep must set fields of architecture 'fpga-8x8', but 'buffer' is none; name a field in "
            "it, such "
            "as buffer.size_bits"
        ),
    ),
    "a field that is like no other": (
        ("buffer.size_bits", "xyzzy"),
        (
            "s.yaml: a sweep must set fields of architecture 'fpga-8x8', but 'xyzzy' is none; see the fields in "
            "the file "
            "of fpga-8x8"
        ),
    ),
    "text for a number": (
        ("[8192]", "[big]"),
        "s.yaml: field 'buffer.size_bits' must be a whole number, as 524288 is, not \"big\"",
    ),
    "a fraction for a whole number": (
        ("[8192]", "[8192.5]"),
        "s.yaml: field 'buffer.size_bits' must be a whole number, as 524288 is, not 8192.5",
    ),
    "an objective of no search": (
        ("name: x", "name: x\nobjectives: [latencey]"),
        "s.yaml: an objective must be one of latency, energy, edp, not 'latencey'; did you mean 'latency'?",
    ),
    "a measure without its unit": (
        ("name: x", "name: x\nminimise: [latency]"),
        (
            "s.yaml:2:12: 'minimise[0]' must be one of latency_s, latency_cycles, energy_pj, buffer_size_bits, "
            "buffer_used_bits, traffic_bits, pes, not 'latency'; did you mean 'latency_s'?"
        ),
    ),
    "a value twice": (
        ("[8192]", "[8192, 8192]"),
        (
            "s.yaml:5:53: architectures[0].vary[0]: values must hold each value once, but 8192 stands twice; "
            "remove one "
            "of the two"
        ),
    ),
    "a range without a step": (
        ("[8192]", "{first: 1, last: 2}"),
        (
            "s.yaml:5:38: architectures[0].vary[0].values: a range must have either step or factor, but neither is "
            "given; step: 64 adds 64 each time, factor: 2 doubles"
        ),
    ),
    "a range with a step and a factor": (
        ("[8192]", "{first: 1, last: 2, step: 1, factor: 2}"),
        (
            "s.yaml:5:38: architectures[0].vary[0].values: a range must have either step or factor, but both "
            "are given; "
            "step: 64 adds 64 each time, factor: 2 doubles"
        ),
    ),
    "a range that stands still": (
        ("[8192]", "{first: 1, last: 2, step: 0}"),
        "s.yaml:5:66: architectures[0].vary[0].values: step must be positive, not 0",
    ),
    "a range whose factor changes nothing": (
        ("[8192]", "{first: 1, last: 2, factor: 1}"),
        "s.yaml:5:66: architectures[0].vary[0].values: factor must be above 1, not 1",
    ),
    "a factor from nothing": (
        ("[8192]", "{first: 0, last: 2, factor: 2}"),
        ("s.yaml:5:47: architectures[0].vary[0].values: first must be positive where neighbours have a factor, not 0"),
    ),
    "a range to infinity": (
        ("[8192]", "{first: 1, last: .inf, factor: 2}"),
        "s.yaml:5:57: architectures[0].vary[0].values: last must be a finite number, not inf",
    ),
    "a range backwards": (
        ("[8192]", "{first: 3, last: 2, factor: 2}"),
        "s.yaml:5:57: architectures[0].vary[0].values: last must be at least first (3), not 2",
    ),
    "a range without end": (
        ("[8192]", "{first: 0, last: 1e9, step: 1}"),
        (
            "s.yaml:5:38: architectures[0].vary[0].values: a range must have at most 100,000 numbers, not "
            "1,000,000,001; "
            "raise step or factor"
        ),
    ),
    "a range of tiny factors": (
        ("[8192]", "{first: 1, last: 1e9, factor: 1.0000001}"),
        (
            "s.yaml:5:38: architectures[0].vary[0].values: a range must have at most 100,000 numbers, not 207,232,669; "
            "raise step or factor"
        ),
    ),
    "no field": (
        ("[buffer.size_bits]", "[]"),
        ("s.yaml:5:10: architectures[0].vary[0]: fields must name at least one field; such as buffer.size_bits"),
    ),
    "a field set twice": (
        ("    vary", "    fixed: {buffer.size_bits: 8192}\n    vary"),
        (
            "s.yaml:6:19: architectures[0]: field 'buffer.size_bits' must be set once, but is set twice; remove one of "
            "the two"
        ),
    ),
    "no length": (("[2]", "[]"), "s.yaml:7:26: workloads[0]: lengths must hold at least one value"),
    "a length of nothing": (
        ("[2]", "[0]"),
        "s.yaml:7:26: workloads[0]: lengths must be whole numbers of at least 1, not 0",
    ),
    "half a token": (
        ("[2]", "{first: 1, last: 2, step: 0.5}"),
        "s.yaml:7:26: workloads[0]: lengths must be whole numbers of at least 1, not 1.0",
    ),
    "no workload": (
        ("  - {model: config.json, lengths: [2]}", "  []"),
        "s.yaml:6:1: workloads must hold at least one value",
    ),
    "an unknown architecture": (
        ("fpga-8x8", "fpga"),
        "'fpga' is not the name of an architecture; did you mean 'fpga-8x8'? a file needs its .yaml ending",
    ),
    "a model that is not there": (
        ("config.json", "no.json"),
        "no.json must be a readable file: No such file or directory; check the path",
    ),
    "an unknown sampler": (
        ("name: x", "name: x\nsampler: {method: nsga, points: 10}"),
        "s.yaml:2:11: 'sampler.method' must be one of nsga2, tpe, random, not 'nsga'; did you mean 'nsga2'?",
    ),
    "a sampler of nothing": (
        ("name: x", "name: x\nsampler: {method: nsga2, points: 0}"),
        "s.yaml:2:26: sampler: points must be 1 to 1000000, not 0",
    ),
    "a generation of one": (
        ("name: x", "name: x\nsampler: {method: nsga2, points: 10, generation: 1}"),
        "s.yaml:2:38: sampler: generation must be 2 to 1000000, not 1",
    ),
    "an unknown key": (
        ("name: x", "name: x\nworkload: 3"),
        "s.yaml:2:1: 'workload' is not a known key; did you mean 'workloads'?",
    ),
    "a grid without end": (
        (
            "[8192]",
            "{first: 1, last: 1001, step: 1}}\n      - {fields: [width_bits], values: {first: 1, last: 1001, step: 1}",
        ),
        (
            "s.yaml:1:1: a grid must have at most 1,000,000 points, not 1,002,001; take values out, or add sampler: "
            "{method: nsga2, points: 1000}"
        ),
    ),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder, with a sweep file that is right and the model it names."""
    (tmp_path / "s.yaml").write_text(RIGHT, encoding="utf-8")
    (tmp_path / "config.json").write_bytes(MODEL.read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("case", FILES)
def test_a_wrong_sweep_file_is_refused_with_the_way_out(case: str, folder: Path) -> None:
    (old, new), expected = FILES[case]
    assert old in RIGHT
    (folder / "s.yaml").write_text(RIGHT.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_plan(Path("s.yaml"))
    assert str(caught.value) == expected


COMMANDS = {
    "nothing to show": (["s.yaml", "--show"], "s.sqlite must be there to be shown; run the sweep first"),
    "results where the sweep file is": (
        ["s.yaml", "-o", "s.yaml"],
        "s.yaml must be a database of results, but is another kind of file; name another",
    ),
    "results in no folder": (
        ["s.yaml", "-o", "no/where.sqlite"],
        "no/where.sqlite must be a file that can be opened: No such file or directory; check the folder",
    ),
    "results in a database of something else": (
        ["s.yaml", "-o", "other.sqlite"],
        "other.sqlite must be a database of a sweep, but is another's; name another file",
    ),
    "results of a later version": (
        ["s.yaml", "-o", "later.sqlite"],
        (
            "later.sqlite must have tables of version 2, not 99; use the version of EinRTL that made it, or "
            "name another "
            "file"
        ),
    ),
    "a database that was damaged": (
        ["--show", "damaged.sqlite"],
        "damaged.sqlite must be a sound SQLite database: file is not a database; name another",
    ),
    "a database to run": (
        ["later.sqlite"],
        "later.sqlite is a database of results, which can only be shown; add --show",
    ),
    "a picture of another kind": (
        ["s.yaml", "--plot", "fronts.pdf"],
        "the picture must be a .png file, not 'fronts.pdf'; use fronts.png",
    ),
    "a table in no folder": (
        ["s.yaml", "--csv", "no/where.csv"],
        "no/where.csv must be in a folder, but no is none; make it first",
    ),
    "a scheduler without a port": (
        ["s.yaml", "--scheduler", "host"],
        (
            "a Dask scheduler must answer at host, but: missing port number in address 'host'; start one with: dask "
            "scheduler"
        ),
    ),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_a_wrong_command_ends_with_code_2_and_no_traceback(case: str, folder: Path, einrtl: Callable[..., Any]) -> None:
    for name, identity in (("other.sqlite", 7), ("later.sqlite", 0x45696E52)):
        connection = sqlite3.connect(folder / name)
        connection.executescript(f"CREATE TABLE x (y); PRAGMA application_id = {identity}; PRAGMA user_version = 99;")
        connection.close()
    (folder / "damaged.sqlite").write_bytes(b"SQLite format 3\0" + b"\xff" * 200)
    arguments, expected = COMMANDS[case]
    run = einrtl("sweep", *arguments)
    assert (run.code, run.out, run.err) == (2, "", f"error: {expected}\n")


@pytest.mark.parametrize(
    ("arguments", "module", "expected"),
    [
        (["--scheduler", "local"], "distributed", "--scheduler needs dask and distributed"),
        (["-o", "sampled.sqlite", "--workers", "0"], "optuna", "a sampler needs optuna"),
        (["--workers", "0", "--parquet", "all.parquet"], "pyarrow", "Parquet needs pyarrow"),
    ],
)
def test_a_missing_library_is_named_with_the_command_that_installs_it(
    arguments: list[str],
    module: str,
    expected: str,
    folder: Path,
    einrtl: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    if module == "optuna":
        (folder / "s.yaml").write_text(f"{RIGHT}sampler: {{method: nsga2, points: 2}}\n", encoding="utf-8")
    run = einrtl("sweep", "s.yaml", *arguments)
    assert run.code == 3
    assert run.err == f"error: {expected}, which is not installed; run: pip install 'einrtl[sweep]'\n"


def test_a_scheduler_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DaskRunner, "TIMEOUT_S", 0.5)
    with pytest.raises(EinRTLError) as caught:
        DaskRunner("tcp://127.0.0.1:1")
    assert str(caught.value) == (
        "a Dask scheduler must answer at tcp://127.0.0.1:1, but: Timed out trying to connect to "
        "tcp://127.0.0.1:1 after "
        "0.5 s; start one with: dask scheduler"
    )


def test_a_cluster_with_another_version_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = load_plan(Path("s.yaml")).grid()
    monkeypatch.setattr("mapping.sweep.runners.version", lambda name: "0.0.7")
    with DaskRunner("local") as runner, pytest.raises(EinRTLError) as caught:
        next(runner.run(points))
    assert str(caught.value) == (
        "the workers at local must stay reachable and have this EinRTL installed, but: OtherVersionError: einrtl 0.1.0 "
        "on a worker, 0.0.7 here; what is done is kept, so the same command goes on from here"
    )


ROW = {"status": "done", "model": "m", "batch": 1, "queries": 1, "keys": 1, "latency_s": 1.0, "on_front": True}


def _many() -> Iterator[dict[str, Any]]:
    return ({**ROW, "energy_pj": 1.0, "keys": keys} for keys in range(13))


CALLS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a front of a list": (
        lambda folder: pareto_front([1.0, 2.0]),
        "measures must be an array of two dimensions, not 1",
    ),
    "a front of what is no number": (
        lambda folder: pareto_front([[1.0, float("nan")]]),
        "measures must be finite numbers; leave out designs that failed",
    ),
    "no worker": (lambda folder: ProcessRunner(0), "workers must be at least 1, not 0; use 1"),
    "a picture of one measure": (
        lambda folder: plot_fronts([ROW], ["latency_s"], folder / "a.png", title=""),  # type: ignore[list-item]
        "a picture must have two measures for its axes, but minimise has only latency_s; add energy_pj to minimise",
    ),
    "a picture of nothing": (
        lambda folder: plot_fronts([], ["latency_s", "energy_pj"], folder / "a.png", title=""),  # type: ignore[list-item]
        "a picture must show a point, but none is done; see the reasons with --show",
    ),
    "a picture of everything": (
        lambda folder: plot_fronts(list(_many()), ["latency_s", "energy_pj"], folder / "a.png", title=""),  # type: ignore[list-item]
        ("a picture must have at most 12 workloads, one for each panel, not 13; write --csv, or sweep fewer workloads"),
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_a_wrong_call_is_refused_with_the_way_out(case: str, tmp_path: Path) -> None:
    action, expected = CALLS[case]
    with pytest.raises(InputError) as caught:
        action(tmp_path)
    assert str(caught.value) == expected
