"""Order of the jobs of a batch, and how many run at a time."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from pypto_build.replay.history import Past
from pypto_build.rules.machinery.slots import Slots
from pypto_build.rules.many.batch import Batch, Running
from pypto_build.rules.many.choice import Job
from pypto_build.rules.many.farm import Limits
from pypto_build.rules.many.row import WORST, severity

_GB = 1 << 30
_JOBS = [Job(Path("/x", name), "a2a3sim") for name in ("quick", "slow", "failed", "new")]
_PAST = {
    "quick a2a3sim": Past("pass", "", 1, 1.0, _GB),
    "slow a2a3sim": Past("pass", "", 1, 9.0, _GB),
    "failed a2a3sim": Past("mismatch", "", 1, 0.5, _GB),
}


def _batch(memory: int, jobs: list[Job] | None = None) -> Batch:
    batch = Batch(jobs or _JOBS, _PAST, Limits(8, memory), Path("/nowhere"), ["replay"])
    batch._waiting = {job.label: job for job in jobs or _JOBS}
    return batch


def _order(batch: Batch) -> list[str]:
    """The jobs in the order in which they would be started, each one running until all are."""
    names: list[str] = []
    while (job := batch._next()) is not None:
        del batch._waiting[job.label]
        batch._running[len(names)] = Running(0, len(names), 0.0, job, batch._need(job))
        names.append(job.name)
    return names


def test_failures_first_then_the_longest() -> None:
    assert _order(_batch(100 * _GB)) == ["failed", "new", "slow", "quick"]


def test_no_more_than_memory_allows() -> None:
    assert _order(_batch(2 * _GB)) == [
        "failed",
        "new",
    ]  # of `new`, less than a gigabyte is assumed
    assert _order(_batch(3 * _GB)) == ["failed", "new", "slow"]


def test_one_job_runs_however_little_there_is() -> None:
    assert _order(_batch(1)) == ["failed"]


def test_one_job_at_a_time_in_a_place() -> None:
    same = [Job(Path("/x/a"), "a2a3sim"), Job(Path("/x/a"), "a2a3", {"RTOL": "1"}), Job(Path("/x/a"), "a5sim")]
    assert _order(_batch(100 * _GB, same)) == ["a", "a"]


def test_the_worst_status() -> None:
    assert max([0, 7, 1, 3, 6], key=severity) == 6
    assert max([0, 7, 1], key=severity) == 1
    assert max([0, 7], key=severity) == 7
    assert max([7, 139], key=severity) == 139
    assert sorted(WORST) == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(("offered", "most"), [(0, 1), (2, 3)])
def test_commands_take_turns(offered: int, most: int) -> None:
    slots, running, peak, lock, all_at_once = Slots(), 0, 0, threading.Lock(), threading.Event()
    slots.offer(offered)
    slots.offer(offered)  # not twice

    def work() -> None:
        nonlocal running, peak
        with slots.turn():
            with lock:
                running += 1
                peak = max(peak, running)
                if running == most:
                    all_at_once.set()
            all_at_once.wait(10)
            time.sleep(0.02)
            with lock:
                running -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert peak == most


def test_turns_are_shared_by_processes() -> None:
    slots = Slots()
    slots.offer(1)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        with slots.turn(), slots.turn():  # its own, and the free one
            os.write(writer, b"x")
            time.sleep(0.3)  # in which this process would overtake it
            os.write(writer, b"y")
        os._exit(0)
    assert os.read(reader, 1) == b"x"
    os.set_blocking(reader, False)
    with slots.turn(), slots.turn():
        assert os.read(reader, 1) == b"y"
    os.waitpid(child, 0)
