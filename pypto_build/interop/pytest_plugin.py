"""The pytest plugin: `pytest kernel_config.py -p a2a3`, `pytest kernel_config_scene_test.py --platform a2a3sim`.

Every run of pytest in an environment with this package loads this module, so it imports tables alone until there is
something to collect, and its flags exist only in runs that are about artifacts.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pypto_build.facts.platforms import PLATFORMS
from pypto_build.interop.pytest_flags import FLAGS, NAMED, PASSED_ON, kept, listed

_MANIFEST, _SCENE_TEST = _COLLECTED = ("kernel_config.py", "kernel_config_scene_test.py")
_CONTROLLER = "PYPTO_PYTEST_CONTROLLER"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the flags, if this run is about artifacts; each unless somebody has declared it already."""
    words = [*sys.argv[1:], *shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))]
    of_worker = os.environ.get(_CONTROLLER) == str(os.getppid())  # pytest-xdist's, which has no command line
    if not (of_worker or _about_artifacts(words)) or _in_simpler(Path.cwd() / "any"):
        return
    os.environ[_CONTROLLER] = str(os.getpid())
    group = parser.getgroup("pypto", "artifacts")
    rows = [(names, about) for names, about in FLAGS]
    for names, bare, doc in PASSED_ON:
        taken: dict[str, Any] = {"nargs": "?", "const": bare, "metavar": "LEVEL"} if bare else {"action": "store_true"}
        rows.append((names, {**taken, "help": doc}))
    for names, about in rows:
        with suppress(ValueError, argparse.ArgumentError):
            group.addoption(*names, dest=kept(names[0]), **about)


def _about_artifacts(words: list[str]) -> bool:
    """Whether a command line has one of the flags (or asks for help), and something for them among its files."""
    rows = [*(names for names, _ in FLAGS), *(names for names, _, _ in PASSED_ON)]
    flags = {name for names in rows for name in names}
    if not any(word.partition("=")[0] in {*flags, "-h", "--help"} for word in words):
        return False
    places = [Path(word.partition("::")[0]) for word in words if not word.startswith("-")]
    if any(place.name in _COLLECTED for place in places):
        return True
    depths = [f"{'*/' * depth}{_SCENE_TEST}" for depth in range(4)]
    directories = [place for place in places if place.is_dir()] or [Path()]
    return any(next(place.glob(depth), None) for place in directories for depth in depths)


def pytest_configure(config: pytest.Config) -> None:
    """Find the platforms, which ``-p`` may have named."""
    named = [name for name in config.getoption("plugins", default=[]) or [] if name in PLATFORMS]
    ours = config.getoption(kept("--platform"), default=None) is not None
    named += [name for name in listed(config, "--platform") if ours or name in PLATFORMS]  # a flag of others, else
    config.stash[NAMED] = list(dict.fromkeys(named))


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.File | None:
    """Manifests and scene tests are not modules of test functions; importing them would need simpler."""
    if module_path.name not in (_MANIFEST, _SCENE_TEST) or _in_simpler(module_path):
        return None
    from pypto_build.interop.pytest_items import Manifest, SceneTestFile

    kind: type[pytest.File] = Manifest if module_path.name == _MANIFEST else SceneTestFile
    return kind.from_parent(parent, path=module_path)


def _in_simpler(path: Path) -> bool:
    """Whether a file is part of simpler itself, whose conftest collects it."""
    return any((place / "simpler_setup").is_dir() and (place / "conftest.py").is_file() for place in path.parents)
