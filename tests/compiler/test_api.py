"""Parts of emission by themselves: argument unpacking, wrapper, directions, manifest, preprocessing, core types."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pypto_build.compiler import (
    VINTAGES,
    Program,
    build_program,
    generate,
    generate_orchestration,
    infer_function_core_type,
    run_passes,
)
from pypto_build.compiler.emit_artifact import generate_manifest, generate_wrapper, passed_to
from pypto_build.compiler.emit_pto import signature_of
from pypto_build.pto.wrapper import unpack_arguments
from tests.compiler.programs import kernel, load

ROOT = Path(__file__).resolve().parents[2]
PARAMETERS = "n: pl.Scalar[pl.INT32], x: pl.Tensor[[R, 64], pl.BF16], acc: pl.InOut[M], out: pl.Out[M]"
BODY = (
    "t = pl.cast(pl.load(x, [0, 0], [64, 64]), pl.FP32) * n\n"
    "pl.store(t + R, [0, 0], out)\n"
    "pl.store(pl.load(acc, [0, 0], [64, 64]) + t, [0, 0], acc)"
)
PROGRAM = "R = pl.dynamic('R', 64)\n" + kernel(BODY, PARAMETERS, "n, x, acc, out")
MIXED = kernel("a = pl.load(x, [0, 0], [64, 64])\npl.store(pl.exp(pl.matmul(a, a)), [0, 0], out)")


def _program(tmp_path: Path, text: str) -> Program:
    return run_passes(build_program(load(tmp_path, text)))


@pytest.mark.parametrize(("vintage", "tensor"), [("2026-06", "Tensor"), ("2026-08", "ChipTensor")])
def test_unpack_arguments(tmp_path: Path, vintage: str, tensor: str) -> None:
    """All tensors, then all numbers, whatever the order of declaration; then dynamic extents."""
    signature = signature_of(_program(tmp_path, PROGRAM).functions["k"])
    unpack = "    __gm__ {c}* {n} = reinterpret_cast<__gm__ {c}*>({n}_tensor->buffer.addr) + {n}_tensor->start_offset;"
    lines = []
    for slot, (name, cpp) in enumerate(
        (("x__ssa_v0", "bfloat16_t"), ("acc__ssa_v0", "float"), ("out__ssa_v0", "float"))
    ):
        cast = f"reinterpret_cast<__gm__ {tensor}*>(args[{slot}])"
        lines += [
            f"    // Unpack tensor: {name}",
            f"    __gm__ {tensor}* {name}_tensor = {cast};",
            unpack.format(c=cpp, n=name),
            "",
        ]
    lines += [
        "    // Unpack scalar: n__ssa_v0",
        "    union { uint64_t u64; int32_t val; } n__ssa_v0_conv;",
        "    n__ssa_v0_conv.u64 = args[3];",
        "    int32_t n__ssa_v0 = n__ssa_v0_conv.val;",
        "",
        "    // Dynamic dim: R",
        "    int64_t R = static_cast<int64_t>(x__ssa_v0_tensor->shapes[0]);",
        "",
    ]
    assert unpack_arguments(passed_to(signature), VINTAGES[vintage].tensor) == lines


def test_the_entry_forwards_in_the_order_of_the_module(tmp_path: Path) -> None:
    function = _program(tmp_path, PROGRAM).functions["k"]
    assert generate_wrapper(function, "").splitlines()[-3:] == [
        "    // Forward to ptoas-generated function",
        "    k(x__ssa_v0, acc__ssa_v0, out__ssa_v0, n__ssa_v0, R);",
        "}",
    ]


def test_directions_are_those_of_the_task(tmp_path: Path) -> None:
    program = _program(tmp_path, PROGRAM)
    result = generate_orchestration(program, program.entries[0])
    assert result.func_name_to_signature == {"k": ("IN", "INOUT", "OUT")}
    added = [line.strip() for line in result.code.splitlines() if ".add_" in line]
    assert added == [
        "params_t0.add_input(ext_x);",
        "params_t0.add_inout(ext_acc);",
        "params_t0.add_output(ext_out);",
        "params_t0.add_scalar(n);",
    ]


def test_members_of_a_group_share_their_tasks_directions(tmp_path: Path) -> None:
    program = _program(tmp_path, MIXED)
    result = generate_orchestration(program, program.entries[0])
    assert result.func_name_to_id == {"k_aic": 0, "k_aiv": 1}
    assert result.func_name_to_core_type == {"k_aic": "aic", "k_aiv": "aiv"}
    assert result.func_name_to_signature == {"k_aic": ("IN", "OUT", "OUT"), "k_aiv": ("IN", "OUT", "OUT")}
    assert [infer_function_core_type(f) for f in program.kernels] == ["aic", "aiv"]


def test_the_manifest_names_each_kernels_own_directory(tmp_path: Path) -> None:
    program = _program(tmp_path, MIXED)
    text = generate_manifest(program.entries[0], generate_orchestration(program, program.entries[0]))
    assert [line for line in text.splitlines() if line.startswith('\t{"func_id"')] == [
        '\t{"func_id": 0, "name": "k_aic", "source": str(_ROOT_DIR / "kernels" / "aic" / "k_aic.cpp"), '
        '"core_type": "aic", "signature": [_D.IN, _D.OUT, _D.OUT]},',
        '\t{"func_id": 1, "name": "k_aiv", "source": str(_ROOT_DIR / "kernels" / "aiv" / "k_aiv.cpp"), '
        '"core_type": "aiv", "signature": [_D.IN, _D.OUT, _D.OUT]},',
    ]


def test_generate(tmp_path: Path) -> None:
    """A dictionary of texts; nothing is written."""
    assert sorted(generate(_program(tmp_path, MIXED), tmp_path / "out")) == [
        "compiled_meta.json",
        "kernel_config.py",
        "kernel_config_scene_test.py",
        "kernels/aic/k_aic.cpp",
        "kernels/aiv/k_aiv.cpp",
        "orchestration/main.cpp",
        "ptoas/k.cpp",
        "ptoas/k.pto",
    ]
    assert not (tmp_path / "out").exists()


def test_splicing_starts_without_the_compiler() -> None:
    """It is in every edit of a module: no parser, compiler or reader of manifests is loaded for a new body."""
    code = (
        "import sys, pypto_build.compiler.splice_files\n"
        "print(sorted(name for name in sys.modules if name.startswith('pypto_build.') or name == 'msgspec'))\n"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert process.stdout == (
        "['pypto_build.compiler', 'pypto_build.compiler.splice_files', 'pypto_build.facts', "
        "'pypto_build.facts.positions', 'pypto_build.lazy', 'pypto_build.pto', 'pypto_build.pto.atomic', "
        "'pypto_build.pto.errors', 'pypto_build.pto.splice']\n"
    )
