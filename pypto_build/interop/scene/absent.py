"""Modules and names of simpler's that nothing stands in for: they can be imported, and say so when they are used."""

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
    """A class whose use ends in `NeedsSimpler`."""

    def __call__(cls, *_: Any, **__: Any) -> NoReturn:
        raise NeedsSimpler(f"{cls.__module__}.{cls.__name__}")

    def __index__(cls) -> NoReturn:
        raise NeedsSimpler(f"{cls.__module__}.{cls.__name__}")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __call__
    __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = __mod__ = __lshift__ = __call__  # of constants

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NeedsSimpler(f"{cls.__module__}.{cls.__name__}.{name}")


def absent(module: str, name: str) -> Any:
    """What stands for ``module.name``."""
    if name.startswith("__"):
        raise AttributeError(name)
    return _Absent(name, (), {"__module__": module})


class AbsentFinder(MetaPathFinder, Loader):
    """Finds any module of simpler's packages that nothing else finds."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A module without content."""
        if fullname.partition(".")[0] not in PACKAGES:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """The usual one."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Every name of it is absent."""
        name = module.__name__
        module.__getattr__ = lambda attribute: absent(name, attribute)  # type: ignore[method-assign]


def install() -> None:
    """Find modules of simpler's that are nowhere else."""
    sys.meta_path.append(AbsentFinder())
