"""Items of the pytest plugin that run in a process of their own: a manifest's replays, and cases that simpler runs.

A manifest has one item for each case and platform, which replays its artifact. Scene test cases run on simpler if they
are for hardware, or for one of simpler's runtimes. An item is skipped if its platform's tools are missing.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from pypto_build.artifact import ArtifactError, described_root, read_manifest
from pypto_build.artifact.scene_test import SNAPSHOT_CASE
from pypto_build.facts.platforms import PLATFORMS, Platform
from pypto_build.facts.run_options import EMBEDDED, SIMPLER, TORCH
from pypto_build.interop.pytest_flags import PASSED_ON, flag_value, listed, named_platforms
from pypto_build.toolchain import ToolchainError
from pypto_build.toolchain.ascend import find_toolkit
from pypto_build.toolchain.python import own_environment, own_tool, run_kept
from pypto_build.toolchain.simpler_home import SimplerHome, find_home

# The base class of all our pytest items, and the item for tests that cannot run here.


class Failed(Exception):
    """A test failure; its text is shown."""


class Item(pytest.Item):
    """An item that reports a failure without a traceback of ours."""

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
        """Return the text of the failure."""
        return str(excinfo.value if isinstance(excinfo.value, Failed) else super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[os.PathLike[str], int, str]:
        """Return the position of the item."""
        return self.path, 0, self.name


class Absent(Item):
    """An item that cannot run here: it is skipped."""

    def __init__(self, *, reason: str, **more: object) -> None:
        super().__init__(**more)  # type: ignore[arg-type]
        self.reason = reason

    def runtest(self) -> None:
        """Skip with the reason."""
        pytest.skip(self.reason)


# The cases of an artifact: its snapshot, and further ones in directories of their own.


def find_cases(root: Path) -> dict[str, Path]:
    """Return data directories by case: ``snapshot`` is ``data/``, others are ``data/<name>`` with ``in/`` or
    ``out/``."""
    data = root / "data"
    more = sorted(path for path in data.glob("*") if (path / "in").is_dir() or (path / "out").is_dir())
    return {SNAPSHOT_CASE: data, **{path.name: path for path in more}}


def find_case(root: Path, name: str) -> Path:
    """Return the data directory of a case. Raises a usage error that lists the existing cases."""
    cases = find_cases(root)
    if name not in cases:
        raise ArtifactError(root, f"has no case '{name}'", f"its cases are {', '.join(cases)}")
    return cases[name]


_Result = TypeVar("_Result")


class Manifest(pytest.File):
    """``kernel_config.py``: collects the replays of its artifact."""

    def collect(self) -> Iterable[pytest.Item]:
        """Return one item for each case and platform."""
        try:
            root = described_root(self.path)
            read_manifest(self.path, root)
        except ArtifactError as error:
            raise self.CollectError(str(error)) from None
        cases, chosen = find_cases(root), listed(self.config, "--case")
        for case in chosen:
            if case not in cases:
                raise pytest.UsageError(f"--case {case}: no such case in {self.path}; its cases are {', '.join(cases)}")
        for case in chosen or cases:
            for name in named_platforms(self.config) or ["a2a3sim"]:
                data = None if case == SNAPSHOT_CASE else cases[case]
                yield Replay.from_parent(self, name=f"{case}[{name}]", platform=PLATFORMS[name], root=root, data=data)


class _Run(Item):
    """An item that runs a process; the output of the process is the report of its failure."""

    def __init__(self, *, platform: Platform, **more: object) -> None:
        super().__init__(**more)  # type: ignore[arg-type]
        self.platform = platform

    def command(self, device: int) -> list[str]:
        """Return the command to run."""
        raise NotImplementedError

    def runtest(self) -> None:
        """Run the command on a device that no other process uses."""
        if not self.platform.simulated:
            _skip_without(lambda: find_toolkit(self.platform, os.environ))
        with device_of(self.config, self.platform) as device:
            status, printed = run_kept(self.command(device), own_environment())
        self.add_report_section("call", "run", printed)
        if status:
            raise Failed(_explanation(printed))
        if names := re.findall(r"^\[RUN\]   '(\w+)' UNCHECKED", printed, re.MULTILINE):
            self.warn(pytest.PytestWarning(f"no golden for {', '.join(names)}: ran, and nothing was compared"))

    def passed_on(self, spelt: Callable[[tuple[str, ...]], str] = lambda names: names[0]) -> list[str]:
        """Return the flags that are passed on unchanged; ``spelt`` selects one of a flag's names."""
        words = []
        for option in PASSED_ON:
            flag, value = spelt(option.scene_flags), flag_value(self.config, option.scene_flags[0])
            words += ([flag] if option.bare is None else [flag, str(value)]) if value else []
        return words

    def rounds(self) -> str:
        """Return the number of rounds."""
        return str(flag_value(self.config, "--rounds") or 1)


def _explanation(printed: str) -> str:
    """Return the lines of a failed run's output that explain the failure, else its last lines."""
    lines, words = printed.splitlines(), ("FAIL", "UNCHECKED", "[pack] ")
    shown = [line for line in lines if "error" in line.lower() or any(word in line for word in words)]
    return "\n".join(shown or lines[-10:])


class Replay(_Run):
    """A replay of the artifact that a manifest describes."""

    def __init__(self, *, root: Path, data: Path | None, **more: object) -> None:
        super().__init__(**more)  # type: ignore[arg-type]
        self.root, self.data = root, data

    def command(self, device: int) -> list[str]:
        """Return the `pypto-build replay` command."""
        words = [*own_tool("pypto_build.cli"), "replay", str(self.root), "-p", self.platform.name, "--force"]
        data = flag_value(self.config, "--golden-data") or self.data
        words += ["--golden-data", str(data)] if data else []
        words += ["--runtime", flag_value(self.config, "--runtime")] if flag_value(self.config, "--runtime") else []
        words += [] if self.platform.simulated else ["--device", str(device)]
        words += (
            ["--sanitizer", flag_value(self.config, "--sanitizer")] if flag_value(self.config, "--sanitizer") else []
        )
        words += [f"PACK={flag_value(self.config, '--pack')}"] if flag_value(self.config, "--pack") else []
        return [*words, "--rounds", self.rounds(), *self.passed_on()]


class SceneCase(_Run):
    """One case of a scene test, run by simpler."""

    def __init__(self, *, case: str, **more: object) -> None:
        super().__init__(**more)  # type: ignore[arg-type]
        self.case = case

    def command(self, device: int) -> list[str]:
        """Return the command that runs the scene test by simpler's Python."""
        home = _skip_without(lambda: find_home("", ""))
        own = [f"{name}={text}" for name, text in home.variables().items() if os.environ.get(name) != text]
        words = [home.python, str(self.path), "-p", self.platform.name, "--device", str(device), "--case", self.case]
        words += ["--rounds", self.rounds()] if self.rounds() != "1" else []
        if data := flag_value(self.config, "--golden-data"):
            own.append(f"PYPTO_GOLDEN_DATA={os.path.abspath(data)}")
        return ["env", *own, *words, *self._runtime(), *self.passed_on(lambda names: _accepted_flag(home, names))]

    def _runtime(self) -> list[str]:
        """Return ``--runtime`` if its value is one of simpler's own runtimes."""
        runtime = flag_value(self.config, "--runtime")
        if runtime in (EMBEDDED, TORCH):
            raise Failed(f"error: --runtime {runtime}: a scene test runs on simpler; give pytest kernel_config.py")
        return ["--runtime", runtime] if runtime and runtime != SIMPLER else []


def _accepted_flag(home: SimplerHome, names: tuple[str, ...]) -> str:
    """Return the first of a flag's names that this simpler accepts."""
    for file in ("scene_test.py", "__init__.py"):
        path = home.tree.root / "simpler_setup" / file
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        if name := next((name for name in names if f'"{name}"' in text), None):
            return name
    return names[0]


def _skip_without(find: Callable[[], _Result]) -> _Result:
    """Return the result of ``find``; skip the item with the reason if that fails."""
    try:
        return find()
    except ToolchainError as error:
        pytest.skip(str(error))


@contextmanager
def device_of(config: pytest.Config, platform: Platform) -> Iterator[int]:
    """Reserve a device for one run: no two pytest processes on this machine use the same one at a time."""
    if platform.simulated:
        yield 0
        return
    devices = parse_devices(str(flag_value(config, "--device") or "0"))
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").lstrip("gw")
    turn = int(worker) % len(devices) if worker.isdigit() else 0
    ordered = devices[turn:] + devices[:turn]
    for blocking, device in [*((False, one) for one in ordered), (True, ordered[0])]:
        descriptor = _open_lock(Path(tempfile.gettempdir(), f"pypto-{platform.arch}-device-{device}.lock"))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if blocking else fcntl.LOCK_NB))
            yield device
            return
        except BlockingIOError:
            continue
        finally:
            os.close(descriptor)


def _open_lock(path: Path) -> int:
    """Open a file that every user on this machine may lock, whichever user created it."""
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return os.open(path, os.O_RDONLY | os.O_CREAT, 0o666)


def parse_devices(text: str) -> list[int]:
    """Return ``"0"``, ``"4-7"`` and ``"0,2,5"`` as numbers. Raises a usage error for anything else."""
    try:
        ranges = [part.split("-") for part in text.split(",")]
        devices = [number for ends in ranges for number in range(int(ends[0]), int(ends[-1]) + 1)]
    except ValueError:
        devices = []
    if not devices:
        raise pytest.UsageError(f'--device {text}: is not a list of devices; write "0", "4-7" or "0,2,5"')
    return devices
