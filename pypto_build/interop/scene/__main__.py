"""Runs scene tests, with simpler or without: `pypto-build scene FILE... -p a2a3sim`, `pypto-build scene --list DIR`.

Flags are those of simpler's own runner; options of a build are taken too, such as RUNTIME=simpler, and RUNTIME=both,
which compares the two. Exit status: 0 all passed, 1 a case failed, 2 usage.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.scenes import Scene, SceneCase, Scenes, matches
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.facts.run_options import EMBEDDED, OF_ITS_RECORDS, SIMPLER
from pypto_build.interop.scene.outcomes import (
    FAILED,
    PASSED,
    SKIPPED,
    CaseResult,
    compare_runtimes,
    describe_file,
    find_files,
    run_cases,
)

_ASSIGNMENT = re.compile(r"[A-Z][A-Z0-9_]*=")
_BOTH = "RUNTIME=both"
_WORDS = {PASSED: "PASSED", FAILED: "FAILED", SKIPPED: "SKIPPED"}
_RECORDS = [option for option in OF_ITS_RECORDS.values() if option.scene_flags or option.name == "SCOPE_STATS"]


@dataclass(frozen=True)
class _Group:
    """Cases of one file that run together: simpler has a process for each runtime and level."""

    file: Path
    runtime: str
    level: int
    cases: tuple[tuple[Scene, SceneCase], ...]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    given = _parser().parse_args(argv)
    given.options = [word for word in given.places if _ASSIGNMENT.match(word)]
    given.places = [word for word in given.places if word not in given.options]
    try:
        files = find_files(given.places)
        if given.list:
            return _list(files)
        if not given.platform:
            raise ArtifactError("--platform", "is missing", f"one of {', '.join(PLATFORMS)}")
        return _run(files, given)
    except ArtifactError as error:
        print(f"pypto-build scene: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        return 130


def _run(files: Sequence[Path], given: argparse.Namespace) -> int:
    results: list[CaseResult] = []
    words, matched = _words(given), False
    for file in files:
        scenes = describe_file(file)
        if scenes.reason:
            print(f"  {file} SKIPPED: {scenes.reason}")
            continue
        for group in _groups(file, scenes, given):
            matched = True
            print(f"\n=== Runtime: {group.runtime}  Level: {group.level} ===", flush=True)
            results += _run_group(group, given, words)
            if given.exitfirst and any(result.word == FAILED for result in results):
                return 1
    if given.case and not matched:
        raise ArtifactError(f"--case {', '.join(given.case)}", "no such case", "pypto-build scene --list shows them")
    counts = {word: sum(result.word == word for result in results) for word in _WORDS}
    print("\n" + ", ".join(f"{count} {word}" for word, count in counts.items() if count or word == PASSED))
    return 1 if counts[FAILED] else 0


def _run_group(group: _Group, given: argparse.Namespace, words: Sequence[str]) -> list[CaseResult]:
    """Run the cases of a group that can run here; the others say why not."""
    simulated = PLATFORMS[given.platform].simulated
    results, running = [], []
    for scene, case in group.cases:
        label = f"{scene.name}::{case.name}"
        if simulated and (reason := scene.why_not(case, given.platform)):
            results.append(CaseResult(label, SKIPPED, reason))
        else:
            running.append(label)
            print(f"  {label} ...", flush=True)
    if running:
        runtimes = (EMBEDDED, SIMPLER) if _BOTH in given.options else ()
        others = [word for word in words if word != _BOTH]
        ended = [_run_on(group.file, running, given.platform, [*others, f"RUNTIME={name}"]) for name in runtimes]
        if runtimes:
            names = (EMBEDDED, SIMPLER)
            results += [compare_runtimes(one, other, names) for one, other in zip(ended[0], ended[1], strict=True)]
        else:
            results += _run_on(group.file, running, given.platform, words)
    for result in results:
        print(f"  {result.label} {_WORDS[result.word]}{': ' if result.message else ''}{result.message}", flush=True)
    return results


def _run_on(file: Path, labels: Sequence[str], platform: str, words: Sequence[str]) -> list[CaseResult]:
    """Run cases; what was printed is shown if one fails."""
    ended, output = run_cases(file, labels, platform, words)
    if any(result.word == FAILED for result in ended):
        print(output)
    return ended


def _groups(file: Path, scenes: Scenes, given: argparse.Namespace) -> Iterator[_Group]:
    """The chosen cases of a file, by runtime and level."""
    chosen: dict[tuple[str, int], list[tuple[Scene, SceneCase]]] = {}
    for scene in scenes.classes:
        if given.runtime not in (None, scene.runtime) or given.level not in (None, scene.level):
            continue
        for case in scene.cases:
            if _is_chosen(scene, case, given):
                chosen.setdefault((scene.runtime, scene.level), []).append((scene, case))
    for (runtime, level), cases in chosen.items():
        yield _Group(file, runtime, level, tuple(cases))


def _is_chosen(scene: Scene, case: SceneCase, given: argparse.Namespace) -> bool:
    if given.platform not in case.platforms:
        return False
    if given.case and not any(matches(selector, scene.name, case.name) for selector in given.case):
        return False
    manual = given.platform in case.manual
    return {"include": True, "exclude": not manual, "only": manual}[given.manual]


def _words(given: argparse.Namespace) -> list[str]:
    """The flags of a replay that these are."""
    words = ["MANUAL=include", "-k", *(["--force"] if given.force else [])]
    words += ["--rounds", str(given.rounds)] if given.rounds > 1 else []
    words += ["--skip-golden"] if given.skip_golden else []
    words += ["--device", given.device] if given.device and not PLATFORMS[given.platform].simulated else []
    words += ["--log-level", given.log_level] if given.log_level else []
    words += [f"-j{given.max_parallel}"] if given.max_parallel.isdigit() else []
    for option in _RECORDS:
        value = getattr(given, option.name)
        if value in (None, False):
            continue
        if given.rounds > 1:
            print(f"pypto-build scene: {option.name} is off: there are several rounds", file=sys.stderr)
        else:
            words.append(f"{option.name}={1 if value is True else value}")
    return [*words, *given.options]


def _list(files: Sequence[Path]) -> int:
    """Files, classes, cases, platforms, and what keeps a case from running here."""
    running = 0
    for file in files:
        print(file)
        scenes = describe_file(file)
        if scenes.reason:
            print(f"  does not run here: {scenes.reason}")
        for scene in scenes.classes:
            print(f"  {scene.name}  level {scene.level}, {scene.runtime}")
            for case in scene.cases:
                platforms = [f"{name}{' (manual)' if name in case.manual else ''}" for name in case.platforms]
                reasons = {scene.why_not(case, name) for name, row in PLATFORMS.items() if row.simulated}
                runs = "" in reasons
                running += runs
                why = "" if runs else f"  does not run here: {scene.reason or _first(reasons)}"
                print(f"    {case.name}  {', '.join(platforms)}{why}")
            for name in scene.others:
                print(f"    {name}  does not run here: it drives simpler's worker itself")
    print(f"\n{len(files)} files, {running} cases run here")
    return 0


def _first(reasons: set[str]) -> str:
    return min(reasons)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        print(f"pypto-build scene: {message}; see pypto-build scene --help", file=sys.stderr)
        raise SystemExit(2)


def _parser() -> _Parser:
    parser = _Parser(prog="pypto-build scene", description=(__doc__ or "").partition("\n")[0], allow_abbrev=False)
    add = parser.add_argument
    add("places", nargs="*", metavar="FILE|DIR|NAME=VALUE", help="scene tests, directories of them, options of a build")
    add("--list", action="store_true", help="list files, classes, cases and platforms, and what runs here")
    add("-p", "--platform", choices=tuple(PLATFORMS), help="what the cases run on")
    add("-d", "--device", metavar="N", help="the device of hardware")
    add("--case", action="append", default=[], metavar="C", help="Name, Class::Name, Class:: or ::Name; repeatable")
    add("--manual", choices=("exclude", "include", "only"), default="exclude", help="cases that run when asked for")
    add("--rounds", type=int, default=1, metavar="N", help="how often to run each case")
    add("--skip-golden", action="store_true", help="run without comparing")
    add("--runtime", metavar="NAME", help="only classes for this runtime of simpler's")
    add("--level", type=int, metavar="N", help="only classes of this level")
    add("-x", "--exitfirst", action="store_true", help="stop at the first failure")
    add("-f", "--force", action="store_true", help="run though nothing changed")
    add("--max-parallel", default="auto", metavar="N", help="commands at a time (this machine's processors)")
    add("--log-level", metavar="LEVEL", help="what the runtime logs")
    for option in _RECORDS:
        flags = option.scene_flags or option.flags
        if option.bare is None:
            add(*flags, dest=option.name, action="store_true", help=option.doc.removeprefix("1: "))
        else:
            add(*flags, dest=option.name, nargs="?", const=option.bare, type=int, metavar="LEVEL", help=option.doc)
    return parser


if __name__ == "__main__":
    sys.exit(main())
