"""Regions: memory that an orchestration and the chips that it has started share while both run.

A region has payload bytes, and 32-bit counters by which both ends report their progress. Methods and names are those of
simpler's interface.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass
from enum import IntEnum
from typing import Any, Protocol, TypeVar

from pypto_build.facts.comparisons import COMPARISONS, holds
from pypto_build.facts.run_options import REGIONS
from pypto_build.interop.scene.arguments import Buffer, bytes_of
from pypto_build.replay.chips.memory import ADDRESS, BEGUN, PAGE, round_up

WORKER_CHIP_ORCH_COMM_MAGIC = 0x4C334C32
WORKER_CHIP_ORCH_COMM_ABI_MAJOR = 3
WORKER_CHIP_ORCH_COMM_ABI_MINOR = 0
_VERSION = WORKER_CHIP_ORCH_COMM_ABI_MAJOR << 16 | WORKER_CHIP_ORCH_COMM_ABI_MINOR
_COUNTER_BYTES = 4
_SHORTEST_S, _LONGEST_S = 2e-5, 1e-3  # between two looks

Polled = TypeVar("Polled")


class NotifyOp(IntEnum):
    """An operation on a counter."""

    Set = 0
    Add = 1


class WaitCmp(IntEnum):
    """A comparison of a counter."""

    EQ = 0
    NE = 1
    GT = 2
    GE = 3
    LT = 4
    LE = 5


@dataclass(frozen=True)
class SignalTestResult:
    """The result of one test of a counter."""

    matched: bool
    observed: int


@dataclass(frozen=True)
class WorkerChipOrchRegionDesc:
    """A region in the chip's form: sizes in bytes, addresses in the chip's process."""

    magic_version: int
    region_id: int
    payload_base: int
    payload_bytes: int
    counter_base: int
    counter_bytes: int

    def scalars(self) -> list[int]:
        """Return the same as scalars of a dispatch."""
        return list(astuple(self))


class Chips(Protocol):
    """The chips that run submitted work."""

    @property
    def is_over(self) -> bool:
        """Return whether they have ended."""

    def finish(self, limit_s: float | None = None) -> object:
        """Wait for the chips to end. Raises RuntimeError for a fault, TimeoutError."""

    def end(self) -> object:
        """End the chips at any point."""


class Submissions(Protocol):
    """The submissions of an orchestration."""

    @property
    def is_empty(self) -> bool:
        """Return whether all submissions have been started."""

    def start(self, variables: Mapping[str, str]) -> Chips:
        """Start all new submissions, with more variables in their environment."""


class Exchange:
    """The regions of an orchestration, and the chips that it communicates with.

    Submitted work starts when the orchestration first reads from a region, and runs while the orchestration goes on.
    """

    #: The time limit of chips after the orchestration has returned, or when it starts other work.
    patience_s = 60.0

    def __init__(self, submissions: Submissions) -> None:
        self.regions: list[WorkerChipOrchRegion] = []
        self.is_over = False
        self._submissions = submissions
        self._chips: Chips | None = None
        self._file, self._size = -1, PAGE
        self._begun: mmap.mmap | None = None

    def create(self, worker: int, payload_bytes: int, counter_bytes: int) -> WorkerChipOrchRegion:
        """Return a zeroed region. Raises ValueError for an invalid size."""
        if payload_bytes <= 0:
            raise ValueError(f"create_worker_chip_region: payload_bytes must be positive, but is {payload_bytes}")
        if counter_bytes <= 0 or counter_bytes % _COUNTER_BYTES:
            raise ValueError(
                f"create_worker_chip_region: counter_bytes must be a positive multiple of 4, but is {counter_bytes}"
            )
        spans = self._take(payload_bytes), self._take(counter_bytes)
        self.regions.append(WorkerChipOrchRegion(self, len(self.regions) + 1, worker, *spans))
        return self.regions[-1]

    def _take(self, nbytes: int) -> Span:
        """Reserve pages for a span, followed by an unused page."""
        if self._file < 0:
            self._file = os.memfd_create("pypto-regions")
            os.truncate(self._file, PAGE)
            self._begun = mmap.mmap(self._file, PAGE)
        offset, size = self._size, round_up(nbytes, PAGE)
        self._size += size + PAGE
        os.truncate(self._file, self._size)
        return Span(offset, nbytes, mmap.mmap(self._file, size, offset=offset))

    def check(self) -> None:
        """Start submitted work, and raise RuntimeError for a fault in it. The orchestration calls this before it reads
        data that a chip may have written."""
        self._launch()
        if self._chips is not None and self._chips.is_over:
            self._end_chips()

    def poll(self, attempt: Callable[[], Polled | None], timeout: float) -> Polled | None:
        """Call `attempt` until its result is true, at least once and for at most `timeout` seconds; return that
        result. The time begins after submitted work has been started. Raises ValueError for an invalid timeout, and
        as `check`."""
        if timeout is None or not float(timeout) > 0:
            raise ValueError(f"the timeout of a wait must be a positive number of seconds, but is {timeout}")
        self.check()
        end, pause = time.monotonic() + float(timeout), _SHORTEST_S
        while not (value := attempt()) and (left := end - time.monotonic()) > 0:
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_S)
        return value or None

    def finish(self) -> None:
        """Wait for the chips to end, after the orchestration has returned. Raises RuntimeError for a fault."""
        self._launch()
        self._end_chips()

    def close(self) -> None:
        """End all running chips. Regions cannot be used any more."""
        self.is_over = True
        if self._chips is not None:
            self._chips.end()
            self._chips = None
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    @property
    def is_idle(self) -> bool:
        """Return whether no chip runs."""
        return self._chips is None

    def _launch(self) -> None:
        """Start submitted work after the previous work has finished."""
        if self._submissions.is_empty:
            return
        self._end_chips()
        if self._begun is None:
            self._chips = self._submissions.start({})
            return
        self._begun[: len(BEGUN)] = bytes(len(BEGUN))
        self._chips = self._submissions.start({REGIONS: f"/proc/{os.getpid()}/fd/{self._file}"})
        while self._begun[: len(BEGUN)] != BEGUN and not self._chips.is_over:  # compiling is no part of a wait's time
            time.sleep(_LONGEST_S)

    def _end_chips(self) -> None:
        chips, self._chips = self._chips, None
        if chips is None:
            return
        try:
            chips.finish(self.patience_s if self.regions else None)
        except TimeoutError as error:
            raise RuntimeError(f"{error}: one of their orchestrations waits or does not return") from None


@dataclass(frozen=True)
class Span:
    """A part of the file of an exchange: `nbytes` from `offset` on."""

    offset: int
    nbytes: int
    memory: mmap.mmap

    def part(self, what: str, offset: int, nbytes: int) -> memoryview:
        """Return some of its bytes. Raises ValueError for bytes outside of it."""
        if offset < 0 or nbytes <= 0 or offset + nbytes > self.nbytes:
            raise ValueError(
                f"{what}: bytes {offset} to {offset + nbytes} are outside of the payload of {self.nbytes} bytes"
            )
        return memoryview(self.memory)[offset : offset + nbytes]


class WorkerChipOrchRegion:
    """A region that a worker's chip and the orchestration share."""

    def __init__(self, exchange: Exchange, number: int, worker: int, payload: Span, counters: Span) -> None:
        self.payload, self.counters, self.worker = payload, counters, worker
        self.exchange, self._released = exchange, False
        self.descriptor = WorkerChipOrchRegionDesc(
            WORKER_CHIP_ORCH_COMM_MAGIC << 32 | _VERSION,
            number,
            ADDRESS + payload.offset,
            payload.nbytes,
            ADDRESS + counters.offset,
            counters.nbytes,
        )

    def __str__(self) -> str:
        return f"region {self.region_id} of worker {self.worker}"

    @property
    def region_id(self) -> int:
        """Return its number, from 1 on."""
        return self.descriptor.region_id

    @property
    def expired(self) -> bool:
        """Return whether the orchestration that made it has ended."""
        return self.exchange.is_over

    def descriptor_scalars(self) -> list[int]:
        """Return the six scalars that identify the region to the chip's orchestration."""
        self.require_live()
        return self.descriptor.scalars()

    def payload_write(self, offset: int, host_buffer: Any, nbytes: int | None = None) -> None:
        """Copy host bytes (all of them without `nbytes`) to the payload. Raises ValueError for sizes that do not
        fit."""
        self.require_live()
        source = host_bytes(host_buffer, nbytes)
        self.payload.part("payload_write", int(offset), source.nbytes)[:] = source

    def payload_read(self, offset: int, host_buffer: Any, nbytes: int | None = None) -> None:
        """Copy payload bytes to the host. Raises ValueError for sizes that do not fit, and as `Exchange.look` does."""
        self.require_live()
        target = host_bytes(host_buffer, nbytes)
        if target.readonly:
            raise ValueError("payload_read: the host's buffer cannot be written")
        source = self.payload.part("payload_read", int(offset), target.nbytes)
        self.exchange.check()
        target[:] = source

    def counter(self, offset: int) -> WorkerChipOrchCounter:
        """Return the counter that begins `offset` bytes after the first. Raises ValueError for an invalid offset."""
        self.require_live()
        offset = int(offset)
        if offset < 0 or offset % _COUNTER_BYTES or offset + _COUNTER_BYTES > self.counters.nbytes:
            raise ValueError(
                f"{self}: offset {offset} is not a counter; counters are at multiples of 4 below {self.counters.nbytes}"
            )
        return WorkerChipOrchCounter(self, offset)

    def free(self) -> None:
        """Make the region unusable here; chips keep it until they end."""
        self._released = True

    def require_live(self) -> None:
        """Raise RuntimeError if the region is freed, or its orchestration has ended."""
        if self.expired or self._released:
            raise RuntimeError(f"{self} {'is freed' if self._released else 'ended with its orchestration'}")


class WorkerChipOrchCounter:
    """A signed counter of 32 bits."""

    def __init__(self, region: WorkerChipOrchRegion, offset: int) -> None:
        self._region, self.offset = region, offset
        self._cell = ctypes.c_int32.from_buffer(region.counters.memory, offset)

    @property
    def addr(self) -> int:
        """Return its address in the chip's process."""
        return self._region.descriptor.counter_base + self.offset

    def notify(self, value: int, op: NotifyOp = NotifyOp.Set) -> None:
        """Set the counter, or add to it; the addition is not atomic."""
        self._region.require_live()
        self._cell.value = int(value) + (self._cell.value if NotifyOp(op) == NotifyOp.Add else 0)

    def test(self, cmp_value: int, cmp: WaitCmp) -> SignalTestResult:
        """Compare the counter once. Raises as `Exchange.look`."""
        self._region.require_live()
        self._region.exchange.check()
        return self._test_once(cmp_value, cmp)

    def _test_once(self, cmp_value: int, cmp: WaitCmp) -> SignalTestResult:
        observed = self._cell.value
        return SignalTestResult(holds(observed, ctypes.c_int32(int(cmp_value)).value, WaitCmp(cmp)), observed)

    def wait(self, cmp_value: int, cmp: WaitCmp, timeout: float) -> int:
        """Test the counter until it matches, for at most `timeout` seconds; return its value. Raises TimeoutError, and
        as `test`."""
        self._region.require_live()

        def matching() -> SignalTestResult | None:
            seen = self.test(cmp_value, cmp)
            return seen if seen.matched else None

        last = self._region.exchange.poll(matching, timeout) or self._test_once(cmp_value, cmp)
        if last.matched:
            return last.observed
        over = ", and the chip has ended" if self._region.exchange.is_idle else ""
        raise TimeoutError(
            f"{self._region}: counter {self.offset} was waited for to be {COMPARISONS[WaitCmp(cmp)]} {int(cmp_value)} "
            f"for {float(timeout):g} s; observed={last.observed}{over}"
        )


def host_bytes(buffer: Any, nbytes: int | None) -> memoryview:
    """Return the first bytes of host memory. Raises ValueError for an object without memory, or with too little."""
    if hasattr(buffer, "data_ptr") and not buffer.is_contiguous():
        raise ValueError("the tensor is not contiguous")
    try:
        data = buffer.memory if isinstance(buffer, Buffer) else bytes_of(buffer)
    except TypeError:
        raise ValueError(f"{type(buffer).__name__} is not contiguous memory of the host") from None
    size = data.nbytes if nbytes is None else int(nbytes)
    if size > data.nbytes:
        raise ValueError(f"nbytes={size} is larger than the buffer of {data.nbytes} bytes")
    return data[:size]
