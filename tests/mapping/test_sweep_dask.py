"""Sweeps on a Dask cluster of this machine, one of whose workers is killed in the middle."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import distributed
import pytest

from mapping.sweep import DaskRunner
from mapping.sweep.evaluation import Outcome
from mapping.sweep.plan import load_plan
from tests.mapping.sweeping import content, recorded, sweep_file

SPACE = {"sizes": "{first: 8192, last: 131072, step: 8192}", "lengths": "[3]"}
"""32 points."""


@pytest.fixture(scope="module")
def cluster() -> Any:
    """Return a scheduler with two workers, each in a process of its own."""
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        dashboard_address=None,
        worker_dashboard_address=None,
        silence_logs=50,  # a killed worker is what we want: no need to tell
    ) as made:
        yield made


def test_a_sweep_on_a_cluster_survives_the_loss_of_a_worker(
    cluster: Any, tmp_path: Path, einrtl: Callable[..., Any]
) -> None:
    file, database = sweep_file(tmp_path, **SPACE), tmp_path / "dask.sqlite"
    killed: list[int] = []

    def kill() -> None:
        while len(recorded(database)) < 5:
            time.sleep(0.01)
        worker = cluster.workers[0].pid
        os.kill(worker, signal.SIGKILL)
        killed.append(len(recorded(database)))

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    run = einrtl("sweep", file, "-o", database, "--scheduler", cluster.scheduler_address)
    killer.join(1)
    assert run.code == 0, run.err
    assert killed and 5 <= killed[0] < 32
    einrtl("sweep", file, "-o", tmp_path / "here.sqlite", "--workers", 0)
    assert content(database) == content(tmp_path / "here.sqlite")
    connection = sqlite3.connect(database)
    assert connection.execute("SELECT status, count(*) FROM point GROUP BY status").fetchall() == [("done", 32)]
    connection.close()


def _deadly(point: Any, wanted: str) -> Outcome:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def test_a_point_that_kills_every_worker_it_runs_on_has_failed(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = list(load_plan(sweep_file(tmp_path)).grid())[:2]
    monkeypatch.setattr("mapping.sweep.runners._evaluate_remotely", _deadly)
    with DaskRunner(cluster.scheduler_address) as runner:
        outcome = next(runner.run(points[:1]))
    assert outcome.point == points[0]
    assert outcome.reason == (
        "each process that worked on it ended without a word: it was killed, or ran out of memory"
    )
