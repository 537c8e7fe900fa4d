"""The pytest plugin: `pytest kernel_config.py -p a2a3`, `pytest kernel_config_scene_test.py --platform a2a3sim`.

Every pytest run in an environment with this package loads this module. So it imports other modules of the package only
when it declares flags or collects files. Its flags exist only in runs on artifacts.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

_MANIFEST, _SCENE_TEST = ("kernel_config.py", "kernel_config_scene_test.py")
_IMPORTS_SIMPLER = re.compile(rb"(?m)^\s*(?:from|import)\s+simpler(?:_setup)?\b")
_IMPORTS_BESIDE = re.compile(rb"(?m)^\s*from\s+\.(\w+)\s+import\b")
_CONTROLLER = "PYPTO_PYTEST_CONTROLLER"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the flags that no other plugin has declared, if this run is about artifacts."""
    words = [*sys.argv[1:], *shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))]
    of_worker = os.environ.get(_CONTROLLER) == str(os.getppid())  # pytest-xdist's, which has no command line
    flagged = any(word.startswith("--") or word == "-h" for word in words)
    if not (of_worker or flagged) or (_in_simpler(Path.cwd() / "any") and _simpler_is_there()):
        return
    from pypto_build.interop import pytest_flags

    if of_worker or pytest_flags.about_artifacts(words, (_MANIFEST, _SCENE_TEST)):
        os.environ[_CONTROLLER] = str(os.getpid())
        pytest_flags.declare(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.File | None:
    """Collect manifests and scene tests, which are no modules of test functions; importing them would need simpler."""
    if module_path.name != _MANIFEST:
        return _scene_file(module_path, parent)
    if _in_simpler(module_path):
        return None
    from pypto_build.interop.pytest_items import Manifest

    manifest: pytest.File = Manifest.from_parent(parent, path=module_path)
    return manifest


def _in_simpler(path: Path) -> bool:
    """Return whether a file is part of simpler itself, whose conftest collects it."""
    return any(
        os.path.isdir(directory / "simpler_setup") and os.path.isfile(directory / "conftest.py")
        for directory in path.parents
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Iterator[None]:
    """Leave out simpler's own conftest if simpler is not installed, since it needs simpler; its scene tests run without
    it."""
    words = [word.partition("::")[0] for word in early_config.invocation_params.args if not word.startswith("-")]
    if any(_in_simpler(Path(word).absolute() / "any") for word in words) and not _simpler_is_there():
        early_config.known_args_namespace.noconftest = True
    yield


def _scene_file(path: Path, parent: pytest.Collector) -> pytest.File | None:
    """Return the collector of scene tests that pytest could not run. That is so if simpler is not installed, or if its
    conftest is missing, as it is beside a generated file."""
    texts = [_text(path), *_beside(path)]
    generated = path.name == _SCENE_TEST and not _in_simpler(path)
    if not any(map(_IMPORTS_SIMPLER.search, texts)) or (_simpler_is_there() and not generated):
        return None
    from pypto_build.artifact.scene_reader import imports_simpler, is_scene_test

    if not is_scene_test(path):
        if len(texts) > 1 or imports_simpler(path):
            from pypto_build.interop.scene.fixtures import stand_in_for

            stand_in_for(path, parent.config)
        return None
    from pypto_build.interop.scene.pytest_file import file_of

    return file_of(parent, path)


@cache
def _simpler_is_there() -> bool:
    return find_spec("simpler") is not None and find_spec("simpler_setup") is not None


def _beside(path: Path) -> list[bytes]:
    """Return the texts of the modules beside a file that it imports."""
    names = _IMPORTS_BESIDE.findall(_text(path))
    return [_text(path.with_name(f"{os.fsdecode(name)}.py")) for name in names]


def _text(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
