"""Artifacts like those of public reports: what each instrument says of them, at which line."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pypto_build.device.kernel import check_kernel
from pypto_build.diagnose.lint.__main__ import lint
from pypto_build.pto import parse_file
from pypto_build.pto.checks import check_module
from pypto_build.toolchain.python import own_tool
from tests.diagnose.checked import copy_example
from tests.rules.project import Project

_GATE, _TILE = "kernels/aiv/gate_rows.cpp", "kernels/aic/matmul_tile.cpp"
_ROWS, _DAG = "orchestration/row_blocks.cpp", "orchestration/vector_dag.cpp"
_EXTENT = "({0}_offsets[{1}] >= ext_x.shapes[{1}] ? 0u : std::min<uint32_t>({2}, ext_x.shapes[{1}] - {0}_offsets[{1}]))"
_VIEW = f"uint32_t xb_shapes[2] = {{{_EXTENT.format('xb', 0, 64)}, {_EXTENT.format('xb', 1, 128)}}};"


@dataclass(frozen=True)
class Reported:
    """One edit of an example, and what hazards say: the file, the text of the line, a part of the message."""

    artifact: str
    file: str
    old: str
    new: str
    at: str
    says: str
    rules: str = ""


REPORTED = {
    "a reciprocal in place": Reported(
        "_jit_row_blocks",
        "kernels/aiv/gate_rows.cpp",
        "TASSIGN(v24, v29);",
        "TASSIGN(v24, v18);",
        "TRECIP(v24, v22);",
        "dst is filled with ones before src is read: on a2a3 the result is 1.0 everywhere [rules/overlap]",
    ),
    "an accumulator that is valid in part": Reported(
        "_jit_matmul",
        "kernels/aic/matmul_tile.cpp",
        "(v4, v4);\n  TASSIGN(v18",
        "(40, v4);\n  TASSIGN(v18",
        "TSTORE(v25, v18);",
        "the accumulator is read with the stride of all its rows",
        "hazards/unwritten-output rules/erratum",
    ),
    "a view past the end": Reported(
        "_jit_row_blocks",
        "orchestration/row_blocks.cpp",
        _VIEW,
        "uint32_t xb_shapes[2] = {64, 128};",
        "ChipTensor xb = ext_x.view(xb_shapes, xb_offsets);",
        "after 3 tasks: view of 'ext_x' [200, 128] reaches outside it: offset 192 + 64 of 200 in dimension 0; ",
    ),
    "a reshape to half the elements": Reported(
        "_jit_vector_dag",
        "orchestration/vector_dag.cpp",
        "        params_t3.add_input(d);",
        "        uint32_t half[2] = {64, 128};\n        ChipTensor flat = d.reshape(half, 2);\n"
        "        params_t3.add_input(flat);",
        "ChipTensor flat = d.reshape(half, 2);",
        "after 3 tasks: reshape of 'd' [128, 128] to [64, 128] changes the number of elements: 16384 to 8192 ",
    ),
}


@pytest.mark.parametrize("case", REPORTED)
def test_hazards_say_it(case: str, tmp_path: Path) -> None:
    reported = REPORTED[case]
    project = Project(tmp_path)
    project.use_example(reported.artifact)
    project.edit(reported.file, reported.old, reported.new)
    run = project.scons("hazards", f"JIT={reported.artifact}")
    lines = (project.artifact / reported.file).read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if text.strip() == reported.at)
    assert run.status == 2
    at_line = [text for text in run.output.splitlines() if text.startswith(f"{reported.file}:{line}: error: ")]
    assert [text for text in at_line if reported.says in text], run.output
    reported_rules = re.findall(r": error: .* \[(\w+/[\w-]+)\]$", run.output, re.MULTILINE)
    assert reported_rules == (reported.rules.split() or reported_rules[:1])


_SILU, _LANES = "_jit_gemm_silu", "_jit_gemm_silu_lanes"
_MODULE = "ptoas/gemm_silu.pto"


def _moved(text: str, line: str, behind: str) -> str:
    """Return a module with the line that contains ``line`` moved behind the one that contains ``behind``."""
    lines = text.splitlines(keepends=True)
    taken = next(one for one in lines if line in one)
    lines.remove(taken)
    lines.insert(next(number for number, one in enumerate(lines) if behind in one) + 1, taken)
    return "".join(lines)


MODULES: dict[str, tuple[str, Callable[[str], str], str]] = {
    "a tile is used behind its free": (
        _SILU,
        lambda text: _moved(text, "pto.tfree_from_aic", "pto.tpop_from_aic"),
        "uses %product__ssa_v0__Vec after pto.tfree_from_aic, which released its slot",
    ),
    "the ends of a pipe split otherwise": (
        _LANES,
        lambda text: re.sub(r"(tpush_to_aiv.*\{split = )1", r"\g<1>2", text),
        "pipe 0 to_aiv: split=1, but @gemm_silu_aic pushes with split=2",
    ),
}


@pytest.mark.parametrize("case", MODULES)
def test_the_check_and_lint_say_it_of_a_module(case: str, tmp_path: Path) -> None:
    name, edit, says = MODULES[case]
    artifact = copy_example(name, tmp_path)
    module = artifact / _MODULE
    assert check_module(parse_file(str(module)), "a5") == []
    text = module.read_text()
    module.write_text(edit(text))
    assert module.read_text() != text
    assert says in [error.message for error in check_module(parse_file(str(module)), "a5")]
    (finding,) = [one for one in lint(artifact, "a5sim", tmp_path / "out") if one.rule == "lint/pto"]
    assert finding.path == _MODULE and finding.message.endswith(says)


_IN_PLACE = """
import pypto_build.compiler.language as pl

F = pl.Tensor[[32, 64], pl.FP32]
I = pl.Tensor[[32, 64], pl.INT16]


@pl.jit.incore
def four(x: F, k: I, a: pl.Out[F], b: pl.Out[F], c: pl.Out[F], d: pl.Out[I]):
    pl.store(pl.recip(pl.load(x, [0, 0], [32, 64])), [0, 0], a)
    pl.store(1.0 / pl.load(x, [0, 0], [32, 64]), [0, 0], b)
    pl.store(pl.rsqrt(pl.load(x, [0, 0], [32, 64])), [0, 0], c)
    pl.store(pl.load(k, [0, 0], [32, 64]) & 3, [0, 0], d)


@pl.jit
def inplace(x: F, k: I, a: pl.Out[F], b: pl.Out[F], c: pl.Out[F], d: pl.Out[I]):
    four(x, k, a, b, c, d)
"""

_TAIL = """
import pypto_build.compiler.language as pl

M = pl.dynamic("M", 40)


@pl.jit.incore
def product(a: pl.Tensor[[M, 64], pl.FP16], b: pl.Tensor[[64, 64], pl.FP16], c: pl.Out[pl.Tensor[[M, 64], pl.FP32]]):
    x = pl.load(a, [0, 0], [64, 64], valid_shape=[M, 64])
    pl.store(pl.matmul(x, pl.load(b, [0, 0], [64, 64])), [0, 0], c)


@pl.jit
def tail(a: pl.Tensor[[M, 64], pl.FP16], b: pl.Tensor[[64, 64], pl.FP16], c: pl.Out[pl.Tensor[[M, 64], pl.FP32]]):
    product(a, b, c)
"""


def _compiled(program: str, directory: Path) -> Path:
    """Compile a program without its data, and return the artifact."""
    (directory / "program.py").write_text(program)
    words = [str(directory / "program.py"), "--output", str(directory / "_jit"), "--no-golden"]
    subprocess.run([*own_tool("pypto_build.compiler"), *words], check=True, capture_output=True)
    return directory / "_jit"


def _broken(paths: Iterable[Path]) -> list[str]:
    return [rule.message for path in paths for rule in check_kernel(path.read_bytes(), path.name, "a2a3")[0]]


def test_our_compiler_keeps_operands_apart(tmp_path: Path) -> None:
    artifact = _compiled(_IN_PLACE, tmp_path)
    module, kernel = artifact / "ptoas" / "four.pto", artifact / "kernels" / "aiv" / "four.cpp"
    assert check_module(parse_file(str(module)), "a2a3") == [] == _broken([kernel])
    text = kernel.read_text()
    dst, src = re.search(r"TRECIP\((\w+), (\w+)\)", text).groups()  # type: ignore[union-attr]
    address = re.search(rf"TASSIGN\({src}, (\w+)\)", text)[1]  # type: ignore[index]
    kernel.write_text(re.sub(rf"TASSIGN\({dst}, \w+\)", f"TASSIGN({dst}, {address})", text))
    assert len(_broken([kernel])) == 1


def test_our_compiler_makes_accumulators_compact(tmp_path: Path) -> None:
    """An accumulator whose rows only the run knows is read with the stride of its valid rows."""
    module = _compiled(_TAIL, tmp_path) / "ptoas" / "product.pto"
    assert "compact=1" in module.read_text() and check_module(parse_file(str(module)), "a2a3") == []
    module.write_text(module.read_text().replace(", compact=1", ""))
    (error,) = check_module(parse_file(str(module)), "a2a3")
    assert "the accumulator is read with the stride of all its rows" in error.message
