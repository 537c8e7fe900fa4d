"""Reads undeclared shapes and element types from the .pto modules, for artifacts older than compiled_meta.json.

A module views its tensors in full. Where the orchestration passes one of its parameters unchanged to a kernel, the
shape of that view is the parameter's shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from pathlib import Path

import msgspec

from pypto_build.artifact.derive import tensor_uses
from pypto_build.artifact.interface import Interface, KernelInterface
from pypto_build.artifact.modules import function_names
from pypto_build.facts.dtypes import DTYPES
from pypto_build.pto import Function, Module, PtoError, parse_file
from pypto_build.pto.resolve import resolve
from pypto_build.pto.types import PtrType
from pypto_build.replay.reference.entry import TENSOR, read_entry

_TORCH = {row.pto: row.torch for row in DTYPES.values() if row.pto and row.torch}
#: Element type and extents of a view.
View = tuple[str, tuple[int, ...]]


def complete(interface: Interface, artifact: Path, names: Set[str]) -> Interface:
    """Return the interface with shapes for the tensors named `names`, where all modules agree on one."""
    views: dict[int, set[View]] = {}
    kernels = {kernel.func_id: kernel for kernel in interface.kernels}
    modules = _Modules(artifact)
    entry = interface.orchestration
    for use in tensor_uses(artifact / entry.source, entry.function_name):
        if kernel := kernels.get(use.func_id):
            views.setdefault(use.index, set()).update(modules.views(kernel, use.position))
    params = []
    for param in interface.params:
        seen = views.get(param.index, set()) if param.kind == "tensor" and param.name in names else set()
        if len(seen) == 1:
            ((dtype, shape),) = seen
            param = msgspec.structs.replace(param, dtype=param.dtype or dtype, shape=shape)
        params.append(param)
    return msgspec.structs.replace(interface, params=tuple(params))


class _Modules:
    """The modules of an artifact, each parsed when one of its functions is first needed."""

    def __init__(self, artifact: Path) -> None:
        self._artifact = artifact
        self._files: dict[str, Path] = {}
        self._modules: dict[Path, Module | None] = {}
        for path in sorted(artifact.glob("ptoas/**/*.pto")):
            for name in function_names(path.read_text(encoding="utf-8", errors="replace")):
                self._files.setdefault(name, path)

    def views(self, kernel: KernelInterface, position: int) -> Iterator[View]:
        """Yield the views that the kernel's module makes of its tensor number `position`."""
        source = self._artifact / kernel.source
        text = source.read_text(encoding="utf-8", errors="replace") if source.is_file() else ""
        read = read_entry(text, list(self._files))
        module = self._module(self._files[read[0]]) if read else None
        if read is None or module is None:
            return
        function = next(f for f in module.functions() if f.name == read[0])
        numbers = [n for n, passed in enumerate(read[1]) if (passed.kind, passed.slot) == (TENSOR, position)]
        for number in numbers:
            yield from _views(function, module, number)

    def _module(self, path: Path) -> Module | None:
        if path not in self._modules:
            try:
                self._modules[path] = parse_file(str(path))
            except (PtoError, OSError):  # the user of the module reports its error
                self._modules[path] = None
        return self._modules[path]


def _views(function: Function, module: Module, number: int) -> Iterator[View]:
    """Yield the views of a function's argument whose extents are constants."""
    type_ = function.args[number].type if number < len(function.args) else None
    if function.body is None or not isinstance(type_, PtrType) or str(type_.element) not in _TORCH:
        return
    resolved = resolve(function, module)
    for op in function.body.walk():
        if op.name != "pto.make_tensor_view" or resolved.value(op, "ptr") is not resolved.arguments[number]:
            continue
        extents = [value.constant for value in resolved.values(op, "shape")]
        constant = tuple(extent for extent in extents if extent is not None and extent >= 0)
        if extents and len(constant) == len(extents):
            yield _TORCH[str(type_.element)], constant
