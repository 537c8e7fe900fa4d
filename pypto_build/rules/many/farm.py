"""The jobs of a batch on other machines: an order for the farm's process, and lines of the table from its results."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pypto_build import terminal
from pypto_build.facts.jobs import LOCAL, FarmJob, FarmResult, Order
from pypto_build.facts.verbs import VERBS
from pypto_build.replay.verdict import Verdict, write_verdict
from pypto_build.rules.many import OF_ALL
from pypto_build.rules.many.choice import Job
from pypto_build.rules.many.report import JobReport
from pypto_build.rules.many.row import Row, row_of
from pypto_build.rules.options import OptionError
from pypto_build.rules.outcomes import outcome_of
from pypto_build.toolchain.python import own_environment, own_tool

# Limits that the jobs of a batch share.


@dataclass
class Limits:
    """Limits of a job: processors, and bytes of memory."""

    processors: int
    memory: int


#: Targets that run here and hand over the parts of their work.
SPREAD = tuple(name for name, verb in VERBS.items() if verb.spread)
#: Targets whose result is told by a status, what they print, and a verdict; the others leave files on the machine.
_DONE_THERE = ("build", "replay", "lint", "pto_check", "hazards", "diverge", "flaky", "triage")
#: Options that name files or programs of this machine.
_OF_THIS_MACHINE = (
    "DATA", "SIMPLER", "PTO_ISA", "PTOAS", "DEVICE", "HARDWARE", "SANDBOX", "BUILD_DIR", "BUILD_OUTPUT", "AGAINST",
    "PROGRAM",
)  # fmt: skip
_KINDS = (LOCAL, "tcp://", "tls://")
_NOT_DONE = 3  # the status of what could not be built


#: Options with files of this machine that `spread` tools handle themselves.
_OF_THE_TOOL = frozenset({"BUILD_DIR", "BUILD_OUTPUT", "DATA", "AGAINST", "PTOAS", "JSON", *OF_ALL})


def spread_flags(scheduler: str, memory_gb: float, arguments: Mapping[str, str]) -> list[str]:
    """Return the flags that tell a tool about the farm, and the options that its jobs must have. Raises OptionError."""
    check_scheduler(scheduler)
    passed_on = {name: value for name, value in arguments.items() if name not in _OF_THE_TOOL}
    _check_options(passed_on)
    words = [word for name, value in passed_on.items() for word in ("--asked", f"{name}={value}")]
    return ["--scheduler", scheduler, "--memory", str(int(memory_gb * (1 << 30))), *words]


def check_scheduler(scheduler: str) -> None:
    """Raise for a text that is not a scheduler."""
    if not scheduler.startswith(_KINDS) or (scheduler.startswith(LOCAL) and scheduler != LOCAL):
        raise OptionError(
            f"SCHEDULER={scheduler}: is not a scheduler address; use local, tcp://HOST:PORT or tls://HOST:PORT"
        )


def _check_options(arguments: Mapping[str, str]) -> None:
    if wrong := option_of_this_machine(arguments):
        raise OptionError(
            f"{wrong}={arguments[wrong]}: works on this machine only, not on a farm; leave out SCHEDULER="
        )


class Farm:
    """The scheduler that gets the jobs, with their verb and further options."""

    def __init__(
        self, scheduler: str, targets: Sequence[str], arguments: Mapping[str, str], limits: Limits, memory_gb: float
    ) -> None:
        check_scheduler(scheduler)
        if len(targets) != 1 or targets[0] not in _DONE_THERE:
            done = ", ".join((*_DONE_THERE, *SPREAD))
            raise OptionError(
                f"SCHEDULER={scheduler}: a farm runs one verb of {done}; leave SCHEDULER= out for other verbs"
            )
        _check_options(arguments)
        self._scheduler, self._verb, self._arguments = scheduler, targets[0], dict(arguments)
        self._workers, self._memory = limits.processors, int(memory_gb * (1 << 30))

    def start(self, jobs: Sequence[Job], *, apart: bool = True) -> tuple[int, int]:
        """Start the process that hands the jobs out; return its number, and the descriptor by which it reports results.

        A process that is ``apart`` gets no Ctrl-C; its parent ends it.
        """
        order = Order(self._scheduler, self._workers, [self._job(job) for job in jobs], self._memory)
        terminal.step_aside()
        process = subprocess.Popen(
            own_tool("pypto_build.farm"),
            env=own_environment(os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=apart,
        )
        assert process.stdin and process.stdout
        with process.stdin:
            process.stdin.write(msgspec.json.encode(order))
        process.returncode = 0  # the reader of its results waits for it
        return process.pid, os.dup(process.stdout.fileno())

    def _job(self, job: Job) -> FarmJob:
        options = {**self._arguments, "PLATFORM": job.platform, **job.options}
        return FarmJob(job.label, str(job.root), self._verb, options)


def option_of_this_machine(arguments: Mapping[str, str]) -> str:
    """Return an option that would mean something else on another machine; empty if there is none."""
    return next((name for name in _OF_THIS_MACHINE if name in arguments), "")


def row_of_result(job: Job, result: FarmResult, log: Path, finding: str) -> Row:
    """Return the table row for a result; its output and verdict are stored with the logs of other jobs."""
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(result.log or f"{result.lost}\n", encoding="utf-8")
    shown = os.path.relpath(log)
    if result.lost:
        return row_of(job, JobReport(_NOT_DONE, result.lost), log=shown)
    report = JobReport(result.status, finding if result.status else "")
    if result.verdict and (verdict := _verdict(result.verdict)):
        write_verdict(verdict, log.with_suffix(".verdict.json"))
        failed = bool(result.status)
        report.outcomes = [
            outcome_of(
                verdict, job.label, seconds=result.seconds, artifact=str(job.root), failed=failed, text=result.log
            )
        ]
    return row_of(job, report, result.seconds, result.memory, shown)


def _verdict(data: bytes) -> Verdict | None:
    try:
        return msgspec.json.decode(data, type=Verdict)
    except (msgspec.MsgspecError, RecursionError):
        return None
