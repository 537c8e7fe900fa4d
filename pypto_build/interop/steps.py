"""The trials of a bisection: a candidate is replayed, and the outcome is good, bad or skipped.

Only the failure that the bad end shows is "bad": the same status, the same outputs or kind of error. Any other failure
says nothing about the culprit and is skipped.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.atomic import write_bytes
from pypto_build.artifact.files import decode_json, read_bytes
from pypto_build.replay.verdict import Verdict, read_verdict
from pypto_build.toolchain.python import own_environment, own_tool

Outcome = Literal["good", "bad", "skip"]


class Trial(msgspec.Struct):
    """One candidate that was tried: what each run ended with, and what that makes it."""

    candidate: str
    outcome: Outcome
    signatures: list[str]


class Progress(msgspec.Struct):
    """What a bisection has found out so far; kept in a file, so that it goes on after an interruption."""

    question: str
    bad_signature: str = ""
    steps: list[Trial] = []
    culprit: list[str] = []


def signature(verdict: Verdict) -> str:
    """What a verdict says in a line: two runs with the same one failed in the same way, or both passed."""
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
    """`pypto-build replay` with these words; what it prints is added to ``log``."""
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
    """What a trial replays: an artifact, and more options."""

    name: str
    artifact: Path
    options: Sequence[str]


class FarmReplays(Protocol):
    """Replays of candidates on other machines."""

    def replayed(
        self, candidates: Sequence[Candidate], words: Sequence[str], repeats: int, bad: str, log: Path
    ) -> dict[str, list[str]]:
        """How each of them ended, as often as a trial does it; some behind the first that ended as ``bad`` may lack."""


class Runner:
    """Replays candidates with `pypto-build replay` and remembers what came of them in ``file``."""

    def __init__(
        self, file: Path, question: str, repeats: int, words: Sequence[str], farm: FarmReplays | None = None
    ) -> None:
        self._file, self._repeats, self._words, self._farm = file, repeats, list(words), farm
        self._known: dict[str, list[str]] = {}  # how candidates ended that were replayed before they were asked for
        self.log = file.with_suffix(".log")
        self.record = self._load(question)

    @property
    def has_farm(self) -> bool:
        """Whether candidates may be replayed before they are asked for."""
        return self._farm is not None

    def _load(self, question: str) -> Progress:
        try:
            record = decode_json(read_bytes(self._file), Progress)
        except (OSError, msgspec.DecodeError):
            return Progress(question)
        if record.question == question and record.steps and not record.culprit:
            print(f"[bisect] going on after {len(record.steps)} steps; remove {self._file} to start anew")
            return record
        return Progress(question)

    def save(self) -> None:
        """Write the record."""
        write_bytes(self._file, msgspec.json.format(msgspec.json.encode(self.record), indent=1) + b"\n")

    def run(self, candidate: str, artifact: Path, options: Sequence[str]) -> Trial:
        """The trial of ``candidate``: an earlier one, or one made now. The first failing one defines what is bad."""
        for trial in self.record.steps:
            if trial.candidate == candidate:
                return trial
        if self._farm and candidate not in self._known:
            self.ahead([Candidate(candidate, artifact, options)])
        found = self._known.pop(candidate) if self._farm else self._replays(artifact, options)
        trial = Trial(candidate, self._judge(found), found)
        self.record.steps.append(trial)
        self.save()
        outcome = trial.outcome if self.record.bad_signature or trial.outcome == "good" else "fails"
        print(f"[bisect] {outcome:5} {candidate}: {'; '.join(dict.fromkeys(found))}", flush=True)
        return trial

    def _replays(self, artifact: Path, options: Sequence[str]) -> list[str]:
        found = []
        for _ in range(self._repeats):
            found.append(self._replay(artifact, options))
            if found[-1] == self.record.bad_signature:
                break
        return found

    def ahead(self, candidates: Sequence[Candidate]) -> None:
        """Have a farm replay all of these at once, up to the first that is bad; what is asked for later is known then.

        What nobody asks for is in no record, so that a farm finds and says what would be found here.
        """
        if self._farm is None:
            return
        known = {trial.candidate for trial in self.record.steps} | set(self._known)
        new = [one for one in candidates if one.name not in known]
        self._known |= self._farm.replayed(new, self._words, self._repeats, self.record.bad_signature, self.log)

    def _judge(self, found: Sequence[str]) -> Outcome:
        if self.record.bad_signature and self.record.bad_signature in found:
            return "bad"
        return "good" if all(one == "pass" for one in found) else "skip"

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
