"""A pipeline of two stages on two ranks: y = 2 x + 1, with two slots between them and signals both ways."""

import pypto_build.compiler.language as pl
import pypto_build.compiler.language.distributed as pld

ROWS, N = 4, 256

Rows = pl.Tensor[[ROWS, N], pl.FP32]
Slots = pld.DistributedTensor[[2, N], pl.FP32]
Count = pld.DistributedTensor[[1, 16], pl.INT32]


@pl.jit.incore
def scale_and_send(x: Rows, slots: Slots, full: Count, free: Count):
    for row in pl.range(ROWS):
        if row >= 2:  # the third row waits until the first has been taken out
            pld.system.wait(free, offsets=[0, 0], expected=row - 1, cmp=pld.WaitCmp.Ge)
        scaled = pl.load(x, [row, 0], [1, N]) * 2.0
        pld.tile.remote_store(scaled, slots, peer=1, offsets=[row % 2, 0])
        pld.system.notify(full, peer=1, offsets=[0, 0], value=1, op=pld.NotifyOp.AtomicAdd)


@pl.jit.incore
def receive_and_shift(slots: Slots, full: Count, free: Count, y: pl.Out[Rows]):
    for row in pl.range(ROWS):
        pld.system.wait(full, offsets=[0, 0], expected=row + 1, cmp=pld.WaitCmp.Ge)
        pl.store(pl.load(slots, [row % 2, 0], [1, N]) + 1.0, [row, 0], y)
        pld.system.notify(free, peer=0, offsets=[0, 0], value=1, op=pld.NotifyOp.AtomicAdd)


@pl.jit
def stage_one(x: Rows, slots: Slots, full: Count, free: Count):
    scale_and_send(x, slots, full, free)


@pl.jit
def stage_two(slots: Slots, full: Count, free: Count, y: pl.Out[Rows]):
    receive_and_shift(slots, full, free, y)


@pl.jit.host(ranks=2)
def dist_pipeline(x: Rows, y: pl.Out[Rows]):
    slots_buf = pld.alloc_window_buffer([2, N], dtype=pl.FP32)
    full_buf = pld.alloc_window_buffer([1, 16], dtype=pl.INT32)
    free_buf = pld.alloc_window_buffer([1, 16], dtype=pl.INT32)
    slots = pld.window(slots_buf, [2, N], dtype=pl.FP32)
    full = pld.window(full_buf, [1, 16], dtype=pl.INT32)
    free = pld.window(free_buf, [1, 16], dtype=pl.INT32)
    stage_one(x, slots, full, free, device=0)
    stage_two(slots, full, free, y, device=1)


@dist_pipeline.reference
def reference(x, y):
    y[:] = 2 * x + 1
