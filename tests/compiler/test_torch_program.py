"""Programs as PyTorch: what every operation of a kernel and of an orchestration computes, and what the text is like.

Against torch on the whole tensors: exact, but for products and exponentials, which are within 1e-5.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pypto_build.compiler import build_program
from pypto_build.compiler.torch_program import translated, typed_program
from pypto_build.pto.torch import torch_codegen
from tests.compiler.programs import kernel, load

PARAMETERS = "x: M, y: M, out: pl.Out[M]"
X, Y = "a = pl.load(x, [0, 0], [64, 64])\n", "b = pl.load(y, [0, 0], [64, 64])\n"
STORE = "pl.store(r, [0, 0], out)"
Expected = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def text_of(tmp_path: Path, body: str, *, check_shapes: bool = False) -> str:
    return torch_codegen(typed_program(build_program(load(tmp_path, body))), check_shapes=check_shapes)


def executed(text: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    return namespace


def matrices() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(42)
    return torch.randn(64, 64, generator=generator), torch.randn(64, 64, generator=generator)


def result_of(tmp_path: Path, lines: str, parameters: str = PARAMETERS) -> torch.Tensor:
    """Return the content of out after a kernel with these lines, on x, y and out."""
    namespace = executed(text_of(tmp_path, kernel(lines, parameters, "x, y, out")))
    out = torch.zeros(64, 64)
    namespace["run"](*matrices(), out)
    return out


def test_a_kernel_does_not_replace_a_helper(tmp_path: Path) -> None:
    """A product calls the helper `multiply`, so a kernel of that name is called otherwise; `accumulate` stays."""
    body = kernel(X + Y + "r = pl.matmul(a, b)\n" + STORE, PARAMETERS, "x, y, out")
    for name, called in (("multiply", "multiply_1"), ("accumulate", "accumulate")):
        text = body.replace("def k(", f"def {name}(").replace("    k(", f"    {name}(")
        translation = translated(typed_program(build_program(load(tmp_path, text))))
        assert translation.names == {name: called, "main": "main"}
        x, y = matrices()
        out = torch.zeros(64, 64)
        executed(translation.text)["run"](x, y, out)
        torch.testing.assert_close(out, x @ y, rtol=1e-5, atol=1e-5)
        (line,) = [n for n, line in enumerate(translation.text.splitlines(), 1) if line.startswith(f"    {called}(")]
        assert translation.places[line].line == text.splitlines().index(f"    {name}(x, y, out)") + 3


KERNELS: dict[str, tuple[str, Expected]] = {
    "add": ("r = a + b", lambda x, y: x + y),
    "scalar add": ("r = a + 2.5", lambda x, y: x + 2.5),
    "compute": ("r = pl.maximum(a * b - a, b) / (pl.abs(b) + 1.0)",
                lambda x, y: torch.maximum(x * y - x, y) / (y.abs() + 1.0)),
    "unary": ("r = pl.exp(-a) + pl.sqrt(pl.abs(b)) + pl.relu(a)",
              lambda x, y: torch.exp(-x) + y.abs().sqrt() + x.relu()),
    "roots": ("r = pl.rsqrt(pl.abs(a) + 1.0) * pl.recip(pl.abs(b) + 1.0) + pl.log(pl.abs(a) + 2.0)",
              lambda x, y: torch.rsqrt(x.abs() + 1) * (1 / (y.abs() + 1)) + torch.log(x.abs() + 2)),
    "row reductions": ("r = pl.row_expand(a, pl.row_sum(a) + pl.row_max(b) - pl.row_min(a))",
                       lambda x, y: (x.sum(1, True) + y.amax(1, True) - x.amin(1, True)).expand(64, 64)),
    "column reductions": ("r = pl.col_expand(a, pl.col_sum(a) + pl.col_max(b))",
                          lambda x, y: (x.sum(0, True) + y.amax(0, True)).expand(64, 64)),
    "broadcasts": ("r = pl.col_expand_mul(pl.row_expand_sub(a, pl.row_max(a)), pl.col_min(b))",
                   lambda x, y: (x - x.amax(1, True)) * y.amin(0, True)),
    "transpose": ("r = pl.transpose(a) + b", lambda x, y: x.T + y),
    "reshape": ("r = pl.row_expand_add(b, pl.reshape(pl.reshape(pl.row_sum(a), [1, 64]), [64, 1]))",
                lambda x, y: y + x.sum(1, True)),
    "product with a transposed operand": ("r = pl.matmul(a, pl.transpose(b))", lambda x, y: x @ y.T),
    "accumulated product": ("r = pl.matmul_acc(pl.matmul(a, b), a, b)", lambda x, y: 2 * (x @ y)),
    "16-bit products are summed in float32": (
        "r = pl.matmul(pl.cast(a, pl.BF16), pl.cast(b, pl.BF16))",
        lambda x, y: (x.bfloat16().double() @ y.bfloat16().double()).float(),
    ),
    "cast": ("r = pl.cast(pl.cast(a, pl.BF16), pl.FP32)", lambda x, y: x.bfloat16().float()),
    "cast with a mode": ("r = pl.cast(pl.cast(a * 10.0, pl.INT32, mode='floor'), pl.FP32)",
                         lambda x, y: torch.floor(x * 10)),
    "bits": ("i = pl.cast(a * 100.0, pl.INT16, mode='trunc')\nj = pl.cast(b * 100.0, pl.INT16, mode='trunc')\n"
             "r = pl.cast(pl.cast((i & j) | (i << 1), pl.FP16), pl.FP32)",
             lambda x, y: (((x * 100).short() & (y * 100).short()) | ((x * 100).short() << 1)).half().float()),
    "integers keep their width": (
        "i = pl.cast(a * 100.0, pl.INT16, mode='trunc')\n"
        "r = pl.cast(pl.cast(pl.row_expand(i, pl.row_sum(i * 300)), pl.INT32), pl.FP32)",
        lambda x, y: ((x * 100).short() * 300).sum(1, True).short().expand(64, 64).float()),
    "comparison and selection": ("r = pl.select(pl.cmp(a, b, 'gt'), a, b * 2.0)",
                                 lambda x, y: torch.where(x > y, x, y * 2)),
    "concat and extract": ("r = pl.concat(pl.extract(a, [0, 32], [64, 32]), pl.extract(b, [0, 0], [64, 32]))",
                           lambda x, y: torch.cat((x[:, 32:], y[:, :32]), 1)),
    "full": ("r = pl.full([64, 64], 0.5, pl.FP32) + a", lambda x, y: x + 0.5),
    "nested calls": ("r = pl.exp(pl.row_expand_sub(pl.load(x, [0, 0], [64, 64]), pl.row_max(a)))",
                     lambda x, y: torch.exp(x - x.amax(1, True))),
    "valid part": ("c = pl.load(x, [0, 0], [64, 64], valid_shape=[64, 40])\nr = pl.fillpad(c, 'zero')",
                   lambda x, y: torch.nn.functional.pad(x[:, :40], (0, 24))),
    "padding with the lowest": ("c = pl.load(x, [0, 0], [64, 64], valid_shape=[64, 40])\n"
                                "r = pl.row_expand(a, pl.row_max(pl.fillpad(c - 100.0, 'min')))",
                                lambda x, y: (x[:, :40] - 100).amax(1, True).expand(64, 64)),
    "loop": ("r = a\nfor i in pl.range(5):\n    r = r + b", lambda x, y: x + y + y + y + y + y),
    "loop with steps": ("r = a\nfor i in pl.range(2, 10, 3):\n    r = r + pl.cast(i, pl.FP32)",
                        lambda x, y: x + 2 + 5 + 8),
    "exchange in a loop": ("for i in pl.range(3):\n    a, b = b, a\nr = a * 2.0 + b", lambda x, y: y * 2 + x),
    "branch": ("if pl.read(x, [0, 0]) > pl.read(y, [0, 0]):\n    r = a\nelse:\n    r = b",
               lambda x, y: x if x[0, 0] > y[0, 0] else y),
    "branch without else": ("r = a\nif pl.read(x, [0, 0]) < 100.0:\n    r = b", lambda x, y: y),
    "numbers": ("n = pl.min(7, 9) * 3 // 2 + 17 % 5\nr = a + pl.cast(n, pl.FP32)", lambda x, y: x + 12),
    "windows": ("pl.store(b, [0, 0], out)\nr = pl.load(x, [16, 32], [32, 32])\npl.store(r, [0, 16], out)\nr = a",
                lambda x, y: x),
    "added to what is there": (
        "pl.store(b, [0, 0], out)\npl.store(a, [0, 0], out, atomic='add')\nr = pl.load(out, [0, 0], [64, 64])",
        lambda x, y: x + y,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_kernel(name: str, tmp_path: Path) -> None:
    lines, expected = KERNELS[name]
    parameters = PARAMETERS.replace("pl.Out", "pl.InOut") if "load(out" in lines else PARAMETERS
    result = result_of(tmp_path, f"{X}{Y}{lines}\n{STORE}", parameters)
    torch.testing.assert_close(result, expected(*matrices()), rtol=1e-5, atol=1e-5)


def test_while_loops(tmp_path: Path) -> None:
    body = SCALE.format(name="twice", op="* 2.0") + "@pl.jit\ndef main(x: M, out: pl.InOut[M]):\n    n = 0\n"
    body += "    while n < 3:\n        twice(out, out)\n        n = n + 1\n"
    x, out = matrices()
    executed(text_of(tmp_path, body))["run"](x, out)
    assert torch.equal(out, matrices()[1] * 8)


SCALE = (
    "@pl.jit.incore\ndef {name}(x: M, out: pl.Out[M]):\n    pl.store(pl.load(x, [0, 0], [64, 64]) {op}, [0, 0], out)\n"
)


def test_kernels_come_before_what_calls_them(tmp_path: Path) -> None:
    body = SCALE.format(name="twice", op="* 2.0") + SCALE.format(name="more", op="+ 1.0")
    body += "@pl.jit\ndef main(x: M, out: pl.Out[M]):\n    t = pl.create_tensor([64, 64], pl.FP32)\n"
    text = text_of(tmp_path, body + "    twice(x, t)\n    more(t, out)\n")
    names = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    assert names[-4:] == ["twice", "more", "main", "run"]
    assert "# Entry point\ndef run(x, out):\n    return main(x, out)\n" in text
    x, out = matrices()[0], torch.zeros(64, 64)
    executed(text)["run"](x, out)
    assert torch.equal(out, x * 2 + 1)


def test_a_program_called_run_is_the_entry_itself(tmp_path: Path) -> None:
    body = SCALE.format(name="twice", op="* 2.0")
    text = text_of(tmp_path, body + "@pl.jit\ndef run(x: M, out: pl.Out[M]):\n    twice(x, out)\n")
    assert text.count("def run(") == 1
    assert "# Entry point" not in text


def test_slices_share_the_tensor_and_elements_are_written(tmp_path: Path) -> None:
    body = (
        "H = pl.Tensor[[32, 64], pl.FP32]\n@pl.jit.incore\ndef twice(x: H, out: pl.Out[H]):\n"
        "    pl.store(pl.load(x, [0, 0], [32, 64]) * 2.0, [0, 0], out)\n"
        "@pl.jit\ndef main(x: M, out: pl.InOut[M]):\n    for row in pl.range(0, 64, 32):\n"
        "        twice(pl.slice(x, [32, 64], [row, 0]), pl.slice(out, [32, 64], [row, 0]))\n"
    )
    x, out = matrices()[0], torch.zeros(64, 64)
    executed(text_of(tmp_path, body))["run"](x, out)
    assert torch.equal(out, x * 2)


def test_blocks_of_a_launch(tmp_path: Path) -> None:
    body = (
        "@pl.jit.incore\ndef fill(out: pl.Out[M]):\n    block = pl.get_block_idx()\n"
        "    value = pl.cast(block * 10 + pl.get_block_num(), pl.FP32)\n"
        "    pl.store(pl.full([16, 64], 0.0, pl.FP32) + value, [block * 16, 0], out)\n"
        "@pl.jit\ndef main(out: pl.Out[M]):\n    fill[4](out)\n"
    )
    out = torch.zeros(64, 64)
    executed(text_of(tmp_path, body))["run"](out)
    assert out[::16, 0].tolist() == [4.0, 14.0, 24.0, 34.0]


def test_dynamic_extents_are_named_once(tmp_path: Path) -> None:
    body = (
        "N = pl.dynamic('N', 64)\nD = pl.Tensor[[N, 64], pl.FP32]\n@pl.jit.incore\ndef twice(x: D, out: pl.Out[D]):\n"
        "    for row in pl.range(0, pl.dim(x, 0), 16):\n"
        "        pl.store(pl.load(x, [row, 0], [16, 64]) * 2.0, [row, 0], out)\n"
        "@pl.jit\ndef main(x: D, out: pl.Out[D]):\n    twice(x, out)\n"
    )
    x, out = torch.randn(48, 64), torch.zeros(48, 64)
    text = text_of(tmp_path, body)
    executed(text)["run"](x, out)
    assert torch.equal(out, x * 2)


def test_check_shapes_names_what_differs(tmp_path: Path) -> None:
    body = SCALE.format(name="twice", op="* 2.0") + "@pl.jit\ndef main(x: M, out: pl.Out[M]):\n    twice(x, out)\n"
    run = executed(text_of(tmp_path, body, check_shapes=True))["run"]
    good = torch.zeros(64, 64)
    run(good, good.clone())
    for wrong, message in (
        (3, "Expected x to be a Tensor"),
        (good.half(), "Dtype mismatch for x: torch.float16"),
        (good[0], "Rank mismatch for x: 1"),
        (good[:32], r"Dim 0 mismatch for x: torch.Size\(\[32, 64\]\)"),
    ):
        with pytest.raises(AssertionError, match=f"^{message}$"):
            run(wrong, good)


def test_places_are_comments(tmp_path: Path) -> None:
    text = text_of(tmp_path, kernel(f"{X}{Y}r = a + b\n{STORE}", PARAMETERS, "x, y, out"))
    assert f"    r = a + b  # {tmp_path / 'program.py'}:7\n" in text


def test_a_kernel_that_is_called_run(tmp_path: Path) -> None:
    """It keeps its name, so the entry has no second one: that would be called by itself without end."""
    body = """
M = pl.Tensor[[64, 64], pl.FP32]

@pl.jit.incore
def run(x: M, out: pl.Out[M]):
    a = pl.load(x, [0, 0], [64, 64])
    pl.store(a + a, [0, 0], out)

@pl.jit
def twice(x: M, out: pl.Out[M]):
    run(x, out)
"""
    text = text_of(tmp_path, body)
    assert text.endswith("# Entry point: twice; run is one of the program's own\n")
    x, out = matrices()
    executed(text)["twice"](x, out)
    assert torch.equal(out, x + x)
