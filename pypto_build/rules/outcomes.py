"""Reports the tests and replays of a run: a line for each, the failures at the end, files for CI.

Results are collected while SCons works. When the process ends, failures are shown once more together, and a tool
(``pypto_build.diagnose.outcomes``) writes the files that were asked for.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from pypto_build import terminal
from pypto_build.artifact.files import write_bytes
from pypto_build.facts.outcomes import Outcome, Word, annotations_for
from pypto_build.replay.verdict import Verdict
from pypto_build.rules.machinery.workspace import FAILED_TESTS, Workspace
from pypto_build.rules.options import Options
from pypto_build.toolchain.python import own_tool

#: Options that write what came of a run, with the flags of the tool that does.
FILES = {"JUNIT": "--junit", "JSON": "--json", "SARIF": "--sarif"}

_WORDS: dict[str, Word] = {"pass": "PASS", "mismatch": "FAIL", "unchecked": "UNCHECKED"}
_WIDTH = 80
# Of more tests that ran the slowest are named.
_FEW = 5


def outcome_of(replayed: Verdict, name: str, **more: Any) -> Outcome:
    """Return the outcome for a verdict."""
    wrong = sum(output.status == "mismatch" for output in replayed.outputs)
    reason = f"{wrong} of {len(replayed.outputs)} outputs differ" if wrong else ""
    if replayed.error is not None:
        reason = replayed.error.message
    return Outcome(name, _WORDS.get(replayed.status, "ERROR"), reason=reason, cached=replayed.cached, **more)


class Outcomes:
    """The outcomes of one workspace, in order of completion."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._begun = time.monotonic()
        self.tests: list[Outcome] = []
        self.replays: list[Outcome] = []
        self.expected: dict[str, Path] = {}  # tests that were asked for, and OUT of each

    def expect(self, name: str, output: Path | None) -> None:
        """Expect a test that will run; ``output`` is the directory in which its artifact is built."""
        if not self.expected:
            terminal.show_progress(lambda: f"[test] {len(self.tests)} of {len(self.expected)} tests")
        self.expected[name] = output or Path()

    def add(self, outcome: Outcome) -> None:
        """Record the outcome of a test, and print its line."""
        self.tests.append(outcome)
        terminal.say(_line(outcome, max(map(len, [*self.expected, outcome.name]))))

    def finish(self) -> None:
        """Report at the end of the process: tests that were not built, failures, counts, files."""
        if self.expected and (self.tests or self._workspace.progress.failed):
            self._add_unbuilt()
            self._show_failures()
            self._show_counts()
            _remember(self._workspace.build_dir / FAILED_TESTS, self.tests)
        self._write_files()

    def _add_unbuilt(self) -> None:
        names = {outcome.name for outcome in self.tests}
        for name, output in self.expected.items():
            if name in names:
                continue
            messages = [text for directory, text in self._workspace.progress.failed if directory == output]
            others = [
                text for directory, text in self._workspace.progress.failed if directory not in self.expected.values()
            ]
            text = "".join(messages or others)
            reason = "it does not build" if messages else _last_line(text) or "it did not run"
            root = str(self._workspace.outputs.get(output, ""))
            self.add(Outcome(name, "ERROR", reason=reason, text=text, artifact=root, failed=True))

    def _unbuilt(self) -> Outcome:
        """Return the outcome of a replay that did not run because its build failed."""
        text = "".join(text for _, text in self._workspace.progress.failed)
        root = str(self._workspace.selected or "")
        return Outcome(Path(root).name, "ERROR", reason="it does not build", text=text, artifact=root, failed=True)

    def _show_failures(self) -> None:
        for outcome in self.tests:
            if not outcome.failed:
                continue
            terminal.say("", f" {outcome.name} ".center(_WIDTH, "_"))
            terminal.pass_on(outcome.text or outcome.reason, error=False, ours=True)
            rows = {"verdict": outcome.verdict, "why": outcome.command, "pack": outcome.pack}
            terminal.say(*(f"    {label:<8} {value}" for label, value in rows.items() if value))

    def _show_counts(self) -> None:
        failed = [outcome for outcome in self.tests if outcome.failed]
        skipped = [outcome for outcome in self.tests if outcome.word == "SKIPPED"]
        cached = sum(outcome.cached for outcome in self.tests if not outcome.failed)
        passed = len(self.tests) - len(failed) - len(skipped)
        counts = [f"{len(failed)} failed"] if failed else []
        counts += [f"{passed} passed{f' ({cached} cached)' if cached else ''}"] if passed else []
        counts += [f"{len(skipped)} skipped"] if skipped else []
        terminal.say("", f"=== {', '.join(counts)} in {time.monotonic() - self._begun:.1f} s ===")
        ran = sorted((test for test in self.tests if test.seconds and not test.cached), key=lambda test: -test.seconds)
        if len(ran) > _FEW:
            terminal.say(f"slowest: {', '.join(f'{test.name} {test.seconds:.1f} s' for test in ran[:3])}")
        if failed:
            terminal.say("those that failed, again: scons test FAILED=1")

    def _write_files(self) -> None:
        workspace, written = self._workspace, self.tests or self.replays
        if not written and workspace.progress.failed:
            written = [self._unbuilt()]
        write_outcomes(written, workspace.options, workspace.top, workspace.build_dir, workspace.environment)


def write_outcomes(
    outcomes: Sequence[Outcome], options: Options, top: Path, build_dir: Path, environment: Mapping[str, str]
) -> None:
    """Run the tool that writes the files that ``options`` request."""
    words = [f"{flag}={options[name]}" for name, flag in FILES.items() if options[name]]
    words += [f"--annotate={annotations_for(options['ANNOTATE'])}"] if annotations_for(options["ANNOTATE"]) else []
    if not words:
        return
    command = [*own_tool("pypto_build.diagnose.outcomes"), "--top", str(top), *words, "--build-dir", str(build_dir)]
    terminal.step_aside()
    subprocess.run(command, input=msgspec.json.encode(outcomes), env=dict(environment), check=False)


def _last_line(text: str) -> str:
    """Return the last line of a failed step: the error."""
    return (text.strip().splitlines() or [""])[-1].removeprefix("error: ")


def _line(outcome: Outcome, width: int) -> str:
    took = "cached" if outcome.cached else f"{outcome.seconds:.2f} s" if outcome.seconds else ""
    line = f"[test] {outcome.word:<9} {outcome.name:<{width}}  {took:>8}  "
    return f"{line}{terminal.fitting(outcome.reason, len(line))}".rstrip()


def _remember(path: Path, tests: Iterable[Outcome]) -> None:
    """Record which tests fail; the entry of a test that did not run this time is kept."""
    failed = set(failed_tests(path.parent))
    for outcome in tests:
        (failed.add if outcome.failed else failed.discard)(outcome.name)
    if failed:
        write_bytes(path, json.dumps(sorted(failed)).encode() + b"\n")
    else:
        path.unlink(missing_ok=True)


def failed_tests(build_dir: Path) -> Sequence[str]:
    """Return the tests that failed when they last ran."""
    try:
        names = msgspec.json.decode((build_dir / FAILED_TESTS).read_bytes(), type=list[str])
    except (OSError, msgspec.MsgspecError):
        return ()
    return names


def wants_files(workspace: Workspace) -> bool:
    """Return True if the outcomes of this run have to be written to files or annotations."""
    options = workspace.options
    return workspace.of_batch or any(options[name] for name in FILES) or bool(annotations_for(options["ANNOTATE"]))


def outcomes_of(workspace: Workspace) -> Outcomes:
    """Return the outcomes of a workspace, which are reported when the process ends."""
    if "outcomes" not in workspace.extras:
        workspace.extras["outcomes"] = Outcomes(workspace)
        workspace.at_end.append(workspace.extras["outcomes"].finish)
    outcomes: Outcomes = workspace.extras["outcomes"]
    return outcomes
