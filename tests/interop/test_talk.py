"""Orchestrations that talk with a chip while both run: regions and queues, without simpler."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from pypto_build.interop.scene.queues import WorkerChipQueue, WorkerChipQueueOpcode, create_worker_chip_queue
from pypto_build.interop.scene.regions import Exchange, NotifyOp, WaitCmp
from tests.interop.test_scenes import Workspace, _command, _family, lines

PYTEST = ("-p", "no:cacheprovider", "-p", "no:randomly", "-v", "-p", "a2a3sim")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, runtime: Path) -> Workspace:
    return Workspace(tmp_path_factory.mktemp("scenes"))


def test_talks(workspace: Workspace) -> None:
    """Run the tests of check_talk.py, which check the results themselves."""
    run = workspace.run("scenes/check_talk.py", *PYTEST, tool="pytest")
    assert run.returncode == 0 and "23 passed, 1 skipped" in run.stdout, run.stdout
    assert not list(Path("/dev/shm").glob("pypto-regions*"))
    alone = sorted((workspace.root / "build" / "scenes").glob("node.talk-*"))[0]
    again = workspace.run("replay", str(alone), "-p", "a2a3sim", "ALLOW_UNCHECKED=1")
    message = "the chips share memory with the program that starts them, and it is not there; start the replay from"
    assert again.returncode == 2 and message in again.stdout and "Traceback" not in again.stdout, again.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_host_that_is_killed_leaves_nothing(workspace: Workspace, number: signal.Signals) -> None:
    talking, before = workspace.root / "talking", _shared()
    talking.unlink(missing_ok=True)
    words = ["scenes/check_talk.py", *PYTEST, "-k", "without_end", "--manual", "include"]
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", *words], cwd=workspace.root, env=workspace.variables, stdout=subprocess.DEVNULL
    ) as run:
        limit = time.monotonic() + 120
        while not talking.exists():
            assert run.poll() is None and time.monotonic() < limit
            time.sleep(0.02)
        family = _family(run.pid)
        run.send_signal(number)
        assert run.wait() == -number
    while any(map(_command, family)) and time.monotonic() < limit:
        time.sleep(0.02)
    assert len(family) > 4 and not any(map(_command, family))
    while (left := _shared() - before) and time.monotonic() < limit:  # what other tests have there goes by itself
        time.sleep(0.02)
    assert left == set()


def _shared() -> set[str]:
    """Return the names of this package's objects in shared memory."""
    return {name for name in os.listdir("/dev/shm") if "pypto" in name}


def test_a_class_whose_orchestration_is_recorded(workspace: Workspace) -> None:
    region = "orch.create_worker_chip_region(worker_id=0, payload_bytes=64, counter_bytes=4)"
    workspace.edit("scene_relay.py", "callables.double", region)
    run = workspace.run("scene", "scenes/scene_relay.py", "-p", "a2a3sim", "--case", "TestRelay::small")
    workspace.edit("scene_relay.py", region, "callables.double")
    reason = "it uses shared memory of host and chips, which a test must create while it runs, which needs simpler"
    assert lines(run.stdout) == [f"TestRelay::small SKIPPED: {reason}"], run.stdout


class _Chips:
    """A stand-in for chips that take a while to begin, and end at once."""

    is_over = True

    def finish(self, limit_s: float | None = None) -> None:
        pass

    def end(self) -> None:
        pass


class _Submitted:
    """A stand-in for submitted work, which starts after `seconds`."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.is_empty, self._seconds = not seconds, seconds

    def start(self, variables: Mapping[str, str]) -> _Chips:
        assert Path(variables["PYPTO_REGIONS"]).stat().st_size % 4096 == 0
        self.is_empty = True
        time.sleep(self._seconds)
        return _Chips()


def test_compiling_is_no_part_of_a_wait() -> None:
    exchange = Exchange(_Submitted(0.3))
    counter = exchange.create(0, 64, 64).counter(0)
    begun = time.monotonic()
    with pytest.raises(TimeoutError, match=r"counter 0 was waited for to be >= 1 for 0\.2 s; observed=-3"):
        counter.notify(-3, NotifyOp.Add)
        counter.wait(1, WaitCmp.GE, timeout=0.2)
    assert time.monotonic() - begun >= 0.5
    exchange.close()


def test_nothing_is_left_of_an_exchange() -> None:
    before = set(os.listdir("/proc/self/fd"))
    exchange = Exchange(_Submitted())
    exchange.create(0, 5000, 64).payload_write(4990, b"0123456789")
    exchange.close()
    assert len(os.listdir("/proc/self/fd")) <= len(before) + 3  # mapped files have descriptors until they are collected


def _queue(depth: int = 2, sizes: tuple[int, int] = (128, 64)) -> WorkerChipQueue:
    exchange = Exchange(_Submitted())
    return create_worker_chip_queue(
        exchange, worker_id=0, depth=depth, input_arena_bytes=sizes[0], output_arena_bytes=sizes[1]
    )


def test_where_messages_lie() -> None:
    """Check the layout that the chip's end expects: messages are contiguous, and an arena is empty after all are
    released."""
    queue = _queue()
    payload, descriptors = queue.region.payload.memory, []

    def release(count: int) -> None:
        queue.region.counter(queue.layout.input_desc_head_offset).notify(count)

    assert queue.input.try_enqueue(b"a" * 80, 80) and not queue.input.try_enqueue(b"b" * 64, 64)
    release(1)
    assert queue.input.try_enqueue(b"b" * 128, 128)  # it begins at the arena's start, where all is free
    assert not queue.input.try_enqueue(b"c", 1)
    release(2)
    assert queue.input.try_enqueue(b"c" * 60, 60) and queue.input.try_enqueue(b"d" * 60, 60)
    release(3)
    assert queue.input.try_enqueue(b"e" * 60, 60) and not queue.try_request_stop()
    for count in (4, 5):
        at = (count - 1) % 2 * 32
        descriptors.append([int.from_bytes(payload[at + 8 * i : at + 8 * i + 8], "little") for i in range(4)])
    data = WorkerChipQueueOpcode.DATA
    assert descriptors == [[4, data, 128 + 60, 60], [5, data, 128, 60]]
    assert bytes(payload[128:188]) == b"e" * 60 and bytes(payload[188:248]) == b"d" * 60


@pytest.mark.parametrize(
    "slot, message",
    [
        ((2, 1, 256, 8), r"the chip's message 1 has an invalid description: \(2, 1, 256, 8\)"),
        ((1, 2, 0, 0), "the chip's message 1 has"),  # STOP is the host's
        ((1, 9, 0, 0), "the chip's message 1 has"),
        ((1, 1, 257, 8), "the chip's message 1 has"),
        ((1, 1, 256, 65), "the chip's message 1 has"),
        ((1, 1, 8, 0), "the chip's message 1 has"),
    ],
)
def test_descriptors_that_make_no_sense(slot: tuple[int, ...], message: str) -> None:
    queue = _queue()
    for index, value in enumerate(slot):
        queue.region.payload_write(64 + 8 * index, value.to_bytes(8, "little"))
    queue.region.counter(queue.layout.output_desc_tail_offset).notify(1)
    with pytest.raises(RuntimeError, match=message):
        queue.output.try_peek()
    assert queue.region.counter(queue.layout.worker_abort_flag_offset).test(1, WaitCmp.EQ).matched
    with pytest.raises(
        RuntimeError,
        match=("the queue cannot be used any more, because an earlier operation failed: the chip's message 1"),
    ):
        queue.request_stop(timeout=1)


def test_counters_that_make_no_sense() -> None:
    for value in (3, -1):
        queue = _queue()
        queue.region.counter(queue.layout.output_desc_tail_offset).notify(value)
        with pytest.raises(RuntimeError, match=f"counter 128 of the queue has the invalid value {value}"):
            queue.output.peek(timeout=1)
    queue = _queue()
    queue.region.counter(queue.layout.input_desc_head_offset).notify(1)
    with pytest.raises(RuntimeError, match="the chip released a message that was never sent"):
        queue.input.try_enqueue(None, 0)


def test_a_chip_that_has_given_up() -> None:
    queue = _queue()
    queue.region.counter(queue.layout.chip_abort_flag_offset).notify(1)
    with pytest.raises(RuntimeError, match=r"the chip has given up \(remote abort\)"):
        queue.output.peek(timeout=0.05)


def test_buffers_of_a_message() -> None:
    queue = _queue()
    for buffer, nbytes in ((b"1", 2), (b"1", -1), (None, 1), (b"1", 0)):
        with pytest.raises(ValueError, match="nbytes="):
            queue.input.try_enqueue(buffer, nbytes)
    with pytest.raises(ValueError, match="must be a positive number of seconds, but is -1"):
        queue.input.enqueue(b"1", 1, timeout=-1)
