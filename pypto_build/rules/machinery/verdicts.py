"""Writes the verdict and the exit status of a run that ends before a replay writes one."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import SCons.Script.Main
from SCons.Script import GetBuildFailures
from SCons.Taskmaster.Job import interrupt_msg

from pypto_build.artifact.outputs import mark_output
from pypto_build.replay.verdict import EXIT_STATUS, ErrorInfo, Status, Verdict, write_verdict
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
    """Writes the verdicts of artifacts whose replay did not get far enough to write one.

    ``results`` are the names of targets whose status is a finding; they are not build steps.
    """

    def __init__(self, results: Container[str]) -> None:
        self._results = results
        self._concerned: list[tuple[Options, Mapping[Path, Path]]] = []
        self._reported = False  # how the run ends
        self.status = 0  # what was reported
        self.message = ""  # on what is wrong, where no replay says it

    def concern(self, options: Options, outputs: Mapping[Path, Path]) -> None:
        """Register ``outputs``, with the paths of their artifacts, that are built with ``options``.

        They are read when the run ends, so outputs that rules open later count.
        """
        self._concerned = [(other, its) for other, its in self._concerned if other is not options]
        self._concerned.append((options, outputs))

    def _outputs(self) -> Iterator[tuple[Options, Path, list[Path]]]:
        """Yield each output with its own verdict, and the outputs of its chip programs, which have none."""
        for options, outputs in self._concerned:
            of_chips = {path: root.parent.parent for path, root in outputs.items()}
            for output, root in outputs.items():
                if of_chips[output] not in outputs.values():
                    chips = [path for path, of in of_chips.items() if of == root and path.parent == output.parent]
                    yield options, output, [output, *chips]

    def record_error(self, error: Exception) -> None:
        """Write the verdicts of a run that ends with ``error`` before anything was built."""
        self._reported = True
        kind: Status = getattr(error, "kind", "usage_error")
        self._report(EXIT_STATUS[kind])
        self.message = str(error)
        info = ErrorInfo(kind=kind, message=getattr(error, "message", str(error)), hint=getattr(error, "hint", ""))
        for options, output, _ in self._outputs():
            self._write(options, output, kind, info)

    def record_failures(self, outputs: Sequence[str]) -> None:
        """Write the verdicts of a build that failed, from the ``outputs`` of its commands; replays have written
        their own.
        """
        if not self._concerned:
            return
        failures = [failure for failure in GetBuildFailures() if failure.node]
        interrupted = not (failures or self._reported) and SCons.Script.Main.exit_status == _STOPPED
        if interrupted or any(f.errstr == interrupt_msg or f.status == -signal.SIGINT for f in failures):
            self._report(INTERRUPTED)
            for _, output, _ in self._outputs():  # an earlier run's verdict is about other files
                (output / "verdict.json").unlink(missing_ok=True)
            return
        broken = [failure for failure in failures if not self._is_a_result(failure)]
        if failures:
            self._report(EXIT_STATUS[_kind(broken[0])] if broken else failures[0].status)
        for options, output, failure in self._that_fail(broken):
            message = _first_error("\n".join(outputs)) or f"{failure.node}: {failure.errstr}"
            info = ErrorInfo(kind=_kind(failure), message=message, hint="correct it and run the same command again")
            self.message = self.message or message
            self._write(options, output, _kind(failure), info)

    def _that_fail(self, broken: Sequence[BuildError]) -> Iterator[tuple[Options, Path, BuildError]]:
        """Yield the artifacts whose build failed, each with its first failure."""
        outputs = list(self._outputs())
        for options, output, directories in outputs:
            paths = [Path(failure.node.get_abspath()) for failure in broken]
            own = [one for one, path in zip(broken, paths, strict=True) if any(map(path.is_relative_to, directories))]
            if errors := own or (broken if len(outputs) == 1 else []):
                yield options, output, errors[0]

    def _is_a_result(self, failure: BuildError) -> bool:
        """Return True if the failure is a replay or another tool, whose status is a finding."""
        return failure.node.name in ("verdict.json", ".tested") or failure.node.name in self._results

    def _report(self, status: int) -> None:
        self.status = status
        report_status(status)

    @staticmethod
    def _write(options: Options, output: Path, status: Status, info: ErrorInfo) -> None:
        platform, runtime = output.parent.name, options["RUNTIME"]
        verdict = Verdict(status=status, artifact=output.name, platform=platform, runtime=runtime, error=info)
        verdict.requested = options.requested or platform
        with suppress(OSError):  # if nothing can be written, the message has to do
            mark_output(output)
            write_verdict(verdict, output / "verdict.json")


def report_status(status: int) -> None:
    """Tell `pypto-build` the exit status of this run."""
    if path := os.environ.get(STATUS_VARIABLE):
        Path(path).write_text(str(status), encoding="utf-8")


def _kind(failure: BuildError) -> Status:
    return "usage_error" if failure.status == EXIT_STATUS["usage_error"] else "build_error"


def _first_error(text: str) -> str:
    """Return the line with the error in a failed command's output."""
    match = re.search(_FIRST_ERROR, text) or re.search(r"\S.*", text)
    return match.group(0).strip() if match else ""
