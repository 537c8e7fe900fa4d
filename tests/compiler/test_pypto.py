"""COMPILER=pypto: PyPTO runs in its own process, and its directory is taken. A small package stands in for PyPTO."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pypto_build.artifact.pt import read_pt

# What PyPTO does, as far as a caller sees: a directory in PYPTO_PROG_BUILD_DIR, then a run of what was compiled.
RUNNER = """
import json, os
from pathlib import Path

def execute_compiled(work_dir, args, **options):
    raise RuntimeError("nothing is executed")

def compile_and_run(name, platform, *args):
    root = Path(os.environ["PYPTO_PROG_BUILD_DIR"], f"_jit_{name}_20260821_120000")
    files = {"kernel_config.py": f"# {name}", "orchestration/o.cpp": "//", "ptoas/k.pto": "module", "report/x": "1"}
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    params = [{"name": n, "direction": d} for n, d in (("x", "In"), ("n", "In"), ("y", "Out"))]
    (root / "compiled_meta.json").write_text(json.dumps({"params": params, "platform": platform}))
    import pypto.runtime.runner as runner
    runner.execute_compiled(root, list(args), platform=platform)
"""
PROGRAM = """
import ctypes
import helper
import torch
from pypto.runtime.runner import compile_and_run

if __name__ == "__main__":
    x, y = torch.ones(4), torch.zeros(4)
    for name in helper.NAMES:
        compile_and_run(name, "a2a3sim", x, ctypes.c_int32(3), y)
        assert torch.allclose(y, x * 3)
    print("OK")
"""


# As much of PyTorch as the program needs, for tests of what is not data: PyTorch itself takes seconds to import.
TORCH = """
from pathlib import Path
from types import SimpleNamespace

class Tensor:
    shape, dtype = (4,), "float32"
    data_ptr = lambda self: id(self)
    detach = clone = contiguous = to = __mul__ = lambda self, *_: self

testing = SimpleNamespace()
ones = zeros = tensor = lambda _: Tensor()
save = lambda _, path: Path(path).touch()
"""


@pytest.fixture
def workspace(with_torch: Path) -> Path:
    (with_torch / "site" / "torch.py").write_text(TORCH)
    return with_torch


@pytest.fixture
def with_torch(tmp_path: Path) -> Path:
    package = tmp_path / "site" / "pypto" / "runtime"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").write_text("from .runner import execute_compiled\n")
    (package / "runner.py").write_text(RUNNER)
    (tmp_path / "helper.py").write_text("NAMES = ['f']\n")
    (tmp_path / "p.py").write_text(PROGRAM)
    return tmp_path


def _run(workspace: Path, *flags: str, installed: bool = True) -> tuple[int, list[str], str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(workspace / "site") if installed else "",
                                                                     str(Path(__file__).parents[2])]))}  # fmt: skip
    command = [sys.executable, "-m", "pypto_build.compiler.pypto", "p.py", "--output", "out", *flags]
    process = subprocess.run(command, cwd=workspace, env=env, capture_output=True, text=True, check=False)
    return (
        process.returncode,
        [line.removeprefix("[pypto] wrote out/") for line in process.stdout.splitlines()],
        process.stderr,
    )


def test_the_directory_and_the_data_are_taken(with_torch: Path) -> None:
    files = ["compiled_meta.json", "data/in/n.pt", "data/in/x.pt", "data/out/y.pt", "orchestration/o.cpp",
             "ptoas/k.pto", "compiled_files.json", "kernel_config.py"]  # fmt: skip
    assert _run(with_torch) == (0, files, "")
    listed = json.loads((with_torch / "out/compiled_files.json").read_text())
    assert listed["sources"] == ["helper.py", "p.py"]
    assert bytes(read_pt(with_torch / "out/data/in/n.pt").data)[:1] == b"\x03"
    expected = read_pt(with_torch / "out/data/out/y.pt")
    assert (expected.dtype, tuple(expected.shape)) == ("float32", (4,))
    assert _run(with_torch) == (0, [], "")
    (with_torch / "helper.py").write_text("NAMES = ['f', 'g']\n")
    assert "next_levels/g/kernel_config.py" in _run(with_torch)[1]
    assert not (with_torch / "out/kernel_config.py").exists()


def test_without_pypto(workspace: Path) -> None:
    assert _run(workspace, installed=False) == (
        2, [],
        f"error: p.py: PyPTO cannot be imported: {sys.executable}: No module named 'pypto'; install PyPTO for this "
        "interpreter (pip install pypto), or name another interpreter with PYTHON=\n",
    )  # fmt: skip


def test_no_such_interpreter(workspace: Path) -> None:
    assert _run(workspace, "--python", "/nowhere/python") == (
        2, [], (
            "error: /nowhere/python: cannot be run: No such file or directory; name the Python "
            "interpreter with PYTHON=\n"
        )
    )  # fmt: skip


def test_a_program_that_fails(workspace: Path) -> None:
    (workspace / "p.py").write_text("import sys\n1 / 0\n")
    assert _run(workspace) == (1, [], "error: p.py:2: ZeroDivisionError: division by zero\n")
    assert not (workspace / "out").exists()


def test_another_platform(workspace: Path) -> None:
    assert _run(workspace, "--platform", "a5sim") == (
        1, [], (
            "error: p.py: the program compiles for a2a3sim, but the platform is a5sim; use "
            "PLATFORM=a2a3sim, or change RunConfig in the program\n"
        )
    )  # fmt: skip


IR = """
def compile(root, dump_passes=False):
    if dump_passes:
        (root / "passes_dump").mkdir(parents=True)
        (root / "passes_dump" / "00_frontend.txt").write_text("program")
"""
CONFIGURED = """
from dataclasses import dataclass
from pypto.ir import compile as ir_compile

@dataclass(frozen=True)
class RunConfig:
    platform: str = "a2a3sim"
    dump_passes: bool = False
"""


@pytest.mark.parametrize("call", ["RunConfig('a2a3sim', False).dump_passes", ""])
def test_passes_are_dumped_whatever_the_program_asks_for(workspace: Path, call: str) -> None:
    """By the configuration of a run, and by a compilation without one."""
    package = workspace / "site" / "pypto"
    compiled = f"    ir_compile(root, {call})\n    params = ["
    runner = RUNNER.replace("    params = [", compiled)
    (package / "runtime" / "runner.py").write_text(CONFIGURED + runner)
    (package / "runtime" / "__init__.py").write_text("from .runner import RunConfig, execute_compiled\n")
    (package / "ir.py").write_text(IR)
    assert "passes_dump/00_frontend.txt" not in _run(workspace)[1]
    assert _run(workspace, "--dump-passes")[1][-2:] == ["passes_dump/00_frontend.txt", "compiled_files.json"]


def test_a_pypto_that_dumps_nothing_is_noted(workspace: Path) -> None:
    noted = f"[pypto] note: the PyPTO of {sys.executable} wrote no passes_dump/"
    assert noted in _run(workspace, "--dump-passes")[1]
