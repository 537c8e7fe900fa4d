"""The headers a C++ file includes, by content, and a key over them.

Names are resolved the way the compiler does (the including file's directory for quotes, then ``-I`` in order) on every
run, so a header that appears earlier on the path counts at once. ``#if`` is not evaluated: a header that is included
under any condition is an input. Headers of the compiler itself are covered by the compiler's identity.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*(["<])([^">\n]+)[">]', re.MULTILINE)


@dataclass
class _File:
    digest: str
    includes: list[tuple[bool, str]]


@dataclass
class HeaderIndex:
    """Reads every file once per SCons run, however many units include it."""

    include_dirs: tuple[str, ...]
    _files: dict[str, _File] = field(default_factory=dict)
    _listings: dict[str, frozenset[str]] = field(default_factory=dict)
    _closures: dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[tuple[str, ...], str]] = field(default_factory=dict)

    def headers(self, source: str, extra_dirs: Iterable[str] = ()) -> tuple[str, ...]:
        """Every header ``source`` reaches, sorted."""
        return self._reached(source, tuple(extra_dirs))[0]

    def key(self, source: str, extra_dirs: Iterable[str] = ()) -> str:
        """A digest over the content of ``source`` and of every header it reaches, with their names."""
        return hashlib.sha256(
            f"{self._read(source).digest} {self._reached(source, tuple(extra_dirs))[1]}".encode()
        ).hexdigest()

    def _reached(self, source: str, extra: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
        """The headers and a digest over them, worked out once for all sources that include the same files."""
        pending = self._resolve(source, extra)
        start = (tuple(pending), extra)
        if start not in self._closures:
            found: set[str] = set()
            while pending:
                header = pending.pop()
                if header not in found:
                    found.add(header)
                    pending.extend(self._resolve(header, extra))
            headers = tuple(sorted(found))
            names = "\0".join(f"{header}\0{self._read(header).digest}" for header in headers)
            self._closures[start] = (headers, hashlib.sha256(names.encode()).hexdigest())
        return self._closures[start]

    def _resolve(self, path: str, extra_dirs: tuple[str, ...]) -> list[str]:
        here = os.path.dirname(path)
        resolved = []
        for quoted, name in self._read(path).includes:
            directories = ((here,) if quoted else ()) + self.include_dirs + extra_dirs
            for directory in directories:
                folder, _, base = name.rpartition("/")
                if base in self._names(os.path.join(directory, folder) if folder else directory):
                    resolved.append(os.path.normpath(os.path.join(directory, name)))
                    break
        return resolved

    def _names(self, directory: str) -> frozenset[str]:
        if directory not in self._listings:
            try:
                self._listings[directory] = frozenset(os.listdir(directory))
            except OSError:
                self._listings[directory] = frozenset()
        return self._listings[directory]

    def _read(self, path: str) -> _File:
        known = self._files.get(path)
        if known is None:
            with open(path, "rb") as file:
                data = file.read()
            includes = [(quote == b'"', name.decode(errors="replace")) for quote, name in _INCLUDE.findall(data)]
            known = self._files[path] = _File(hashlib.sha256(data).hexdigest(), includes)
        return known
