"""The pytest plugin: `pytest kernel_config.py -p a2a3`, `pytest kernel_config_scene_test.py --platform a2a3sim`.

Every run of pytest in an environment with this package loads this module, so it imports nothing else of ours until
there is something to collect, and its flags exist only in runs that are about artifacts.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pypto_build.interop.pytest_items import Manifest, SceneTestFile

PLATFORMS = ("a2a3", "a5", "a2a3sim", "a5sim")
_MANIFEST, _SCENE_TEST = _COLLECTED = ("kernel_config.py", "kernel_config_scene_test.py")

#: Flags that choose what runs, and how: names, what argparse is told.
_FLAGS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (("--platform",), {"action": "append", "metavar": "P", "help": "a2a3sim, a5sim, a2a3 or a5; -p P says the same"}),
    (("--device",), {"metavar": "LIST", "help": 'devices of hardware: "0", "4-7" or "0,2,5" (0)'}),
    (("--case",), {"action": "append", "metavar": "C", "help": "only this case: Name, Class::Name, Class:: or ::Name"}),
    (("--rounds",), {"metavar": "N", "help": "how often to run each case (1)"}),
    (("--golden-data",), {"metavar": "DIR", "help": "another directory with in/ and out/ than the artifact's"}),
    (("--runtime",), {"metavar": "R", "help": "what executes a manifest's replay: embedded, torch or simpler"}),
)
#: Flags that a run is given as they are: names, the newest first, what a bare one means (None: a switch), help.
PASSED_ON: tuple[tuple[tuple[str, ...], str | None, str], ...] = (
    (("--dump-args", "--dump-tensor"), "1", "dump arguments"),
    (("--enable-chip-swimlane", "--enable-l2-swimlane"), "4", "write the timeline"),
    (("--enable-pmu",), "2", "count hardware events"),
    (("--enable-dep-gen",), None, "write the task graph"),
)
_CONTROLLER = "PYPTO_PYTEST_CONTROLLER"
NAMED = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the flags, if this run is about artifacts; each unless somebody has declared it already."""
    words = [*sys.argv[1:], *shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))]
    of_worker = os.environ.get(_CONTROLLER) == str(os.getppid())  # pytest-xdist's, which has no command line
    if not (of_worker or _about_artifacts(words)) or _in_simpler(Path.cwd() / "any"):
        return
    os.environ[_CONTROLLER] = str(os.getpid())
    group = parser.getgroup("pypto", "artifacts")
    rows = [(names, about) for names, about in _FLAGS]
    for names, bare, doc in PASSED_ON:
        taken: dict[str, Any] = {"nargs": "?", "const": bare, "metavar": "LEVEL"} if bare else {"action": "store_true"}
        rows.append((names, {**taken, "help": doc}))
    for names, about in rows:
        with suppress(ValueError, argparse.ArgumentError):
            group.addoption(*names, dest=_kept(names[0]), **about)


def _about_artifacts(words: list[str]) -> bool:
    """Whether a command line has one of the flags (or asks for help), and something for them among its files."""
    rows = [*(names for names, _ in _FLAGS), *(names for names, _, _ in PASSED_ON)]
    flags = {name for names in rows for name in names}
    if not any(word.partition("=")[0] in {*flags, "-h", "--help"} for word in words):
        return False
    places = [Path(word.partition("::")[0]) for word in words if not word.startswith("-")]
    if any(place.name in _COLLECTED for place in places):
        return True
    depths = [f"{'*/' * depth}{_SCENE_TEST}" for depth in range(4)]
    directories = [place for place in places if place.is_dir()] or [Path()]
    return any(next(place.glob(depth), None) for place in directories for depth in depths)


def given(config: pytest.Config, flag: str) -> Any:
    """The value of a flag, wherever it was declared; None if it was not given."""
    value = config.getoption(_kept(flag), default=None)
    return value if value is not None else config.getoption(flag.lstrip("-").replace("-", "_"), default=None)


def listed(config: pytest.Config, flag: str) -> list[str]:
    """The values of a flag that may be repeated."""
    value = given(config, flag)
    return list(value) if isinstance(value, list) else [value] if value else []


def _kept(flag: str) -> str:
    return f"pypto_{flag.lstrip('-').replace('-', '_')}"


def pytest_configure(config: pytest.Config) -> None:
    """Find the platforms, which ``-p`` may have named."""
    named = [name for name in config.getoption("plugins", default=[]) or [] if name in PLATFORMS]
    ours = config.getoption(_kept("--platform"), default=None) is not None
    named += [name for name in listed(config, "--platform") if ours or name in PLATFORMS]  # a flag of others, else
    config.stash[NAMED] = list(dict.fromkeys(named))


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> Manifest | SceneTestFile | None:
    """Manifests and scene tests are not modules of test functions; importing them would need simpler."""
    if module_path.name not in (_MANIFEST, _SCENE_TEST) or _in_simpler(module_path):
        return None
    from pypto_build.interop.pytest_items import Manifest, SceneTestFile

    kind: type[Manifest] | type[SceneTestFile] = Manifest if module_path.name == _MANIFEST else SceneTestFile
    return kind.from_parent(parent, path=module_path)


def _in_simpler(path: Path) -> bool:
    """Whether a file is part of simpler itself, whose conftest collects it."""
    return any((place / "simpler_setup").is_dir() and (place / "conftest.py").is_file() for place in path.parents)
