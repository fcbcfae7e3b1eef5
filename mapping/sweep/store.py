"""The results of a sweep in one SQLite file, written as they come: one transaction for each point."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from accel import spec
from accel.errors import InputError
from accel.sweep import SweepFile
from mapping.sweep.evaluation import COLUMNS, Outcome
from mapping.sweep.plan import Point, SweepPlan

__all__ = ["Store", "is_database"]

APPLICATION_ID = 0x45696E52  # "EinR": tells our files from other SQLite files
SCHEMA_VERSION = 2

_RESULTS = ",\n  ".join(f"{name} {kind}" for name, kind in COLUMNS.items())

SCHEMA = f"""
BEGIN;
-- Every version of the sweep file that was run on this database; the last one is the one that "asked" belongs to.
CREATE TABLE sweep (
  number INTEGER PRIMARY KEY,
  digest TEXT NOT NULL,             -- of all that decides which points are asked for
  name TEXT NOT NULL,
  text TEXT NOT NULL,               -- the file as its author wrote it
  einrtl_version TEXT NOT NULL,
  begun_at_utc TEXT NOT NULL
);
-- Cascades (notation), architectures, cost tables and workloads (JSON) by the digest of what results depend on.
CREATE TABLE description (
  digest TEXT NOT NULL,
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (kind, digest)
) WITHOUT ROWID;
-- The points of the last sweep file in its order; a point that a sampler meets again stands at several positions.
CREATE TABLE asked (
  position INTEGER PRIMARY KEY,
  point TEXT NOT NULL,              -- digest; the row in "point" is there once it is done
  cascade TEXT NOT NULL,
  architecture TEXT NOT NULL,
  model TEXT NOT NULL,
  batch INTEGER NOT NULL,
  queries INTEGER NOT NULL,
  keys INTEGER NOT NULL,
  objective TEXT NOT NULL,
  settings TEXT NOT NULL            -- JSON: dotted path of a field of the architecture to its value
);
CREATE INDEX asked_point ON asked (point);
-- One row for each point that was ever finished. Columns of results are null where the point failed.
CREATE TABLE point (
  digest TEXT PRIMARY KEY,
  status TEXT NOT NULL CHECK (status IN ('done', 'failed')),
  reason TEXT,                      -- why it failed
  cascade_digest TEXT NOT NULL,
  architecture_digest TEXT NOT NULL,
  technology_digest TEXT NOT NULL,
  workload_digest TEXT NOT NULL,
  objective TEXT NOT NULL,
  einrtl_version TEXT NOT NULL,
  {_RESULTS},
  wall_time_s REAL NOT NULL,
  finished_at_utc TEXT NOT NULL
) WITHOUT ROWID;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""


def is_database(path: Path) -> bool:
    """Return whether the file at ``path`` is an SQLite database."""
    try:
        with path.open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:
        return False


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Store:
    """The database of one sweep.

    Any number of readers may look while one writer adds; a second writer is refused. Whatever has been recorded stays,
    also if the process is killed at the next instruction.

    Parameters
    ----------
    path : Path
        The file; made if it is not there.
    read_only : bool
        Whether to look only.

    Raises
    ------
    InputError
        The file is not there (read-only), cannot be opened, holds something else, or another process writes to it.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self._lock: IO[bytes] | None = None
        if read_only and not path.exists():
            raise InputError(f"{path} must be there to be shown", hint="run the sweep first")
        if path.exists() and path.stat().st_size and not is_database(path):
            raise InputError(f"{path} must be a database of results, but is another kind of file", hint="name another")
        try:
            if not read_only:
                self._lock = _lock(path)
            # A reader opens for writing too where it may: only so can the last one out tidy up the write-ahead log.
            mode = "rw" if read_only else "rwc"
            self._db = sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            self._unlock()
            detail = error.strerror if isinstance(error, OSError) else error
            raise InputError(f"{path} must be a file that can be opened: {detail}", hint="check the folder") from None
        self._db.row_factory = sqlite3.Row
        try:
            self._open(read_only)
        except BaseException:
            self.close()
            raise

    def _open(self, read_only: bool) -> None:
        """Check that the database is one of ours, and make the tables of a new one."""
        try:
            identity = self._db.execute("PRAGMA application_id").fetchone()[0]
            found = self._db.execute("PRAGMA user_version").fetchone()[0]
            empty = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
            if identity == 0 and empty and not read_only:  # new, or killed before its tables were there
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.executescript(SCHEMA)
                identity, found = APPLICATION_ID, SCHEMA_VERSION
            # A recorded point survives a loss of power too.
            self._db.execute("PRAGMA query_only = ON" if read_only else "PRAGMA synchronous = FULL")
        except sqlite3.Error as error:
            raise _refused(self.path, error) from None
        if identity != APPLICATION_ID:
            raise InputError(f"{self.path} must be a database of a sweep, but is another's", hint="name another file")
        if found != SCHEMA_VERSION:
            raise InputError(
                f"{self.path} must have tables of version {SCHEMA_VERSION}, not {found}",
                hint="use the version of EinRTL that made it, or name another file",
            )

    def __enter__(self) -> Store:
        """Return the store itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it; what SQLite refused meanwhile is the file's or the disk's fault, and said so.

        Raises
        ------
        InputError
            The disk is full, or the file is damaged.
        """
        self.close()
        # Its other errors, such as a broken constraint, are faults of ours.
        if type(error) in (sqlite3.OperationalError, sqlite3.DatabaseError):
            assert isinstance(error, sqlite3.Error)
            raise _refused(self.path, error) from error

    def close(self) -> None:
        """Close the file; the last one to do so folds the write-ahead log into it."""
        self._db.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            Path(self._lock.name).unlink(missing_ok=True)
            self._lock.close()
            self._lock = None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._db.in_transaction:  # SQLite itself has rolled back where the disk is full
                self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def begin(self, plan: SweepPlan) -> None:
        """Note the sweep file that is run now; if it asks for other points than the last one, forget what that asked.

        No result is ever forgotten.
        """
        last = self._db.execute("SELECT digest, text FROM sweep ORDER BY number DESC LIMIT 1").fetchone()
        if last is not None and (last["digest"], last["text"]) == (plan.digest, plan.text):
            return
        with self._transaction():
            if last is None or last["digest"] != plan.digest:
                self._db.execute("DELETE FROM asked")
            self._db.execute(
                "INSERT INTO sweep (digest, name, text, einrtl_version, begun_at_utc) VALUES (?, ?, ?, ?, ?)",
                (plan.digest, plan.sweep.name, plan.text, plan.version, _now()),
            )

    def ask(self, points: Iterable[tuple[int, Point]]) -> None:
        """Note points with their positions, all in one transaction."""
        rows = (
            (
                position,
                point.digest,
                point.cascade.name,
                point.architecture.name,
                point.workload.name,
                point.workload.batch,
                point.workload.queries,
                point.workload.keys,
                point.objective,
                json.dumps(dict(point.settings)),
            )
            for position, point in points
        )
        with self._transaction():
            self._db.executemany("INSERT OR REPLACE INTO asked VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def record(self, outcome: Outcome, *, version: str) -> None:
        """Write what became of a point, and the descriptions it came from, in one transaction."""
        point, values = outcome.point, outcome.values or {}
        digests = [each.digest for each in point.descriptions]
        status = "failed" if outcome.values is None else "done"
        results = [values.get(name) for name in COLUMNS]
        row: list[Any] = [point.digest, status, outcome.reason, *digests, point.objective, version]
        row += [*results, outcome.wall_time_s, _now()]
        with self._transaction():
            self._db.executemany(
                "INSERT OR IGNORE INTO description (kind, digest, name, text) VALUES (?, ?, ?, ?)",
                [(each.kind, each.digest, each.name, each.text) for each in point.descriptions],
            )
            self._db.execute(f"INSERT INTO point VALUES ({', '.join('?' * len(row))})", row)

    def forget_failed(self) -> int:
        """Remove the failed points that are asked for, so that they are tried again; return how many."""
        with self._transaction():
            return self._db.execute(
                "DELETE FROM point WHERE status = 'failed' AND digest IN (SELECT point FROM asked)"
            ).rowcount

    def outcome(self, digest: str) -> Mapping[str, Any] | None:
        """Return the recorded row of a point, or None if it is not finished."""
        row = self._db.execute("SELECT * FROM point WHERE digest = ?", (digest,)).fetchone()
        return None if row is None else dict(row)

    def counts(self) -> dict[str, int]:
        """Return how many different points are ``asked`` for, how many of them are ``done`` and ``failed``, and others.

        ``other`` are finished points that only earlier versions of the sweep file asked for.
        """
        asked = self._db.execute("SELECT count(DISTINCT point) FROM asked").fetchone()[0]
        found = dict.fromkeys(("done", "failed"), 0)
        query = "SELECT status, count(*) FROM point WHERE digest {} (SELECT point FROM asked) GROUP BY status"
        found.update(dict(self._db.execute(query.format("IN")).fetchall()))
        other = sum(count for _, count in self._db.execute(query.format("NOT IN")))
        return {"asked": asked, **found, "other": other}

    def plan_digest(self) -> str | None:
        """Return the digest of the plan that was run last, or None if there was none."""
        row = self._db.execute("SELECT digest FROM sweep ORDER BY number DESC LIMIT 1").fetchone()
        return None if row is None else str(row["digest"])

    def sweep(self) -> SweepFile:
        """Return the sweep file that was run last; raises ``InputError`` if there was none."""
        row = self._db.execute("SELECT text FROM sweep ORDER BY number DESC LIMIT 1").fetchone()
        if row is None:
            raise InputError(f"{self.path} must hold a sweep to be shown, but none was run", hint="run the sweep first")
        return spec.loads(SweepFile, row["text"], file=f"sweep file in {self.path}")

    def rows(self) -> list[dict[str, Any]]:
        """Return the finished points that are asked for, in the order of the sweep file, each once.

        A row has the columns of both tables but the schedule, which is long; ``settings`` is a mapping.
        """
        found = []
        query = """
            SELECT asked.*, point.* FROM asked JOIN point ON point.digest = asked.point
            WHERE position = (SELECT min(position) FROM asked AS other WHERE other.point = asked.point)
            ORDER BY position
        """
        for row in self._db.execute(query):
            values = dict(row)
            del values["point"], values["schedule"]
            found.append({**values, "settings": json.loads(values["settings"])})
        return found


def _refused(path: Path, error: sqlite3.Error) -> InputError:
    """Return the error that says what SQLite refuses to do with the file, and the way out."""
    kind = getattr(error, "sqlite_errorname", "")  # only errors that SQLite itself reports have one
    if kind == "SQLITE_FULL":
        hint = "free some space and give the same command again to go on"
        return InputError(f"{path} must be writable: {error}", hint=hint)
    if kind.startswith(("SQLITE_IOERR", "SQLITE_BUSY", "SQLITE_READONLY", "SQLITE_CANTOPEN")):
        return InputError(f"{path} must be a file that can be read and written: {error}", hint="check the disk")
    return InputError(f"{path} must be a sound SQLite database: {error}", hint="name another")


def _lock(path: Path) -> IO[bytes]:
    """Return a lock that no other process has, and that ends with this process however that ends."""
    name = path.with_name(path.name + ".lock")
    while True:
        file = name.open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise InputError(
                f"{path} must have one writer, but another sweep is writing to it", hint="wait, or name another with -o"
            ) from None
        except OSError:
            file.close()
            raise
        try:  # the one who had it before may have removed the name since we opened it
            if os.path.samestat(name.stat(), os.fstat(file.fileno())):
                return file
        except FileNotFoundError:
            pass
        file.close()
