"""Assembled kernels, compiled against the project's headers and run: numbers against numpy.

Element-wise families are generated from the table of operations, whole kernels are written out. Float results are
compared exactly where the operation is exact (or rounds once), else within a few units in the last place.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from pypto_build.pto import parse_file
from pypto_build.pto.checks import check_module
from pypto_build.pto.ops import TABLE
from tests.pto.harness import COMPILER, Library
from tests.pto.samples import tile

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")

F32 = npt.NDArray[np.float32]
R, C, V = 16, 64, 40  # rows, columns of the tiles; valid columns
T, COLUMN, ROW = tile(rows=R, cols=C), tile(rows=R, cols=1, blayout="col_major"), tile(rows=1, cols=C)
VIEW, PART = "!pto.tensor_view<?x?xf32>", "!pto.partition_tensor_view<?x?xf32>"

Reference = Callable[..., npt.NDArray[np.floating]]
BINARY: dict[str, Reference] = {
    "pto.tadd": np.add, "pto.tsub": np.subtract, "pto.tmul": np.multiply, "pto.tdiv": np.divide,
    "pto.tmax": np.maximum, "pto.tmin": np.minimum,
}  # fmt: skip
SCALAR: dict[str, Reference] = {
    "pto.tadds": np.add, "pto.tsubs": np.subtract, "pto.tmuls": np.multiply, "pto.tmaxs": np.maximum,
    "pto.tmins": np.minimum, "pto.tdivs": np.divide,
}  # fmt: skip
UNARY: dict[str, Reference] = {
    "pto.tabs": np.abs, "pto.tneg": np.negative, "pto.texp": np.exp, "pto.tlog": lambda x: np.log(np.abs(x)),
    "pto.tsqrt": lambda x: np.sqrt(np.abs(x)), "pto.trecip": lambda x: np.float32(1) / x,
    "pto.trelu": lambda x: np.maximum(x, 0), "pto.trsqrt": lambda x: np.float32(1) / np.sqrt(np.abs(x)),
}  # fmt: skip
REDUCE: dict[str, Reference] = {
    f"pto.t{axis}{name}": (lambda x, f=function, a=number: f(x, axis=a, keepdims=True))
    for number, axis in ((1, "row"), (0, "col"))
    for name, function in (("sum", np.sum), ("max", np.max), ("min", np.min))
}
EXPAND: dict[str, Reference] = {
    f"pto.t{axis}expand{name}": function
    for axis in ("row", "col")
    for name, function in (
        ("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide), ("max", np.maximum),
        ("min", np.minimum), ("expdif", lambda a, b: np.exp(a - b)),
    )
}  # fmt: skip
NEEDS_POSITIVE = {"pto.tlog", "pto.tsqrt", "pto.trsqrt"}

CONSTANTS = """\
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = arith.constant 16 : index
  %v = arith.constant 40 : index
  %c = arith.constant 64 : index
  %a0 = arith.constant 0 : i64
  %a1 = arith.constant 4096 : i64
  %a2 = arith.constant 8192 : i64
  %a3 = arith.constant 12288 : i64
"""


def view(name: str, pointer: str, rows: str, cols: str) -> str:
    """A row-major matrix at `pointer`, all of it."""
    return (
        f"  %{name}_v = pto.make_tensor_view {pointer}, shape = [{rows}, {cols}], strides = [{cols}, %c1] : {VIEW}\n"
        f"  %{name}_p = pto.partition_view %{name}_v, offsets = [%c0, %c0], sizes = [{rows}, {cols}] : "
        f"{VIEW} -> {PART}\n"
    )


def alloc(name: str, type_: str, address: str, rows: str, cols: str) -> str:
    return f"  %{name} = pto.alloc_tile addr = {address} valid_row = {rows} valid_col = {cols} : {type_}\n"


def load(name: str, type_: str) -> str:
    return f"  pto.tload ins(%{name}_p : {PART}) outs(%{name} : {type_})\n"


def kernel(op: str) -> str:
    """`out = op(x[, y or s])`, for one operation."""
    definition = TABLE[op]
    row, narrow_rows, narrow_cols = "row" in op, "%r", "%v"
    out_type, y_type = T, T
    if definition.family in ("rowreduce", "colreduce"):
        out_type = COLUMN if row else ROW
        narrow_rows, narrow_cols = ("%r", "%c1") if row else ("%c1", "%v")
    y_rows, y_cols = "%r", "%v"
    if op in EXPAND:
        y_type, y_rows, y_cols = (COLUMN, "%r", "%c1") if row else (ROW, "%c1", "%v")
    text = view("x", "%px", "%r", "%v") + view("y", "%py", y_rows, y_cols) + view("o", "%po", narrow_rows, narrow_cols)
    text += alloc("x", T, "%a0", "%r", "%v") + alloc("y", y_type, "%a1", y_rows, y_cols)
    text += alloc("o", out_type, "%a2", narrow_rows, narrow_cols) + alloc("t", T, "%a3", "%r", "%v")
    text += load("x", T) + load("y", y_type)
    roles = [role.name for role in definition.forms[0].ins]
    values = {"src": ("%x", T), "src0": ("%x", T), "src1": ("%y", y_type), "scalar": ("%s", "f32"), "tmp": ("%t", T)}
    names, types = zip(*(values[role] for role in roles), strict=True)
    text += f"  {op} ins({', '.join(names)} : {', '.join(types)}) outs(%o : {out_type})\n"
    text += f"  pto.tstore ins(%o : {out_type}) outs(%o_p : {PART})\n"
    args = "%px: !pto.ptr<f32>, %py: !pto.ptr<f32>, %po: !pto.ptr<f32>, %s: f32"
    kind = "attributes {pto.kernel_kind = #pto.kernel_kind<vector>}"
    return f"func.func @{op[4:]}({args}) {kind} {{\n{CONSTANTS}{text}  return\n}}\n"


OPERATIONS = [*BINARY, *SCALAR, *UNARY, *REDUCE, *EXPAND]


@pytest.fixture(scope="module")
def elementwise(tmp_path_factory: pytest.TempPathFactory) -> Library:
    text = 'module attributes {pto.target_arch = "a2a3"} {\n' + "".join(map(kernel, OPERATIONS)) + "}\n"
    return Library(text, tmp_path_factory.mktemp("elementwise"))


@pytest.mark.parametrize("op", OPERATIONS)
def test_operation(elementwise: Library, op: str) -> None:
    rng = np.random.default_rng(len(op))
    x = rng.uniform(-4, 4, (R, V)).astype(np.float32)
    x = np.abs(x) + np.float32(0.125) if op in NEEDS_POSITIVE else x
    y_shape = (R, V) if op not in EXPAND else (R, 1) if "row" in op else (1, V)
    y = rng.uniform(0.5, 4, y_shape).astype(np.float32)
    scalar = 1.75
    if op in BINARY or op in EXPAND:
        expected = (BINARY | EXPAND)[op](x, y)
    elif op in SCALAR:
        expected = SCALAR[op](x, np.float32(scalar))
    else:
        expected = (UNARY | REDUCE)[op](x)
    out = np.full(expected.shape, np.nan, np.float32)
    elementwise.run(op[4:], [x, y, out, scalar])
    exact = op in BINARY or op in SCALAR or op in ("pto.tabs", "pto.tneg", "pto.trelu", "pto.trecip", "pto.tsqrt")
    np.testing.assert_allclose(out, expected, rtol=0 if exact else 2e-6, atol=0 if exact else 1e-6)


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
    assert check_module(parse_file(LOCAL / "kernels.pto")) == []
