"""A row of the table: the outcome of one job, in words."""

from __future__ import annotations

from dataclasses import dataclass

from pypto_build.facts.outcomes import Outcome, Word
from pypto_build.replay.verdict import EXIT_STATUS
from pypto_build.rules.many.choice import Job
from pypto_build.rules.many.report import JobReport

_NAMES = {number: name for name, number in EXIT_STATUS.items()}
#: Statuses of a command, the worst first: what did not even end, what was not computed, what is wrong, what is unknown.
WORST = (6, 5, 3, 4, 2, 1, 7)
_WORDS: dict[int, Word] = {0: "PASS", 1: "FAIL", 7: "UNCHECKED"}


@dataclass(frozen=True)
class Row:
    """The outcome of a job; ``memory`` in bytes, 0 if nothing ran."""

    job: Job
    status: int
    seconds: float = 0.0
    memory: int = 0
    cached: bool = False
    reason: str = ""
    command: str = ""
    log: str = ""
    outcomes: tuple[Outcome, ...] = ()

    @property
    def failed(self) -> bool:
        """Return True if the job needs attention."""
        return self.status != 0

    @property
    def word(self) -> str:
        """Return the name of the row's status."""
        return _NAMES.get(self.status, f"status {self.status}")

    @property
    def outcome(self) -> Outcome:
        """Return the outcome for CI reports: that of the job's replay, else one made from the row."""
        outcome = next((one for one in self.outcomes if one.failed), next(iter(self.outcomes), None))
        if outcome is not None:
            outcome.name, outcome.seconds = self.job.label, outcome.seconds or self.seconds
            return outcome
        word = _WORDS.get(self.status, "ERROR")
        root = str(self.job.root)
        return Outcome(
            self.job.label,
            word,
            self.seconds,
            self.cached,
            root,
            reason=self.reason,
            command=self.command,
            failed=self.failed,
        )


def row_of(
    job: Job, report: JobReport, seconds: float = 0.0, peak: int = 0, log: str = "", cached: bool = False
) -> Row:
    """Return the row of a job that ended."""
    reason = next((one.reason for one in report.outcomes if one.failed), "") or report.message
    reason = reason.replace(f"{job.root}/", "")
    command = report.command or next((one.command for one in report.outcomes if one.failed and one.command), "")
    cached = cached or (bool(report.outcomes) and all(one.cached for one in report.outcomes) and not report.built)
    return Row(job, report.status, seconds, peak, cached, reason, command, log, tuple(report.outcomes))


def severity(status: int) -> int:
    """Return the severity of a status; 0 is good."""
    return len(WORST) - WORST.index(status) if status in WORST else len(WORST) if status else 0
