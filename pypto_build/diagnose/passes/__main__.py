"""`scons passes`: what each pass changed, function by function, and the first pass after which a check fails.

python -m pypto_build.diagnose.passes ARTIFACT_DIR [--platform P] [--pass NAME|NUMBER] [--kernel FUNCTION]
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import msgspec

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import decode_json, read_bytes, read_source, read_text
from pypto_build.artifact.layout import is_artifact
from pypto_build.artifact.manifest import MANIFEST_NAME
from pypto_build.diagnose.console import add_options_of, command, progress, table, tool_parser
from pypto_build.diagnose.findings import Finding, Level, Related, deliver
from pypto_build.diagnose.passes.values import (
    DIRECTORY,
    Dump,
    DumpedFunction,
    DumpedValue,
    Flow,
    dump_files,
    flow_of,
    read_dump,
)
from pypto_build.pto.checks import CAPACITY

# Checks of a program after a pass. Each check names a line of the dump and what is wrong there.

#: Passes after which every name is assigned once, and after which addresses are those of the memory.
_SSA = ("ConvertToSSA", "convert_to_ssa")
_ADDRESSES = ("AllocateMemoryAddr", "plan_addresses")
#: What a listing names besides the program's values.
_WORDS = {"sync_start", "self", "pl", "pld"}


@dataclass(frozen=True)
class Wrong:
    """A broken rule at `line` of the dump. `subject` is a name that stays the same in later dumps."""

    function: str
    line: int
    subject: str
    message: str
    hint: str


@dataclass(frozen=True)
class CheckedFunction:
    """One function after one pass. `passed` are the names of the passes that have run."""

    dump: Dump
    function: DumpedFunction
    flow: Flow
    passed: frozenset[str]
    arch: str

    def wrong(self, line: int, subject: str, message: str, hint: str) -> Wrong:
        """Something wrong in this function."""
        return Wrong(self.function.name, line, subject, message, hint)


def check_names(subject: CheckedFunction) -> Iterator[Wrong]:
    """Every name that is used is defined before."""
    defined = _WORDS | set(subject.dump.functions)
    for name, line in subject.flow.undefined:
        if name not in defined:
            yield subject.wrong(line, name, f"'{name}' is used and not defined before", "the pass lost its definition")


def check_once(subject: CheckedFunction) -> Iterator[Wrong]:
    """Once in single assignment, always in single assignment."""
    if subject.passed.isdisjoint(_SSA):
        return
    for name, line, first in subject.flow.again:
        yield subject.wrong(line, name, f"'{name}' is assigned again (first in line {first})", "one name, one value")


def check_calls(subject: CheckedFunction) -> Iterator[Wrong]:
    """Report calls of missing functions and calls with a wrong number of arguments."""
    functions = subject.dump.functions
    for name, line, count, method in subject.flow.calls:
        callee = functions.get(name)
        if callee is None and method:
            yield subject.wrong(line, name, f"'{name}' is called, and no function has this name", "the pass lost it")
        elif callee is not None and count >= 0 and count != len(callee.parameters):
            yield subject.wrong(
                line,
                name,
                f"'{name}' takes {len(callee.parameters)} arguments, {count} are passed",
                f"line {callee.line} has its parameters",
            )


def check_capacity(subject: CheckedFunction) -> Iterator[Wrong]:
    """Tiles lie within their memory."""
    if subject.passed.isdisjoint(_ADDRESSES):
        return
    for value in subject.flow.values.values():
        span = value.span
        limit = CAPACITY[subject.arch].get(span.space) if span else None
        if span and limit and span.start + span.size > limit:
            yield subject.wrong(
                value.line,
                value.name,
                f"'{value.name}' ends at byte {span.start + span.size} of {span.space}, which has {limit} on "
                f"{subject.arch}",
                "use smaller tiles, or fewer at once",
            )


def check_overlap(subject: CheckedFunction) -> Iterator[Wrong]:
    """Report tiles that overwrite a tile which is read later."""
    final = not subject.passed.isdisjoint(_ADDRESSES)
    groups: dict[str, list[DumpedValue]] = {}
    for value in subject.flow.values.values():
        if value.span and (final or value.span.base):
            groups.setdefault(value.span.space if final else value.span.base, []).append(value)
    same = _classes(subject.flow)
    for values in groups.values():
        values.sort(key=lambda value: value.begin)
        for index, one in enumerate(values):
            last = max((number for number, _ in one.uses), default=0)
            for other in values[index + 1 :]:
                if other.begin >= last:
                    break
                assert one.span and other.span
                if same[one.name] != same[other.name] and one.span.overlaps(other.span) and one.read_after(other):
                    yield subject.wrong(
                        other.line,
                        other.name,
                        f"'{other.name}' lies on '{one.name}' (line {one.line}), which is still read: {_bytes(other)} "
                        f"and {_bytes(one)} of {other.span.space}",
                        "the two need memory of their own",
                    )
                    break


def _bytes(value: DumpedValue) -> str:
    assert value.span is not None
    return f"bytes {value.span.start} to {value.span.start + value.span.size}"


def _classes(flow: Flow) -> dict[str, str]:
    """Return a representative for each name. Names that share bytes on purpose, such as views and loop variables, have
    the same one.
    """
    parent = {name: name for name in flow.values}

    def find(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for name, value in flow.values.items():
        for one, other in pairwise([name, *(n for n in value.same if n in parent)]):
            parent[find(other)] = find(one)
    return {name: find(name) for name in parent}


def phase(passed: Collection[str]) -> tuple[bool, bool]:
    """Return two flags: whether names are assigned once after these passes, and whether addresses are final."""
    return not set(passed).isdisjoint(_SSA), not set(passed).isdisjoint(_ADDRESSES)


CHECKS: dict[str, Callable[[CheckedFunction], Iterator[Wrong]]] = {
    "undefined-name": check_names,
    "assigned-twice": check_once,
    "call": check_calls,
    "capacity": check_capacity,
    "overlap": check_overlap,
}


# Reports of a compilation besides its programs: warnings of passes, errors and hints in `report/`, times.

_LOGGED = re.compile(r"(?P<path>\S{1,400}?)(?::(?P<line>\d{1,9}))?(?::\d+)?: (?P<level>warning|error): (?P<text>.*)")
_HINT = re.compile(
    r"\[perf_hint (?P<code>[^\]]+)\] (?P<text>.*?)(?: at (?P<path>\S{1,400}?):(?P<line>\d{1,9})(?::\d+)?)?\Z"
)
_FAILED = re.compile(r"  \[(?P<name>[^\]]+)\]\Z")
_DETAIL_LINES = 6
_MAX_CHARACTERS = 4000


class _Pass(msgspec.Struct):
    name: str
    seconds: float


class _Stage(msgspec.Struct):
    name: str
    children: list[_Pass] = []


class _Profile(msgspec.Struct):
    stages: list[_Stage]


def report_findings(root: Path) -> Iterator[Finding]:
    """Warnings of passes, functions that could not be turned into code, hints on performance (as notes)."""
    for path in sorted((root / DIRECTORY).glob("*.log")):
        yield from _logged(path, f"{DIRECTORY}/{path.name}")
    yield from _errors(root / "report" / "codegen_errors.txt")
    yield from _hints(root / "report" / "perf_hints.log")


def _lines(path: Path) -> list[str]:
    try:
        return [line[:_MAX_CHARACTERS] for line in read_text(path, errors="replace").splitlines()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ArtifactError(path, f"cannot be read: {error.strerror}", "compile again") from None


def _logged(path: Path, name: str) -> Iterator[Finding]:
    for number, line in enumerate(_lines(path), 1):
        match = _LOGGED.match(line)
        if match:
            level: Level = "error" if match["level"] == "error" else "warning"
            dump = f"{DIRECTORY}/{Path(match['path']).name}"
            has_dump = match["line"] and os.path.isfile(path.parent / Path(match["path"]).name)
            source, at = (dump, int(match["line"])) if has_dump else (name, number)
            yield Finding("passes/log", f"after {path.stem}: {match['text']}", source, at, level=level)


def _errors(path: Path) -> Iterator[Finding]:
    lines = _lines(path)
    for index, line in enumerate(lines):
        match = _FAILED.match(line)
        if not match:
            continue
        rest = lines[index + 1 :]
        end = next((n for n, text in enumerate(rest) if text.startswith("=====") or _FAILED.match(text)), len(rest))
        reason = [text.rstrip() for text in rest[:end] if text.strip()] or ["no reason given"]
        yield Finding(
            "passes/codegen",
            f"the compiler could not generate code for function '{match['name']}': {reason[0].strip()}",
            f"report/{path.name}",
            index + 1,
            "look at this function in the dump of the last pass",
            detail=tuple(reason[1 : _DETAIL_LINES + 1]),
            kernel=match["name"],
        )


def _hints(path: Path) -> Iterator[Finding]:
    for number, line in enumerate(_lines(path), 1):
        match = _HINT.match(line.strip())
        if match:
            source, at = (match["path"], int(match["line"])) if match["path"] else (f"report/{path.name}", number)
            yield Finding(f"passes/{match['code']}", match["text"], source, at, level="note")


def times(root: Path) -> dict[str, float]:
    """Return the seconds of each pass by its name, from `report/pipeline_profile.json`. A pass that runs twice has the
    sum.
    """
    try:
        profile = decode_json(read_bytes(root / "report" / "pipeline_profile.json"), _Profile)
    except (OSError, msgspec.MsgspecError):
        return {}
    seconds: dict[str, float] = {}
    for one in (one for stage in profile.stages if stage.name == "passes" for one in stage.children):
        seconds[one.name] = seconds.get(one.name, 0.0) + one.seconds
    return seconds


# From one dump to the next: which functions came, went and changed, and the difference as text.


@dataclass(frozen=True)
class Change:
    """Change that a pass made to one function; `into` names the functions it was split into."""

    function: str
    kind: str
    added: int = 0
    removed: int = 0
    into: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """`mixed: split into mixed_aic, mixed_aiv`, `add +12 -3`."""
        if self.kind == "gone" and self.into:
            return f"{self.function}: split into {', '.join(self.into)}"
        if self.kind == "changed":
            return f"{self.function} +{self.added} -{self.removed}" + (
                f" (split into {', '.join(self.into)})" if self.into else ""
            )
        return f"{self.function}: {self.kind}" + (f" ({self.added} lines)" if self.kind == "new" else "")


def changes(before: Dump, after: Dump) -> list[Change]:
    """Return the changes between two dumps by function, or an empty list if either cannot be read."""
    if before.error or after.error:
        return []
    listed = []
    fresh = [name for name in after.functions if name not in before.functions]
    for name, function in before.functions.items():
        other = after.functions.get(name)
        if other is None:
            parts = tuple(part for part in fresh if part.startswith(f"{name}_"))
            listed.append(Change(name, "gone", removed=len(function.lines), into=parts))
        elif other.lines != function.lines:
            added, removed = _counts(function.lines, other.lines)
            parts = tuple(part for part in fresh if part in (f"{name}_aic", f"{name}_aiv"))
            listed.append(Change(name, "changed", added, removed, parts))
    parts_listed = {part for change in listed for part in change.into}
    others = [name for name in fresh if name not in parts_listed]
    listed += [Change(name, "new", added=len(after.functions[name].lines)) for name in others]
    return listed


def _counts(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """Lines that came and that went."""
    added = removed = 0
    for tag, a0, a1, b0, b1 in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            added, removed = added + b1 - b0, removed + a1 - a0
    return added, removed


def difference(before: DumpedFunction | None, after: DumpedFunction | None, context: int = 2) -> list[str]:
    """A unified difference of one function, with the lines' numbers in the two dumps."""
    old, new = (list(function.lines) if function else [] for function in (before, after))
    first, second = (function.line if function else 1 for function in (before, after))
    lines = []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for group in matcher.get_grouped_opcodes(context):
        lines.append(f"@@ -{first + group[0][1]},{group[-1][2] - group[0][1]} +{second + group[0][3]},"
                     f"{group[-1][4] - group[0][3]} @@")  # fmt: skip
        for tag, a0, a1, b0, b1 in group:
            if tag == "equal":
                lines += [f" {line}" for line in old[a0:a1]]
            else:
                lines += [f"-{line}" for line in old[a0:a1]]
                lines += [f"+{line}" for line in new[b0:b1]]
    return lines


#: Functions named in one line of the list.
_TOLD = 6


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = tool_parser("passes", __doc__)
    options.add_argument("artifact", type=Path, metavar="ARTIFACT_DIR")
    options.add_argument("--platform", default="a2a3sim", help="whose memory counts")
    add_options_of(options, "passes")
    return options


def read_dumps(files: Sequence[Path]) -> list[Dump]:
    """Return all dumps. A dump that equals the one before it byte for byte is not parsed again."""
    dumps: list[Dump] = []
    last = ""
    for path in progress(files, "reading dumps", len(files)):
        data = read_source(path)
        if dumps and data == last and dumps[-1].path.suffix == path.suffix:
            number, _, name = path.stem.partition("_")
            dumps.append(replace(dumps[-1], number=int(number), name=name.removeprefix("after_"), path=path))
        else:
            dumps.append(read_dump(path))
        last = data
    return dumps


def check_dumps(dumps: Sequence[Dump], arch: str) -> list[Finding]:
    """Return the faults of all dumps, each reported only for the first dump that has it."""
    findings, reported, seen = [], set[tuple[str, str, str]](), set[object]()
    passed: set[str] = set()
    before: Dump | None = None
    for dump in progress(dumps, "checking dumps", len(dumps)):
        passed.add(dump.name)
        if dump.error:
            line, message = dump.error
            findings.append(
                _finding(
                    dump,
                    before,
                    "unreadable",
                    Wrong("", line, "", message, "compile again: the dump is cut off here"),
                )
            )
            continue
        signatures = tuple((name, len(function.parameters)) for name, function in dump.functions.items())
        for function in dump.functions.values():
            key = (function.lines, hash(signatures), phase(passed))
            if key in seen:
                continue
            seen.add(key)
            subject = CheckedFunction(dump, function, flow_of(function), frozenset(passed), arch)
            for name, check in CHECKS.items():
                for wrong in check(subject):
                    if (name, wrong.function, wrong.subject) not in reported:
                        reported.add((name, wrong.function, wrong.subject))
                        findings.append(_finding(dump, before, name, wrong))
        before = dump
    return findings


def _finding(dump: Dump, before: Dump | None, check: str, wrong: Wrong) -> Finding:
    last = before.functions.get(wrong.function) if before else None
    related = (
        [Related(f"{DIRECTORY}/{before.path.name}", last.line, "the function before this pass")]
        if before and last
        else []
    )
    who = f" of '{wrong.function}'" if wrong.function else ""
    return Finding(
        f"passes/{check}",
        f"after pass {dump.title}{who}: {wrong.message}" if before else f"in {dump.title}{who}: {wrong.message}",
        f"{DIRECTORY}/{dump.path.name}",
        wrong.line,
        wrong.hint,
        kernel=wrong.function,
        related=tuple(related),
    )


def _listed(dumps: Sequence[Dump], seconds: dict[str, float], kernel: str) -> list[str]:
    rows = []
    for before, after in pairwise(dumps):
        changed = [change for change in changes(before, after) if kernel in ("", change.function, *change.into)]
        if changed or after.error:
            spent = f"{seconds[after.name] * 1e3:.1f}" if after.name in seconds else ""
            rows.append([f"{after.number:02}", after.name, spent, _words(changed) if changed else "cannot be read"])
    headings = ["", "pass", "ms", "changed"]
    if not any(row[2] for row in rows):
        headings.remove("ms")
        rows = [[row[0], row[1], row[3]] for row in rows]
    same = len(dumps) - 1 - len(rows)
    return [*table(rows, headings), f"{same} of {len(dumps) - 1} passes changed nothing"]


def _words(changed: Sequence[Change]) -> str:
    more = len(changed) - _TOLD
    return "; ".join(change.text for change in changed[:_TOLD]) + (f"; {more} more functions" if more > 0 else "")


def _shown(dumps: Sequence[Dump], text: str, kernel: str) -> list[str]:
    """Return the changes that one pass made, as text with differences by function. Raises ArtifactError."""
    numbers = [index for index, dump in enumerate(dumps) if text in (dump.name, str(dump.number), f"{dump.number:02}")]
    if not numbers:
        near = difflib.get_close_matches(text, [dump.name for dump in dumps], n=1, cutoff=0.4)
        hint = (
            f"did you mean {near[0]}?"
            if near
            else (f"use a number from {dumps[0].number} to {dumps[-1].number}, or the name of a pass")
        )
        raise ArtifactError(f"PASS={text}", "no such pass", hint)
    lines: list[str] = []
    for index in numbers:
        after = dumps[index]
        before = dumps[index - 1] if index else replace(after, functions={})
        names = [name for name in dict.fromkeys([*before.functions, *after.functions]) if kernel in ("", name)]
        lines.append(f"pass {after.title}: {_words(changes(before, after)) or 'changes nothing'}")
        for name in names:
            diff = difference(before.functions.get(name), after.functions.get(name))
            lines += [f"--- {before.path.name} {name}", f"+++ {after.path.name} {name}", *diff] if diff else []
    return lines


def _require_function(dumps: Iterable[Dump], kernel: str) -> None:
    names = {name for dump in dumps for name in dump.functions}
    if kernel not in names:
        near = difflib.get_close_matches(kernel, names, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}?" if near else f"the functions are {', '.join(sorted(names)[:8])}"
        raise ArtifactError(f"KERNEL={kernel}", "no dump has this function", hint)


@command("passes", parser)
def main(options: argparse.Namespace) -> int:
    """Check the dumps of all compiler passes. Returns 0 if all checks hold, 1 if one fails, 2 if there is nothing to
    check.
    """
    root: Path = options.artifact
    if not root.is_dir():
        raise ArtifactError(root, "no such directory", "name the directory of an artifact")
    reported = list(report_findings(root))
    try:
        files = dump_files(root)
    except ArtifactError as error:
        if not reported:
            raise
        print(f"[passes] {error}; the compiler itself reported:")
        return deliver("passes", root, reported, options)
    dumps = read_dumps(files)
    if options.kernel:
        _require_function(dumps, options.kernel)
    if options.pass_:
        print("\n".join(_shown(dumps, options.pass_, options.kernel)))
        return 0
    print("\n".join(_listed(dumps, times(root), options.kernel)))
    if not is_artifact(root):
        print(f"[passes] the compilation ended after pass {dumps[-1].title}, so there is no {MANIFEST_NAME}")
    findings = [*check_dumps(dumps, options.platform.removesuffix("sim")), *reported]
    if options.kernel:
        findings = [finding for finding in findings if finding.kernel in ("", options.kernel)]
    first = next((finding for finding in findings if finding.level == "error"), None)
    if first is not None and first.path.startswith(DIRECTORY):
        print(f"[passes] the first pass after which a check fails: {Path(first.path).stem}")
    return deliver("passes", root, findings, options)


if __name__ == "__main__":
    sys.exit(main())
