"""Prints docs/rules.md, from the tables that check rules and options: ``python -m pypto_build.rules.docs``."""

from __future__ import annotations

import sys

from pypto_build.rules.artifact import ARTIFACT
from pypto_build.rules.attributes import Rule
from pypto_build.rules.help import default_text
from pypto_build.rules.options import OPTIONS
from pypto_build.rules.program import PROGRAM
from pypto_build.rules.replay_test import REPLAY_TEST
from pypto_build.rules.single import KERNEL, KERNEL_CONFIG, ORCHESTRATION

_INTRODUCTION = """# Rules and options

A repository of kernels needs `pip install pypto-build` and this SConstruct:

```python
from pypto_build.rules import pypto
env = Environment(tools=[pypto])
env.ReplayTest(name="softmax", artifact="build_output/_jit_softmax", platform="a2a3sim", rtol=1e-3, atol=1e-3)
```

`scons test` then runs every declared replay test, `scons softmax` that one, and `scons replay JIT=_jit_x` any artifact.
Attributes are given by name. Paths are relative to the SConstruct.
"""


def document() -> str:
    """The whole page."""
    rules = [ARTIFACT, REPLAY_TEST, PROGRAM, KERNEL, ORCHESTRATION, KERNEL_CONFIG]
    return "\n".join([_INTRODUCTION, *map(_rule, rules), _options()])


def _rule(rule: Rule) -> str:
    lines = [f"## {rule.name}", "", rule.doc, "", "| attribute | type | | meaning |", "|---|---|---|---|"]
    for attribute in rule.attributes:
        choices = f"; one of {', '.join(attribute.choices)}" if attribute.choices else ""
        required = "required" if attribute.required else ""
        lines.append(f"| `{attribute.name}` | {attribute.type_names} | {required} | {attribute.doc}{choices} |")
    return "\n".join([*lines, ""])


def _options() -> str:
    lines = ["## Options", "", "Given as `NAME=value` after the target. Unknown names are errors.", ""]
    lines += ["| option | default | meaning |", "|---|---|---|"]
    for option in OPTIONS.values():
        default = default_text(option.default)
        lines.append(f"| `{option.name}` | {f'`{default}`' if default else ''} | {option.doc} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.stdout.write(document())
