"""Sequential jobs for a farm, for tools that choose the next job from the last result.

The farm is a separate process (`python -m pypto_build.farm`), so that this process does not load Dask.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Generator, Sequence
from contextlib import suppress
from types import TracebackType

import msgspec

from pypto_build.artifact import ArtifactError
from pypto_build.facts.jobs import FarmDrop, FarmJob, FarmLine, FarmReady, FarmResult, Order, OrderLine
from pypto_build.toolchain.python import own_environment, own_tool

_END_S = 10.0


def add_farm_options(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a tool that hands parts of its work to a farm."""
    add = parser.add_argument
    add("--scheduler", default="", metavar="S", help="a farm that works too: local, tcp://HOST:PORT, tls://HOST:PORT")
    add("--memory", type=int, default=0, metavar="BYTES", help="what each process there may take")
    add("--asked", action="append", default=[], metavar="NAME=VALUE", help="what its jobs are asked for besides")


def session_of(options: argparse.Namespace) -> FarmSession | None:
    """Return the farm that these flags name, which the caller closes; None if they name none."""
    processes = options.jobs or os.cpu_count() or 1
    return FarmSession(options.scheduler, processes, options.memory) if options.scheduler else None


def job_options(options: argparse.Namespace) -> dict[str, str]:
    """Return the options that the command line gives to all jobs."""
    return dict(word.split("=", 1) for word in options.asked)


def refuse_here(arguments: argparse.Namespace, **options: object) -> None:
    """Raise ArtifactError for an option that works only on this machine if a farm is named."""
    for name, value in options.items():
        if arguments.scheduler and value:
            raise ArtifactError(f"{name}={value}", "works on this machine only, not on a farm", "leave out SCHEDULER=")


class FarmSession:
    """A farm that takes jobs until it is closed; ``workers`` is how many work on them at once.

    ``scheduler`` is an address, or "local" for ``processes`` of this machine. ``memory`` limits each process of a job,
    in bytes; 0 is no limit. Raises ArtifactError if the cluster cannot be used; the farm has printed the reason.
    """

    def __init__(self, scheduler: str, processes: int, memory: int = 0) -> None:
        self._scheduler = scheduler
        self._process = subprocess.Popen(
            own_tool("pypto_build.farm"),
            env=own_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is ours: closing ends what runs
        )
        self._submitted = 0
        self._write(Order(scheduler, processes, [], memory, open=True))
        match self._next():
            case FarmReady(workers):
                self.workers = workers
            case _:
                self.close()
                raise ArtifactError(f"SCHEDULER={scheduler}", "the farm process does not start", "leave out SCHEDULER=")

    def __enter__(self) -> FarmSession:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def results(self, jobs: Sequence[FarmJob]) -> Generator[FarmResult, None, None]:
        """Yield the results of ``jobs`` as they end; their labels differ. Closing it early ends the running jobs.

        Raises:
            ArtifactError: a job could not run, for a reason outside of the job.
        """
        self._submitted += 1
        left = {}
        for job in jobs:
            label = f"{self._submitted} {job.label}"
            left[label] = job.label
            self._write(msgspec.structs.replace(job, label=label))
        try:
            while left:
                result = self._next()
                if not isinstance(result, FarmResult):
                    raise ArtifactError(
                        f"SCHEDULER={self._scheduler}",
                        "the farm process ended before all jobs were done",
                        "try again",
                    )
                if result.label not in left:
                    continue  # of an earlier call that was closed
                label = left.pop(result.label)
                if result.lost:
                    raise ArtifactError(f"SCHEDULER={self._scheduler}", f"{label}: {result.lost}", "try again")
                yield msgspec.structs.replace(result, label=label)
        finally:
            for label in left:
                self._write(FarmDrop(label))

    def close(self) -> None:
        """End the farm and all jobs that still run there."""
        if self._process.stdin and not self._process.stdin.closed:
            with suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, 9)
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()

    def _write(self, what: Order | OrderLine) -> None:
        assert self._process.stdin
        with suppress(OSError, ValueError):  # it ended, which the next line that is read shows, or was closed
            self._process.stdin.write(msgspec.json.encode(what) + b"\n")
            self._process.stdin.flush()

    def _next(self) -> FarmReady | FarmResult | None:
        assert self._process.stdout
        line = self._process.stdout.readline()
        return msgspec.json.decode(line, type=FarmLine) if line else None
