"""Typed records of an artifact: kernels, orchestration, manifest facts and the compiler's metadata."""

from __future__ import annotations

import re
from enum import IntEnum
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import msgspec

from pypto_build.facts.platforms import TENSORMAP

CoreType = Literal["aic", "aiv"]
CORE_TYPES: tuple[CoreType, ...] = ("aic", "aiv")

#: The largest func_id, number of blocks or threads that the runtimes can be given.
LARGEST_NUMBER = (1 << 31) - 1

#: Names that a kernel and its binaries can have.
FILE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.+-]*\Z")

DEFAULT_RUNTIME = TENSORMAP
DEFAULT_ENTRY = "aicpu_orchestration_entry"
DEFAULT_CONFIG = "aicpu_orchestration_config"


class ArgDirection(IntEnum):
    """Direction of one argument, numbered as in simpler's ``task_interface.ArgDirection``."""

    SCALAR = 0
    IN = 1
    OUT = 2
    INOUT = 3


#: Directions of the tensor arguments, in argument order; scalars are left out.
Signature = tuple[ArgDirection, ...]


def kernel_binary(core_type: str, name: str) -> str:
    """Return the path of a kernel's binary below OUT, without a suffix."""
    return f"kernels/{core_type}/{name}"


def orchestration_binary(source: str | Path) -> str:
    """Return the path of the orchestration's binary below OUT, without a suffix."""
    return f"orchestration/{PurePosixPath(source).stem}"


class Kernel(msgspec.Struct, frozen=True):
    """One kernel: a C++ file that runs on one AIC or AIV core.

    ``source`` is absolute and, unless ``external``, verified to lie inside the artifact. ``signature`` is the
    manifest's declaration, None if it has none.
    """

    func_id: int
    name: str
    source: Path
    core_type: CoreType
    signature: Signature | None = None
    external: bool = False
    extra_include_dirs: tuple[Path, ...] = ()

    @property
    def binary(self) -> str:
        """Return the path of the kernel's binary below OUT, without a suffix."""
        return kernel_binary(self.core_type, self.name)


class Orchestration(msgspec.Struct, frozen=True):
    """The C++ file that submits kernels as tasks.

    ``signature`` covers the entry's tensors in ``tensor(i)`` order. An ``external`` file lies outside of the artifact.
    """

    source: Path
    function_name: str = DEFAULT_ENTRY
    config_name: str = DEFAULT_CONFIG
    signature: Signature | None = None
    external: bool = False

    @property
    def binary(self) -> str:
        """Return the path of the orchestration's binary below OUT, without a suffix."""
        return orchestration_binary(self.source)


class Manifest(msgspec.Struct, frozen=True):
    """The content of ``kernel_config.py``."""

    kernels: tuple[Kernel, ...]
    orchestration: Orchestration
    runtime_config: dict[str, Any]


class MetaParam(msgspec.Struct, frozen=True):
    """One parameter: ``shape`` is ``None`` for a scalar, -1 stands for a dynamic size; ``dtype`` is torch's name.

    With a ``kind`` ("tensor" or "scalar"), shape and dtype come from its data; the code may read it as another type.
    """

    name: str
    direction: ArgDirection
    shape: tuple[int, ...] | None
    dtype: str | None
    kind: str = ""

    @property
    def is_tensor(self) -> bool:
        """Return whether the parameter is a tensor."""
        return self.kind == "tensor" if self.kind else self.shape is not None


class CompiledMeta(msgspec.Struct, frozen=True):
    """``compiled_meta.json``: the program's parameters in declaration order."""

    params: tuple[MetaParam, ...]
    platform: str | None = None
    backend_type: str | None = None

    @property
    def tensors(self) -> tuple[MetaParam, ...]:
        """Return the tensor parameters, in ``orch_args.tensor(i)`` order."""
        return tuple(p for p in self.params if p.is_tensor)

    @property
    def scalars(self) -> tuple[MetaParam, ...]:
        """Return the scalar parameters, in ``orch_args.scalar(i)`` order."""
        return tuple(p for p in self.params if not p.is_tensor)


class Artifact(msgspec.Struct, frozen=True):
    """A directory written by the compiler, read and checked.

    ``name`` is the directory's name (``parent.child`` for a sub-build under ``next_levels/``), and names its build
    directory. ``children`` are the sub-builds below this one.
    """

    root: Path
    name: str
    kernels: tuple[Kernel, ...]
    orchestration: Orchestration
    runtime_config: dict[str, Any]
    meta: CompiledMeta | None = None
    children: tuple[Path, ...] = ()

    @property
    def manifest_path(self) -> Path:
        """Return the path of the manifest that this artifact was read from."""
        return self.root / "kernel_config.py"

    @property
    def sources(self) -> tuple[Path, ...]:
        """Return the manifest and the C++ files, which decide how the artifact behaves on fixed data."""
        return (self.manifest_path, self.orchestration.source, *(kernel.source for kernel in self.kernels))

    @property
    def runtime(self) -> str:
        """Return the name of the runtime that the artifact was compiled for."""
        return str(self.runtime_config.get("runtime", DEFAULT_RUNTIME))
