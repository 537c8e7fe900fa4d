"""All-reduce in two shots: each rank adds up one share of the tensor from all ranks, and hands the sum to all.

Between the two no rank waits for another: whoever has its sum stores it into the windows of all.
"""

import pypto_build.compiler.language as pl
import pypto_build.compiler.language.distributed as pld

NR = 4
C = 256  # elements of a share

Shares = pl.Tensor[[NR, C], pl.FP32]
Window = pld.DistributedTensor[[NR, C], pl.FP32]
Signal = pld.DistributedTensor[[NR, 1], pl.INT32]


@pl.jit.incore
def stage(x: Shares, parts: Window):
    pl.store(pl.load(x, [0, 0], [NR, C]), [0, 0], parts)


@pl.jit.incore
def two_shots(parts: Window, sums: Window, signal: Signal, y: pl.Out[Shares]):
    me = pld.rank(pld.get_comm_ctx(parts))
    signal = pld.tensor.barrier(signal)
    total = pld.tile.remote_load(parts, peer=0, offsets=[me, 0], shape=[1, C])
    for peer in pl.unroll(1, NR):
        total = total + pld.tile.remote_load(parts, peer=peer, offsets=[me, 0], shape=[1, C])
    for peer in pl.unroll(NR):
        pld.tile.remote_store(total, sums, peer=peer, offsets=[me, 0])
    signal = pld.tensor.barrier(signal)
    pl.store(pl.load(sums, [0, 0], [NR, C]), [0, 0], y)


@pl.jit
def reduce(x: Shares, parts: Window, sums: Window, signal: Signal, y: pl.Out[Shares]):
    stage(x, parts)
    two_shots(parts, sums, signal, y)


@pl.jit.host(ranks=NR)
def dist_allreduce_two_shot(x: pl.Tensor[[NR, NR, C], pl.FP32], y: pl.Out[pl.Tensor[[NR, NR, C], pl.FP32]]):
    parts_buf = pld.alloc_window_buffer([NR, C], dtype=pl.FP32)
    sums_buf = pld.alloc_window_buffer([NR, C], dtype=pl.FP32)
    signal_buf = pld.alloc_window_buffer([NR, 1], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        parts = pld.window(parts_buf, [NR, C], dtype=pl.FP32)
        sums = pld.window(sums_buf, [NR, C], dtype=pl.FP32)
        signal = pld.window(signal_buf, [NR, 1], dtype=pl.INT32)
        reduce(x[r], parts, sums, signal, y[r], device=r)


@dist_allreduce_two_shot.reference(rtol=1e-5, atol=1e-5)
def reference(x, y):
    y[:] = x.sum(dim=0, keepdim=True).expand_as(x)
