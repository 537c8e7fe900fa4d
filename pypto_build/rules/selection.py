"""The one artifact that ``JIT=`` selects: its targets, and the verdict when it cannot even be built."""

from __future__ import annotations

import atexit
import os
import re
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

from SCons.Action import Action
from SCons.Script import COMMAND_LINE_TARGETS, GetBuildFailures
from SCons.Taskmaster.Job import interrupt_msg

from pypto_build.artifact import ArtifactError, artifact_name, find_artifacts, resolve_jit
from pypto_build.replay.verdict import EXIT_STATUS, ErrorInfo, Verdict, write_verdict
from pypto_build.rules import STATUS_VARIABLE
from pypto_build.rules.artifact import declare_loaded
from pypto_build.rules.compile_commands import update_compile_commands
from pypto_build.rules.completion import open_artifacts
from pypto_build.rules.housekeeping import declare_gc
from pypto_build.rules.machinery.actions import failure_output
from pypto_build.rules.machinery.workspace import Workspace, examples_dir, mark_output, workspace_of
from pypto_build.rules.program import declare_program
from pypto_build.rules.pto_targets import declare_pto_diff, declare_splice
from pypto_build.rules.replay_test import declare_replay, finish_replays
from pypto_build.rules.variants import CHECKED, FOR_SIMPLER, USUAL
from pypto_build.rules.verb_targets import declare_fetch, declare_verb
from pypto_build.rules.verbs import VERBS, Needs, Verb

# Targets that work on the selected artifact.
TARGETS = ("build", "replay", "splice", "pto_diff", *VERBS)

# The exit status of a command that Ctrl-C ended, as in a shell.
_INTERRUPTED = 130

_FIRST_ERROR = re.compile(r"^.*?\b(?:fatal error|error|undefined reference)\b.*$", re.MULTILINE)

# The artifact being worked on, for the verdict of a run that ends before one is written: (OUT, artifact, options).
_current: list[tuple[Path, str, Any]] = []

# Tools that need nothing built.
_WITHOUT_NODES = (Needs.FILES, Needs.ARTIFACT)


def declare_selected(env: Any) -> None:
    """Declare the artifact of ``JIT=`` under the targets of this module."""
    workspace = workspace_of(env)
    jit = workspace.options["JIT"]
    wanted = [target for target in map(str, COMMAND_LINE_TARGETS) if target in TARGETS]
    places = (workspace.top / workspace.options.build_output, examples_dir(workspace))
    declare_compile(env)
    if "fetch" in map(str, COMMAND_LINE_TARGETS):
        declare_fetch(env)
    if "gc" in map(str, COMMAND_LINE_TARGETS):
        declare_gc(env)
    verbs = [VERBS[target] for target in wanted if target in VERBS]
    if not jit:
        for verb in verbs:
            if verb.needs is Needs.FILES:
                declare_verb(env, verb, None, None, None)
                wanted.remove(verb.name)
        if wanted:
            listed = ", ".join([path.name for path in find_artifacts(*places)][:10]) or "none found"
            raise ArtifactError("JIT=", f"'scons {wanted[0]}' needs an artifact", f"name one of: {listed}")
        return
    root = workspace.selected = resolve_jit(jit, *places)
    name = artifact_name(root)
    _current.append((workspace.build_dir / workspace.options["PLATFORM"] / name, name, workspace.options))
    atexit.register(_record_build_failures)
    for verb in verbs:
        if verb.needs in _WITHOUT_NODES:
            declare_verb(env, verb, root, None, None)
    if "pto_diff" in wanted:
        declare_pto_diff(env, root, *places)
    alone = {"pto_diff", *(verb.name for verb in verbs if verb.needs in _WITHOUT_NODES)}
    if not wanted or set(wanted) - alone:
        _declare_nodes(env, root, wanted, [verb for verb in verbs if verb.needs not in _WITHOUT_NODES])
    _current[:] = [(output, output.name, workspace.options) for output in workspace.outputs] or _current


def _declare_nodes(env: Any, root: Path, wanted: list[str], verbs: list[Verb]) -> None:
    """The nodes of the artifact in ``root``, those of its parts if it has several, and the targets on them."""
    workspace = workspace_of(env)
    needs = [VERBS[target].needs if target in VERBS else None for target in wanted]
    workspace.builds_binaries = not needs or any(need is not Needs.INTERFACE for need in needs)
    artifacts = open_artifacts(workspace, root)
    variants = {_variant(workspace, VERBS[target]) if target in VERBS else None for target in wanted}
    only = variants.pop() if len(variants) == 1 else None
    selected = [declare_loaded(env, artifact, variant=only) for artifact in artifacts]
    built = [node for targets in selected for node in targets.all]
    chosen = {name: value for verb in verbs for name, value in verb.replay_with.items()}
    looked_at = any(verb.needs is Needs.REPLAY for verb in verbs)
    verdicts = []
    if "replay" in wanted or not wanted or looked_at:
        alone = len(selected) == 1
        verdicts = [
            declare_replay(env, targets, chosen=chosen, tolerant=looked_at, alone=alone) for targets in selected
        ]
    for verb in verbs:
        for targets, verdict in zip(selected, verdicts or [None] * len(selected), strict=True):
            needed = declare_loaded(env, targets.artifact, variant=_variant(workspace, verb))
            declare_verb(env, verb, targets.artifact.root, needed, verdict if verb.needs is Needs.REPLAY else None)
    for targets in selected:
        update_compile_commands(workspace, targets)
    env.Alias("build", built)
    declare_splice(env, selected)
    if verdicts:
        env.AlwaysBuild(env.Alias("replay", [*verdicts, *built], Action(finish_replays, None)))


def _variant(workspace: Workspace, verb: Verb) -> str | None:
    """How the binaries that ``verb`` needs are built, None if as the options say."""
    match verb.needs:
        case Needs.CHECKED:
            return CHECKED.directory
        case Needs.FOR_SIMPLER:
            return FOR_SIMPLER.directory if workspace.platform().simulated else USUAL.directory
    return None


def declare_compile(env: Any) -> None:
    """Declare the program of ``PROGRAM=``."""
    workspace = workspace_of(env)
    program = workspace.options["PROGRAM"]
    if "compile" not in map(str, COMMAND_LINE_TARGETS):
        return
    if program:
        env.Alias("compile", declare_program(env, name=Path(program).stem, source=program))
    else:
        raise ArtifactError(
            "PROGRAM=", "'scons compile' needs a program", "name a Python file, such as examples/vector_dag.py"
        )


def record_error(error: Exception) -> None:
    """Write the verdict of a run that ends with ``error`` before anything was built."""
    kind: Any = getattr(error, "kind", "usage_error")
    report_status(EXIT_STATUS[kind])
    for output, name, options in _current:
        info = ErrorInfo(kind=kind, message=getattr(error, "message", str(error)), hint=getattr(error, "hint", ""))
        _write(output, name, options, kind, info)


def _record_build_failures() -> None:
    """A build that failed has a verdict too; a replay that failed has written its own."""
    failures = [failure for failure in GetBuildFailures() if failure.node]
    if any(failure.errstr == interrupt_msg or failure.status == -signal.SIGINT for failure in failures):
        report_status(_INTERRUPTED)
        for output, _, _ in _current:  # what an earlier run said is said of other files
            (output / "verdict.json").unlink(missing_ok=True)
        return
    broken = [failure for failure in failures if not _is_a_result(failure.node)]
    if failures:
        report_status(_kind_status(broken[0]) if broken else failures[0].status)
    for output, name, options in _current:
        mine = [failure for failure in broken if Path(failure.node.get_abspath()).is_relative_to(output)]
        if not mine and not (broken and len(_current) == 1):
            continue
        failure = (mine or broken)[0]
        message = _first_error("\n".join(failure_output)) or f"{failure.node}: {failure.errstr}"
        kind = "usage_error" if _kind_status(failure) == EXIT_STATUS["usage_error"] else "build_error"
        info = ErrorInfo(kind=kind, message=message, hint="correct it and run the same command again")
        _write(output, name, options, kind, info)


def _is_a_result(node: Any) -> bool:
    """Whether what failed is a replay or another tool, whose status says what it found, and not a step of the build."""
    return node.name == "verdict.json" or node.name in TARGETS


def _kind_status(failure: Any) -> int:
    return EXIT_STATUS["usage_error" if failure.status == EXIT_STATUS["usage_error"] else "build_error"]


def report_status(status: int) -> None:
    """Tell `pypto-build` how this run ended."""
    if path := os.environ.get(STATUS_VARIABLE):
        Path(path).write_text(str(status), encoding="utf-8")


def _first_error(text: str) -> str:
    """The line of a failed command's output that says what is wrong."""
    found = _FIRST_ERROR.search(text) or re.search(r"\S.*", text)
    return found.group(0).strip() if found else ""


def _write(output: Path, name: str, options: Any, status: Any, info: ErrorInfo) -> None:
    verdict = Verdict(
        status=status, artifact=name, platform=options["PLATFORM"], runtime=options["RUNTIME"], error=info
    )
    with suppress(OSError):  # where nothing can be written, the message has to do
        mark_output(output)
        write_verdict(verdict, output / "verdict.json")
