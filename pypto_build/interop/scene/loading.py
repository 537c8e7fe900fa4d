"""Executes a scene test's file as pytest does, with stand-ins for simpler's packages where simpler is not installed."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pypto_build
from pypto_build.artifact import ArtifactError
from pypto_build.artifact.errors import require_torch

#: simpler's goldens, which are plain PyTorch, and the variable that names the checkout which has them.
_GOLDENS = Path("simpler_setup", "goldens")
CHECKOUT = "PYPTO_SCENE_CHECKOUT"


def load_file(path: Path, with_stand_ins: bool = False) -> ModuleType:
    """Return the module in ``path``; ``with_stand_ins`` replaces simpler's packages even if they are installed. Raises
    any exception of its code.

    Raises a usage error if PyTorch is missing, without which no scene test has data.
    """
    require_torch(str(path))
    beside_us = str(Path(pypto_build.__file__).resolve().parents[1])
    if "site-packages" not in beside_us:  # a checkout of ours, whose `tests` is none of the user's
        sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != beside_us]
    sys.dont_write_bytecode = True  # the file's directory must not change
    path = Path(os.path.abspath(path))
    for root in reversed([*_import_roots(path)]):
        if str(root) not in sys.path:
            sys.path.insert(0, str(root))
    if with_stand_ins or not simpler_installed():
        stand_in(path)
    name = _module_name(path)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ArtifactError(path, "is not a Python file", "name the file of a scene test")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def scene_classes(module: ModuleType) -> list[type[Any]]:
    """Return the scene tests that a module defines, in text order."""
    classes = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and "_st_runtime" in vars(value) and value.__module__ == module.__name__
    ]
    return sorted(set(classes), key=_line)


def _line(scene: type[Any]) -> int:
    import inspect

    try:
        return inspect.getsourcelines(scene)[1]
    except (OSError, TypeError):
        return 0


def simpler_installed() -> bool:
    """Return whether simpler can be imported; a checkout alone cannot, since a part of it is compiled."""
    return find_spec("simpler") is not None and find_spec("simpler_setup") is not None


def stand_in(path: Path) -> None:
    """Make stand-ins available under simpler's names in this process, with the goldens of a checkout around
    ``path``."""
    from pypto_build.interop.scene.stand_ins import install

    checkout = next((directory for directory in path.parents if (directory / _GOLDENS).is_dir()), None)
    if checkout is not None:
        os.environ[CHECKOUT] = str(checkout / _GOLDENS.parent)
    install(os.environ.get(CHECKOUT, ""))


def _import_roots(path: Path) -> Iterator[Path]:
    """Yield the directories that pytest prepends to the path: the root of the file's package, and those of conftest
    files."""
    yield _package_root(path)
    for directory in path.parents:
        if (directory / "conftest.py").is_file() and not (directory / "__init__.py").is_file():
            yield directory


def _package_root(path: Path) -> Path:
    return next(directory for directory in path.parents if not (directory / "__init__.py").is_file())


def _module_name(path: Path) -> str:
    return ".".join(path.relative_to(_package_root(path)).with_suffix("").parts)
