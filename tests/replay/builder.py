"""Builds artifacts by the compiler's command lines, without SCons, and replays them in a process of their own."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from pypto_build.artifact import load_artifact
from pypto_build.artifact.interface import encode_interface, sign
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.replay.verdict import Verdict, read_verdict
from pypto_build.rules.embedded_runtime import ensure_runtime
from pypto_build.toolchain.host import INCLUDE_DIR, find_compiler, kernel_flags, orchestration_flags
from tests import kept

PLATFORM = PLATFORMS["a2a3sim"]

# A header of ours that only comments, system headers and blank lines precede.
_FIRST_INCLUDE = re.compile(
    r"""(?:\s+|//[^\n]*|#include <[\w.]+>)*#include ["<](pto/pto-inst\.hpp|pto_orchestration_api\.h)[">]"""
)


@cache
def embedded_module() -> Path:
    """Return the embedded runtime; the first test that needs it builds it."""
    return ensure_runtime()


@cache
def library(text: str, flags: tuple[str, ...], name: str = "unit.cpp") -> bytes:
    """Return one C++ text as a loadable library whose debug information calls it `name`. A text is compiled once, by
    the process that needs it first."""

    def compile_to(_: Path, target: Path) -> None:
        with TemporaryDirectory() as directory:
            source, unit = Path(directory, name), f"{name}.o"
            source.parent.mkdir(parents=True, exist_ok=True)
            source.write_text(text)
            here = f"-fdebug-prefix-map={directory}=."
            argv = [compiler, *flags, here, *_precompiled(text, flags), f"-I{INCLUDE_DIR}", str(source)]
            argv += ["-c", "-o", unit]
            subprocess.run(argv, check=True, cwd=directory)  # and without the flags, as a link is: some name libraries
            subprocess.run([compiler, "-shared", unit, "-o", str(target)], check=True, cwd=directory)

    compiler = find_compiler().path
    return kept.library(text, (compiler, *flags, name), compile_to).read_bytes()


def _precompiled(text: str, flags: tuple[str, ...]) -> tuple[str, ...]:
    """Return flags that use a precompiled header for the header of ours that the text begins with, if any."""
    shared, include = os.environ.get("PYPTO_BUILD_TEST_LIBRARIES"), _FIRST_INCLUDE.match(text)
    compiler = find_compiler()
    if not shared or include is None or compiler.family != "g++":
        return ()
    header = include.group(1)
    directory = Path(shared, hashlib.sha256(repr((header, flags)).encode()).hexdigest())
    if not directory.exists():
        with TemporaryDirectory(dir=shared) as work:
            (parsed := Path(work, "parsed")).mkdir()
            (parsed / "first.h").write_text(f'#include "{header}"\n')
            argv = [compiler.path, *flags, f"-I{INCLUDE_DIR}", "-x", "c++-header", "first.h", "-o", "first.h.gch"]
            subprocess.run(argv, check=True, cwd=parsed)
            with suppress(OSError):  # another worker was faster
                parsed.rename(directory)
    return ("-include", f"{directory}/first.h")


def build_artifact(artifact_dir: Path, out: Path, *flags: str) -> None:
    """Compile and link everything that the manifest names, with more ``flags``, and write interface.json."""
    artifact = load_artifact(artifact_dir)
    compiler = find_compiler()
    kernels = [
        (unit.source, unit.binary, kernel_flags(compiler, PLATFORM, unit.core_type)) for unit in artifact.kernels
    ]
    entry = (artifact.orchestration.source, artifact.orchestration.binary, orchestration_flags(compiler, PLATFORM))
    for source, binary, of_unit in (*kernels, entry):
        target = out / f"{binary}.so"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(library(source.read_text(), (*of_unit, *flags)))
    (out / "interface.json").write_bytes(encode_interface(sign(artifact).interface))


@dataclass(frozen=True)
class Replayed:
    """The result of a replay: exit status, output, and verdict."""

    status: int
    stdout: str
    stderr: str
    verdict: Verdict


def replay(artifact: Path, out: Path, *options: str) -> Replayed:
    """Run the command line on a built artifact."""
    argv = [sys.executable, "-m", "pypto_build.replay", str(artifact), "--platform", PLATFORM.name, "--verbose"]
    argv += ["--build-dir", str(out), "--embedded", str(embedded_module()), *options]
    return run_tool(argv, out)


def run_tool(argv: list[str], out: Path) -> Replayed:
    """Run the command line of a replay."""
    run = subprocess.run(argv, capture_output=True, text=True, check=False)
    return Replayed(run.returncode, run.stdout, run.stderr, read_verdict(out / "verdict.json"))


def of_any_core(text: str) -> str:
    """Return a text without core numbers: any core may take a task."""
    return re.sub(r"(stuck_core=|core )\d+(?: \(AIV\d+\))?", r"\1N", text)
