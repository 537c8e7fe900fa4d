"""Background jobs that run while the main process waits; remaining jobs are done later in the build."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class BackgroundJobs:
    """Runs jobs in ``threads`` background threads after `begin`. `end` drops the jobs that have not started."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads) if threads > 0 else None
        self._waiting: list[Callable[[], object]] = []
        self._jobs: list[Future[object]] = []
        self._begun = False

    def add(self, job: Callable[[], object]) -> None:
        """Add a job; a job that may be skipped prints nothing."""
        self._waiting.append(job)
        if self._begun:
            self.begin()

    def begin(self) -> None:
        """Start the jobs, because the main thread is about to wait. Several threads may call this, repeatedly."""
        self._begun = self._pool is not None
        while self._pool is not None and self._waiting:
            try:
                job = self._waiting.pop(0)
            except IndexError:  # another thread was faster
                return
            self._jobs.append(self._pool.submit(job))

    def end(self) -> None:
        """Wait for running jobs and drop the others. Raises errors of jobs."""
        self._waiting.clear()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        for job in self._jobs:
            if not job.cancelled():
                job.result()
