"""`debug` stops in the kernels of one task, shows what is there in kernels' words, and opens the core of a crash."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from pypto_build.artifact import ArtifactError
from pypto_build.diagnose.debug.__main__ import breakpoints_of, main
from pypto_build.rules.variants import DEBUGGED
from tests.diagnose.checked import EXAMPLES, build_variant, copy_example
from tests.replay.builder import build_artifact, embedded_module

_MUL, _ADD = "kernels/aiv/kernel_mul.cpp", "kernels/aiv/kernel_add.cpp"
needs_gdb = pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
needs_lldb = pytest.mark.skipif(shutil.which("lldb") is None, reason="lldb is not installed")


def built(directory: Path, edits: Iterable[tuple[str, str, str]] = (), name: str = "_jit_vector_dag") -> list[str]:
    """An example that is built for a replay and for a debugger; the first words of a command line."""
    artifact, out = copy_example(name, directory, edits), directory / "out"
    build_artifact(artifact, out)
    build_variant(artifact, out, DEBUGGED)
    return [str(artifact), "--build-dir", str(out), "--embedded", str(embedded_module())]


def debug(words: list[str], *more: str) -> tuple[int, str, str]:
    """Exit status and what is printed."""
    command = [sys.executable, "-m", "pypto_build.diagnose.debug", *words, *more]
    run = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    return run.returncode, run.stdout, run.stderr


@needs_gdb
def test_a_breakpoint_in_one_task(tmp_path: Path) -> None:
    """kernel_add runs in task 0 too: the breakpoint is met in task 4, where it is asked for, and only there."""
    script = "pypto-args; print v13; print v11; pypto-tile v7 1 0:2; up; print *a_tensor; next; continue"
    status, output, _ = debug(built(tmp_path), "--task", "4", "--break", "kernel_add.cpp:61", "--script", script)
    assert status == 0, output
    assert output.count("Breakpoint 1, kernel_add") == 1 and "[debug] task 4 kernel_add" in output
    lines = output.splitlines()
    at = lines.index("task 4 kernel_add")
    assert lines[at + 1].startswith("  a            IN     [128, 128] float32 at 0x")
    assert lines[at + 3].startswith("  out          OUT    [128, 128] float32 at 0x") and "{nan, nan" in lines[at + 3]
    assert "= UB 0x10000  128x128 float {" in output
    assert "[1, 1, 1, 128, 128] strides [16384, 16384, 16384, 128, 1] float {" in output
    assert "v7  UB 0x0  128x128 float" in output and "[1] " in output
    assert "= [128, 128] strides [128, 1] float32 at 0x" in output and "of a buffer of 65536 bytes" in output
    assert "[debug] task 4 has ended" in output


@needs_gdb
def test_a_task_begins_at_its_kernel(tmp_path: Path) -> None:
    """Without BREAK= it stops where the kernel begins, and a batch without commands shows where that is."""
    status, output, _ = debug(built(tmp_path), "--task", "3")
    assert status == 0
    assert "kernel_mul (v1=" in output and "#0  kernel_mul" in output and "task 3 kernel_mul" in output


@needs_gdb
def test_only_frames_of_the_artifact_and_what_is_constructed(tmp_path: Path) -> None:
    """The runtime and Python that call the orchestration are left out, and so are variables of later lines."""
    words = built(tmp_path)
    status, output, _ = debug(words, "--task", "3", "--break", "kernel_mul.cpp:61", "--script", "bt; info locals")
    assert status == 0, output
    frames = re.findall(r"^#\d+ +(?:0x\w+ in )?(\w+)", output, re.MULTILINE)
    assert frames == ["kernel_mul", "kernel_entry", "rt_submit_aiv_task", "aicpu_orchestration_entry"]
    source = (Path(words[0]) / _MUL).read_text().splitlines()
    names = [line.partition(" = ")[0] for line in output.splitlines() if line.startswith("v") and " = " in line]
    declared = {name: next(n for n, text in enumerate(source, 1) if f" {name}" in text) for name in names}
    assert names and max(declared.values()) < 61


@needs_gdb
def test_a_crash_leaves_a_core(tmp_path: Path) -> None:
    words = built(tmp_path, ((_MUL, "TMUL(v17, v7, v13);", "*(volatile int *)16 = 1;"),))
    assert debug(words, "--core")[::2] == (
        2, "debug: CORE=1: no core file exists; start without CORE=1; a session that crashes writes a core file\n",
    )  # fmt: skip
    status, output, _ = debug(words, "--script", "print v13")
    assert status == 5 and "SIGSEGV" in output and "CORE=1 opens it again" in output
    assert "kernel_mul.cpp:61" in output and "UB 0x10000  128x128 float {" in output
    status, output, _ = debug(words, "--core", "--script", "bt 1; print v13; pypto-args")
    assert status == 0 and "#0  kernel_mul" in output
    assert "128x128 float {" in output and "task 3 kernel_mul" in output


@needs_gdb
def test_a_breakpoint_that_is_not_met(tmp_path: Path) -> None:
    status, output, _ = debug(built(tmp_path), "--task", "3", "--break", "kernel_add.cpp:61", "--script", "bt")
    assert status == 1 and "[debug] the run ended before it reached a breakpoint" in output
    status, output, errors = debug(built(tmp_path / "b"), "--task", "9", "--script", "bt")
    assert status == 2 and "the run submits no TASK=9" in output + errors


@needs_gdb
def test_matrices_in_fractals(tmp_path: Path) -> None:
    """Element [17, 3] of a matrix that is stored in fractals is the one of the tensor it was loaded from."""
    words = built(tmp_path, name="_jit_matmul")
    script = "up; up; down; down; pypto-tile v8 17 3; print v12.pointer_[17 * 256 + 3]"
    status, output, _ = debug(words, "--task", "0", "--break", "matmul_tile.cpp:72", "--script", script)
    lines = output.splitlines()
    tile = next(line for line in lines if line.startswith("[17]")).split()[1]
    printed = next(line for line in lines if line.startswith("$1 = ")).split()[-1]
    assert status == 0 and float(tile) == pytest.approx(float(printed), rel=1e-3) and float(tile) != 0


@needs_lldb
def test_lldb(tmp_path: Path) -> None:
    words = built(tmp_path)
    status, output, _ = debug(
        words, "--task", "3", "--break", "67", "--debugger", "lldb", "--script", "frame variable v4"
    )
    assert status == 0 and "[debug] task 3 kernel_mul" in output and "kernel_mul.cpp:67" in output
    assert "v4 = 128" in output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--task", "x"), "TASK=x is not a task number; give one such as TASK=3"),
        (("--break", "other.cpp:3"), "BREAK=other.cpp:3: no kernel has a file named 'other.cpp'; the files are"),
        (
            ("--break", "kernel_mul.cpp:9999"),
            "BREAK=kernel_mul.cpp:9999: the file has no line 9999; its last line is 94",
        ),
        (
            ("--break", "-"),
            "BREAK=- names neither a line nor a function; give a line or function, such as kernel.cpp:69",
        ),
        (("--rr", "--debugger", "lldb"), "RR=1 works only with gdb; leave out DEBUGGER="),
    ],
)
def test_wrong_words(words: tuple[str, ...], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fixed = [str(EXAMPLES / "_jit_vector_dag"), "--build-dir", str(tmp_path), "--embedded", "x"]
    assert main([*fixed, *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"debug: {says}")


@pytest.mark.parametrize(("name", "words"), [("gdb", ()), ("lldb", ("--debugger", "lldb")), ("rr", ("--rr",))])
def test_what_is_not_installed(
    name: str,
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", "")
    command = [str(EXAMPLES / "_jit_vector_dag"), "--build-dir", str(tmp_path), "--embedded", "x", *words]
    assert main(command) == 2
    assert capsys.readouterr().err == f"debug: {name} is not installed; apt-get install {name}\n"


def test_breakpoints() -> None:
    artifact = EXAMPLES / "_jit_vector_dag"
    assert breakpoints_of(artifact, "kernel_mul.cpp:61 if v4 == 128, kernel_add.cpp:kernel_add", default=True) == [
        ("kernel_mul.cpp", "61", "v4 == 128"),
        ("kernel_add.cpp", "kernel_add", ""),
    ]
    begins = breakpoints_of(artifact, "", default=True)
    assert ("kernel_mul.cpp", "kernel_mul", "") in begins and len(begins) == 3
    assert breakpoints_of(artifact, "", default=False) == []


@pytest.mark.parametrize("name", ['kernel_mul if $_shell("touch evaluated").cpp', "k ul.cpp", "`k`.cpp", "k'l.cpp"])
def test_no_debugger_is_told_of_a_file_whose_name_it_would_evaluate(tmp_path: Path, name: str) -> None:
    artifact = tmp_path / "_jit_vector_dag"
    shutil.copytree(EXAMPLES / "_jit_vector_dag", artifact)
    (artifact / "kernels/aiv/kernel_mul.cpp").rename(artifact / "kernels/aiv" / name)
    manifest = artifact / "kernel_config.py"
    text = manifest.read_text()
    assert text.count('"kernel_mul.cpp"') == 1
    manifest.write_text(text.replace('"kernel_mul.cpp"', repr(name)))
    with pytest.raises(ArtifactError, match="the debugger would read this file name as a command; rename the file"):
        breakpoints_of(artifact, "", default=True)
