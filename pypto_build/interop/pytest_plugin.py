"""The pytest plugin: `pytest kernel_config.py -p a2a3`, `pytest kernel_config_scene_test.py --platform a2a3sim`.

A manifest gives one item for each platform, which replays the artifact it describes; a scene test gives one for each
of its cases and platforms, which simpler runs. Each item is a process of its own. An item whose platform's tools are
missing is skipped with what is missing.
"""

from __future__ import annotations

import ast
import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from pypto_build.artifact import ArtifactError, read_manifest
from pypto_build.artifact.scene_test import SCENE_TEST_NAME
from pypto_build.toolchain import PLATFORMS, Platform, ToolchainError
from pypto_build.toolchain.ascend import find_toolkit
from pypto_build.toolchain.simpler_home import find_home

_Found = TypeVar("_Found")
_MANIFEST = "kernel_config.py"
#: Flags that a run is given as they are: name, what a bare one means (None: a switch), help.
_PASSED_ON: tuple[tuple[tuple[str, ...], str | None, str], ...] = (
    (("--dump-args", "--dump-tensor"), "1", "dump arguments"),
    (("--enable-chip-swimlane", "--enable-l2-swimlane"), "4", "write the timeline"),
    (("--enable-pmu",), "2", "count hardware events"),
    (("--enable-dep-gen",), None, "write the task graph"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the flags, except where simpler's own test suite runs, whose conftest declares them itself."""
    if any((place / "simpler_setup").is_dir() and (place / "conftest.py").is_file() for place in _above(Path.cwd())):
        return
    group = parser.getgroup("pypto", "artifacts")
    group.addoption("--platform", action="append", metavar="P", help="a2a3sim, a5sim, a2a3 or a5; -p P says the same")
    group.addoption("--device", default="0", metavar="LIST", help='devices of hardware: "0", "4-7" or "0,2,5"')
    group.addoption("--case", action="append", metavar="NAME", help="only this case: Name, Class::Name or Class::")
    group.addoption("--rounds", default="1", metavar="N", help="how often to run each case")
    group.addoption("--golden-data", metavar="DIR", help="another directory with in/ and out/ than the artifact's")
    group.addoption("--runtime", metavar="R", help="what executes a manifest's replay: embedded, torch or simpler")
    for names, bare, doc in _PASSED_ON:
        if bare is None:
            group.addoption(*names, action="store_true", help=doc)
        else:
            group.addoption(*names, nargs="?", const=bare, metavar="LEVEL", help=doc)


def pytest_configure(config: pytest.Config) -> None:
    """Find the platforms, which ``-p`` may have named."""
    named = [name for name in config.getoption("plugins", default=[]) or [] if name in PLATFORMS]
    named += config.getoption("--platform", default=None) or []
    for name in named:
        if name not in PLATFORMS:
            raise pytest.UsageError(f"--platform {name}: unknown platform; one of {', '.join(PLATFORMS)}")
    config.stash[_NAMED] = list(dict.fromkeys(named))


_NAMED = pytest.StashKey[list[str]]()


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Manifests and scene tests are not modules of test functions; importing them would need simpler."""
    if module_path.name == _MANIFEST:
        return Manifest.from_parent(parent, path=module_path)
    if module_path.name == SCENE_TEST_NAME:
        return SceneTestFile.from_parent(parent, path=module_path)
    return None


class Manifest(pytest.File):
    """``kernel_config.py``: the replay of its artifact."""

    def collect(self) -> Iterable[pytest.Item]:
        """One item for each platform."""
        cases = self.config.getoption("--case") or []
        if any(case != "snapshot" for case in cases):
            raise pytest.UsageError(f"--case {cases[0]}: no such case in {self.path}; it has snapshot")
        for name in self.config.stash[_NAMED] or ["a2a3sim"]:
            yield Replay.from_parent(self, name=f"snapshot[{name}]", platform=PLATFORMS[name])


class SceneTestFile(pytest.File):
    """A scene test, whose cases are read without running it."""

    def collect(self) -> Iterable[pytest.Item]:
        """One item for each case and platform."""
        cases = list(_cases(self.path))
        chosen = self.config.getoption("--case") or []
        for selector in chosen:
            if not any(_selects(selector, owner, case) for owner, case, _ in cases):
                names = ", ".join(case for _, case, _ in cases)
                raise pytest.UsageError(f"--case {selector}: no such case in {self.path}; it has {names}")
        named = self.config.stash[_NAMED]
        for owner, case, platforms in cases:
            if chosen and not any(_selects(selector, owner, case) for selector in chosen):
                continue
            for name in named or [name for name in platforms if PLATFORMS[name].simulated]:
                if name in platforms:
                    label = f"{owner}::{case}[{name}]"
                    yield SceneCase.from_parent(self, name=label, platform=PLATFORMS[name], case=f"{owner}::{case}")


class _Run(pytest.Item):
    """An item that is a process; what it printed is the report of its failure."""

    def __init__(self, *, platform: Platform, **more: object) -> None:
        super().__init__(**more)  # type: ignore[arg-type]
        self.platform = platform

    def command(self, device: int) -> list[str]:
        """What runs."""
        raise NotImplementedError

    def runtest(self) -> None:
        """Run the command on a device that nobody else uses."""
        if not self.platform.simulated:
            _skip_without(lambda: find_toolkit(self.platform, os.environ))
        with _device(self.config, self.platform) as device:
            run = subprocess.run(
                self.command(device), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
            )
        self.add_report_section("call", "run", run.stdout)
        if run.returncode:
            raise RunFailed(run.stdout)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
        """The last lines that a run printed, without a traceback of ours."""
        if isinstance(excinfo.value, RunFailed):
            lines = str(excinfo.value).splitlines()
            told = [line for line in lines if "FAIL" in line or "error" in line.lower()]
            return "\n".join(told or lines[-10:])
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the item is."""
        return self.path, 0, self.name

    def passed_on(self) -> list[str]:
        """The flags that a run is given as they are."""
        words = []
        for names, bare, _ in _PASSED_ON:
            value = self.config.getoption(names[0].lstrip("-").replace("-", "_"))
            words += ([names[0]] if bare is None else [names[0], value]) if value else []
        return words


class RunFailed(Exception):
    """A run that did not pass; its text is what it printed."""


class Replay(_Run):
    """A replay of the artifact that a manifest describes."""

    def command(self, device: int) -> list[str]:
        """`pypto-build replay`."""
        try:
            root = read_manifest(self.path).orchestration.source.parent.parent
        except ArtifactError as error:
            raise RunFailed(f"error: {error}") from None
        option = self.config.getoption
        words = [sys.executable, "-m", "pypto_build.cli", "replay", str(root), "-p", self.platform.name, "--force"]
        words += ["--golden-data", option("--golden-data")] if option("--golden-data") else []
        words += ["--runtime", option("--runtime")] if option("--runtime") else []
        words += [] if self.platform.simulated else ["--device", str(device)]
        return [*words, "--rounds", option("--rounds"), *self.passed_on()]


class SceneCase(_Run):
    """One case of a scene test, run by simpler."""

    def __init__(self, *, case: str, **more: object) -> None:
        super().__init__(**more)  # type: ignore[arg-type]
        self.case = case

    def command(self, device: int) -> list[str]:
        """The scene test by simpler's Python."""
        home = _skip_without(lambda: find_home("", ""))
        own = [f"{name}={text}" for name, text in home.variables().items() if os.environ.get(name) != text]
        words = [home.python, str(self.path), "-p", self.platform.name, "--device", str(device), "--case", self.case]
        rounds = self.config.getoption("--rounds")
        words += ["--rounds", rounds] if rounds != "1" else []
        return ["env", *own, *words, *self.passed_on()]


def _skip_without(find: Callable[[], _Found]) -> _Found:
    """What ``find`` finds; without it, the item is skipped with what is missing."""
    try:
        return find()
    except ToolchainError as error:
        pytest.skip(str(error))


@contextmanager
def _device(config: pytest.Config, platform: Platform) -> Iterator[int]:
    """A device for one run: no two processes of pytest on this machine have the same at a time."""
    if platform.simulated:
        yield 0
        return
    devices = parse_devices(config.getoption("--device"))
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").lstrip("gw")
    turn = int(worker) % len(devices) if worker.isdigit() else 0
    ordered = devices[turn:] + devices[:turn]
    for blocking, device in [*((False, one) for one in ordered), (True, ordered[0])]:
        path = Path(tempfile.gettempdir(), f"pypto-{platform.arch}-device-{device}.lock")
        with path.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if blocking else fcntl.LOCK_NB))
            except BlockingIOError:
                continue
            yield device
            return


def parse_devices(text: str) -> list[int]:
    """``"0"``, ``"4-7"`` and ``"0,2,5"`` as numbers. Raises a usage error for anything else."""
    try:
        ranges = [part.split("-") for part in text.split(",")]
        found = [number for ends in ranges for number in range(int(ends[0]), int(ends[-1]) + 1)]
    except ValueError:
        found = []
    if not found:
        raise pytest.UsageError(f'--device {text}: is no list of devices; write "0", "4-7" or "0,2,5"')
    return found


def _cases(path: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Class, name and platforms of every case in a scene test, as far as they are literal."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.ClassDef):
            continue
        for statement in node.body:
            if isinstance(statement, ast.Assign) and "CASES" in [
                getattr(target, "id", "") for target in statement.targets
            ]:
                for case in getattr(statement.value, "elts", []):
                    keys = [getattr(key, "value", None) for key in case.keys]
                    values = dict(zip(keys, case.values, strict=True))
                    yield node.name, ast.literal_eval(values["name"]), ast.literal_eval(values["platforms"])


def _selects(selector: str, owner: str, case: str) -> bool:
    left, separator, right = selector.rpartition("::")
    return (not separator and right == case) or (bool(separator) and left in ("", owner) and right in ("", case))


def _above(place: Path) -> list[Path]:
    return [place, *place.parents]
