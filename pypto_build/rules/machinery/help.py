"""Help texts: ``scons`` alone prints one screen, ``scons help VERB|OPTION`` one topic, ``scons help all``
everything.
"""

from __future__ import annotations

import difflib
import os
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence

from pypto_build.artifact import find_artifacts
from pypto_build.facts.options import GROUP, OPTIONS, Group
from pypto_build.facts.run_options import Option
from pypto_build.rules.machinery.workspace import Workspace, artifact_dirs
from pypto_build.rules.options import OptionError
from pypto_build.rules.targets import SECTIONS, TARGETS, meanings

_WIDTH, _NARROW = 80, 60
#: Targets that the first screen explains; it names the others.
_FIRST: dict[str, tuple[str, ...]] = {
    "To edit, rebuild and replay:": ("build", "replay", "test", "compile", "splice"),
    "When it is wrong, flaky or stuck:": ("triage", "lint", "hazards", "diverge", "why", "flaky", "report"),
}
_USAGE = "Usage: scons VERB [NAME=value ...]; 'scons help VERB' has all that a verb takes"
_OPTIONS = "JIT=NAME|PATH|GLOB|latest, PLATFORM=a5sim, VERBOSE=1, WATCH=1"
#: Options that a verb without any of its own explains, and those that are no verb's own.
_OFTEN = ("JIT", "PLATFORM", "DATA", "RTOL", "ATOL", "RUNTIME", "FORCE", "VERBOSE", "WATCH")
_OUTCOMES = frozenset({"JSON", "SARIF", "JUNIT", "ANNOTATE", "TAGS"})
_CLEAN = {"-c [JIT=x]": "remove what was built, never sources or data"}


def overview(workspace: Workspace, tests: Collection[str]) -> str:
    """Return the text that ``scons`` alone prints.

    It leaves room for SCons's own first line and the prompt in a terminal of 80 columns and 24 lines.
    """
    shown = [name for names in _FIRST.values() for name in names]
    width = max(len(TARGETS[name].usage) for name in shown)
    lines = [_USAGE]
    for heading, names in _FIRST.items():
        rows = {TARGETS[name].usage: TARGETS[name].doc for name in names}
        lines += [heading, *_table(rows | (_CLEAN if "build" in names else {}), width)]
    lines += _paragraph("More verbs:", sorted(TARGETS.keys() - set(shown)))
    lines += _paragraph("Often used:", [_OPTIONS])
    artifacts = [path.name for path in find_artifacts(*artifact_dirs(workspace))]
    lines += [_line("Artifacts:", artifacts) if artifacts else "Artifacts: none found"]
    lines += [_line("Tests:", sorted(tests))] if tests else []
    return "\n".join(lines)


def explain(topics: Sequence[str], workspace: Workspace, tests: Collection[str]) -> str:
    """Return the text that ``scons help TOPIC ...`` prints.

    Raises:
        OptionError: a topic that is neither a verb nor an option.
    """
    return "\n\n".join(_explain(topic, workspace, tests) for topic in topics)


def _explain(topic: str, workspace: Workspace, tests: Collection[str]) -> str:
    if topic == "all":
        return _everything(workspace)
    if topic in TARGETS:
        return "\n".join(_verb(topic))
    if (name := topic.upper().rstrip("=")) in OPTIONS:
        return "\n".join(_option(OPTIONS[name]))
    if topic in tests:
        return f"scons {topic}\n  a replay test declared here; 'scons test' runs all of them"
    near = difflib.get_close_matches(topic, [*TARGETS, *OPTIONS, *tests], n=1, cutoff=0.5)
    meant = f"did you mean {near[0]}?" if near else "'scons' alone lists the verbs, 'scons help all' the options"
    raise OptionError(f"help {topic}: no such verb or option; {meant}")


def _verb(name: str) -> list[str]:
    target = TARGETS[name]
    taken = [each for each in OPTIONS if GROUP[each] is Group.COMMON or each in target.options]
    own = [each for each in taken if GROUP[each] in (Group.TOOLS, Group.PROGRAMS) and each not in _OUTCOMES]
    explained = own or [each for each in _OFTEN if each in taken]
    lines = [*_wrapped(f"Usage: scons {target.usage} [NAME=value ...]", "  ", ""), *_wrapped(target.doc, "  "), ""]
    rows = _rows((each, OPTIONS[each].doc_for(name)) for each in explained)
    lines += ["Its own options:" if own else "Often used:", *rows, ""]
    lines += _paragraph("It also takes", [each for each in taken if each not in explained])
    return [*lines, *_wrapped("'scons help NAME' explains an option, and 'scons help all' every one.", "", "")]


def _rows(options: Iterable[tuple[str, str]]) -> list[str]:
    """Return lines of a table: each option with its default and its description."""
    return _table({f"{name}={default_text(OPTIONS[name].default)}": doc for name, doc in options}, 21)


def _option(option: Option) -> list[str]:
    taking = [name for name, target in TARGETS.items() if option.name in target.options]
    values = option.kind.what or ("names with commas between them" if option.kind.listed else "text")
    flags = option.flags or (f"--{option.name.lower().replace('_', '-')}",)
    return [
        f"Usage: scons VERB {option.name}=value",
        *(_wrapped(option.doc, "  ") if not option.uses else []),
        *_table(meanings(option.name) if option.uses else {}, 13),
        "",
        *_wrapped(f"values   {values}", " " * 11, "  "),
        f"  default  {default_text(option.default) or 'none'}",
        *_wrapped(", ".join(taking) or "every verb", " " * 11, "  taken by "),
        *_wrapped(" ".join(flags), " " * 11, "  flags    "),
    ]


def _everything(workspace: Workspace) -> str:
    """Return the text on every target and every option."""
    width = 22  # of most; a longer one moves what is said of it
    lines = ["Usage: scons VERB [NAME=value ...]", ""]
    for section, names in SECTIONS.items():
        rows = {TARGETS[name].usage: TARGETS[name].doc for name in names}
        lines += [f"{section}:", *_table(rows | (_CLEAN if "build" in names else {}), width), ""]
    for group in Group:
        lines += [f"{group.value}:", *_rows((name, _for_all(name)) for name in OPTIONS if GROUP[name] is group), ""]
    artifacts = find_artifacts(*artifact_dirs(workspace))
    return "\n".join([*lines, "Artifacts:", *(f"  {workspace.short(path)}" for path in artifacts)])


def _for_all(name: str) -> str:
    """Return the meaning of an option for all verbs, with their names if they are few."""
    if GROUP[name] is not Group.TOOLS:
        return OPTIONS[name].doc
    return "; ".join(f"{doc} ({verbs})" if verbs else doc for verbs, doc in meanings(name).items())


def default_text(value: object) -> str:
    """Return a default as a user would type it."""
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _line(heading: str, names: Sequence[str]) -> str:
    """Return a heading with as many names as fit on a line, at least one, and the number of the others."""
    for shown in range(len(names), 0, -1):
        more = [f"and {len(names) - shown} more"] if shown < len(names) else []
        line = f"{heading} {', '.join([*names[:shown], *more])}"
        if len(line) <= _width():
            break
    return line


def _paragraph(heading: str, names: Iterable[str]) -> list[str]:
    return _wrapped(", ".join(names), " " * (len(heading) + 1), f"{heading} ")


def _wrapped(text: str, indent: str, first: str | None = None) -> list[str]:
    wrap = textwrap.TextWrapper(_width(), break_long_words=False, break_on_hyphens=False)
    wrap.initial_indent, wrap.subsequent_indent = indent if first is None else first, indent
    return wrap.wrap(text)


def _table(rows: Mapping[str, str], width: int) -> list[str]:
    """Return lines with names and descriptions, side by side or, in a narrow terminal, below each other."""
    lines = []
    for name, text in rows.items():
        if _width() < _NARROW:
            lines += [f"  {name}", *_wrapped(text, " " * 6)]
        else:
            lines += _wrapped(text, " " * (width + 4), f"  {name:<{width}}  ")
    return lines


def _width() -> int:
    """Return the terminal's width, at most 80 columns."""
    try:
        return max(24, min(_WIDTH, os.get_terminal_size(1).columns or _WIDTH))
    except OSError:
        return _WIDTH
