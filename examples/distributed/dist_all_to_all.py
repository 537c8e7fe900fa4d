"""All-to-all: part d of rank r's row goes to rank d, by puts into the peers' windows."""

import pypto_build.compiler.language as pl
import pypto_build.compiler.language.distributed as pld

NR = 4
N = 64

Parts = pl.Tensor[[NR, N], pl.FP32]
Inbox = pld.DistributedTensor[[NR, N], pl.FP32]
Arrived = pld.DistributedTensor[[1, 64], pl.INT32]


@pl.jit.incore
def put_parts(x: Parts, inbox: Inbox, arrived: Arrived, y: pl.Out[Parts]):
    ctx = pld.get_comm_ctx(inbox)
    me = pld.rank(ctx)
    for peer in pl.range(pld.nranks(ctx)):
        pld.tensor.put(inbox, peer, x, dst_offsets=[me, 0], src_offsets=[peer, 0], shape=[1, N])
        pld.system.notify(arrived, peer=peer, offsets=[0, me], value=1, op=pld.NotifyOp.AtomicAdd)
    for peer in pl.range(pld.nranks(ctx)):
        pld.system.wait(arrived, offsets=[0, peer], expected=1, cmp=pld.WaitCmp.Ge)
        pl.store(pl.load(inbox, [peer, 0], [1, N]), [peer, 0], y)
        pld.system.notify(arrived, peer=me, offsets=[0, peer], value=-1, op=pld.NotifyOp.AtomicAdd)


@pl.jit
def exchange(x: Parts, inbox: Inbox, arrived: Arrived, y: pl.Out[Parts]):
    put_parts(x, inbox, arrived, y)


@pl.jit.host(ranks=NR)
def dist_all_to_all(x: pl.Tensor[[NR, NR, N], pl.FP32], y: pl.Out[pl.Tensor[[NR, NR, N], pl.FP32]]):
    inbox_buf = pld.alloc_window_buffer([NR, N], dtype=pl.FP32)
    arrived_buf = pld.alloc_window_buffer([1, 64], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        inbox = pld.window(inbox_buf, [NR, N], dtype=pl.FP32)
        arrived = pld.window(arrived_buf, [1, 64], dtype=pl.INT32)
        exchange(x[r], inbox, arrived, y[r], device=r)


@dist_all_to_all.reference
def reference(x, y):
    y[:] = x.transpose(0, 1)
