"""An artifact, its build directory, and binaries like simpler's: enough to run the adapter on the stand-in."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pypto_build.artifact import sign
from pypto_build.artifact.pt import write_pt
from tests.artifact.artifacts import make_artifact
from tests.interop.standins import STANDIN, environment

PARAMS = [
    {"name": "x", "direction": "In", "shape": [2, 3], "dtype": "fp32"},
    {"name": "w", "direction": "In", "shape": [3], "dtype": "fp32"},
    {"name": "y", "direction": "InOut", "shape": [2], "dtype": "fp32"},
    {"name": "scale", "direction": "In", "shape": None, "dtype": "fp32"},
]
PROGRAM = """
import struct

def run(tensors, scalars):
    x, w, y = tensors
    scale = struct.unpack("<f", struct.pack("<I", scalars[0]))[0]
    y += scale * (x @ w)
"""


def floats(*values: float) -> bytes:
    """Return float32 values as bytes."""
    import array

    return array.array("f", values).tobytes()


@cache
def library(symbols: str) -> bytes:
    """Return a library for this machine that defines functions of these names."""
    text = "\n".join(f'extern "C" void {name}() {{}}' for name in symbols.split())
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory, "library.so")
        command = ["g++", "-shared", "-fPIC", "-nostdlib", "-x", "c++", "-", "-o", str(target)]
        subprocess.run(command, input=text.encode(), capture_output=True, check=True)
        return target.read_bytes()


@dataclass
class Rig:
    """One artifact under ``root`` that computes y += scale * (x @ w), built into ``out``."""

    root: Path
    out: Path

    def command(self, *words: str, platform: str = "a2a3sim") -> list[str]:
        """Return the command line of a replay."""
        tool = [sys.executable, "-m", "pypto_build.interop.run", str(self.root), "--platform", platform]
        return [*tool, "--build-dir", str(self.out), *words]

    def run(
        self, *words: str, vintage: str = "2026-08", platform: str = "a2a3sim", **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Replay on the stand-in."""
        program = str(self.root / "program.py")
        variables = {**environment(vintage), "SIMPLER_ROOT": str(STANDIN), "PYPTO_STANDIN_PROGRAM": program, **more}
        command = self.command(*words, platform=platform)
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)

    def verdict(self) -> dict[str, object]:
        """Return the verdict on disk."""
        value = json.loads((self.out / "verdict.json").read_bytes())
        assert isinstance(value, dict)
        return value

    def error(self) -> str:
        """Return message and hint of the verdict's error."""
        error = self.verdict()["error"]
        assert isinstance(error, dict)
        return f"{error['message']}; {error['hint']}"


def make_rig(tmp_path: Path, golden: tuple[float, float] = (9, 21)) -> Rig:
    """Return the rig, with binaries where the rules put them."""
    root, out = make_artifact(tmp_path / "_jit_scaled_mm"), tmp_path / "out"
    document = {"schema": 1, "params": PARAMS, "platform": "a2a3sim", "backend_type": "Ascend910B"}
    (root / "compiled_meta.json").write_text(json.dumps(document))
    (root / "program.py").write_text(PROGRAM)
    for part in ("in", "out"):
        (root / "data" / part).mkdir(parents=True)
    write_pt(root / "data" / "in" / "x.pt", "float32", (2, 3), floats(1, 2, 3, 4, 5, 6))
    write_pt(root / "data" / "in" / "w.pt", "float32", (3,), floats(1, 0, 1))
    write_pt(root / "data" / "in" / "y.pt", "float32", (2,), floats(1, 1))
    write_pt(root / "data" / "in" / "scale.pt", "float32", (), floats(2))
    write_pt(root / "data" / "out" / "y.pt", "float32", (2,), floats(*golden))
    manifest, interface = out / "kernel_config.py", out / "interface.json"
    assert sign.main([str(root), "--manifest", str(manifest), "--interface", str(interface)]) == 0
    put_binaries(out)
    return Rig(root, out)


def put_binaries(directory: Path) -> None:
    """Write the three binaries as simpler's toolchain does."""
    for name, symbols in (
        ("kernels/aic/mm.so", "kernel_entry"),
        ("kernels/aiv/scale.so", "kernel_entry"),
        ("orchestration/scaled_mm.so", "aicpu_orchestration_entry framework_bind_runtime"),
    ):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(library(symbols))
