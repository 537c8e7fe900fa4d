"""The target ``triage``: builds the inputs of an instrument only when the cheaper ones have not found the cause."""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from SCons.Action import Action
from SCons.Script import GetOption

from pypto_build import terminal
from pypto_build.facts.outcomes import annotations_for
from pypto_build.facts.verbs import Verb
from pypto_build.rules.artifact import ArtifactTargets, chip_words
from pypto_build.rules.machinery.actions import run_streaming
from pypto_build.rules.machinery.scons_types import Environment, Nodes
from pypto_build.rules.machinery.workspace import Workspace, workspace_of
from pypto_build.rules.replay import show_results
from pypto_build.rules.units import ensure
from pypto_build.rules.verb_targets import verb_flags
from pypto_build.toolchain.python import own_tool

_REACHED = "triage"  # among the workspace's extras
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_ERROR = re.compile(r"^(?P<path>/[^:\n]+):(?P<place>\d+(?::\d+)?): (?:fatal )?error: (?P<text>.*)", re.M)


def declare_triage(
    env: Environment,
    verb: Verb,
    targets: ArtifactTargets,
    checked: ArtifactTargets,
    verdict: Nodes,
    data: Path | None = None,
    chosen: Mapping[str, Any] | None = None,
) -> None:
    """Declare the target for an artifact whose replay, on ``data``, is ``verdict``; ``checked`` has the binaries of
    CHECK=1.

    ``chosen`` overrides options of the command line.
    """
    root, embedded = targets.artifact.root, targets.embedded
    words = [*own_tool(verb.module), str(root), "--platform", targets.platform.name, "--build-dir", str(targets.output)]
    words += ["--kernels", str(targets.binaries_dir)] if targets.variant else []
    chosen = {**(chosen or {}), "ANNOTATE": annotations_for(workspace_of(env).options["ANNOTATE"])}
    words += ["--embedded", embedded.get_abspath() if embedded else "", *verb_flags(env, verb, data, chosen)]
    words += chip_words(targets)

    def run(target: Nodes, source: Nodes, env: Environment) -> int:
        return _triage(env, words, checked)

    env.AlwaysBuild(env.Alias("triage", [*verdict, *targets.config], [Action(show_results, None), Action(run, None)]))
    workspace = workspace_of(env)
    workspace.at_end.append(partial(_tell_unbuilt, workspace, targets))


def _triage(env: Environment, words: list[str], checked: ArtifactTargets) -> int:
    workspace = workspace_of(env)
    workspace.extras[_REACHED] = True
    if status := _run(workspace, [*words, "--until", "lint"]):
        return status
    built = _ensure(workspace, checked)
    return _run(workspace, [*words, *(["--binaries", str(checked.binaries_dir)] if built else [])])


def _tell_unbuilt(workspace: Workspace, targets: ArtifactTargets) -> None:
    """Print the answer for an artifact whose build fails: the first compiler error in each file."""
    if _REACHED in workspace.extras:
        return
    output = "".join(text for directory, text in workspace.progress.failed if directory == targets.output)
    first = {match["path"]: match for match in reversed(list(_ERROR.finditer(_COLOUR.sub("", output))))}
    if not first:
        return
    name, root = targets.artifact.name, targets.artifact.root
    lines = [f"{_short(Path(path), root)}:{one['place']}: error: {one['text']}" for path, one in first.items()]
    cause, *others = reversed(lines)
    terminal.say(f"[triage] {name}: it does not build; the cause:", cause)
    terminal.say(*(f"    also: {line}" for line in others))
    terminal.say("    not run: lint, other orders, hazards, diverge, flaky (there is nothing to run)")


def _short(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _run(workspace: Workspace, words: list[str]) -> int:
    terminal.detail(" ".join(words))
    return run_streaming(workspace.confine(words, None), workspace.environment)[0]


def _ensure(workspace: Workspace, targets: ArtifactTargets) -> bool:
    """Build the binaries, several at a time; return True if all exist."""
    with ThreadPoolExecutor(GetOption("num_jobs")) as pool:
        units = [unit for part in (targets, *targets.parts) for unit in part.steps]
        return not any(pool.map(lambda steps: ensure(workspace, list(steps)), units))
