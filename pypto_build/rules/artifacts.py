"""``Artifacts``: one replay test for each of many artifacts, with the same attributes."""

from __future__ import annotations

from typing import Any

from SCons.Script import COMMAND_LINE_TARGETS

from pypto_build.artifact import is_artifact
from pypto_build.rules.machinery.attributes import Attribute, Kind, Rule, RuleError, path_attribute
from pypto_build.rules.machinery.inputs import makers, path_of
from pypto_build.rules.machinery.scons_types import Environment, Node, Nodes
from pypto_build.rules.replay_test import REPLAY_TEST, declare_replay_test
from pypto_build.rules.tests import declare_suite

_OF_EACH = ("artifact", "name")

ARTIFACTS = Rule(
    "Artifacts",
    "Declares a ReplayTest for each of many artifacts: `<name>.<artifact>`, and all of them as the suite `<name>`.",
    (
        Attribute("name", (str,), "the name of the suite", required=True),
        Attribute("pattern", (str,), "a glob of artifacts; those that a rule above makes count too"),
        path_attribute("artifacts", Kind.DIRECTORIES, "the artifacts, in place of a pattern"),
        *(attribute for attribute in REPLAY_TEST.attributes if attribute.name not in _OF_EACH),
    ),
)


def declare_artifacts(env: Environment, **attributes: Any) -> Nodes:
    """Implement the rule; return the nodes of all verdicts."""
    values = ARTIFACTS.check(attributes, env)
    name, pattern = values["name"], values["pattern"]
    if bool(pattern) == bool(values["artifacts"]):
        raise RuleError(f"Artifacts: {name} has both or neither of pattern= and artifacts=; give exactly one of them")
    nodes: list[Node] = values["artifacts"] or [node for node in env.Glob(pattern) if _is_one(node)]
    if not nodes:
        raise RuleError(
            f"Artifacts: pattern={pattern!r} matches no artifact; compile one, or declare its "
            "program earlier in the script"
        )
    more = {key: value for key, value in attributes.items() if key not in ("name", "pattern", "artifacts")}
    names = {f"{name}.{node.name}": node for node in nodes}
    verdicts = [
        verdict
        for test, node in names.items()
        for verdict in declare_replay_test(env, name=test, artifact=node, **more)
    ]
    declare_suite(env, name, list(names), (), map(str, COMMAND_LINE_TARGETS))
    return verdicts


def _is_one(node: Node) -> bool:
    return bool(makers(node)) or is_artifact(path_of(node))
