"""Write the kit: one artifact for each group of questions, with inputs, expected outputs and a scene test."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from pypto_build.artifact import ArtifactError, load_artifact, snapshot
from pypto_build.artifact.files import write_bytes
from pypto_build.artifact.interface import sign
from pypto_build.artifact.pt import write_pt
from pypto_build.artifact.scene_test import SCENE_TEST_NAME, SceneTest, render_scene_test
from pypto_build.compiler import CompileError, Options, compile_file
from pypto_build.compiler.write import write_files
from pypto_build.facts.platforms import PLATFORMS

from .asked import groups
from .question import Array, Group, KernelEdit

_PROGRAMS = Path(__file__).with_name("programs")
#: The numpy type that stores an element type unknown to numpy.
_STORED = {"bfloat16": "uint16"}


def write_kit(root: Path, platform: str) -> list[Path]:
    """Write all artifacts below ``root`` for the generation of ``platform``, and return their directories.

    Raises ArtifactError if ``root`` cannot be written, or if it holds other artifacts.
    """
    names = {group.artifact for group in groups()}
    try:
        root.mkdir(parents=True, exist_ok=True)
        others = sorted(path.name for path in root.glob("_jit_*") if path.name not in names)
        if others:
            raise ArtifactError(
                root, f"holds artifacts that are none of the kit's: {others[0]}", "name a new directory"
            )
        return [_write(group, root / group.artifact, platform) for group in groups()]
    except OSError as error:
        raise ArtifactError(error.filename or root, f"cannot be written: {error.strerror}", "name another") from None


def _write(group: Group, root: Path, platform: str) -> Path:
    program = _PROGRAMS / f"{group.name}.py"
    generation = next(row.name for row in PLATFORMS.values() if row.simulated and row.arch == PLATFORMS[platform].arch)
    try:
        compiled = compile_file(str(program), root, generation, Options(locations=False))
    except CompileError as error:
        raise ArtifactError(program, str(error), "this is a fault of ours", kind="build_error") from None
    files = {name: text for name, text in compiled.files.items() if name != SCENE_TEST_NAME}
    files = {name: text.replace(str(program), program.name) for name, text in files.items()}
    write_files(root, _edited(files, group.edits))
    for name, values in {**group.inputs, **group.untouched}.items():
        _write_tensor(root / "data" / "in" / f"{name}.pt", values, values.dtype.name)
    for question in group.questions:
        expected = next((a for a in question.answers if a.label == question.device), question.answers[0])
        _write_tensor(root / "data" / "out" / f"{question.name}.pt", expected.values, question.dtype)
    write_bytes(root / SCENE_TEST_NAME, _scene_test(root, platform).encode())
    return root


def _edited(files: dict[str, str], edits: tuple[KernelEdit, ...]) -> dict[str, str]:
    """Return the files with each edit done once, without the modules that no longer say what the kernels do."""
    for edit in edits:
        files[edit.path], count = re.subn(edit.pattern, edit.replacement, files[edit.path])
        assert count == 1, edit
    return {name: text for name, text in files.items() if not (edits and name.startswith("ptoas/"))}


def _write_tensor(path: Path, values: Array, dtype: str) -> None:
    stored = values.astype(_STORED.get(dtype, dtype))
    write_pt(path, dtype, stored.shape, stored.tobytes())


def _scene_test(root: Path, platform: str) -> str:
    artifact = load_artifact(root)
    generation = tuple(row.name for row in PLATFORMS.values() if row.arch == PLATFORMS[platform].arch)
    test = SceneTest(artifact, sign(artifact).interface, snapshot(artifact), generation, keeps_outputs=True)
    return render_scene_test(test, root)


def digest_of_inputs() -> str:
    """Return a digest of all inputs, which identifies the kit's edition. Results are valid for one edition only."""
    digest = hashlib.sha256()
    for group in groups():
        for name, values in sorted(group.inputs.items()):
            digest.update(f"{group.name}.{name} {values.dtype.name} {values.shape}".encode() + values.tobytes())
    return digest.hexdigest()[:16]
