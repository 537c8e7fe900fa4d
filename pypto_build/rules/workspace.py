"""What one SCons run knows: its options, the toolchain, and the output directories it has opened."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Any

from pypto_build.artifact import ArtifactError
from pypto_build.rules.configuration import Configuration
from pypto_build.rules.database import OutputDatabases
from pypto_build.rules.headers import HeaderIndex
from pypto_build.rules.locks import lock_output
from pypto_build.rules.options import Options
from pypto_build.rules.variants import CHECKED, FOR_SIMPLER, USUAL
from pypto_build.toolchain import PLATFORMS, Platform
from pypto_build.toolchain.host import HostCompiler, find_compiler
from pypto_build.toolchain.launchers import find_launcher
from pypto_build.toolchain.simpler_home import SimplerHome, find_home

# Set in every output directory, so that `scons -c` without an artifact finds what was built.
MARKER = ".pypto-build"


class Workspace:
    """Shared by all rules of a run; lives in ``env["PYPTO"]``."""

    def __init__(self, top: Path, options: Options, whole_graph: bool) -> None:
        self.top = top
        self.options = options
        self.whole_graph = whole_graph  # declare settled units too: cleaning, drawing the tree, building a named file
        self.databases = OutputDatabases()
        self.selected: Path | None = None  # the artifact of JIT=
        self.outputs: dict[Path, Path] = {}  # OUT to the artifact's directory
        self.declared: dict[Path, dict[str, Any]] = {}  # the targets of each OUT, by variant
        self.precompiled: dict[Path, Any] = {}  # nodes of headers that have to be precompiled
        self.replays: dict[Path, Any] = {}  # the nodes of the replays declared, by their directories of results
        self.configurations: dict[Path, Configuration] = {}  # theirs
        self.replayed: set[Path] = set()  # those that ran
        self.tested: set[Path] = set()  # those that are of declared tests
        self.tests: dict[str, set[str]] = {}  # the tags of every replay test by its name
        self.broken: dict[str, str] = {}  # replay tests that cannot run, and why
        self.builds_binaries = True  # whether somebody asked for what needs them
        self._headers: dict[tuple[Path, ...], HeaderIndex] = {}

    @property
    def build_dir(self) -> Path:
        """``BUILD_DIR=``, absolute."""
        return Path(os.path.abspath(self.top / self.options["BUILD_DIR"]))

    def headers(self, include_dirs: tuple[Path, ...]) -> HeaderIndex:
        """The headers that units with these include directories see."""
        if include_dirs not in self._headers:
            self._headers[include_dirs] = HeaderIndex(tuple(map(str, include_dirs)))
        return self._headers[include_dirs]

    @property
    def include_dirs(self) -> set[Path]:
        """Where the headers of the units are looked for."""
        return {path for paths in self._headers for path in paths}

    def runtime(self, platform: Platform) -> str:
        """What executes a replay on ``platform``: hardware is driven by simpler alone."""
        runtime: str = self.options["RUNTIME"]
        return runtime if platform.simulated else "simpler"

    def variant(self, platform: Platform) -> str:
        """How binaries are built unless a rule says otherwise."""
        if self.runtime(platform) == "simpler":
            return FOR_SIMPLER.directory if platform.simulated else USUAL.directory
        return CHECKED.directory if self.options["CHECK"] else USUAL.directory

    @cached_property
    def simpler(self) -> SimplerHome:
        """The simpler of ``SIMPLER=`` and ``PTO_ISA=``."""
        return find_home(self.options["SIMPLER"], self.options["PTO_ISA"])

    @cached_property
    def compiler(self) -> HostCompiler:
        """The host compiler (``CXX=``)."""
        return find_compiler(self.options["CXX"])

    @cached_property
    def launcher(self) -> list[str]:
        """The launcher's words for a command line, marked as no part of its signature."""
        path = find_launcher(self.options["LAUNCHER"])
        return ["$(", path, "$)"] if path else []

    def platform(self, name: str | None = None) -> Platform:
        """The platform a rule names, else ``PLATFORM=``."""
        return PLATFORMS[name or self.options["PLATFORM"]]

    def output(self, name: str, root: Path, platform: Platform) -> Path:
        """OUT of the artifact ``name`` that lies in ``root``: opened, locked and marked on first use."""
        path = self.build_dir / platform.name / name
        if path not in self.outputs:
            try:
                mark_output(path)
                lock_output(path)
                self.databases.add(str(path))
            except OSError as error:
                reason = f"nothing can be built there: {error.strerror}"
                raise ArtifactError(path, reason, "name another directory with BUILD_DIR=") from None
            self.outputs[path] = root
        return path

    def short(self, path: str | os.PathLike[str]) -> str:
        """``path`` for people: below an artifact or OUT, relative to it; below the workspace, relative to that."""
        absolute = os.path.abspath(os.path.join(self.top, path))
        for root in (*map(str, self.outputs), *map(str, self.outputs.values()), str(self.top)):
            if absolute.startswith(root + os.sep):
                return os.path.relpath(absolute, root)
        return str(path)


def mark_output(path: Path) -> None:
    """Make ``path`` an output directory: `scons -c` cleans no other."""
    marker = path / MARKER
    path.mkdir(parents=True, exist_ok=True)
    if not marker.exists():
        marker.write_text("Built by pypto-build; scons -c removes it.\n", encoding="utf-8")


def examples_dir(workspace: Workspace) -> Path:
    """Where artifacts are looked for after ``BUILD_OUTPUT``."""
    return workspace.top / "examples" / "artifacts"


def escape(word: str) -> str:
    """``word`` for a command line that SCons substitutes into."""
    return word.replace("$", "$$")


def workspace_of(env: Any) -> Workspace:
    """The run's workspace."""
    workspace = env["PYPTO"]
    assert isinstance(workspace, Workspace)
    return workspace
