"""Settings of every test process."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from tests import kept, scheduling
from tests.quick import QUICK, is_quick

if TYPE_CHECKING:
    from tests.rules.project import Project

# Workers share the machine's cores, and a child forked from a process with OpenMP threads can hang in them.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Every command under test would compile our modules anew: half of the time of most tests that start one.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Commands under test leave no process behind but where that is what is tested.
os.environ["PYPTO_BUILD_SERVER"] = "0"

# A shell ignores the signal for what it starts in the background; the commands under test would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_TESTS = Path(__file__).resolve().parent

# Headers that tests precompile (tests/replay/builder.py); workers inherit the one of the process that starts them.
_OWN = "PYPTO_BUILD_TEST_LIBRARIES" not in os.environ
if _OWN:
    os.environ["PYPTO_BUILD_TEST_LIBRARIES"] = tempfile.mkdtemp(prefix="pypto-build-tests-")
    kept.prepare()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write-seconds", action="store_true", help=f"note how long files take in tests/{scheduling.TABLE.name}"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--write-seconds", False) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(scheduling.Recorder())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m quick` the other files are not even imported, which would take longer than the quick ones run."""
    if config.option.markexpr != "quick" or collection_path.suffix != ".py":
        return None
    return None if _name_of(collection_path) in QUICK else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if is_quick(_name_of(item.path), getattr(item, "originalname", item.name)):
            item.add_marker("quick")
    if not config.option.markexpr:
        slow = [item for item in items if item.get_closest_marker("slow")]
        items[:] = [item for item in items if item not in slow]
        config.hook.pytest_deselected(items=slow)
    if hasattr(config, "workerinput") and not config.pluginmanager.hasplugin("randomly"):
        scheduling.longest_first(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return the number of workers for `-n auto`: one more than processors, since a part of the time is waiting."""
    chosen = os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS", "")
    return int(chosen) if chosen.isdecimal() else len(os.sched_getaffinity(0)) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return scheduling.scheduler(config, log) if config.getvalue("dist") == "load" else None


def _name_of(path: Path) -> str:
    """A file's name below tests/; that of another project's as it is."""
    text, root = str(path), f"{_TESTS}{os.sep}"
    return text[len(root) :] if text.startswith(root) else text


@pytest.fixture(scope="session")
def runtime() -> Path:
    """The embedded runtime, built where it was not: the rooms whose tests count what a build does ask for it first."""
    from tests.replay.builder import embedded_module

    return embedded_module()


@pytest.fixture(scope="session")
def embedded(runtime: Path) -> ModuleType:
    """The embedded runtime, loaded into the process of the test."""
    from pypto_build.replay.loading import load_embedded

    return load_embedded(runtime)


@pytest.fixture(scope="session")
def stock(tmp_path_factory: pytest.TempPathFactory, runtime: Path) -> Path:
    """A store that has the binaries of `Project`'s artifact, and no verdict."""
    from tests.rules.project import Project

    project = Project(tmp_path_factory.mktemp("stock") / "here")
    run = project.scons("build", "JIT=_jit_chain")
    assert run.status == 0, run.output
    return Path(project.store)


@pytest.fixture
def stocked(tmp_path: Path, stock: Path) -> Project:
    """A fresh workspace, the binaries of which need not be compiled: for tests of what comes after."""
    from tests.rules.project import Project

    project = Project(tmp_path)
    shutil.copytree(stock, project.store)
    return project


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    if _OWN:
        shutil.rmtree(os.environ["PYPTO_BUILD_TEST_LIBRARIES"], ignore_errors=True)
