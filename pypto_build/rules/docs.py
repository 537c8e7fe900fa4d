"""Writes reference pages from the tables of rules and options: ``python -m pypto_build.rules.docs docs/lookup``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from pypto_build.facts import findings, records
from pypto_build.facts.options import GROUP, OPTIONS, Group
from pypto_build.replay.verdict import EXIT_STATUS, ErrorInfo, OutputResult, Verdict
from pypto_build.rules.machinery.attributes import Rule
from pypto_build.rules.machinery.help import default_text
from pypto_build.rules.targets import SECTIONS, TARGETS, meanings
from pypto_build.rules.tool import RULES

_TAKEN_WHOLE = (Group.BUILD, Group.RUN, Group.RECORDS, Group.PROGRAMS, Group.MANY)

_NO_TARGETS = ("wrap", "scene", "conformance")
_MARKED_VERBS = (
    *(
        "bisect",
        "debug",
        "diverge",
        "extract",
        "fetch",
        "flaky",
        "hang",
        "hazards",
        "install",
        "lint",
        "passes",
        "reduce",
    ),
    *("report", "scene_test", "speed", "step", "sweep", "torch", "triage", *_NO_TARGETS),
)
STATUSES = {
    "pass": "all outputs agree with the golden",
    "mismatch": "an output differs from the golden",
    "usage_error": "wrong usage: an option, a name or a file",
    "build_error": "a compile, a link or another step of the build failed",
    "golden_error": "the golden cannot be read or made",
    "runtime_error": "a kernel or the orchestration crashed, or broke a rule of the runtime",
    "hang": "the run could not go on, or did not end in `TIMEOUT=`",
    "unchecked": "there is no golden; 0 with `ALLOW_UNCHECKED=1`",
    "rule_broken": "a kernel breaks a rule of the device, with `RULES=error`",
}
_VERDICT = {
    "status": "what came of the run, as above",
    "artifact": "the artifact's directory",
    "prediction": "in `OUT/check/verdict.json`, after `scons speed`: chip, microseconds, and the range",
    "platform": "the platform that it ran as",
    "runtime": "what executed it",
    "vintage": "the C++ API of the artifact",
    "cached": "whether an earlier run is shown",
    "tasks": "how many tasks ran",
    "run_s": "seconds from the first submission to the last task, the median of all rounds",
    "outputs": "a record for each output",
    "error": "a record of the error, or null",
    "rtol": "the relative tolerance",
    "atol": "the absolute tolerance",
    "rounds": "how many rounds ran",
    "longest_s": "seconds of the longest round",
    "seed": "the seed of the order or of the inputs, or null",
    "requested": "the platform that was asked for",
    "unproven": "why the pass holds for this run only; empty if it holds for more",
    "schema": "the version of this record",
    "rules": "device rules that kernels break",
}
_OUTPUT = {
    "name": "the output",
    "status": "`pass`, `mismatch` or `unchecked`",
    "shape": "its shape",
    "dtype": "its element type",
    "numel": "how many elements it has",
    "mismatched": "how many of them differ",
    "max_abs": "the largest absolute error of finite elements",
    "max_rel": "the largest relative error of finite elements",
    "first": "the first elements that differ, each with `index`, `actual` and `expected`",
    "comparator": "how it was compared",
    "hints": "what the pattern of wrong elements suggests",
    "detail": "what the comparator says",
}
_ERROR = {
    "kind": "a status, or a finer name",
    "message": "one line",
    "task": "the task, or null",
    "kernel": "the kernel, or null",
    "hint": "what to do",
    "detail": "further lines",
    "code": "the error number of upstream's runtime, or null",
    "line": "file and line of a crash",
    "address": "the address that a crash touched, or null",
}
RECORDS: tuple[tuple[type, str, dict[str, str]], ...] = (
    (Verdict, "`verdict.json`", _VERDICT),
    (OutputResult, "A record of `outputs`", _OUTPUT),
    (ErrorInfo, "`error`", _ERROR),
)
#: The marks with which lines of ours begin.
MARKS = {
    "RUN": "a replay: outputs, verdict, what to type next",
    "cpp->.so": "compiling and linking: which files changed, and why they are built",
    "pto->cpp": "assembling modules and putting them into kernels",
    "py->pto": "compiling a program",
    "pto": "files that the compiler wrote",
    "golden": "data and goldens that were made",
    "data": "data that a rule makes",
    "manifest": "the signed manifest",
    "meta": "metadata of the artifact",
    "rules": "device rules that kernels break",
    "test": "tests that are declared in the SConstruct",
    "store": "the store of results",
    "build": "the build directory, by `scons gc`",
    "cache": "the cache below the home, by `scons gc`",
    "pack": "archives of runs",
    "watch": "rounds of `WATCH=1`",
    "profile": "where the time went, by `PROFILE=1`",
    "farm": "jobs on other machines",
    "runtime": "building the runtime",
    "headers": "compiling headers in advance",
    "instructions": "compiling instructions that all kernels share",
    "pins": "pinned revisions",
    "pytest": "the pytest plugin",
    "replay": "a part of a replay that goes on by itself",
    "pypto": "PyPTO's own compiler",
    "WARN": "warnings of the runtime",
    **{verb: f"`{'pypto-build' if verb in _NO_TARGETS else 'scons'} {verb}`" for verb in _MARKED_VERBS},
}

_INTRODUCTION = """# Rules

Rules are what an SConstruct calls to declare programs, artifacts and tests. This is a repository with one program and one test:

```python
from pypto_build.rules import pypto
env = Environment(tools=[pypto])
program = env.PtoProgram(name="softmax", source="programs/softmax.py")
env.ReplayTest(name="softmax_test", artifact=program, platform=["a2a3sim", "a5sim"], rtol=1e-3, atol=1e-3)
```

`scons test` runs every test and goes on whatever fails. `scons softmax_test` runs one. `examples/repository/` has more.
`scons test 'NAME*'` runs the tests with such names, and `--list` (or `LIST=1`) lists them.

## Names, nodes and paths

All attributes are given by name. An attribute that names files takes

| value | means |
|---|---|
| `"k.cpp"`, `Path("k.cpp")` | a path from the SConscript's directory; `#/k.cpp` from the top; `$NAME` is replaced |
| `File(...)`, `Dir(...)`, `Entry(...)` | the node |
| what a builder returns | its only file; for an attribute that names a directory, the directory that holds its files |
| what a rule returns | the artifact or data that the rule makes |

Every rule returns nodes, which `Depends`, `Requires`, `Alias`, `Default`, `Install` and `Command` take:

| rule | returns |
|---|---|
| PtoProgram | the artifact's directory and its manifest |
| PtoArtifact | the artifact's directory and the signed manifest in OUT, which comes after all binaries |
| KernelConfig | the signed manifest and the interface |
| PtoKernel, PtoOrchestration | the library |
| PtoModule | the C++ file |
| GoldenData | the directory |
| ReplayTest, LintTest, HazardTest, Artifacts | verdicts or findings; what depends on one waits for a test that passes |
| SceneTest, PyTest, TestSuite | the alias, which waits for tests that pass; `Install` takes files only |

[Attributes](attributes.md) says for each such attribute and each kind of value what is done at first, after an edit that
changes nothing, and after one that does.

- The order of rules in a file does not matter. What a rule makes is made before another rule uses it. This holds for artifacts,
  data, files in an artifact, and headers.
- The files of an artifact are known when it has been made. Its kernels and tests are declared then, in the same run. `-n` shows
  what is known before.
- Contents decide, not times. `Decider` is for other builders. Name the files that such a builder makes: SCons sees no change
  behind a directory that is a target, so no rule takes one for an artifact or its data. `Install` of a directory that a rule
  makes copies it in every run. `Zip`, `Tar` and `Command` act on a change.
- `-c` removes what was built, and artifacts of programs. `-c NAME` removes what that target is made from, and nothing that
  only others need. It keeps what `NoClean` names, and files that you edited.
- A list of platforms or tolerances declares a test for each: `NAME.a5sim`, `NAME.rtol-0.001`, and `NAME` for all.
- All environments and SConscripts share one workspace. These are errors: two tests of one name, two programs with one
  artifact, two artifacts with one OUT, and a target that depends on itself.
- A HazardTest of a distributed artifact runs each time.

## A comparison of your own

`compare=` of a test names a Python file. Its function judges each output that `comparators` does not name:

```python
def compare(name, actual, expected, rtol, atol):
    worst = abs(actual - expected).max()
    return worst <= atol, f"differs by {worst:g}"
```

`actual` and `expected` are numpy arrays. The function may take `inputs`, `actual_outputs` and `expected_outputs` too, each a
dictionary by name. It returns whether the output passes, or that and a message. It runs in the replay's process after the
kernels. An edit of the file, or of a file that it reads or asks about, runs
the test again and builds nothing.

## Files of pytest

`PyTest` makes a test of each file. Its name is the file's path: `scons tests/test_x.py`. `FAILED=1`, `TAGS=` and `JUNIT=` work as for
other tests.

- A file that passed is `cached` until something changes that its processes read: modules, data, headers, compilers, versions
  of packages, the names in a directory. A file that fails is never cached.
- The temporary directory of the tests and the cache of this package are no inputs.
- Tests see `PATH`, `HOME`, `LD_LIBRARY_PATH`, `VIRTUAL_ENV`, `PYTHONPATH`, the variables of toolkits, and those that
  `variables=` names. `OMP_NUM_THREADS` is 1.
- Each file has a process of its own, without pytest-xdist.
- A test that depends on the clock, the network or chance needs a rule with `cache=False`.
- A file whose processes cannot be watched runs each time, and a line names the program.

## Queries

`scons query EXPRESSION` answers from the graph and makes nothing: `deps(X)`, `deps(X, DEPTH)`, `rdeps(X)`, `rdeps(WITHIN, X)`,
`somepath(FROM, TO)`, `kind(PATTERN, X)`. X is a target, a file, `all` or an expression. `+`, `-` and `^` are union, difference
and intersection. Kinds are test, suite, target, library, object, result, directory, source file, generated file, generated
directory.
"""


def rules_page() -> str:
    """Return the page on the rules of an SConstruct."""
    return "\n".join([_INTRODUCTION, *map(_rule, all_rules())])


def verbs_page() -> str:
    """Return the page on the verbs."""
    head = [
        "# Verbs",
        "",
        "`scons VERB NAME=value` in a workspace, `pypto-build VERB PATH` anywhere. `scons help VERB` prints the same.",
        "Every verb also takes the options *for every verb* of [Options](options.md).",
        "",
    ]
    return "\n".join([*head, _targets()])


def options_page() -> str:
    """Return the page on the options."""
    head = [
        "# Options",
        "",
        "An option is given as `NAME=value` after the verb. `pypto-build` also takes its flags. An option that no verb of the",
        "command takes is an error.",
        "",
    ]
    return "\n".join([*head, _options()])


def results_page() -> str:
    """Return the page on the results of a replay for programs: exit statuses, the verdict's fields, the prefixes of
    lines.
    """
    lines = ["# Results", "", "## Exit statuses", "", "| status | `verdict.json` says | means |", "|---|---|---|"]
    lines += [f"| {number} | `{status}` | {STATUSES[status]} |" for status, number in EXIT_STATUS.items()]
    lines += ["", "These are those of `pypto-build`. `scons` ends with 2 whenever something failed.", ""]
    for type_, title, fields in RECORDS:
        lines += [f"## {title}", "", "| field | type | holds |", "|---|---|---|"]
        kinds = {name: kind for name, kind in type_.__annotations__.items() if name in fields}
        lines += [f"| `{name}` | {str(kind).replace('|', 'or')} | {fields[name]} |" for name, kind in kinds.items()]
        lines.append("")
    lines += ["## Marks of log lines", "", "Each line of ours begins with a mark. Scripts may look for them.", ""]
    lines += ["| mark | lines about |", "|---|---|", *(f"| `[{mark}]` | {text} |" for mark, text in MARKS.items())]
    lines += ["| `\\|` | what code of an artifact printed itself |", ""]
    return "\n".join(lines)


def findings_page() -> str:
    """Return the page on the rules of findings."""
    lines = [
        "# Findings",
        "",
        "Every instrument reports findings in the same form: `file:line: error: what is wrong [rule]`. Below it stand",
        "evidence, `do:` with what to do, and `edit` with an edit that applies. The exit status is 1 if there is an error or a",
        "warning. `JSON=` and `SARIF=` write the findings. `OUT/findings/` keeps them for the report.",
        "",
    ]
    for title, rows in findings.SECTIONS.items():
        lines += [f"## {title}", "", "| rule | means |", "|---|---|"]
        lines += [*(f"| `{rule}` | {meaning} |" for rule, meaning in rows.items()), ""]
    lines += [
        "`scons hang` uses the names of [hangs](hangs.md) and of the runtime's error codes, such as `hang/crash`.",
        "`rules/` has the [rules of the device](device-rules.md).",
        "",
    ]
    return "\n".join(lines)


def records_page() -> str:
    """Return the page on the files that a run leaves."""
    tool = "simpler's tool (`python -m simpler_setup.tools.…`)"
    lines = [
        "# What a run leaves",
        "",
        "OUT is `build/<platform>/<artifact>/`. Formats and names are simpler's, so its tools work on them. `scons dump`,",
        "`deps` and `report` read the same files. No option here compiles a kernel again.",
        "",
        f"| option | file below `OUT/dfx_outputs/` | {tool} |",
        "|---|---|---|",
        *(f"| {row.option} | {row.files} | {row.reader} |" for row in records.FILES),
        "",
        *(f"- {note}" for note in records.NOTES),
        "",
    ]
    for title, fields in records.FIELDS.values():
        lines += [f"## {title}", "", "| field | holds |", "|---|---|"]
        lines += [*(f"| `{name}` | {meaning} |" for name, meaning in fields.items()), ""]
    return "\n".join(lines)


#: The pages by name, below docs/lookup/.
PAGES = {
    **{"rules": rules_page, "verbs": verbs_page, "options": options_page, "results": results_page},
    **{"findings": findings_page, "records": records_page},
}


def attributes_of_files() -> list[str]:
    """Return the attributes that name files or directories, as ``Rule.attribute``."""
    return [f"{rule.name}.{attribute.name}" for rule in all_rules() for attribute in rule.attributes if attribute.kind]


def all_rules() -> Iterator[Rule]:
    """Yield the tables of attributes, each from the module of its rule."""
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
    lines = []
    for section, names in SECTIONS.items():
        lines += [f"## {section}", "", "| you type | it does | it takes |", "|---|---|---|"]
        lines += [*map(_target, names), ""]
    return "\n".join(lines)


def _target(name: str) -> str:
    target = TARGETS[name]
    whole = [group for group in _TAKEN_WHOLE if _names(group) <= target.options]
    left = target.options - {name for group in whole for name in _names(group)}
    takes = [f"*{group.value[0].lower()}{group.value[1:].partition(' (')[0]}*" for group in whole] + [
        f"`{name}`" for name in GROUP if name in left
    ]
    return f"| `scons {target.usage}` | {target.doc} | {', '.join(takes)} |"


def _options() -> str:
    lines = []
    for group in Group:
        lines += [f"## {group.value}", "", "| option | default | flag | meaning |", "|---|---|---|---|"]
        for name in GROUP:
            if GROUP[name] is group:
                option = OPTIONS[name]
                default = default_text(option.default)
                flag = (option.flags or (f"--{name.lower().replace('_', '-')}",))[0]
                shown = f"| `{name}` | {f'`{default}`' if default else ''} | `{flag}` |"
                lines += [f"{shown} {doc}{_by(group, verbs)} |" for verbs, doc in meanings(name).items()]
        lines.append("")
    return "\n".join(lines)


def _by(group: Group, verbs: str) -> str:
    return f" ({verbs})" if verbs and group is Group.TOOLS else ""


def _names(group: Group) -> set[str]:
    return {name for name in GROUP if GROUP[name] is group}


def main(directory: str) -> int:
    """Write the pages below ``directory``."""
    for name, page in PAGES.items():
        Path(directory, f"{name}.md").write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
