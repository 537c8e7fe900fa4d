"""The trials of a bisection: each replays a candidate, and its outcome is good, bad or skipped.

Only the failure of the bad end is "bad": the same status, the same outputs or kind of error. Any other failure gives no
information about the culprit and is skipped.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import decode_json, read_bytes, write_bytes
from pypto_build.replay.verdict import Verdict, read_verdict
from pypto_build.toolchain.python import own_environment, own_tool

Outcome = Literal["good", "bad", "skip"]


class Trial(msgspec.Struct):
    """One tried candidate: the results of its runs, and the outcome that follows."""

    candidate: str
    outcome: Outcome
    signatures: list[str]


class Progress(msgspec.Struct):
    """The state of a bisection; it is kept in a file, so that an interrupted bisection can continue."""

    question: str
    bad_signature: str = ""
    steps: list[Trial] = []
    culprit: list[str] = []


def signature(verdict: Verdict) -> str:
    """Return a verdict as one line. Two runs with the same line failed in the same way, or both passed."""
    match verdict.status:
        case "pass":
            return "pass"
        case "mismatch":
            names = sorted(output.name for output in verdict.outputs if output.status == "mismatch")
            return f"mismatch of {', '.join(names)}"
        case status:
            kind = verdict.error.kind if verdict.error else status
            code = verdict.error.code if verdict.error else None
            more = [*([kind] if kind != status else []), *([f"code {code}"] if code is not None else [])]
            return f"{status} ({', '.join(more)})" if more else status


def run_replay(words: Sequence[str], log: Path) -> None:
    """Run `pypto-build replay` with these words; append its output to ``log``."""
    command = [*own_tool("pypto_build.cli"), "replay", *words]
    with log.open("a", encoding="utf-8") as output:
        subprocess.run(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=own_environment(),
            check=False,
        )


@dataclass(frozen=True)
class Candidate:
    """The input of a trial: an artifact, and additional options."""

    name: str
    artifact: Path
    options: Sequence[str]


class FarmReplays(Protocol):
    """Replays of candidates on other machines."""

    def replayed(
        self, candidates: Sequence[Candidate], words: Sequence[str], repeats: int, bad: str, log: Path
    ) -> dict[str, list[str]]:
        """Return the results of each candidate, one for each repeat. Candidates after the first that ended as ``bad``
        may be missing."""


class Runner:
    """Replays candidates with `pypto-build replay`, and records their results in ``file``."""

    def __init__(
        self, file: Path, question: str, repeats: int, words: Sequence[str], farm: FarmReplays | None = None
    ) -> None:
        self._file, self._repeats, self._words, self._farm = file, repeats, list(words), farm
        self._prefetched: dict[str, list[str]] = {}  # results of candidates that a farm replayed ahead
        self.log = file.with_suffix(".log")
        self.record = self._load(question)

    @property
    def has_farm(self) -> bool:
        """Return whether candidates may be replayed before they are needed."""
        return self._farm is not None

    def _load(self, question: str) -> Progress:
        try:
            record = decode_json(read_bytes(self._file), Progress)
        except (OSError, msgspec.DecodeError):
            return Progress(question)
        if record.question == question and record.steps and not record.culprit:
            steps = "1 step" if len(record.steps) == 1 else f"{len(record.steps)} steps"
            print(f"[bisect] continues after {steps}; delete {self._file} to start over")
            return record
        return Progress(question)

    def save(self) -> None:
        """Write the record."""
        write_bytes(self._file, msgspec.json.format(msgspec.json.encode(self.record), indent=1) + b"\n")

    def run(self, candidate: str, artifact: Path, options: Sequence[str]) -> Trial:
        """Return the trial of ``candidate``, from the record or a new one. The first failing trial defines the bad
        signature."""
        for trial in self.record.steps:
            if trial.candidate == candidate:
                return trial
        if self._farm and candidate not in self._prefetched:
            self.prefetch([Candidate(candidate, artifact, options)])
        signatures = self._prefetched.pop(candidate) if self._farm else self._replays(artifact, options)
        trial = Trial(candidate, self._judge(signatures), signatures)
        self.record.steps.append(trial)
        self.save()
        outcome = trial.outcome if self.record.bad_signature or trial.outcome == "good" else "fails"
        print(f"[bisect] {outcome:5} {candidate}: {'; '.join(dict.fromkeys(signatures))}", flush=True)
        return trial

    def _replays(self, artifact: Path, options: Sequence[str]) -> list[str]:
        signatures = []
        for _ in range(self._repeats):
            signatures.append(self._replay(artifact, options))
            if signatures[-1] == self.record.bad_signature:
                break
        return signatures

    def prefetch(self, candidates: Sequence[Candidate]) -> None:
        """Let a farm replay all candidates at once, up to the first bad one, so that later trials are already known.

        Unused results are not recorded. So a bisection with a farm has the same result and record as one without.
        """
        if self._farm is None:
            return
        probed = {trial.candidate for trial in self.record.steps} | set(self._prefetched)
        new = [one for one in candidates if one.name not in probed]
        self._prefetched |= self._farm.replayed(new, self._words, self._repeats, self.record.bad_signature, self.log)

    def _judge(self, signatures: Sequence[str]) -> Outcome:
        if self.record.bad_signature and self.record.bad_signature in signatures:
            return "bad"
        return "good" if all(one == "pass" for one in signatures) else "skip"

    def _replay(self, artifact: Path, options: Sequence[str]) -> str:
        build_dir = self._file.with_name("bisect.build")
        run_replay([str(artifact), "--force", *self._words, *options, "--build-dir", str(build_dir)], self.log)
        verdicts = sorted(build_dir.glob(f"*/{artifact.name}/verdict.json"), key=lambda path: path.stat().st_mtime_ns)
        if not verdicts:
            return f"no verdict; see {self.log}"
        try:
            return signature(read_verdict(verdicts[-1]))
        except ArtifactError as error:
            return str(error)
