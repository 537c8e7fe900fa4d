"""A feed-forward layer over several chips: each has a share of the hidden units, and the results are summed.

The first matrix is cut by columns, the second by rows, so nothing has to be exchanged between the two.
"""

import pypto_build.compiler.language as pl
import pypto_build.compiler.language.distributed as pld

NR = 4
T, D, H = 32, 64, 64  # tokens, their elements, hidden units of a rank

Tokens = pl.Tensor[[T, D], pl.FP32]
Up = pl.Tensor[[D, H], pl.FP32]
Down = pl.Tensor[[H, D], pl.FP32]
Partial = pld.DistributedTensor[[T, D], pl.FP32]
Signal = pld.DistributedTensor[[NR, 1], pl.INT32]


@pl.jit.incore
def up(x: Tokens, w: Up, hidden: pl.Out[pl.Tensor[[T, H], pl.FP32]]):
    product = pl.matmul(pl.load(x, [0, 0], [T, D]), pl.load(w, [0, 0], [D, H]))
    pl.store(pl.relu(product), [0, 0], hidden)


@pl.jit.incore
def down(hidden: pl.Tensor[[T, H], pl.FP32], w: Down, partial: Partial):
    pl.store(pl.matmul(pl.load(hidden, [0, 0], [T, H]), pl.load(w, [0, 0], [H, D])), [0, 0], partial)


@pl.jit.incore
def sum_up(partial: Partial, signal: Signal, y: pl.Out[Tokens]):
    partial = pld.tensor.allreduce(partial, signal, op=pld.ReduceOp.Sum)
    pl.store(pl.load(partial, [0, 0], [T, D]), [0, 0], y)


@pl.jit
def feed_forward(x: Tokens, w1: Up, w2: Down, y: pl.Out[Tokens], partial: Partial, signal: Signal):
    hidden = pl.create_tensor([T, H], pl.FP32)
    up(x, w1, hidden)
    down(hidden, w2, partial)
    sum_up(partial, signal, y)


@pl.jit.host(ranks=NR)
def dist_feed_forward(
    x: Tokens,
    w1: pl.Tensor[[NR, D, H], pl.FP32],
    w2: pl.Tensor[[NR, H, D], pl.FP32],
    y: pl.Out[pl.Tensor[[NR, T, D], pl.FP32]],
):
    partial_buf = pld.alloc_window_buffer([T, D], dtype=pl.FP32)
    signal_buf = pld.alloc_window_buffer([NR, 1], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        partial = pld.window(partial_buf, [T, D], dtype=pl.FP32)
        signal = pld.window(signal_buf, [NR, 1], dtype=pl.INT32)
        feed_forward(x, w1[r], w2[r], y[r], partial, signal, device=r)


@dist_feed_forward.reference(rtol=1e-4, atol=1e-3)
def reference(x, w1, w2, y):
    y[:] = ((x @ w1).relu() @ w2).sum(dim=0).expand_as(y)
