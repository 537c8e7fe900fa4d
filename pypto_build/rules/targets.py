"""The targets of the command line: their meaning and their options. Options that no target accepts are errors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from pypto_build.facts.options import GROUP, OPTIONS, Group
from pypto_build.facts.run_options import RUN_OPTIONS
from pypto_build.facts.verbs import VERBS, Needs, Verb
from pypto_build.rules.options import OptionError

#: The variable with the file by which `pypto-build` learns how a run ended: SCons fails with 2 whatever happened.
STATUS_VARIABLE = "PYPTO_BUILD_STATUS_FILE"


class Target(msgspec.Struct, frozen=True):
    """One target; ``usage`` is its syntax, ``options`` are those that it accepts besides the common ones."""

    usage: str
    doc: str
    options: frozenset[str]


def _of(*groups: Group) -> set[str]:
    return {name for name, group in GROUP.items() if group in groups}


def _of_the_run(verb: str) -> set[str]:
    """Return the options of a run that ``verb`` accepts too."""
    return {name for name, option in RUN_OPTIONS.items() if verb in option.verbs}


_RUN = _of(Group.BUILD, Group.RUN, Group.RECORDS)
# Options that name files for the outcomes of replays and tests.
_OUTCOMES = {"JUNIT", "JSON", "SARIF", "ANNOTATE"}
# Options for several artifacts in one command.
_MANY = _of(Group.MANY) | {"TAGS"}
_BUILT = {
    Needs.FILES: set[str](),
    Needs.ARTIFACT: set[str](),
    Needs.INTERFACE: {"PTOAS"},
    Needs.BINARIES: _of(Group.BUILD),
    Needs.CHECKED: _of(Group.BUILD),
    Needs.TRACED: _of(Group.BUILD),
    Needs.DEBUGGED: _of(Group.BUILD),
    Needs.FOR_SIMPLER: _of(Group.BUILD),
    Needs.REPLAY: _RUN,
    Needs.TRIAGE: _RUN | {"TEST"},
}


def _of_verb(verb: Verb) -> Target:
    many = _MANY if verb.needs is not Needs.FILES else set()
    return Target(verb.usage, verb.doc, frozenset(_BUILT[verb.needs] | set(verb.flags) | many))


TARGETS: dict[str, Target] = {
    # Options of the run change nothing that is built. They are taken so that only the target's name has to be edited.
    "build": Target("build JIT=x", "compile and link", frozenset(_RUN | _MANY)),
    "replay": Target(
        "replay JIT=x", "build what changed, run, compare with the golden", frozenset(_RUN | _OUTCOMES | _MANY)
    ),
    "compile": Target(
        "compile PROGRAM=p.py",
        "make the artifact _jit_p of a program, and its golden",
        frozenset(_of(Group.PROGRAMS) | {"PTOAS"} | _of_the_run("compile")),
    ),
    "splice": Target(
        "splice JIT=x",
        "put edited .pto modules into their kernel files",
        frozenset({"PTOAS", "PREFER", "WRITE"} | _MANY),
    ),
    "pto_diff": Target("pto_diff JIT=a OTHER=b", "compare the .pto modules of two artifacts", frozenset({"OTHER"})),
    "graph": Target("graph JIT=x", "show what is made from what, and what would be built", frozenset(_of(Group.BUILD))),
    "query": Target(
        "query 'deps(NAME)'", "say what a target is made from, or what a file goes into", frozenset({"FORMAT"})
    ),
    **{verb.name: _of_verb(verb) for verb in VERBS.values()},
    "fetch": Target(
        "fetch",
        "fetch revisions of simpler and pto-isa into the cache",
        frozenset(_of_the_run("fetch")),
    ),
    "gc": Target(
        "gc [WRITE=1]",
        "show disk use, and what may go; WRITE=1 removes that",
        frozenset({"WRITE", "DAYS"}),
    ),
    "test": Target(
        "test",
        "run every test declared in the SConstruct",
        frozenset(_RUN | _OUTCOMES | {"TAGS", "NAMES", "LIST", "FAILED", "SCHEDULER"}),
    ),
}

_FEW = 3


def meanings(name: str) -> dict[str, str]:
    """Return the meanings of an option, each by the verbs it applies to, with commas; "" stands for many verbs."""
    option = OPTIONS[name]
    takers: dict[str, list[str]] = {}
    for verb, target in TARGETS.items():
        if name in target.options:
            takers.setdefault(option.doc_for(verb), []).append(verb)
    return {", ".join(verbs) if len(verbs) <= _FEW else "": doc for doc, verbs in takers.items()} or {"": option.doc}


#: The targets in the order in which they are listed, under what they are for.
SECTIONS: dict[str, tuple[str, ...]] = {
    "To build and replay": ("build", "replay", "test", "compile", "splice", "graph", "query"),
    "To find what is wrong": (
        "triage",
        "lint",
        "hazards",
        "diverge",
        "why",
        "step",
        "debug",
        "flaky",
        "extract",
        "reduce",
        "sweep",
        "passes",
        "pto_check",
        "pto_diff",
        "bisect",
    ),
    "To look at a run": ("report", "speed", "dump", "deps", "torch", "pack"),
    "To work with simpler and PyPTO": ("scene_test", "install", "fetch", "hang"),
    "To free disk space": ("gc",),
}


#: Targets that work on the artifact of JIT=.
OF_AN_ARTIFACT = ("build", "replay", "splice", "graph", "pto_diff", *VERBS)


def check_taken(arguments: Mapping[str, str], targets: Collection[str]) -> None:
    """Raise for an option that none of ``targets`` accepts. Targets that are not in the table belong to the workspace
    and accept everything.

    Names that are not in the table are a workspace's own and take everything.

    Raises:
        OptionError: naming the targets that take the option.
    """
    if not targets or not all(target in TARGETS for target in targets):
        return
    for name in ("JIT", "SCENE"):
        if name in arguments and set(targets) <= {"test", "compile", "fetch", "gc"}:
            named = _listed(f"'scons {target}'" for target in targets)
            what = f"{name}={arguments[name]}: {named} does not work on an artifact"
            raise OptionError(f"{what}; leave the option out, or use 'scons replay'")
    for name, text in arguments.items():
        if GROUP[name] is Group.COMMON:
            continue
        if taking := [target for target in targets if name in TARGETS[target].options]:
            _check_use(name, text, taking)
            continue
        takers = _listed(f"'scons {target}'" for target, row in TARGETS.items() if name in row.options)
        named = _listed(f"'scons {target}'" for target in targets)
        raise OptionError(f"{name}={text}: {named} does not take this option; leave it out, or use {takers}")


def _check_use(name: str, text: str, targets: Collection[str]) -> None:
    """Raise if none of these targets accepts this value of an option."""
    uses = [OPTIONS[name].uses.get(target) for target in targets]
    choices = {choice for use in uses if use for choice in use.choices}
    if choices and text and text not in choices and all(use and use.choices for use in uses):
        named = _listed(f"'scons {target}'" for target in targets)
        raise OptionError(f"{name}={text}: {named} does not take this value; use one of {', '.join(sorted(choices))}")


def _listed(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
