"""Copies of the example artifacts with edits, their checked builds, and what the tools say of them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from pypto_build.artifact import load_artifact
from pypto_build.artifact.interface import encode_interface, sign
from pypto_build.diagnose.findings import Edit
from pypto_build.rules.variants import CHECKED
from pypto_build.toolchain.host import INCLUDE_DIR, find_compiler, kernel_flags, orchestration_flags
from tests.replay.builder import PLATFORM

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "artifacts"


@cache
def library(name: str, text: str, flags: tuple[str, ...]) -> bytes:
    """One C++ text as a loadable library whose debug information calls it `name`; the same is compiled once."""
    with TemporaryDirectory() as directory:
        source, target = Path(directory, name), Path(directory, "unit.so")
        source.parent.mkdir(parents=True)
        source.write_text(text)
        compiler = find_compiler().path
        here = f"-fdebug-prefix-map={directory}=."
        argv = [compiler, "-shared", *flags, here, f"-I{INCLUDE_DIR}", str(source), "-o", str(target)]
        subprocess.run(argv, check=True, cwd=directory)
        return target.read_bytes()


def build_checked(artifact_dir: Path, out: Path) -> None:
    """What `scons build CHECK=1` leaves."""
    artifact = load_artifact(artifact_dir)
    compiler = find_compiler()
    flags_of = {
        core: [*kernel_flags(compiler, PLATFORM, core), *CHECKED.kernel_flags, "-O1"] for core in ("aic", "aiv")
    }
    units = [(k.source, f"kernels/{k.core_type}/{k.name}", flags_of[k.core_type]) for k in artifact.kernels]
    entry = artifact.orchestration.source
    units.append((entry, f"orchestration/{entry.stem}", orchestration_flags(compiler, PLATFORM)))
    for source, name, flags in units:
        target = out / CHECKED.directory / f"{name}.so"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(library(source.relative_to(artifact_dir).as_posix(), source.read_text(), tuple(flags)))
    out.mkdir(parents=True, exist_ok=True)
    (out / "interface.json").write_bytes(encode_interface(sign(artifact).interface))


def copy_example(name: str, place: Path, edits: Iterable[tuple[str, str, str]] = ()) -> Path:
    """A copy of an example artifact, with some text replaced."""
    copied = place / name
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
