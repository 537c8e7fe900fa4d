"""Finding ``ptoas``, the assembler of ``.pto`` modules, and its command line.

Where PyPTO looks and what it passes: ``PTOAS_ROOT`` names a directory that holds ``ptoas``, ``ptoas.sh`` or
``bin/ptoas`` and rules out any other place; without it, ``PATH`` is searched. Level 3 is for modules whose tile
addresses are given, level 2 for those that leave them to the assembler.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pypto_build.facts.platforms import Platform
from pypto_build.toolchain import ToolchainError
from pypto_build.toolchain.programs import version_text

OWN = "own"

_BELOW_ROOT = ("ptoas", "ptoas.sh", "bin/ptoas")
_ARCH = {"a2a3": "a3", "a5": "a5"}
_ADDRESSED = re.compile(r"\bpto\.alloc_tile\b[^\n]*\baddr\s*=")


@dataclass(frozen=True)
class Ptoas:
    """An assembler on this machine, and its version line (part of the build key)."""

    path: str
    version: str

    @property
    def identity(self) -> str:
        """Return the assembler's path and version: two assemblies are interchangeable only if these are equal."""
        return f"{self.path} {self.version}"


def find_ptoas(chosen: str, environment: Mapping[str, str]) -> Ptoas | None:
    """Return the assembler that ``PTOAS=`` names, else that of ``PTOAS_ROOT``, else the one on ``PATH``; None for the
    built-in assembler.

    Raises:
        ToolchainError: one is named and is not there, or does not answer.
    """
    if chosen == OWN:
        return None
    if chosen:
        path = shutil.which(chosen)
        if path is None:
            raise ToolchainError(
                f"PTOAS={chosen}: no such program; name the ptoas executable, or use PTOAS={OWN} "
                "for the built-in assembler"
            )
        return _probe(path)
    if root := environment.get("PTOAS_ROOT"):
        for name in _BELOW_ROOT:
            if os.access(candidate := Path(root, name), os.X_OK) and candidate.is_file():
                return _probe(str(candidate))
        names = ", ".join(_BELOW_ROOT)
        raise ToolchainError(
            f"PTOAS_ROOT={root}: contains none of {names}; correct the path, or use PTOAS={OWN} for the "
            "built-in assembler"
        )
    path = shutil.which("ptoas", path=environment.get("PATH"))
    return _probe(path) if path else None


def _probe(path: str) -> Ptoas:
    return Ptoas(path, " ".join(version_text(path, "correct PTOAS= or PTOAS_ROOT").split()))


def ptoas_argv(ptoas: Ptoas, platform: Platform, module: str, source: str, target: str) -> list[str]:
    """Return the command that assembles ``source``, whose text is ``module``."""
    level = "level3" if _ADDRESSED.search(module) else "level2"
    flags = ["--enable-insert-sync", f"--pto-level={level}", "--pto-arch", _ARCH[platform.arch]]
    return [ptoas.path, source, "-o", target, *flags]
