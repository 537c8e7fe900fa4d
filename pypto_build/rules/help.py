"""What ``scons`` alone prints: targets, options, the artifacts it found."""

from __future__ import annotations

from typing import Any

from SCons.Action import Action
from SCons.Script import Help

from pypto_build.artifact import find_artifacts
from pypto_build.rules.options import OPTIONS
from pypto_build.rules.verbs import VERBS
from pypto_build.rules.workspace import Workspace, examples_dir, workspace_of

TARGETS = {
    "build JIT=x": "compile and link",
    "replay JIT=x": "build what changed, run, compare with the golden, report",
    "compile PROGRAM=p.py": "a program to the artifact _jit_p in BUILD_OUTPUT, with its golden",
    "splice JIT=x": "put edited .pto modules into their kernel files (WRITE=1: in the artifact itself)",
    "pto_diff JIT=a OTHER=b": "what differs between the .pto modules of two artifacts",
    **{verb.usage: verb.doc for verb in VERBS.values()},
    "test": "every test declared here",
    "-c": "remove what was built (with JIT=x: of that artifact)",
}

_EXAMPLES = (
    "scons replay JIT=_jit_vector_dag PLATFORM=a2a3sim",
    "scons replay JIT=latest FORCE=1 VERBOSE=1",
)


def declare_help(env: Any) -> None:
    """``scons`` without a target, and ``scons -h``, print the help."""
    workspace = workspace_of(env)
    Help(help_text(workspace), append=False)
    printed = env.Alias("help", [], Action(_print, None))
    env.AlwaysBuild(printed)
    env.Default(printed)


def help_text(workspace: Workspace) -> str:
    """The help of a workspace."""
    places = (workspace.top / workspace.options.build_output, examples_dir(workspace))
    artifacts = [workspace.short(path) for path in find_artifacts(*places)]
    options = [f"{name}={default_text(option.default)}" for name, option in OPTIONS.items()]
    return "\n".join(
        (
            "Usage: scons TARGET [NAME=value ...]",
            "",
            "Targets:",
            *_table(list(TARGETS), list(TARGETS.values())),
            "",
            "Options, with their defaults:",
            *_table(options, [option.doc for option in OPTIONS.values()]),
            "",
            "Artifacts:",
            *(f"  {path}" for path in artifacts[:30]),
            *([f"  and {len(artifacts) - 30} more"] if len(artifacts) > 30 else [] if artifacts else ["  none found"]),
            "",
            "Examples:",
            *(f"  {example}" for example in _EXAMPLES),
            "",
        )
    )


def default_text(value: Any) -> str:
    """A default as one would type it."""
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _table(left: list[str], right: list[str]) -> list[str]:
    width = max(map(len, left))
    return [f"  {name:<{width}}  {text}" for name, text in zip(left, right, strict=True)]


def _print(target: Any, source: Any, env: Any) -> None:
    print(help_text(workspace_of(env)))
