"""Copies of the example artifacts with edits, their checked builds, and what the tools say of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from pypto_build.artifact import CORE_TYPES, load_artifact
from pypto_build.artifact.interface import encode_interface, sign
from pypto_build.diagnose.findings import Edit
from pypto_build.rules.variants import CHECKED, Variant
from pypto_build.toolchain.host import find_compiler, kernel_flags, orchestration_flags
from tests.replay.builder import PLATFORM, library

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "artifacts"


def build_checked(artifact_dir: Path, out: Path, variant: Variant = CHECKED) -> None:
    """Build the binaries of `scons build CHECK=1` or MEMORY=weak."""
    build_variant(artifact_dir, out, variant, "-O1")


def build_variant(artifact_dir: Path, out: Path, variant: Variant, *flags: str) -> None:
    """Build the binaries of a variant, and the interface."""
    artifact = load_artifact(artifact_dir)
    compiler = find_compiler()
    of_core = {core: [*kernel_flags(compiler, PLATFORM, core), *variant.kernel_flags, *flags] for core in CORE_TYPES}
    kernels = [(kernel.source, kernel.binary, of_core[kernel.core_type]) for kernel in artifact.kernels]
    entry = (artifact.orchestration.source, artifact.orchestration.binary, orchestration_flags(compiler, PLATFORM))
    for source, binary, words in (*kernels, entry):
        target = out / variant.directory / f"{binary}.so"
        target.parent.mkdir(parents=True, exist_ok=True)
        name = source.relative_to(artifact_dir).as_posix()
        target.write_bytes(library(source.read_text(), tuple(words), name))
    out.mkdir(parents=True, exist_ok=True)
    (out / "interface.json").write_bytes(encode_interface(sign(artifact).interface))


def copy_example(name: str, directory: Path, edits: Iterable[tuple[str, str, str]] = ()) -> Path:
    """A copy of an example artifact, with some text replaced."""
    copied = directory / name
    shutil.copytree(EXAMPLES / name, copied)
    for file, old, new in edits:
        text = (copied / file).read_text()
        assert text.count(old) == 1, (file, old, text.count(old))
        (copied / file).write_text(text.replace(old, new))
    return copied


def apply(artifact: Path, edits: Iterable[Edit]) -> None:
    """Do what a finding says."""
    for edit in edits:
        path = artifact / edit.path
        lines = path.read_text().splitlines(keepends=True)
        assert edit.old in lines[edit.line - 1], (edit, lines[edit.line - 1])
        lines[edit.line - 1] = lines[edit.line - 1].replace(edit.old, edit.new)
        path.write_text("".join(lines))
