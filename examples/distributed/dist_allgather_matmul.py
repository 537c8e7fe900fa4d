"""All-gather with a product on top: y = concat(x of all ranks) @ w, where products begin as the parts arrive.

One task sends the rank's part to all ranks; a task for each part waits for that one alone and multiplies it. Nothing
orders these tasks but the signals, so the cube core works while the vector core sends.
"""

import pypto_build.compiler.language as pl
import pypto_build.compiler.language.distributed as pld

NR = 4
M, K, N = 32, 64, 64

Part = pl.Tensor[[M, K], pl.FP16]
Weights = pl.Tensor[[K, N], pl.FP16]
Gathered = pld.DistributedTensor[[NR * M, K], pl.FP16]
Arrived = pld.DistributedTensor[[NR, 16], pl.INT32]  # a line for each part


@pl.jit.incore
def send(x: Part, gathered: Gathered, arrived: Arrived):
    me = pld.rank(pld.get_comm_ctx(gathered))
    for step in pl.range(NR):
        peer = (me + step) % NR
        pld.tensor.put(gathered, peer, x, dst_offsets=[me * M, 0], src_offsets=[0, 0], shape=[M, K])
        pld.system.notify(arrived, peer=peer, offsets=[me, 0], value=1, op=pld.NotifyOp.Set)


@pl.jit.incore
def multiply_part(
    gathered: Gathered, arrived: Arrived, w: Weights, y: pl.Out[pl.Tensor[[M, N], pl.FP32]], part: pl.Scalar[pl.INT32]
):
    pld.system.wait(arrived, offsets=[part, 0], expected=1, cmp=pld.WaitCmp.Ge)
    a = pl.load(gathered, [part * M, 0], [M, K])
    pl.store(pl.matmul(a, pl.load(w, [0, 0], [K, N])), [0, 0], y)


@pl.jit
def gather_and_multiply(
    x: Part, w: Weights, y: pl.Out[pl.Tensor[[NR * M, N], pl.FP32]], gathered: Gathered, arrived: Arrived
):
    with pl.manual_scope():
        send(x, gathered, arrived)
        for part in pl.range(NR):
            multiply_part(gathered, arrived, w, pl.slice(y, [M, N], [part * M, 0]), part)


@pl.jit.host(ranks=NR)
def dist_allgather_matmul(
    x: pl.Tensor[[NR, M, K], pl.FP16], w: pl.Tensor[[K, N], pl.FP16], y: pl.Out[pl.Tensor[[NR, NR * M, N], pl.FP32]]
):
    gathered_buf = pld.alloc_window_buffer([NR * M, K], dtype=pl.FP16)
    arrived_buf = pld.alloc_window_buffer([NR, 16], dtype=pl.INT32)
    for r in pl.range(pld.world_size()):
        gathered = pld.window(gathered_buf, [NR * M, K], dtype=pl.FP16)
        arrived = pld.window(arrived_buf, [NR, 16], dtype=pl.INT32)
        gather_and_multiply(x[r], w, y[r], gathered, arrived, device=r)


@dist_allgather_matmul.reference(rtol=1e-3, atol=1e-3)
def reference(x, w, y):
    y[:] = (x.reshape(NR * M, K).float() @ w.float()).expand_as(y)
