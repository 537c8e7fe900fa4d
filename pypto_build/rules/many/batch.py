"""The process that hands out the jobs of one command: it orders them, collects their outcomes, and ends them."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from SCons.Script import ARGUMENTS, COMMAND_LINE_TARGETS

from pypto_build import terminal
from pypto_build.artifact.files import from_here
from pypto_build.facts.jobs import FarmLine, FarmReady
from pypto_build.replay.history import Past
from pypto_build.rules.machinery.slots import Slots
from pypto_build.rules.many import OF_ALL, OF_THE_FARM
from pypto_build.rules.many.choice import Job
from pypto_build.rules.many.farm import SPREAD, Farm, Limits, row_of_result
from pypto_build.rules.many.report import JobReport, decode_report
from pypto_build.rules.many.row import Row, row_of
from pypto_build.rules.outcomes import FILES
from pypto_build.toolchain.forks import take_streams

# Memory that the jobs of a batch may take together.

#: Memory that a job is assumed to need until it is known: a compiler at work on one kernel.
ASSUMED = 600 << 20
_SHARE = 0.9


def available() -> int:
    """Return nine tenths of the bytes that are free on this machine or in the control group of this process."""
    sizes = [_of_the_machine(), *_of_the_group()]
    return int(_SHARE * min(sizes))


def _of_the_machine() -> int:
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return 1 << 62


def _of_the_group() -> list[int]:
    """Return the bytes that the control group may still take; an empty list if it has no limit."""
    with suppress(OSError, ValueError, IndexError):
        group = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()[0].rpartition(":")[2]
        directory = Path("/sys/fs/cgroup", group.lstrip("/"))
        limit = (directory / "memory.max").read_text(encoding="ascii").strip()
        if limit != "max":
            return [max(int(limit) - int((directory / "memory.current").read_text(encoding="ascii")), ASSUMED)]
    return []


_GRACE_S, _FARM_GRACE_S = 1.0, 5.0
_EVERY_S = 0.25
_LOOKED_AT_ONCE = 8  # artifacts that are worth a process that looks at them


class Forked(Exception):
    """Raised in the process of a job, which then works on its artifact alone and reports through ``writer``."""

    def __init__(self, writer: int, slots: Slots) -> None:
        super().__init__()
        self.writer, self.slots = writer, slots


@dataclass
class Running:
    """A process that runs a job, or checks several; its log, and its report so far."""

    process: int
    reader: int
    began: float
    job: Job | None = None
    need: int = 0
    farm: Farm | None = None
    report: bytearray = field(default_factory=bytearray)


#: Looks at jobs in a process of its own: yields each with what is known of it.
Looker = Callable[[Sequence[Job]], Any]


class Batch:
    """The jobs of one command."""

    def __init__(
        self,
        jobs: Sequence[Job],
        past: Mapping[str, Past],
        limits: Limits,
        logs: Path,
        verbs: Sequence[str],
        farm: Farm | None = None,
    ) -> None:
        self.rows: dict[str, Row] = {}  # what is known, by the labels of jobs
        self.interrupted = False
        self._jobs = list(jobs)
        self._past, self._limits, self._logs, self._verbs, self._farm = past, limits, logs, list(verbs), farm
        self.refused = ""  # why the farm did nothing
        self._by_label = {job.label: job for job in jobs}
        self._waiting: dict[str, Job] = {}
        self._running: dict[int, Running] = {}  # by the descriptor that it tells by
        self._slots = Slots()
        self._poll = select.poll()

    def run(self, looker: Looker | None, looked_at: Sequence[Job]) -> None:
        """Run all jobs. Returns once in every process of a job, by ``Forked``; after Ctrl-C the finished jobs are
        reported.
        """
        terminal.show_progress(self._doing)
        first = {job.label for job in looked_at} if looker else set()
        self._waiting = {job.label: job for job in self._jobs if job.label not in first}
        try:
            if looker and looked_at:
                self._start_lookers(looker, looked_at)
            while self._running or self._waiting:
                self._start_jobs()
                self._listen()
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            terminal.step_aside()

    def end(self) -> None:
        """End running jobs; a job that can end by itself does, and leaves no old verdict."""
        for number in (signal.SIGINT, signal.SIGKILL):
            for running in self._running.values():
                quickly = number == signal.SIGKILL or (running.job is None and not running.farm)
                # the farm ends its own workers, which would say what they were interrupted in
                send = os.kill if running.farm and number == signal.SIGINT else os.killpg
                with suppress(OSError):
                    send(running.process, signal.SIGKILL if quickly else number)
            grace = _FARM_GRACE_S if self._farm else _GRACE_S
            self._reap(grace if number == signal.SIGINT else 60.0)

    def _reap(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self._running and time.monotonic() < until:
            for reader, running in list(self._running.items()):
                if os.waitpid(running.process, os.WNOHANG)[0]:
                    del self._running[reader]
            time.sleep(0.01)

    # Running jobs

    def _start_lookers(self, looker: Looker, jobs: Sequence[Job]) -> None:
        count = max(1, min(self._limits.processors, -(-len(jobs) // _LOOKED_AT_ONCE)))
        for number in range(count):
            child = self._fork(None, None)
            if isinstance(child, int):  # this is the process that looks
                _tell_each(child, looker(jobs[number::count]))

    def _start_jobs(self) -> None:
        if self._farm:
            if self._waiting and not self._running:  # once it is known what is unchanged
                self._start_farm(self._farm)
            return
        while self._waiting and len(self._running) < self._limits.processors:
            job = self._next()
            if job is None:
                break
            del self._waiting[job.label]
            child = self._fork(job, self._log(job))
            if isinstance(child, int):
                _become(job)
                raise Forked(child, self._slots)
        if not self._waiting:  # the remaining jobs may use the turns of the others
            left = (self._limits.memory - self._taken()) // ASSUMED
            self._slots.offer(min(self._limits.processors - len(self._running), left))

    def _start_farm(self, farm: Farm) -> None:
        """Hand all remaining jobs to the farm, in the order in which they would run here."""
        jobs = sorted(self._waiting.values(), key=self._urgency)
        self._waiting = {}
        process, reader = farm.start(jobs)
        self._running[reader] = Running(process, reader, time.monotonic(), farm=farm)
        self._poll.register(reader, select.POLLIN)

    def _next(self) -> Job | None:
        """Return the next job: jobs that failed last come first, then long ones. None if no job may start now."""
        busy = {_output_dir(running.job) for running in self._running.values() if running.job}
        ready = [job for job in self._waiting.values() if _output_dir(job) not in busy]
        fits = [job for job in ready if not self._running or self._taken() + self._need(job) <= self._limits.memory]
        return min(fits, key=self._urgency, default=None)

    def _urgency(self, job: Job) -> tuple[bool, float]:
        past = self._past.get(job.label)
        if past is None:
            return True, -float("inf")
        return past.status == "pass", -past.seconds

    def _need(self, job: Job) -> int:
        past = self._past.get(job.label)
        return past.memory if past and past.memory else ASSUMED

    def _taken(self) -> int:
        return sum(running.need for running in self._running.values())

    def _log(self, job: Job) -> Path:
        return log_of(self._logs, job, self._verbs)

    def _fork(self, job: Job | None, log: Path | None) -> int | None:
        """Start a process. In it, return the descriptor by which it reports; None in this process."""
        reader, writer = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        process = os.fork()
        if not process:
            os.setpgid(0, 0)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.close(reader)
            for other in self._running:
                os.close(other)
            _write_to(log)
            return writer
        os.close(writer)
        with suppress(OSError):
            os.setpgid(process, process)
        need = self._need(job) if job else 0
        self._running[reader] = Running(process, reader, time.monotonic(), job, need)
        self._poll.register(reader, select.POLLIN)
        return None

    # Outcomes

    def _listen(self) -> None:
        for reader, _ in self._poll.poll(_EVERY_S * 1000):
            running, data = self._running[reader], os.read(reader, 1 << 20)
            running.report += data
            if running.farm:
                self._take_results(running)
            elif running.job is None:
                self._take_looks(running)
            if not data:
                self._finish(reader)

    def _take_looks(self, running: Running) -> None:
        """Read the complete lines from a process that checks jobs."""
        *lines, rest = running.report.split(b"\n")
        running.report[:] = rest
        for line in lines:
            label, report = msgspec.json.decode(line, type=tuple[str, JobReport | None])
            job = self._by_label[label]
            if report is None:
                self._waiting[label] = job
            else:
                self.rows[label] = row_of(job, report, cached=True)

    def _take_results(self, running: Running) -> None:
        """Read the complete lines of results from the farm."""
        *lines, rest = running.report.split(b"\n")
        running.report[:] = rest
        for line in lines:
            result = msgspec.json.decode(line, type=FarmLine)
            if isinstance(result, FarmReady):
                continue
            job = self._by_label[result.label]
            self.rows[job.label] = row_of_result(job, result, self._log(job), finding(result.log))

    def _finish(self, reader: int) -> None:
        running = self._running.pop(reader)
        self._poll.unregister(reader)
        os.close(reader)
        _, status, usage = os.wait4(running.process, 0)
        job = running.job
        if running.farm and os.waitstatus_to_exitcode(status):
            self.refused = "the farm did not do all jobs"
        if job is None:
            return
        report = decode_report(bytes(running.report)) or _lost_report(status, self._log(job))
        if report.status and not report.message:
            report.message = finding(text_of(self._log(job)))
        seconds, peak = time.monotonic() - running.began, usage.ru_maxrss << 10
        self.rows[job.label] = row_of(job, report, seconds, peak, from_here(self._log(job)))

    def _doing(self) -> str:
        failed = sum(row.failed for row in self.rows.values())
        names = [running.job.name for running in self._running.values() if running.job]
        now = ", ".join(names) or ("on the farm" if any(r.farm for r in self._running.values()) else "looking")
        bad = f", {failed} failed" if failed else ""
        return f"[{' '.join(self._verbs)}] {len(self.rows)} of {len(self._jobs)}{bad}: {now}"


def _output_dir(job: Job) -> tuple[str, str]:
    """Return the output directory of a job: one job at a time builds there."""
    return job.name, job.platform.removesuffix("sim")


def log_of(logs: Path, job: Job, verbs: Sequence[str]) -> Path:
    """Return the path of a job's log."""
    name = "".join(letter if letter.isalnum() or letter in "._=+-" else "_" for letter in job.label)
    return logs / f"{name[:150]}.{'-'.join(verbs)}.log"


def _write_to(log: Path | None) -> None:
    """Send this process's output to ``log`` from now on; it reads no input."""
    path = str(log) if log else os.devnull
    if log:
        log.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    take_streams([os.open(os.devnull, os.O_RDONLY), os.dup(descriptor), descriptor])


def _become(job: Job) -> None:
    """Replace the options of this process by those of the job alone."""
    kept = OF_THE_FARM if any(target in SPREAD for target in map(str, COMMAND_LINE_TARGETS)) else ()
    for name in (*OF_ALL, *FILES, "ANNOTATE"):
        if name not in kept:
            ARGUMENTS.pop(name, None)
    ARGUMENTS.update({"JIT": from_here(job.root), "PLATFORM": job.platform, **job.options})
    if "replay" in map(str, COMMAND_LINE_TARGETS):
        ARGUMENTS["ANNOTATE"] = "0"


def _tell_each(writer: int, looks: Any) -> None:
    """Report each job that needs no run as soon as that is known; then end this process."""
    try:
        for job, report in looks:
            os.write(writer, msgspec.json.encode((job.label, report)) + b"\n")
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    finally:
        os._exit(0)


def _lost_report(status: int, log: Path) -> JobReport:
    """Return the outcome of a job whose process ended before it reported: from its status and its log."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return JobReport(3, f"its process was ended by signal {-code}; the system may have run out of memory")
    lines = [line for line in text_of(log).splitlines() if line.strip()]
    return JobReport(code or 3, lines[-1].removeprefix("scons: *** ") if lines else "its process ended without a word")


def text_of(log: Path, most: int = 200_000) -> str:
    """Return the printed output of a job; only its end if it is long."""
    try:
        data = log.read_bytes()
    except OSError:
        return ""
    return data[-most:].decode(errors="replace")


def finding(text: str) -> str:
    """Return the line of a tool's output with the finding: its first error, else its last line."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("scons: ")]
    last = lines[-1] if lines else ""
    return next((line for line in lines if re.search(r"\b(?:error|warning|[A-Z]\w*Error): ?", line)), last)


def revision_of(top: Path) -> str:
    """Return the revision of the workspace, if git knows one; with a + where files differ from it."""
    try:
        command = ["git", "-C", str(top), "describe", "--always", "--dirty=+", "--exclude=*", "--abbrev=8"]
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=2.0)
    except (OSError, subprocess.SubprocessError):
        return ""
    return run.stdout.strip() if not run.returncode else ""
