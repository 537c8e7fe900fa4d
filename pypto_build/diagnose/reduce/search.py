"""The search: candidates in order, several compiled at once, the first that still fails in the same way is kept.

Every ending is written to a log, by the digest of the candidate. The search itself is determined by its start, so that
after an interruption it goes the same way again, and asks the log instead of running anything.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

from pypto_build import terminal
from pypto_build.artifact.files import read_text
from pypto_build.diagnose.reduce.case import Case, Invalid
from pypto_build.diagnose.reduce.judge import Judge

#: Makes a candidate, or finds that there is none.
Attempt = Callable[[], Case]


def runs(count: int, largest: int | None = None) -> Iterator[tuple[int, int]]:
    """Where to leave something out of so many: halves, quarters, … down to single ones, each from the end on."""
    size = count // 2 if largest is None else largest
    while size >= 1:
        yield from ((start, start + size) for start in range(count - size, -1, -size))
        size //= 2


class Log:
    """The endings of candidates, in a file that is only added to: what was cut off at its end counts for nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, str] = {}
        try:
            text = read_text(path, errors="replace")
        except OSError:  # there is none
            return
        for line in text.split("\n")[:-1]:
            digest, _, ending = line.partition(" ")
            self.known[digest] = ending
        if text and not text.endswith("\n"):
            self._write("\n")  # ends what was cut off, so that it spoils nothing else

    def add(self, digest: str, ending: str) -> None:
        """Remember an ending."""
        self.known[digest] = " ".join(ending.split())
        self._write(f"{digest} {self.known[digest]}\n")

    def _write(self, text: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab", buffering=0) as file:
            file.write(text.encode())


def known_log(directory: Path, question: Iterable[str], files: Iterable[Path], say: Callable[[str], None]) -> Log:
    """What an interrupted search knew that asked the same of the same files."""
    digest = hashlib.sha256("\0".join(question).encode())
    for path in (*files, *sorted(Path(__file__).parent.glob("*.py"))):  # another version of this may judge otherwise
        digest.update(path.read_bytes())
    log = Log(directory / f"tried.{digest.hexdigest()[:12]}.log")
    if log.known:
        say(f"going on after {len(log.known)} candidates; remove {directory} to start anew")
    return log


#: After which a search says how far it is.
_QUIET_S = 30.0


class Search:
    """Tries candidates and keeps count of it; ``jobs`` are compiled, or judged by a farm, at once."""

    def __init__(self, judge: Judge, log: Log, jobs: int, say: Callable[[str], None]) -> None:
        self.judge, self.log, self.jobs, self.say = judge, log, max(1, jobs), say
        self.tried = self.kept = self.remembered = 0
        self._said = time.monotonic()
        self._ahead: dict[str, str] = {}  # endings that are known before anybody has asked for them
        terminal.show_progress(lambda: f"[reduce] {self.tried} tried")

    def ending(self, case: Case) -> str:
        """How a candidate ends, from the log where it is there."""
        if case.digest in self.log.known:
            self.remembered += 1
        else:
            self.log.add(case.digest, self._ahead.pop(case.digest, "") or self.judge.ending(case))
        return self.log.known[case.digest]

    def holds(self, case: Case) -> bool:
        """Whether a candidate fails in the same way."""
        self.tried += 1
        if (now := time.monotonic()) - self._said > _QUIET_S:  # where no terminal shows the line of progress
            self._said = now
            self.say(f"{self.tried} tried, {self.kept} kept so far; an interrupted search goes on from here")
        return self.judge.wanted.holds(self.ending(case))

    def first(self, attempts: Iterable[Attempt]) -> Case | None:
        """The first candidate that is kept; whatever the number of jobs, it is the same one."""
        cases = self._made(attempts)
        while batch := list(islice(cases, self.jobs)):
            new = [case for case in batch if case.digest not in self.log.known and case.digest not in self._ahead]
            if len(new) > 1:
                self._ahead |= self.judge.ahead(new)
            for case in batch:
                if self.holds(case):
                    return case
        return None

    def keep(self, case: Case, attempts: Callable[[Case], Iterable[Attempt]], what: str) -> Case:
        """Go on from what was kept until no candidate is; ``attempts`` are those that a case has."""
        before, tried = case, self.tried
        while (smaller := self.first(attempts(case))) is not None:
            case = smaller
            self.kept += 1
        if case is not before:
            self.say(f"{what}: {self.tried - tried} tried; {before.summary()} -> {case.summary()}")
        return case

    def _made(self, attempts: Iterable[Attempt]) -> Iterator[Case]:
        seen: set[str] = set()
        for attempt in attempts:
            try:
                case = attempt()
            except Invalid:
                continue
            if case.digest not in seen:
                seen.add(case.digest)
                yield case


def jobs_of(given: int) -> int:
    """How many to compile at once; 0 stands for this machine's number."""
    return given or os.cpu_count() or 1
