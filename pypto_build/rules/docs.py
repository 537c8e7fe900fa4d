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

A repository of kernels needs this package (`pip install` and the path of a clone) and an SConstruct, such as that of
[examples/repository/](../examples/repository/SConstruct):

```python
from pypto_build.rules import pypto
env = Environment(tools=[pypto])
program = env.PtoProgram(name="softmax", source="programs/softmax.py")
env.ReplayTest(name="softmax_test", artifact=program, platform=["a2a3sim", "a5sim"], rtol=1e-3, atol=1e-3)
```

`scons test` then runs every declared test, `scons softmax_test` that one, and `scons replay JIT=_jit_x` any artifact.
`scons test` goes on whatever fails, and `scons test FAILED=1` runs what failed.
`scons test 'NAME*'` runs the tests with such names, and `LIST=1` lists them. Several tests may replay one
artifact, on other data or with other tolerances.

From its second command on `scons` hands a verb over to a process that has everything loaded, which ends itself after a
quarter of an hour, or by `pypto-build shutdown`. The SConstruct is read there; so that is done only if all that stands
before the call of the tool is constants and imports of Python's own modules, and the call names no other tool.
`PYPTO_BUILD_SERVER=0` does without.

## A node in, a node out

Attributes are given by name. One that names files takes

| given | means |
|---|---|
| `"k.cpp"`, `Path("k.cpp")` | a path from the SConscript's directory; `#/k.cpp` from the top; `$NAME` is replaced |
| `File(...)`, `Dir(...)`, `Entry(...)` | the node |
| what a builder returns | its only file; for an attribute that names a directory, the directory that holds its files |
| what a rule returns | the artifact or data that the rule makes |

and every rule returns nodes, which `Depends`, `Requires`, `Alias`, `Default`, `Install` and `Command` accept:

| rule | returns |
|---|---|
| PtoProgram | the artifact's directory and its manifest |
| PtoArtifact | the artifact's directory and the signed manifest in OUT, which comes after all binaries |
| KernelConfig | the signed manifest and the interface |
| PtoKernel, PtoOrchestration | the library |
| PtoModule | the C++ file |
| GoldenData | the directory |
| ReplayTest, LintTest, HazardTest, Artifacts | verdicts, findings; what depends on one waits for a test that passes |
| SceneTest, PyTest, TestSuite | the alias, which waits for tests that pass; `Install` takes files only |

[attributes.md](attributes.md) has every such attribute by every kind of input: what is done from a fresh checkout, after
an edit that changes nothing downstream, and after one that does.

- **What is made comes first**, in whatever order the rules stand: an artifact, its data, a file in an artifact by its
  name, headers that a kernel includes from a directory where a builder makes them, or that a builder makes whole. What
  an artifact consists of is known when it is made: its kernels and tests are declared then, in the same run. `-n`
  says what is known before.
- **Content decides** for what our rules make. `Decider` is for other builders, whose signatures SCons keeps in
  BUILD_DIR. Name the files that such a builder makes: SCons looks for no changes behind a directory that is a target.
- `-c` removes what was built and what builders made of it, but what `NoClean` names: also the artifacts of programs,
  of those that a named target needs. A file in there that was edited since it was made stays, and a line says so.
- A target that succeeds and has printed nothing else ends in a line that says what was built, or that it is up to date.
- A HazardTest of a distributed artifact runs each time: the program that looks up lines for a rank cannot be watched.
- A list of platforms or tolerances (`platform=["a2a3sim", "a5sim"]`, `rtol=[1e-3, 1e-5]`) declares a test for each:
  `NAME.a5sim`, `NAME.rtol-0.001`, and `NAME` for all of them.
- Environments, clones and SConscripts share one workspace. Two tests of one name, two programs with one artifact and
  two artifacts with one OUT are errors, and so is what depends on itself. A test
  that fails stops no other test, but a target that depends on it.

## A rule of one's own for outputs

`compare=` of a test names a Python file, given or made, with a function that judges each output which `comparators`
does not name:

```python
def compare(name, actual, expected, rtol, atol):
    worst = abs(actual - expected).max()
    return worst <= atol, f"differs by {worst:g}"
```

`actual` and `expected` are numpy arrays. The function may have further parameters `inputs` (tensors and scalars as they
were before the run), `actual_outputs` and `expected_outputs`, each a dictionary by name. It returns whether the output
passes, or that and a message. It runs in the replay's process after the kernels, never when the SConstruct is read. The
file, modules beside it, and whatever else it reads are inputs of the verdict: an edit runs the test again and builds
nothing. An error in it is one line with file and line, and a failure of the test.

## Files of pytest tests

`PyTest` makes a test of each file, under the file's path: `scons test`, `scons tests/test_x.py`, `FAILED=1`, `TAGS=`
and `JUNIT=` (with every case) work as for other tests. Files that failed come first, then those that took longest.

- A file that passed is `cached` until something changes that its process read, or any process that it started:
  modules, data, headers, compilers, installed packages by their versions. A file also counts by its content if a
  test asked for its status, and a directory that was listed or imported from counts by its names. So a new
  `conftest.py` or test file runs again what looked there. A file that fails is never cached.
- Temporary files of the tests (`TMPDIR`, which is outside of the workspace) and the cache of this package are no
  inputs.
- Tests see `PATH`, `HOME`, `LD_LIBRARY_PATH`, `VIRTUAL_ENV`, `PYTHONPATH` and the toolkits' variables, all of which
  are part of the key, and those that `variables=` names. `OMP_NUM_THREADS` is 1, since files run side by side.
- Each file has a process of its own, forked from one that has imported pytest, numpy and PyTorch, without
  pytest-xdist.
- A test that depends on the clock, the network or chance belongs to a rule with `cache=False`, which runs its files
  always and unwatched: `Glob("tests/test_*.py", exclude=CLOCKS)` in one rule, and `files=CLOCKS, cache=False` in
  another.
- A file whose processes cannot all be watched (a static program, one that drops to another user) runs each time,
  and its line says which program that is.

## Questions

`scons query EXPRESSION` answers from the graph, without making anything: `deps(X)`, `deps(X, DEPTH)`, `rdeps(X)`,
`rdeps(WITHIN, X)`, `somepath(FROM, TO)`, `kind(PATTERN, X)`, where X is a target, a file, `all` or an expression, and
`+`, `-`, `^` are union, difference and intersection. Kinds: test, suite, target, library, object, result, directory,
source file, generated file, generated directory.
"""


def document() -> str:
    """The whole page."""
    return "\n".join([_INTRODUCTION, *map(_rule, _rules()), _targets(), _options()])


def attributes_of_files() -> list[str]:
    """Return the attributes that name files or directories, as ``Rule.attribute``."""
    return [f"{rule.name}.{attribute.name}" for rule in _rules() for attribute in rule.attributes if attribute.kind]


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
