"""Scene tests: their text, when a file is kept, and that they run under every generation of simpler's interface."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from pypto_build.artifact import sign
from pypto_build.artifact.pt import write_pt
from pypto_build.artifact.scene_test import class_name, is_edited
from pypto_build.interop import scene_test
from tests.artifact.artifacts import make_artifact
from tests.interop.standins import VINTAGES, environment
from tests.loaded_python import interpreter

PARAMS = [
    {"name": "x", "direction": "In", "shape": [2, 3], "dtype": "fp32"},
    {"name": "w", "direction": "In", "shape": [3], "dtype": "fp32"},
    {"name": "y", "direction": "InOut", "shape": [2], "dtype": "fp32"},
    {"name": "scale", "direction": "In", "shape": None, "dtype": "fp32"},
]


def floats(*values: float) -> bytes:
    import array

    return array.array("f", values).tobytes()


def project(tmp_path: Path, *, data: str = "in out", golden: str = "") -> tuple[Path, Path]:
    """Return an artifact with the parts of a snapshot, and the directory with its signed manifest."""
    root, out = make_artifact(tmp_path / "_jit_scaled_mm"), tmp_path / "build"
    document = {"schema": 1, "params": PARAMS, "platform": "a2a3sim", "backend_type": "Ascend910B"}
    (root / "compiled_meta.json").write_text(json.dumps(document))
    for part in ("in", "out"):
        (root / "data" / part).mkdir(parents=True)
    if "in" in data:
        write_pt(root / "data" / "in" / "x.pt", "float32", (2, 3), floats(1, 2, 3, 4, 5, 6))
        write_pt(root / "data" / "in" / "w.pt", "float32", (3,), floats(1, 0, 1))
        write_pt(root / "data" / "in" / "y.pt", "float32", (2,), floats(0, 0))
        write_pt(root / "data" / "in" / "scale.pt", "float32", (), floats(2))
    if "out" in data:
        write_pt(root / "data" / "out" / "y.pt", "float32", (2,), floats(8, 20))
    if golden:
        (root / "golden.py").write_text(golden)
    assert (
        sign.main([str(root), "--manifest", str(out / "kernel_config.py"), "--interface", str(out / "interface.json")])
        == 0
    )
    return root, out


def run(out: Path, *words: str, vintage: str = "2026-08") -> subprocess.CompletedProcess[str]:
    command = [interpreter(), str(out / "kernel_config_scene_test.py"), "-p", "a2a3sim", *words]
    return subprocess.run(command, env=environment(vintage), capture_output=True, text=True, check=False)


@pytest.mark.parametrize("vintage", VINTAGES)
def test_runs_under_every_generation_of_the_interface(tmp_path: Path, vintage: str) -> None:
    root, out = project(tmp_path)
    scene_test.write_scene_test(root, out)
    ran = run(out, vintage=vintage)
    assert (ran.returncode, ran.stdout) == (0, "  TestScaledMm::snapshot PASSED y=28\n"), ran.stderr


def test_a_wrong_output_fails(tmp_path: Path) -> None:
    root, out = project(tmp_path)
    scene_test.write_scene_test(root, out)
    ran = run(out, "--corrupt", "y")
    assert (ran.returncode, ran.stdout) == (1, "  TestScaledMm::snapshot FAILED: Golden mismatch on 'y'\n")


def test_golden_py_fills_what_the_snapshot_lacks(tmp_path: Path) -> None:
    golden = (
        "import ctypes\nimport torch\nRTOL = 0.5\n\n"
        "def generate_inputs(params):\n"
        "    inputs = {'x': torch.ones(2, 3), 'w': torch.ones(3), 'y': torch.zeros(2), 'scale': ctypes.c_float(3)}\n"
        "    return list(inputs.items())\n\n"
        "def compute_golden(tensors, params):\n"
        "    tensors['y'][:] = tensors['x'] @ tensors['w']\n"
    )
    root, out = project(tmp_path, data="", golden=golden)
    path = scene_test.write_scene_test(root, out)
    assert "RTOL, ATOL = 0.5, 1e-05" in path.read_text()
    assert run(out).stdout == "  TestScaledMm::snapshot PASSED y=6\n"


def test_todo_marks_only_where_nothing_is_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, out = project(tmp_path, data="")
    assert scene_test.main([str(root), "--build-dir", str(out)]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "[scene_test] fill in: the value of x",
        "[scene_test] fill in: the value of w",
        "[scene_test] fill in: the value of y",
        "[scene_test] fill in: the value of scale",
        "[scene_test] fill in: what the outputs should be, in place: args.y[:] = ...",
    ]
    assert run(out).stdout == "  TestScaledMm::snapshot PASSED y=0\n"
    root, out = project(tmp_path / "complete")
    assert "TODO" not in scene_test.write_scene_test(root, out).read_text()


def test_an_edited_scene_test_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, out = project(tmp_path)
    path = scene_test.write_scene_test(root, out)
    first = path.read_text()
    assert not is_edited(first)
    assert scene_test.write_scene_test(root, out).read_text() == first
    path.write_text(first.replace('"snapshot"', '"mine"'))
    assert scene_test.main([str(root), "--build-dir", str(out)]) == 2
    message = f"{path}: was edited after 'scons scene_test' wrote it; overwrite it with FORCE=1 (--force)\n"
    assert capsys.readouterr().err == message
    assert '"mine"' in path.read_text()
    assert scene_test.main([str(root), "--build-dir", str(out), "--force"]) == 0
    assert path.read_text() == first


def test_a_stale_one_that_nobody_edited_is_written_anew(tmp_path: Path) -> None:
    root, out = project(tmp_path)
    path = scene_test.write_scene_test(root, out)
    scene_test.write_scene_test(root, out, rtol=0.25)
    assert "RTOL, ATOL = 0.25, 1e-05" in path.read_text()


def test_needs_the_signed_manifest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, _ = project(tmp_path)
    assert scene_test.main([str(root), "--build-dir", str(tmp_path / "none")]) == 2
    err = capsys.readouterr().err
    assert (
        err == f"{tmp_path}/none/interface.json: cannot be read: No such file or directory; build the artifact first\n"
    )


def test_names_stay_text(tmp_path: Path) -> None:
    """Check that texts of an artifact never become code of the generated test."""
    root, out = project(tmp_path)
    awkward = root.with_name('_jit_"""\\ + quit()\n + 1')
    root.rename(awkward)
    runtime = 'x"); quit(); ("'
    interface = json.loads((out / "interface.json").read_bytes()) | {"runtime": runtime}
    (out / "interface.json").write_text(json.dumps(interface))
    path = scene_test.write_scene_test(awkward, out)
    words = [sys.executable, "-m", "pypto_build.artifact.sign", str(awkward), "--manifest", str(out / "m.py")]
    subprocess.run([*words, "--interface", str(out / "i.json")], check=True)
    calls = {
        ast.unparse(node.func): node
        for text in (path.read_text(), (out / "m.py").read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
    }
    assert "quit" not in calls
    assert [ast.literal_eval(word.value) for word in calls["scene_test"].keywords] == [2, runtime]


def test_class_names() -> None:
    assert class_name("_jit_vector_dag") == "TestVectorDag"
    assert class_name("lib-dsv4-hc_post") == "TestLibDsv4HcPost"
    assert class_name("paged_attention_20260801_120000.rank0") == "TestPagedAttention20260801120000Rank0"
