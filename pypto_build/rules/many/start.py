"""The beginning and the end of a command on many artifacts."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import SCons.Script
from SCons.Script import ARGUMENTS, COMMAND_LINE_TARGETS, GetOption

from pypto_build import terminal
from pypto_build.artifact import ArtifactError
from pypto_build.facts.jobs import LOCAL
from pypto_build.replay.history import NAME, History, Past, Result, Run
from pypto_build.replay.verdict import EXIT_STATUS
from pypto_build.rules.disk import LOGS
from pypto_build.rules.machinery.scons_types import Environment
from pypto_build.rules.machinery.verdicts import INTERRUPTED, report_status
from pypto_build.rules.machinery.workspace import Workspace
from pypto_build.rules.many import OF_ALL, OF_THE_FARM
from pypto_build.rules.many.batch import Batch, available, revision_of, text_of
from pypto_build.rules.many.choice import Job, check, choose
from pypto_build.rules.many.farm import SPREAD, Farm, Limits
from pypto_build.rules.many.report import JobReport
from pypto_build.rules.many.row import Row, severity
from pypto_build.rules.options import Options, parse_options
from pypto_build.rules.outcomes import FILES, write_outcomes
from pypto_build.toolchain.python import own_tool

# The table at the end of a command on many artifacts: jobs that need attention on top, counts of the rest.

#: Up to this number of jobs, all are shown.
_ALL = 12
_SLOWEST = 3
_BEFORE = 10  # columns that a reason leaves of a terminal


def show_table(rows: Sequence[Row], past: Mapping[str, Past], count: int, seconds: float, interrupted: bool) -> None:
    """Print the table. ``past`` is the history before this run, ``count`` the number of jobs that were asked for."""
    ordered = sorted(rows, key=lambda row: (-severity(row.status), row.job.label))
    everything = len(rows) <= _ALL or terminal.shows_details()
    shown = [row for row in ordered if everything or row.failed or _flipped(row, past)]
    if shown:
        cells = [_cells(row, past) for row in shown]
        cells.insert(0, ("status", "artifact", "time", "since", "what is wrong"))
        widths = [max(len(row[column]) for row in cells) for column in range(4)]
        terminal.say("", *(_line(row, widths) for row in cells))
    logs = [row for row in ordered if row.failed and row.log]
    terminal.say("", *(f"    {row.job.label}: {row.command or f'see {row.log}'}" for row in logs[:10]))
    if len(logs) > 10:
        terminal.say(f"    (and {len(logs) - 10} more)")
    _show_slowest(rows, shown)
    terminal.say(f"=== {counts(rows, count)} in {seconds:.1f} s{' (interrupted)' if interrupted else ''} ===")


def counts(rows: Sequence[Row], count: int) -> str:
    """Return the counts as text: ``3 failed, 197 passed (150 cached)``."""
    failed = sum(row.failed for row in rows)
    cached = sum(row.cached for row in rows if not row.failed)
    passed, unknown = len(rows) - failed, count - len(rows)
    parts = [f"{failed} failed"] if failed else []
    parts += [f"{passed} passed{f' ({cached} cached)' if cached else ''}"] if passed else []
    parts += [f"{unknown} not done"] if unknown else []
    return ", ".join(parts) or "nothing to do"


def _cells(row: Row, past: Mapping[str, Past]) -> tuple[str, str, str, str, str]:
    took = "cached" if row.cached else f"{row.seconds:.2f} s"
    return row.word, row.job.label, took, since(row, past.get(row.job.label)), terminal.fitting(row.reason, _BEFORE)


def since(row: Row, past: Past | None) -> str:
    """Return how long a job has had its status, or its earlier status, as a phrase.

    The history has commands on several artifacts only.
    """
    if past is None:
        return "first listed"
    if past.status != row.word:
        return f"was {past.status}"
    runs = f"{past.runs + 1} runs"
    return f"{runs}, {past.since}" if past.since else runs


def _flipped(row: Row, past: Mapping[str, Past]) -> bool:
    last = past.get(row.job.label)
    return last is not None and last.status != row.word


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    *cells, last = row
    return "  ".join([*(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)), last]).rstrip()


def _show_slowest(rows: Sequence[Row], shown: Sequence[Row]) -> None:
    """Print the slowest jobs that the table does not show."""
    listed = {id(row) for row in shown}
    slow = sorted((row for row in rows if not row.cached and id(row) not in listed), key=lambda row: -row.seconds)
    if slow:
        named = ", ".join(f"{row.job.label} {row.seconds:.1f} s" for row in slow[:_SLOWEST])
        terminal.say(f"slowest of the others: {named}")


# The rounds of one job in shares, so that several workers do them: each share has seeds of its own.

#: Rounds that are not worth a job of their own: building takes as long.
_FEWEST = 10
#: Shares of a job on a cluster whose number of workers is unknown.
_ON_A_CLUSTER = 16


def split_rounds(jobs: Sequence[Job], targets: Sequence[str], arguments: Mapping[str, str], workers: int) -> list[Job]:
    """Return ``jobs`` for these ``workers`` (0 for an unknown number); jobs of `scons flaky` are split by rounds.

    Orders are seeded one by one from SEED on, so all shares together run the orders that one job would run.
    """
    shares = (workers or _ON_A_CLUSTER) // len(jobs)
    if list(targets) != ["flaky"] or shares < 2:
        return list(jobs)
    return [share for job in jobs for share in _shares(job, {**arguments, **job.options}, shares)]


def _shares(job: Job, options: Mapping[str, str], most: int) -> list[Job]:
    rounds, seed = int(options.get("ROUNDS", 0)), int(options.get("SEED", 0))
    count = max(1, min(most, rounds // _FEWEST))
    if count == 1:
        return [job]
    bounds = [rounds * number // count for number in range(count + 1)]
    return [
        replace(job, options={**job.options, "SEED": str(seed + first), "ROUNDS": str(last - first)})
        for first, last in pairwise(bounds)
    ]


#: Opens the workspace for options, as the tool does.
Opener = Callable[[Options], Workspace]


def run_many(env: Environment, opener: Opener) -> None:
    """Do the command for many artifacts, if the command line names many.

    Returns if it names one. Raises ``Forked`` in the process of every job; the process that called it ends here.

    Raises:
        ArtifactError, OptionError: a named artifact or option does not exist.
    """
    top, targets = Path(SCons.Script.Dir("#").abspath), list(map(str, COMMAND_LINE_TARGETS))
    if not targets or GetOption("clean") or GetOption("help") or GetOption("no_exec"):
        return
    own = {name: value for name, value in ARGUMENTS.items() if name not in ("PLATFORM", "TAGS")}
    options = parse_options(own)
    jobs = choose(ARGUMENTS, targets, top / options.build_output, top / "examples" / "artifacts")
    spread = _is_spread(targets, options)
    if len(jobs) == 1 and not _insists({"JIT", "PLATFORM"} | (set(OF_THE_FARM) if spread else set())):
        ARGUMENTS.update(JIT=str(jobs[0].root), PLATFORM=jobs[0].platform)
        return
    check(jobs, ARGUMENTS, targets)
    if options["SCHEDULER"] and not spread:
        workers = GetOption("num_jobs") if options["SCHEDULER"] == LOCAL else 0
        jobs = split_rounds(jobs, targets, ARGUMENTS, workers)
    raise SystemExit(_Command(env, opener, top, options, targets, jobs).run())


def _is_spread(targets: Sequence[str], options: Options) -> bool:
    """Return True if the jobs run here, one after the other, and hand parts of their work to a farm."""
    return bool(options["SCHEDULER"]) and len(targets) == 1 and targets[0] in SPREAD


def _insists(besides: Set[str]) -> bool:
    """Return True if one artifact must be treated as many: for a list, a share, or an output of all jobs."""
    return ARGUMENTS["JIT"].startswith("@") or any(name in ARGUMENTS for name in OF_ALL - besides)


class _Command:
    """One command on many artifacts."""

    def __init__(
        self, env: Environment, opener: Opener, top: Path, options: Options, targets: list[str], jobs: Sequence[Job]
    ) -> None:
        self._env, self._opener, self._options, self._targets, self._jobs = env, opener, options, targets, jobs
        self._top = top
        self._spread = _is_spread(targets, options)
        self._build_dir = top / options["BUILD_DIR"]
        self._history = History(self._build_dir / NAME)
        self._began = time.time()

    def run(self) -> int:
        """Do the jobs and report their outcomes; return the worst exit status."""
        past = self._past()
        size = int(self._options["MEM"] * (1 << 30)) or available()
        processors = 1 if self._spread else max(1, GetOption("num_jobs"))  # one after the other has the whole farm
        limits = Limits(processors, size)
        batch = Batch(self._jobs, past, limits, self._build_dir / LOGS, self._targets, self._farm(limits))
        looker, looked_at = self._looking(past)
        batch.run(looker, looked_at)
        rows = [batch.rows[job.label] for job in self._jobs if job.label in batch.rows]
        show_table(rows, past, len(self._jobs), time.time() - self._began, batch.interrupted)
        batch.end()
        self._keep(rows)
        self._write(rows)
        worst = max((row.status for row in rows), key=severity, default=0)
        if batch.refused and not batch.interrupted:
            terminal.complain(f"scons: SCHEDULER={self._options['SCHEDULER']}: {batch.refused}")
            worst = worst or EXIT_STATUS["usage_error"]
        status = INTERRUPTED if batch.interrupted else worst
        report_status(status)
        return status

    def _farm(self, limits: Limits) -> Farm | None:
        """Return the farm that does the jobs; None if this process does them."""
        arguments = {
            name: value for name, value in ARGUMENTS.items() if name not in OF_ALL and name not in (*FILES, "ANNOTATE")
        }
        scheduler: str = self._options["SCHEDULER"]
        handed = scheduler and not self._spread
        return Farm(scheduler, self._targets, arguments, limits, self._options["MEM"]) if handed else None

    def _past(self) -> dict[str, Past]:
        try:
            past_runs = self._history.past([f"{self._named} {job.label}" for job in self._jobs])
        except ArtifactError as error:
            terminal.complain(f"scons: {error}")
            with suppress(OSError):
                self._history.path.replace(self._history.path.with_suffix(".bak"))
            return {}
        return {label.removeprefix(f"{self._named} "): past for label, past in past_runs.items()}

    @property
    def _named(self) -> str:
        return "+".join(self._targets)

    def _looking(self, past: dict[str, Past]) -> tuple[Any, list[Job]]:
        from pypto_build.rules.many.up_to_date import can_check, check_jobs, exists

        if not can_check(self._targets, self._options):
            return None, []
        failed = {label for label, last in past.items() if last.status not in ("pass", "unchecked")}
        jobs = [job for job in self._jobs if job.label not in failed and exists(job, self._build_dir)]

        def looker(jobs: Sequence[Job]) -> Iterator[tuple[Job, JobReport | None]]:
            return check_jobs(self._env, jobs, self._open)

        return looker, jobs

    def _open(self, job: Job) -> Workspace:
        arguments = {name: value for name, value in ARGUMENTS.items() if name not in OF_ALL}
        return self._opener(parse_options({**arguments, "JIT": str(job.root), "PLATFORM": job.platform, **job.options}))

    def _keep(self, rows: Sequence[Row]) -> None:
        """Add to the history."""
        run = Run(self._began, self._named, revision_of(self._top), time.time() - self._began)
        results = [
            Result(f"{self._named} {row.job.label}", row.word, row.seconds, row.memory, row.cached, row.reason)
            for row in rows
        ]
        try:
            if results:
                self._history.add(run, results)
        except ArtifactError as error:
            terminal.complain(f"scons: {error}")

    def _write(self, rows: Sequence[Row]) -> None:
        """Write the requested files."""
        outcomes = [row.outcome for row in rows]
        for row, outcome in zip(rows, outcomes, strict=True):
            if row.failed and not outcome.text:
                outcome.text = text_of(Path(row.log)) if row.log else ""
        environment = SCons.Script.DefaultEnvironment(tools=[])["ENV"]
        write_outcomes(outcomes, self._options, self._top, self._build_dir, environment)
        if self._options["HTML"]:
            words = ["--history", str(self._history.path), "--html", self._options["HTML"]]
            subprocess.run([*own_tool("pypto_build.diagnose.runs"), *words], check=False)
