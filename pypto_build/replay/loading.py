"""What a run loads: the embedded runtime, the kernels and the orchestration; when their turn comes, or ahead of it.

Of libraries that do nothing when they are loaded (`load_ahead` of the runtime), a process may have loaded what was
there long before a run of them is wanted: each run is then in a fork of it. When its turn comes each file is looked at
again there, and what is another one by then is unloaded and loaded as it is.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol


@dataclass(frozen=True)
class KernelBinary:
    """One compiled kernel."""

    func_id: int
    name: str
    core_type: str
    path: Path
    signature: tuple[str, ...] | None = None


class Loads(Protocol):
    """What a job says of what it loads."""

    @property
    def platform(self) -> str: ...
    @property
    def threads(self) -> int: ...
    @property
    def kernels(self) -> tuple[KernelBinary, ...]: ...
    @property
    def orchestration(self) -> Path: ...
    @property
    def function_name(self) -> str: ...
    @property
    def config_name(self) -> str: ...
    @property
    def reference(self) -> Path | None: ...


@cache
def load_embedded(path: Path) -> ModuleType:
    """The embedded runtime's extension module, from any path; each is loaded once. Raises `ImportError`."""
    loader = importlib.machinery.ExtensionFileLoader("_embedded", str(path))
    spec = importlib.util.spec_from_loader("_embedded", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


class LoadingNote:
    """The end of the report buffer, which tells what is being loaded: code may run then, too."""

    BYTES = 512

    def __init__(self, report: memoryview) -> None:
        self._place = report[-self.BYTES :]

    def set(self, path: Path | None) -> None:
        """Say what is loaded next; None: nothing is any more."""
        text = (str(path) if path else "").encode()[: self.BYTES - 1]
        self._place[: len(text) + 1] = text + b"\0"

    @property
    def text(self) -> str:
        """The file being loaded, or nothing."""
        return bytes(self._place).partition(b"\0")[0].decode(errors="replace")


class Files:
    """Files, and what the system said of them when this was made: device, inode, size and both times."""

    _ENTRY = struct.Struct("QQqqq")
    _SAME_FILE = 16  # bytes: device and inode

    def __init__(self, module: Any, paths: Iterable[str]) -> None:
        self.paths = list(paths)
        self._module = module
        self._seen: bytes = module.identify(self.paths)

    def changed(self) -> Iterator[tuple[str, bool]]:
        """Those of which the system says something else now, and whether that is because each is another file, or
        there is none; else it was written to."""
        now: bytes = self._module.identify(self.paths)
        if now != self._seen:
            for path, before, after in zip(self.paths, self._each(self._seen), self._each(now), strict=True):
                if before != after:
                    yield path, before[: self._SAME_FILE] != after[: self._SAME_FILE]

    def are_unchanged(self) -> bool:
        """Whether the system says the same of all."""
        return not any(True for _ in self.changed())

    def are_whole(self) -> bool:
        """Whether none of them was written to, though others may lie in their places."""
        return all(is_other for _, is_other in self.changed())

    def are_older_than(self, moment_ns: int) -> bool:
        """Whether all were there, and had not been changed since a moment of the system's clock."""
        entries = self._ENTRY.iter_unpack(self._seen)
        return all(size >= 0 and max(times) < moment_ns for _, _, size, *times in entries)

    def only(self, wanted: Sequence[bool]) -> Files:
        """Those of them that are `wanted`, as they were."""
        found = Files(self._module, [])
        found.paths = [path for path, one in zip(self.paths, wanted, strict=True) if one]
        found._seen = b"".join(seen for seen, one in zip(self._each(self._seen), wanted, strict=True) if one)
        return found

    def _each(self, seen: bytes) -> Iterator[bytes]:
        size = self._ENTRY.size
        return (seen[begin : begin + size] for begin in range(0, len(seen), size))


class Libraries:
    """The libraries of a job. Those that are loaded ahead are used by this process, and by those that are forked from
    it."""

    def __init__(self, module: Any, job: Loads) -> None:
        self._module = module
        self._of = _what_counts(job)
        self._kernels, self._orchestration = job.kernels, job.orchestration
        self._runtime: Any = None  # has kernels as they were loaded ahead
        self._missing = list(job.kernels)  # those that it does not have

    def is_for(self, module: Any, job: Loads) -> bool:
        """Whether these are the libraries of `job`, as far as their names go."""
        return module is self._module and self._of == _what_counts(job)

    def load_ahead(self) -> Files:
        """Load what is there; the files that have been loaded, by this or before."""
        paths = [str(self._orchestration), *(str(kernel.path) for kernel in self._kernels)]
        before = Files(self._module, paths)
        loaded: list[bool] = self._module.load_ahead(paths)
        if self._runtime is None and len({kernel.func_id for kernel in self._kernels}) == len(self._kernels):
            platform, threads, *_ = self._of
            self._runtime = self._module.Runtime(platform=platform, threads=threads)
        if self._runtime is not None:
            self._missing = [kernel for kernel in self._missing if not self._takes(kernel)]
        return before.only(loaded)

    def _takes(self, kernel: KernelBinary) -> bool:
        """Whether a kernel is there that was loaded ahead. What is wrong with one is said when its turn comes."""
        try:
            return bool(self._runtime.load_kernel_ahead(*_words(kernel)))
        except self._module.RuntimeFault:
            return False

    def runtime(self, job: Loads, note: LoadingNote) -> Any:
        """A runtime that has loaded everything as it is now. Raises `RuntimeFault`."""
        runtime, stale, missing = self._runtime, set[int](), {id(kernel) for kernel in self._missing}
        if runtime is None:
            runtime = self._module.Runtime(platform=job.platform, threads=job.threads)
        else:
            stale.update(runtime.renew_kernels())
        for kernel in self._kernels if stale or missing else ():
            if id(kernel) in missing:
                note.set(kernel.path)
                func_id, name, core_type, path, signature = _words(kernel)
                path = "" if job.reference and not kernel.path.is_file() else path
                runtime.load_kernel(func_id, name, core_type, path, signature)
            elif kernel.func_id in stale:
                note.set(kernel.path)
                runtime.replace_kernel(kernel.func_id, str(kernel.path))
        note.set(job.orchestration)
        runtime.load_orchestration(str(job.orchestration), job.function_name, job.config_name)
        note.set(None)
        self._runtime, self._missing = None, list(self._kernels)  # what is loaded now was not loaded ahead
        return runtime


def _what_counts(job: Loads) -> tuple[Any, ...]:
    return job.platform, job.threads, job.reference, job.orchestration, job.kernels


def _words(kernel: KernelBinary) -> tuple[int, str, str, str, list[str] | None]:
    """A kernel as a runtime loads it."""
    signature = None if kernel.signature is None else list(kernel.signature)
    return kernel.func_id, kernel.name, kernel.core_type, str(kernel.path), signature
