"""Hands jobs to a Dask cluster and tells what came of each as soon as it is known."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import dask
import distributed
from distributed.scheduler import KilledWorker

from pypto_build.artifact import ArtifactError
from pypto_build.facts.jobs import FarmJob, FarmResult, Order
from pypto_build.farm import worker

LOCAL = "local"
_dask: Any = distributed  # which has no types of its own for what is used here
#: How many workers may be lost under a job before it counts as what ends them.
LOSSES = 2
_CONNECT_S = 10.0

#: Takes a line for people.
Say = Callable[[str], None]


def run(order: Order, say: Say) -> Iterator[FarmResult]:
    """What comes of the jobs of an order, in the order in which they end. Closed early, it ends those that run.

    Raises:
        ArtifactError: there is no such cluster, or none of its workers is like this machine.
    """
    with _client(order) as client:
        usable = _usable(client, say, order.scheduler == LOCAL)
        batch = uuid.uuid4().hex
        pending = {_submit(client, job, batch, order.memory, usable): job for job in order.jobs}
        try:
            for future in _dask.as_completed(pending, loop=client.loop):
                yield _result(future, pending[future])
        finally:
            if any(not future.done() for future in pending):
                client.cancel(list(pending), force=True)
                client.run(worker.cancel, batch)


@contextmanager
def _client(order: Order) -> Iterator[Any]:
    losses = {"distributed.scheduler.allowed-failures": LOSSES}
    with ExitStack() as stack, dask.config.set(losses):
        try:
            where = stack.enter_context(_local(order.workers)) if order.scheduler == LOCAL else order.scheduler
            client = stack.enter_context(_dask.Client(where, timeout=_CONNECT_S, set_as_default=False))
        except (OSError, ValueError, ImportError) as error:
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise ArtifactError(f"SCHEDULER={order.scheduler}", f"no cluster answers: {reason}", "start one") from None
        yield client


@contextmanager
def _local(workers: int) -> Iterator[Any]:
    """Processes of this machine: on the loopback address, and for this user alone by certificates of their own."""
    pages: dict[str, Any] = {f"distributed.{who}.http.routes": [] for who in ("scheduler", "worker")}  # none
    with dask.config.set(pages), _start_local(workers) as cluster:
        yield cluster


def _start_local(workers: int) -> Any:
    return _dask.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        memory_limit=0,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        security=True,
        protocol="tls://",
        silence_logs=50,
    )


def _usable(client: Any, say: Say, local: bool) -> list[str]:
    """The workers whose results are those of this machine; the others are named with what differs."""
    own, found, refused = _describe_here(), list[str](), list[str]()
    for address, told in client.run(worker.describe, on_error="return").items():
        difference = _difference(own, told)
        (refused if difference else found).append(address)
        if difference:
            say(f"[farm] {address} is not used: {difference}")
    if not found:
        reason = f"none of its {len(refused)} workers is like this machine" if refused else "it has no workers"
        raise ArtifactError("SCHEDULER=", reason, "start workers of the same installation: dask worker ADDRESS")
    link = f"; dashboard: {client.dashboard_link}" if client.dashboard_link and not local else ""
    say(f"[farm] {len(found)} worker{'' if len(found) == 1 else 's'}{link}")
    return found


def _describe_here() -> dict[str, str]:
    return worker.describe()


def _difference(own: Mapping[str, str], told: Any) -> str:
    if not isinstance(told, dict):
        return str(told).partition("\n")[0] or type(told).__name__
    other = [name for name, value in own.items() if told.get(name) != value]
    return "; ".join(f"{name} {told.get(name, 'none')}, here {own[name]}" for name in other)


def _submit(client: Any, job: FarmJob, batch: str, memory: int, usable: list[str]) -> Any:
    """Send a job; each of its files is a task of its own by its digest, so a worker gets it once."""
    files: dict[str, str] = {}
    contents = []
    for name, path in files_of(Path(job.root)):
        data = path.read_bytes()
        files[name] = hashlib.sha256(data).hexdigest()
        contents.append(client.submit(worker.keep, data, key=f"file-{files[name]}", workers=usable))
    return client.submit(
        worker.run_job, job, batch, memory, files, *contents, key=f"job-{batch}-{job.label}", workers=usable, retries=0
    )


def files_of(root: Path) -> Iterator[tuple[str, Path]]:
    """The files of an artifact by their names in it; hidden ones do not count."""
    for directory, names, files in os.walk(root, followlinks=True):
        names[:] = sorted(name for name in names if not name.startswith((".", "__pycache__")))
        for file in sorted(files):
            path = Path(directory, file)
            if not file.startswith(".") and path.is_file():
                yield path.relative_to(root).as_posix(), path


def _result(future: Any, job: FarmJob) -> FarmResult:
    """What a job came to; one that could not be done says why."""
    if future.status == "finished":
        found = future.result()
        assert isinstance(found, FarmResult)
        return found
    if future.status == "cancelled":
        return FarmResult(job.label, lost="it was cancelled")
    error = future.exception()
    if isinstance(error, KilledWorker):
        return FarmResult(job.label, lost=f"{LOSSES + 1} workers ended while they worked on it")
    return FarmResult(job.label, lost=str(error).partition("\n")[0] or type(error).__name__)


def end_quietly(results: Any) -> None:
    """Close what ``run`` returned, whatever is left of the cluster."""
    with suppress(Exception):
        results.close()
