"""Assembled kernels, compiled against the project's headers and run: numbers against numpy.

Operations are the cases that the PyTorch reference is held to, whole kernels are written out. Float results are
compared exactly where the operation is exact (or rounds once), else within a few units in the last place.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from pypto_build.pto import parse_file
from pypto_build.pto.checks import check_module
from tests.pto.harness import COMPILER, Library
from tests.pto.torch_case import Use
from tests.pto.torch_operations import uses_of
from tests.pto.torch_run import module_of

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")

TYPES = ("f32", "i16")  # float and integer lanes; the others run as PyTorch
Compiled = tuple[Library, dict[str, Use]]


@pytest.fixture(scope="module", params=TYPES)
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """All cases of the PyTorch reference with one element type."""
    uses = uses_of(request.param)
    text = module_of({name: made.kernel for name, made in uses.items()})
    return Library(text, tmp_path_factory.mktemp(request.param), "a5sim"), uses


def test_operations(compiled: Compiled) -> None:
    """Compiled operations agree with the independent computation that the reference is compared with, too."""
    library, uses = compiled
    for name, made in uses.items():
        library.run(name, [tensor.view(torch.uint8).numpy() for tensor in made.kernel.tensors])
        made.check()


# --- whole kernels ---------------------------------------------------------------------------------------------------

LOCAL = Path(__file__).parent / "modules"


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return Library((LOCAL / "kernels.pto").read_text(), tmp_path_factory.mktemp("kernels"))


@pytest.mark.parametrize("rows", [1, 16, 21])
def test_softmax_with_a_tail(kernels: Library, rows: int) -> None:
    """Loop with a dynamic bound, a tail block, and a column vector that is read again as a row."""
    x = np.random.default_rng(rows).normal(size=(rows, 64)).astype(np.float32)
    out = np.full_like(x, np.nan)
    kernels.run("softmax", [x, out, rows])
    e = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(axis=1, keepdims=True), rtol=3e-6)


def test_matmul_over_k(kernels: Library) -> None:
    """Mat to Left and Right windows, first product set and the others accumulated, half precision in, float out."""
    rng = np.random.default_rng(3)
    a = rng.normal(size=(32, 128)).astype(np.float16)
    b = rng.normal(size=(128, 48)).astype(np.float16)
    c = np.full((32, 48), np.nan, np.float32)
    kernels.run("matmul", [a, b, c])
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5, atol=1e-4)


def test_conversion_in_place(kernels: Library) -> None:
    """f32 to f16 at the same address, back, and the rounding that was asked for."""
    x = np.random.default_rng(5).uniform(-9, 9, (16, 64)).astype(np.float32)
    half = np.full(x.shape, np.nan, np.float16)
    whole = np.zeros(x.shape, np.int32)
    kernels.run("convert", [x, half, whole])
    np.testing.assert_array_equal(half, x.astype(np.float16))
    np.testing.assert_array_equal(whole, np.floor(x).astype(np.int32))


@pytest.mark.parametrize("n", [0, 1, 2, 7, 30])
def test_control_flow(kernels: Library, n: int) -> None:
    """Carried values are swapped at once, a branch yields, a while loop counts down."""
    out = np.zeros(3, np.int32)
    kernels.run("control", [out, n])
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    steps, x = 0, n
    while x > 1:
        x, steps = (x // 2 if x % 2 == 0 else 3 * x + 1), steps + 1
    assert out.tolist() == [a, b, steps]


def test_windows(kernels: Library) -> None:
    """A window of a tile, a reinterpretation, a transposed view, and single elements."""
    x = np.random.default_rng(6).normal(size=(16, 64)).astype(np.float32)
    out, turned, picked = (np.zeros(shape, np.float32) for shape in ((32, 8), (64, 16), (2,)))
    kernels.run("windows", [x, out, turned, picked])
    np.testing.assert_array_equal(out, (x[4:12, 16:48] * 2).reshape(32, 8))
    np.testing.assert_array_equal(turned, x.T)
    np.testing.assert_array_equal(picked, [x[0, 3], x[1, 0]])


def test_the_kernels_pass_the_checks() -> None:
    """`windows` stores rows as columns, which a device does not do."""
    (finding,) = check_module(parse_file(LOCAL / "kernels.pto"))
    assert str(finding).endswith("rows do not become columns on the way") and finding.position.line == 161
