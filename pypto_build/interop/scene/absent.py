"""Placeholders for modules and names of simpler's that have no stand-in: importing works, using raises an error."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from types import ModuleType
from typing import Any, NoReturn

from pypto_build.interop.scene.faults import NeedsSimpler

#: simpler's packages.
PACKAGES = ("simpler", "simpler_setup", "_task_interface")


class _Absent(type):
    """A class that raises `NeedsSimpler` when it is used."""

    def __call__(cls, *_: Any, **__: Any) -> NoReturn:
        raise NeedsSimpler(f"{cls.__module__}.{cls.__name__}")

    def __index__(cls) -> NoReturn:
        raise NeedsSimpler(f"{cls.__module__}.{cls.__name__}")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __call__
    __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = __mod__ = __lshift__ = __call__  # for constants

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NeedsSimpler(f"{cls.__module__}.{cls.__name__}.{name}")


def absent(module: str, name: str) -> Any:
    """Return the placeholder of ``module.name``."""
    if name.startswith("__"):
        raise AttributeError(name)
    return _Absent(name, (), {"__module__": module})


class AbsentFinder(MetaPathFinder, Loader):
    """Finds every module of simpler's packages that no other finder finds."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a module without content."""
        if fullname.partition(".")[0] not in PACKAGES:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Return None, for the default module object."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Make every name of the module absent."""
        name = module.__name__
        module.__getattr__ = lambda attribute: absent(name, attribute)  # type: ignore[method-assign]


def install() -> None:
    """Install the finder for modules of simpler's that exist nowhere else."""
    sys.meta_path.append(AbsentFinder())
