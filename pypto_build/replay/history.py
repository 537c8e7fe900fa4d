"""The history of runs on many artifacts: one SQLite file in BUILD_DIR, a row for each job of each run.

It decides the order of jobs and tells since when a job fails. No result depends on it, so it may be removed.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec

from pypto_build.artifact.errors import ArtifactError

#: The name of the file in BUILD_DIR.
NAME = "history.sqlite"
#: The number of runs that are kept.
KEPT = 500
_SCHEMA = 1
_WAIT_S = 5.0

_TABLES = """
create table if not exists runs(
    run integer primary key autoincrement, began real not null, verbs text not null, revision text not null,
    seconds real not null);
create table if not exists results(
    run integer not null references runs, job text not null, status text not null, seconds real not null,
    memory integer not null, cached integer not null, reason text not null, primary key(run, job)) without rowid;
create index if not exists by_job on results(job, run);
"""


class Run(msgspec.Struct, frozen=True):
    """One command on many artifacts: ``began`` in seconds since 1970, the ``revision`` of the workspace."""

    began: float
    verbs: str
    revision: str = ""
    seconds: float = 0.0
    number: int = 0


class Result(msgspec.Struct, frozen=True):
    """The result of one job, named by verbs, artifact, platform and options; ``memory`` in bytes, 0 if not measured."""

    job: str
    status: str
    seconds: float = 0.0
    memory: int = 0
    cached: bool = False
    reason: str = ""


class Past(msgspec.Struct, frozen=True):
    """The past of a job: its last status, the revision and number of runs since which it has that status, and its last
    cost."""

    status: str
    since: str
    runs: int
    seconds: float = 0.0
    memory: int = 0


class History:
    """The file at ``path``, which need not be there yet."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def past(self, jobs: Sequence[str]) -> dict[str, Past]:
        """Return the past of those of ``jobs`` that have run before."""
        if not self.path.exists():
            return {}
        names, past_runs = set(jobs), {}
        with self._opened() as database:
            for job, status, since, runs in _typed(database.execute(_LAST), tuple[str, str, str, int]):
                if job in names:
                    past_runs[job] = Past(status, since, runs)
            for job, seconds, memory in _typed(database.execute(_TAKEN), tuple[str, _Seconds, int]):
                if job in past_runs:
                    past_runs[job] = msgspec.structs.replace(past_runs[job], seconds=seconds, memory=memory)
        return past_runs

    def add(self, run: Run, results: Sequence[Result]) -> None:
        """Store the results of a run, and delete the oldest runs beyond ``KEPT``."""
        rows = [(r.job, r.status, r.seconds, r.memory, int(r.cached), r.reason) for r in results]
        with self._opened() as database, database:
            values = (run.began, run.verbs, run.revision, run.seconds)
            cursor = database.execute("insert into runs(began, verbs, revision, seconds) values (?, ?, ?, ?)", values)
            number = cursor.lastrowid or 0
            database.executemany(f"insert or replace into results values ({number}, ?, ?, ?, ?, ?, ?)", rows)
            for table in ("results", "runs"):
                database.execute(f"delete from {table} where run <= ?", (number - KEPT,))

    def runs(self) -> list[Run]:
        """Return all runs, oldest first."""
        with self._opened() as database:
            rows = database.execute("select began, verbs, revision, seconds, run from runs order by run")
            return [Run(*row) for row in _typed(rows, tuple[_Seconds, str, str, _Seconds, int])]

    def results(self) -> dict[str, dict[int, Result]]:
        """Return the results of every job by run number, oldest first."""
        by_job: dict[str, dict[int, Result]] = {}
        with self._opened() as database:
            order = "select run, job, status, seconds, memory, cached, reason from results order by job, run"
            rows = _typed(database.execute(order), tuple[int, str, str, _Seconds, int, int, str])
            for run, job, status, seconds, memory, cached, reason in rows:
                by_job.setdefault(job, {})[run] = Result(job, status, seconds, memory, bool(cached), reason)
        return by_job

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            if self.path.exists() and not self.path.is_file():
                raise sqlite3.DatabaseError("the path is not a regular file")
            self.path.parent.mkdir(parents=True, exist_ok=True)
            database = sqlite3.connect(self.path, timeout=_WAIT_S)
            try:
                version = database.execute("pragma user_version").fetchone()[0]
                if version not in (0, _SCHEMA):
                    raise sqlite3.DatabaseError(f"the file was written by another version ({version})")
                if not version:
                    database.executescript(_TABLES)
                    database.execute(f"pragma user_version = {_SCHEMA}")
                database.execute("pragma synchronous = off")  # after a crash of the machine it may be begun anew
                yield database
            finally:
                database.close()
        except (sqlite3.Error, OSError, OverflowError, ValueError, msgspec.MsgspecError) as error:
            raise ArtifactError(
                self.path, f"is not a valid history of runs: {error}", "a new history is started"
            ) from None


# Bounds of a time or duration: a damaged file may hold any number.
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e11)]


def _typed(rows: Iterable[tuple[Any, ...]], row_type: Any) -> Iterator[Any]:
    """Return the rows converted to their type; a damaged file gives rows of other types."""
    return (msgspec.convert(row, row_type) for row in rows)


#: The last result of each job, with the revision and the number of runs since it last changed.
_LAST = """
with last as (select job, max(run) as run from results group by job),
     latest as (select l.job, l.run, r.status from last l join results r on r.job = l.job and r.run = l.run),
     flip as (select t.job, coalesce(max(r.run), 0) as run from latest t
              left join results r on r.job = t.job and r.status <> t.status group by t.job),
     streak as (select t.job, min(r.run) as first, count(*) as runs from latest t join flip f on f.job = t.job
                join results r on r.job = t.job and r.run > f.run group by t.job)
select t.job, t.status, runs.revision, s.runs
from latest t join streak s on s.job = t.job join runs on runs.run = s.first
"""
#: The time and memory of each job when it last ran.
_TAKEN = """
select r.job, r.seconds, r.memory from results r
join (select job, max(run) as run from results where not cached group by job) l on l.job = r.job and l.run = r.run
"""


def flips(results: Mapping[int, Result]) -> list[tuple[int, Result, Result]]:
    """Return the changes of a job's status: the number of the run, the result before, and the result in that run."""
    pairs = itertools.pairwise(results.items())
    return [(run, before, now) for (_, before), (run, now) in pairs if before.status != now.status]
