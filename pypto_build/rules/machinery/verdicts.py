"""The verdict, and the exit status, of a run that ends before a replay writes one."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import SCons.Script.Main
from SCons.Script import GetBuildFailures
from SCons.Taskmaster.Job import interrupt_msg

from pypto_build.replay.verdict import EXIT_STATUS, ErrorInfo, Status, Verdict, write_verdict
from pypto_build.rules.machinery.workspace import mark_output
from pypto_build.rules.options import Options
from pypto_build.rules.targets import STATUS_VARIABLE

if TYPE_CHECKING:
    from SCons.Errors import BuildError

#: The exit status of a command that Ctrl-C ended, as in a shell.
INTERRUPTED = 130

# That of SCons when it was interrupted between two commands, and none failed.
_STOPPED = 2

_FIRST_ERROR = r"(?m)^.*?\b(?:fatal error|error|undefined reference)\b.*$"


class Verdicts:
    """Writes the verdicts of the artifacts that are being worked on, if no replay gets as far as writing one.

    ``results`` are the names of targets whose status says what they found; they are no steps of a build.
    """

    def __init__(self, results: Container[str]) -> None:
        self._results = results
        self._options: Options | None = None
        self._outputs: Sequence[Path] = ()
        self._told = False  # how the run ends
        self.status = 0  # what was reported
        self.message = ""  # on what is wrong, where no replay says it

    def concern(self, options: Options, outputs: Iterable[Path]) -> None:
        """From now on, ``outputs`` (named like their artifacts) are what is being worked on."""
        self._options, self._outputs = options, tuple(outputs)

    def record_error(self, error: Exception) -> None:
        """The run ends with ``error`` before anything was built."""
        self._told = True
        kind: Status = getattr(error, "kind", "usage_error")
        self._report(EXIT_STATUS[kind])
        self.message = str(error)
        info = ErrorInfo(kind=kind, message=getattr(error, "message", str(error)), hint=getattr(error, "hint", ""))
        for output in self._outputs:
            self._write(output, kind, info)

    def record_failures(self, said: Sequence[str]) -> None:
        """A build that failed has a verdict too, by what its commands ``said``; a replay has written its own."""
        if self._options is None:
            return
        failures = [failure for failure in GetBuildFailures() if failure.node]
        interrupted = not (failures or self._told) and SCons.Script.Main.exit_status == _STOPPED
        if interrupted or any(f.errstr == interrupt_msg or f.status == -signal.SIGINT for f in failures):
            self._report(INTERRUPTED)
            for output in self._outputs:  # an earlier run's verdict is about other files
                (output / "verdict.json").unlink(missing_ok=True)
            return
        broken = [failure for failure in failures if not self._is_a_result(failure)]
        if failures:
            self._report(EXIT_STATUS[_kind(broken[0])] if broken else failures[0].status)
        for output, failure in self._concerned(broken):
            message = _first_error("\n".join(said)) or f"{failure.node}: {failure.errstr}"
            info = ErrorInfo(kind=_kind(failure), message=message, hint="correct it and run the same command again")
            self.message = self.message or message
            self._write(output, _kind(failure), info)

    def _concerned(self, broken: Sequence[BuildError]) -> Iterator[tuple[Path, BuildError]]:
        """The artifacts that cannot be built, each with the first failure of its own."""
        for output in self._outputs:
            own = [failure for failure in broken if Path(failure.node.get_abspath()).is_relative_to(output)]
            if found := own or (broken if len(self._outputs) == 1 else []):
                yield output, found[0]

    def _is_a_result(self, failure: BuildError) -> bool:
        """Whether what failed is a replay or another tool, whose status says what it found."""
        return failure.node.name == "verdict.json" or failure.node.name in self._results

    def _report(self, status: int) -> None:
        self.status = status
        report_status(status)

    def _write(self, output: Path, status: Status, info: ErrorInfo) -> None:
        assert self._options is not None
        platform, runtime = self._options["PLATFORM"], self._options["RUNTIME"]
        verdict = Verdict(status=status, artifact=output.name, platform=platform, runtime=runtime, error=info)
        verdict.requested = self._options.requested or platform
        with suppress(OSError):  # if nothing can be written, the message has to do
            mark_output(output)
            write_verdict(verdict, output / "verdict.json")


def report_status(status: int) -> None:
    """Tell `pypto-build` how this run ended."""
    if path := os.environ.get(STATUS_VARIABLE):
        Path(path).write_text(str(status), encoding="utf-8")


def _kind(failure: BuildError) -> Status:
    return "usage_error" if failure.status == EXIT_STATUS["usage_error"] else "build_error"


def _first_error(text: str) -> str:
    """The line of a failed command's output that says what is wrong."""
    found = re.search(_FIRST_ERROR, text) or re.search(r"\S.*", text)
    return found.group(0).strip() if found else ""
