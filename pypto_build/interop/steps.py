"""The trials of a bisection: a candidate is replayed, and the outcome is good, bad or skipped.

Only the failure that the bad end shows is "bad": the same status, the same outputs or kind of error. Any other failure
says nothing about the culprit and is skipped.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

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


class Runner:
    """Replays candidates with `pypto-build replay` and remembers what came of them in ``file``."""

    def __init__(self, file: Path, question: str, repeats: int, words: Sequence[str]) -> None:
        self._file, self._repeats, self._words = file, repeats, list(words)
        self.log = file.with_suffix(".log")
        self.record = self._load(question)

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
        found = []
        for _ in range(self._repeats):
            found.append(self._replay(artifact, options))
            if self.record.bad_signature and found[-1] == self.record.bad_signature:
                break
        trial = Trial(candidate, self._judge(found), found)
        self.record.steps.append(trial)
        self.save()
        outcome = trial.outcome if self.record.bad_signature or trial.outcome == "good" else "fails"
        print(f"[bisect] {outcome:5} {candidate}: {'; '.join(dict.fromkeys(found))}", flush=True)
        return trial

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
