"""Scripts that PyPTO and pypto-lib would run, run from outside with a snapshot, records and a replay directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pypto_build.artifact.pt import read_pt
from tests.loaded_python import interpreter

_STANDIN = Path(__file__).parent / "standin_pypto"
_ROOT = Path(__file__).resolve().parents[2]
JIT = """
import os, sys, torch
from pypto.runtime import RunConfig, jit
os.environ.setdefault("PTO2_RING_HEAP", "4096")
y = torch.zeros(4)
jit("double", torch.arange(4.0), 1.5, y, config=RunConfig(platform=sys.argv[1]))
sys.exit(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
"""
HARNESS = """
from golden import run_jit
assert run_jit("double", [], {"platform": "a2a3"}).passed
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "jit.py").write_text(JIT)
    (tmp_path / "harness.py").write_text(HARNESS)
    return tmp_path


def wrap(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pypto_build.cli", "wrap", *words]
    variables = {**os.environ, "PYTHONPATH": f"{_ROOT}:{_STANDIN}"}
    variables.pop("PTO2_RING_HEAP", None)
    return subprocess.run(command, cwd=directory, env=variables, capture_output=True, text=True, check=False)


def test_a_script_of_pypto(directory: Path) -> None:
    ran = wrap(
        directory, "--dump-args", "--enable-dep-gen", "--build-output", "bo", "--", interpreter(), "jit.py", "a5sim"
    )
    artifact = directory / "bo" / "_jit_double_20260101_000000"
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        "run _jit_double_20260101_000000 a5sim dump=2 deps=1",
        "kept=1",
        f"[wrap] {artifact}: data/in, and in data/out what this run gave, since the script ended well",
        f"[wrap]   PTO2_RING_HEAP=4096 pypto-build replay {artifact} -p a5sim",
    ]
    data = artifact / "data"
    assert sorted(str(path.relative_to(data)) for path in data.rglob("*.pt")) == ["in/a.pt", "in/x.pt", "out/y.pt"]
    scalar = read_pt(data / "in" / "a.pt")
    assert (scalar.dtype, tuple(scalar.shape)) == ("float32", ())
    assert bytes(read_pt(data / "out" / "y.pt").data) == b"".join(
        value.to_bytes(4, "little") for value in (0x3FC00000, 0x40600000, 0x40B00000, 0x40F00000)
    )
    # The same artifact again, instead of what the script compiles: its kernel has no binary, and no snapshot is lost.
    (data / "in" / "x.pt").write_bytes(b"mine")
    ran = wrap(directory, "--runtime-dir", str(artifact), "--", interpreter(), "jit.py", "a5sim")
    assert ran.stdout.splitlines()[0] == "invalidated _jit_double_20260101_000000"
    assert f"[wrap] {artifact}: data/in and data/out" in ran.stdout.splitlines()
    assert (data / "in" / "x.pt").read_bytes() == b"mine"


def test_a_script_that_fails_gives_no_golden(directory: Path) -> None:
    ran = wrap(directory, "--", interpreter(), "jit.py", "a2a3sim", "3")
    artifact = directory / "build_output" / "_jit_double_20260101_000000"
    assert ran.returncode == 3
    assert "and in data/actual what this run gave; no golden, since the script failed" in ran.stdout
    assert [path.name for path in (artifact / "data").iterdir() if path.is_dir()].count("out") == 0


def test_a_script_of_pypto_lib(directory: Path) -> None:
    ran = wrap(directory, "--enable-pmu", "--", interpreter(), "harness.py")
    assert ran.returncode == 0, ran.stderr
    artifact = "build_output/_jit_double_20260101_000000"
    assert ran.stdout.splitlines() == [
        "harness save_data=True runtime_dir=None golden_data=None",
        "run _jit_double_20260101_000000 a2a3 dump=0 deps=0",
        f"[wrap] {artifact}: data/in and data/out",
        f"[wrap]   pypto-build replay {artifact} -p a2a3",
    ]
    assert ran.stderr == "[wrap] this version of PyPTO has no enable_pmu, which is therefore not recorded\n"
    words = ["--runtime-dir", artifact, "--golden-data", f"{artifact}/data", "--compile-only"]
    ran = wrap(directory, *words, "--", interpreter(), "harness.py")
    assert (ran.returncode, ran.stderr) == (
        2,
        "--compile-only: contradicts --runtime-dir, which compiles nothing; leave one out\n",
    )
    ran = wrap(directory, *words[:-1], "--", interpreter(), "harness.py")
    message = f"harness save_data=False runtime_dir={directory}/{artifact} golden_data={directory}/{artifact}/data"
    assert ran.stdout.splitlines()[0] == message


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "pypto-build wrap: no command; give it after '--': pypto-build wrap -- python x.py -p a2a3sim\n"),
        (["--", "/nowhere/python"], "/nowhere/python: cannot be run: No such file or directory; correct the command"),
        (["--golden-data", "/nowhere", "--", "true"], "--golden-data /nowhere: no such directory; give one that a run"),
        (
            ["--", "true"],
            "[wrap] nothing was recorded: the command started no Python process, or started it with -I, -S or -E\n",
        ),
        (["--", interpreter(), "-c", "pass"], "[wrap] the script did not run a PyPTO program\n"),
    ],
)
def test_what_makes_no_sense(directory: Path, words: list[str], message: str) -> None:
    assert wrap(directory, *words).stderr.startswith(message)


def test_the_environments_own_sitecustomize_runs_too(directory: Path) -> None:
    (directory / "sitecustomize.py").write_text("print('mine', flush=True)\n")
    variables = {**os.environ, "PYTHONPATH": f"{_ROOT}:{directory}"}
    command = [sys.executable, "-m", "pypto_build.interop.wrap", "--", interpreter(), "-c", "print('script')"]
    ran = subprocess.run(command, cwd=directory, env=variables, capture_output=True, text=True, check=False)
    assert ran.stdout.splitlines() == ["mine", "mine", "script"]  # the first one is of the tool itself
