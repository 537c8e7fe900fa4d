"""Emission, against exact texts in expected/: one program with dynamic extents, a loop, a condition and a launch."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from pypto_build.artifact import detect_vintage, load_artifact
from pypto_build.artifact.interface import sign
from pypto_build.compiler import VINTAGES, CompileError, Options, build_program, generate_orchestration, run_passes
from pypto_build.compiler.assembler import body_of
from pypto_build.compiler.cpp_scalars import float_literal
from pypto_build.compiler.write import write_files
from tests.compiler.programs import files, in_vintage, kernel, load

EXPECTED = Path(__file__).parent / "expected"
PROGRAM = (EXPECTED / "program.txt").read_text()
TEXTS = {
    "ptoas/scale.pto": "scale.pto",
    "kernels/aiv/scale.cpp": "scale.cpp",
    "kernels/aiv/shift.cpp": "shift.cpp",
    "orchestration/main.cpp": "main.cpp",
    "kernel_config.py": "kernel_config.txt",
    "kernel_config_scene_test.py": "scene_test.txt",
    "compiled_meta.json": "compiled_meta.json",
    "golden.py": "golden.txt",
}


def test_files(tmp_path: Path) -> None:
    texts = files(tmp_path, PROGRAM)
    assert sorted(texts) == sorted([*TEXTS, "ptoas/scale.cpp", "ptoas/shift.cpp", "ptoas/shift.pto"])


@pytest.mark.parametrize("path", TEXTS)
def test_exact_text(tmp_path: Path, path: str) -> None:
    assert files(tmp_path, PROGRAM)[path] == (EXPECTED / TEXTS[path]).read_text()


def test_generate_orchestration(tmp_path: Path) -> None:
    program = run_passes(build_program(load(tmp_path, PROGRAM)))
    result = generate_orchestration(program, program.entries[0])
    assert result.func_name_to_id == {"scale": 0, "shift": 1}
    assert result.func_name_to_core_type == {"scale": "aiv", "shift": "aiv"}
    assert result.func_name_to_signature == {"scale": ("IN", "OUT"), "shift": ("IN", "INOUT")}
    assert result.code == (EXPECTED / "main.cpp").read_text()


@pytest.mark.parametrize("name", VINTAGES)
def test_vintages(tmp_path: Path, name: str) -> None:
    """Only the names of the API differ, and the reader recognises the generation."""
    vintage = VINTAGES[name]
    text = files(tmp_path, PROGRAM, Options(vintage, locations=False))["orchestration/main.cpp"]
    expected = in_vintage((EXPECTED / "main.cpp").read_text(), vintage)
    assert text == expected
    assert detect_vintage(text).name == name


def test_the_artifact_reads_back(tmp_path: Path) -> None:
    """Signatures derived from the C++ are those of the manifest."""
    write_files(tmp_path / "a", files(tmp_path, PROGRAM))
    artifact = load_artifact(tmp_path / "a")
    assert [(k.name, k.core_type, [d.name for d in k.signature or ()]) for k in artifact.kernels] == [
        ("scale", "aiv", ["IN", "OUT"]),
        ("shift", "aiv", ["IN", "INOUT"]),
    ]
    assert [p.name for p in sign(artifact).interface.params if p.kind == "tensor"] == ["x", "counts", "y"]
    ast.parse((tmp_path / "a" / "golden.py").read_text())


def test_a_group(tmp_path: Path) -> None:
    body = kernel("a = pl.load(x, [0, 0], [64, 64])\npl.store(pl.exp(pl.matmul(a, a)), [0, 0], out)")
    texts = files(tmp_path, body)
    assert {p for p in texts if p.startswith(("kernels", "ptoas"))} == {
        "kernels/aic/k_aic.cpp", "kernels/aiv/k_aiv.cpp", "ptoas/k.cpp", "ptoas/k.pto",
    }  # fmt: skip
    submission = texts["orchestration/main.cpp"].partition("// Group k")[2]
    assert "// Group k" + submission.partition("    }\n")[0] == (
        "// Group k: MixedKernels (AIC + AIV lanes)\n"
        "        CoreTaskArgs params_t0;\n"
        "        params_t0.add_input(ext_x);\n"
        "        params_t0.add_output(ext_out);\n"
        "        params_t0.add_output(gm_pipe_buffer_0);\n"
        "        MixedKernels mixed_0 = {0, 1, INVALID_KERNEL_ID};\n"
        "        rt_submit_task(mixed_0, params_t0);\n"
    )
    assert "__gm_pipe_buffer" not in files(tmp_path, body, platform="a5sim")["kernels/aic/k_aic.cpp"]


def test_locations_name_the_users_lines(tmp_path: Path) -> None:
    text = files(tmp_path, kernel("pl.store(pl.load(x, [0, 0], [64, 64]), [0, 0], out)"), Options())["ptoas/k.pto"]
    line = next(line for line in text.splitlines() if "pto.tload" in line)
    assert line.endswith(f' loc("{tmp_path}/program.py":5:14)')


def test_more_tensors_than_a_task_takes(tmp_path: Path) -> None:
    names = [f"x{i}" for i in range(16)]
    parameters = ", ".join(f"{n}: M" for n in names) + ", out: pl.Out[M]"
    loads = " + ".join(f"pl.load({n}, [0, 0], [16, 64])" for n in names)
    body = kernel(f"pl.store({loads}, [0, 0], out)", parameters, ", ".join([*names, "out"]))
    files(tmp_path, body)
    with pytest.raises(CompileError) as caught:
        files(tmp_path, body, Options(VINTAGES["2026-05"]))
    assert str(caught.value) == (
        f"{tmp_path}/program.py:8:5: k takes 17 tensors, but a task of the API version 2026-05 has "
        "at most 16; split the kernel, or combine some of them in one tensor"
    )


def test_body_of() -> None:
    raw = '#include "pto/pto-inst.hpp"\nusing namespace pto;\n\n__global__ AICORE void k(__gm__ Tensor* a) {\n}\n'
    assert body_of(raw, "ChipTensor") == "static __aicore__ void k(__gm__ ChipTensor* a) {\n}"
    assert body_of(raw, "Tensor") == "static __aicore__ void k(__gm__ Tensor* a) {\n}"


@pytest.mark.parametrize(
    ("value", "text"), [(1.0, "1.0f"), (0.1, "0.1f"), (1e-6, "1e-06f"), (1 / 3, "0.33333333f"), (-2.5, "-2.5f")]
)
def test_float_literal(value: float, text: str) -> None:
    assert float_literal(value) == text
