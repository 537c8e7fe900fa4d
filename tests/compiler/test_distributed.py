"""Programs for several chips: the driver and the metadata, what kernels say between ranks, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pypto_build.compiler import CompileError, compile_file
from pypto_build.compiler.driver import compile_host
from pypto_build.compiler.load import entries_of, load_module
from pypto_build.compiler.splice_files import passed_values
from pypto_build.pto import parse
from pypto_build.pto.wrapper import ENTRY_SENTINEL, Payload, plan_arguments, refit_arguments
from tests.compiler.programs import lines_of

EXAMPLES = Path(__file__).parents[2] / "examples" / "distributed"
HEAD = """\
import pypto_build.compiler.language as pl
import pypto_build.compiler.language.distributed as pld
R = pl.Tensor[[1, 64], pl.FP32]
W = pld.DistributedTensor[[1, 64], pl.FP32]
S = pld.DistributedTensor[[2, 1], pl.INT32]
"""
#: A kernel in lines 6 and on, a chip program and a host program; what each test changes of them.
KERNEL = """\
@pl.jit.incore
def k(x: R, y: pl.Out[R], w: W, s: S):
    me = pld.rank(pld.get_comm_ctx(w))
    {}
    pl.store(pl.load(x, [0, 0], [1, 64]), [0, 0], y)
@pl.jit
def chip(x: R, y: pl.Out[R], w: W, s: S):
    k(x, y, w, s)
"""
HOST = """\
@pl.jit.host(ranks=2)
def program(x: pl.Tensor[[2, 1, 64], pl.FP32], y: pl.Out[pl.Tensor[[2, 1, 64], pl.FP32]]):
    w_buf = pld.alloc_window_buffer([1, 64], dtype=pl.FP32)
    s_buf = pld.alloc_window_buffer([2, 1], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        w = pld.window(w_buf, [1, 64], dtype=pl.FP32)
        s = pld.window(s_buf, [2, 1], dtype=pl.INT32)
        {}
"""
CALL = "chip(x[r], y[r], w, s, device=r)"
NOTIFY = "pld.system.notify(s, peer=1 - me, offsets=[me, 0], value=1, op=pld.NotifyOp.AtomicAdd)"


def compiled(tmp_path: Path, kernel: str = NOTIFY, call: str = CALL, host: str = HOST) -> dict[str, str]:
    """The files of the program."""
    path = tmp_path / "program.py"
    path.write_text(HEAD + KERNEL.format(kernel) + host.format(call))
    return compile_host(entries_of(load_module(str(path)))[0], tmp_path / "out", "a2a3sim")


def pto(files: dict[str, str]) -> str:
    return files["next_levels/chip/ptoas/k.pto"]


def test_the_driver(tmp_path: Path) -> None:
    files = compiled(tmp_path)
    assert (
        files["orchestration/host_orch.py"].partition("def _alloc_intermediates")[2]
        == """\
(tensors, world_size=1):
    tensors["__comm_d0_ord"] = [
        torch.zeros((1,), dtype=torch.int32).share_memory_() for _ in range(max(world_size, 1))
    ]


def program(orch, _args, config, *, tensors, callables, sub_ids, _keep, world_size, _domain_provider=None):
    with (_domain_provider or orch.allocate_domain)(
        name="comm_d0",
        workers=[*range(world_size)],
        window_size=(256) + (32),
        buffers=[
            CommBufferSpec(name="w_buf", dtype="float32", count=64, nbytes=256),
            CommBufferSpec(name="s_buf", dtype="int32", count=2, nbytes=8),
        ],
    ) as __comm_d0:
        for r in range(0, world_size, 1):
            _ta_0 = TaskArgs()
            _ta_0.add_tensor(make_tensor_arg(orch._worker, tensors["x"][r, 0:1, 0:64]), TensorArgType.INPUT)
            _ta_0.add_tensor(make_tensor_arg(orch._worker, tensors["y"][r, 0:1, 0:64]), TensorArgType.OUTPUT_EXISTING)
            _ta_0.add_tensor(__comm_d0[r].buffers["w_buf"].tensor(shapes=(1, 64), dtype=DataType.FLOAT32), \
TensorArgType.INPUT)
            _ta_0.add_tensor(__comm_d0[r].buffers["s_buf"].tensor(shapes=(2, 1), dtype=DataType.INT32), \
TensorArgType.INOUT)
            _ta_0.add_tensor(make_tensor_arg(orch._worker, tensors["__comm_d0_ord"][r]), TensorArgType.INOUT)
            _ta_0.add_scalar(__comm_d0[r].device_ctx)
            _ta_0.add_scalar(__comm_d0[r].device_ctx)
            _keep.append(_ta_0)
            _submit_chip(orch, callables["chip"], _ta_0, config, r)


program._pypto_distributed_entry = True
"""
    )
    meta = json.loads(files["distributed_meta.json"])
    assert (meta["schema"], meta["distributed_config"]["device_ids"]) == (2, [0, 1])
    assert meta["params"][1] == {"name": "y", "direction": "Out", "shape": [2, 1, 64], "dtype": "fp32"}
    assert sorted(path for path in files if "next_levels" not in path) == [
        "distributed_meta.json", "orchestration/host_orch.py",
    ]  # fmt: skip


def test_contexts_come_behind_numbers(tmp_path: Path) -> None:
    files = compiled(tmp_path)
    orchestration = files["next_levels/chip/orchestration/chip.cpp"]
    assert ".expected_arg_count = 6," in orchestration
    assert lines_of(orchestration, "params_t0.add_inout", "rt_submit")[:4] == [
        "params_t0.add_inout(ext_s);",
        "params_t0.add_scalar(ext_w_ctx);",
        "params_t0.add_scalar(ext_s_ctx);",
        "rt_submit_aiv_task(0, params_t0);",
    ]
    wrapper = files["next_levels/chip/kernels/aiv/k.cpp"]
    assert "__gm__ int64_t* s__ssa_v0__ctx = reinterpret_cast<__gm__ int64_t*>(args[5]);" in wrapper
    assert "%arg4: !pto.ptr<i64>, %arg5: !pto.ptr<i64>)" in pto(files)
    assert '"signature": [_D.IN, _D.OUT, _D.IN, _D.INOUT]' in files["next_levels/chip/kernel_config.py"]


def _operations(text: str) -> list[str]:
    """The names of what a module does to windows."""
    words = ("comm", "cmo", "fence", "barrier", "tload", "tstore")
    names = (line.strip().partition(" ")[0].partition("(")[0].removeprefix("pto.") for line in text.splitlines())
    return [name for name in names if name.partition(".")[0] in words]


@pytest.mark.parametrize(
    ("line", "written"),
    [
        (NOTIFY, ["barrier", "comm.tnotify"]),
        ("pld.system.wait(s, offsets=[me, 0], expected=1, cmp=pld.WaitCmp.Ge)", ["comm.twait", "cmo.cacheinvalid"]),
        (
            "pl.store(pl.load(x, [0, 0], [1, 64]), [0, 0], w)",
            ["tload", "tstore", "cmo.cacheinvalid", "fence.barrier_all"],
        ),
        (
            "pld.tile.remote_store(pl.load(x, [0, 0], [1, 64]), w, peer=1, offsets=[0, 0], atomic=pld.AtomicType.Add)",
            ["tload", "tstore", "cmo.cacheinvalid", "fence.barrier_all"],
        ),
        (
            "pld.tensor.put(w, peer=0, src=x)",
            ["barrier", "comm.tput", "barrier", "cmo.cacheinvalid", "fence.barrier_all"],
        ),
        ("pld.tensor.get(y, peer=0, src=w)", ["barrier", "comm.tget", "barrier"]),
    ],
)  # fmt: skip
def test_what_is_written_is_published_before_a_signal(tmp_path: Path, line: str, written: list[str]) -> None:
    """And behind a wait nothing is read that was cached before."""
    assert _operations(pto(compiled(tmp_path, line))) == [*written, "tload", "tstore"]


def test_the_place_on_another_rank(tmp_path: Path) -> None:
    text = pto(compiled(tmp_path, NOTIFY))
    lines = lines_of(text, "pto.load_scalar %arg5[%c2_index]", "pto.comm.tnotify")
    plain = [line.partition(" loc(")[0] for line in lines]
    assert [line.partition(" = ")[2] or line for line in plain[:-1]] == [
        "pto.load_scalar %arg5[%c2_index] : !pto.ptr<i64> -> i64",
        "arith.trunci %3 : i64 to i32",
        "arith.index_cast %4 : i32 to index",
        "arith.addi %c4_index, %5 : index",
        "pto.load_scalar %arg5[%6] : !pto.ptr<i64> -> i64",
        "arith.addi %c4_index, %tmp1__ssa_v0 : index",
        "pto.load_scalar %arg5[%8] : !pto.ptr<i64> -> i64",
        "arith.subi %9, %7 : i64",
        "arith.divsi %10, %c4_i64 : i64",
        "arith.index_cast %11 : i64 to index",
        "pto.addptr %arg3, %12 : !pto.ptr<i32> -> !pto.ptr<i32>",
        "pto.make_tensor_view %13, shape = [%c2_index, %c1_index], strides = [%c1_index, %c2_index] "
        "{layout = #pto.layout<dn>} : !pto.tensor_view<?x?xi32>",
        "pto.partition_view %14, offsets = [%2, %c0_index], sizes = [%c1_index, %c1_index] : "
        "!pto.tensor_view<?x?xi32> -> !pto.partition_tensor_view<1x1xi32>",
        "pto.barrier <PIPE_ALL>",
    ]


def test_stores_mean_their_tensor_and_results_may_be_returned(tmp_path: Path) -> None:
    """As PyPTO's programs are written."""
    path = tmp_path / "program.py"
    end = "    y = pl.store(pl.load(w, [0, 0], [1, 64]), [0, 0], y)\n    return y\n"
    kernel = KERNEL.format("w = pl.store(pl.load(x, [0, 0], [1, 64]), [0, 0], w)\n    s = pld.tensor.barrier(s)")
    kernel = kernel.replace("    pl.store(pl.load(x, [0, 0], [1, 64]), [0, 0], y)\n", end).replace(
        "    k(x", "    return k(x"
    )
    path.write_text(HEAD + kernel + HOST.format(CALL))
    text = pto(compile_host(entries_of(load_module(str(path)))[0], tmp_path / "out", "a2a3sim"))
    assert (text.count("pto.tstore"), text.count("pto.comm.twait"), text.count("pto.comm.tnotify")) == (2, 1, 2)


def test_a_tensor_is_loaded_before_it_is_stored_on_another_rank(tmp_path: Path) -> None:
    """`pld.remote_store` takes tensors and tiles; what the two forms become does not differ."""
    by_tile = pto(compiled(tmp_path, "pld.tile.remote_store(pl.load(x, [0, 0], [1, 64]), w, 1 - me, [0, 0])"))
    for call in ("pld.tensor.remote_store(x, w, 1 - me, [0, 0])", "pld.remote_store(x, w, 1 - me, [0, 0])"):
        lines = [line.partition("loc(")[0] for line in pto(compiled(tmp_path, call)).splitlines()]
        assert [line.split()[0] for line in lines if ".tload" in line or ".tstore" in line] == [
            "pto.tload", "pto.tstore", "pto.tload", "pto.tstore",
        ]  # fmt: skip
        assert len(lines) == len(by_tile.splitlines())


def test_ranks_that_share_windows(tmp_path: Path) -> None:
    """Buffers go to the domain of the ranks that get windows of them."""
    host = """\
@pl.jit.host(ranks=3)
def program(x: pl.Tensor[[3, 1, 64], pl.FP32], y: pl.Out[pl.Tensor[[3, 1, 64], pl.FP32]]):
    all_buf = pld.alloc_window_buffer([1, 64], dtype=pl.FP32)
    s_buf = pld.alloc_window_buffer(8)
    part_buf = pld.alloc_window_buffer([1, 64], dtype=pl.FP32)
    t_buf = pld.alloc_window_buffer([2, 1], dtype=pl.INT32)
    made = pl.create_tensor([1, 64], pl.FP32)
    for r in pl.range(pld.world_size()):
        w = pld.window(all_buf, [1, 64], dtype=pl.FP32)
        chip(x[r], y[r], w, pld.window(s_buf, [2, 1], dtype=pl.INT32), device=r)
    for r in pl.range(2):
        w = pld.window(part_buf, [1, 64], dtype=pl.FP32)
        chip(x[r], made, w, pld.window(t_buf, [2, 1], dtype=pl.INT32), device=r)
    {}
"""
    driver = compiled(tmp_path, call="pass", host=host)["orchestration/host_orch.py"]
    assert 'tensors["made"] = torch.zeros((1, 64), dtype=torch.float32).share_memory_()' in driver
    inner = lines_of(driver, 'name="comm_d1"', "as __comm_d1")
    assert inner[1:3] == ["workers=[0, 1],", "window_size=(256) + (32),"]
    assert 'CommBufferSpec(name="s_buf", dtype="uint8", count=8, nbytes=8),' in driver
    assert 'make_tensor_arg(orch._worker, tensors["made"]), TensorArgType.OUTPUT_EXISTING' in driver
    assert 'tensors["__comm_d1_ord"][r]' in driver


def test_numbers_and_conditions_of_the_host(tmp_path: Path) -> None:
    host = """\
M = pl.dynamic("M", 2)
@pl.jit.host
def program(x: pl.Tensor[[M, 1, 64], pl.FP32], y: pl.Out[pl.Tensor[[M, 1, 64], pl.FP32]]):
    w_buf = pld.alloc_window_buffer([pld.world_size(), 64], dtype=pl.FP32)
    s_buf = pld.alloc_window_buffer([2, 1], dtype=pl.INT32)
    last = pld.world_size() - 1
    turns = 0
    for r in pl.range(M):
        w = pld.window(w_buf, [1, 64], dtype=pl.FP32)
        s = pld.window(s_buf, [2, 1], dtype=pl.INT32)
        if r < last:
            chip(x[r], y[r], w, s, device=r)
        else:
            chip(x[turns], y[r], w, s, device=last)
        turns = turns + 1
    {}
"""
    driver = compiled(tmp_path, call="pass", host=host)["orchestration/host_orch.py"]
    assert "window_size=((world_size * 256 + 31) // 32 * 32) + (32)," in driver
    assert 'M = tensors["x"].shape[0]' in driver
    assert "for r in range(0, M, 1):" in driver
    assert "if (r < (world_size - 1)):" in driver
    assert 'tensors["x"][turns, 0:1, 0:64]' in driver
    assert "turns = (turns + 1)" in driver


def test_a_collective_of_the_host_is_a_chip_program(tmp_path: Path) -> None:
    host = """\
@pl.jit.host(ranks=2)
def program(x: pl.Tensor[[2, 1, 64], pl.FP32], y: pl.Out[pl.Tensor[[2, 1, 64], pl.FP32]]):
    w_buf = pld.alloc_window_buffer([1, 64], dtype=pl.FP32)
    s_buf = pld.alloc_window_buffer([2, 1], dtype=pl.INT32)
    w = pld.window(w_buf, [1, 64], dtype=pl.FP32)
    s = pld.window(s_buf, [2, 1], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        chip(x[r], y[r], w, s, device=r)
    w = pld.tensor.allreduce(w, s, op=pld.ReduceOp.Max)
    pld.tensor.broadcast(w, s, root=1)
    pld.tensor.allreduce(w)
    {}
"""
    files = compiled(tmp_path, call="pass", host=host)
    root = "next_levels/builtin.tensor.allreduce__max__fp32__1x64"
    assert f"{root}/kernels/aiv/builtin_tensor_allreduce__max__fp32__1x64_kernel.cpp" in files
    assert "loc(" not in files[f"{root}/ptoas/builtin_tensor_allreduce__max__fp32__1x64_kernel.pto"]
    driver = files["orchestration/host_orch.py"]
    names = [line.split('"')[1] for line in driver.splitlines() if "_submit_chip(" in line]
    assert [name.removeprefix("builtin.tensor.") for name in names] == [
        "chip", "allreduce__max__fp32__1x64", "broadcast__1__fp32__1x64", "allreduce__sum__fp32__1x64",
    ]  # fmt: skip
    assert 'CommBufferSpec(name="__allreduce_signal_buf_0", dtype="int32", count=64, nbytes=256),' in driver


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_examples_compile(tmp_path: Path, name: str) -> None:
    compiled = compile_file(str(EXAMPLES / f"{name}.py"), tmp_path / "out", "a5sim")
    assert compiled.roots == (".",)
    assert not [path for path, text in compiled.files.items() if str(tmp_path) in text]


WAIT = "pld.system.wait(s, offsets=[0, 0], expected=1, cmp={})"
#: What stands in the kernel's third line, or in the host's loop, and what is said.
ERRORS = {
    "no window": (
        "pl.write(y, [0, 0], pld.rank(pld.get_comm_ctx(x)))",
        CALL,
        (
            "9:34: pld.system.get_comm_ctx: window must be a tensor in a window, found a Tensor[[1, "
            "64], FP32]; declare the parameter as pld.DistributedTensor"
        ),
    ),
    "no context": (
        "pl.write(y, [0, 0], pld.rank(w))",
        CALL,
        (
            "9:25: pld.system.rank: ctx must be a communication context, found a DistributedTensor[[1, "
            "64], FP32]; get one from pld.get_comm_ctx(window)"
        ),
    ),
    "signal type": (
        "pld.system.notify(w, peer=1 - me, offsets=[me, 0], value=1, op=pld.NotifyOp.AtomicAdd)",
        CALL,
        "9:5: pld.system.notify: the dtype of signals must be INT32, found FP32",
    ),
    "cell": (
        "pld.system.notify(s, peer=1 - me, offsets=[2, 0], value=1, op=pld.NotifyOp.AtomicAdd)",
        CALL,
        "9:5: pld.system.notify: offset 2 of axis 0 is outside of DistributedTensor[[2, 1], INT32]",
    ),
    "comparison": (
        "pld.system.wait(s, offsets=[0, 0], expected=1, cmp='above')",
        CALL,
        "9:5: pld.system.wait: cmp must be one of pld.WaitCmp, found 'above'",
    ),
    "no comparison": (
        "pld.system.wait(s, offsets=[0, 0], expected=1)",
        CALL,
        "9:5: pld.system.wait: the argument cmp is missing",
    ),
    "put too much": (
        "pld.tensor.put(w, peer=0, src=x, dst_offsets=[0, 8], shape=[1, 64])",
        CALL,
        "9:5: pld.tensor.put: axis 1 of dst: the range 8 to 72 is outside of the extent 64",
    ),
    "put to a tensor": (
        "pld.tensor.put(y, peer=0, src=x)",
        CALL,
        (
            "9:5: pld.tensor.put: dst must be a tensor in a window, found a Tensor[[1, 64], FP32]; "
            "declare the parameter as pld.DistributedTensor"
        ),
    ),
    "pipeline": (
        "pld.tensor.put(w, peer=0, src=x, pipeline=True)",
        CALL,
        "9:5: pld.tensor.put: pipeline= needs chunk_rows= and chunk_cols=",
    ),
    "types differ": (
        "pld.tensor.get(y, peer=0, src=s)",
        CALL,
        "9:5: pld.tensor.get: dst has the dtype FP32, but src has INT32",
    ),
    "remote load": (
        "pl.store(pld.tile.remote_load(w, 0, [0, 32], [1, 64]), [0, 0], y)",
        CALL,
        "9:14: pld.tile.remote_load: axis 1: the range 32 to 96 is outside of the extent 64",
    ),
    "wrong namespace": (
        "pld.tensor.notify(s, 0, [0, 0], 1)",
        CALL,
        "9:5: pld.tensor.notify: pld.tensor has no operation 'notify'; use pld.system.notify",
    ),
    "no namespace": (
        "pld.notify(s, 0, [0, 0], 1)",
        CALL,
        "9:5: pld.notify: pld has no 'notify'; use pld.system.notify",
    ),
    "of pl": (
        "pl.notify(s, 0, [0, 0], 1)",
        CALL,
        "9:5: pl.notify: pl has no 'notify'; use pld.system.notify (import "
        "pypto_build.compiler.language.distributed as pld)",
    ),
    "collective": (
        "pld.tensor.allreduce(x, s)",
        CALL,
        "9:5: pld.tensor.allreduce: target is not a window of k; pass a window that is a parameter of this function",
    ),
    "mode": (
        "pld.tensor.allreduce(w, s, mode='tree')",
        CALL,
        "9:5: pld.tensor.allreduce: mode must be one of mesh, ring, found 'tree'",
    ),
    "ring": (
        "pld.tensor.allreduce(w, s, mode='ring')",
        CALL,
        "9:5: pld.tensor.allreduce: the signal of a ring must have the shape [2 * (NR - 1), NR] with "
        "an NR known at compile time, found "
        "DistributedTensor[[2, 1], INT32]",
    ),
    "all to all": (
        "pld.tensor.all_to_all(w, s, s)",
        CALL,
        (
            "9:5: pld.tensor.all_to_all: DistributedTensor[[1, 64], FP32] and DistributedTensor[[2, 1], "
            "INT32] must have equal extents"
        ),
    ),
    "all to all with counts": (
        "pld.tensor.all_to_all_v(w, w, s, s, w)",
        CALL,
        "9:5: pld.tensor.all_to_all_v: the number of rows of DistributedTensor[[1, 64], FP32] must be "
        "a multiple of the number of ranks of "
        "DistributedTensor[[2, 1], INT32]",
    ),
    "remote store": (
        "pld.tensor.remote_store(me, w, me, [0, 0])",
        CALL,
        "9:5: pld.tensor.remote_store: src must be a tile, found a INDEX",
    ),
    "host operation": (
        "pld.world_size()",
        CALL,
        "9:5: pld.system.world_size is an operation of host programs, but k is a kernel",
    ),
    "both cores": (
        "pl.store(pl.exp(pl.matmul(pl.load(x, [0, 0], [1, 64]), pl.load(x, [0, 0], [1, 64]))), [0, 0], y)",
        CALL,
        "9:21: pl.matmul: the columns of Tile[[1, 64], FP32] (64) must equal the rows of Tile[[1, 64], FP32] (1)",
    ),
    "kernel operation": (
        "pass",
        "pld.system.notify(s, peer=1 - r, offsets=[r, 0], value=1, op=pld.NotifyOp.AtomicAdd)",
        "21:9: pld.system.notify is an operation of kernels, but program is a host program; "
        "move this operation into a @pl.jit.incore function and call that function",
    ),
    "calls a kernel": (
        "pass",
        "k(x[r], y[r], w, s)",
        "21:9: k is a kernel; call a @pl.jit function, which then calls the kernel",
    ),
    "no rank": (
        "pass",
        "chip(x[r], y[r], w, s)",
        "21:9: chip takes a window, but the rank of this window is unknown; name the rank with device=rank",
    ),
    "dispatches nothing": (
        "pass",
        "pass",
        "15:1: program dispatches no chip program; call a @pl.jit function with device=rank",
    ),
    "a value": (
        "pass",
        "t = chip(x[r], y[r], w, s, device=r)",
        "21:13: chip has no value; remove the assignment; dispatches are ordered by the tensors that they share",
    ),
    "index": (
        "pass",
        "chip(x[2], y[r], w, s, device=r)",
        "21:14: index 2 of axis 0 is outside of Tensor[[2, 1, 64], FP32]",
    ),
    "slice": (
        "pass",
        "chip(x[0:1], y[r], w, s, device=r)",
        "21:14: x[0:1] contains a slice; use pl.slice(tensor, shape, offsets)",
    ),
    "window for a tensor": (
        "pass",
        "chip(w, y[r], w, s, device=r)",
        "21:9: chip: x must be a Tensor[[1, 64], FP32], found a DistributedTensor[[1, 64], FP32]; "
        "declare a tensor in a window as pld.DistributedTensor, and create it with pld.window",
    ),
    "writes an input": (
        "pass",
        "chip(x[r], x[r], w, s, device=r)",
        "21:9: program: x is declared as an input, but is written here; declare the parameter pl.InOut",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_error(tmp_path: Path, name: str) -> None:
    kernel, call, expected = ERRORS[name]
    with pytest.raises(CompileError) as caught:
        compiled(tmp_path, kernel, call)
    assert str(caught.value) == f"{tmp_path / 'program.py'}:{expected}"


def test_a_kernel_of_both_cores_tells_nobody(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    text = (EXAMPLES / "dist_feed_forward.py").read_text()
    for old, new in (
        (
            "(product), [0, 0], hidden)\n",
            "(product), [0, 0], hidden)\n    pld.system.notify(s, 0, [0, 0], 1, op='set')\n",
        ),
        ("hidden: pl.Out[pl.Tensor[[T, H], pl.FP32]]):", "hidden: pl.Out[pl.Tensor[[T, H], pl.FP32]], s: Signal):"),
        ("up(x, w1, hidden)", "up(x, w1, hidden, signal)"),
    ):
        text = text.replace(old, new)
    path.write_text(text)
    with pytest.raises(CompileError) as caught:
        compile_file(str(path), tmp_path / "out", "a2a3sim")
    assert str(caught.value).endswith(
        "pld.system.notify is used in up, which runs on both cores, so the other core may not have reached this point; "
        "put this operation into a separate kernel"
    )


def test_contexts_are_read_back_from_a_wrapper(tmp_path: Path) -> None:
    """So a module that is edited can be spliced."""
    files = compiled(tmp_path)
    entry = files["next_levels/chip/kernels/aiv/k.cpp"].partition(ENTRY_SENTINEL)[2]
    names = ["x__ssa_v0", "y__ssa_v0", "w__ssa_v0", "s__ssa_v0", "w__ssa_v0__ctx", "s__ssa_v0__ctx"]
    passed = passed_values(entry, names)
    assert passed is not None
    assert [(one.kind, one.slot) for one in passed] == [
        ("tensor", 0), ("tensor", 1), ("tensor", 2), ("tensor", 3), ("context", 4), ("context", 5),
    ]  # fmt: skip
    module = parse(pto(files))
    function = next(module.functions())
    assert [one.kind for one in refit_arguments(function, module, passed, None)] == [one.kind for one in passed]
    planned = plan_arguments(function, module, Payload(4, 2))
    assert [(one.kind, one.slot) for one in planned] == [(one.kind, one.slot) for one in passed]
