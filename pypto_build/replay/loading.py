"""Loads the files of a run: the embedded runtime, the kernels and the orchestration.

A process may load them ahead of time, if loading them runs no code (`load_ahead` of the runtime). Each run is then a
fork of that process. The fork checks each file again, and reloads those that have been replaced since.
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
    """The part of a job that says which files to load."""

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
    """Return the embedded runtime's extension module, from any path; each path is loaded once. Raises `ImportError`."""
    loader = importlib.machinery.ExtensionFileLoader("_embedded", str(path))
    spec = importlib.util.spec_from_loader("_embedded", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


class LoadingNote:
    """The end of the report buffer, which names the file that is being loaded: code of that file may run then."""

    BYTES = 512

    def __init__(self, report: memoryview) -> None:
        self._path_buffer = report[-self.BYTES :]

    def set(self, path: Path | None) -> None:
        """Write the path of the file that is loaded next; None when loading is over."""
        text = (str(path) if path else "").encode()[: self.BYTES - 1]
        self._path_buffer[: len(text) + 1] = text + b"\0"

    @property
    def text(self) -> str:
        """Return the file that is being loaded; empty if there is none."""
        return bytes(self._path_buffer).partition(b"\0")[0].decode(errors="replace")


class Files:
    """Files with their identity at construction: device, inode, size and both times."""

    _ENTRY = struct.Struct("QQqqq")
    _SAME_FILE = 16  # bytes: device and inode

    def __init__(self, module: Any, paths: Iterable[str]) -> None:
        self.paths = list(paths)
        self._module = module
        self._seen: bytes = module.identify(self.paths)

    def changed(self) -> Iterator[tuple[str, bool]]:
        """Yield each file whose identity has changed, and whether another file replaced it. A missing file counts as
        replaced; otherwise the file was written to in place."""
        now: bytes = self._module.identify(self.paths)
        if now != self._seen:
            for path, before, after in zip(self.paths, self._each(self._seen), self._each(now), strict=True):
                if before != after:
                    yield path, before[: self._SAME_FILE] != after[: self._SAME_FILE]

    def are_unchanged(self) -> bool:
        """Return whether the identity of every file is the same as before."""
        return not any(True for _ in self.changed())

    def are_whole(self) -> bool:
        """Return whether no file was written to in place. Other files may have replaced them."""
        return all(is_other for _, is_other in self.changed())

    def are_older_than(self, moment_ns: int) -> bool:
        """Return whether all files existed, and were last changed before a moment of the system's clock."""
        entries = self._ENTRY.iter_unpack(self._seen)
        return all(size >= 0 and max(times) < moment_ns for _, _, size, *times in entries)

    def only(self, chosen: Sequence[bool]) -> Files:
        """Return the files that the predicate selects, with their recorded identity."""
        files = Files(self._module, [])
        files.paths = [path for path, one in zip(self.paths, chosen, strict=True) if one]
        files._seen = b"".join(seen for seen, one in zip(self._each(self._seen), chosen, strict=True) if one)
        return files

    def _each(self, seen: bytes) -> Iterator[bytes]:
        size = self._ENTRY.size
        return (seen[begin : begin + size] for begin in range(0, len(seen), size))


class Libraries:
    """The libraries of a job. Those that are loaded ahead are used by this process and by its forks."""

    def __init__(self, module: Any, job: Loads) -> None:
        self._module = module
        self._of = _what_counts(job)
        self._kernels, self._orchestration = job.kernels, job.orchestration
        self._runtime: Any = None  # has kernels as they were loaded ahead
        self._missing = list(job.kernels)  # kernels that it has not loaded

    def is_for(self, module: Any, job: Loads) -> bool:
        """Return whether these are the libraries of `job`, judged by paths and settings, not by contents."""
        return module is self._module and self._of == _what_counts(job)

    def load_ahead(self) -> Files:
        """Load the files that exist; return all that have been loaded ahead, now or earlier."""
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
        """Load a kernel ahead and return whether that worked. Errors are reported when the kernel is run."""
        try:
            return bool(self._runtime.load_kernel_ahead(*_words(kernel)))
        except self._module.RuntimeFault:
            return False

    def runtime(self, job: Loads, note: LoadingNote) -> Any:
        """Return a runtime that has loaded the current version of every file. Raises `RuntimeFault`."""
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
        self._runtime, self._missing = None, list(self._kernels)  # the next runtime loads everything anew
        return runtime


def _what_counts(job: Loads) -> tuple[Any, ...]:
    return job.platform, job.threads, job.reference, job.orchestration, job.kernels


def _words(kernel: KernelBinary) -> tuple[int, str, str, str, list[str] | None]:
    """Return the arguments by which a runtime loads a kernel."""
    signature = None if kernel.signature is None else list(kernel.signature)
    return kernel.func_id, kernel.name, kernel.core_type, str(kernel.path), signature
