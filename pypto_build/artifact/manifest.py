"""Reads ``kernel_config.py`` into typed records and checks every field.

Shapes: ``KERNELS``, ``ORCHESTRATION`` and ``RUNTIME_CONFIG`` at module level as PyPTO writes them (all vintages), or
simpler's nested ``CALLABLE = {"orchestration": ..., "incores": [...]}``.
"""

from __future__ import annotations

import os
import posixpath
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from .errors import ArtifactError
from .files import check_size, read_text
from .manifest_eval import Entry, PathText, evaluate, shown
from .records import (
    CORE_TYPES,
    DEFAULT_CONFIG,
    DEFAULT_ENTRY,
    FILE_NAME,
    LARGEST_NUMBER,
    ArgDirection,
    Kernel,
    Manifest,
    Orchestration,
    Signature,
)

# Resolves a manifest's paths: re-rooted onto the artifact, and confined to it.

_BELOW = "the files of an artifact lie below it; copy the file there or mark the kernel `external`"
_AGAIN = "compile again or correct the manifest"
_LONGEST = 4096  # characters of a path; no system takes more


def portable_path(path: Path, directory: Path) -> str:
    """Return ``path`` as a file in ``directory`` should name it, so that copies of both find each other.

    The result is relative to ``directory`` for a path below it. It is relative, too, where they share more than the
    file system's root and no link on the way leads elsewhere; else absolute.
    """
    if path.is_relative_to(directory):
        return path.relative_to(directory).as_posix()
    relative = os.path.relpath(path, directory)
    real = os.path.relpath(os.path.join(os.path.realpath(path.parent), path.name), os.path.realpath(directory))
    return relative if relative == real and os.path.commonpath([path, directory]) != os.sep else str(path)


class SourceTree:
    """The files below an artifact's root, resolved from the paths in its manifest.

    Errors are usage errors that name ``place`` (the manifest and line) and ``field``. Works on text, since a manifest
    may name hundreds of files and is read by every build.
    """

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self._real_root = os.path.realpath(root)
        self._real_directories: dict[str, str] = {}

    def file(self, value: object, position: str, field: str) -> Path:
        """Return the file inside the artifact that ``value`` means.

        A relative path is taken below the root. An absolute path outside of it comes from the machine of the compiler:
        the longest suffix that exists below the root is meant. Raises a usage error for ``..``, for paths and links
        that lead outside, and for directories.
        """
        path = _paths_text(value, position, field)
        if ".." in path.split("/"):
            raise ArtifactError(position, f"{field}: path {path!r} contains '..'", _BELOW)
        path = posixpath.normpath(path)
        path_below = self._reroot(path) if path.startswith("/") else f"{self.root}/{path}"
        if path_below is None:
            raise ArtifactError(position, f"{field}: path {path!r} is outside the artifact {self.root}", _BELOW)
        try:
            status = os.lstat(path_below)
            is_link = stat.S_ISLNK(status.st_mode)
            status = os.stat(path_below) if is_link else status
        except OSError:
            shown = path_below[len(self.root) + 1 :]
            raise ArtifactError(
                position, f"{field}: file {shown!r} is missing", "restore the file or compile again"
            ) from None
        real = os.path.realpath(path_below) if is_link else self._real(path_below)
        if not real.startswith(f"{self._real_root}/"):
            raise ArtifactError(
                position, f"{field}: {path!r} is a symbolic link to {real}, outside of the artifact", _BELOW
            )
        if not stat.S_ISREG(status.st_mode):
            raise ArtifactError(position, f"{field}: {path!r} is not a file", _AGAIN)
        check_size(path_below, status.st_size)
        return Path(path_below)

    def external_file(self, value: object, position: str, field: str) -> Path:
        """Return the file anywhere on this machine that ``value`` means."""
        path = self.external(value, position, field)
        if not path.is_file():
            raise ArtifactError(position, f"{field}: {str(path)!r} is not a file", _AGAIN)
        check_size(path, path.stat().st_size)
        return path

    def external(self, value: object, position: str, field: str) -> Path:
        """Return the file or directory anywhere on this machine that ``value`` means."""
        path = _paths_text(value, position, field)
        absolute = posixpath.normpath(posixpath.join(self.root, path))
        if not os.path.exists(absolute):
            raise ArtifactError(
                position,
                f"{field}: the file {path!r}, outside of the artifact, is missing",
                "copy the file to this machine or correct the path",
            )
        return Path(absolute)

    def _reroot(self, path: str) -> str | None:
        for base in (self.root, self._real_root):
            if path.startswith(f"{base}/"):
                return self.root + path[len(base) :]
        parts = path.strip("/").split("/")
        candidates = (f"{self.root}/{'/'.join(parts[start:])}" for start in range(len(parts)))
        return next((candidate for candidate in candidates if os.path.exists(candidate)), None)

    def _real(self, path: str) -> str:
        """Return the path with all links in its directories resolved; the file itself is not a link."""
        directory, name = posixpath.split(path)
        if directory not in self._real_directories:
            self._real_directories[directory] = os.path.realpath(directory)
        return f"{self._real_directories[directory]}/{name}"


def _paths_text(value: object, position: str, field: str) -> str:
    if isinstance(value, str) and value not in ("", ".") and "\0" not in value and len(value) <= _LONGEST:
        try:
            os.fsencode(value)
            return str(value)
        except UnicodeEncodeError:
            pass
    raise ArtifactError(position, f"{field}: {shown(value)} is not a path", "give the path of a file in the artifact")


MANIFEST_NAME = "kernel_config.py"

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_COMPILE_AGAIN = "compile again or correct the manifest"

#: Beginning of the manifest beside an artifact's binaries, and its name for the artifact's directory.
SIGNED = "# Signed manifest of "
SIGNED_ROOT = "_ROOT_DIR"

#: Bytes of a manifest; one of a thousand kernels has half a megabyte.
_LARGEST = 16 << 20

#: Numbers of RUNTIME_CONFIG: key -> smallest value.
_RUNTIME_NUMBERS = {"block_dim": 1, "aicpu_thread_num": 0, "orch_thread_num": 1}


class Evaluated(Protocol):
    """A cache of evaluated manifests, for processes that read the same manifests repeatedly."""

    def find(self, path: Path, text: str) -> dict[str, Any] | None:
        """Return the module globals of a manifest, without lines; None if they are not cached."""

    def keep(self, path: Path, text: str, names: dict[str, Any]) -> None:
        """Cache the module globals of a manifest."""

    def checked(self, path: Path, root: Path, text: str) -> Manifest | None:
        """Return the cached manifest of this text, if the files that it names are unchanged."""

    def keep_checked(self, path: Path, root: Path, text: str, names: dict[str, Any], manifest: Manifest) -> None:
        """Cache the manifest that was read from a text with these module globals."""


def described_root(path: Path) -> Path:
    """Return the root of the artifact that the manifest at ``path`` describes.

    A signed manifest lies elsewhere and names the root. Raises a usage error, as `read_manifest` does.
    """
    text = _text(path)
    root = evaluate(path, text).get(SIGNED_ROOT) if text.startswith(SIGNED) else None
    return Path(str(root)) if isinstance(root, PathText) else path.parent


def read_manifest(path: Path, root: Path | None = None, evaluated: Evaluated | None = None) -> Manifest:
    """Return the manifest at ``path``; its sources are looked up below ``root`` (default: the manifest's directory).

    Raises a usage error, one line naming file, line and field, for anything that is not a complete manifest. What
    is ``evaluated`` already is only checked.
    """
    root = path.parent if root is None else root
    text = _text(path)
    if evaluated is None:
        return _checked(path, root, evaluate(path, text))
    manifest = evaluated.checked(path, root, text)
    if manifest is not None:
        return manifest
    names = evaluated.find(path, text)
    if names is not None:
        with suppress(ArtifactError):  # which is raised again below, and names its line there
            manifest = _checked(path, root, names)
    if names is None or manifest is None:
        names = evaluate(path, text)
        manifest = _checked(path, root, names)
        evaluated.keep(path, text, names)
    evaluated.keep_checked(path, root, text, names, manifest)
    return manifest


def named_kernels(path: Path) -> list[Path]:
    """Return the kernel sources that a manifest names below its directory, existing or not; empty if it is
    unreadable.
    """
    try:
        kernels = evaluate(path, _text(path)).get("KERNELS")
    except ArtifactError:
        return []
    listed = kernels if isinstance(kernels, list) else []
    sources = (Path(path.parent, str(kernel.get("source"))) for kernel in listed if isinstance(kernel, Entry))
    return [source for source in sources if source.is_relative_to(path.parent) and ".." not in source.parts]


def _text(path: Path) -> str:
    try:
        return read_text(path, _LARGEST)
    except OSError as error:
        raise ArtifactError(path, f"cannot be read: {error.strerror}", _COMPILE_AGAIN) from None


def _checked(path: Path, root: Path, names: dict[str, Any]) -> Manifest:
    """Return the manifest with these module globals after checking every field."""
    reader = _Reader(path, root)
    callable_ = names.get("CALLABLE", {})
    if not isinstance(callable_, dict):
        raise ArtifactError(path, "CALLABLE is not a dict", _COMPILE_AGAIN)
    kernels = names.get("KERNELS", callable_.get("incores"))
    orchestration = names.get("ORCHESTRATION", callable_.get("orchestration"))
    if kernels is None:
        raise ArtifactError(path, "KERNELS is missing", _COMPILE_AGAIN)
    if orchestration is None:
        raise ArtifactError(path, "ORCHESTRATION is missing", _COMPILE_AGAIN)
    return Manifest(
        kernels=reader.kernels(kernels),
        orchestration=reader.orchestration(orchestration),
        runtime_config=reader.runtime_config(names.get("RUNTIME_CONFIG", {})),
    )


class _Reader:
    """Checks the manifest's values field by field, so that every error can name its field."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path = path
        self.tree = SourceTree(root)

    def place(self, entry: object) -> str:
        line = entry.line if isinstance(entry, Entry) else 0
        return f"{self.path}:{line}" if line else str(self.path)

    def fault(self, entry: object, message: str) -> ArtifactError:
        return ArtifactError(self.place(entry), message, _COMPILE_AGAIN)

    def kernels(self, entries: object) -> tuple[Kernel, ...]:
        if not isinstance(entries, (list, tuple)):
            raise ArtifactError(self.path, "KERNELS is not a list", _COMPILE_AGAIN)
        by_id: dict[int, Kernel] = {}
        unnamed: list[int] = []
        for position, entry in enumerate(entries):
            field = f"KERNELS[{position}]"
            if not isinstance(entry, dict):
                raise ArtifactError(self.path, f"{field} is not a dict", _COMPILE_AGAIN)
            kernel = self.kernel(entry, field)
            twin = by_id.get(kernel.func_id)
            if twin is not None:
                raise ArtifactError(
                    self.place(entry),
                    f"{field}.func_id: kernel {twin.name!r} already has the func_id {kernel.func_id}",
                    "give every kernel its own func_id",
                )
            by_id[kernel.func_id] = kernel
            if "name" not in entry:
                unnamed.append(kernel.func_id)
        return self.distinct_names([by_id[func_id] for func_id in sorted(by_id)], unnamed)

    def distinct_names(self, kernels: list[Kernel], unnamed: list[int]) -> tuple[Kernel, ...]:
        """Return the kernels with unique (core type, name) pairs, which name their binaries."""
        import msgspec  # only here: `structs.replace`

        seen: dict[tuple[str, str], Kernel] = {}
        result: list[Kernel] = []
        for kernel in kernels:
            key = (kernel.core_type, kernel.name)
            if key in seen and kernel.func_id in unnamed:
                kernel = msgspec.structs.replace(kernel, name=f"{kernel.name}_{kernel.func_id}")
                key = (kernel.core_type, kernel.name)
            if key in seen:
                raise ArtifactError(
                    self.path,
                    (
                        f"KERNELS: two kernels are named {kernel.name!r} for the core type {kernel.core_type}: "
                        f"those with func_id {seen[key].func_id} and {kernel.func_id}"
                    ),
                    "give every kernel its own name",
                )
            seen[key] = kernel
            result.append(kernel)
        return tuple(result)

    def kernel(self, entry: dict[str, Any], field: str) -> Kernel:
        position = self.place(entry)
        func_id = self.required(entry, field, "func_id")
        if not _is_number(func_id, 0):
            raise ArtifactError(
                position, f"{field}.func_id: {shown(func_id)} is not a number of 0 or more", _COMPILE_AGAIN
            )
        core_type = self.required(entry, field, "core_type")
        if core_type not in CORE_TYPES:
            raise ArtifactError(
                position,
                f"{field}.core_type: unknown core type {shown(core_type)}",
                f"use one of {', '.join(CORE_TYPES)}",
            )
        is_external = entry.get("external", False) is True
        locate = self.tree.external_file if is_external else self.tree.file
        source = locate(self.required(entry, field, "source"), position, f"{field}.source")
        name = entry.get("name")
        if name is None and "name" not in entry:
            name = source.stem
        if not isinstance(name, str) or not FILE_NAME.match(name):
            raise ArtifactError(
                position, f"{field}.name: {shown(name)} is not a valid kernel name", "use letters, digits and _"
            )
        return Kernel(
            func_id=func_id,
            name=name,
            source=source,
            core_type=core_type,
            signature=self.signature(entry, field),
            external=is_external,
            extra_include_dirs=self.include_dirs(entry, field),
        )

    def orchestration(self, entry: object) -> Orchestration:
        field = "ORCHESTRATION"
        if not isinstance(entry, dict):
            raise ArtifactError(self.path, f"{field} is not a dict", _COMPILE_AGAIN)
        is_external = entry.get("external", False) is True
        locate = self.tree.external_file if is_external else self.tree.file
        source = locate(self.required(entry, field, "source"), self.place(entry), f"{field}.source")
        symbols: dict[str, str] = {}
        for key, default in (("function_name", DEFAULT_ENTRY), ("config_name", DEFAULT_CONFIG)):
            symbol = entry.get(key) or default
            if not isinstance(symbol, str) or not _IDENTIFIER.match(symbol):
                raise self.fault(entry, f"{field}.{key}: {shown(symbol)} is not a C++ function name")
            symbols[key] = symbol
        return Orchestration(source=source, signature=self.signature(entry, field), external=is_external, **symbols)

    def runtime_config(self, entry: object) -> dict[str, Any]:
        if not isinstance(entry, dict):
            raise ArtifactError(self.path, "RUNTIME_CONFIG is not a dict", _COMPILE_AGAIN)
        for key, value in entry.items():
            fault = _runtime_fault(key, value)
            if fault:
                raise self.fault(entry, f"RUNTIME_CONFIG.{key}: {shown(value)} is {fault}")
        return {key: str(value) if isinstance(value, str) else value for key, value in entry.items()}

    def signature(self, entry: dict[str, Any], field: str) -> Signature | None:
        value = entry.get("signature")
        if value is None:
            return None
        if not isinstance(value, (list, tuple)) or not all(isinstance(d, ArgDirection) for d in value):
            raise self.fault(entry, f"{field}.signature is not a list of ArgDirection members")
        return tuple(d for d in value if d is not ArgDirection.SCALAR)

    def include_dirs(self, entry: dict[str, Any], field: str) -> tuple[Path, ...]:
        value = entry.get("extra_include_dirs", ())
        if not isinstance(value, (list, tuple)):
            raise self.fault(entry, f"{field}.extra_include_dirs is not a list")
        return tuple(
            self.tree.external(item, self.place(entry), f"{field}.extra_include_dirs[{i}]")
            for i, item in enumerate(value)
        )

    def required(self, entry: dict[str, Any], field: str, key: str) -> Any:
        if key not in entry:
            raise self.fault(entry, f"{field}.{key} is missing")
        return entry[key]


def _runtime_fault(key: str, value: object) -> str:
    """Return the fault of a value of RUNTIME_CONFIG; empty without one."""
    if key in _RUNTIME_NUMBERS:
        smallest = _RUNTIME_NUMBERS[key]
        return "" if _is_number(value, smallest) else f"not a number of {smallest} or more"
    if key == "runtime":
        return "" if isinstance(value, str) else "not a name"
    items = value if isinstance(value, list) else [value]
    if not all(item is None or isinstance(item, (str, int, float)) for item in items):
        return "not a string, a number or a list of them"
    return "too large a number" if any(isinstance(item, int) and abs(item) >= 1 << 63 for item in items) else ""


def _is_number(value: object, smallest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and smallest <= value <= LARGEST_NUMBER
