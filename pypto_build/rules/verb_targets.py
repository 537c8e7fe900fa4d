"""The targets of the tools in ``verbs``, for the selected artifact."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from SCons.Action import Action
from SCons.Script import ARGUMENTS, GetOption

from pypto_build.artifact import ArtifactError, artifact_name
from pypto_build.facts.options import OPTIONS
from pypto_build.facts.run_options import OF_SIMPLER
from pypto_build.facts.verbs import Needs, Verb
from pypto_build.rules.artifact import ArtifactTargets, chip_words, tell_all_built
from pypto_build.rules.machinery.scons_types import Environment, Node, Nodes
from pypto_build.rules.machinery.workspace import escape, workspace_of
from pypto_build.rules.replay import show_results
from pypto_build.toolchain.python import own_tool


def declare_verb(
    env: Environment,
    verb: Verb,
    root: Path | None = None,
    targets: ArtifactTargets | None = None,
    verdict: Nodes = (),
    data: Path | None = None,
    beside: ArtifactTargets | None = None,
) -> None:
    """The target of ``verb`` on the artifact in ``root``.

    ``root`` is None for a tool that was given files instead of one. ``targets`` are its nodes, None for a tool that
    needs the artifact only; ``verdict`` is the node of its replay. ``data`` is what it gets where DATA= names nothing,
    ``beside`` what else has to be built.
    """
    workspace = workspace_of(env)
    platform = workspace.options["PLATFORM"]
    words = [*own_tool(verb.module), *([str(root)] if root else []), "--platform", platform]
    if root is not None and (verb.needs is Needs.FILES or verb.looks):
        output = workspace.build_dir / platform / artifact_name(root)
        words += ["--build-dir", str(output)] if verb.needs is Needs.FILES or output.is_dir() else []
    needed: list[Node] = []
    if targets is not None:
        words += ["--build-dir", str(targets.output)]
        needed = list(targets.config)
        if verb.needs is not Needs.INTERFACE:
            embedded = targets.embedded if verb.needs is not Needs.FOR_SIMPLER else None
            words += ["--embedded", embedded.get_abspath()] if embedded else []
            elsewhere = targets.variant and (targets.parts or verb.needs is not Needs.REPLAY)
            words += ["--binaries", str(targets.binaries_dir)] if elsewhere else []
            words += chip_words(targets)
            needed = [*([embedded] if embedded else []), *targets.binaries, *targets.config]
        words += ["--usual", str(beside.binaries_dir)] if beside and beside.variant else []
        needed += [*verdict, *(beside.binaries if beside else ())]
    words += ["--jobs", str(GetOption("num_jobs"))] if verb.parallel else []
    if verb.spread and (scheduler := workspace.options["SCHEDULER"]):
        from pypto_build.rules.many.farm import spread_flags

        words += spread_flags(scheduler, workspace.options["MEM"], ARGUMENTS)
    tool = Action([[escape(word) for word in words + verb_flags(env, verb, data)]], None)
    actions = [Action(show_results, None), tool] if verb.needs is Needs.REPLAY else [tool]
    if targets is not None and verb.needs is not Needs.INTERFACE:
        actions.insert(0, Action(tell_all_built, None))
    env.AlwaysBuild(env.Alias(verb.name, needed, actions, PYPTO_BUILT=[targets], **env["PYPTO_WITHOUT_SHELL"]))


def declare_fetch(env: Environment) -> None:
    """Declare the target that fetches revisions into the cache."""
    options = workspace_of(env).options
    words = own_tool("pypto_build.toolchain.fetch")
    words += [f"{option.flag}={options[name]}" for name, option in OF_SIMPLER.items() if options[name]]
    action = Action([[escape(word) for word in words]], None)
    env.AlwaysBuild(env.Alias("fetch", [], action, **env["PYPTO_WITHOUT_SHELL"]))


def verb_flags(
    env: Environment, verb: Verb, data: Path | None = None, chosen: Mapping[str, Any] | None = None
) -> list[str]:
    """Return the flags that pass the given options to a tool; ``data`` is that of its subject.

    ``chosen`` has values of the subject that override them.
    """
    options, own = workspace_of(env).options, chosen or {}
    words = []
    for name, flag in verb.flags.items():
        value = own.get(name) or options[name] or (str(data) if name == "DATA" and data else options[name])
        if value != OPTIONS[name].default or name in ARGUMENTS:
            words += [flag] if value is True else [] if value is False else [f"{flag}={value}"]
        elif name in verb.required:
            raise ArtifactError(
                f"{name}=",
                f"'scons {verb.name}' needs this option",
                f"give {name}=: {OPTIONS[name].doc_for(verb.name)}",
            )
    return words
