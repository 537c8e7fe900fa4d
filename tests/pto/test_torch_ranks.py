"""Operations between ranks: what the C++ computes that is assembled, and the PyTorch that is translated, against numpy.

One module, so that all of it costs one compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from pypto_build.pto import parse
from pypto_build.pto.checks import check_module
from pypto_build.pto.torch.module import torch_codegen
from tests.pto.harness import COMPILER, Library
from tests.pto.samples import tile

RANKS, ROWS, COLS = 3, 2, 64
OPERATIONS = {
    "tbroadcast": "pto.comm.tbroadcast",
    "tgather": "pto.comm.tgather",
    "tscatter": "pto.comm.tscatter",
    "treduce": "pto.comm.treduce",
}
VALID = "valid_row = %r2 valid_col = %c64"
Array = npt.NDArray[Any]


def view(name: str, pointer: str, rows: int, dtype: str, start: int = 0) -> str:
    """Rows of 64 elements, `start` elements behind a pointer."""
    part = f"!pto.partition_tensor_view<{rows}x{COLS}x{dtype}>"
    kind = f"!pto.tensor_view<?x?x{dtype}>"
    return (
        f"  %{name}_c = arith.constant {start} : index\n"
        f"  %{name}_p = pto.addptr {pointer}, %{name}_c : !pto.ptr<{dtype}> -> !pto.ptr<{dtype}>\n"
        f"  %{name}_v = pto.make_tensor_view %{name}_p, shape = [%r{rows}, %c64], strides = [%c64, %c1] : {kind}\n"
        f"  %{name} = pto.partition_view %{name}_v, offsets = [%c0, %c0], sizes = [%r{rows}, %c64] : {kind} -> {part}\n"
    )


def kernel(name: str, data_rows: int, dtype: str, operation: str, attrs: str = "") -> str:
    """A collective on `data` and one view of a group of three for each rank."""
    part = f"!pto.partition_tensor_view<{ROWS}x{COLS}x{dtype}>"
    data = f"!pto.partition_tensor_view<{data_rows}x{COLS}x{dtype}>"
    stage = tile(rows=ROWS, cols=COLS, dtype=dtype)
    group = "".join(view(f"g{r}", "%group", ROWS, dtype, r * ROWS * COLS) for r in range(RANKS))
    reduces = operation.startswith("treduce")
    types = ", ".join([data, *[stage] * (2 if reduces else 1), *[part] * RANKS])
    return (
        f"  func.func @{name}(%data: !pto.ptr<{dtype}>, %group: !pto.ptr<{dtype}>) "
        "attributes {pto.kernel_kind = #pto.kernel_kind<vector>} {\n"
        "  %c0 = arith.constant 0 : index\n  %c1 = arith.constant 1 : index\n  %c64 = arith.constant 64 : index\n"
        "  %r2 = arith.constant 2 : index\n  %r6 = arith.constant 6 : index\n"
        "  %a0 = arith.constant 0 : i64\n  %a1 = arith.constant 4096 : i64\n"
        + view("d", "%data", data_rows, dtype)
        + group
        + f"  %acc = pto.alloc_tile addr = %a0 {VALID} : {stage}\n"
        f"  %recv = pto.alloc_tile addr = %a1 {VALID} : {stage}\n"
        f"  {OPERATIONS[operation.split('_')[0]]}(%d, {'%acc, ' if reduces else ''}recv(%recv), group(%g0, %g1, %g2) : "
        f"{types}) {{{attrs}root = 0 : i32}}\n  return\n  }}\n"
    )


def _reduced(op: str) -> Callable[[Array, Array], None]:
    def expected(data: Array, group: Array) -> None:
        with np.errstate(over="ignore"):
            data[:] = {"sum": np.add, "max": np.maximum, "min": np.minimum}[op].reduce(group, axis=0)

    return expected


def _broadcast(data: Array, group: Array) -> None:
    group[:] = data


def _gather(data: Array, group: Array) -> None:
    data[:] = group.reshape(data.shape)


def _scatter(data: Array, group: Array) -> None:
    group[:] = data.reshape(group.shape)


CASES: dict[str, tuple[int, str, Callable[[Array, Array], None]]] = {
    "tbroadcast_f32": (ROWS, "", _broadcast),
    "tgather_f16": (ROWS * RANKS, "", _gather),
    "tscatter_i32": (ROWS * RANKS, "", _scatter),
    **{
        f"treduce_{op}_{dtype}": (ROWS, f"reduceOp = #pto<reduce_op {op}>, ", _reduced(op))
        for op, dtype in (("sum", "f32"), ("max", "f16"), ("min", "i32"), ("sum", "i32"))
    },
}
NUMPY = {"f32": np.float32, "f16": np.float16, "i32": np.int32}

_LATER = """\
  %s = pto.comm.build_async_session(%acc, %group : {stage}, !pto.ptr<f32>) {{sync_id = 1 : i32}} -> !pto.async_session
  %e = {name}(%d, %g0, %s : {part}, {part}, !pto.async_session) -> !pto.async_event
  %early = pto.load_scalar %data[%c0] : !pto.ptr<f32> -> f32
  %done = {wait}(%e, %s : !pto.async_event, !pto.async_session) -> i1
  scf.if %done {{
    pto.store_scalar %early, %group[%c128] : !pto.ptr<f32>, f32
  }}
  return
  }}
"""


def word(name: str, wait: str) -> str:
    """Return the name of a function."""
    return f"{name}_{wait}".replace(".", "_")


def later(name: str, wait: str) -> str:
    """A transfer, and what was there before it was waited for."""
    part, stage = f"!pto.partition_tensor_view<{ROWS}x{COLS}xf32>", tile(rows=ROWS, cols=COLS, dtype="f32")
    head = kernel(word(name, wait), ROWS, "f32", "tbroadcast").rpartition("  pto.comm.")[0]
    head = head.replace("  %r2 =", "  %c128 = arith.constant 128 : index\n  %r2 =", 1)
    return head + _LATER.format(part=part, stage=stage, name=name, wait=wait)


_WAYS = [
    ("pto.tput_async", "pto.wait_async_event"),
    ("pto.tget_async", "pto.test_async_event"),
    ("pto.comm.tput_async", "pto.comm.wait_async_event"),
    ("pto.comm.tget_async", "pto.comm.test_async_event"),
]
_FOUR = "!pto.partition_tensor_view<4xi32>"
_SIGNALS = f"""\
  func.func @signals(%s: !pto.ptr<i32>, %out: !pto.ptr<i32>, %v: i32)
      attributes {{pto.kernel_kind = #pto.kernel_kind<vector>}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %view = pto.make_tensor_view %s, shape = [%c4], strides = [%c1] : !pto.tensor_view<?xi32>
  %all = pto.partition_view %view, offsets = [%c0], sizes = [%c4] : !pto.tensor_view<?xi32> -> {_FOUR}
  pto.comm.tnotify(%all, %v : {_FOUR}, i32) {{notifyOp = #pto<notify_op atomic_add>}}
  pto.comm.twait(%all, %v : {_FOUR}, i32) {{cmp = #pto<wait_cmp ge>}}
  %t = pto.comm.ttest(%all, %v : {_FOUR}, i32) {{cmp = #pto<wait_cmp gt>}} -> i1
  %n = arith.extui %t : i1 to i32
  pto.store_scalar %n, %out[%c0] : !pto.ptr<i32>, i32
  pto.comm.tnotify(%all, %v : {_FOUR}, i32) {{notifyOp = #pto<notify_op set>}}
  return
  }}
"""
_MOVES = """\
  func.func @moves(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) attributes {pto.kernel_kind = #pto.kernel_kind<vector>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %r2 = arith.constant 2 : index
  %a0 = arith.constant 0 : i64
""" + (
    view("from", "%x", ROWS, "f32")
    + view("to", "%y", ROWS, "f32")
    + view("back", "%y", ROWS, "f32", ROWS * COLS)
    + f"  %stage = pto.alloc_tile addr = %a0 {VALID} : {tile(rows=ROWS, cols=COLS, dtype='f32')}\n"
    + "".join(
        f"  {name}(%{to}, %{source}, buf(%stage) : {types}){attrs}\n"
        for name, to, source, attrs in (
            ("pto.comm.tput", "to", "from", " {atomicType = #pto<atomic_type atomic_add>}"),
            ("pto.comm.tget", "back", "from", ""),
        )
        for types in [", ".join([*["!pto.partition_tensor_view<2x64xf32>"] * 2, tile(rows=2, cols=64, dtype="f32")])]
    )
    + "  return\n  }\n"
)
TEXT = "\n".join(
    [
        'module attributes {pto.target_arch = "a2a3"} {',
        *(kernel(name, rows, name.rpartition("_")[2], name, attrs) for name, (rows, attrs, _) in CASES.items()),
        *(later(name, wait) for name, wait in _WAYS),
        _SIGNALS,
        _MOVES,
        "}",
        "",
    ]
)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    if COMPILER is None:
        pytest.skip("no C++ compiler")
    yield Library(parse(TEXT), tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="module")
def translated() -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    exec(compile(torch_codegen(parse(TEXT, "ranks.pto")), "ranks.py", "exec"), namespace)
    return namespace


def test_the_module_is_right() -> None:
    assert [str(problem) for problem in check_module(parse(TEXT), "a5")] == []


def _arrays(dtype: str, data_rows: int) -> tuple[Array, Array]:
    random, shape = np.random.default_rng(7), (data_rows + RANKS * ROWS, COLS)
    values: Array = random.integers(-(2**31), 2**31, shape) if dtype == "i32" else random.standard_normal(shape)
    every = values.astype(NUMPY[dtype])
    return every[:data_rows].copy(), every[data_rows:].reshape(RANKS, ROWS, COLS).copy()


@pytest.mark.parametrize("name", CASES)
def test_collectives(kernels: Library, translated: dict[str, Any], name: str) -> None:
    data_rows, _, expected = CASES[name]
    arrays = _arrays(name.rpartition("_")[2], data_rows)
    if "sum_f32" in name:  # in the order of the ranks
        arrays[0][:] = (arrays[1][0] + arrays[1][1]) + arrays[1][2]
    else:
        expected(*arrays)
    actual = _arrays(name.rpartition("_")[2], data_rows)
    kernels.run(name, [*actual])
    tensors = [torch.from_numpy(array) for array in _arrays(name.rpartition("_")[2], data_rows)]
    translated[name](*tensors)
    for one, other, right in zip(actual, tensors, arrays, strict=True):
        np.testing.assert_array_equal(one, right)
        np.testing.assert_array_equal(other.numpy(), right)


@pytest.mark.parametrize(("name", "wait"), _WAYS)
def test_an_asynchronous_transfer_is_there_when_it_was_waited_for(
    kernels: Library, translated: dict[str, Any], name: str, wait: str
) -> None:
    data, group = _arrays("f32", ROWS)
    before, moved = data[0, 0], group[0].copy()
    kernels.run(word(name, wait), [data, group])
    np.testing.assert_array_equal(data, moved)
    assert group[1, 0, 0] == before != moved[0, 0]  # what is read too early is old
    tensors = [torch.from_numpy(array) for array in _arrays("f32", ROWS)]
    translated[word(name, wait)](*tensors)
    np.testing.assert_array_equal(tensors[0].numpy(), moved)


@pytest.mark.parametrize(("before", "more"), [(0, 0), (2, 1)])
def test_signals(kernels: Library, translated: dict[str, Any], before: int, more: int) -> None:
    signal, out = np.full(4, before, np.int32), np.full(1, -1, np.int32)
    kernels.run("signals", [signal, out, 3])
    assert (signal.tolist(), out.tolist()) == ([3] * 4, [more])
    tensors = torch.full((4,), before, dtype=torch.int32), torch.full((1,), -1, dtype=torch.int32)
    translated["signals"](*tensors, 3)
    assert [tensor.tolist() for tensor in tensors] == [[3] * 4, [more]]


def test_a_wait_lets_others_go_on(translated: dict[str, Any]) -> None:
    signal, out = torch.full((4,), -5, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    with pytest.raises(RuntimeError, match=r"waits for a signal ge 3, it is -2, -2, -2, -2; nobody else runs"):
        translated["signals"](signal, out, 3)
    calls: list[int] = []

    def others() -> None:
        calls.append(1)
        signal.add_(1)

    signal.fill_(-5)
    translated["_relax"].append(others)
    try:
        translated["signals"](signal, out, 3)
    finally:
        translated["_relax"].clear()
    assert (len(calls), signal.tolist(), out.tolist()) == (5, [3] * 4, [0])


def test_moves(kernels: Library, translated: dict[str, Any]) -> None:
    x, y = np.arange(128, dtype=np.float32), np.full(256, 0.5, np.float32)
    expected = np.concatenate([x + 0.5, x])
    kernels.run("moves", [x, y])
    np.testing.assert_array_equal(y, expected)
    tensors = torch.arange(128, dtype=torch.float32), torch.full((256,), 0.5)
    translated["moves"](*tensors)
    np.testing.assert_array_equal(tensors[1].numpy(), expected)


_WAIT = "%done = pto.comm.wait_async_event(%e, %s : !pto.async_event, !pto.async_session) -> i1"
_EARLY = "%early = pto.load_scalar"
_TELL = (
    "  %one = arith.constant 1 : i32\n  %ip = pto.castptr %data : !pto.ptr<f32> -> !pto.ptr<i32>\n"
    + view("sig", "%ip", ROWS, "i32")
    + "  pto.comm.tnotify(%sig, %one : !pto.partition_tensor_view<2x64xi32>, i32) {notifyOp = #pto<notify_op set>}\n"
)
#: What is changed in the module, and what the checks say.
WRONG = [
    ("group(%g0, %g1, %g2)", "group(%g0, %g1, %d)", "tgather_f16", "members of a group have one type"),
    ("root = 0 : i32", "root = 3 : i32", "tbroadcast_f32", "root is 3, the group has 3 members"),
    ("buf(%stage)", "buf(%stage, %stage, %stage)", "moves", "takes one tile to pass through, or two, found 3"),
    (_WAIT, "%done = arith.constant true", word(*_WAYS[2]), "nothing waits for its event"),
    (f"  {_EARLY}", _TELL + f"  {_EARLY}", word(*_WAYS[2]), "pto.comm.tnotify may tell of it before"),
    (
        "%v : !pto.partition_tensor_view<4xi32>, i32) {notify",
        "%c1 : !pto.partition_tensor_view<4xi32>, index) {notify",
        "signals",
        "a signal is compared with and set to an i32, found index",
    ),
]


@pytest.mark.parametrize(("old", "new", "function", "message"), WRONG)
def test_checks(old: str, new: str, function: str, message: str) -> None:
    start = TEXT.index(f"@{function}(")
    text = TEXT[:start] + TEXT[start:].replace(old, new, 1)
    if "%stage, %stage" in new:
        kind = tile(rows=2, cols=64, dtype="f32")
        text = text.replace(f"2x64xf32>, {kind}) {{atomicType", f"2x64xf32>, {kind}, {kind}, {kind}) {{atomicType")
    if "%d)" in new:
        first = text.index(new)
        line = text[first : text.index("\n", first)]
        text = text.replace(line, "6x64".join(line.rsplit("2x64", 1)))
    problems = [str(problem) for problem in check_module(parse(text))]
    assert any(message in problem for problem in problems), problems
