"""Prints docs/rules.md, from the tables that check rules and options: ``python -m pypto_build.rules.docs``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module

from pypto_build.rules.machinery.attributes import Rule
from pypto_build.rules.machinery.help import default_text
from pypto_build.rules.options import GROUP, OPTIONS, Group
from pypto_build.rules.targets import SECTIONS, TARGETS
from pypto_build.rules.tool import RULES

_TAKEN_WHOLE = (Group.BUILD, Group.RUN, Group.RECORDS, Group.PROGRAMS)

_INTRODUCTION = """# Rules and options

A repository of kernels needs this package (`pip install` and the path of a clone) and this SConstruct:

```python
from pypto_build.rules import pypto
env = Environment(tools=[pypto])
env.ReplayTest(name="softmax", artifact="build_output/_jit_softmax", platform="a2a3sim", rtol=1e-3, atol=1e-3)
```

`scons test` then runs every declared replay test, `scons softmax` that one, and `scons replay JIT=_jit_x` any artifact.
`scons test` goes on whatever fails, and `scons test FAILED=1` runs what failed. Several tests may replay one
artifact, on other data or with other tolerances.

From its second command on `scons` hands a verb over to a process that has everything loaded, which ends itself after a
quarter of an hour, or by `pypto-build shutdown`. The SConstruct is read there; so that is done only if all that stands
before the call of the tool is constants and imports of Python's own modules, and the call names no other tool.
`PYPTO_BUILD_SERVER=0` does without.

Attributes are given by name. Paths are relative to the SConstruct.
"""


def document() -> str:
    """The whole page."""
    return "\n".join([_INTRODUCTION, *map(_rule, _rules()), _targets(), _options()])


def _rules() -> Iterator[Rule]:
    """The tables of attributes, each from the module of its rule."""
    for name, (module, _) in RULES.items():
        values = vars(import_module(f"pypto_build.rules.{module}")).values()
        yield next(value for value in values if isinstance(value, Rule) and value.name == name)


def _rule(rule: Rule) -> str:
    lines = [f"## {rule.name}", "", rule.doc, "", "| attribute | type | | meaning |", "|---|---|---|---|"]
    for attribute in rule.attributes:
        choices = f"; one of {', '.join(attribute.choices)}" if attribute.choices else ""
        required = "required" if attribute.required else ""
        lines.append(f"| `{attribute.name}` | {attribute.type_names} | {required} | {attribute.doc}{choices} |")
    return "\n".join([*lines, ""])


def _targets() -> str:
    lines = ["## Targets", ""]
    for section, names in SECTIONS.items():
        lines += [f"### {section}", "", "| typed | does | takes, besides what every target does |", "|---|---|---|"]
        lines += [*map(_target, names), ""]
    return "\n".join(lines)


def _target(name: str) -> str:
    target = TARGETS[name]
    whole = [group for group in _TAKEN_WHOLE if _names(group) <= target.options]
    left = target.options - {name for group in whole for name in _names(group)}
    takes = [f"*{group.value}*" for group in whole] + [f"`{name}`" for name in GROUP if name in left]
    return f"| `scons {target.usage}` | {target.doc} | {', '.join(takes)} |"


def _options() -> str:
    lines = [
        "## Options",
        "",
        "Given as `NAME=value` after the target. One that exists for no target asked for is an error.",
        "",
    ]
    for group in Group:
        lines += [f"### {group.value}", "", "| option | default | meaning |", "|---|---|---|"]
        for name in GROUP:
            if GROUP[name] is group:
                default = default_text(OPTIONS[name].default)
                lines.append(f"| `{name}` | {f'`{default}`' if default else ''} | {OPTIONS[name].doc} |")
        lines.append("")
    return "\n".join(lines)


def _names(group: Group) -> set[str]:
    return {name for name in GROUP if GROUP[name] is group}


if __name__ == "__main__":
    sys.stdout.write(document())
