"""The one artifact that ``JIT=`` selects: its targets, and the verdict when it cannot even be built."""

from __future__ import annotations

import atexit
import re
from pathlib import Path
from typing import Any

from SCons.Action import Action
from SCons.Script import COMMAND_LINE_TARGETS, GetBuildFailures

from pypto_build.artifact import ArtifactError, artifact_name, find_artifacts, load_artifacts, resolve_jit
from pypto_build.replay.verdict import EXIT_STATUS, ErrorInfo, Verdict, write_verdict
from pypto_build.rules.actions import failure_output
from pypto_build.rules.artifact import declare_loaded
from pypto_build.rules.compile_commands import update_compile_commands
from pypto_build.rules.program import declare_program
from pypto_build.rules.pto_targets import declare_pto_diff, declare_splice
from pypto_build.rules.replay_test import declare_replay, show_cached
from pypto_build.rules.workspace import examples_dir, mark_output, workspace_of

# Targets that work on the selected artifact.
TARGETS = ("build", "replay", "splice", "pto_diff")

_FIRST_ERROR = re.compile(r"^.*?\b(?:fatal error|error|undefined reference)\b.*$", re.MULTILINE)

# The artifact being worked on, for the verdict of a run that ends before one is written: (OUT, artifact, options).
_current: list[tuple[Path, str, Any]] = []


def declare_selected(env: Any) -> None:
    """Declare the artifact of ``JIT=`` under the targets of this module."""
    workspace = workspace_of(env)
    jit = workspace.options["JIT"]
    wanted = [target for target in map(str, COMMAND_LINE_TARGETS) if target in TARGETS]
    places = (workspace.top / workspace.options.build_output, examples_dir(workspace))
    declare_compile(env)
    if not jit:
        if wanted:
            listed = ", ".join([path.name for path in find_artifacts(*places)][:10]) or "none found"
            raise ArtifactError("JIT=", f"'scons {wanted[0]}' needs an artifact", f"name one of: {listed}")
        return
    root = resolve_jit(jit, *places)
    name = artifact_name(root)
    _current.append((workspace.build_dir / workspace.options["PLATFORM"] / name, name, workspace.options))
    selected = [declare_loaded(env, artifact) for artifact in load_artifacts(root)]
    built, replayed = [], []
    for targets in selected:
        built += targets.all
        if "replay" in wanted or not wanted:
            replayed += declare_replay(env, targets)
        update_compile_commands(workspace, targets)
    _current[:] = [(output, output.name, workspace.options) for output in workspace.outputs]
    env.Alias("build", built)
    declare_splice(env, selected)
    if "pto_diff" in wanted:
        declare_pto_diff(env, root, *places)
    if replayed:
        env.AlwaysBuild(env.Alias("replay", [*replayed, *built], Action(_report_cached, None)))
    atexit.register(_record_build_failures)


def declare_compile(env: Any) -> None:
    """Declare the program of ``PROGRAM=``."""
    workspace = workspace_of(env)
    program = workspace.options["PROGRAM"]
    if program:
        env.Alias("compile", declare_program(env, name=Path(program).stem, source=program))
    elif "compile" in map(str, COMMAND_LINE_TARGETS):
        raise ArtifactError(
            "PROGRAM=", "'scons compile' needs a program", "name a Python file, such as examples/vector_dag.py"
        )


def record_error(error: Exception) -> None:
    """Write the verdict of a run that ends with ``error`` before anything was built."""
    kind = getattr(error, "kind", "usage_error")
    for output, name, options in _current:
        info = ErrorInfo(kind=kind, message=getattr(error, "message", str(error)), hint=getattr(error, "hint", ""))
        _write(output, name, options, kind, info)


def _report_cached(target: Any, source: Any, env: Any) -> None:
    workspace = workspace_of(env)
    for verdict in workspace.replays:
        if verdict not in workspace.replayed:
            show_cached(verdict)


def _record_build_failures() -> None:
    """A build that failed has a verdict too; a replay that failed has written its own."""
    broken = [failure for failure in GetBuildFailures() if failure.node and failure.node.name != "verdict.json"]
    for output, name, options in _current:
        mine = [failure for failure in broken if Path(failure.node.get_abspath()).is_relative_to(output)]
        if not mine and not (broken and len(_current) == 1):
            continue
        failure = (mine or broken)[0]
        kind = "usage_error" if failure.status == EXIT_STATUS["usage_error"] else "build_error"
        message = _first_error("\n".join(failure_output)) or f"{failure.node}: {failure.errstr}"
        info = ErrorInfo(kind=kind, message=message, hint="correct it and run the same command again")
        _write(output, name, options, kind, info)


def _first_error(text: str) -> str:
    """The line of a failed command's output that says what is wrong."""
    found = _FIRST_ERROR.search(text) or re.search(r"\S.*", text)
    return found.group(0).strip() if found else ""


def _write(output: Path, name: str, options: Any, status: Any, info: ErrorInfo) -> None:
    verdict = Verdict(
        status=status, artifact=name, platform=options["PLATFORM"], runtime=options["RUNTIME"], error=info
    )
    mark_output(output)
    write_verdict(verdict, output / "verdict.json")
