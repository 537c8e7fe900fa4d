"""Writing: unchanged files keep their bytes and times, failures leave what was there, stale files go."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pypto_build.artifact.pt import read_pt, write_pt
from pypto_build.compiler.golden import main
from pypto_build.compiler.write import write_files
from tests.compiler.programs import HEAD, files, kernel

COPY = kernel("pl.store(pl.load(x, [0, 0], [64, 64]), [0, 0], out)")
DOUBLE = kernel("pl.store(pl.load(x, [0, 0], [64, 64]) * 2.0, [0, 0], out)")


def _run(program: Path, out: Path, *flags: str) -> tuple[int, list[str], str]:
    process = subprocess.run(
        [sys.executable, "-m", "pypto_build.compiler", str(program), "--output", str(out), "--no-loc", *flags],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    prefix = f"[pto] wrote {out}/"
    return process.returncode, [line.removeprefix(prefix) for line in process.stdout.splitlines()], process.stderr


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    program, out = tmp_path / "p.py", tmp_path / "out"
    program.write_text(HEAD + COPY)
    files = [
        "compiled_meta.json", "kernel_config_scene_test.py", "kernels/aiv/k.cpp", "orchestration/main.cpp",
        "ptoas/k.cpp", "ptoas/k.pto", "compiled_files.json", "kernel_config.py",
    ]  # fmt: skip
    assert _run(program, out) == (0, files, "")
    assert _run(program, out) == (0, [], "")
    program.write_text(HEAD + DOUBLE)
    changed = ["kernels/aiv/k.cpp", "ptoas/k.cpp", "ptoas/k.pto", "compiled_files.json"]
    assert _run(program, out) == (0, changed, "")


def test_a_scene_test_that_was_edited_is_left_alone(tmp_path: Path) -> None:
    program, out = tmp_path / "p.py", tmp_path / "out"
    program.write_text(HEAD + COPY)
    _run(program, out)
    scene_test = out / "kernel_config_scene_test.py"
    scene_test.write_text(scene_test.read_text().replace("RTOL, ATOL = 1e-05, 1e-05", "RTOL, ATOL = 0.1, 0.1"))
    program.write_text(HEAD + COPY + "@main.reference\ndef ref(x, out):\n    out[:] = x\n")
    status, changed, _ = _run(program, out, "--no-golden")
    assert (status, changed) == (0, ["golden.py", "compiled_files.json"])
    assert "RTOL, ATOL = 0.1, 0.1" in scene_test.read_text()


def test_a_failure_leaves_the_previous_artifact(tmp_path: Path) -> None:
    program, out = tmp_path / "p.py", tmp_path / "out"
    program.write_text(HEAD + COPY)
    _run(program, out)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    program.write_text(HEAD + COPY.replace("[64, 64]", "[64, 80]"))
    assert _run(program, out) == (
        1,
        [],
        f"error: {program}:5:14: pl.load: axis 1: the range 0 to 80 is outside of the extent 64 [infer_types]\n",
    )
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_a_failure_leaves_the_dumps_of_the_passes_before(tmp_path: Path) -> None:
    program, out = tmp_path / "p.py", tmp_path / "out"
    program.write_text(HEAD + COPY)
    _run(program, out, "--dump-passes")
    kept = (out / "kernel_config.py").read_bytes()
    program.write_text(HEAD + COPY.replace("[64, 64]", "[64, 80]"))
    assert _run(program, out, "--dump-passes")[0] == 1
    assert sorted(path.name for path in (out / "passes_dump").iterdir()) == [
        "00_frontend.py", "01_after_flatten_calls.py", "02_after_convert_to_ssa.py"
    ]  # fmt: skip
    assert "80" in (out / "passes_dump" / "00_frontend.py").read_text()
    assert (out / "kernel_config.py").read_bytes() == kept


def test_files_of_an_earlier_program_go(tmp_path: Path) -> None:
    program, out = tmp_path / "p.py", tmp_path / "out"
    program.write_text(HEAD + COPY)
    _run(program, out, "--dump-passes")
    (out / "notes.txt").write_text("mine")
    program.write_text(HEAD + COPY.replace("def k", "def kk").replace("    k(", "    kk("))
    _run(program, out)
    files = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    listed = json.loads((out / "compiled_files.json").read_text())
    assert files == sorted([*listed["files"], "notes.txt"])
    assert listed["sources"] == [str(program)]
    assert "kernels/aiv/kk.cpp" in files


def test_skip_ptoas_stops_after_the_modules(tmp_path: Path) -> None:
    program, out = tmp_path / "p.py", tmp_path / "out"
    program.write_text(HEAD + COPY)
    assert _run(program, out, "--skip-ptoas")[1] == [
        "compiled_meta.json", "kernels/aiv/k.pto", "orchestration/main.cpp", "compiled_files.json"
    ]  # fmt: skip


def test_hardware_needs_ptoas(tmp_path: Path) -> None:
    program = tmp_path / "p.py"
    program.write_text(HEAD + COPY)
    status, _, error = _run(program, tmp_path / "out", "--platform", "a2a3")
    assert status == 1
    assert error.startswith("error: ptoas/k.pto: a2a3 needs ptoas: ")


def test_the_golden_is_computed_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Again when a file is lost; an input that was put there stays, and the outputs follow from it."""
    out = tmp_path / "out"
    write_files(out, files(tmp_path, COPY + "@main.reference\ndef ref(x, out):\n    out[:] = x\n"))
    x, y = out / "data/in/x.pt", out / "data/out/out.pt"

    def golden() -> list[str]:
        assert main([str(out)]) == 0
        return capsys.readouterr().out.replace(f"{out}/data/", "").splitlines()

    assert golden() == ["[golden] wrote in/x.pt", "[golden] wrote out/out.pt"]
    stamp, before = (out / "data/golden.json").read_bytes(), x.read_bytes()
    assert golden() == []
    y.write_bytes(b"")
    assert golden() == ["[golden] wrote in/x.pt", "[golden] wrote out/out.pt"]
    assert (out / "data/golden.json").read_bytes() == stamp

    write_pt(x, "float32", (64, 64), bytes(4 * 64 * 64))
    assert golden() == ["[golden] took in/x.pt", "[golden] wrote out/out.pt"]
    assert bytes(read_pt(y).data) == bytes(4 * 64 * 64)
    assert golden() == []
    x.unlink()
    golden()
    assert (x.read_bytes(), (out / "data/golden.json").read_bytes()) == (before, stamp)

    write_pt(x, "float32", (64, 32), bytes(4 * 64 * 32))
    assert main([str(out)]) == 4
    assert capsys.readouterr().err == (
        f"error: {x}: torch.float32 [64, 32] is stored, but the program takes torch.float32 [64, 64]; "
        "delete the file; a new one is generated\n"
    )


def test_a_failing_reference_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    write_files(out, files(tmp_path, COPY + "@main.reference\ndef ref(x, out):\n    out[:] = x[:2]\n"))
    assert main([str(out)]) == 4
    line = (out / "golden.py").read_text(encoding="utf-8").split("\n").index("    out[:] = x[:2]") + 1
    assert capsys.readouterr().err == (
        f"error: {out}/golden.py:{line}: RuntimeError: The expanded size of the tensor (64) must match the existing "
        "size (2) at non-singleton dimension 0.  Target sizes: [64, 64].  Tensor sizes: [2, 64]\n"
    )
    assert not (out / "data/golden.json").exists()


def test_an_error_of_a_reference_is_at_the_line_of_the_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program, out = tmp_path / "p.py", tmp_path / "out"
    half = "def half(x):\n    return x / 0\n\n"
    program.write_text(HEAD + half + COPY + "@main.reference\ndef ref(x, out):\n    out[:] = half(7)\n")
    assert _run(program, out, "--no-golden", "--skip-ptoas")[0] == 0
    assert main([str(out)]) == 4
    line = program.read_text().splitlines().index("    return x / 0") + 1
    assert capsys.readouterr().err == f"error: {program.name}:{line}: ZeroDivisionError: division by zero\n"


_KILLED = """import os, signal, sys
from pathlib import Path

from pypto_build.compiler.write import write_files

Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
write_files(Path(sys.argv[1]), {"kernel_config.py": "2", "ptoas/k.pto": "2"})
"""


def test_the_next_run_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    """A kill between writing and renaming leaves temporary files. Those of running processes stay, and the user's."""
    contents: dict[str, str | bytes] = {"kernel_config.py": "1", "ptoas/k.pto": "1"}
    write_files(tmp_path, contents)
    assert subprocess.run([sys.executable, "-c", _KILLED, tmp_path], check=False).returncode == -signal.SIGKILL
    left = [path for path in tmp_path.rglob(".*") if path.name.endswith(".tmp")]
    assert len(left) == 2
    kept = {tmp_path / f".kernel_config.py.{os.getpid()}.tmp", tmp_path / ".mine.tmp"}
    for path in kept:
        path.touch()
    assert write_files(tmp_path, contents) == []
    assert set(tmp_path.rglob(".*")) == kept


def test_the_next_run_removes_a_tensor_that_a_killed_one_left(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    program, out = tmp_path / "p.py", tmp_path / "out"
    program.write_text(HEAD + COPY + "@main.reference\ndef ref(x, out):\n    out[:] = x\n")
    _run(program, out)
    (out / "data" / "golden.json").unlink(missing_ok=True)
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = out / "data" / "in" / f".x.pt.{ended.pid}.0123abcd.tmp"
    left.touch()
    assert main([str(out)]) == 0
    assert not left.exists()
