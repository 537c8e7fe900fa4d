"""Runs scene tests, with simpler or without: `pypto-build scene FILE... -p a2a3sim`, `pypto-build scene --list DIR`.

Flags are those of simpler's own runner; options of a build are taken too, such as RUNTIME=simpler, and RUNTIME=both,
which compares the two. Exit status: 0 all passed, 1 a case failed, 2 usage.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from pypto_build import terminal
from pypto_build.artifact import ArtifactError
from pypto_build.artifact.scenes import Scene, SceneCase, Scenes, matches
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.facts.run_options import EMBEDDED, OF_ITS_RECORDS, RUN_OPTIONS, SIMPLER
from pypto_build.interop.scene.outcomes import (
    FAILED,
    PASSED,
    SKIPPED,
    CaseResult,
    CasesRun,
    compare_runtimes,
    describe_file,
    describing,
    find_files,
)

_ASSIGNMENT = re.compile(r"[A-Z][A-Z0-9_]*=")
_BOTH = "RUNTIME=both"
_WORDS = {PASSED: "PASSED", FAILED: "FAILED", SKIPPED: "SKIPPED"}
_MANUAL = "its cases are manual: --manual include runs them"
_RECORDS = [option for option in OF_ITS_RECORDS.values() if option.scene_flags or option.name == "SCOPE_STATS"]


@dataclass(frozen=True)
class _Group:
    """Cases of one file that run together: simpler needs a process for each runtime and level."""

    file: Path
    runtime: str
    level: int
    cases: tuple[tuple[Scene, SceneCase], ...]


@terminal.escaping()
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    options = _parser().parse_intermixed_args(argv)
    options.options = [word for word in options.places if _ASSIGNMENT.match(word)]
    options.places = [word for word in options.places if word not in options.options]
    try:
        files = find_files(options.places)
        if options.list:
            return _list(files)
        if not options.platform:
            raise ArtifactError("--platform", "is missing", f"use one of {', '.join(PLATFORMS)}")
        return _run(files, options)
    except ArtifactError as error:
        print(f"pypto-build scene: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        return 130


def _run(files: Sequence[Path], options: argparse.Namespace) -> int:
    with ExitStack() as stack:
        begun = stack.enter_context(closing(_begin(files, options))) if _takes_all(options) else None
        groups, results = _chosen_of(files, options, begun)
        if not groups and any(result.message == _MANUAL for result in results):
            raise ArtifactError(", ".join(map(str, files)), "no selected case can run on this platform", _MANUAL)
        if options.case and not groups:
            selection = f"--case {', '.join(options.case)}"
            raise ArtifactError(selection, "no such case", "'pypto-build scene --list' shows the cases")
        running = [origin for group in groups for origin, reason in _origins(group, options.platform) if not reason]
        runs = [stack.enter_context(closing(run)) for run in _runs(running, options)] if running and not begun else []
        runs += [begun] if begun else []
        for group in groups:
            print(f"\n=== Runtime: {group.runtime}  Level: {group.level} ===", flush=True)
            results += _tell_group(group, options.platform, runs)
            if options.exitfirst and any(result.word == FAILED for result in results):
                return 1
        for run in runs:
            run.wait()
    counts = {word: sum(result.word == word for result in results) for word in _WORDS}
    print("\n" + ", ".join(f"{count} {word}" for word, count in counts.items() if count or word == PASSED))
    return 1 if counts[FAILED] else 0


def _takes_all(options: argparse.Namespace) -> bool:
    """Return whether the selected cases are those that a build of the files selects by default."""
    chooses = options.case or options.runtime or options.level is not None or _BOTH in options.options
    return PLATFORMS[options.platform].simulated and not chooses


def _begin(files: Sequence[Path], options: argparse.Namespace) -> CasesRun:
    """Start a build of files before their declarations are read."""
    return CasesRun(list(map(os.path.abspath, files)), options.platform, _words(options, options.manual))


def _chosen_of(
    files: Sequence[Path], options: argparse.Namespace, begun: CasesRun | None
) -> tuple[list[_Group], list[CaseResult]]:
    """Return the selected cases, and failures for files with errors. A build that has ``begun`` provides the
    declarations of the files."""
    groups, results = list[_Group](), list[CaseResult]()
    described = begun.descriptions() if begun else {}
    with closing(describing()) as tools:
        for file in files:
            description = described.get(os.path.abspath(file))
            try:
                if description and description.error:
                    raise ArtifactError("", description.error, "")
                scenes = description.scenes if description else describe_file(file, tools)
            except ArtifactError as error:
                if len(files) == 1:
                    raise
                print(f"  {file} FAILED: {error}")
                results.append(CaseResult(file.name, FAILED, str(error)))
                continue
            if scenes.reason:
                print(f"  {file} SKIPPED: {scenes.reason}")
            elif chosen := list(_groups(file, scenes, options)):
                groups += chosen
            elif _has_manual(scenes, options):
                results.append(CaseResult(file.name, SKIPPED, _MANUAL))
                print(f"  {file} SKIPPED: {_MANUAL}")
    return groups, results


def _runs(origins: Sequence[str], options: argparse.Namespace) -> list[CasesRun]:
    """Return the build that runs all cases; for RUNTIME=both return two, of which the second waits for the first."""
    words = _words(options)
    if _BOTH not in options.options:
        return [CasesRun(origins, options.platform, words)]
    others = [word for word in words if word != _BOTH]
    return [CasesRun(origins, options.platform, _words_on(name, others)) for name in (EMBEDDED, SIMPLER)]


def _words_on(runtime: str, words: Sequence[str]) -> list[str]:
    """Return the words of a replay on one of both runtimes, without those that only the other accepts."""
    with_options = [(word, RUN_OPTIONS.get(word.partition("=")[0])) for word in words]
    return [
        *(word for word, option in with_options if option is None or runtime in option.runtimes),
        f"RUNTIME={runtime}",
    ]


def _origins(group: _Group, platform: str) -> list[tuple[str, str]]:
    """Return FILE::CLASS::CASE of each case of a group, with the reason if it cannot run here."""
    simulated, file = PLATFORMS[platform].simulated, os.path.abspath(group.file)
    return [
        (f"{file}::{scene.name}::{case.name}", scene.why_not(case, platform) if simulated else "")
        for scene, case in group.cases
    ]


def _tell_group(group: _Group, platform: str, runs: Sequence[CasesRun]) -> list[CaseResult]:
    """Print the results of a group's cases, with a reason for those that do not run here."""
    results = []
    for origin, reason in _origins(group, platform):
        label = origin.partition("::")[2]
        if reason:
            results.append(CaseResult(label, SKIPPED, reason))
        else:
            print(f"  {label} ...", flush=True)
            ended = [run.result(origin) for run in runs]
            for result in ended:
                _show(result)
            results.append(compare_runtimes(ended[0], ended[1], (EMBEDDED, SIMPLER)) if ended[1:] else ended[0])
        result = results[-1]
        print(f"  {label} {_WORDS[result.word]}{': ' if result.message else ''}{result.message}", flush=True)
    return results


def _show(result: CaseResult) -> None:
    """Print the output of a failed case, unless it only repeats the result."""
    if result.word == FAILED and result.printed.strip() != result.message:
        print(result.printed)


def _groups(file: Path, scenes: Scenes, options: argparse.Namespace) -> Iterator[_Group]:
    """Yield the selected cases of a file, grouped by runtime and level."""
    chosen: dict[tuple[str, int], list[tuple[Scene, SceneCase]]] = {}
    for scene in scenes.classes:
        if options.runtime not in (None, scene.runtime) or options.level not in (None, scene.level):
            continue
        for case in scene.cases:
            if _is_chosen(scene, case, options):
                chosen.setdefault((scene.runtime, scene.level), []).append((scene, case))
    for (runtime, level), cases in chosen.items():
        yield _Group(file, runtime, level, tuple(cases))


def _has_manual(scenes: Scenes, options: argparse.Namespace) -> bool:
    """Return whether a file has cases that are left out because they are manual."""
    including = argparse.Namespace(**{**vars(options), "manual": "include"})
    return any(_groups(Path(), scenes, including))


def _is_chosen(scene: Scene, case: SceneCase, options: argparse.Namespace) -> bool:
    if options.platform not in case.platforms:
        return False
    if options.case and not any(matches(selector, scene.name, case.name) for selector in options.case):
        return False
    manual = options.platform in case.manual
    return {"include": True, "exclude": not manual, "only": manual}[options.manual]


def _words(options: argparse.Namespace, manual: str = "include") -> list[str]:
    """Return the flags of the replay; ``manual`` says how to treat manual cases."""
    words = [f"MANUAL={manual}", *(["--force"] if options.force else [])]
    words += ["--rounds", str(options.rounds)] if options.rounds > 1 else []
    words += ["--skip-golden"] if options.skip_golden else []
    words += ["--device", options.device] if options.device and not PLATFORMS[options.platform].simulated else []
    words += ["--log-level", options.log_level] if options.log_level else []
    words += ["--sanitizer", options.sanitizer] if options.sanitizer else []
    words += ["--enable-swimlane-overhead"] if options.enable_swimlane_overhead else []
    words += [f"-j{options.max_parallel}"] if options.max_parallel.isdigit() else []
    for option in _RECORDS:
        value = getattr(options, option.name)
        if value in (None, False):
            continue
        if options.rounds > 1:
            print(f"pypto-build scene: {option.name} is off: there are several rounds", file=sys.stderr)
        else:
            words.append(f"{option.name}={1 if value is True else value}")
    return [*words, *options.options]


def _list(files: Sequence[Path]) -> int:
    """Print files, classes, cases, platforms, and the reason for each case that cannot run here."""
    running = 0
    with closing(describing()) as tools:
        for file in files:
            print(file)
            try:
                scenes = describe_file(file, tools)
            except ArtifactError as error:
                if len(files) == 1:
                    raise
                scenes = Scenes(reason=str(error))
            running += _list_file(scenes)
    print(f"\n{len(files)} files; {running} cases can run here")
    return 0


def _list_file(scenes: Scenes) -> int:
    """Print the declarations of one file; return the number of its cases that run here."""
    running = 0
    if scenes.reason:
        print(f"  does not run here: {scenes.reason}")
    for scene in scenes.classes:
        print(f"  {scene.name}  level {scene.level}, {scene.runtime}")
        for case in scene.cases:
            platforms = [f"{name}{' (manual)' if name in case.manual else ''}" for name in case.platforms]
            reasons = {scene.why_not(case, name) for name, row in PLATFORMS.items() if row.simulated}
            runs = "" in reasons
            running += runs
            why = "" if runs else f"  does not run here: {scene.reason or min(reasons)}"
            print(f"    {case.name}  {', '.join(platforms)}{why}")
        for name in scene.others:
            print(f"    {name}  {f'does not run here: {scene.reason}' if scene.reason else 'pytest runs it'}")
    return running


class _Parser(argparse.ArgumentParser):
    """An argument parser that reports an error in one line."""

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
    add("--sanitizer", metavar="LIST", help="as pypto-build replay --sanitizer")
    add("--enable-swimlane-overhead", action="store_true", help="has no effect")
    for option in _RECORDS:
        flags = option.scene_flags or option.flags
        if option.bare is None:
            add(*flags, dest=option.name, action="store_true", help=option.doc.removeprefix("1: "))
        else:
            add(*flags, dest=option.name, nargs="?", const=option.bare, type=int, metavar="LEVEL", help=option.doc)
    return parser


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    """Exit through the finally blocks, which end the builds; further signals are ignored."""
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _end)
    sys.exit(main())
