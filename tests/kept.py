"""Libraries that tests compile, kept in the user's cache from one session to the next, as the runtime is.

A library is stored under the digest of its text and command, of the compiler, and of all our headers. After the edit of
a header all libraries are compiled anew. A library that was compiled during an edit is not kept.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pypto_build
from pypto_build.toolchain.cache import cache_dir

# Named without the module that has it: what every test process imports is what every test depends on.
INCLUDE_DIR = Path(pypto_build.__file__).resolve().parent / "runtime" / "include"

#: Names the directory, for all processes of a session; tests that have a cache of their own do not move it.
VARIABLE = "PYPTO_BUILD_TEST_KEPT"

_UNUSED_S = 14 * 24 * 3600.0
#: What else decides what a compiler does.
_VARIABLES = (
    "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX",
    "SOURCE_DATE_EPOCH",
)  # fmt: skip


def prepare() -> None:
    """Choose the directory, and remove from it what no session has used for long."""
    directory = cache_dir() / "tests"
    os.environ.setdefault(VARIABLE, str(directory))
    for path in directory.glob("*"):
        with suppress(OSError):  # another session's
            if time.time() - path.stat().st_mtime > _UNUSED_S:
                shutil.rmtree(path) if path.is_dir() else path.unlink()  # a directory is what a killed session left


def library(
    text: str, command: Sequence[str], compile_to: Callable[[Path, Path], object], include: Path = INCLUDE_DIR
) -> Path:
    """Return the path of the library that `compile_to` makes of a file with `text`.

    `compile_to` gets the paths of the file and of the library. `command` is the compiler, with all that decides besides
    the compiler and the headers below `include`.
    """
    kept_dir, headers = _place(), _stamps(include)
    parts = (text, *command, _of_headers(include, headers), _identity(command[0]), *map(os.environ.get, _VARIABLES))
    kept = kept_dir / f"{hashlib.sha256(repr(parts).encode()).hexdigest()[:40]}.so"
    source = kept.with_suffix(".cpp")  # which stays for debuggers
    with suppress(OSError):
        os.utime(source)
        os.utime(kept)
        return kept
    with TemporaryDirectory(dir=kept_dir) as directory:
        written, made = Path(directory, "library.cpp"), Path(directory, "library.so")
        written.write_text(text, encoding="utf-8")
        written.replace(source)
        compile_to(source, made)
        if _stamps(include) == headers:
            made.replace(kept)
            return kept
    return library(text, command, compile_to, include)


@cache
def _own() -> TemporaryDirectory[str]:
    """For what cannot be kept, or is outside of tests: it goes with this process."""
    return TemporaryDirectory(prefix="pypto-build-tests-")


def _place() -> Path:
    if chosen := os.environ.get(VARIABLE):
        with suppress(OSError):
            Path(chosen).mkdir(parents=True, exist_ok=True)
            if os.access(chosen, os.W_OK):
                return Path(chosen)
    return Path(_own().name)


_Stamps = tuple[tuple[str, int, int, int], ...]


def _stamps(include: Path) -> _Stamps:
    """The headers as they are now, by inode, size and time."""
    stamps = []
    for directory, _, names in os.walk(include):
        for name in names:
            status = os.stat(os.path.join(directory, name))
            stamps.append((os.path.join(directory, name), status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(sorted(stamps))


@cache
def _of_headers(include: Path, stamps: _Stamps) -> str:
    """A digest of their names below `include`, and contents."""
    digest = hashlib.sha256()
    for name, *_ in stamps:
        content = Path(name).read_bytes()
        digest.update(f"{os.path.relpath(name, include)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


@cache
def _identity(compiler: str) -> str:
    """Return the identity of a compiler: its programs and the system's headers, by size and time."""
    facts = []
    for program in ("cc1plus", "as", "collect2", "ld"):
        words = [compiler, f"-print-prog-name={program}"]
        name = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
        facts.append(shutil.which(name) or name)
    for name in ("libstdc++.so", "libc.so", "libgcc.a"):
        words = [compiler, f"-print-file-name={name}"]
        facts.append(subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip())
    return repr(
        [(path, *_stamp(path)) for path in (shutil.which(compiler) or compiler, "/usr/include/features.h", *facts)]
    )


def _stamp(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns
