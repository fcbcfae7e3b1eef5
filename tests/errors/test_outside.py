"""The world outside: full disks, folders in the way, broken pipes, missing tools, an impatient user."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.conftest import ROOT, Finished

Command = Callable[..., Finished]

CONFIG = ROOT / "examples" / "models" / "bert-base-uncased" / "config.json"
SMALL = ("map", CONFIG, "--length", "64", "--points", "1")
FULL = "No space left on device; free some space, or write to another disk\n"

WRITERS: dict[str, tuple[Sequence[str | Path], str]] = {
    "a schedule": (SMALL, "--save"),
    "a picture of a schedule": (SMALL, "--plot"),
    "a trace": (SMALL, "--trace"),
    "a derived cascade": (("derive", "attention-naive"), "-o"),
    "a graph": (("passes", "attention-1pass"), "--graph"),
    "a workload of AccelForge": (("export", "attention-3pass", CONFIG), "-o"),
    "Verilog": (("rtl", "relu", "--name", "unit"), "-o"),
    "an array": (("rtl", "attention-array", "--name", "unit"), "-o"),
    "figures": (("reproduce", "fusemax"), "--plot"),
    "a design of a frame": (("map", "m3vit", "--device", "zcu102", "--bits", "16"), "--save"),
}
"""Commands that write, and the option that says where."""
ENDINGS = {"--plot": ".png", "--trace": ".json", "--graph": ".dot"}


def run(*arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    command = [sys.executable, "-c", "from accel.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)  # type: ignore[call-overload, no-any-return]


def clean(finished: Finished | subprocess.CompletedProcess[str]) -> None:
    """Check that an error is one, and no fault of ours."""
    text = finished.err if isinstance(finished, Finished) else finished.stderr
    assert "Traceback" not in text
    assert "fault of EinRTL" not in text


@pytest.fixture
def full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which no temporary file finds room."""
    folder = tmp_path / "full"
    folder.mkdir()

    def no_room(**options: str | Path) -> tuple[int, str]:
        if Path(options["dir"]).is_relative_to(folder):
            raise OSError(28, "No space left on device")
        return before(**options)  # type: ignore[call-overload, no-any-return]

    before = tempfile.mkstemp
    monkeypatch.setattr("accel.files.tempfile.mkstemp", no_room)
    return folder


@pytest.mark.parametrize("kind", WRITERS)
def test_a_full_disk_is_named_with_the_file(kind: str, full_disk: Path, einrtl: Command) -> None:
    command, option = WRITERS[kind]
    folder = "rtl" in command or "reproduce" in command
    target = full_disk if folder else full_disk / f"file{ENDINGS.get(option, '.yaml')}"
    finished = einrtl(*command, option, target)
    clean(finished)
    assert finished.code == 2
    last = finished.err.splitlines()[-1] + "\n"
    assert last.startswith(f"error: {target}") and last.endswith(f" must be writable: {FULL}")
    assert list(full_disk.iterdir()) == []


@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_in_the_place_of_a_folder_is_named(kind: str, tmp_path: Path, einrtl: Command) -> None:
    command, option = WRITERS[kind]
    (tmp_path / "file").write_text("in the way")
    finished = einrtl(*command, option, tmp_path / "file" / f"out{ENDINGS.get(option, '.yaml')}")
    clean(finished)
    assert finished.code == 2
    assert finished.err.splitlines()[-1].startswith(f"error: {tmp_path / 'file'}")
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.parametrize("kind", [kind for kind, (command, _) in WRITERS.items() if "rtl" not in command])
def test_a_folder_in_the_place_of_a_file_is_named(kind: str, tmp_path: Path, einrtl: Command) -> None:
    command, option = WRITERS[kind]
    if "reproduce" in command:
        option, command = "--json", (*command, "--plot", tmp_path / "taken.png" / "x")
        (tmp_path / "taken.png").write_text("")
        finished = einrtl(*command)
    else:
        taken = tmp_path / f"taken{ENDINGS.get(option, '.yaml')}"
        taken.mkdir()
        finished = einrtl(*command, option, taken)
        assert finished.err.endswith(f"error: {taken} must be writable: Is a directory; name a file, not a folder\n")
    clean(finished)
    assert finished.code == 2


READERS = {
    "a cascade": (("passes",), ".ein"),
    "a schedule": (("price",), ".yaml"),
    "a model": (("map",), ".json"),
    "a sweep": (("sweep",), ".yaml"),
    "a run": (("run",), ".yaml"),
    "an attention file": (("sim",), ".yaml"),
    "a layer": (("layer",), ".yaml"),
    "cases": (("reproduce", "beyond-paper", "--cases"), ".yaml"),
    "an architecture": (("map", CONFIG, "--arch"), ".yaml"),
}
CONTENTS = {
    "empty": b"",
    "not UTF-8": b"name: \xff\xfe\n",
    "NUL bytes": b"\0\0\0\0",
    "one long line": b"x" * 100_000,
    "another kind of file": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "deeply nested": b"[" * 2000,
}


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("kind", READERS)
def test_a_file_of_rubbish_is_named(kind: str, content: str, tmp_path: Path, einrtl: Command) -> None:
    command, ending = READERS[kind]
    file = tmp_path / f"rubbish{ending}"
    file.write_bytes(CONTENTS[content])
    finished = einrtl(*command, file, *((CONFIG,) if command == ("price",) else ()))
    clean(finished)
    assert (finished.code, finished.out) == (2, "")
    assert "rubbish" in finished.err
    assert max(map(len, finished.err.splitlines())) < 1000


@pytest.mark.parametrize("kind", READERS)
def test_a_file_that_is_not_there_and_a_folder_in_its_place_are_named(
    kind: str, tmp_path: Path, einrtl: Command
) -> None:
    command, ending = READERS[kind]
    file = tmp_path / f"gone{ending}"
    more = (CONFIG,) if command == ("price",) else ()
    for _ in range(2):
        finished = einrtl(*command, file, *more)
        clean(finished)
        assert (finished.code, finished.out) == (2, "")
        assert "gone" in finished.err
        file.mkdir(exist_ok=True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "command", [("list", "units"), ("list", "--json"), ("passes", "attention-1pass", "--json")], ids=" ".join
)
def test_output_that_cannot_be_written_is_an_error(command: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        words = [sys.executable, "-c", "from accel.cli import main; main()", *command]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, timeout=300)
    assert "Traceback" not in done.stderr
    assert done.returncode == 2
    assert done.stderr == f"error: {FULL}"


@pytest.mark.parametrize("command", [("list", "units"), ("list", "--json"), ("zoo",)], ids=" ".join)
def test_a_reader_that_goes_away_is_no_error(command: tuple[str, ...]) -> None:
    words = [sys.executable, "-c", "from accel.cli import main; main()", *command]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=300) == 0


@pytest.mark.parametrize("wait_s", [0.0, 0.3, 1.0, 2.0])
@pytest.mark.parametrize(
    "command",
    [
        ("map", CONFIG, "--batch", "64", "--length", "65536", "--exact", "--save", "OUT/schedule.yaml"),
        ("rtl", "encoder-block", "-o", "OUT"),
        ("reproduce", "fusemax", "--plot", "OUT"),
        ("sim", ROOT / "examples" / "attention" / "array-4x4.yaml", "--build-dir", "OUT/build"),
    ],
    ids=lambda command: " ".join(command[:1]),
)
def test_an_impatient_user_gets_the_prompt_back_and_no_half_file(
    command: tuple[str | Path, ...], wait_s: float, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    words = [str(word).replace("OUT", str(out)) for word in command]
    starter = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from accel.cli import main; print('up', flush=True); main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", starter, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "up\n"
    time.sleep(wait_s)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    if process.returncode != 0:  # done before the key was pressed
        assert process.returncode == 130, errors
        assert "Traceback" not in errors
    left = [path for path in out.rglob("*") if path.is_file() and path.name.startswith(".")]
    assert left == []


def test_a_database_that_is_none_is_refused_and_stays(tmp_path: Path, einrtl: Command) -> None:
    file, database = ROOT / "examples" / "sweep.yaml", tmp_path / "results.sqlite"
    database.write_bytes(b"not a database, but what someone needs")
    finished = einrtl("sweep", file, "-o", database)
    clean(finished)
    assert (finished.code, finished.out) == (2, "")
    assert "results.sqlite" in finished.err
    assert database.read_bytes() == b"not a database, but what someone needs"
    database.unlink()
    with sqlite3.connect(database) as other:
        other.execute("create table photographs (name text)")
    other.close()
    finished = einrtl("sweep", file, "-o", database)
    clean(finished)
    assert (finished.code, finished.out) == (2, "")
    assert "results.sqlite" in finished.err


def test_a_missing_compiler_is_named_with_the_way_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    file = ROOT / "examples" / "attention" / "array-4x4.yaml"
    done = run("sim", file, "--build-dir", tmp_path / "build", env={**os.environ, "PATH": str(tools)}, cwd=tmp_path)
    clean(done)
    assert (done.returncode, done.stdout) == (3, "")
    assert "apt install" in done.stderr
