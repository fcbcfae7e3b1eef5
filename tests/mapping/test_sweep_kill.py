"""Sweeps that are killed: at random moments, with all their workers or without, and by Ctrl-C."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import psutil
import pytest

from accel.cli import main
from tests.mapping.sweeping import content, recorded, sweep_file

KILLS = 20
PATIENCE_S = 60
SPACE = {"sides": "[1, 2]", "sizes": "{first: 8192, last: 131072, step: 8192}", "lengths": "[2, 3]"}
"""64 points."""


def command(arguments: list[str], log: Path) -> None:
    """Run the command line as the leader of a process group of its own."""
    os.setsid()
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    main(arguments)


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., BaseProcess]:
    """Return a function that starts the command from a process that has all modules loaded: a kill each 0.3 s."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["accel.cli", "mapping.cli.sweep", "tests.mapping.test_sweep_kill"])

    def begin(*arguments: str | Path) -> BaseProcess:
        process = context.Process(target=command, args=([str(each) for each in arguments], tmp_path / "log"))
        process.start()
        return process

    return begin


def wait_for(condition: Callable[[], bool], process: BaseProcess | None = None) -> None:
    """Wait until ``condition`` holds or the process has ended."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition() and (process is None or process.is_alive()):
        assert time.monotonic() < deadline, "nothing happened for a minute"
        time.sleep(0.01)


def group_of(leader: int) -> list[psutil.Process]:
    """Return the running processes of a group."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


def test_a_sweep_that_is_killed_20_times_ends_with_what_an_uninterrupted_one_finds(
    tmp_path: Path, start: Callable[..., BaseProcess], einrtl: Callable[..., object]
) -> None:
    chance = random.Random(20261130)
    file, database = sweep_file(tmp_path, **SPACE), tmp_path / "killed.sqlite"
    before: dict[str, str] = {}
    interrupted = 0
    for kill in range(KILLS):
        workers = 2 if kill % 7 == 6 else 0
        process = start("sweep", file, "-o", database, "--workers", workers)
        enough = len(before) + chance.choice((0, 0, 1, 1, 2, 3))
        wait_for(lambda enough=enough: len(recorded(database)) >= enough, process)
        time.sleep(chance.uniform(0, 0.1))
        interrupted += process.is_alive()
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:  # before it had a group of its own
            process.kill()
        process.join()
        after = recorded(database)
        assert before.items() <= after.items(), "a point was lost or done again"
        before = after
    assert interrupted == KILLS, "each kill must hit a sweep that is under way"
    assert 0 < len(before) < 64
    process = start("sweep", file, "-o", database, "--workers", 0)
    process.join(PATIENCE_S)
    assert process.exitcode == 0, (tmp_path / "log").read_text()
    assert before.items() <= recorded(database).items()
    connection = sqlite3.connect(database)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    whole = tmp_path / "whole.sqlite"
    einrtl("sweep", file, "-o", whole, "--workers", 0)
    assert content(database) == content(whole)
    assert len(recorded(whole)) == 64
    left = sorted(each.name for each in tmp_path.iterdir())
    assert left == ["killed.html", "killed.sqlite", "log", "small.yaml", "whole.html", "whole.sqlite"]


def test_the_workers_of_a_killed_sweep_do_not_outlive_it(tmp_path: Path, start: Callable[..., BaseProcess]) -> None:
    file, database = sweep_file(tmp_path, **SPACE), tmp_path / "results.sqlite"
    process = start("sweep", file, "-o", database, "--workers", 2)
    wait_for(lambda: len(recorded(database)) >= 2, process)
    assert process.pid is not None
    assert len(group_of(process.pid)) >= 3
    process.kill()
    process.join()
    wait_for(lambda: group_of(process.pid or 0) == [])


@pytest.mark.parametrize("workers", [0, 2])
def test_ctrl_c_ends_a_sweep_cleanly_and_says_how_to_go_on(
    tmp_path: Path, start: Callable[..., BaseProcess], workers: int
) -> None:
    file, database = sweep_file(tmp_path, **SPACE), tmp_path / "results.sqlite"
    process = start("sweep", file, "-o", database, "--workers", workers)
    wait_for(lambda: len(recorded(database)) >= 2, process)
    assert process.pid is not None
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
    process.join(PATIENCE_S)
    assert process.exitcode == 130
    done = len(recorded(database))
    assert 2 <= done < 64
    assert (tmp_path / "log").read_text() == (
        f"note: stopped with {done} of 64 points in {database}; give the same command again to go on\ninterrupted\n"
    )
    assert group_of(process.pid) == []
    assert sorted(each.name for each in tmp_path.iterdir()) == ["log", "results.sqlite", "small.yaml"]
