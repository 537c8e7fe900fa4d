"""SANDBOX=1: chooses the commands that run in a sandbox, and the directories they may write to.

A sandbox confines commands that run an artifact's code or process its files: compilers, linkers, the replay and the
tools that look at a run. Our own tools that build the runtime, fetch revisions or compile a program run outside.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pypto_build
from pypto_build.artifact import ArtifactError
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.rules.options import Options
from pypto_build.toolchain import ToolchainError
from pypto_build.toolchain.cache import cache_dir
from pypto_build.toolchain.python import own_tool
from pypto_build.toolchain.sandbox import find_sandbox

#: Tools of ours that neither run what an artifact holds nor read more of it than its names, or that need what a sandbox
#: takes away: the network, the cache, a directory of the user's. All others run in one.
_FREE = {
    "pypto_build.compiler",
    "pypto_build.compiler.golden",
    "pypto_build.compiler.pypto",
    "pypto_build.diagnose.outcomes",
    "pypto_build.diagnose.runs",
    "pypto_build.farm",
    "pypto_build.interop.install",
    "pypto_build.interop.scene_test",
    "pypto_build.proof.upload",
    "pypto_build.toolchain.fetch",
    "pypto_build.toolchain.prefork",
}
_CHECKOUT = Path(pypto_build.__file__).resolve().parents[1]
_LAUNCHED = own_tool("")[:-1]


class Confinement:
    """The sandbox of a run, in which ``outputs`` (OUT to the artifact's directory) are writable.

    Raises:
        ArtifactError: an option cannot work in there.
        ToolchainError: there is no sandbox on this machine.
    """

    def __init__(self, options: Options, top: Path, build_dir: Path, outputs: Mapping[Path, Path]) -> None:
        _check(options, build_dir)
        self._outputs = outputs
        readable = (top, build_dir, cache_dir(), _CHECKOUT, Path(sys.prefix), Path(sys.base_prefix))
        try:
            self._sandbox = find_sandbox(readable)
        except ToolchainError as error:
            way_out = "leave it out, and what is replayed runs with your rights"
            raise ToolchainError(f"SANDBOX=1: {error}; {way_out}") from None

    def confine(self, words: list[str], writes_to: Path | None) -> list[str]:
        """Return the command line to run. A command that `writes_to` a directory other than OUT always runs in the
        sandbox.
        """
        if not (writes_to or self._concerns(words)):
            return words
        readable = (*self._sandbox.readable, *self._outputs.values(), *_places(words))
        seen = replace(self._sandbox, readable=readable)
        writable = [writes_to] if writes_to else [output for output in self._outputs if output.is_dir()]
        return seen.wrap(words, writable, hears_terminal=_is_ours(words))

    def _concerns(self, words: Sequence[str]) -> bool:
        """Return True if a command must be confined: a tool of ours that is not exempt, or another command that
        writes to OUT.
        """
        if _is_ours(words):
            return words[len(_LAUNCHED)] not in _FREE
        outputs = tuple(f"{output}/" for output in self._outputs)
        return any(os.path.abspath(word).startswith(outputs) for word in words)


def _check(options: Options, build_dir: Path) -> None:
    if options["LAUNCHER"]:
        name = f"LAUNCHER={options['LAUNCHER']}"
        raise ArtifactError(
            name,
            "cannot be used with SANDBOX=1, which lets a compiler launcher write nowhere",
            "leave out one of the two",
        )
    if not PLATFORMS[options["PLATFORM"]].simulated:
        raise ArtifactError(
            f"PLATFORM={options['PLATFORM']}",
            "cannot be used with SANDBOX=1, which allows no access to a device",
            "leave out one of the two",
        )
    for name in ("JSON", "SARIF"):
        if options[name] and not Path(options[name]).absolute().is_relative_to(build_dir):
            raise ArtifactError(
                f"{name}={options[name]}", "is outside of what SANDBOX=1 allows to write", f"name a file in {build_dir}"
            )


def _is_ours(words: Sequence[str]) -> bool:
    return list(words[: len(_LAUNCHED)]) == _LAUNCHED


def _places(words: Sequence[str]) -> list[Path]:
    """Return the files and directories that a command names."""
    named = [word.removeprefix("-I") for word in words]
    return [Path(word) for word in named if word.startswith("/") and Path(word).exists()]
