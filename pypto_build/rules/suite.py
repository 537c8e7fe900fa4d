"""``TestSuite``: several tests under one name."""

from __future__ import annotations

from typing import Any

from SCons.Node.Alias import Alias
from SCons.Script import COMMAND_LINE_TARGETS

from pypto_build.rules.machinery.attributes import Attribute, Rule, RuleError
from pypto_build.rules.machinery.scons_types import Environment, Nodes
from pypto_build.rules.tests import declare_suite, tests_of

SUITE = Rule(
    "TestSuite",
    "Runs several tests under one name: all of them, whatever fails.",
    (
        Attribute("name", (str,), "the name of the target", required=True),
        Attribute("tests", (list, tuple, str, Alias), "names of tests and suites, or what their rules return"),
        Attribute("tags", (list, tuple), "tags: every test that has one of them belongs to the suite"),
    ),
)


def declare_test_suite(env: Environment, **attributes: Any) -> Nodes:
    """Implement the rule; return the alias of the suite."""
    values = SUITE.check(attributes, env)
    if not (values["tests"] or values["tags"]):
        raise RuleError(f"TestSuite: {values['name']} has neither tests nor tags; give one of the two")
    names = [name for test in _listed(values["tests"]) for name in tests_of(test)]
    if "test" in names:
        raise RuleError(f"TestSuite: {values['name']} lists 'test', which already means all tests; name single tests")
    return declare_suite(env, values["name"], names, values["tags"] or (), map(str, COMMAND_LINE_TARGETS))


def _listed(tests: Any) -> list[Any]:
    """Return the members, including those of nested lists."""
    if tests is None:
        return []
    if isinstance(tests, (str, Alias)) or not hasattr(tests, "__iter__"):
        return [tests]
    return [one for test in tests for one in _listed(test)]
