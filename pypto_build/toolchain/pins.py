"""Revisions of the projects that simpler's side of the house needs, each in a directory of its own.

``third_party/pins.toml`` says which are known good and where they are to be had. ``SIMPLER=`` and ``PTO_ISA=`` name
another: a revision, ``PATH@REVISION`` for one of a local clone, or a path that is taken as it is. Revisions are checked
out below the cache from a repository of our own there, which takes objects from local clones and, when `scons fetch`
asks for it, from the network; the clones themselves are only read.
"""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from pypto_build.toolchain.errors import ToolchainError

PINS_FILE = Path(__file__).resolve().parents[2] / "third_party" / "pins.toml"
SIMPLER, PTO_ISA, PTOAS = "simpler", "pto-isa", "ptoas"
#: The option that names a revision, and the variable with the command that builds one.
OPTION = {SIMPLER: "SIMPLER", PTO_ISA: "PTO_ISA", PTOAS: "PTOAS_SOURCE"}
BUILD_VARIABLE = {SIMPLER: "SIMPLER_BUILD"}
_BUILD = {
    SIMPLER: f"{shlex.quote(sys.executable)} -m pypto_build.toolchain.simpler_build {{source}} --python {{python}}"
}

_REVISION = re.compile(r"[0-9A-Za-z][0-9A-Za-z._/-]*([~^][0-9]*)*")
_BUILT = ".pypto-built"


class Pin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A known good revision, and where the project is to be had."""

    revision: str
    url: str


def read_pins(path: Path = PINS_FILE) -> dict[str, Pin]:
    """The pins by project. Raises `ToolchainError` if the file is not as it should be."""
    try:
        return msgspec.toml.decode(path.read_bytes(), type=dict[str, Pin])
    except OSError as error:
        raise ToolchainError(f"{path}: cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise ToolchainError(f"{path}: {error}") from None


def cache_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """Where repositories and checkouts are kept."""
    root = environment.get("PYPTO_BUILD_CACHE") or Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(root if environment.get("PYPTO_BUILD_CACHE") else Path(root, "pypto-build"), "pins")


class Repository:
    """Our own repository of one project, without a work tree, and the checkouts made from it."""

    def __init__(self, project: str, cache: Path | None = None) -> None:
        self.project = project
        self.directory = (cache or cache_dir()) / project
        self._git_dir = self.directory / "repo.git"

    def fetch(self, source: str) -> None:
        """Take all branches and tags of ``source``, a local clone or an address. Raises `ToolchainError`."""
        if not self._git_dir.is_dir():
            self.directory.mkdir(parents=True, exist_ok=True)
            self._git("init", "--bare", "--quiet", str(self._git_dir))
        name = _slug(source)
        references = [
            f"+refs/heads/*:refs/{name}/heads/*",
            f"+refs/remotes/*:refs/{name}/remotes/*",
            "+refs/tags/*:refs/tags/*",
        ]
        references.append(f"+HEAD:refs/{name}/HEAD")
        run = self._run("fetch", "--quiet", "--no-auto-gc", source, *references)
        if run.returncode:
            problem = _first_line(run.stderr)
            raise ToolchainError(
                f"{source}: cannot be fetched: {problem}; name a clone or an address of {self.project}"
            )

    def commit(self, revision: str) -> str | None:
        """The full name of a commit that is here already, None if it is not; a branch is one of the pinned address."""
        if not self._git_dir.is_dir() or not _REVISION.fullmatch(revision):
            return None
        for name in (revision, f"refs/{_slug(read_pins()[self.project].url)}/heads/{revision}"):
            run = self._run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
            if run.returncode == 0:
                return run.stdout.strip()
        return None

    def between(self, good: str, bad: str) -> list[str]:
        """The commits from ``good`` to ``bad``, both included, the oldest first."""
        listed = self._git("rev-list", "--first-parent", "--reverse", f"{good}..{bad}").split()
        return [good, *listed]

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Whether ``newer`` came from ``older``."""
        return self._run("merge-base", "--is-ancestor", older, newer).returncode == 0

    def describe(self, commit: str) -> str:
        """A commit for people: its short name, date and subject."""
        return self._git("show", "--no-patch", "--format=%h %cs %s", commit).strip()

    def checkout(self, commit: str) -> Path:
        """The directory with the files of ``commit``, made on first use and only read after."""
        place = self.directory / commit[:12]
        with _locked(self.directory / f"{commit[:12]}.lock"):
            if not (place / ".git").exists():
                self._git("worktree", "prune")
                self._git("worktree", "add", "--force", "--detach", "--quiet", str(place), commit)
            elif self._run("status", "--porcelain", "--untracked-files=no", work_tree=place).stdout.strip():
                raise ToolchainError(f"{place}: was changed by hand; remove the directory, it is made again")
        return place

    def _git(self, *words: str) -> str:
        run = self._run(*words)
        if run.returncode:
            raise ToolchainError(f"git {words[0]} in {self._git_dir} failed: {_first_line(run.stderr)}")
        return run.stdout

    def _run(self, *words: str, work_tree: Path | None = None) -> subprocess.CompletedProcess[str]:
        place = ["-C", str(work_tree)] if work_tree else ["--git-dir", str(self._git_dir)]
        place = [] if words[0] == "init" else place
        environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        environment |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
        try:
            return subprocess.run(["git", *place, *words], capture_output=True, text=True, env=environment, check=False)
        except FileNotFoundError:
            raise ToolchainError("git: not found on PATH; install it to use revisions") from None


def _slug(source: str) -> str:
    """A source as a part of a reference's name."""
    return re.sub(r"[^0-9A-Za-z]+", "-", source).strip("-") or "source"


def resolve(project: str, chosen: str, cache: Path | None = None) -> Path:
    """The directory of what ``chosen`` names: a path as it is, else the checkout of a revision. Never uses a network.

    Raises:
        ToolchainError: there is no such revision here, or no such path.
    """
    option = OPTION[project]
    if (os.sep in chosen and "@" not in chosen) or chosen in (".", "..") or Path(chosen).is_dir():
        path = Path(os.path.abspath(Path(chosen).expanduser()))
        if not path.is_dir():
            raise ToolchainError(f"{option}={chosen}: no such directory; name a checkout or a revision")
        return path
    repository = Repository(project, cache)
    return repository.checkout(find_commit(repository, chosen))


def find_commit(repository: Repository, chosen: str) -> str:
    """The commit that ``REVISION`` or ``PATH@REVISION`` names, taken from the local clone if it is not here yet."""
    option = OPTION[repository.project]
    clone, _, revision = chosen.rpartition("@")
    if clone:
        if not Path(clone).expanduser().is_dir():
            raise ToolchainError(f"{option}={chosen}: {clone} is no directory; name a clone before the '@'")
        repository.fetch(str(Path(clone).expanduser().resolve()))
        head = _resolve_in(Path(clone).expanduser(), revision)
        revision = head or revision
    commit = repository.commit(revision)
    if commit is None:
        where = f"is not in {clone}" if clone else "is not in the cache"
        way_out = (
            "git log there lists what is" if clone else f"name a clone with {option}=PATH@{revision}, or scons fetch"
        )
        raise ToolchainError(f"{option}={chosen}: revision {revision} {where}; {way_out}")
    return commit


def _resolve_in(clone: Path, revision: str) -> str:
    """What a clone calls ``revision``: its own branches, not ours."""
    run = subprocess.run(
        ["git", "-C", str(clone), "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"],
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stdout.strip()


def build(project: str, place: Path, python: str, environment: Mapping[str, str] = os.environ) -> None:
    """Build a checkout, once for each command: the user's, or the project's own.

    ``{python}`` and ``{source}`` in a command stand for the interpreter that will import it and for the checkout.

    Raises:
        ToolchainError: it failed.
    """
    variable = BUILD_VARIABLE[project]
    marker, command = place / _BUILT, environment.get(variable) or _BUILD[project]
    words = [word.format(python=python, source=place) for word in shlex.split(command)]
    with _locked(place.with_name(f"{place.name}.lock")):
        if marker.is_file() and marker.read_text(encoding="utf-8") == shlex.join(words):
            return
        print(f"[pins] build {project} {place.name}", flush=True)
        run = subprocess.run(words, cwd=place, env=dict(environment), stdin=subprocess.DEVNULL, check=False)
        if run.returncode:
            raise ToolchainError(
                f"{place}: the build failed with exit status {run.returncode}; see its output above, "
                f"or set {variable} to a command that builds {project}"
            )
        marker.write_text(shlex.join(words), encoding="utf-8")


def wanted_isa(simpler: Path) -> str:
    """The revision of pto-isa that a checkout of simpler names (since June 2026); empty where it names none."""
    try:
        return (simpler / "pto_isa.pin").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def revision(path: Path) -> str:
    """The commit that a checkout is at, with a mark if files differ from it; empty for a directory that is none."""
    commit = _head(path)
    return commit + "+" if uncommitted(path) else commit


def uncommitted(path: Path) -> list[str]:
    """Files of a checkout that differ from its revision; none for a directory that is no checkout."""
    if not _head(path):
        return []
    run = subprocess.run(
        ["git", "-C", str(path), "status", "--porcelain", "--untracked-files=no"],
        capture_output=True,
        text=True,
        check=False,
    )
    return [line[3:] for line in run.stdout.splitlines()]


def _head(path: Path) -> str:
    """The commit that a checkout is at; empty for any other directory, below one or not."""
    command = ["git", "-C", str(path), "rev-parse", "--show-toplevel", "HEAD"]
    top, _, commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.partition("\n")
    return commit.strip() if commit and Path(top).resolve() == path.resolve() else ""


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _first_line(text: str) -> str:
    lines = [line.removeprefix("fatal: ").removeprefix("error: ") for line in text.splitlines() if line.strip()]
    return lines[0] if lines else "git gave no reason"
