"""Imports of modules beside a script, found by their names: Python itself would list the directory.

A listing would change with any later file of the directory, and with it the inputs of the script's results.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType


@contextmanager
def modules_beside(script: Path) -> Iterator[None]:
    """While the block runs, import modules and packages in the directory of ``script`` as if it were first in
    sys.path.
    """
    directory = script.resolve().parent
    first, last = _Finder(directory), _Namespaces(directory)
    sys.meta_path.insert(sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else 0, first)
    sys.meta_path.append(last)
    try:
        yield
    finally:
        sys.meta_path.remove(first)
        sys.meta_path.remove(last)


class _Finder:
    """Finds ``NAME.py`` and ``NAME/__init__.py`` in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a top-level module in the directory; None for a module inside a package."""
        if path is not None:
            return None
        package = self._directory / name
        for file, inside in ((package / "__init__.py", [str(package)]), (package.with_name(f"{name}.py"), None)):
            if file.is_file():
                return importlib.util.spec_from_file_location(name, file, submodule_search_locations=inside)
        return None


class _Namespaces:
    """Finds directories without ``__init__.py``, after everything else."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a namespace package that no other finder can import."""
        if path is not None or not (self._directory / name).is_dir():
            return None
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(self._directory / name)]
        return spec
