"""A message queue in each direction between an orchestration and a chip that it has started.

Both are in one region. Each direction has a ring of descriptors and an arena for its messages; counters hold heads and
tails of the rings. Methods and names are those of simpler's interface. The chip's end is
`runtime/include/aicpu/worker_chip_message_queue.h`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from pypto_build.interop.scene.regions import (
    Exchange,
    NotifyOp,
    WaitCmp,
    WorkerChipOrchRegion,
    host_bytes,
)

WORKER_CHIP_QUEUE_MAGIC = 0x4C335132
WORKER_CHIP_QUEUE_ABI_MAJOR = 1
WORKER_CHIP_QUEUE_ABI_MINOR = 1
WORKER_CHIP_QUEUE_DESC_SLOT_BYTES = 32
WORKER_CHIP_QUEUE_PAYLOAD_ARENA_ALIGNMENT = 64
WORKER_CHIP_QUEUE_COUNTER_STRIDE = 64
WORKER_CHIP_QUEUE_COUNTER_BYTES = 384
WORKER_CHIP_QUEUE_MAX_DEPTH = 1 << 30
_VERSION = WORKER_CHIP_QUEUE_ABI_MAJOR << 16 | WORKER_CHIP_QUEUE_ABI_MINOR
_SLOT = struct.Struct("<4Q")  # number from 1 on, opcode, where the payload begins, its bytes
_COUNTER_VALUES = 1 << 32


class WorkerChipQueueOpcode(IntEnum):
    """The kind of a message."""

    INVALID = 0
    DATA = 1
    STOP = 2
    ERROR = 3


@dataclass(frozen=True)
class WorkerChipQueueLayout:
    """The layout of a queue, in bytes from the beginning of the payload, or of the counters."""

    depth: int
    input_desc_offset: int
    output_desc_offset: int
    input_arena_offset: int
    output_arena_offset: int
    input_arena_bytes: int
    output_arena_bytes: int
    payload_bytes: int
    input_desc_tail_offset: int = 0
    input_desc_head_offset: int = 64
    output_desc_tail_offset: int = 128
    output_desc_head_offset: int = 192
    worker_abort_flag_offset: int = 256
    chip_abort_flag_offset: int = 320
    counter_bytes: int = WORKER_CHIP_QUEUE_COUNTER_BYTES


@dataclass(frozen=True)
class WorkerChipQueueMessage:
    """A message from the chip, until it is released."""

    seq: int
    opcode: WorkerChipQueueOpcode
    payload_offset: int
    payload_nbytes: int


def worker_chip_queue_magic_version() -> int:
    """Return the number by which the chip recognizes the scalars of a queue."""
    return WORKER_CHIP_QUEUE_MAGIC << 32 | _VERSION


def make_worker_chip_queue_layout(depth: int, input_arena_bytes: int, output_arena_bytes: int) -> WorkerChipQueueLayout:
    """Return the layout of a queue. Raises ValueError for an invalid depth or size."""
    depth = int(depth)
    if not 0 < depth <= WORKER_CHIP_QUEUE_MAX_DEPTH or depth & (depth - 1):
        raise ValueError(f"the depth of a queue must be a power of two, at most 2^30, but is {depth}")
    for name, nbytes in (("input_arena_bytes", input_arena_bytes), ("output_arena_bytes", output_arena_bytes)):
        if int(nbytes) <= 0 or int(nbytes) % WORKER_CHIP_QUEUE_PAYLOAD_ARENA_ALIGNMENT:
            raise ValueError(f"the queue's {name} must be a positive multiple of 64, but is {nbytes}")
    ring = depth * WORKER_CHIP_QUEUE_DESC_SLOT_BYTES
    output = 2 * ring + int(input_arena_bytes)
    end = output + int(output_arena_bytes)
    if end >= 1 << 64:
        raise ValueError(f"a queue of {end} bytes does not fit into memory")
    return WorkerChipQueueLayout(depth, 0, ring, 2 * ring, output, int(input_arena_bytes), int(output_arena_bytes), end)


def create_worker_chip_queue(
    exchange: Exchange, *, worker_id: int, depth: int, input_arena_bytes: int, output_arena_bytes: int
) -> WorkerChipQueue:
    """Return a queue with a worker's chip. Raises ValueError for an invalid depth or size."""
    layout = make_worker_chip_queue_layout(depth, input_arena_bytes, output_arena_bytes)
    return WorkerChipQueue(exchange.create(worker_id, layout.payload_bytes, layout.counter_bytes), layout)


class _Arena:
    """The memory of one direction's messages, each of which is contiguous. A cursor counts all bytes ever used, with
    those skipped at the arena's end."""

    def __init__(self, offset: int, nbytes: int) -> None:
        self.offset, self.nbytes = offset, nbytes

    def start(self, cursor: int, nbytes: int) -> int:
        """Return the cursor at which a message begins, at or after `cursor`."""
        left = self.nbytes - cursor % self.nbytes
        return cursor + left if nbytes > left else cursor

    def payload_offset(self, cursor: int) -> int:
        """Return the offset of a cursor in the payload."""
        return self.offset + cursor % self.nbytes


class WorkerChipQueue:
    """A queue between an orchestration and a chip: `input` is to the chip, `output` from it."""

    def __init__(self, region: WorkerChipOrchRegion, layout: WorkerChipQueueLayout) -> None:
        self.region, self.layout = region, layout
        self.input, self.output = _Input(self), _Output(self)
        self._released, self._gave_up = False, ""

    @property
    def magic_version(self) -> int:
        """Return the number by which the chip recognizes the scalars of a queue."""
        return worker_chip_queue_magic_version()

    def chip_task_arg_scalars(self) -> list[int]:
        """Return the twelve scalars that identify the queue to the chip's orchestration."""
        self.require_live()
        sizes = self.layout.input_arena_bytes, self.layout.output_arena_bytes, self.layout.payload_bytes
        descriptor = self.region.descriptor_scalars()
        return [*descriptor, self.magic_version, self.layout.depth, *sizes, self.layout.counter_bytes]

    def request_stop(self, timeout: float) -> None:
        """Tell the chip that no message follows. Raises TimeoutError if the ring stays full, and as `enqueue`."""
        self.input.send(WorkerChipQueueOpcode.STOP, timeout)

    def try_request_stop(self) -> bool:
        """As `request_stop`, without waiting; return False if the ring is full."""
        return self.input.try_send(WorkerChipQueueOpcode.STOP)

    def free(self) -> None:
        """Make the queue unusable at this end; the chip keeps it until it ends."""
        self._released = True
        self.region.free()

    def require_live(self) -> None:
        """Raise RuntimeError if the queue cannot be used."""
        if self._released:
            raise RuntimeError("the queue was already freed")
        if self._gave_up:
            raise RuntimeError(
                f"the queue cannot be used any more, because an earlier operation failed: {self._gave_up}"
            )
        self.region.require_live()

    def give_up(self, reason: str) -> RuntimeError:
        """Abort the queue and tell the chip; return the error to raise."""
        if not self._gave_up:
            self._gave_up = reason
            self.region.counter(self.layout.worker_abort_flag_offset).notify(1, NotifyOp.Set)
        return RuntimeError(f"the queue cannot be used any more: {reason}")

    def refresh(self, counter: int, value: int) -> int:
        """Return the current head or tail, whose lower half is in a counter. Raises RuntimeError."""
        seen = self.region.counter(counter).test(0, WaitCmp.EQ).observed
        more = (seen - value) % _COUNTER_VALUES
        if more > self.layout.depth:
            raise self.give_up(
                f"counter {counter} of the queue has the invalid value {seen}: it moved backwards or too far"
            )
        return value + more

    def tell(self, counter: int, value: int) -> None:
        """Write a head or tail to its counter, for the chip to read."""
        self.region.counter(counter).notify(value, NotifyOp.Set)

    def slot_offset(self, ring: int, count: int) -> int:
        """Return the offset of a descriptor; `count` is the number of messages before it."""
        return ring + (count & self.layout.depth - 1) * WORKER_CHIP_QUEUE_DESC_SLOT_BYTES

    def wait(self, attempt: Callable[[], Any], what: str, timeout: float) -> Any:
        """Call `attempt` until its result is true, and return that. Raises TimeoutError, or RuntimeError if the chip
        has aborted."""
        value = self.region.exchange.poll(attempt, timeout)
        if not value:
            if self.region.counter(self.layout.chip_abort_flag_offset).test(1, WaitCmp.GE).matched:
                self._gave_up = "the chip has given up (remote abort)"
                self.require_live()
            over = ", and the chip has ended" if self.region.exchange.is_idle else ""
            raise TimeoutError(f"{what} for {float(timeout):g} s{over}")
        return value


class _Input:
    """Messages to the chip."""

    def __init__(self, queue: WorkerChipQueue) -> None:
        self._queue, layout = queue, queue.layout
        self._arena = _Arena(layout.input_arena_offset, layout.input_arena_bytes)
        self._head = self._tail = 0  # released by the chip, sent
        self._released = self._cursor = 0  # released by the chip, sent, in bytes
        self._starts: list[tuple[int, int]] = []  # begin and size of messages that are not released
        self._stopped = False

    def enqueue(self, buffer_or_none: Any, nbytes: int, timeout: float) -> None:
        """Send bytes of the host, none for None.

        Raises ValueError for sizes that do not fit, and TimeoutError if there is no room within `timeout` seconds.
        Raises RuntimeError after a stop, for a freed queue and for a fault of the chip.
        """
        self.send(WorkerChipQueueOpcode.DATA, timeout, buffer_or_none, nbytes)

    def try_enqueue(self, buffer_or_none: Any, nbytes: int) -> bool:
        """As `enqueue`, without waiting; return False if there is no room, or after a stop."""
        return self.try_send(WorkerChipQueueOpcode.DATA, buffer_or_none, nbytes)

    def send(self, opcode: WorkerChipQueueOpcode, timeout: float, buffer: Any = None, nbytes: int = 0) -> None:
        """Send a message of any kind."""
        self._queue.require_live()
        if self._stopped:
            raise RuntimeError("the input of the queue was stopped, so nothing can be sent any more")
        room = self._arena.nbytes
        what = f"there was no room for a message of {int(nbytes)} bytes in the queue's input of {room} bytes"
        self._queue.wait(lambda: self.try_send(opcode, buffer, nbytes), what, timeout)

    def try_send(self, opcode: WorkerChipQueueOpcode, buffer: Any = None, nbytes: int = 0) -> bool:
        """As `send`, without waiting; return False if there is no room, or after a stop."""
        queue, layout = self._queue, self._queue.layout
        source = _source(buffer, int(nbytes))
        queue.require_live()
        size = 0 if source is None else source.nbytes
        if self._stopped or size > self._arena.nbytes:
            return False
        self._take_back()
        if self._tail - self._head >= layout.depth:
            return False
        start = self._arena.start(self._cursor, size) if size else self._cursor
        in_use = start - self._released if self._starts else 0
        if in_use + size > self._arena.nbytes:
            return False
        offset = self._arena.payload_offset(start) if size else 0
        if source is not None:
            queue.region.payload_write(offset, source)
        self._starts.append((start, size))
        self._cursor = start + size
        slot = queue.slot_offset(layout.input_desc_offset, self._tail)
        self._tail += 1
        queue.region.payload_write(slot, _SLOT.pack(self._tail, opcode, offset, size))
        queue.tell(layout.input_desc_tail_offset, self._tail)
        self._stopped = opcode == WorkerChipQueueOpcode.STOP
        return True

    def _take_back(self) -> None:
        """Update the number of messages that the chip has released, and free their bytes."""
        head = self._queue.refresh(self._queue.layout.input_desc_head_offset, self._head)
        if head > self._tail:
            raise self._queue.give_up("the chip released a message that was never sent")
        for start, size in self._starts[: head - self._head]:
            self._released = start + size
        del self._starts[: head - self._head]
        self._head = head


class _Output:
    """Messages from the chip."""

    def __init__(self, queue: WorkerChipQueue) -> None:
        self._queue, layout = queue, queue.layout
        self._arena = _Arena(layout.output_arena_offset, layout.output_arena_bytes)
        self._head = self._tail = 0  # released, sent by the chip
        self._cursor = 0  # after what was released, in bytes
        self._held: WorkerChipQueueMessage | None = None

    def peek(self, timeout: float) -> WorkerChipQueueMessage:
        """Return the next message, which stays the same until it is released. Raises TimeoutError after `timeout`
        seconds, and RuntimeError for a freed queue and for a fault of the chip."""
        message: WorkerChipQueueMessage = self._queue.wait(self.try_peek, "the chip sent no message", timeout)
        return message

    def try_peek(self) -> WorkerChipQueueMessage | None:
        """As `peek`, without waiting; return None if there is no message."""
        queue = self._queue
        queue.require_live()
        if self._held is not None:
            return self._held
        self._tail = queue.refresh(queue.layout.output_desc_tail_offset, self._tail)
        if self._tail != self._head:
            self._held = self._next()
        return self._held

    def _next(self) -> WorkerChipQueueMessage:
        queue, slot = self._queue, bytearray(_SLOT.size)
        queue.region.payload_read(queue.slot_offset(queue.layout.output_desc_offset, self._head), slot)
        seq, opcode, offset, nbytes = _SLOT.unpack(slot)
        expected = self._arena.payload_offset(self._arena.start(self._cursor, nbytes)) if nbytes else 0
        sent = WorkerChipQueueOpcode.DATA, WorkerChipQueueOpcode.ERROR
        if seq != self._head + 1 or opcode not in sent or nbytes > self._arena.nbytes or offset != expected:
            raise queue.give_up(
                f"the chip's message {self._head + 1} has an invalid description: {(seq, opcode, offset, nbytes)}"
            )
        return WorkerChipQueueMessage(seq, WorkerChipQueueOpcode(opcode), offset, nbytes)

    def read_into(self, handle: WorkerChipQueueMessage, buffer: Any) -> None:
        """Copy the peeked message to host memory; a message without bytes is read into None. Raises ValueError if the
        memory is too small, and RuntimeError for another message."""
        self._queue.require_live()
        if handle != self._held:
            raise RuntimeError("the queue's output: the message to release is not the message that was peeked")
        if handle.payload_nbytes:
            self._queue.region.payload_read(handle.payload_offset, buffer, handle.payload_nbytes)
        elif buffer is not None:
            raise ValueError("the queue's output: a message without bytes must be read into None")

    def release(self, handle: WorkerChipQueueMessage) -> None:
        """Release the peeked message, so that the chip can reuse its room.

        Aborts the queue and raises RuntimeError for any other message.
        """
        queue = self._queue
        queue.require_live()
        if self._held is None or handle != self._held:
            raise queue.give_up("a released message is not the message that was peeked")
        if handle.payload_nbytes:
            self._cursor = self._arena.start(self._cursor, handle.payload_nbytes) + handle.payload_nbytes
        self._head, self._held = self._head + 1, None
        queue.tell(queue.layout.output_desc_head_offset, self._head)

    def dequeue_into(self, buffer: Any, timeout: float) -> WorkerChipQueueMessage:
        """Peek, read and release a message."""
        handle = self.peek(timeout)
        self.read_into(handle, buffer)
        self.release(handle)
        return handle

    def try_dequeue_into(self, buffer: Any) -> WorkerChipQueueMessage | None:
        """As `dequeue_into`, without waiting; return None if there is no message."""
        handle = self.try_peek()
        if handle is not None:
            self.read_into(handle, buffer)
            self.release(handle)
        return handle


def _source(buffer: Any, nbytes: int) -> memoryview | None:
    """Return the bytes of a message. Raises ValueError for a size that does not fit."""
    if nbytes < 0 or (nbytes == 0) != (buffer is None):
        raise ValueError(
            f"the queue's input: nbytes={nbytes} does not fit the buffer, which is "
            f"{'nothing' if buffer is None else 'a buffer'}"
        )
    return None if buffer is None else host_bytes(buffer, nbytes)
