"""Where the points of a sweep run: in this process, in worker processes of this machine, or on a Dask cluster."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from importlib.metadata import version
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Protocol

from accel.errors import InputError, ToolMissingError
from mapping.sweep.evaluation import Outcome, evaluate
from mapping.sweep.plan import Point

__all__ = ["DaskRunner", "InProcessRunner", "ProcessRunner", "Runner", "extra_missing"]

LOST_WORKER = "each process that worked on it ended without a word: it was killed, or ran out of memory"


def extra_missing(library: str, purpose: str) -> ToolMissingError:
    """Return the error that says how to get an optional library of sweeps."""
    return ToolMissingError(f"{purpose} needs {library}, which is not installed; run: pip install 'einrtl[sweep]'")


class Runner(Protocol):
    """Something that evaluates points, several at a time."""

    def run(self, points: Iterable[Point]) -> Iterator[Outcome]:
        """Yield the outcomes of ``points`` as they come, in any order; points are taken only as they can be started.

        Closing the iterator early gives up the points that are not finished.
        """

    def close(self) -> None:
        """End all workers, at once and whatever they are doing."""


class _Closing:
    """A runner that a ``with`` statement closes."""

    def __enter__(self) -> Any:
        """Return the runner itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End all workers."""
        self.close()

    def close(self) -> None:
        """End all workers."""


class InProcessRunner(_Closing):
    """Evaluates one point after the other in this process: for debuggers, and where processes are not wanted."""

    def run(self, points: Iterable[Point]) -> Iterator[Outcome]:
        """Yield outcomes in the order of the points."""
        return map(evaluate, points)


def _begin_worker(lifeline: Connection) -> None:
    """Make a worker end when the other end of ``lifeline`` is closed.

    The system closes it too when the parent is killed: otherwise its workers would wait for work for ever.
    """

    def watch() -> None:
        try:
            lifeline.recv_bytes()
        except (EOFError, OSError):
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


class _Pool:
    """Worker processes that can be ended at once."""

    def __init__(self, workers: int) -> None:
        # Spawned, not forked: a fork would copy the lock of the database and hold the lifeline open.
        context = multiprocessing.get_context("spawn")
        lifeline, self._life = context.Pipe(duplex=False)
        self._lifeline = lifeline  # must stay open until the last worker has been started
        self._executor = ProcessPoolExecutor(workers, context, _begin_worker, (lifeline,))

    def submit(self, point: Point) -> Future[Outcome]:
        # Workers are started here as they are needed. They inherit that Ctrl-C is held back, from their first
        # instruction on: it is for this process to end them.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return self._executor.submit(evaluate, point)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def close(self) -> None:
        self._life.close()
        self._executor.shutdown(cancel_futures=True)
        self._lifeline.close()


class ProcessRunner(_Closing):
    """Evaluates points in worker processes of this machine.

    Where a worker is lost, the points that were under way are tried again, each in a process of its own; one that is
    lost again has failed.

    Parameters
    ----------
    workers : int
        Processes; at least 1.
    """

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise InputError(f"workers must be at least 1, not {workers}", hint="use 1")
        self.workers = workers
        self._pool: _Pool | None = None

    def run(self, points: Iterable[Point]) -> Iterator[Outcome]:
        """Yield outcomes as they come."""
        source = iter(points)
        waiting: dict[Future[Outcome], Point] = {}
        while True:
            lost = self._fill(waiting, source)
            if not waiting and not lost:
                return
            if not lost:
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    point = waiting.pop(future)
                    if isinstance(future.exception(), BrokenProcessPool):
                        lost.append(point)
                    else:
                        yield future.result()
            if lost:
                yield from self._recover(waiting, lost)

    def _fill(self, waiting: dict[Future[Outcome], Point], source: Iterator[Point]) -> list[Point]:
        """Submit points until each worker has one and one more is ready for it; return a point that was refused."""
        while len(waiting) < 2 * self.workers:
            point = next(source, None)
            if point is None:
                break
            self._pool = self._pool or _Pool(self.workers)
            try:
                waiting[self._pool.submit(point)] = point
            except BrokenProcessPool:  # before any future told us
                return [point]
        return []

    def _recover(self, waiting: dict[Future[Outcome], Point], lost: list[Point]) -> Iterator[Outcome]:
        """Yield outcomes of all points that were under way when a worker was lost."""
        self.close()  # which ends the other futures too
        for future, point in waiting.items():
            if future.cancelled() or future.exception() is not None:
                lost.append(point)
            else:
                yield future.result()
        waiting.clear()
        yield from map(self._alone, lost)

    def _alone(self, point: Point) -> Outcome:
        pool = _Pool(1)
        try:
            return pool.submit(point).result()
        except BrokenProcessPool:
            return Outcome(point=point, reason=LOST_WORKER)
        finally:
            pool.close()

    def close(self) -> None:
        """End all workers, at once."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None


class OtherVersionError(Exception):
    """A worker would compute something else than its scheduler's client."""


def _evaluate_remotely(point: Point, wanted: str) -> Outcome:
    """Evaluate a point on a machine whose EinRTL might be another."""
    if version("einrtl") != wanted:
        raise OtherVersionError(f"einrtl {version('einrtl')} on a worker, {wanted} here")
    return evaluate(point)


class DaskRunner(_Closing):
    """Evaluates points on a Dask cluster; Dask moves the points of a lost worker to others.

    Parameters
    ----------
    scheduler : str
        Address of a scheduler (``tcp://host:8786``), or ``local`` for a cluster of this machine.
    workers : int
        Processes of a local cluster.

    Raises
    ------
    ToolMissingError
        Dask is not installed, or no scheduler answers.
    """

    TIMEOUT_S = 20

    def __init__(self, scheduler: str, *, workers: int = 1) -> None:
        try:
            import distributed
            from distributed.comm import connect
        except ImportError:
            raise extra_missing("dask and distributed", "--scheduler") from None
        self.scheduler = scheduler
        self._distributed = distributed
        self.cluster: Any = None
        self._enough = 0

        async def greet() -> None:
            (await connect(scheduler, timeout=self.TIMEOUT_S)).abort()

        try:
            if scheduler == "local":
                self.cluster = distributed.LocalCluster(
                    n_workers=workers, threads_per_worker=1, dashboard_address=None, worker_dashboard_address=None
                )
            else:  # a client that nobody answers would hang once more when it is collected
                asyncio.run(greet())
            self.client = distributed.Client(self.cluster or scheduler, timeout=self.TIMEOUT_S, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InputError(
                f"a Dask scheduler must answer at {scheduler}, but: {reason}", hint="start one with: dask scheduler"
            ) from None

    def run(self, points: Iterable[Point]) -> Iterator[Outcome]:
        """Yield outcomes as they come."""
        source = iter(points)
        waiting: dict[Any, Point] = {}
        finished = self._distributed.as_completed(loop=self.client.loop)
        try:
            while True:
                self._fill(waiting, source, finished)
                if not waiting:
                    return
                future = next(finished)
                yield self._outcome(future, waiting.pop(future))
        finally:
            self.client.cancel(list(waiting))

    def _fill(self, waiting: dict[Any, Point], source: Iterator[Point], finished: Any) -> None:
        """Submit points until every thread of the cluster has a few; the cluster may grow and shrink meanwhile."""
        if len(waiting) > self._enough // 2:
            return
        self._enough = max(4 * sum(self.client.nthreads().values()), 64)
        for point in itertools.islice(source, self._enough - len(waiting)):
            key = f"einrtl-{point.digest}"
            future = self.client.submit(_evaluate_remotely, point, version("einrtl"), key=key, pure=False)
            waiting[future] = point
            finished.add(future)

    def _outcome(self, future: Any, point: Point) -> Outcome:
        error = None if future.status == "finished" else future.exception()
        if error is None:
            outcome: Outcome = future.result()
            future.release()
            return outcome
        if isinstance(error, self._distributed.scheduler.KilledWorker):
            return Outcome(point=point, reason=LOST_WORKER)
        raise ToolMissingError(
            f"the workers at {self.scheduler} must stay reachable and have this EinRTL installed, but: "
            f"{type(error).__name__}: {error}; what is done is kept, so the same command goes on from here"
        )

    def close(self) -> None:
        """Leave the scheduler; end a local cluster."""
        self.client.close()
        if self.cluster is not None:
            self.cluster.close()
