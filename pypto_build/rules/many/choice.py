"""Chooses the jobs of a command: artifacts by names, globs and lists, times platforms, or a share of them."""

from __future__ import annotations

import difflib
import fnmatch
import glob
import hashlib
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pypto_build.artifact import ArtifactError, artifact_name, is_artifact, named_exactly, resolve_jit
from pypto_build.artifact.files import read_bytes
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.facts.verbs import VERBS, Needs
from pypto_build.rules.many import OF_ALL, SIGNS
from pypto_build.rules.options import OptionError, parse_options
from pypto_build.rules.outcomes import FILES
from pypto_build.rules.targets import OF_AN_ARTIFACT, TARGETS, check_taken

_ALONE = ("WATCH", "PROFILE")
_NAMED = 10


@dataclass(frozen=True)
class Job:
    """One artifact on one platform, with the options that its line of a list gives it."""

    root: Path
    platform: str
    options: Mapping[str, str] = field(default_factory=dict)
    tags: frozenset[str] = frozenset()
    title: str = ""  # of a test, which has a name

    @property
    def name(self) -> str:
        """Return the artifact's name."""
        return artifact_name(self.root)

    @property
    def label(self) -> str:
        """Return the job's label for users and for the history: the artifact and its options."""
        pairs = (f"{name}={value}" for name, value in self.options.items())
        return self.title or " ".join([self.name, self.platform, *pairs])


def choose(arguments: Mapping[str, str], targets: Sequence[str], build_output: Path, examples: Path) -> list[Job]:
    """Return the jobs that a command line means, in the order in which they were named; a single job for an ordinary
    command.

    Raises:
        ArtifactError, OptionError: an artifact, platform, tag, share or option that is none.
    """
    platforms = _listed("PLATFORM", arguments.get("PLATFORM", "")) or [parse_options({})["PLATFORM"]]
    if unknown := [name for name in platforms if name not in PLATFORMS]:
        raise OptionError(f"PLATFORM={unknown[0]}: is not a platform; use some of {', '.join(PLATFORMS)}")
    selected: dict[str, Job] = {}
    for pattern, options, tags in _lines(arguments["JIT"], build_output, examples):
        own = {name: value for name, value in options.items() if name != "PLATFORM"}
        for root in _matches(pattern, build_output, examples):
            for platform in _listed("PLATFORM", options.get("PLATFORM", "")) or platforms:
                job = Job(root, platform, own, tags)
                _check_name(selected.setdefault(job.label, job), job)
    jobs = _tagged(list(selected.values()), arguments.get("TAGS", ""))
    return _share(jobs, arguments.get("SHARD", ""))


def check(jobs: Sequence[Job], arguments: Mapping[str, str], targets: Sequence[str]) -> None:
    """Raise for targets that work on one artifact, and for options that nothing takes."""
    for target in targets:
        if target not in TARGETS:  # mistyped, or a workspace's own
            near = difflib.get_close_matches(target, OF_AN_ARTIFACT, n=1)
            hint = f"did you mean {near[0]}?" if near else "name one artifact"
            raise ArtifactError(f"scons {target}", "takes only one artifact", hint)
        verb = VERBS.get(target)
        if target not in OF_AN_ARTIFACT or target in ("pto_diff", "graph") or (verb and verb.needs is Needs.FILES):
            names = [job.name for job in jobs]
            listed = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
            reason = f"means {len(jobs)} artifacts, and 'scons {target}' works on one"
            raise ArtifactError(f"JIT={arguments['JIT']}", reason, f"pick one of {listed}")
    for with_options in {tuple(job.options.items()): job for job in jobs}.values():
        _check_options({**arguments, **with_options.options}, targets)


def _check_options(arguments: Mapping[str, str], targets: Sequence[str]) -> None:
    alone = [name for name in _ALONE if arguments.get(name, "0") not in ("", "0")]
    if alone:
        raise OptionError(
            f"{alone[0]}={arguments[alone[0]]}: works on one artifact only; leave it out, or name one "
            "artifact with JIT="
        )
    others = {name: value for name, value in arguments.items() if name not in ("PLATFORM", *FILES, "ANNOTATE", "TAGS")}
    parse_options(others)
    check_taken(others, targets)


def _listed(option: str, text: str) -> list[str]:
    """Return the words between commas. Raises `ArtifactError` for commas alone, which name nothing."""
    words = list(filter(None, map(str.strip, text.split(","))))
    if text and not words:
        raise ArtifactError(f"{option}={text}", "contains no name", "separate names by commas")
    return words


def _lines(jit: str, *places: Path) -> Iterator[tuple[str, dict[str, str], frozenset[str]]]:
    """Yield patterns with their options and tags. Raises `ArtifactError` where there are none."""
    if not jit.startswith("@"):
        for pattern in [jit] if os.path.exists(jit) or named_exactly(jit, *places) else _listed("JIT", jit):
            yield pattern, {}, frozenset()
        return
    path = Path(jit[1:]).expanduser()
    try:
        text = read_bytes(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not text"
        raise ArtifactError(f"JIT={jit}", f"the list cannot be read: {reason}", "name a file of artifacts") from None
    count = 0
    for number, line in enumerate(text.split("\n"), 1):
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise ArtifactError(f"{path}:{number}", f"is not a valid line of the list: {error}", _SHAPE) from None
        if words:
            count += 1
            yield _line(words, f"{path}:{number}")
    if not count:
        raise ArtifactError(f"JIT={jit}", "the list names no artifact", _SHAPE)


_SHAPE = "write an artifact, then NAME=value words, such as: _jit_x TAGS=fast RTOL=1e-3"


def _line(words: Sequence[str], position: str) -> tuple[str, dict[str, str], frozenset[str]]:
    pattern, *pairs = words
    options = {name: value for name, sign, value in (word.partition("=") for word in pairs) if sign}
    if len(options) < len(pairs) or "=" in pattern:
        raise ArtifactError(position, f"is not a valid line of the list: {' '.join(words)}", _SHAPE)
    tags = frozenset(_listed("TAGS", options.pop("TAGS", "")))
    wrong = next((name for name in options if name in OF_ALL - {"PLATFORM"} or name in FILES), "")
    if wrong:
        raise ArtifactError(
            position,
            f"{wrong}= applies to the whole command, not to one line of the list",
            "pass it on the command line of scons",
        )
    try:
        for platform in _listed("PLATFORM", options.get("PLATFORM", "")) or [""]:
            parse_options({**options, "PLATFORM": platform} if platform else options)
    except OptionError as error:
        raise ArtifactError(position, str(error)) from None
    return pattern, options, tags


def _matches(pattern: str, build_output: Path, examples: Path) -> list[Path]:
    """Return every artifact that a name, a path or a glob matches."""
    if not any(sign in pattern for sign in SIGNS) or named_exactly(pattern, build_output, examples):
        return [resolve_jit(pattern, build_output, examples)]
    for directory in (build_output, examples):
        if os.sep in pattern:
            paths = [Path(os.path.abspath(path)) for path in glob.glob(os.path.expanduser(pattern))]
        else:
            names = os.listdir(directory) if directory.is_dir() else []
            paths = [directory / name for name in fnmatch.filter(names, pattern)]
        if artifacts := sorted(path for path in paths if is_artifact(path)):
            return artifacts
    return [resolve_jit(pattern, build_output, examples)]  # which says what there is


def _check_name(other: Job, job: Job) -> None:
    """Raise for two artifacts of the same name: their outputs would be built over each other."""
    if other.root != job.root:
        raise ArtifactError(f"{job.root}", f"has the same name as {other.root}", "select one of the two, or rename one")


def _tagged(jobs: list[Job], text: str) -> list[Job]:
    tags = frozenset(_listed("TAGS", text))
    if not tags:
        return jobs
    if chosen := [job for job in jobs if job.tags & tags]:
        return chosen
    all_tags = sorted(frozenset().union(*(job.tags for job in jobs)))
    there_are = (
        f"there are: {', '.join(all_tags)}" if all_tags else "lines of a list have tags, as in: _jit_x TAGS=fast"
    )
    raise OptionError(f"TAGS={text}: no artifact has one of these tags; {there_are}")


def _share(jobs: list[Job], shard: str) -> list[Job]:
    """Return the jobs of one machine of several: each job is on one machine, and shares have equal sizes.

    The share depends on the jobs' labels only, so that all machines divide them alike.
    """
    if not shard:
        return jobs
    number, _, count = shard.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise OptionError(f"SHARD={shard}: is not a valid share; write SHARD=2/8 for the second of eight parts")
    ordered = sorted(jobs, key=lambda job: hashlib.sha256(job.label.encode()).digest())
    kept = set(map(id, ordered[int(number) - 1 :: int(count)]))
    return [job for job in jobs if id(job) in kept]
