"""``PyTest``: files of pytest tests, each a test by the path of its file, with proof of all its inputs."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
from SCons.Action import Action
from SCons.Script import COMMAND_LINE_TARGETS

from pypto_build import terminal
from pypto_build.facts.outcomes import Outcome
from pypto_build.proof import OutputDir
from pypto_build.proof.witness import TEST_VARIABLE
from pypto_build.rules.machinery.actions import run_captured
from pypto_build.rules.machinery.attributes import Attribute, Kind, Rule, RuleError, path_attribute
from pypto_build.rules.machinery.inputs import path_of
from pypto_build.rules.machinery.python_tools import python_tool
from pypto_build.rules.machinery.scons_types import Environment, Node, Nodes
from pypto_build.rules.machinery.steps import Step, announce, made_by_us
from pypto_build.rules.machinery.workspace import TESTS, Workspace, escape, workspace_of
from pypto_build.rules.outcomes import failed_tests
from pypto_build.rules.tests import declare_suite, declare_test, may_run, run_all
from pypto_build.toolchain.cache import cache_dir
from pypto_build.toolchain.forked import ForkedTools

_TOOL = "pypto_build.interop.pytest_file"
_FORKS, _TEMPORARY = "what files of tests are forked from", "where tests have their temporary files"
# A test has one processor: others run beside it, and a fork of a process with threads of OpenMP may wait for them.
_ONE_PROCESSOR = {"OMP_NUM_THREADS": "1"}
_NO_TESTS = "no tests"

PY_TEST = Rule(
    "PyTest",
    "Runs files of pytest tests, each as a test of its own; a file is run again if something that it read has changed.",
    (
        Attribute("name", (str,), "the name of the target, which is a suite of the files", required=True),
        path_attribute("files", Kind.FILES, "the files with tests, such as Glob('tests/test_*.py')", required=True),
        Attribute("args", (list, tuple), "options of pytest, such as '-m' and 'not slow'"),
        path_attribute("deps", Kind.FILES, "files that the tests read, where something makes them"),
        Attribute("cache", (bool,), "False: the tests depend on time, network or chance, and run always", True),
        Attribute("variables", (list, tuple), "names of environment variables that the tests see, besides the usual"),
        Attribute("tags", (list, tuple), "names that TAGS= selects by"),
    ),
)


class _Report(msgspec.Struct):
    """The last line that the tool prints."""

    seconds: float = 0.0
    counts: dict[str, int] = {}
    reasons: list[str] = []

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {kind}" for kind, count in self.counts.items()) or _NO_TESTS
        return f"{counts} ({'; '.join(self.reasons)})" if self.reasons else counts


@dataclass
class _File:
    """One file of tests, and its outcome in this run."""

    name: str
    step: Step
    cache: bool
    status: int = 0
    text: str = ""  # what pytest printed, of one that failed
    note: str = ""  # why it is not recorded
    seconds: float = 0.0
    report: _Report = field(default_factory=_Report)
    cached: bool = False

    @property
    def junit(self) -> Path:
        """Return the path of pytest's report."""
        path = self.step.output_dir.path(self.step.action.outputs[0])
        return path if self.cache and self.status == 0 else path.with_name(f"{path.name}.tmp")


def declare_py_test(env: Environment, **attributes: Any) -> Nodes:
    """Implement the rule; return the alias of the suite of all files."""
    values = PY_TEST.check(attributes, env)
    workspace, replays, name = workspace_of(env), env["PYPTO_REPLAYS"], values["name"]
    if not values["files"]:
        raise RuleError(f"PyTest: {name} has no test files; name some, such as files=Glob('tests/test_*.py')")
    nodes = {_label(workspace, replays.tags, name, node): node for node in values["files"]}
    tags = set(values["tags"] or ())
    targets = list(map(str, COMMAND_LINE_TARGETS))
    files: list[_File] = []
    if any(may_run(workspace, one, tags) for one in (name, *nodes)):
        if targets and find_spec("pytest") is None:
            raise RuleError(f"PyTest: {name}: pytest is not installed; run pip install pytest")
        output_dir = workspace.open_output(workspace.build_dir / TESTS / name, workspace.top)
        files = [_file(workspace, output_dir, label, path_of(node), values) for label, node in nodes.items()]
        files.sort(key=partial(_rank, failed_tests(workspace.build_dir)))
    if not nodes.keys().isdisjoint(targets):
        run_all(workspace)
    by_label = {file.name: file for file in files} or dict.fromkeys(nodes)
    for label, file in by_label.items():
        of_file = {"name": label, "tags": tags, "platform": None}
        inputs = [nodes[label], *(values["deps"] or ())]
        judge = partial(_judge, file) if file else None
        declare_test(env, of_file, inputs, partial(_declare_run, file), judge=judge)
    return declare_suite(env, name, list(by_label), (), targets)


def _label(workspace: Workspace, taken: Mapping[str, Any], rule: str, node: Node) -> str:
    """Return the name of a file's test: its path, with the rule's name where another rule has it, too."""
    label = workspace.short_of_top(path_of(node))
    return f"{rule}:{label}" if label in taken else label


def _file(workspace: Workspace, output_dir: OutputDir, label: str, path: Path, values: Mapping[str, Any]) -> _File:
    result = f"{label.replace('/', '.')}.xml"
    action = python_tool(
        workspace,
        _TOOL,
        [str(path), str(output_dir.path(f"{result}.tmp")), *map(str, values["args"] or ())],
        name=label,
        inputs=[path],
        outputs=(result,),
        main=str(path),
        private=(str(_temporary(workspace)), str(cache_dir())),
        runs_programs=True,
        variables=values["variables"] or (),
        whole=True,
    )
    return _File(label, Step(output_dir, action, "[pytest] run", label), values["cache"])


def _rank(failed: Any, file: _File) -> tuple[bool, float]:
    """Return the sort key of a file: failed files first, then those with the longest last run."""
    counts = _report(file.step.output_dir.printed(file.step.action.name))
    return file.name not in failed, -counts.seconds if counts else float("-inf")


def _declare_run(file: _File | None, env: Environment, _: Mapping[str, Any]) -> Nodes:
    """Declare the run of a file, unless it is proven."""
    assert file is not None
    step = file.step
    if file.cache and step.proven:
        file.report, file.cached = _report(step.output_dir.printed(step.action.name)) or _Report(), True
        return ()
    target = escape(str(step.output_dir.path(f".{step.action.outputs[0]}.run")))
    node = env.Command(target, [], Action(_run, announce), PYPTO_STEP=step, PYPTO_FILE=file)
    return made_by_us(env, node)


def _run(target: Nodes, source: Nodes, env: Environment) -> int:
    """Run a file, or take the result from the store, and set the outcome of its test."""
    file: _File = env["PYPTO_FILE"]
    workspace, step = workspace_of(env), file.step
    if not file.cache:
        temporary = tempfile.mkdtemp(dir=_temporary(workspace))
        environment = {**step.action.environment, **_ONE_PROCESSOR, "TMPDIR": temporary}
        _note(file, *_timed(file, partial(run_captured, step.action.command(), environment)))
        return 0

    def spawn(command: list[str], environment: dict[str, str]) -> tuple[int, str]:
        temporary = tempfile.mkdtemp(dir=_temporary(workspace))
        environment |= {**_ONE_PROCESSOR, "TMPDIR": temporary}
        with workspace.turn():
            run = partial(forks.run, workspace.confine(command, None), environment)
            status, text = _timed(file, run)
        shutil.rmtree(temporary, ignore_errors=True)
        _note(file, status, text)
        return status, text.rstrip("\n").rpartition("\n")[2]  # what is remembered of one that passes

    def begin() -> None:
        reason = step.reason
        workspace.progress.begin(step.output_dir.directory, step.action, f"{step.label} {file.name}", reason)
        if workspace.verbose:
            terminal.say(step.line(reason))

    forks = _forks(workspace)
    try:
        outcome = step.output_dir.perform(step.action, spawn, begin, looked=True, forks=forks)
    finally:
        workspace.progress.end(step.output_dir.directory, step.action)
    if outcome.how in ("kept", "restored"):
        file.report, file.cached = _report(outcome.printed) or _Report(), True
    elif outcome.how == "failed":
        file.status = outcome.status
    file.note = outcome.note.removesuffix(", so it is made again every time")
    return 0


def _timed(file: _File, run: Any) -> tuple[int, str]:
    begun = time.monotonic()
    status, text = run()
    file.seconds = time.monotonic() - begun
    return status, text


def _note(file: _File, status: int, text: str) -> None:
    """Record the tool's output, and the counts in its last line."""
    printed, _, last = text.rstrip("\n").rpartition("\n")
    counts = _report(last)
    file.status, file.report, file.text = status, counts or _Report(), f"{printed}\n" if counts else text


def _report(line: str) -> _Report | None:
    try:
        return msgspec.json.decode(line, type=_Report)
    except msgspec.MsgspecError:
        return None


def _judge(file: _File) -> Outcome:
    counts = file.report.counts
    reason = f"{file.report}; runs each time: {file.note}" if file.note else str(file.report)
    if file.status:
        has_failed = bool(counts.get("failed") or counts.get("error"))
        ended = reason if has_failed else file.note or f"pytest ended with status {file.status}"
        return _outcome(file, "FAIL" if has_failed else "ERROR", ended, failed=True, text=file.text)
    ran = sum(count for kind, count in counts.items() if kind != "skipped")
    return _outcome(file, "PASS" if ran else "SKIPPED", reason, cached=file.cached)


def _outcome(file: _File, word: Any, reason: str, **more: Any) -> Outcome:
    return Outcome(file.name, word, file.seconds, reason=reason, junit=str(file.junit), **more)


def _forks(workspace: Workspace) -> ForkedTools:
    """Start the fork server for test files; it ends with this process."""
    if _FORKS not in workspace.extras:
        workspace.extras[_FORKS] = forks = ForkedTools((_TOOL,), TEST_VARIABLE, _ONE_PROCESSOR)
        workspace.at_end.append(forks.close)
    fork_server: ForkedTools = workspace.extras[_FORKS]
    return fork_server


def _temporary(workspace: Workspace) -> Path:
    """Return the directory of the tests' temporary files, which are not inputs.

    It lies outside of the workspace, because tools look for their settings in the directories above.
    """
    if _TEMPORARY not in workspace.extras:
        workspace.extras[_TEMPORARY] = path = Path(tempfile.mkdtemp(prefix="tests-")).resolve()
        workspace.at_end.append(partial(shutil.rmtree, path, ignore_errors=True))
    directory: Path = workspace.extras[_TEMPORARY]
    return directory
