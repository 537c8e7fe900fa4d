"""An all-to-all with variable counts that the host program asks for, of rows that a kernel stores to its own window."""

import torch

import pypto_build.compiler.language as pl
import pypto_build.compiler.language.distributed as pld

NR, M, N = 2, 4, 64
Rows = pl.Tensor[[NR * M, N], pl.FP32]
Counts = pl.Tensor[[NR, 1], pl.INT32]
Window = pld.DistributedTensor[[NR * M, N], pl.FP32]
Ints = pld.DistributedTensor[[NR, 1], pl.INT32]


@pl.jit.incore
def stage(x: Rows, counts: Counts, source: Window, sent: Ints):
    me = pld.rank(pld.get_comm_ctx(source))
    pld.tensor.remote_store(x, source, me, [0, 0])
    for r in pl.range(NR):
        pl.write(sent, [r, 0], pl.read(counts, [r, 0]))


@pl.jit
def publish(x: Rows, counts: Counts, source: Window, sent: Ints):
    stage(x, counts, source, sent)


@pl.jit.incore
def fetch(target: Window, taken: Ints, y: pl.Out[Rows], got: pl.Out[Counts]):
    pl.store(pl.load(target, [0, 0], [NR * M, N]), [0, 0], y)
    for r in pl.range(NR):
        pl.write(got, [r, 0], pl.read(taken, [r, 0]))


@pl.jit
def consume(target: Window, taken: Ints, y: pl.Out[Rows], got: pl.Out[Counts]):
    fetch(target, taken, y, got)


@pl.jit.host(ranks=NR)
def exchanged(
    x: pl.Tensor[[NR, NR * M, N], pl.FP32],
    counts: pl.Tensor[[NR, NR, 1], pl.INT32],
    y: pl.Out[pl.Tensor[[NR, NR * M, N], pl.FP32]],
    got: pl.Out[pl.Tensor[[NR, NR, 1], pl.INT32]],
):
    source_buf = pld.alloc_window_buffer([NR * M, N], dtype=pl.FP32)
    target_buf = pld.alloc_window_buffer([NR * M, N], dtype=pl.FP32)
    signal_buf = pld.alloc_window_buffer([NR, 1], dtype=pl.INT32)
    sent_buf = pld.alloc_window_buffer([NR, 1], dtype=pl.INT32)
    taken_buf = pld.alloc_window_buffer([NR, 1], dtype=pl.INT32)
    source = pld.window(source_buf, [NR * M, N], dtype=pl.FP32)
    target = pld.window(target_buf, [NR * M, N], dtype=pl.FP32)
    signal = pld.window(signal_buf, [NR, 1], dtype=pl.INT32)
    sent = pld.window(sent_buf, [NR, 1], dtype=pl.INT32)
    taken = pld.window(taken_buf, [NR, 1], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        publish(x[r], counts[r], source, sent, device=r)
    pld.tensor.all_to_all_v(source, target, signal, sent, taken)
    for r in pl.range(pld.world_size()):
        consume(target, taken, y[r], got[r], device=r)


@exchanged.inputs
def inputs():
    return {"counts": torch.tensor([[[1], [9]], [[4], [0]]], dtype=torch.int32)}


@exchanged.reference
def reference(x, counts, y, got):
    for r in range(NR):
        got[r] = counts[:, r].clamp(max=M)
        for s in range(NR):
            y[r, s * M : (s + 1) * M] = x[s, r * M : (r + 1) * M]
