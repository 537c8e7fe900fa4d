"""All-reduce: every rank gets the sum over ranks of scale * x, in two dispatches a rank.

The first publishes the rank's part, the second waits for all parts and adds them in the order of the ranks. Any number
of ranks.
"""

import pypto_build.compiler.language as pl
import pypto_build.compiler.language.distributed as pld

NR = pl.dynamic("NR", 2)
N = 256

Row = pl.Tensor[[1, N], pl.FP32]
Part = pld.DistributedTensor[[1, N], pl.FP32]
Arrived = pld.DistributedTensor[[1, 64], pl.INT32]  # a cell for each rank


@pl.jit.incore
def scale_rows(x: Row, partial: Part, scale: pl.Scalar[pl.FP32]):
    pl.store(pl.load(x, [0, 0], [1, N]) * scale, [0, 0], partial)


@pl.jit.incore
def sum_ranks(partial: Part, arrived: Arrived, total: pl.Out[Row]):
    ctx = pld.get_comm_ctx(partial)
    me = pld.rank(ctx)
    ranks = pld.nranks(ctx)
    for peer in pl.range(ranks):
        pld.system.notify(arrived, peer=peer, offsets=[0, me], value=1, op=pld.NotifyOp.AtomicAdd)
    for peer in pl.range(ranks):
        pld.system.wait(arrived, offsets=[0, peer], expected=1, cmp=pld.WaitCmp.Ge)
    # In the order of the ranks, so that every rank has the same bits.
    acc = pld.tile.remote_load(partial, peer=0, offsets=[0, 0], shape=[1, N])
    for peer in pl.range(1, ranks):
        acc = acc + pld.tile.remote_load(partial, peer=peer, offsets=[0, 0], shape=[1, N])
    pl.store(acc, [0, 0], total)
    # The credits are given back, so that the cells are zero again.
    for peer in pl.range(ranks):
        pld.system.notify(arrived, peer=me, offsets=[0, peer], value=-1, op=pld.NotifyOp.AtomicAdd)


@pl.jit
def publish(x: Row, partial: Part, scale: pl.Scalar[pl.FP32]):
    scale_rows(x, partial, scale)


@pl.jit
def reduce(partial: Part, arrived: Arrived, total: pl.Out[Row]):
    sum_ranks(partial, arrived, total)


@pl.jit.host(ranks=2)
def dist_allreduce(
    x: pl.Tensor[[NR, 1, N], pl.FP32], total: pl.Out[pl.Tensor[[NR, 1, N], pl.FP32]], scale: pl.Scalar[pl.FP32] = 0.5
):
    partial_buf = pld.alloc_window_buffer([1, N], dtype=pl.FP32)
    arrived_buf = pld.alloc_window_buffer([1, 64], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        partial = pld.window(partial_buf, [1, N], dtype=pl.FP32)
        publish(x[r], partial, scale, device=r)
    for r in pl.range(pld.world_size()):
        partial = pld.window(partial_buf, [1, N], dtype=pl.FP32)
        arrived = pld.window(arrived_buf, [1, 64], dtype=pl.INT32)
        reduce(partial, arrived, total[r], device=r)


@dist_allreduce.reference
def reference(x, total, scale):
    total[:] = (x * scale).sum(dim=0, keepdim=True).expand_as(x)
