"""Every collective, in a kernel and of a host program."""

import pypto_build.compiler.language as pl
import pypto_build.compiler.language.distributed as pld

NR = 4
N = 256

Row = pl.Tensor[[1, N], pl.FP32]
Results = pl.Tensor[[1, 7 * N], pl.FP32]
Window = pld.DistributedTensor[[1, N], pl.FP32]
Rows = pld.DistributedTensor[[NR, N], pl.FP32]
Signal = pld.DistributedTensor[[NR, 1], pl.INT32]
Ring = pld.DistributedTensor[[2 * (NR - 1), NR], pl.INT32]


@pl.jit.incore
def work(x: Row, y: pl.Out[Results], data: Window, rows: Rows, more: Rows, signal: Signal, ring: Ring):
    me = pld.rank(pld.get_comm_ctx(data))
    mine = pl.load(x, [0, 0], [1, N])
    data = pl.store(mine, [0, 0], data)
    data = pld.tensor.allreduce(data, signal, op=pld.ReduceOp.Sum)
    pl.store(pl.load(data, [0, 0], [1, N]), [0, 0], y)
    pl.store(mine, [0, 0], data)
    data = pld.tensor.allreduce(data, ring, op=pld.ReduceOp.Max, mode="ring")
    pl.store(pl.load(data, [0, 0], [1, N]), [0, N], y)
    pl.store(mine, [0, 0], data)
    rows = pld.tensor.allgather(data, rows, signal)
    more = pld.tensor.all_to_all(rows, more, signal)
    pl.store(pl.load(more, [2, 0], [1, N]), [0, 2 * N], y)
    rows = pld.tensor.reduce_scatter(rows, signal, op=pld.ReduceOp.Sum)
    pl.store(pl.load(rows, [me, 0], [1, N]), [0, 3 * N], y)
    data = pld.tensor.broadcast(data, signal, root=1)
    signal = pld.tensor.barrier(signal)
    pl.store(pl.load(data, [0, 0], [1, N]), [0, 4 * N], y)
    pl.store(mine, [0, 0], data)


@pl.jit.incore
def take(data: Window, y: pl.InOut[Results], column: pl.Scalar[pl.INT32]):
    pl.store(pl.load(data, [0, 0], [1, N]), [0, column * N], y)


@pl.jit
def chip(x: Row, y: pl.Out[Results], data: Window, rows: Rows, more: Rows, signal: Signal, ring: Ring):
    return work(x, y, data, rows, more, signal, ring)


@pl.jit
def take_out(data: Window, y: pl.InOut[Results], column: pl.Scalar[pl.INT32]):
    take(data, y, column)


@pl.jit.host(ranks=NR)
def dist_collectives(x: pl.Tensor[[NR, 1, N], pl.FP32], y: pl.Out[pl.Tensor[[NR, 1, 7 * N], pl.FP32]]):
    data_buf = pld.alloc_window_buffer([1, N], dtype=pl.FP32)
    rows_buf = pld.alloc_window_buffer([NR, N], dtype=pl.FP32)
    more_buf = pld.alloc_window_buffer([NR, N], dtype=pl.FP32)
    signal_buf = pld.alloc_window_buffer(NR * 4)
    ring_buf = pld.alloc_window_buffer([2 * (NR - 1), NR], dtype=pl.INT32)
    data = pld.window(data_buf, [1, N], dtype=pl.FP32)
    signal = pld.window(signal_buf, [NR, 1], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        rows = pld.window(rows_buf, [NR, N], dtype=pl.FP32)
        more = pld.window(more_buf, [NR, N], dtype=pl.FP32)
        ring = pld.window(ring_buf, [2 * (NR - 1), NR], dtype=pl.INT32)
        chip(x[r], y[r], data, rows, more, signal, ring, device=r)
    data = pld.tensor.allreduce(data, op=pld.ReduceOp.Min)
    for r in pl.range(pld.world_size()):
        take_out(data, y[r], 5, device=r)
    pld.tensor.broadcast(data, signal, root=0)
    for r in pl.range(pld.world_size()):
        take_out(data, y[r], 6, device=r)


@dist_collectives.reference(rtol=1e-5, atol=1e-5)
def reference(x, y):
    parts = x[:, 0]
    results = [parts.sum(0), parts.max(0).values, parts, NR * parts, parts[1], parts.min(0).values, parts.min(0).values]
    for number, result in enumerate(results):
        y[:, 0, number * N : (number + 1) * N] = result
