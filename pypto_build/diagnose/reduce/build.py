"""Compiles candidates: a file at a time, each text once, with precompiled headers of our own."""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import subprocess
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pypto_build.artifact import ArtifactError
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.toolchain import ToolchainError
from pypto_build.toolchain.host import (
    CHECKED_FLAGS,
    INCLUDE_DIR,
    UnitRecipe,
    find_compiler,
    host_recipe,
    kernel_numerics,
)
from pypto_build.toolchain.python import own_environment, own_tool

#: Compiling is most of the time, so kernels of candidates are optimised little. The result is built as any artifact.
_FLAGS = ("-O1",)
#: A compiler that takes longer is no candidate's fault.
_COMPILE_S = 300


class Refused(Exception):
    """A compiler's message about a text, its first error."""


class Builder:
    """Compiler of candidates. Results lie in ``directory`` under the digest of their text, for all searches."""

    def __init__(self, directory: Path, options: argparse.Namespace, runtime: str) -> None:
        """``options`` has platform, jobs, kernel_flags, cxx, arch and numerics; ``runtime`` is the artifact's."""
        self.jobs = options.jobs or os.cpu_count() or 1
        self.directory, self.pool = directory / _headers_digest(), ThreadPoolExecutor(self.jobs)
        try:
            compiler = find_compiler(options.cxx)
        except ToolchainError as error:
            raise ArtifactError("CXX=", str(error), "install one") from None
        own, user = kernel_numerics(options.numerics), [*_FLAGS, *shlex.split(options.kernel_flags)]
        self.recipes = {
            checked: host_recipe(
                compiler,
                PLATFORMS[options.platform],
                runtime,
                options.arch,
                (*own, *(CHECKED_FLAGS if checked else ())),
                user,
            )
            for checked in (False, True)
        }
        self._headers: dict[tuple[str, bool], Path | None] = {}
        self._turns: dict[str, threading.Lock] = {}

    def build(self, sources: Iterable[tuple[str, str]], *, checked: bool = False) -> dict[tuple[str, str], Path]:
        """The libraries of (kind, text), kind being aic, aiv or orchestration. Raises Refused."""
        distinct = list(dict.fromkeys(sources))
        for kind, _ in distinct:
            self._precompile(kind, checked)
        libraries = self.pool.map(lambda one: self._one(one[0], one[1], checked), distinct)
        return dict(zip(distinct, list(libraries), strict=True))

    def _one(self, kind: str, text: str, checked: bool) -> Path:
        recipe = self.recipes[checked][kind]
        key = f"{kind}\0{recipe.compiler}\0{recipe.identity}\0{text}"
        library = self.directory / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.so"
        failed = library.with_suffix(".error")
        with self._turn(library.name):
            if not library.is_file() and not failed.is_file():
                message = self._compile(recipe, text, self._headers[kind, checked], library)
                if message:
                    failed.write_text(message, encoding="utf-8")
            if not library.is_file():
                raise Refused(failed.read_text("utf-8", "replace"))
        return library

    def _turn(self, name: str) -> threading.Lock:
        """Held while ``name`` is made: candidates compiled at once have most of their texts in common."""
        return self._turns.setdefault(name, threading.Lock())

    def _compile(self, recipe: UnitRecipe, text: str, headers: Path | None, library: Path) -> str:
        """Compile and link; the compiler's message if it refuses."""
        self.directory.mkdir(parents=True, exist_ok=True)
        source, target = library.with_suffix(".cpp"), library.with_suffix(f".{os.getpid()}.o")
        source.write_text(text, encoding="utf-8")
        words = recipe.compile_argv(str(source), str(target))
        run = _run([words[0], *([f"-I{headers}"] if headers else []), *words[1:]])
        if run.returncode == 0:
            linked = target.with_suffix(".so")
            run = _run(recipe.steps[0].argv(str(target), str(linked)))
            target.unlink(missing_ok=True)
            if run.returncode == 0:
                linked.replace(library)
                return ""
        errors = (line for line in run.stderr.splitlines() if "error:" in line)
        return next(errors, run.stderr.strip()[:500]) or "the compiler failed without a word"

    def _precompile(self, kind: str, checked: bool) -> None:
        """Precompile the main header of a kind of kernel. Returns None if the compiler cannot precompile headers."""
        with self._turn(f"{kind} {checked}"):
            if (kind, checked) not in self._headers:
                self._headers[kind, checked] = self._header(self.recipes[checked][kind])

    def _header(self, recipe: UnitRecipe) -> Path | None:
        if not recipe.main_header:
            return None
        name = hashlib.sha256(f"{recipe.compiler}{recipe.identity}".encode()).hexdigest()[:16]
        directory = self.directory / "headers" / name
        target = directory / f"{recipe.main_header}.gch"
        if not target.is_file():
            directory.mkdir(parents=True, exist_ok=True)
            temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp")
            header = recipe.include_dirs[0] / recipe.main_header
            if _run(recipe.precompile_argv(str(header), str(temporary))).returncode == 0:
                temporary.replace(target)
        return directory


def _headers_digest() -> str:
    """Return the digest of the runtime's headers. Results of other headers are not used."""
    digest = hashlib.sha256()
    for path in sorted(path for path in INCLUDE_DIR.rglob("*") if path.is_file()):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def run_own(words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a tool of ours without input."""
    return subprocess.run(
        words, capture_output=True, text=True, errors="replace", env=own_environment(), check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def run_verb(
    verb: str, root: Path, build_dir: Path, options: argparse.Namespace, *more: str
) -> subprocess.CompletedProcess[str]:
    """Build an artifact as anybody would, with the compiler's options of ``options``, and do what ``verb`` says."""
    words = [*own_tool("pypto_build.cli"), verb, str(root), "--platform", options.platform]
    words += ["--build-dir", str(build_dir)]
    for flag, value in (("kernel-flags", options.kernel_flags), ("arch", options.arch), ("cxx", options.cxx)):
        words += [f"--{flag}={value}"] if value else []
    return run_own([*words, *more])


def _run(words: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            words, capture_output=True, text=True, errors="replace", check=False, timeout=_COMPILE_S,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 1, "", "error: the compiler took too long")
