"""Checks out revisions of simpler and pto-isa, each in a directory of its own.

``pins.toml`` lists the revisions that are known to be good, and their addresses. ``SIMPLER=`` and ``PTO_ISA=`` name
another one: a revision, ``PATH@REVISION`` of a local clone, or a path that is used as it is. Revisions are checked out
below the cache, from a repository of our own there. This repository takes objects from local clones, and from the
network when `scons fetch` asks for it. The clones themselves are only read.
"""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from pypto_build.artifact.files import read_text
from pypto_build.toolchain import ToolchainError, git
from pypto_build.toolchain.cache import cache_dir
from pypto_build.toolchain.python import own_tool

PINS_FILE = Path(__file__).with_name("pins.toml")
SIMPLER, PTO_ISA = "simpler", "pto-isa"
#: The option that names a revision, and the variable with the command that builds one.
OPTION = {SIMPLER: "SIMPLER", PTO_ISA: "PTO_ISA"}
BUILD_VARIABLE = {SIMPLER: "SIMPLER_BUILD"}
_BUILD = {SIMPLER: f"{shlex.join(own_tool('pypto_build.toolchain.simpler_build'))} {{source}} --python {{python}}"}

_REVISION = re.compile(r"[0-9A-Za-z][0-9A-Za-z._/-]*([~^][0-9]*)*")
_BUILT = ".pypto-built"
_LONGEST_LINE = 4096


class Pin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A known good revision, and where to get the project."""

    revision: str
    url: str


def read_pins(path: Path = PINS_FILE) -> dict[str, Pin]:
    """Return the pins by project. Raises `ToolchainError` if the file is damaged."""
    try:
        text = read_text(path)
        # A key of many parts takes the parser the square of their number.
        if (longest := max(map(len, text.splitlines()), default=0)) > _LONGEST_LINE:
            raise ToolchainError(
                f"{path}: has a line of {longest} characters, which is too long for a revision or "
                "address; correct the file"
            )
        return msgspec.toml.decode(text, type=dict[str, Pin])
    except OSError as error:
        raise ToolchainError(f"{path}: cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        reason = "is nested too deeply" if isinstance(error, RecursionError) else str(error)[:300]
        raise ToolchainError(f"{path}: {reason}") from None


def pins_dir() -> Path:
    """Return the directory of our repositories and checkouts."""
    return cache_dir() / "pins"


class Repository:
    """This package's own repository of one project, without a work tree, and its checkouts."""

    def __init__(self, project: str, cache: Path | None = None) -> None:
        self.project = project
        self.directory = (cache or pins_dir()) / project
        self._git_dir = self.directory / "repo.git"

    def fetch(self, source: str) -> None:
        """Take all branches and tags of ``source``, a local clone or an address. Raises `ToolchainError`."""
        if not self._git_dir.is_dir():
            self.directory.mkdir(parents=True, exist_ok=True)
            self._git("init", "--bare", "--quiet")
        name = _slug(source)
        references = [
            f"+refs/heads/*:refs/{name}/heads/*",
            f"+refs/remotes/*:refs/{name}/remotes/*",
            "+refs/tags/*:refs/tags/*",
            f"+HEAD:refs/{name}/HEAD",
        ]
        run = self._run("fetch", "--quiet", "--no-auto-gc", source, *references)
        if run.returncode:
            way_out = f"name a clone or an address of {self.project}"
            raise ToolchainError(f"{source}: the clone cannot be fetched: {git.reason(run)}; {way_out}")

    def commit(self, revision: str) -> str | None:
        """Return the full name of a commit in the local repository, None if it is missing; a branch is that of the
        pinned address.
        """
        if not self._git_dir.is_dir() or not _REVISION.fullmatch(revision):
            return None
        names = (revision, f"refs/{_slug(read_pins()[self.project].url)}/heads/{revision}")
        commits = (git.find_commit("--git-dir", str(self._git_dir), revision=name) for name in names)
        return next(filter(None, commits), None)

    def between(self, good: str, bad: str) -> list[str]:
        """Return the commits from ``good`` to ``bad``, both included, the oldest first."""
        listed = self._git("rev-list", "--first-parent", "--reverse", f"{good}..{bad}").split()
        return [good, *listed]

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Return True if ``older`` is an ancestor of ``newer``."""
        return self._run("merge-base", "--is-ancestor", older, newer).returncode == 0

    def describe(self, commit: str) -> str:
        """Return a commit for people: its short name, date and subject."""
        return self._git("show", "--no-patch", "--format=%h %cs %s", commit).strip()

    def checkout(self, commit: str) -> Path:
        """Return the directory with the files of ``commit``, written on first use and only read after."""
        directory = self.directory / commit[:12]
        with _locked(self.directory / f"{commit[:12]}.lock"):
            if not (directory / ".git").exists():
                self._git("worktree", "prune")
                self._git("worktree", "add", "--force", "--detach", "--quiet", str(directory), commit)
            elif git.changed_files(directory):
                raise ToolchainError(
                    f"{directory}: has files that were changed by hand; remove the directory, and it is "
                    "checked out again"
                )
        return directory

    def _git(self, *words: str) -> str:
        run = self._run(*words)
        if run.returncode:
            raise ToolchainError(f"git {words[0]} in {self._git_dir} failed: {git.reason(run)}")
        return run.stdout

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return git.run_git("--git-dir", str(self._git_dir), *words)


def _slug(source: str) -> str:
    """Return a source as a component of a reference's name."""
    return re.sub(r"[^0-9A-Za-z]+", "-", source).strip("-") or "source"


def resolve(project: str, chosen: str, cache: Path | None = None, option: str = "") -> Path:
    """Return the directory that ``chosen`` names: a path, or the checkout of a revision. Never uses a network.
    ``option`` is what messages call the option where it is not the project's.

    Raises:
        ToolchainError: the revision or path does not exist here.
    """
    option = option or OPTION[project]
    if (os.sep in chosen and "@" not in chosen) or chosen in (".", "..") or Path(chosen).is_dir():
        path = Path(os.path.abspath(Path(chosen).expanduser()))
        if not path.is_dir():
            raise ToolchainError(
                f"{option}={chosen}: no such directory; name the directory of a checkout, or a revision"
            )
        return path
    repository = Repository(project, cache)
    return repository.checkout(find_commit(repository, chosen))


def find_commit(repository: Repository, chosen: str) -> str:
    """Return the commit that ``REVISION`` or ``PATH@REVISION`` names; it is fetched from the local clone if
    necessary.
    """
    option = OPTION[repository.project]
    clone, _, revision = chosen.rpartition("@")
    if clone:
        if not Path(clone).expanduser().is_dir():
            raise ToolchainError(
                f"{option}={chosen}: {clone} is not a directory; before the '@', name the directory of a clone"
            )
        repository.fetch(str(Path(clone).expanduser().resolve()))
        # The clone's own meaning of that name: its branches are not ours.
        revision = git.find_commit("-C", str(Path(clone).expanduser()), revision=revision) or revision
    commit = repository.commit(revision)
    if commit is None:
        where = f"is not in {clone}" if clone else "is not in the cache"
        way_out = (
            "git log there lists what is" if clone else f"name a clone with {option}=PATH@{revision}, or scons fetch"
        )
        raise ToolchainError(f"{option}={chosen}: revision {revision} {where}; {way_out}")
    return commit


def build(project: str, source: Path, python: str, environment: Mapping[str, str] = os.environ) -> None:
    """Build a checkout, once for each command: the user's, or the project's own.

    ``{python}`` and ``{source}`` in a command stand for the interpreter that will import it and for the checkout.

    Raises:
        ToolchainError: it failed.
    """
    variable = BUILD_VARIABLE[project]
    marker, command = source / _BUILT, environment.get(variable) or _BUILD[project]
    words = [word.format(python=python, source=source) for word in shlex.split(command)]
    with _locked(source.with_name(f"{source.name}.lock")):
        if marker.is_file() and marker.read_text(encoding="utf-8") == shlex.join(words):
            return
        print(f"[pins] build {project} {source.name}", flush=True)
        run = subprocess.run(words, cwd=source, env=dict(environment), stdin=subprocess.DEVNULL, check=False)
        if run.returncode:
            raise ToolchainError(
                f"{source}: the build failed with exit status {run.returncode}; see its output above, "
                f"or set {variable} to a command that builds {project}"
            )
        marker.write_text(shlex.join(words), encoding="utf-8")


def pinned_isa(simpler: Path) -> str:
    """Return the revision of pto-isa that a checkout of simpler names (since June 2026); empty where it names none."""
    try:
        return read_text(simpler / "pto_isa.pin").strip()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise ToolchainError(f"{simpler / 'pto_isa.pin'}: cannot be read: {error.strerror}; restore it") from None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
