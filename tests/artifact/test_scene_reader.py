"""Declarations of a scene test's file, as its syntax tree has them, and the artifact of a class."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pypto_build.artifact import ArtifactError, load_artifact
from pypto_build.artifact.manifest_writer import render_manifest
from pypto_build.artifact.scene_reader import NotLiteral, is_scene_test, read_literal
from pypto_build.artifact.scenes import (
    Scene,
    SceneCase,
    SceneEntry,
    SceneKernel,
    Scenes,
    encode_scenes,
    matches,
    read_scenes,
    ring_limits,
    scene_artifact,
)

CHAIN = Path(__file__).resolve().parents[1] / "interop" / "scenes" / "scene_chain.py"

HEAD = """
import pytest
from simpler.task_interface import ArgDirection as D
from simpler_setup import SceneTestCase, scene_test

N = 4
WHERE = "kernels"
"""


def scenes_of(tmp_path: Path, text: str) -> Scenes:
    """Return the declarations of a file with this text."""
    path = tmp_path / "test_it.py"
    path.write_text(HEAD + text)
    return read_literal(path)


def a_class(body: str, decorators: str = "", base: str = "SceneTestCase") -> str:
    """A class with this body."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f'{decorators}@scene_test(level=2, runtime="host_build_graph")\nclass TestIt({base}):\n{lines}'


def test_a_class_with_all_that_it_may_declare(tmp_path: Path) -> None:
    body = """
SIM = "a2a3sim"
ATOL = 0.5
RTOL = 1e-3
SKIP_GOLDEN = True
RUNTIME_ENV = {"PTO2_RING_HEAP": 1024}
CALLABLE = {
    "orchestration": {"source": f"{WHERE}/o.cpp", "function_name": "go", "signature": [D.IN, D.INOUT]},
    "incores": [{"func_id": 2, "name": "K", "source": WHERE + "/k.cpp", "core_type": "aic", "signature": [D.OUT]}],
}
CASES = [
    {"name": "a", "platforms": [SIM, "a2a3"], "params": {"dtype": torch.float16}, "manual": True},
    {"name": "b", "platforms": ["a5sim"], "config": {"runtime_env": {"ring_heap": [1, 2, 3, 4]}}, "skip_golden": False},
    {"name": "c", "platforms": [SIM, "a5sim"], "manual": "a5sim"},
]
def generate_args(self, params): ...
def compare_outputs(self, *args): ...
def test_more(self): ...
"""
    (scene,) = scenes_of(tmp_path, a_class(body)).classes
    assert scene == Scene(
        name="TestIt",
        line=9,
        level=2,
        runtime="host_build_graph",
        orchestration=SceneEntry("kernels/o.cpp", "go", signature=("IN", "INOUT")),
        kernels=(SceneKernel(2, "kernels/k.cpp", "aic", "K", ("OUT",)),),
        cases=(
            SceneCase("a", ("a2a3sim", "a2a3"), ("a2a3sim", "a2a3")),
            SceneCase("b", ("a5sim",), (), False, {"runtime_env": {"ring_heap": [1, 2, 3, 4]}}),
            SceneCase("c", ("a2a3sim", "a5sim"), ("a5sim",)),
        ),
        rtol=1e-3,
        atol=0.5,
        skip_golden=True,
        judged=True,
        others=("test_more",),
        environment={"PTO2_RING_HEAP": "1024"},
    )
    assert [scene.compares(case) for case in scene.cases] == [False, True, False]
    assert scene.why_not(scene.cases[1], "a2a3sim") == "its platforms are a5sim"
    assert ring_limits(scene, scene.cases[0]) == {"PTO2_RING_HEAP": "1024"}
    assert ring_limits(scene, scene.cases[1]) == {"PTO2_RING_HEAP": "1,2,3,4"}
    path = tmp_path / "scenes.json"
    path.write_bytes(encode_scenes(Scenes((scene,))))
    assert read_scenes(path) == Scenes((scene,))


@pytest.mark.parametrize(
    "text",
    [
        a_class("CASES = [{'name': name} for name in 'ab']"),
        a_class("CASES = [{'name': 'a', 'platforms': computed()}]"),
        a_class("CASES = []", base="Mine"),
        a_class("CALLABLE = elsewhere.CALLABLE"),
        a_class("CASES = []") + "TestIt.CASES.append({'name': 'late'})\n",
        "for name in 'ab':\n    N = name\n" + a_class("CASES = []"),
    ],
    ids=["listed", "computed", "base", "imported", "changed", "loop"],
)
def test_what_is_computed_has_to_be_executed(tmp_path: Path, text: str) -> None:
    with pytest.raises(NotLiteral):
        scenes_of(tmp_path, text)


@pytest.mark.parametrize(
    "decorators, body, reason",
    [
        ('@pytest.mark.requires_hardware("a5")\n', "", "needs hardware: a5"),
        ("@pytest.mark.requires_hardware\n", "", "needs hardware"),
        ('@pytest.mark.skip(reason="slow")\n', "", "marked to be skipped"),
        ('@pytest.mark.skipif(sys.platform == "win32", reason="posix")\n', "", ""),
        ("", "def test_run(self, st_platform, st_worker, request): ...", ""),
        ("", "def test_run(self, st_platform, st_worker, request, capfd): ...", "its test_run takes the fixture capfd"),
        ("", "def build_callable(self, platform): ...", "it compiles by itself (build_callable), which needs simpler"),
    ],
)
def test_why_a_class_does_not_run_here(tmp_path: Path, decorators: str, body: str, reason: str) -> None:
    (scene,) = scenes_of(tmp_path, a_class(f"CASES = []\n{body}", decorators)).classes
    assert scene.reason == reason


def test_the_forms_of_our_own_scene_test() -> None:
    assert is_scene_test(CHAIN)
    assert not is_scene_test(Path(__file__).with_name("artifacts.py")) and not is_scene_test(CHAIN.parent)
    assert [scene.name for scene in read_literal(CHAIN).classes] == ["TestChain", "TestJudged", "TestOnChip"]
    with pytest.raises(NotLiteral, match="CASES is not written as a literal list"):
        read_literal(CHAIN.with_name("scene_pairs.py"))


def test_a_file_that_is_no_python(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"test_it.py:8: syntax error: .*; correct the line"):
        scenes_of(tmp_path, "class (:\n")


@pytest.mark.parametrize(
    "selector, cases",
    [("a", "X::a Y::a"), ("X::a", "X::a"), ("X::", "X::a X::b"), ("::b", "X::b"), ("Z::a", ""), ("X", "")],
)
def test_selectors(selector: str, cases: str) -> None:
    declared = [("X", "a"), ("X", "b"), ("Y", "a")]
    assert " ".join(f"{one}::{two}" for one, two in declared if matches(selector, one, two)) == cases


def scene(tmp_path: Path, **more: Any) -> Scene:
    """A class whose files are there."""
    for name in ("o.cpp", "k.cpp"):
        (tmp_path / name).write_text("")
    kernels = tuple(SceneKernel(number, "k.cpp", "aiv", "a kernel", ("SCALAR", "IN")) for number in (0, 1))
    fields = {"orchestration": SceneEntry("o.cpp", signature=("OUT",)), "kernels": kernels, **more}
    return Scene("TestIt", 3, 2, "host_build_graph", **fields)


def test_the_artifact_of_a_class(tmp_path: Path) -> None:
    root = tmp_path / "build" / "it.TestIt"
    root.mkdir(parents=True)
    (tmp_path / "headers").mkdir()
    declared = scene(tmp_path)
    first, second = declared.kernels
    import msgspec

    second = msgspec.structs.replace(second, extra_include_dirs=("headers", "nowhere"))
    declared = msgspec.structs.replace(declared, kernels=(first, second))
    artifact = scene_artifact(declared, tmp_path / "test_it.py", root)
    (root / "kernel_config.py").write_text(render_manifest(artifact, root))
    params = [{"name": "y", "direction": "Out", "shape": None, "dtype": "", "kind": "tensor"}]
    params += [{"name": "n", "direction": "In", "shape": None, "dtype": "", "kind": "scalar"}]
    (root / "compiled_meta.json").write_text(json.dumps({"schema": 1, "params": params}))
    loaded = load_artifact(root)
    assert [kernel.name for kernel in loaded.kernels] == ["a_kernel", "a_kernel_1"]
    assert loaded.kernels == artifact.kernels and loaded.orchestration == artifact.orchestration
    assert loaded.kernels[1].extra_include_dirs == (tmp_path / "headers",)
    assert loaded.runtime == "host_build_graph" and loaded.orchestration.source == tmp_path / "o.cpp"
    assert loaded.meta is not None
    assert [[param.name for param in row] for row in (loaded.meta.tensors, loaded.meta.scalars)] == [["y"], ["n"]]


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"orchestration": None}, "TestIt.CALLABLE names no orchestration"),
        ({"orchestration": SceneEntry("gone.cpp")}, "there is no file .*gone.cpp"),
        ({"kernels": (SceneKernel(0, "gone.cpp", "aiv"),)}, "kernel 0: there is no file"),
        ({"kernels": (SceneKernel(0, "k.cpp", "aiv", extra_include_dirs=("$PYPTO_NOWHERE",)),)}, "PYPTO_NOWHERE"),
        ({"kernels": (SceneKernel(0, "k.cpp", "aiv", extra_include_dirs=("gone",)),)}, "none of gone exists"),
    ],
)
def test_a_class_that_names_what_is_not_there(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ArtifactError, match=message):
        scene_artifact(scene(tmp_path, **changes), tmp_path / "test_it.py", tmp_path / "root")
