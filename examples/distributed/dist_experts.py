"""Expert parallelism: tokens go to the rank of their expert, through it, and come back weighted.

Dispatch pushes each token into the window of its expert's rank, at the row of its rank and number. Combine pulls
what the expert made of it from the same place.
"""

import torch

import pypto_build.compiler.language as pl
import pypto_build.compiler.language.distributed as pld

NR = 4  # ranks, and experts: one a rank
T, D = 16, 64  # tokens of a rank, and their elements

Tokens = pl.Tensor[[T, D], pl.FP32]
Route = pl.Tensor[[1, T], pl.INT32]
Gates = pl.Tensor[[1, T], pl.FP32]
Weights = pl.Tensor[[D, D], pl.FP32]
Window = pld.DistributedTensor[[NR * T, D], pl.FP32]
Signal = pld.DistributedTensor[[NR, 1], pl.INT32]


@pl.jit.incore
def dispatch(x: Tokens, route: Route, inbox: Window, signal: Signal):
    me = pld.rank(pld.get_comm_ctx(inbox))
    for t in pl.range(T):
        expert = pl.read(route, [0, t])
        pld.tensor.put(inbox, expert, x, dst_offsets=[me * T + t, 0], src_offsets=[t, 0], shape=[1, D])
    signal = pld.tensor.barrier(signal)


@pl.jit.incore
def expert(inbox: Window, w: Weights, made: pl.Out[pl.Tensor[[NR * T, D], pl.FP32]]):
    tokens = pl.load(inbox, [0, 0], [NR * T, D])
    pl.store(pl.matmul(tokens, pl.load(w, [0, 0], [D, D])), [0, 0], made)


@pl.jit.incore
def activate(made: pl.Tensor[[NR * T, D], pl.FP32], outbox: Window):
    pl.store(pl.relu(pl.load(made, [0, 0], [NR * T, D])), [0, 0], outbox)


@pl.jit.incore
def combine(route: Route, gates: Gates, outbox: Window, signal: Signal, y: pl.Out[Tokens]):
    me = pld.rank(pld.get_comm_ctx(outbox))
    signal = pld.tensor.barrier(signal)
    for t in pl.range(T):
        chosen = pl.read(route, [0, t])
        token = pld.tile.remote_load(outbox, peer=chosen, offsets=[me * T + t, 0], shape=[1, D])
        pl.store(token * pl.read(gates, [0, t]), [t, 0], y)


@pl.jit
def layer(
    x: Tokens, route: Route, gates: Gates, w: Weights, y: pl.Out[Tokens], inbox: Window, outbox: Window, signal: Signal
):
    dispatch(x, route, inbox, signal)
    made = pl.create_tensor([NR * T, D], pl.FP32)
    expert(inbox, w, made)
    activate(made, outbox)
    combine(route, gates, outbox, signal, y)


@pl.jit.host(ranks=NR)
def dist_experts(
    x: pl.Tensor[[NR, T, D], pl.FP32],
    route: pl.Tensor[[NR, 1, T], pl.INT32],
    gates: pl.Tensor[[NR, 1, T], pl.FP32],
    w: pl.Tensor[[NR, D, D], pl.FP32],
    y: pl.Out[pl.Tensor[[NR, T, D], pl.FP32]],
):
    inbox_buf = pld.alloc_window_buffer([NR * T, D], dtype=pl.FP32)
    outbox_buf = pld.alloc_window_buffer([NR * T, D], dtype=pl.FP32)
    signal_buf = pld.alloc_window_buffer([NR, 1], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        inbox = pld.window(inbox_buf, [NR * T, D], dtype=pl.FP32)
        outbox = pld.window(outbox_buf, [NR * T, D], dtype=pl.FP32)
        signal = pld.window(signal_buf, [NR, 1], dtype=pl.INT32)
        layer(x[r], route[r], gates[r], w[r], y[r], inbox, outbox, signal, device=r)


@dist_experts.inputs
def inputs():
    generator = torch.Generator().manual_seed(5)
    return {"route": torch.randint(0, NR, (NR, 1, T), generator=generator, dtype=torch.int32)}


@dist_experts.reference(rtol=1e-4, atol=1e-4)
def reference(x, route, gates, w, y):
    chosen = w[route[:, 0].long()]  # a matrix for each token
    y[:] = torch.einsum("rtd,rtde->rte", x, chosen).relu() * gates[:, 0, :, None]
