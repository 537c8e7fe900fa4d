"""The signed manifest and interface.json, from the command line."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from pypto_build.artifact import ArgDirection, load_artifact, read_manifest
from pypto_build.artifact.interface import read_interface, sign
from pypto_build.artifact.sign import main

from .artifacts import HEADER, MANIFEST, entry, generated, make_artifact, write

IN, OUT, INOUT = ArgDirection.IN, ArgDirection.OUT, ArgDirection.INOUT
META = {
    "schema": 1,
    "params": [
        {"name": "x", "direction": "In", "shape": [64, 64], "dtype": "fp32"},
        {"name": "alpha", "direction": "In", "shape": None, "dtype": "fp32"},
        {"name": "weight", "direction": "In", "shape": [64, -1], "dtype": "bfloat16"},
        {"name": "y", "direction": "InOut", "shape": [64, 64], "dtype": "fp32"},
    ],
}


def run(root: Path, out: Path) -> int:
    return main([str(root), "--manifest", str(out / "kernel_config.py"), "--interface", str(out / "interface.json")])


def signed(root: Path, out: Path) -> Any:
    assert run(root, out) == 0
    return json.loads((out / "interface.json").read_bytes())


def imported(path: Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """The manifest, executed with a stand-in for simpler."""
    task_interface = types.ModuleType("simpler.task_interface")
    task_interface.ArgDirection = ArgDirection  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "simpler", types.ModuleType("simpler"))
    monkeypatch.setitem(sys.modules, "simpler.task_interface", task_interface)
    spec = importlib.util.spec_from_file_location("signed_manifest", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_interface(tmp_path: Path) -> None:
    config = 'RUNTIME_CONFIG = {"runtime": "tensormap_and_ringbuffer", "aicpu_thread_num": 4, "block_dim": 24}\n'
    root = make_artifact(tmp_path / "_jit_x", MANIFEST + config)
    assert signed(root, tmp_path / "out") == {
        "schema": 1,
        "artifact": "_jit_x",
        "vintage": "2026-08",
        "orchestration": {
            "function_name": "aicpu_orchestration_entry",
            "config_name": "aicpu_orchestration_config",
            "source": "orchestration/scaled_mm.cpp",
        },
        "params": [
            {"name": "x", "kind": "tensor", "index": 0, "direction": "IN", "dtype": None, "shape": None},
            {"name": "w", "kind": "tensor", "index": 1, "direction": "IN", "dtype": None, "shape": None},
            {"name": "y", "kind": "tensor", "index": 2, "direction": "OUT", "dtype": None, "shape": None},
            {"name": "alpha", "kind": "scalar", "index": 0, "direction": None, "dtype": "float32", "shape": None},
        ],
        "kernels": [
            {
                "func_id": 0,
                "name": "mm",
                "core_type": "aic",
                "source": "kernels/aic/mm.cpp",
                "signature": ["IN", "IN", "OUT"],
            },
            {
                "func_id": 1,
                "name": "scale",
                "core_type": "aiv",
                "source": "kernels/aiv/scale.cpp",
                "signature": ["IN", "OUT"],
            },
        ],
        "block_dim": 24,
        "aicpu_thread_num": 4,
        "runtime": "tensormap_and_ringbuffer",
        "notes": [],
        "parameter_order": "",
    }
    interface = read_interface(tmp_path / "out" / "interface.json")
    assert interface == sign(load_artifact(root)).interface


def test_declared_facts_win(tmp_path: Path) -> None:
    text = "from simpler.task_interface import ArgDirection as _D\n" + MANIFEST.replace(
        '"core_type": "aiv"', '"core_type": "aiv", "signature": [_D.IN, _D.INOUT]'
    ).replace('entry"', 'entry", "signature": [_D.INOUT]')
    root = make_artifact(tmp_path / "_jit_x", text)
    write(root / "compiled_meta.json", json.dumps(META))
    interface = signed(root, tmp_path / "out")
    assert [
        (p["name"], p["kind"], p["index"], p["direction"], p["dtype"], p["shape"]) for p in interface["params"]
    ] == [
        ("x", "tensor", 0, "INOUT", "float32", [64, 64]),
        ("weight", "tensor", 1, "IN", "bfloat16", [64, -1]),
        ("y", "tensor", 2, "INOUT", "float32", [64, 64]),
        ("alpha", "scalar", 0, None, "float32", None),
    ]
    assert [k["signature"] for k in interface["kernels"]] == [["IN", "IN", "OUT"], ["IN", "INOUT"]]


def test_written_tensor_that_nobody_declares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = "CoreTaskArgs p; ChipTensor v = ext_y.view(s, o); p.add_output(v); p.add_inout(ext_w);"
    root = make_artifact(tmp_path / "_jit_x", orchestration=entry(body))
    interface = signed(root, tmp_path / "out")
    assert [p["direction"] for p in interface["params"]] == ["IN", None, None]
    module = imported(tmp_path / "out" / "kernel_config.py", monkeypatch)
    assert module.ORCHESTRATION["signature"] == [IN, INOUT, INOUT]


def test_params_without_names_and_with_equal_names(tmp_path: Path) -> None:
    body = "const ChipTensor& x = orch_args.tensor(3).ref(); p.add_input(orch_args.tensor(4)); n = orch_args.scalar(0);"
    root = make_artifact(tmp_path / "_jit_x", orchestration=entry(f"CoreTaskArgs p; {body}"))
    names = [p["name"] for p in signed(root, tmp_path / "out")["params"]]
    assert names == ["x", "w", "y", "x_2", "tensor4", "scalar0"]


def test_signed_manifest_imports_and_finds_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    external = write(tmp_path / "lib" / "ext.cpp")
    extra = (
        f'\t{{"func_id": 2, "name": "ext", "source": "{external}", "core_type": "aiv", "external": True, '
        f'"extra_include_dirs": ["{external.parent}"]}},\n]\n'
    )
    root = make_artifact(tmp_path / "_jit_x", MANIFEST.replace("]\n", extra))
    out = tmp_path / "build" / "a2a3sim" / "_jit_x"
    assert run(root, out) == 0
    module = imported(out / "kernel_config.py", monkeypatch)
    assert module.RUNTIME_CONFIG == {}
    assert {
        "source": f"{root}/orchestration/scaled_mm.cpp",
        "function_name": "aicpu_orchestration_entry",
        "config_name": "aicpu_orchestration_config",
        "signature": [IN, IN, OUT],
    } == module.ORCHESTRATION
    plain = [
        {
            "func_id": 0,
            "name": "mm",
            "source": f"{root}/kernels/aic/mm.cpp",
            "core_type": "aic",
            "signature": [IN, IN, OUT],
        },
        {
            "func_id": 1,
            "name": "scale",
            "source": f"{root}/kernels/aiv/scale.cpp",
            "core_type": "aiv",
            "signature": [IN, OUT],
        },
    ]
    ext = {"func_id": 2, "name": "ext", "source": str(external), "core_type": "aiv"}
    dirs = {"extra_include_dirs": [str(external.parent)]}
    assert [*plain, ext | {"external": True} | dirs] == module.KERNELS
    assert {"orchestration": module.ORCHESTRATION, "incores": [*plain, ext | dirs]} == module.CALLABLE


def test_signed_manifest_moves_with_the_artifact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("here", "there"):
        assert run(make_artifact(tmp_path / name / "_jit_x"), tmp_path / name / "out") == 0
    here, there = (tmp_path / name / "out" / "kernel_config.py" for name in ("here", "there"))
    assert here.read_bytes() == there.read_bytes()
    assert imported(there, monkeypatch).KERNELS[0]["source"] == str(tmp_path / "there/_jit_x/kernels/aic/mm.cpp")


def with_source_outside(root: Path, source: Path) -> Path:
    write(source)
    extra = (
        f'\t{{"func_id": 2, "name": "ext", "source": "{source}", "core_type": "aiv", "external": True, '
        f'"extra_include_dirs": ["{source.parent}"]}},\n]\n'
    )
    return make_artifact(root, MANIFEST.replace("]\n", extra))


def test_sources_outside_are_found_where_both_have_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("here", "far/there"):
        root = with_source_outside(tmp_path / name / "build" / "_jit_x", tmp_path / name / "lib" / "ext.cpp")
        interface = signed(root, tmp_path / name / "out")
        assert interface["kernels"][2]["source"] == "../../lib/ext.cpp"
    here, there = (tmp_path / name / "out" / "kernel_config.py" for name in ("here", "far/there"))
    assert here.read_bytes() == there.read_bytes()
    expected = str(tmp_path / "far" / "there" / "lib" / "ext.cpp")
    assert imported(there, monkeypatch).KERNELS[2]["source"] == expected
    kernel = read_manifest(there, tmp_path / "far" / "there" / "build" / "_jit_x").kernels[2]
    assert (str(kernel.source), kernel.external, kernel.extra_include_dirs) == (
        expected,
        True,
        (Path(expected).parent,),
    )


def test_a_source_outside_that_a_link_leads_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No way by `..` leads through a link: that would begin where the link leads."""
    (tmp_path / "disk" / "deep" / "build").mkdir(parents=True)
    (tmp_path / "build").symlink_to(tmp_path / "disk" / "deep" / "build")
    root = with_source_outside(tmp_path / "build" / "_jit_x", tmp_path / "lib" / "ext.cpp")
    assert signed(root, tmp_path / "out")["kernels"][2]["source"] == str(tmp_path / "lib" / "ext.cpp")
    source = imported(tmp_path / "out" / "kernel_config.py", monkeypatch).KERNELS[2]["source"]
    assert source == str(tmp_path / "lib" / "ext.cpp")


def test_signed_manifest_inside_the_artifact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_artifact(tmp_path / "_jit_x")
    assert run(root, root) == 0
    assert imported(root / "kernel_config.py", monkeypatch).ORCHESTRATION["source"].startswith(f"{root}/")
    first = (root / "kernel_config.py").read_bytes()
    assert run(root, root) == 0
    assert (root / "kernel_config.py").read_bytes() == first


def test_signed_manifest_is_read_back(tmp_path: Path) -> None:
    root = make_artifact(tmp_path / "_jit_x")
    assert run(root, tmp_path / "out") == 0
    read = read_manifest(tmp_path / "out" / "kernel_config.py", root)
    expected = sign(load_artifact(root)).artifact
    assert (read.kernels, read.orchestration) == (expected.kernels, expected.orchestration)


def test_odd_names_are_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / 'it\'s "so" \\ odd é'
    make_artifact(root, MANIFEST + 'RUNTIME_CONFIG = {"runtime": "a\\"b\'c\\\\d\\n"}\n')
    out = tmp_path / "out"
    assert run(root, out) == 0
    module = imported(out / "kernel_config.py", monkeypatch)
    assert module.RUNTIME_CONFIG == {"runtime": "a\"b'c\\d\n"}
    assert Path(module.ORCHESTRATION["source"]).is_file()


def test_kernel_that_is_never_submitted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make_artifact(tmp_path / "_jit_x", orchestration=entry("CoreTaskArgs p; rt_submit_aiv_task(1, p);"))
    interface = signed(root, tmp_path / "out")
    assert [k["signature"] for k in interface["kernels"]] == [None, []]
    note = "orchestration/scaled_mm.cpp: kernel 0 'mm' is never submitted"
    assert interface["notes"] == [note]
    assert capsys.readouterr().err == f"note: {note}\n"


@pytest.mark.parametrize(
    ("manifest", "orchestration", "message"),
    [
        (HEADER, None, "kernel_config.py: KERNELS is missing; compile again or correct the manifest"),
        (
            MANIFEST,
            "int x;\n",
            "orchestration/scaled_mm.cpp: unknown API version: the file uses neither ChipTaskArgs "
            "(2026-08) nor an older orchestration "
            "API; check that ORCHESTRATION.source names the orchestration that the compiler wrote",
        ),
        (
            MANIFEST,
            generated("2026-04").replace("aiv_task(1", "aiv_task(3"),
            (
                "orchestration/scaled_mm.cpp:51: submits func_id 3, but no kernel in the manifest has "
                "this func_id; use one of the manifest's func_ids: 0, 1"
            ),
        ),
    ],
)
def test_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], manifest: str, orchestration: str | None, message: str
) -> None:
    root = make_artifact(tmp_path / "_jit_x", manifest, orchestration)
    assert run(root, tmp_path / "out") == 2
    assert capsys.readouterr().err == f"{root}/{message}\n"
    assert not (tmp_path / "out").exists()


def test_output_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make_artifact(tmp_path / "_jit_x")
    blocked = write(tmp_path / "file")
    assert run(root, blocked) == 3
    assert capsys.readouterr().err == f"{blocked}/kernel_config.py: cannot be written: File exists\n"
    assert sorted(os.listdir(tmp_path)) == ["_jit_x", "file"]


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["x", "--manifest", "m"])
    assert caught.value.code == 2
    assert capsys.readouterr().err.endswith("error: the following arguments are required: --interface\n")
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    assert "--interface OUT" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read: No such file or directory; build the artifact first"),
        ("{}", "is not a valid interface.json: Object missing required field `schema`; build the artifact again"),
    ],
)
def test_faulty_interface(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "interface.json"
    if text is not None:
        write(path, text)
    with pytest.raises(Exception, match="interface") as caught:
        read_interface(path)
    assert str(caught.value) == f"{path}: {message}"
