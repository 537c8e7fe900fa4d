"""Kernels assembled by our assembler and by ptoas give equal outputs, bit for bit.

For every ready artifact and every program of examples/, taken down to its modules and completed with either assembler.
Needs ptoas: set PTOAS_ROOT.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pypto_build.artifact.pt import read_pt

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
ARTIFACTS = sorted(path.name for path in (EXAMPLES / "artifacts").glob("_jit_*"))
PROGRAMS = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != "make_data")

pytestmark = pytest.mark.skipif(not os.environ.get("PTOAS_ROOT"), reason="PTOAS_ROOT does not say where ptoas is")


def run(directory: Path, *words: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def take_down(artifact: Path) -> None:
    """Leave what a compilation without ptoas writes."""
    for path in (artifact / "ptoas").glob("*.pto"):
        path.rename(artifact / "kernels" / path.name)
    shutil.rmtree(artifact / "ptoas")
    (artifact / "kernel_config.py").unlink()
    for path in artifact.glob("kernels/*/*.cpp"):
        path.unlink()


def compare(directory: Path, name: str) -> None:
    """Replay with either assembler and compare every output."""
    text = "from pypto_build.rules import pypto\n\nenv = Environment(tools=[pypto])\n"
    (directory / "SConstruct").write_text(text, encoding="utf-8")
    outputs = []
    for assembler, words in (("own", ["PTOAS=own"]), ("ptoas", [])):
        run(directory, "SCons", "-Q", "replay", f"JIT={name}", f"BUILD_DIR={assembler}", *words)
        places = sorted((directory / assembler / "a2a3sim").glob(f"{name}*/actual/*.pt"))
        outputs.append({"/".join(path.parts[-3:]): bytes(read_pt(path).data) for path in places})
    assert outputs[0].keys() == outputs[1].keys()
    assert outputs[0]
    assert [key for key, value in outputs[0].items() if value != outputs[1][key]] == []


@pytest.mark.parametrize("name", ARTIFACTS)
def test_artifacts(tmp_path: Path, name: str) -> None:
    artifact = tmp_path / "build_output" / name
    shutil.copytree(EXAMPLES / "artifacts" / name, artifact)
    take_down(artifact)
    compare(tmp_path, name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(tmp_path: Path, name: str) -> None:
    output = tmp_path / "build_output" / f"_jit_{name}"
    program = EXAMPLES / f"{name}.py"
    run(tmp_path, "pypto_build.compiler", str(program), "--output", str(output), "--skip-ptoas")
    compare(tmp_path, f"_jit_{name}")
