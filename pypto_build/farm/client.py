"""Hands jobs to a Dask cluster and reports each result as soon as it is known."""

from __future__ import annotations

import hashlib
import os
import platform
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import dask
import distributed
import msgspec
from distributed.scheduler import KilledWorker

from pypto_build.artifact import ArtifactError
from pypto_build.facts.jobs import LOCAL, FarmDrop, FarmJob, FarmLine, FarmReady, FarmResult, Order, OrderLine
from pypto_build.farm import worker

_dask: Any = distributed  # without types for what is used here
#: Number of workers that a job may lose; beyond it, the job is the cause.
LOSSES = 2
_CONNECT_S = 10.0
#: Seconds for all workers to describe themselves.
_ANSWER_S = 60.0
#: Bytes of files that workers hold for jobs that may follow.
_HELD = 256 << 20

#: Takes a line for people.
Say = Callable[[str], None]


def run(order: Order, batch: str, say: Say, more: Iterator[OrderLine] | None = None) -> Iterator[FarmLine]:
    """Yield the number of workers, then the results of an order's jobs as they end.

    ``batch`` is the order's unique name among the workers. ``more`` yields the lines that continue an open order, and
    is read in a thread of its own. When ``more`` ends, or the generator is closed early, the jobs that still run end.

    Raises:
        ArtifactError: there is no such cluster, or none of its workers is like this machine.
    """
    with _client(order) as client:
        usable = _own(client, say) if order.scheduler == LOCAL else _usable(client, say)
        jobs = _Jobs(client, batch, order.memory, usable)
        try:
            yield FarmReady(len(usable))
            for job in order.jobs:
                jobs.submit(job)
            yield from jobs.results(more)
        finally:
            jobs.end()


class _Jobs:
    """The unfinished jobs of one order."""

    def __init__(self, client: Any, batch: str, memory: int, usable: list[str]) -> None:
        self._client, self._batch, self._memory, self._usable = client, batch, memory, usable
        self._neighbours = dict(Counter(client.run(platform.node, workers=usable).values()))
        client.run(worker.prepare, self._batch, workers=usable)
        self._pending: dict[str, tuple[FarmJob, Any]] = {}
        self._messages: SimpleQueue[OrderLine | str | None] = SimpleQueue()  # a label: the job ended
        self._contents = _Contents(client, usable)

    def submit(self, job: FarmJob) -> None:
        """Send a job. Each of its files is a separate task named by its digest, so a worker gets it once."""
        files: dict[str, str] = {}
        contents = []
        for name, path in files_of(Path(job.root)):
            files[name], content = self._contents.of(path)
            contents.append(content)
        arguments = (job, self._batch, self._memory, self._neighbours, files, *contents)
        name = f"job-{self._batch}-{job.label}"
        future = self._client.submit(worker.run_job, *arguments, key=name, workers=self._usable, retries=0)
        self._pending[job.label] = job, future
        future.add_done_callback(lambda _: self._messages.put(job.label))

    def results(self, more: Iterator[OrderLine] | None) -> Iterator[FarmResult]:
        """Yield the results of all jobs, until all have ended and no more follow."""
        if more is not None:
            threading.Thread(target=self._read, args=(more,), daemon=True).start()
        while self._pending or more is not None:
            match self._messages.get():
                case None:
                    return
                case FarmJob() as job:
                    try:
                        self.submit(job)
                    except OSError as error:  # a file that is gone: its job was dropped
                        yield FarmResult(job.label, lost=f"{error.filename}: {error.strerror}")
                case FarmDrop(label):
                    self._drop(label)
                case str(label) if label in self._pending:
                    job, future = self._pending.pop(label)
                    yield _result(future, job)

    def _read(self, more: Iterator[OrderLine]) -> None:
        for line in more:
            self._messages.put(line)
        self._messages.put(None)

    def _drop(self, label: str) -> None:
        if label in self._pending:
            _, future = self._pending.pop(label)
            future.cancel(force=True)
            self._client.run(worker.cancel, self._batch, label)

    def end(self) -> None:
        """End the running jobs on all machines, and remove their files there."""
        if self._pending:
            self._client.cancel([future for _, future in self._pending.values()], force=True)
            self._client.run(worker.cancel, self._batch)
        self._client.run(worker.forget, self._batch, on_error="ignore")


class _Contents:
    """Files as tasks named by their digests. Recently used files stay on the cluster for the next job."""

    def __init__(self, client: Any, usable: list[str]) -> None:
        self._client, self._usable = client, usable
        self._held: dict[str, tuple[int, Any]] = {}  # size and task, those used last at the end
        self._size = 0

    def of(self, path: Path) -> tuple[str, Any]:
        """Return the digest of a file, and the task that holds its content."""
        data = path.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        size, future = self._held.pop(digest, (len(data), None))
        if future is None:
            future = self._client.submit(worker.keep, data, key=f"file-{digest}", workers=self._usable)
            self._size += size
        self._held[digest] = size, future
        while self._size > _HELD and len(self._held) > 1:
            oldest = next(iter(self._held))
            self._size -= self._held.pop(oldest)[0]
        return digest, future


@contextmanager
def _client(order: Order) -> Iterator[Any]:
    losses = {"distributed.scheduler.allowed-failures": LOSSES}
    with ExitStack() as stack, dask.config.set(losses):
        try:
            where = stack.enter_context(_local(order.workers)) if order.scheduler == LOCAL else order.scheduler
            connect = partial(_dask.Client, where, timeout=_CONNECT_S, set_as_default=False)
            client = stack.enter_context(_in_time(connect, 2 * _CONNECT_S))  # Dask may wait for ever
        except (OSError, ValueError, ImportError) as error:
            reason = _reason(error)
            raise ArtifactError(
                f"SCHEDULER={order.scheduler}",
                f"no Dask cluster answers: {reason}",
                "start a cluster, or correct the address",
            ) from None
        yield client


@contextmanager
def _local(workers: int) -> Iterator[Any]:
    """Yield a cluster of workers in this process. Jobs run in separate processes, and only this process can submit
    them.
    """
    pages: dict[str, Any] = {f"distributed.{who}.http.routes": [] for who in ("scheduler", "worker")}  # none
    with (
        dask.config.set(pages),
        _dask.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            memory_limit=0,
            processes=False,
            dashboard_address="127.0.0.1:0",
            worker_dashboard_address="127.0.0.1:0",
            silence_logs=50,
            scheduler_kwargs={"dashboard": False},
        ) as cluster,
    ):
        yield cluster


def _own(client: Any, say: Say) -> list[str]:
    """Return the addresses of this process's workers, and print their number."""
    workers = list(client.ncores())
    say(_number(workers))
    return workers


def _number(workers: list[str]) -> str:
    return f"[farm] {len(workers)} worker{'' if len(workers) == 1 else 's'}"


def _usable(client: Any, say: Say) -> list[str]:
    """Return the workers that produce the same results as this machine; print how each other worker differs."""
    own, usable, refused = _describe_here(), list[str](), list[str]()
    for address, facts in _answers(client, worker.describe).items():
        difference = _difference(own, facts)
        (refused if difference else usable).append(address)
        if difference:
            say(f"[farm] {address} is not used: {difference}")
    if not usable:
        reason = f"none of its {len(refused)} workers is like this machine" if refused else "it has no workers"
        raise ArtifactError(
            "SCHEDULER=", reason, "start workers with the same installation as here: dask worker ADDRESS"
        )
    say(_number(usable) + (f"; dashboard: {client.dashboard_link}" if client.dashboard_link else ""))
    return usable


def _answers(client: Any, what: Callable[[], Any]) -> dict[str, Any]:
    """Return each worker's description. Raises ArtifactError if a worker does not answer in time."""
    try:
        answers: dict[str, Any] = _in_time(partial(client.run, what, on_error="return"), _ANSWER_S)
        return answers
    except OSError as error:
        reason = f"not all of its workers answer: {_reason(error)}"
        raise ArtifactError("SCHEDULER=", reason, "stop the workers that hang, and try again") from None


def _in_time(call: Callable[[], Any], seconds: float) -> Any:
    """Return the result of a call that runs in its own thread. Raises OSError if it fails or exceeds the time limit."""
    answers: SimpleQueue[tuple[Any, str]] = SimpleQueue()

    def ask() -> None:
        try:
            answers.put((call(), ""))
        except Exception as error:  # whatever the other side sends becomes some error of Dask's
            answers.put((None, _reason(error)))

    threading.Thread(target=ask, daemon=True).start()
    try:
        answer, failure = answers.get(timeout=seconds)
    except Empty:
        raise OSError(f"no answer within {seconds:g} s") from None
    if failure:
        raise OSError(failure)
    return answer


def _reason(error: Exception) -> str:
    return _shown(str(error).partition("\n")[0]) or type(error).__name__


def _describe_here() -> dict[str, str]:
    return worker.describe()


def _difference(own: Mapping[str, str], facts: Any) -> str:
    if not isinstance(facts, dict):
        return _shown(str(facts).partition("\n")[0]) or type(facts).__name__
    other = [name for name, value in own.items() if facts.get(name) != value]
    return "; ".join(f"{name} {_shown(str(facts.get(name, 'none')))}, here {own[name]}" for name in other)


def _shown(text: str) -> str:
    """Return a worker's text without terminal control characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:200])


def files_of(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files of an artifact with their relative names; hidden files are left out."""
    for directory, names, files in os.walk(root, followlinks=True):
        names[:] = sorted(name for name in names if not name.startswith((".", "__pycache__")))
        for file in sorted(files):
            path = Path(directory, file)
            if not file.startswith(".") and path.is_file():
                yield path.relative_to(root).as_posix(), path


def _result(future: Any, job: FarmJob) -> FarmResult:
    """Return the result of a finished task; for a job that could not run, a result with the reason."""
    if future.status == "finished":
        try:  # a worker may answer with anything
            result = msgspec.convert(msgspec.to_builtins(future.result()), FarmResult)
        except (TypeError, ValueError, RecursionError):
            return FarmResult(job.label, lost="a worker answered with something else than a result")
        return msgspec.structs.replace(result, label=job.label)
    if future.status == "cancelled":
        return FarmResult(job.label, lost="it was cancelled")
    error = future.exception()
    if isinstance(error, KilledWorker):
        return FarmResult(job.label, lost=f"{LOSSES + 1} workers ended while they worked on it")
    return FarmResult(job.label, lost=_shown(str(error).partition("\n")[0]) or type(error).__name__)


def end_quietly(results: Any) -> None:
    """Close the generator that ``run`` returned, and ignore errors of the cluster."""
    with suppress(Exception):
        results.close()
