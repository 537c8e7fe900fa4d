"""Tests whose orchestration talks with a chip while both run: by a region, and by a queue of messages."""

import os
import struct
import time

import pytest
import torch
from simpler.task_interface import ArgDirection as D
from simpler.task_interface import CallConfig, ChipCallable, CoreCallable, DataType, TaskArgs
from simpler.worker import Worker
from simpler.worker_chip_message_queue import WorkerChipQueueOpcode, make_worker_chip_queue_layout
from simpler.worker_chip_orch_comm import NotifyOp, WaitCmp
from simpler_setup.kernel_compiler import KernelCompiler

KERNELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernels")
RUNTIME = "tensormap_and_ringbuffer"
DOUBLE, LEAVE, REPORT, CRASH, READ_OUTSIDE, WRITE_BEHIND, SAY_NOTHING, BREAK_KERNEL, LET_FAIL = range(1, 10)
ECHO, RELEASE_TWICE, PUBLISH_WHAT_IS_NOT, SEND_STOP, KEEP_QUIET, LOOK_FOR_TOO_MANY = range(6)
LONG = 60  # seconds, for what is to come


def run(orchestration, name="talk.cpp", chips=1):
    compiler = KernelCompiler(platform="a2a3sim")
    children = [
        (func_id, CoreCallable.build([D.INOUT], compiler.compile_incore(os.path.join(KERNELS, kernel), "aiv")))
        for func_id, kernel in ((5, "breaks.cpp"), (7, "twice.cpp"), (9, "throws.cpp"))
    ]
    binary = compiler.compile_orchestration(RUNTIME, os.path.join(KERNELS, name))
    worker = Worker(level=3, platform="a2a3sim", runtime=RUNTIME, device_ids=list(range(chips)))
    handle = worker.register(ChipCallable.build([], "aicpu_orchestration_entry", binary, children))
    worker.init()
    worker.run(lambda orch, args, config: orchestration(orch, handle, config), None, CallConfig())
    worker.close()


def until_ended(wait):
    """Return the message of a timed-out wait after the chip has ended."""
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        with pytest.raises(TimeoutError) as caught:
            wait()
        if (message := str(caught.value)).endswith(", and the chip has ended"):
            return message
    raise AssertionError("the chip did not end")


class Talk:
    """A region for requests to a chip."""

    def __init__(self, orch, worker=0):
        self.orch, self.worker, self.questions, self.answers = orch, worker, 0, 0
        self.region = orch.create_worker_chip_region(worker_id=worker, payload_bytes=128, counter_bytes=128)
        self.asked, self.answered = self.region.counter(0), self.region.counter(64)
        self.words, self.numbers = orch.alloc([1], DataType.INT64), orch.alloc((16,), DataType.FLOAT32)

    def submit(self, handle, config, scalars=6, patience_s=LONG):
        args = TaskArgs()
        for value in self.region.descriptor_scalars():
            args.add_scalar(int(value))
        args.add_scalar(scalars)
        args.add_scalar(int(patience_s * 1e9))
        self.asked.notify(0)
        self.answered.notify(0, NotifyOp.Set)
        self.questions = self.answers = 0
        self.orch.submit_next_level(handle, args, config, worker=self.worker)

    def ask(self, wish, numbers=None):
        struct.pack_into("<q", self.words.shm.buf, 0, wish)
        self.region.payload_write(0, self.words)
        if numbers is not None:
            self.region.payload_write(64, numbers)
        self.questions += 1
        self.asked.notify(1, NotifyOp.Add)

    def answer(self, timeout=LONG):
        self.answers += 1
        assert self.answered.wait(self.answers, WaitCmp.GE, timeout=timeout) == self.answers
        self.region.payload_read(64, self.numbers, nbytes=64)
        return struct.unpack("<16f", bytes(self.numbers.shm.buf[:64]))


def test_questions_and_answers():
    def orchestration(orch, handle, config):
        talk = Talk(orch)
        talk.submit(handle, config)
        seen = talk.answered.test(1, WaitCmp.GE)
        assert not seen.matched and seen.observed == 0
        for number in range(4):
            values = torch.arange(16, dtype=torch.float32) + number
            talk.ask(DOUBLE, values)
            assert talk.answer() == tuple((2 * values).tolist())
            time.sleep(0.4 * (number == 1))
        assert [bool(talk.answered.test(4, comparison).matched) for comparison in WaitCmp] == [
            *(True, False, False, True, False, True)
        ]
        talk.ask(LEAVE)
        talk.region.free()
        talk.region.free()
        for use in (talk.region.descriptor_scalars, lambda: talk.ask(LEAVE), lambda: talk.answered.test(1, WaitCmp.GE)):
            with pytest.raises(RuntimeError, match=r"^region 1 of worker 0 is freed$"):
                use()
        kept.append(orch.create_worker_chip_region(worker_id=0, payload_bytes=1, counter_bytes=4))

    kept = []
    run(orchestration)
    with pytest.raises(RuntimeError, match=r"^region 2 of worker 0 ended with its orchestration$"):
        kept[0].payload_write(0, b"1")


def test_one_region_for_several_dispatches_and_chips():
    def orchestration(orch, handle, config):
        talks = [Talk(orch, worker) for worker in range(2)]
        for _ in range(2):
            for talk in talks:
                talk.submit(handle, config)
            for number, talk in enumerate(talks):
                talk.ask(DOUBLE, torch.full((16,), float(number)))
            for number, talk in enumerate(talks):
                assert talk.answer() == (2.0 * number,) * 16
                talk.ask(LEAVE)
                talk.answer()

    run(orchestration, chips=2)


@pytest.mark.parametrize(
    "wish, message",
    [
        (REPORT, r"run failed with code -9: .*'talk'.*no rows left"),
        (CRASH, r"run failed: .*orchestration crashed.*SIGSEGV"),
        (BREAK_KERNEL, r"run failed: .*kernel 'breaks_5' crashed.*SIGSEGV"),
        (LET_FAIL, r"run failed: .*kernel 'throws_9' throws an exception that nothing catches"),
        (WRITE_BEHIND, r"run failed: .*orchestration crashed.*SIGSEGV.*0x2"),
        (
            READ_OUTSIDE,
            r"run failed with code -9: .*payload_read kind=2 region=1 .*: the bytes are not within the payload",
        ),
    ],
)
def test_a_chip_that_fails(wish, message):
    def orchestration(orch, handle, config):
        talk = Talk(orch)
        talk.submit(handle, config)
        talk.ask(wish, torch.zeros(16))
        talk.answer(3600)
        talk.answer(3600)

    with pytest.raises(RuntimeError, match=message) as caught:
        run(orchestration)
    assert "\n" not in str(caught.value)


def test_a_chip_that_does_not_compile(tmp_path):
    with open(os.path.join(KERNELS, "talk.cpp")) as file:
        text = file.read()
    (tmp_path / "wrong.cpp").write_text(text + "int more = nothing;\n")

    def orchestration(orch, handle, config):
        talk = Talk(orch)
        talk.submit(handle, config)
        talk.answer(timeout=3600)

    with pytest.raises(
        RuntimeError, match=r"^run failed: .*wrong\.cpp:\d+:12: error: .nothing. was not declared"
    ) as caught:
        run(orchestration, str(tmp_path / "wrong.cpp"))
    assert "\n" not in str(caught.value)


def test_a_chip_that_never_answers():
    def orchestration(orch, handle, config):
        talk = Talk(orch)
        talk.submit(handle, config)
        talk.ask(DOUBLE)
        talk.answer()
        talk.ask(SAY_NOTHING)
        begun = time.monotonic()
        message = r"^region 1 of worker 0: counter 64 was waited for to be >= 2 for 0\.25 s; observed=1$"
        with pytest.raises(TimeoutError, match=message):
            talk.answer(0.25)
        assert 0.25 <= time.monotonic() - begun < 10
        raise KeyError("of the orchestration itself")

    with pytest.raises(KeyError):
        run(orchestration)


def test_a_host_that_never_asks():
    def orchestration(orch, handle, config):
        Talk(orch).submit(handle, config, patience_s=0.5)

    message = (
        r"^run failed with code -9: .*signal_wait kind=3 region=1 at=0 operand=1 observed=0: the host did not answer"
    )
    with pytest.raises(RuntimeError, match=message):
        run(orchestration)


def test_a_wait_for_a_chip_that_has_ended():
    def orchestration(orch, handle, config):
        talk = Talk(orch)
        talk.submit(handle, config)
        talk.ask(LEAVE)
        talk.answer()
        assert "observed=1" in until_ended(lambda: talk.answered.wait(2, WaitCmp.GE, timeout=0.1))

    run(orchestration)


def test_scalars_that_are_no_region():
    def orchestration(orch, handle, config):
        Talk(orch).submit(handle, config, scalars=5)

    with pytest.raises(RuntimeError, match=r"init kind=1 region=0 .*: the scalars describe no region"):
        run(orchestration)


def test_sizes_that_do_not_fit():
    def orchestration(orch, handle, config):
        region = orch.create_worker_chip_region(worker_id=0, payload_bytes=100, counter_bytes=8)
        read_only, counter = b"0123", region.counter(4)
        for message, use in {
            "worker_id=1: is not a chip; the 1 chips": lambda: orch.create_worker_chip_region(
                worker_id=1, payload_bytes=1, counter_bytes=4
            ),
            "payload_bytes must be positive, but is 0": lambda: orch.create_worker_chip_region(
                worker_id=0, payload_bytes=0, counter_bytes=4
            ),
            ("counter_bytes must be a positive multiple of 4, but is 6"): lambda: orch.create_worker_chip_region(
                worker_id=0, payload_bytes=1, counter_bytes=6
            ),
            "bytes 98 to 102 are outside of the payload of 100 bytes": lambda: region.payload_write(98, read_only),
            "bytes -1 to 3": lambda: region.payload_read(-1, bytearray(4)),
            "nbytes=5 is larger than the buffer of 4 bytes": lambda: region.payload_write(0, read_only, nbytes=5),
            "cannot be written": lambda: region.payload_read(0, read_only),
            "int is not contiguous memory": lambda: region.payload_write(0, 3),
            "the tensor is not contiguous": lambda: region.payload_write(0, torch.zeros(2, 2).T),
            "offset 8 is not a counter": lambda: region.counter(8),
            "offset 2 is not a counter": lambda: region.counter(2),
            "must be a positive number of seconds, but is 0": lambda: counter.wait(1, WaitCmp.GE, timeout=0),
            "9 is not a valid WaitCmp": lambda: counter.test(1, 9),
            "7 is not a valid NotifyOp": lambda: counter.notify(1, 7),
        }.items():
            with pytest.raises(ValueError, match=message):
                use()
        region.payload_write(96, read_only)
        back = bytearray(4)
        region.payload_read(96, back)
        assert back == read_only

    run(orchestration)


def queue_of(orch, handle, config, mode, depth=4, sizes=(256, 192), patience_s=LONG):
    """A queue with a chip that does what `mode` says."""
    queue = orch.create_worker_chip_queue(
        worker_id=0, depth=depth, input_arena_bytes=sizes[0], output_arena_bytes=sizes[1]
    )
    args = TaskArgs()
    for value in [*queue.chip_task_arg_scalars(), mode, patience_s * 1000000000]:
        args.add_scalar(int(value))
    orch.submit_next_level(handle, args, config, worker=0)
    return queue


@pytest.mark.parametrize("depth, sizes, mode", [(4, (256, 192), ECHO), (2, (192, 192), LOOK_FOR_TOO_MANY)])
def test_many_messages(depth, sizes, mode):
    """Rings and arenas come round many times; neither side is ahead of the other for long."""
    messages = [bytes((7 * number + i) % 256 for i in range(37 * number % 193)) for number in range(300)]

    def orchestration(orch, handle, config):
        queue, sent, came = queue_of(orch, handle, config, mode, depth, sizes), 0, 0
        while came < len(messages):
            while sent < len(messages) and queue.input.try_enqueue(messages[sent] or None, len(messages[sent])):
                sent += 1
            message = queue.output.peek(timeout=LONG)
            assert queue.output.try_peek() == message and message.seq == came + 1
            assert message.payload_nbytes == len(messages[came])
            kind = WorkerChipQueueOpcode.DATA if messages[came] else WorkerChipQueueOpcode.ERROR
            assert message.opcode == kind
            answer = bytearray(message.payload_nbytes)
            queue.output.read_into(message, answer or None)
            assert answer == bytes((byte + 1) % 256 for byte in messages[came])
            queue.output.release(message)
            came += 1
        assert queue.try_request_stop() and not queue.try_request_stop()
        assert queue.output.try_dequeue_into(None) is None

    run(orchestration, "talk_queue.cpp")


def test_stop_and_free():
    def orchestration(orch, handle, config):
        queue = queue_of(orch, handle, config, ECHO)
        queue.input.enqueue(b"abc", nbytes=3, timeout=LONG)
        queue.request_stop(timeout=LONG)
        assert not queue.input.try_enqueue(b"d", 1)
        for again in (lambda: queue.input.enqueue(b"d", 1, LONG), lambda: queue.request_stop(LONG)):
            with pytest.raises(RuntimeError, match="the input of the queue was stopped"):
                again()
        answer = bytearray(3)
        message = queue.output.dequeue_into(answer, timeout=LONG)
        assert answer == b"bcd" and (message.seq, message.payload_nbytes) == (1, 3)
        with pytest.raises(RuntimeError, match="not the message that was peeked"):
            queue.output.read_into(message, answer)
        queue.free()
        queue.free()
        for use in (queue.chip_task_arg_scalars, queue.output.try_peek, lambda: queue.input.enqueue(b"d", 1, LONG)):
            with pytest.raises(RuntimeError, match=r"^the queue was already freed$"):
                use()

    run(orchestration, "talk_queue.cpp")


def test_nobody_answers_a_queue():
    def orchestration(orch, handle, config):
        queue = queue_of(orch, handle, config, KEEP_QUIET)
        queue.input.enqueue(b"abc", nbytes=3, timeout=LONG)
        begun = time.monotonic()
        with pytest.raises(TimeoutError, match=r"^the chip sent no message for 0\.25 s$"):
            queue.output.peek(timeout=0.25)
        assert 0.25 <= time.monotonic() - begun < 10
        with pytest.raises(TimeoutError, match=r"^there was no room for a message of 257 bytes in the queue's input"):
            queue.input.enqueue(bytes(257), nbytes=257, timeout=0.1)
        queue.request_stop(timeout=LONG)
        assert "the chip sent no message" in until_ended(lambda: queue.output.peek(timeout=0.1))

    run(orchestration, "talk_queue.cpp")


@pytest.mark.parametrize(
    "mode, message",
    [
        (RELEASE_TWICE, r"input\.release kind=5 region=1: this message is not held"),
        (PUBLISH_WHAT_IS_NOT, r"output\.publish kind=5 region=1: this room is not reserved"),
        (SEND_STOP, r"output\.publish kind=3 region=1: a chip sends DATA or ERROR"),
    ],
)
def test_a_chip_that_misuses_a_queue(mode, message):
    def orchestration(orch, handle, config):
        queue = queue_of(orch, handle, config, mode)
        for _ in range(2):
            queue.input.enqueue(b"abc", nbytes=3, timeout=LONG)
            queue.output.dequeue_into(bytearray(3), timeout=LONG)
        queue.output.peek(timeout=LONG)

    with pytest.raises(RuntimeError, match=f"run failed with code -9: .*{message}"):
        run(orchestration, "talk_queue.cpp")


def test_a_host_that_gives_up():
    def orchestration(orch, handle, config):
        queue = queue_of(orch, handle, config, ECHO, patience_s=3)
        queue.input.enqueue(b"abc", nbytes=3, timeout=LONG)
        message = queue.output.peek(timeout=LONG)
        queue.output.release(message)
        for error, use in (
            ("a released message is not the message that was peeked", lambda: queue.output.release(message)),
            (
                "the queue cannot be used any more, because an earlier operation failed: a released message",
                lambda: queue.output.try_peek(),
            ),
        ):
            with pytest.raises(RuntimeError, match=error):
                use()

    with pytest.raises(RuntimeError, match=r"timeout kind=6 region=1: the host has given up"):
        run(orchestration, "talk_queue.cpp")


def test_sizes_of_a_queue():
    for depth, sizes, message in (
        (3, (64, 64), r"must be a power of two, at most 2\^30, but is 3"),
        (0, (64, 64), r"depth of a queue must be a power of two, at most 2\^30, but is 0"),
        (1 << 31, (64, 64), "at most 2"),
        (2, (0, 64), "input_arena_bytes must be a positive multiple of 64, but is 0"),
        (2, (64, 65), "output_arena_bytes must be a positive multiple of 64, but is 65"),
    ):
        with pytest.raises(ValueError, match=message):
            make_worker_chip_queue_layout(depth, *sizes)
    layout = make_worker_chip_queue_layout(1, 64, 128)
    assert (layout.output_desc_offset, layout.input_arena_offset, layout.output_arena_offset) == (32, 64, 128)
    assert (layout.payload_bytes, layout.counter_bytes) == (256, 384)

    def orchestration(orch, handle, config):
        queue_of(orch, handle, config, ECHO, depth=1)

    with pytest.raises(RuntimeError, match=r"init kind=1 region=1: the window is larger than the queue is deep"):
        run(orchestration, "talk_queue.cpp")


@pytest.mark.manual
def test_a_talk_without_end():
    def orchestration(orch, handle, config):
        talk = Talk(orch)
        talk.submit(handle, config)
        while True:
            talk.ask(DOUBLE, torch.zeros(16))
            talk.answer()
            open("talking", "w").close()

    run(orchestration)
