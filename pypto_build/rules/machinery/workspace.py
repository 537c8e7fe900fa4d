"""State of one SCons run: its options, the toolchain, and the output directories that it has opened."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

import pypto_build
from pypto_build import terminal
from pypto_build.artifact import ArtifactError
from pypto_build.artifact.outputs import mark_output
from pypto_build.artifact.snapshot import is_reference
from pypto_build.facts.platforms import PLATFORMS, Platform
from pypto_build.facts.run_options import SIMPLER
from pypto_build.proof import OutputDir, Store, looking, witness
from pypto_build.rules.machinery.actions import Confine, run_limited
from pypto_build.rules.machinery.environment import passed_environment
from pypto_build.rules.machinery.locks import lock_output
from pypto_build.rules.machinery.manifests import EvaluatedManifests
from pypto_build.rules.machinery.progress import Progress
from pypto_build.rules.machinery.scons_types import Environment, Node
from pypto_build.rules.options import Options
from pypto_build.rules.targets import STATUS_VARIABLE
from pypto_build.rules.variants import CHECKED, FOR_SIMPLER, USUAL, WEAK, Variant, with_numerics
from pypto_build.toolchain import ToolchainError
from pypto_build.toolchain.cache import REMOTE_VARIABLE, SHIPPED, cache_dir, store_dir
from pypto_build.toolchain.forked import ForkedTools
from pypto_build.toolchain.host import HostCompiler, find_compiler
from pypto_build.toolchain.launchers import Launcher, find_launcher
from pypto_build.trace import VARIABLE as TRACE

if TYPE_CHECKING:
    from pypto_build.toolchain.simpler_home import SimplerHome

_PACKAGE = Path(pypto_build.__file__).resolve().parent
# The directory in which this package's dependencies are installed.
_PACKAGES = Path(msgspec.__file__).parents[1]
# The same of the environment, which may add to what others have.
_SITE = f"{sys.prefix}/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"

# In BUILD_DIR: the names of the tests that failed when they last ran, for FAILED=1.
FAILED_TESTS = ".failed_tests.json"
# In BUILD_DIR: the names of the tests that the SConstruct declares, a line each, for completion in shells.
DECLARED_TESTS = ".declared_tests"
#: Below BUILD_DIR: results of pytest tests, a directory for each rule.
TESTS = "tests"

# The prefix of Python itself, unless it is the system's.
_BASE = {} if sys.base_prefix in ("/usr", "/usr/local") else {"base": sys.base_prefix}

# Programs that a workspace has found on this machine; the store is opened again in any case.
_LOOKED_UP = ("compiler", "watcher", "launcher")


class Workspace:
    """State that all rules of a run share, in ``env["PYPTO"]``.

    With ``whole_graph``, proven units are declared too: for drawing the tree, or for building a file by its name.
    """

    def __init__(self, top: Path, options: Options, whole_graph: bool) -> None:
        self.top = top
        self.here = os.getcwd()  # where commands run; SCons reads each SConscript in its directory
        self.options = options
        self.whole_graph = whole_graph
        self.environment = passed_environment()  # of commands
        self.confine: Confine = as_it_is
        self.turn: Callable[[], AbstractContextManager[None]] = nullcontext  # while a command runs
        self.forks: ForkedTools | None = None  # what tools are forked from, where many are run
        self.of_batch = False  # whether this is one of many jobs
        self.output_dirs: dict[Path, OutputDir] = {}  # of every OUT, and of what all workspaces share
        self.outputs: dict[Path, Path] = {}  # OUT to the artifact's directory
        self.generated: dict[Path, Node] = {}  # the directories of artifacts that programs make, by their OUT
        self.selected: Path | None = None  # the artifact of JIT=
        self.data_dirs: set[Path] = set()  # that replays were given
        self.deferred: list[tuple[Path, Any]] = []  # what is declared later, by the OUT that it is in
        self.scripts: set[Path] = set()  # SConscripts that called a rule
        self.include_dirs: set[Path] = set()  # where the headers of the units are looked for
        self.progress = Progress()
        self._shortened: dict[str, str] = {}  # directories, for people
        self.extras: dict[str, Any] = {}  # what rules keep for this run, by their names
        self.at_start: list[Callable[[], None]] = []  # what rules do when all scripts have been read
        self.at_end: list[Callable[[], None]] = []  # what rules do when this process ends

    @property
    def build_dir(self) -> Path:
        """Return ``BUILD_DIR=`` as an absolute path."""
        path = Path(os.path.abspath(self.top / self.options["BUILD_DIR"]))
        if path == path.parent:
            reason = "is the root of the file system, and no directory for what is built"
            raise ArtifactError(f"BUILD_DIR={self.options['BUILD_DIR']}", reason, "name another directory")
        return path

    @property
    def verbose(self) -> bool:
        """Return whether ``VERBOSE=1`` is set."""
        return bool(self.options["VERBOSE"])

    def compile(self, command: list[str], env: dict[str, str], directory: Path | None = None) -> tuple[int, str]:
        """Run a compiler or linker for a unit, within limits."""
        return run_limited(command, env, self.options["COMPILE_TIMEOUT"], directory)

    @cached_property
    def store(self) -> Store:
        """Return the store of results that all workspaces of this user share, and with ``STORE_REMOTE=`` other users
        too.
        """
        size = int(self.options["STORE_SIZE"] * (1 << 30))
        url: str = self.options["STORE_REMOTE"] or os.environ.get(REMOTE_VARIABLE, "")
        if not url:
            return Store(store_dir(), size, SHIPPED)
        from pypto_build.rules.machinery.remote_store import open_store

        return open_store(store_dir(), size, url, self.options["STORE_UPLOAD"])

    @cached_property
    def watcher(self) -> Path | None:
        """Return the library that observes the reads of tools; None if it cannot be built, or cannot observe the
        compiler.
        """
        library = self._library(witness.SOURCE)
        if library is None:
            with suppress(ToolchainError):  # said by whoever needs it
                reason = witness.obstacle(self.compiler.path, self.environment)
                unkept = f"{cache_dir()} cannot be written; name another directory with PYPTO_BUILD_CACHE"
                terminal.complain(
                    "pypto-build: what tools read cannot be watched here, so nothing but the runtime is kept and a "
                    f"pass is unproven: {f'{reason}; name another compiler with CXX=' if reason else unkept}"
                )
        return library

    @cached_property
    def looker(self) -> looking.Looker:
        """Return the object that reads the metadata of many files at once."""
        return looking.Looker(cache(partial(self._library, looking.SOURCE)))

    def _library(self, source: Path) -> Path | None:
        """Return a library of this package; None if there is no compiler for it."""
        try:
            return witness.library(self.compiler.path, cache_dir() / "witness", self.environment, source)
        except ToolchainError:
            return None

    @property
    def manifests(self) -> EvaluatedManifests:
        """Return the cache of evaluated manifests."""
        return EvaluatedManifests(self.store, self.extras, self.looker)

    def output_dir(self, directory: Path, **roots: str | Path) -> OutputDir:
        """Return the output directory ``directory``; names in its records are relative to ``roots``."""
        if directory not in self.output_dirs:
            all_roots = {
                "tool": _PACKAGE,
                "python": sys.executable,
                **_BASE,
                "packages": _PACKAGES,
                "site": _SITE,
                "cache": cache_dir(),
                "here": self.here,
                "top": self.top,
                **roots,
                **self._outside,
            }
            path = self.environment.get("PATH", "")
            self.output_dirs[directory] = OutputDir(directory, self.store, all_roots, self.watcher, path, self.looker)
        return self.output_dirs[directory]

    @cached_property
    def _outside(self) -> dict[str, Path]:
        """Return the paths outside of the workspace that this run uses, by name; they may differ for other users."""
        directories = {}
        data: str = self.options["DATA"]
        if data and not is_reference(data, self.top):
            directories["data"] = Path(os.path.abspath(self.top / data))
        with suppress(ToolchainError):  # said by whoever needs it
            prefix = _prefix(self.compiler.path)
            if _is_anywhere(prefix, self.top):
                from pypto_build.rules.machinery.runtime_module import module_path  # reads all sources

                directories |= {"compiler": prefix, "runtime": module_path(self.compiler).parent}
        platform = PLATFORMS.get(self.options["PLATFORM"])
        if platform is not None and self.runtime(platform) == SIMPLER:
            with suppress(ToolchainError):
                tree, python = self.simpler.tree, self.simpler.python
                directories |= {"simpler": tree.root, "pto_isa": tree.isa}
                directories |= {"simpler_python": _prefix(python)} if python != sys.executable else {}
            from pypto_build.toolchain.ascend import VARIABLE

            if home := self.environment.get(VARIABLE):
                directories["toolkit"] = Path(home)
        return {name: path for name, path in directories.items() if _is_anywhere(path, self.top)}

    def renewed(self) -> Workspace | None:
        """Return the same workspace in a fork, without values that may have changed since it was opened.

        Return None if programs have changed.
        """
        self.__dict__.pop("store", None)
        previous = {name: self.__dict__.pop(name) for name in _LOOKED_UP if name in self.__dict__}
        before, self.environment = self.environment, passed_environment()
        if _lasting(before) != _lasting(self.environment) or any(
            getattr(self, name) != previous[name] for name in previous
        ):
            return None
        for output_dir in self.output_dirs.values():
            output_dir.renew(self.store)
        return self

    def forget_checks(self) -> None:
        """Forget recent checks of files, because other code has written some."""
        for output_dir in list(self.output_dirs.values()):
            output_dir.rest()

    def save(self) -> None:
        """Save the results that this run has proven."""
        for output_dir in self.output_dirs.values():
            output_dir.close()
            _save(output_dir)
        if "store" not in self.__dict__:  # it was not used, or could not be opened
            return
        self.store.close()
        if report := self.store.report():
            terminal.say(f"[store] {report}")

    def runtime(self, platform: Platform) -> str:
        """Return the runtime that executes a replay on ``platform``; on hardware it is always simpler."""
        runtime: str = self.options["RUNTIME"]
        return runtime if platform.simulated else SIMPLER

    def variant(self, platform: Platform) -> str:
        """Return the variant of binaries that is built unless a rule chooses another."""
        if self.runtime(platform) == SIMPLER:
            return FOR_SIMPLER.directory if platform.simulated else USUAL.directory
        if self.options["CHECK"] and self.options["MEMORY"]:
            raise ArtifactError(
                "CHECK=1 MEMORY=weak",
                "need two different builds of the kernels",
                "leave out one of the two; 'scons hazards' runs both checks",
            )
        return self.own_variant(CHECKED if self.options["CHECK"] else USUAL)

    def own_variant(self, variant: Variant) -> str:
        """Return the directory of this variant for the embedded runtime, which depends on the options for memory and
        numerics.
        """
        if self.options["MEMORY"] and variant in (USUAL, CHECKED):
            variant = WEAK
        return with_numerics(variant, self.options["NUMERICS"]).directory

    @cached_property
    def simpler(self) -> SimplerHome:
        """Return the simpler of ``SIMPLER=`` and ``PTO_ISA=``."""
        from pypto_build.toolchain.simpler_home import find_home

        return find_home(self.options["SIMPLER"], self.options["PTO_ISA"])

    @cached_property
    def compiler(self) -> HostCompiler:
        """Return the host compiler (``CXX=``)."""
        return find_compiler(self.options["CXX"])

    @cached_property
    def launcher(self) -> Launcher | None:
        """Return the launcher of compilations (``LAUNCHER=``)."""
        return find_launcher(self.options["LAUNCHER"], self.environment)

    def platform(self, name: str | None = None) -> Platform:
        """Return the platform a rule names, else ``PLATFORM=``."""
        return PLATFORMS[name or self.options["PLATFORM"]]

    def output_path(self, name: str, platform: Platform) -> Path:
        """Return the path of an artifact's OUT."""
        return self.build_dir / platform.name / name

    @contextmanager
    def shown_as_output(self, path: Path, root: Path) -> Iterator[None]:
        """While the block runs, show names to users as if OUT of an artifact had been opened."""
        self.outputs[path] = root
        self._shortened.clear()
        try:
            yield
        finally:
            del self.outputs[path]
            self._shortened.clear()

    def output(self, name: str, root: Path, platform: Platform) -> Path:
        """Return OUT of the artifact ``name`` in ``root``; it is opened, locked and marked on first use."""
        path = self.output_path(name, platform)
        if path not in self.outputs:
            if path == root or root.is_relative_to(path):
                reason = "the artifact lies where what is built of it would go"
                raise ArtifactError(root, reason, "move it, or name another directory with BUILD_DIR=")
            if mark := next((mark for mark in ("$(", "$)") if mark in str(root)), ""):
                raise ArtifactError(
                    root, f"the path contains '{mark}', which SCons interprets itself", "rename the directory"
                )
            self.open_output(path, root, artifact=root)
            self.outputs[path] = root
            self._shortened.clear()
        previous = self.outputs[path]
        if previous != root and not any(
            one.is_relative_to(path) for one in (previous, root)
        ):  # which completing it writes
            way_out = "give one another name, or build it with another BUILD_DIR="
            raise ArtifactError(root, f"would be built in the same directory as {self.short_of_top(previous)}", way_out)
        return path

    def open_output(self, path: Path, source: Path, **roots: Path) -> OutputDir:
        """Open the output directory ``path`` for builds of ``source``: mark it, lock it, and remove files of killed
        runs.
        """
        try:
            lock_output(path)
            mark_output(path, source)
            output_dir = self.output_dir(path, **roots)
            output_dir.tidy()
        except OSError as error:
            reason = f"nothing can be built there: {error.strerror or error}"
            raise ArtifactError(path, reason, "name another directory with BUILD_DIR=") from None
        return output_dir

    def short_of_top(self, path: Path) -> str:
        """Return ``path`` relative to the workspace if it lies in there, else unchanged."""
        return str(path.relative_to(self.top)) if path.is_relative_to(self.top) else str(path)

    def short(self, path: str | os.PathLike[str]) -> str:
        """Return ``path`` as messages show it: relative to its artifact, to OUT, or else to the workspace."""
        directory, name = os.path.split(path)
        if name in ("", ".", ".."):
            return self._short(os.fspath(path))
        if directory not in self._shortened:
            short = os.path.normpath(self._short(directory))
            self._shortened[directory] = "" if short == os.curdir else os.path.join(short, "")
        return self._shortened[directory] + name

    def _short(self, path: str) -> str:
        absolute = os.path.abspath(os.path.join(self.top, path))
        for root in (*map(str, self.outputs), *map(str, self.outputs.values()), str(self.top)):
            if f"{absolute}/".startswith(f"{root}/"):
                return os.path.relpath(absolute, root)
        return os.curdir if absolute == str(self.top) else path


def _prefix(program: str) -> Path:
    """Return the directory that a program is installed into."""
    directory = Path(program).parent
    return directory.parent if directory.name == "bin" else directory


def _is_anywhere(path: Path, top: Path) -> bool:
    """Return True for a directory that belongs to neither the workspace nor the system, and contains neither."""
    apart = not (path.is_relative_to(top) or top.is_relative_to(path))
    return path.is_absolute() and apart and str(path) not in ("/usr", "/usr/local")


def _lasting(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without variables that differ in every command."""
    return {name: value for name, value in environment.items() if name not in (STATUS_VARIABLE, TRACE)}


def as_it_is(words: list[str], _writes_to: Path | None) -> list[str]:
    """Return the command line unchanged; used for runs without a sandbox."""
    return words


def _save(output_dir: OutputDir) -> None:
    try:
        output_dir.save()
    except OSError as error:
        terminal.complain(
            f"scons: {error.filename}: {error.strerror}; what was built in this run will be looked at again"
        )


def artifact_dirs(workspace: Workspace) -> tuple[Path, ...]:
    """Return the directories that are searched for artifacts, in this order."""
    examples = workspace.top / "examples"
    return workspace.top / workspace.options.build_output, examples / "artifacts", examples / "distributed"


def escape(word: str) -> str:
    """Return ``word`` escaped for a command line in which SCons substitutes variables."""
    return word.replace("$", "$$")


def workspace_of(env: Environment) -> Workspace:
    """Return the run's workspace."""
    workspace = env["PYPTO"]
    assert isinstance(workspace, Workspace)
    return workspace
