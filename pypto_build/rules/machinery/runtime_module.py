"""Where the embedded runtime's Python module lies."""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from pathlib import Path

from pypto_build.runtime import build as runtime_build
from pypto_build.toolchain.cache import cache_dir
from pypto_build.toolchain.host import HostCompiler


def module_path(compiler: HostCompiler) -> Path:
    """Where the runtime's Python module lies once it is built.

    The directory is named after a digest of its sources, the compiler and the Python it is for, so that versions of
    ours can be used by turns; whether it is right is proven as for any other result.
    """
    digest = hashlib.sha256(f"{compiler.identity}\0{sys.version}".encode())
    digest.update(_sources_digest())
    return cache_dir() / "runtime" / digest.hexdigest()[:32] / runtime_build.module_filename()


@cache
def _sources_digest() -> bytes:
    """Of the texts that the module is made from; nothing is built of those that change while a process runs."""
    digest = hashlib.sha256()
    for path in (*runtime_build.sources(), *runtime_build.headers(), Path(runtime_build.__file__)):
        digest.update(f"{path.name}\0".encode() + path.read_bytes())
    return digest.digest()


def preload() -> list[Path]:
    """Read the sources ahead, for processes that are forked; the files and directories that this holds for."""
    _sources_digest()
    files = [*runtime_build.sources(), *runtime_build.headers()]
    return sorted({*files, *(path.parent for path in files)})
