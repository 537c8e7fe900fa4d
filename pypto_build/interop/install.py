"""Puts built binaries where PyPTO and pypto-lib look for them, so that their replays take them as fresh.

python -m pypto_build.interop.install ARTIFACT_DIR --platform P --build-dir OUT [--binaries DIR] [--simpler S] [--isa I]

PyPTO uses ``cache/incore_<func_id>_<core>_<stem>_<platform>.bin`` and the ``.so`` or ``.o`` beside a source. It does so
only if ``cache/binary_context.json`` names the revisions that PyPTO itself uses. pypto-lib also requires each binary to
be no older than its source. If one condition fails, both discard all binaries.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pypto_build.artifact import Artifact, ArtifactError, load_artifact
from pypto_build.artifact.files import replace_file, write_bytes
from pypto_build.artifact.interface import read_interface, relative_source
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.interop.binaries import beside_sources, built, check_binaries
from pypto_build.toolchain import ToolchainError
from pypto_build.toolchain.git import revision_of
from pypto_build.toolchain.python import python_code
from pypto_build.toolchain.simpler_home import SimplerHome, find_home

_CONTEXT, _LOCK = "binary_context.json", ".binary_context.lock"
_ADDED_BY_PYPTO = ('#include "runtime.h"', "#include <iostream>")
_COMMIT = "import _task_interface; print(_task_interface.__build_commit__)"


@dataclass(frozen=True)
class Copy:
    """One file to put in place."""

    source: Path
    target: Path


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    options = _parser().parse_args(argv)
    try:
        artifact = load_artifact(options.artifact)
        home = find_home(options.simpler, options.isa)
        copies = plan(artifact, options.build_dir, options.binaries or options.build_dir, options.platform)
        context = binary_context(artifact, home, options.platform)
        install(artifact, copies, context)
    except ArtifactError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    except ToolchainError as error:
        print(error, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{error.filename}: cannot be written: {error.strerror or error}", file=sys.stderr)
        return 3
    print(f"[install] {len(copies)} binaries for {options.platform} -> {artifact.root}")
    for note in _notes(artifact):
        print(f"[install] note: {note}")
    return 0


def plan(artifact: Artifact, build_dir: Path, binaries: Path, platform: str) -> list[Copy]:
    """Return the files to copy. Raises a build error for a binary that is missing, or of another platform or
    interface."""
    edited = [pto for pto in artifact.root.glob("ptoas/*.pto") if _newer(pto, pto.with_suffix(".cpp"))]
    if edited:
        problem = "is newer than what was assembled from it, so PyPTO would assemble it and build again"
        raise ArtifactError(
            edited[0], problem, "splice the edited modules into the kernels first: scons splice WRITE=1"
        )
    interface = read_interface(build_dir / "interface.json")
    compiled, beside = built(interface, binaries, platform), beside_sources(artifact.root, platform)
    check_binaries(compiled, interface, platform)
    copies = [Copy(compiled.orchestration, beside.orchestration)]
    for kernel in artifact.kernels:
        if kernel.external:
            continue  # PyPTO identifies those by a digest of all that they include
        code = compiled.kernels[kernel.func_id]
        name = f"incore_{kernel.func_id}_{kernel.core_type}_{kernel.source.stem}_{platform}.bin"
        library = code if PLATFORMS[platform].simulated else code.with_suffix(".elf")
        copies += [Copy(library, beside.kernels[kernel.func_id]), Copy(code, artifact.root / "cache" / name)]
    return copies


def binary_context(artifact: Artifact, home: SimplerHome, platform: str) -> dict[str, object]:
    """Return the content of ``binary_context.json``. Raises `ToolchainError` where PyPTO could not name a revision
    either."""
    runtime, isa = revision_of(home.tree.root), revision_of(home.tree.isa)
    if not runtime:
        run = subprocess.run(
            python_code(home.python, _COMMIT), env=home.variables(), capture_output=True, text=True, check=False
        )
        runtime = run.stdout.strip()
    for checkout, revision in ((home.tree.root, runtime), (home.tree.isa, isa)):
        if not revision or revision.endswith("+"):
            problem = "has uncommitted changes" if revision else "is not a checkout of a known revision"
            raise ToolchainError(
                f"{checkout}: {problem}, so PyPTO would compile again instead of using these "
                "binaries; use a clean checkout"
            )
    return {
        "platform": platform,
        "pto_isa_revision": isa,
        "runtime_name": artifact.runtime,
        "runtime_revision": runtime,
        "schema": 1,
    }


def install(artifact: Artifact, copies: Sequence[Copy], context: dict[str, object]) -> None:
    """Copy everything. The context validates the files, so it is removed first and written last."""
    cache = artifact.root / "cache"
    with _locked(cache):
        (cache / _CONTEXT).unlink(missing_ok=True)
        targets = {copy.target for copy in copies}
        external = {f"incore_{kernel.func_id}_" for kernel in artifact.kernels if kernel.external}
        for stale in cache.glob("*.bin"):
            if stale not in targets and not stale.name.startswith(tuple(external)):
                stale.unlink()
        for copy in copies:
            other = {".so": ".o", ".o": ".so"}.get(copy.target.suffix)
            if other:  # a binary of another platform, which would become stale
                copy.target.with_suffix(other).unlink(missing_ok=True)
            with replace_file(copy.target) as file, copy.source.open("rb") as source:
                shutil.copyfileobj(source, file)
        write_bytes(cache / _CONTEXT, json.dumps(context, indent=2, sort_keys=True).encode())


def _notes(artifact: Artifact) -> Iterator[str]:
    text = artifact.orchestration.source.read_text(encoding="utf-8", errors="replace")
    if not all(line in text for line in _ADDED_BY_PYPTO):
        name = relative_source(artifact.orchestration.source, artifact.root)
        yield f"PyPTO adds two #include lines to {name} when it first runs it; install again after that"
    for kernel in artifact.kernels:
        if kernel.external:
            yield f"PyPTO compiles {kernel.name} itself, whose source is outside the artifact"


def _newer(one: Path, other: Path) -> bool:
    return not other.is_file() or one.stat().st_mtime_ns > other.stat().st_mtime_ns


@contextmanager
def _locked(cache: Path) -> Iterator[None]:
    """Hold the lock that PyPTO takes while it builds."""
    cache.mkdir(exist_ok=True)
    descriptor = os.open(cache / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pypto_build.interop.install", description=(__doc__ or "").splitlines()[0], allow_abbrev=False
    )
    add = parser.add_argument
    add("artifact", type=Path, metavar="ARTIFACT_DIR", help="the artifact's directory")
    add("--platform", default="a2a3sim", choices=tuple(PLATFORMS), help="what the binaries were built for")
    add("--build-dir", type=Path, required=True, metavar="OUT", help="where interface.json is")
    add("--binaries", type=Path, metavar="DIR", help="where kernels/ and orchestration/ are (OUT)")
    add("--simpler", default="", metavar="S", help="the simpler they were built against (the importable one)")
    add("--isa", default="", metavar="I", help="the pto-isa they were built against (the one simpler keeps)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
