"""The tested installation: an environment with pypto_build in it, known by its interpreter alone."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.forked import ForkServer
from tests.trust.commands import Done, run

#: Names the interpreter of the environment that is tested, where no option does.
VARIABLE = "TRUST_PYTHON"

# What of the surroundings could decide a result; a test that wants one of these sets it itself.
_HIDDEN = (
    "PYPTO_", "PTO2_", "PTOAS_", "PYTHON", "PYTEST_", "LD_", "GCC_", "SCONS", "CPATH", "C_INCLUDE", "CPLUS_INCLUDE",
    "LIBRARY_PATH", "COMPILER_PATH", "SOURCE_DATE", "TRUST_", "SIMPLER", "CXX", "CC", "ALLOW_", "DEPENDENCIES_OUTPUT",
)  # fmt: skip


@dataclass(frozen=True)
class Tested:
    """The environment that is tested, and a private directory ``home`` for what tests share.

    ``forks`` is what commands are forked from as long as nobody edits the package: real processes take longer.
    """

    __test__ = False  # to pytest

    python: Path
    home: Path
    variables: dict[str, str] = field(default_factory=dict)
    forks: ForkServer | None = field(default=None, compare=False)

    @classmethod
    def prepare(cls, home: Path, python: str = "") -> Tested:
        """Have the runtime built and the module artifact compiled in ``home``, once for all that share it."""
        home.mkdir(parents=True, exist_ok=True)
        # not resolved: an environment's interpreter is a link to another's
        tested = cls(Path(os.path.abspath(python or os.environ.get(VARIABLE) or sys.executable)), home)
        from tests.trust.compilers import prepare_runtime  # what they need is this class
        from tests.trust.space import prepare_shared

        with locked(home / ".lock"):
            if not (home / "ready").exists():
                prepare_shared(tested)
                prepare_runtime(tested)
                (home / "ready").touch()
        return tested.with_forks()

    @property
    def runtime(self) -> Path:
        """The runtime's module, which all caches begin with."""
        return self.home / "runtime"

    @property
    def witness(self) -> Path:
        """The library that watches tools, which all caches begin with."""
        return self.home / "witness"

    @property
    def known(self) -> Path:
        """Return a cache in which the chain was built once, with another first kernel."""
        return self.home / "known"

    def new_cache(self, directory: Path, is_kept: bool = False) -> Path:
        """A cache with nothing but the runtime's module and the library that watches tools, or with what is known."""
        directory.mkdir(parents=True)
        if is_kept:
            shutil.copytree(self.known, directory, dirs_exist_ok=True)
        shutil.copytree(self.witness, directory / "witness")
        shutil.copytree(self.runtime, directory / "runtime", symlinks=True)
        return directory

    def environment(self, cache: Path) -> dict[str, str]:
        """The environment variables of a command."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_HIDDEN)}
        own = {
            "PATH": f"{self.python.parent}:{kept.get('PATH', os.defpath)}",
            "HOME": str(self.home),
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            "PYPTO_BUILD_SERVER": "0",
            "PYPTO_BUILD_CACHE": str(cache),
        }
        return kept | own | self.variables

    def ask(self, code: str) -> str:
        """Return the output of Python code in the tested environment."""
        done = run([str(self.python), "-c", code], self.home, self.environment(self.home / "cache"))
        assert done.status == 0, done
        return done.output.strip()

    def with_own_package(self, directory: Path) -> Tested:
        """The same environment with a copy of pypto_build in ``directory``, to be edited."""
        package = Path(self.ask("import pypto_build; print(pypto_build.__path__[0])"))
        shutil.copytree(package, directory / "pypto_build", symlinks=True)
        return self.with_path(directory)

    def with_path(self, *directories: Path) -> Tested:
        """The same environment with more directories of modules."""
        path = ":".join(map(str, directories))
        earlier = self.variables.get("PYTHONPATH")
        variables = self.variables | {"PYTHONPATH": f"{path}:{earlier}" if earlier else path}
        return replace(self, variables=variables, forks=None)

    def with_forks(self) -> Tested:
        """The same environment, whose commands are forked where it is that of this process's interpreter."""
        if str(self.python) != sys.executable:
            return self
        return replace(self, forks=ForkServer(self.environment(self.home / "cache")))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def tree_digest(root: Path, without: Sequence[str] = ()) -> str:
    """A digest over names, kinds and content of everything below ``root``, except below names in ``without``."""
    digest = hashlib.sha256()
    for directory, names, files in os.walk(root):
        names[:] = sorted(name for name in names if name not in without)
        for name in sorted(files + [name for name in names if os.path.islink(os.path.join(directory, name))]):
            path = Path(directory, name)
            target = os.readlink(path) if path.is_symlink() else ""
            content = path.read_bytes() if path.is_file() else b""
            digest.update(f"{path.relative_to(root)} {path.lstat().st_mode:o} {target} {len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()


def must(done: Done) -> Done:
    """That a command on which everything else rests did what it should."""
    if done.status or done.late:
        raise RuntimeError(f"cannot prepare\n{done}")
    return done
