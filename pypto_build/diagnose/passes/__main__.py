"""`scons passes`: what each pass changed, function by function, and the first pass after which a check fails.

python -m pypto_build.diagnose.passes ARTIFACT_DIR [--platform P] [--pass NAME|NUMBER] [--kernel FUNCTION]
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import read_source
from pypto_build.artifact.layout import is_artifact
from pypto_build.artifact.manifest import MANIFEST_NAME
from pypto_build.diagnose.console import command, progress, table, tool_parser
from pypto_build.diagnose.findings import Finding, Related, add_output_options, deliver
from pypto_build.diagnose.passes.changes import Change, changes, difference
from pypto_build.diagnose.passes.checks import CHECKS, CheckedFunction, Wrong, phase
from pypto_build.diagnose.passes.dumps import DIRECTORY, Dump, dump_files, read_dump
from pypto_build.diagnose.passes.reports import report_findings, times
from pypto_build.diagnose.passes.values import flow_of

#: Functions named in one line of the list.
_TOLD = 6


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = tool_parser("passes", __doc__)
    options.add_argument("artifact", type=Path, metavar="ARTIFACT_DIR")
    options.add_argument("--platform", default="a2a3sim", help="whose memory counts")
    options.add_argument("--pass", dest="one", metavar="PASS", help="show what this pass (name or number) did, as text")
    options.add_argument("--kernel", metavar="FUNCTION", help="only this function")
    add_output_options(options)
    return options


def read_dumps(files: Sequence[Path]) -> list[Dump]:
    """All dumps; one that is byte for byte the last one is not parsed again."""
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
    findings, known, seen = [], set[tuple[str, str, str]](), set[object]()
    passed: set[str] = set()
    before: Dump | None = None
    for dump in progress(dumps, "checking dumps", len(dumps)):
        passed.add(dump.name)
        if dump.error:
            line, message = dump.error
            findings.append(_finding(dump, before, "unreadable", Wrong("", line, "", message, "the dump is cut off")))
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
                    if (name, wrong.function, wrong.subject) not in known:
                        known.add((name, wrong.function, wrong.subject))
                        findings.append(_finding(dump, before, name, wrong))
        before = dump
    return findings


def _finding(dump: Dump, before: Dump | None, check: str, wrong: Wrong) -> Finding:
    last = before.functions.get(wrong.function) if before else None
    related = [Related(f"{DIRECTORY}/{before.path.name}", last.line, "before this pass")] if before and last else []
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


def _listed(dumps: Sequence[Dump], seconds: dict[str, float], kernel: str | None) -> list[str]:
    rows = []
    for before, after in pairwise(dumps):
        changed = [change for change in changes(before, after) if kernel in (None, change.function, *change.into)]
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


def _shown(dumps: Sequence[Dump], asked: str, kernel: str | None) -> list[str]:
    """Return the changes that one pass made, as text with differences by function. Raises ArtifactError."""
    numbers = [index for index, dump in enumerate(dumps) if asked in (dump.name, str(dump.number), f"{dump.number:02}")]
    if not numbers:
        near = difflib.get_close_matches(asked, [dump.name for dump in dumps], n=1, cutoff=0.4)
        way = f"did you mean {near[0]}?" if near else f"{dumps[0].number} to {dumps[-1].number}, or a pass's name"
        raise ArtifactError(f"PASS={asked}", "no such pass", way)
    lines: list[str] = []
    for index in numbers:
        after = dumps[index]
        before = dumps[index - 1] if index else replace(after, functions={})
        names = [name for name in dict.fromkeys([*before.functions, *after.functions]) if kernel in (None, name)]
        lines.append(f"pass {after.title}: {_words(changes(before, after)) or 'changes nothing'}")
        for name in names:
            text = difference(before.functions.get(name), after.functions.get(name))
            lines += [f"--- {before.path.name} {name}", f"+++ {after.path.name} {name}", *text] if text else []
    return lines


def _known(dumps: Iterable[Dump], kernel: str) -> None:
    names = {name for dump in dumps for name in dump.functions}
    if kernel not in names:
        near = difflib.get_close_matches(kernel, names, n=1, cutoff=0.4)
        way = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(names)[:8])}"
        raise ArtifactError(f"KERNEL={kernel}", "no dump has this function", way)


@command("passes", parser)
def main(given: argparse.Namespace) -> int:
    """0 where every check holds, 1 where not, 2 where there is nothing to look at."""
    root: Path = given.artifact
    if not root.is_dir():
        raise ArtifactError(root, "no such directory", "name an artifact's directory")
    reported = list(report_findings(root))
    try:
        files = dump_files(root)
    except ArtifactError as error:
        if not reported:
            raise
        print(f"[passes] {error}; what the compilation reported is:")
        return deliver("passes", root, reported, given)
    dumps = read_dumps(files)
    if given.kernel:
        _known(dumps, given.kernel)
    if given.one:
        print("\n".join(_shown(dumps, given.one, given.kernel)))
        return 0
    print("\n".join(_listed(dumps, times(root), given.kernel)))
    if not is_artifact(root):
        print(f"[passes] there is no {MANIFEST_NAME}: the compilation ended after pass {dumps[-1].title}")
    findings = [*check_dumps(dumps, given.platform.removesuffix("sim")), *reported]
    if given.kernel:
        findings = [finding for finding in findings if finding.kernel in ("", given.kernel)]
    first = next((finding for finding in findings if finding.level == "error"), None)
    if first is not None and first.path.startswith(DIRECTORY):
        print(f"[passes] the first pass after which a check fails: {Path(first.path).stem}")
    return deliver("passes", root, findings, given)


if __name__ == "__main__":
    sys.exit(main())
