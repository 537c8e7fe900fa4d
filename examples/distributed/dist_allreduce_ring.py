"""All-reduce over a ring: each rank talks to the next one only, and sends 2 (NR - 1) times a share of the tensor.

In the first round of NR - 1 steps the shares are added up on their way, until each rank has one whole sum. In the
second round the sums go round.
"""

import pypto_build.compiler.language as pl
import pypto_build.compiler.language.distributed as pld

NR = 4
C = 256  # elements of a share

Shares = pl.Tensor[[NR, C], pl.FP32]
Data = pld.DistributedTensor[[NR, C], pl.FP32]
Inbox = pld.DistributedTensor[[NR - 1, C], pl.FP32]  # a slot for each step of the first round
Arrived = pld.DistributedTensor[[1, 16], pl.INT32]  # the rank before adds one for each step


@pl.jit.incore
def ring(x: Shares, y: pl.Out[Shares], data: Data, inbox: Inbox, arrived: Arrived):
    me = pld.rank(pld.get_comm_ctx(data))
    next = (me + 1) % NR
    pl.store(pl.load(x, [0, 0], [NR, C]), [0, 0], data)
    for step in pl.range(NR - 1):
        chunk = (me + NR - step) % NR
        taken = (me + NR - step - 1) % NR
        pld.tensor.put(inbox, next, data, dst_offsets=[step, 0], src_offsets=[chunk, 0], shape=[1, C])
        pld.system.notify(arrived, peer=next, offsets=[0, 0], value=1, op=pld.NotifyOp.AtomicAdd)
        pld.system.wait(arrived, offsets=[0, 0], expected=step + 1, cmp=pld.WaitCmp.Ge)
        total = pl.load(data, [taken, 0], [1, C]) + pl.load(inbox, [step, 0], [1, C])
        pl.store(total, [taken, 0], data)
    for step in pl.range(NR - 1):
        chunk = (me + NR + 1 - step) % NR
        pld.tensor.put(data, next, data, dst_offsets=[chunk, 0], src_offsets=[chunk, 0], shape=[1, C])
        pld.system.notify(arrived, peer=next, offsets=[0, 0], value=1, op=pld.NotifyOp.AtomicAdd)
        pld.system.wait(arrived, offsets=[0, 0], expected=NR + step, cmp=pld.WaitCmp.Ge)
    pl.store(pl.load(data, [0, 0], [NR, C]), [0, 0], y)


@pl.jit
def reduce(x: Shares, y: pl.Out[Shares], data: Data, inbox: Inbox, arrived: Arrived):
    ring(x, y, data, inbox, arrived)


@pl.jit.host(ranks=NR)
def dist_allreduce_ring(x: pl.Tensor[[NR, NR, C], pl.FP32], y: pl.Out[pl.Tensor[[NR, NR, C], pl.FP32]]):
    data_buf = pld.alloc_window_buffer([NR, C], dtype=pl.FP32)
    inbox_buf = pld.alloc_window_buffer([NR - 1, C], dtype=pl.FP32)
    arrived_buf = pld.alloc_window_buffer([1, 16], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        data = pld.window(data_buf, [NR, C], dtype=pl.FP32)
        inbox = pld.window(inbox_buf, [NR - 1, C], dtype=pl.FP32)
        arrived = pld.window(arrived_buf, [1, 16], dtype=pl.INT32)
        reduce(x[r], y[r], data, inbox, arrived, device=r)


@dist_allreduce_ring.reference(rtol=1e-5, atol=1e-5)
def reference(x, y):
    y[:] = x.sum(dim=0, keepdim=True).expand_as(x)
