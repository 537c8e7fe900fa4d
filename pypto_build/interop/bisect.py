"""Finds what flips the verdict of an artifact: a revision of simpler or pto-isa, a file, some lines, an assembler's
unit, or a compiler flag.

python -m pypto_build.interop.bisect ARTIFACT_DIR --build-dir OUT --axis A --good G --bad B [--repeats N]

Axes:

- simpler, pto_isa: G and B are revisions, or PATH@REVISION of a local clone.
- kernel: G and B are two artifacts with the same kernels, or revisions of this one (tags, branches, commits).
- hunk: as kernel, with the differences of their files split into hunks.
- ptoas: G and B are assemblers, paths or `own`; each unit is assembled by one of the two.
- flags: G and B are flags of the kernels' compiler.

The artifact itself is never changed.

Exit status: 0 the culprit was found, 1 it could not be determined, 2 usage.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import msgspec

from pypto_build.artifact import Artifact, ArtifactError, load_artifact, resolve_jit
from pypto_build.artifact.files import read_source
from pypto_build.facts.jobs import FarmJob, FarmResult
from pypto_build.facts.run_options import OF_SIMPLER, SIMPLER
from pypto_build.farm.session import FarmSession, add_farm_options, refuse_here, session_of
from pypto_build.interop.steps import Candidate, Outcome, Runner, Trial, signature
from pypto_build.replay.verdict import Verdict
from pypto_build.toolchain import ToolchainError, git, pins
from pypto_build.toolchain.python import own_environment, own_tool

# The two search algorithms of a bisection, independent of what they search.


def first_bad(candidates: Sequence[str], probe: Callable[[str], Outcome]) -> list[str]:
    """Return the first bad one of ``candidates``; the first is good, the last is bad.

    Returns several if candidates before it could not be judged: the culprit is one of them.
    """
    judged: dict[int, Outcome] = {0: "good", len(candidates) - 1: "bad"}
    while True:
        good = max(index for index, outcome in judged.items() if outcome == "good")
        bad = min(index for index, outcome in judged.items() if outcome == "bad" and index > good)
        open_ones = [index for index in range(good + 1, bad) if index not in judged]
        if not open_ones:
            return list(candidates[good + 1 : bad + 1])
        middle = (good + bad) // 2
        index = min(open_ones, key=lambda index: abs(index - middle))
        judged[index] = probe(candidates[index])


def smallest_bad(
    parts: Sequence[str],
    probe: Callable[[Sequence[str]], Outcome],
    prefetch: Callable[[Sequence[Sequence[str]]], None] = lambda _: None,
) -> list[str]:
    """Return a smallest subset of ``parts`` that is bad by itself, by delta debugging; all parts together are bad.

    ``prefetch`` is called with the sets that are probed next, in this order, up to the first bad one.
    """
    current, pieces = list(parts), 2
    while len(current) > 1:
        size = -(-len(current) // pieces)
        chunks = [current[start : start + size] for start in range(0, len(current), size)]
        rests = [[part for part in current if part not in chunk] for chunk in chunks]
        prefetch(chunks)
        failing = next((chunk for chunk in chunks if probe(chunk) == "bad"), None)
        if failing is not None:
            current, pieces = failing, 2
            continue
        if len(chunks) > 2:
            prefetch(rests)
        rest = next((rest for rest in rests if len(chunks) > 2 and probe(rest) == "bad"), None)
        if rest is not None:
            current, pieces = rest, max(pieces - 1, 2)
        elif pieces >= len(current):
            break
        else:
            pieces = min(len(current), 2 * pieces)
    return current


@dataclass(frozen=True)
class Hunk:
    """A change of a file: lines `first` to `last` (from 0, `last` excluded) become `lines`. `place` names it for
    people."""

    file: str
    first: int
    last: int
    lines: tuple[str, ...]

    @property
    def place(self) -> str:
        """Return `kernels/aiv/x.cpp:12-14`; if lines are only added, the line before which they come."""
        first, last = self.first + 1, self.last
        return f"{self.file}:{first}-{last}" if last > first else f"{self.file}:{first}"


def hunks_of(file: str, old: str, new: str) -> list[Hunk]:
    """Return the hunks that change one text into the other, in line order."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    return [
        Hunk(file, first, last, tuple(after[begin:end]))
        for kind, first, last, begin, end in matcher.get_opcodes()
        if kind != "equal"
    ]


def apply(root: Path, hunks: Iterable[Hunk]) -> None:
    """Replace these lines in the files below a directory."""
    for hunk in sorted(hunks, key=lambda hunk: hunk.first, reverse=True):  # from the end: line numbers stay valid
        path = root / hunk.file
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        lines[hunk.first : hunk.last] = hunk.lines
        path.write_text("".join(lines), encoding="utf-8")


# The trials of a bisection on a farm: replays several candidates, with all repeats of each, at once.
# Splits the difference between two texts into hunks, and applies each by itself.


class SessionReplays:
    """Replays on the farm of a session. Raises ArtifactError if a replay fails to run there."""

    def __init__(self, session: FarmSession) -> None:
        self._session = session

    def replayed(
        self, candidates: Sequence[Candidate], words: Sequence[str], repeats: int, bad: str, log: Path
    ) -> dict[str, list[str]]:
        """Return the results of each candidate. Candidates after the first that ended as ``bad`` may be missing."""
        jobs = {
            f"{number}.{turn}": FarmJob(
                f"{number}.{turn}", os.path.abspath(one.artifact), "replay", options_of([*words, *one.options])
            )
            for number, one in enumerate(candidates)
            for turn in range(repeats)
        }
        ended: dict[str, str] = {}
        trials: dict[str, list[str]] = {}
        results = self._session.results(list(jobs.values()))
        for result in results:
            with log.open("a", encoding="utf-8") as file:
                file.write(result.log)
            ended[result.label] = _signature(result, log)
            for number, one in enumerate(candidates):
                trial = _trial([ended.get(f"{number}.{turn}") for turn in range(repeats)], bad)
                if trial is None:
                    break
                trials[one.name] = trial
                if bad and bad in trial:
                    results.close()
                    return trials
        return trials


def options_of(words: Sequence[str]) -> dict[str, str]:
    """Return the options of a replay as NAME to value, from words such as ``--rtol 1e-3`` and
    ``--kernel-flags=-O1``."""
    options = {"FORCE": "1"}
    left = list(words)
    while left:
        flag, has_value, value = left.pop(0).partition("=")
        name = flag.lstrip("-").upper().replace("-", "_")
        options["PLATFORM" if name == "P" else name] = value if has_value else left.pop(0)
    return options


def _trial(ended: Sequence[str | None], bad: str) -> list[str] | None:
    """Return the results that a trial would have: all up to the first bad one. None if a result before that is
    missing."""
    trial: list[str] = []
    for one in ended:
        if one is None:
            return None
        trial.append(one)
        if one == bad:
            break
    return trial


def _signature(result: FarmResult, log: Path) -> str:
    try:
        return signature(msgspec.json.decode(result.verdict, type=Verdict))
    except msgspec.MsgspecError:
        return f"no verdict; see {log}"
    except ArtifactError as error:
        return str(error)


AXES = ("simpler", "pto_isa", "kernel", "hunk", "ptoas", "flags")
_OWN = "own"
_PROJECT = {"simpler": pins.SIMPLER, "pto_isa": pins.PTO_ISA}
_FLAG = {name.lower(): option.flag for name, option in OF_SIMPLER.items()}


class _Ends(Exception):
    """An end of the search is invalid, so there is nothing to search; ``str()`` is one line."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    options = _parser().parse_args(argv)
    try:
        return _bisect(options)
    except ArtifactError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    except (ToolchainError, _Ends) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _bisect(options: argparse.Namespace) -> int:
    refuse_here(options, DATA=options.data, SIMPLER=options.simpler, AXIS=options.axis in _PROJECT and options.axis)
    with ExitStack() as stack:
        session = session_of(options)
        farm = SessionReplays(stack.enter_context(session)) if session else None
        artifact = load_artifact(options.artifact)
        words = ["-p", options.platform, *(["--runtime", SIMPLER] if options.axis in _PROJECT else [])]
        words += ["--simpler", options.simpler] if options.simpler and options.axis != "simpler" else []
        words += [
            word
            for name in ("data", "rtol", "atol")
            if (value := getattr(options, name))
            for word in (f"--{name}", value)
        ]
        question = hashlib.sha256(
            repr((options.axis, options.good, options.bad, words, _digest(artifact))).encode()
        ).hexdigest()
        runner = Runner(options.build_dir / "bisect.json", question, options.repeats, words, farm)
        if options.axis in _PROJECT:
            culprit = _revisions(runner, artifact, options.axis, options.good, options.bad)
        elif options.axis == "flags":
            culprit = _flags(runner, artifact, options.good, options.bad)
        elif options.axis == "ptoas":
            ends = (
                _assembled(artifact, options.build_dir, options.platform, one) for one in (options.good, options.bad)
            )
            culprit = _files(runner, options.build_dir / "bisect.mix", *ends)
        else:
            search = _files if options.axis == "kernel" else _hunks
            scratch = options.build_dir / "bisect.revisions"
            good, bad = (_end(*end, artifact.root, scratch) for end in (("GOOD", options.good), ("BAD", options.bad)))
            culprit = search(runner, options.build_dir / "bisect.mix", good, bad)
    return _report(runner, options.axis, culprit)


def _end(option: str, named: str, artifact: Path, scratch: Path) -> Path:
    """Return the artifact at an end: a path, a name beside ``artifact``, or ``artifact`` at a revision of its
    repository, which is written below ``scratch``.
    """
    places = (artifact.parent, os.environ.get("PYPTO_PROG_BUILD_DIR") or "build_output")
    try:
        return resolve_jit(named, *places, option=option)
    except ArtifactError:
        commit = git.find_commit("-C", str(artifact), revision=named)
        if not commit:
            raise
    return _at_commit(artifact, commit, scratch / commit[:12], f"{option}={named}")


def _at_commit(artifact: Path, commit: str, directory: Path, option: str) -> Path:
    """Write the artifact of a commit, with the data of today where the commit has none."""
    shutil.rmtree(directory, ignore_errors=True)
    root, packed = directory / artifact.name, directory / "files.tar"
    root.mkdir(parents=True)
    run = git.run_git("-C", str(artifact), "archive", f"--output={packed.resolve()}", commit)
    if run.returncode:
        raise _Ends(f"{option}: the commit does not have {artifact.name}: {git.reason(run)}; name another one")
    checks: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Debian's 3.11.2 has none
    with tarfile.open(packed) as files:
        files.extractall(root, **checks)
    if not (root / "data").exists() and (artifact / "data").is_dir():
        shutil.copytree(artifact / "data", root / "data")
    return root


def _ends(runner: Runner, good: Trial, bad: Trial, names: tuple[object, object]) -> None:
    """Try both ends: the bad one defines the failure, and the good one must not show it."""
    if good.outcome != "good":
        raise _Ends(
            f"GOOD={names[0]}: does not pass ({good.signatures[0]}, see {runner.log}); name a version that passes"
        )
    if runner.record.bad_signature:
        return
    failures = [one for one in bad.signatures if one != "pass"]
    if not failures:
        raise _Ends(f"BAD={names[1]}: passes; name a version that fails, or raise REPEATS= if it fails only sometimes")
    runner.record.bad_signature = failures[0]
    bad.outcome = "bad"
    runner.save()
    print(f"[bisect] a step counts as bad if it shows: {failures[0]}", flush=True)


def _revisions(runner: Runner, artifact: Artifact, axis: str, good: str, bad: str) -> list[str]:
    """Return the first commit from ``good`` to ``bad`` that shows the failure."""
    repository = pins.Repository(_PROJECT[axis])
    first, last = (pins.find_commit(repository, revision) for revision in (good, bad))
    if not repository.is_ancestor(first, last):
        raise _Ends(f"GOOD={good}: BAD={bad} is not a descendant of this commit; name an ancestor of BAD=")
    commits = repository.between(first, last)
    if len(commits) < 2:
        raise _Ends(f"GOOD={good}: is the same commit as BAD={bad}; name two different commits")

    def step(commit: str) -> Trial:
        return runner.run(commit, artifact.root, [_FLAG[axis], commit])

    _ends(runner, step(commits[0]), step(commits[-1]), (good, bad))
    return [repository.describe(commit) for commit in first_bad(commits, lambda commit: step(commit).outcome)]


def _files(runner: Runner, mix: Path, good: Path, bad: Path) -> list[str]:
    """Return the files that make ``good`` fail if they are taken from ``bad``."""
    parts = _parts(good, bad)

    def candidate(chosen: Sequence[str], directory: Path) -> Candidate:
        copy = _copied(good, directory)
        for part in chosen:
            shutil.copyfile(bad / part, copy / part)
        return Candidate(", ".join(chosen) or "no file", copy, [])

    return _smallest(runner, parts, candidate, mix, (good, bad))


def _smallest(
    runner: Runner,
    parts: Sequence[str],
    candidate: Callable[[Sequence[str], Path], Candidate],
    mix: Path,
    names: tuple[object, object],
) -> list[str]:
    """Return the parts that make a candidate fail; each candidate is made in its own directory below ``mix``."""

    def step(chosen: Sequence[str]) -> Trial:
        one = candidate(chosen, mix)
        return runner.run(one.name, one.artifact, one.options)

    def prefetch(sets: Sequence[Sequence[str]]) -> None:
        if runner.has_farm:
            runner.prefetch([candidate(one, mix / str(number)) for number, one in enumerate(sets)])

    prefetch([[], parts])
    _ends(runner, step([]), step(parts), names)
    return smallest_bad(parts, lambda chosen: step(chosen).outcome, prefetch)


def _hunks(runner: Runner, mix: Path, good: Path, bad: Path) -> list[str]:
    """Return the lines that make ``good`` fail if they are changed to those of ``bad``."""
    hunks = {
        hunk.place: hunk
        for part in _parts(good, bad)
        for hunk in hunks_of(part, read_source(good / part), read_source(bad / part))
    }

    def candidate(chosen: Sequence[str], directory: Path) -> Candidate:
        copy = _copied(good, directory)
        apply(copy, [hunks[one] for one in chosen])
        return Candidate(", ".join(chosen) or "no hunk", copy, [])

    return _smallest(runner, list(hunks), candidate, mix, (good, bad))


def _assembled(artifact: Artifact, build_dir: Path, platform: str, assembler: str) -> Path:
    """Return a copy of the artifact, in its own directory, with all modules assembled by ``assembler``."""
    if assembler != _OWN and shutil.which(assembler) is None:
        raise _Ends(f"{assembler}: no such program; name a ptoas executable, or 'own' for the built-in assembler")
    label = hashlib.sha256(assembler.encode()).hexdigest()[:8]
    modules, output = (build_dir / f"bisect.{kind}" / label / artifact.root.name for kind in ("modules", "assembled"))
    shutil.rmtree(modules.parent, ignore_errors=True)
    shutil.copytree(artifact.root, modules)
    for path in (*modules.glob("kernels/**/*.cpp"), *modules.glob("ptoas/*.cpp")):
        path.unlink()
    words = [*own_tool("pypto_build.compiler.complete"), str(modules), "--platform", platform, "--output", str(output)]
    words += [] if assembler == _OWN else ["--ptoas", assembler]
    run = subprocess.run(words, capture_output=True, text=True, env=own_environment(), check=False)
    if run.returncode:
        raise _Ends(f"{assembler}: {(run.stderr.strip().splitlines() or ['cannot assemble the modules'])[-1]}")
    return output


def _parts(good: Path, bad: Path) -> list[str]:
    """Return the files that differ between two artifacts."""
    parts = _different(load_artifact(good), load_artifact(bad))
    if not parts:
        raise _Ends(f"GOOD={good}: has the same kernels and orchestration as BAD={bad}; name two artifacts that differ")
    return parts


def _copied(good: Path, mix: Path) -> Path:
    """Return a new copy of an artifact."""
    shutil.rmtree(mix, ignore_errors=True)
    return shutil.copytree(good, mix / good.name)


def _flags(runner: Runner, artifact: Artifact, good: str, bad: str) -> list[str]:
    """Return the flags of ``bad`` that make the run fail if they are added to those of ``good``."""
    base, words = shlex.split(good), shlex.split(bad)
    parts = [word for word in words if word not in base]
    if not parts:
        raise _Ends(f"BAD={bad}: has no flag that GOOD={good} lacks; add a flag")

    def candidate(chosen: Sequence[str], _: Path) -> Candidate:
        flags = shlex.join([*base, *chosen])
        return Candidate(flags or "no flag", artifact.root, [f"--kernel-flags={flags}"] if flags else [])

    return _smallest(runner, parts, candidate, Path(), (good, bad))


def _different(good: Artifact, bad: Artifact) -> list[str]:
    """Return the files of kernels and of the orchestration with different content, relative to the artifact."""
    theirs = {kernel.name: kernel.source for kernel in bad.kernels}
    names = {kernel.name for kernel in good.kernels}
    if names != set(theirs):
        only = ", ".join(sorted(names ^ set(theirs)))
        raise _Ends(
            f"BAD={bad.root}: has other kernels than GOOD={good.root} ({only}); compile both artifacts from one program"
        )
    pairs = [(kernel.source, theirs[kernel.name]) for kernel in good.kernels]
    pairs.append((good.orchestration.source, bad.orchestration.source))
    return [
        str(one.relative_to(good.root))
        for one, other in pairs
        if one.is_relative_to(good.root) and one.read_bytes() != other.read_bytes()
    ]


def _digest(artifact: Artifact) -> str:
    digest = hashlib.sha256()
    for path in artifact.sources:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _report(runner: Runner, axis: str, culprit: list[str]) -> int:
    runner.record.culprit = culprit
    runner.save()
    steps = runner.record.steps
    skipped = [step for step in steps if step.outcome == "skip"]
    is_exact = axis not in _PROJECT or len(culprit) == 1
    print(f"[bisect] {len(steps)} steps, {len(skipped)} skipped; a bad step shows: {runner.record.bad_signature}")
    print(f"[bisect] {'culprit' if is_exact else 'one of these, since some could not be tested'}:")
    for one in culprit:
        print(f"  {one}")
    return 0 if is_exact else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pypto_build.interop.bisect", description=(__doc__ or "").splitlines()[0], allow_abbrev=False
    )
    add = parser.add_argument
    add("artifact", type=Path, metavar="ARTIFACT_DIR", help="the artifact's directory")
    add("--platform", default="a2a3sim", help="what it is replayed on")
    add("--build-dir", type=Path, required=True, metavar="OUT", help="gets bisect.json, bisect.log and what is built")
    add("--axis", required=True, choices=AXES, help="what differs between the good and the bad end")
    add("--good", required=True, metavar="G", help="an end that passes")
    add("--bad", required=True, metavar="B", help="an end that fails")
    add("--repeats", type=int, default=1, metavar="N", help="runs of each step, for failures that come and go (1)")
    add("--simpler", default="", metavar="S", help="the simpler of the other axes that need one")
    add("--data", metavar="DIR", help="another directory with in/ and out/ than the artifact's data/")
    add("--rtol", metavar="R", help="relative tolerance")
    add("--atol", metavar="A", help="absolute tolerance")
    add("--jobs", type=int, default=0, metavar="N", help="so many workers, where --scheduler is local (all processors)")
    add_farm_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
