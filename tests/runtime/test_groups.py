"""Mixed tasks, SPMD blocks, pipes between members, and what happens when they deadlock."""

from __future__ import annotations

import ctypes
import re
from typing import Any

import numpy as np
import pytest

from pypto_build.facts.platforms import HOST_GRAPH, PLATFORMS, TENSORMAP
from pypto_build.toolchain.host import find_compiler, orchestration_flags
from tests.runtime.rig import ORCHESTRATION_HEAD, Kernel, Rig, entry, floats

PIPE = "static const PyptoPipeSpec kSpec = {{0, 64, {slots}, 3, 0, {no_split}}};\n"


def pipe(slots: int = 2, no_split: int = 1) -> str:
    return '#include "pypto/core_context.h"\n' + PIPE.format(slots=slots, no_split=no_split)


# Sends rows of tensor 0 through the pipe, and writes what comes back to tensor 1.
CUBE = Kernel(
    "cube",
    """
    PyptoPipe *pipe = core->pipe_open(core, &kSpec);
    for (uint32_t r = 0; r < tensor(args, 0).shapes[0]; ++r) {
        float *slot = reinterpret_cast<float *>(core->pipe_acquire(core, pipe, 1));
        for (int c = 0; c < 8; ++c) slot[c] = data(args, 0)[8 * r + c];
        core->pipe_commit(core, pipe, 1);
        float *back = reinterpret_cast<float *>(core->pipe_front(core, pipe, 0));
        for (int c = 0; c < 8; ++c) data(args, 1)[8 * r + c] = back[c];
        core->pipe_release(core, pipe, 0);
    }""",
    "aic",
    pipe(),
)
# Doubles what it receives and sends it back.
VECTOR = Kernel(
    "vector",
    """
    PyptoPipe *pipe = core->pipe_open(core, &kSpec);
    for (uint32_t r = 0; r < tensor(args, 0).shapes[0]; ++r) {
        float *in = reinterpret_cast<float *>(core->pipe_front(core, pipe, 1));
        float *out = reinterpret_cast<float *>(core->pipe_acquire(core, pipe, 0));
        for (int c = 0; c < 8; ++c) out[c] = 2 * in[c];
        core->pipe_commit(core, pipe, 0);
        core->pipe_release(core, pipe, 1);
    }""",
    "aiv",
    pipe(),
)

OCCUPANCY = "; sub_class=S1:running-stalled completed=0/1 running=1 ready=0 waiting=0 orch_done="


def without_occupancy(message: str) -> str:
    """The message of a deadlock inside one task; the orchestration may or may not have returned by then."""
    text, actual, done = message.partition(OCCUPANCY)
    assert (actual, done in ("0", "1")) == (OCCUPANCY, True), message
    return text


MIXED = """
    const ChipTensor& x = orch_args.tensor(0).ref();
    const ChipTensor& y = orch_args.tensor(1).ref();
    MixedKernels mixed_0 = {{0, 1, {second}}};
    CoreTaskArgs p; p.add_input(x); p.add_output(y);
    {launch}
    rt_submit_task(mixed_0, p);
"""


def mixed(second: str = "INVALID_KERNEL_ID", launch: str = "") -> str:
    return entry(MIXED.format(second=second, launch=launch))


def test_cube_and_vector_exchange_through_pipes(rig: Rig) -> None:
    x, y = floats(100, 8), np.zeros((100, 8), np.float32)
    result = rig.run([CUBE, VECTOR], mixed(), [(x, "IN"), (y, "OUT")]).result
    np.testing.assert_array_equal(y, 2 * x)
    assert result.tasks == 1


def test_groups_run_even_on_one_thread(rig: Rig) -> None:
    x, y = floats(10, 8), np.zeros((10, 8), np.float32)
    orders: list[dict[str, Any]] = [{}, {"serial": True}, {"shuffle": True}]
    for options in orders:
        y[:] = 0
        rig.run([CUBE, VECTOR], mixed(), [(x, "IN"), (y, "OUT")], threads=1, **options)
        np.testing.assert_array_equal(y, 2 * x)


# Split over two lanes: each handles half of the slot.
SPLIT_CUBE = Kernel("cube", CUBE.body, "aic", pipe(no_split=0))
SPLIT_VECTOR = Kernel(
    "vector",
    """
    PyptoPipe *pipe = core->pipe_open(core, &kSpec);
    const int first = 4 * get_sub_block_id(args);
    for (uint32_t r = 0; r < tensor(args, 0).shapes[0]; ++r) {
        float *in = reinterpret_cast<float *>(core->pipe_front(core, pipe, 1));
        float *out = reinterpret_cast<float *>(core->pipe_acquire(core, pipe, 0));
        for (int c = first; c < first + 4; ++c) out[c] = (10 + core->sub_block) * in[c];
        core->pipe_commit(core, pipe, 0);
        core->pipe_release(core, pipe, 1);
    }""",
    "aiv",
    pipe(no_split=0),
)


def test_two_lanes_share_each_slot(rig: Rig) -> None:
    x, y = floats(50, 8), np.zeros((50, 8), np.float32)
    rig.run([SPLIT_CUBE, SPLIT_VECTOR], mixed("1"), [(x, "IN"), (y, "OUT")])
    np.testing.assert_array_equal(y, x * np.array([10] * 4 + [11] * 4, np.float32))


BLOCKS = Kernel(
    "blocks",
    """
    float *row = data(args, 0) + 4 * (2 * get_block_idx(args) + get_sub_block_id(args));
    row[0] = static_cast<float>(get_block_idx(args));
    row[1] = static_cast<float>(get_block_num(args));
    row[2] = static_cast<float>(core->block_idx);
    row[3] = static_cast<float>(core->sub_block_dim);""",
)


def test_spmd_blocks_know_their_place(rig: Rig) -> None:
    body = """
    const ChipTensor& y = orch_args.tensor(0).ref();
    CoreTaskArgs p; p.add_output(y); p.launch_spec.set_block_num(20);
    rt_submit_aiv_task(0, p);
    """
    y = np.zeros((20, 2, 4), np.float32)
    result = rig.run([BLOCKS], entry(body), [(y, "INOUT")]).result
    expected = np.zeros_like(y)
    for block in range(20):
        expected[block, 0] = [block, 20, block, 1]
    np.testing.assert_array_equal(y, expected)
    assert result.tasks == 1


def test_vector_only_groups_have_two_lanes(rig: Rig) -> None:
    body = """
    const ChipTensor& y = orch_args.tensor(0).ref();
    CoreTaskArgs p; p.add_output(y); p.launch_spec.set_block_num(3);
    MixedKernels lanes = {INVALID_KERNEL_ID, 0, 0};
    rt_submit_task(lanes, p);
    """
    y = np.zeros((3, 2, 4), np.float32)
    rig.run([BLOCKS], entry(body), [(y, "OUT")])
    np.testing.assert_array_equal(y, [[[block, 3, block, 2]] * 2 for block in range(3)])


def test_contexts_stand_behind_short_argument_lists_at_both_places(rig: Rig) -> None:
    kernel = Kernel(
        "contexts",
        "data(args, 0)[0] = args[48] == args[144] && args[49] == args[145] ? get_block_num(args) : -1;",
    )
    body = "const ChipTensor& y = orch_args.tensor(0).ref(); CoreTaskArgs p; p.add_output(y); rt_submit_aiv_task(0, p);"
    y = np.zeros(1, np.float32)
    rig.run([kernel], entry(body), [(y, "OUT")])
    assert y[0] == 1


def test_blocks_that_start_together_can_wait_for_each_other(rig: Rig) -> None:
    """A barrier over 8 blocks on a 2-thread pool: only possible if all run at once."""
    kernel = Kernel(
        "barrier",
        """
        int64_t *arrived = tensor(args, 0).data_as<int64_t>();
        __atomic_add_fetch(arrived, 1, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(arrived, __ATOMIC_SEQ_CST) < get_block_num(args)) sched_yield();
        """,
        prelude="#include <sched.h>\n",
    )
    body = """
    const ChipTensor& y = orch_args.tensor(0).ref();
    CoreTaskArgs p; p.add_inout(y); p.launch_spec.set_block_num(8); p.launch_spec.set_require_sync_start(true);
    rt_submit_aiv_task(0, p);
    """
    y = np.zeros(1, np.int64)
    rig.run([kernel], entry(body), [(y, "INOUT")])
    assert y[0] == 8


SYNC = Kernel(
    "sync",
    """
    float *y = data(args, 0);
    y[get_block_idx(args)] = 1;
    core->sync_all(core, 0);
    float sum = 0;
    for (int i = 0; i < get_block_num(args); ++i) sum += y[i];
    core->sync_all(core, 0);
    y[get_block_idx(args)] = sum;""",
)
SYNC_SOME = Kernel("some", "if (get_block_idx(args) != 2) core->sync_all(core, 0);")
LAUNCH = """
    const ChipTensor& y = orch_args.tensor(0).ref();
    CoreTaskArgs p; p.add_inout(y); p.launch_spec.set_block_num({blocks});
    p.launch_spec.set_require_sync_start({together});
    rt_submit_aiv_task(0, p);
"""


def test_barrier_over_all_blocks(rig: Rig) -> None:
    for blocks in (1, 6):
        y = np.zeros(6, np.float32)
        rig.run([SYNC], entry(LAUNCH.format(blocks=blocks, together="true")), [(y, "INOUT")])
        assert y.tolist() == [blocks] * blocks + [0] * (6 - blocks)


# Each member leaves a one behind three barriers: of all cores, of its own kind, of all again. Rows: barrier, then sums.
MEETING = """
    const int place = 3 * get_block_idx(args) + (core->is_vector ? 1 + core->sub_block : 0);
    float *ones = data(args, 0), *own = ones + 16, *sums = ones + 32, *own_sums = ones + 48;
    ones[place] = 1;
    core->sync_all(core, 2);
    float sum = 0;
    for (int i = 0; i < 3 * get_block_num(args); ++i) sum += ones[i];
    own[place] = 1;
    core->sync_all(core, core->is_vector ? 0 : 1);
    float own_sum = 0;
    for (int i = 0; i < 3 * get_block_num(args); ++i) own_sum += (i % 3 > 0) == (core->is_vector > 0) ? own[i] : 0;
    core->sync_all(core, 2);
    sums[place] = sum; own_sums[place] = own_sum;
"""


@pytest.mark.parametrize("threads", [1, 3])
def test_barriers_over_the_blocks_of_groups(rig: Rig, threads: int) -> None:
    """Five cubes with two vector cores each, all running at once whatever the number of threads."""
    kernels = [Kernel("cube", MEETING, "aic"), Kernel("vector", MEETING)]
    body = """
    const ChipTensor& y = orch_args.tensor(0).ref();
    CoreTaskArgs p; p.add_inout(y); p.launch_spec.set_block_num(5); p.launch_spec.set_require_sync_start(true);
    rt_submit_task({0, 1, 1}, p);
    """
    y = np.zeros((4, 16), np.float32)
    rig.run(kernels, entry(body), [(y, "INOUT")], threads=threads)
    np.testing.assert_array_equal(y[2, :15], np.full(15, 15))
    np.testing.assert_array_equal(y[3, :15], [5, 10, 10] * 5)


def test_barrier_in_one_group_needs_no_start_together(rig: Rig) -> None:
    kernels = [Kernel("cube", MEETING, "aic"), Kernel("vector", MEETING)]
    body = (
        "const ChipTensor& y = orch_args.tensor(0).ref(); CoreTaskArgs p; p.add_inout(y); rt_submit_task({0, 1, 1}, p);"
    )
    y = np.zeros((4, 16), np.float32)
    rig.run(kernels, entry(body), [(y, "INOUT")])
    np.testing.assert_array_equal(y[2:, :3], [[3, 3, 3], [1, 2, 2]])


def test_barrier_needs_blocks_that_start_together(rig: Rig) -> None:
    with pytest.raises(rig.module.RuntimeFault) as caught:
        rig.run([SYNC], entry(LAUNCH.format(blocks=6, together="false")), [(floats(8), "INOUT")])
    assert caught.value.message == "SYNCALL waits for all 6 blocks, which need not run at the same time"
    assert caught.value.hint == "launch them together with launch_spec.set_require_sync_start(true)"


def test_barrier_that_one_block_misses(rig: Rig) -> None:
    with pytest.raises(rig.module.RuntimeFault) as caught:
        rig.run([SYNC_SOME], entry(LAUNCH.format(blocks=6, together="true")), [(floats(8), "INOUT")])
    assert caught.value.kind == "hang"
    start, *_ = without_occupancy(caught.value.message).partition(": ")
    assert start == "SYNCALL waits for a block that has returned without calling it"
    returned = re.findall(
        r"block (\d) \(AIV0 some\) has returned after 0, the last \d+ us before", caught.value.message
    )
    assert returned == ["2"]
    assert "at the 1st SYNCALL of the vector cores" in caught.value.message


@pytest.mark.parametrize(("platform", "clusters"), [("a2a3sim", 24), ("a5sim", 36)])
def test_more_blocks_together_than_cores(rig: Rig, platform: str, clusters: int) -> None:
    body = """
    const ChipTensor& y = orch_args.tensor(0).ref();
    CoreTaskArgs p; p.add_inout(y); p.launch_spec.set_block_num(2 * rt_available_cluster_count() + 1);
    p.launch_spec.set_require_sync_start(true);
    rt_submit_aiv_task(0, p);
    """
    with pytest.raises(rig.module.RuntimeFault) as caught:
        rig.run([BLOCKS], entry(body), [(floats(8), "INOUT")], platform=platform)
    assert caught.value.code == 7
    chip = platform.removesuffix("sim")
    assert caught.value.message == (
        f"task 0 starts {2 * clusters + 1} blocks together; {chip} has {2 * clusters} vector cores"
    )


BOTH_NAMES = """
template <typename Spec> char launch(Spec &spec, decltype(spec.set_block_num(1)) * = nullptr) { return 'b'; }
template <typename Spec> char launch(Spec &spec, decltype(spec.set_core_num(1)) * = nullptr) { return 'c'; }
#ifdef SRC_A5_RUNTIME_TENSORMAP_AND_RINGBUFFER_RUNTIME_PTO_TYPES_H_ // what some orchestrations choose by
static const char kOfTheGuard = 'c';
#else
static const char kOfTheGuard = 'b';
#endif
extern "C" char chosen() { PTO2LaunchSpec spec; return launch(spec) == kOfTheGuard ? kOfTheGuard : '?'; }
"""


@pytest.mark.parametrize(
    ("platform", "flavour", "name"),
    [("a2a3sim", TENSORMAP, "b"), ("a2a3sim", HOST_GRAPH, "b"), ("a5sim", TENSORMAP, "c"), ("a5sim", HOST_GRAPH, "b")],
)
def test_the_setter_of_blocks_has_one_name(rig: Rig, platform: str, flavour: str, name: str) -> None:
    flags = orchestration_flags(find_compiler("g++"), PLATFORMS[platform], flavour)
    text = ORCHESTRATION_HEAD + BOTH_NAMES
    assert chr(ctypes.CDLL(str(rig.compile(text, (*flags, "-Wno-unused")))).chosen()) == name


def test_on_chip_memory_sizes(rig: Rig) -> None:
    kernel = Kernel(
        "sizes",
        "for (int i = 0; i < PYPTO_SPACE_COUNT; ++i) {"
        " data(args, 0)[i] = static_cast<float>(core->memory[i].size);"
        " core->memory[i].base[core->memory[i].size - 1] = 1;"
        " if (reinterpret_cast<uint64_t>(core->memory[i].base) % 128) data(args, 0)[i] = -1; }",
    )
    body = "const ChipTensor& y = orch_args.tensor(0).ref(); CoreTaskArgs p; p.add_output(y); rt_submit_aiv_task(0, p);"
    y = np.zeros(9, np.float32)
    rig.run([kernel], entry(body), [(y, "OUT")])
    assert [int(value) // 1024 for value in y] == [192, 512, 64, 64, 128, 1, 4, 4, 4]
    rig.run([kernel], entry(body), [(y, "OUT")], platform="a5sim")
    assert [int(value) // 1024 for value in y] == [256, 512, 64, 64, 256, 4, 4, 4, 4]


# --- deadlocks ---

POP_ONLY = Kernel("popper", "core->pipe_front(core, core->pipe_open(core, &kSpec), 1);", "aiv", pipe())
PUSH_THREE = Kernel(
    "pusher",
    "PyptoPipe *p = core->pipe_open(core, &kSpec);"
    " for (int i = 0; i < 3; ++i) { core->pipe_acquire(core, p, 1); core->pipe_commit(core, p, 1); }",
    "aic",
    pipe(),
)
POP_THREE = Kernel(
    "keeper",
    "PyptoPipe *p = core->pipe_open(core, &kSpec); for (int i = 0; i < 3; ++i) core->pipe_front(core, p, 1);",
    "aiv",
    pipe(),
)
IDLE_CUBE = Kernel("idle_cube", "", "aic", pipe())
IDLE_VECTOR = Kernel("idle_vector", "", "aiv", pipe())
OTHER_RING = Kernel("other_ring", POP_ONLY.body, "aiv", pipe(slots=4))

DEADLOCKS = {
    "pop without push": (
        [IDLE_CUBE, POP_ONLY],
        "pop without push: the other side never filled a slot in this direction",
    ),
    "push without pop": (
        [PUSH_THREE, IDLE_VECTOR],
        "push without pop, or the ring has fewer slots than the pipeline is deep: raise the slot number",
    ),
    "missing free": ([PUSH_THREE, POP_THREE], "missing free: slots are popped and never freed (TFREE)"),
    "different rings": (
        [PUSH_THREE, OTHER_RING],
        "the members describe the pipe differently (slot size, slot count or direction): make the TPipe arguments equal",
    ),
}


@pytest.mark.parametrize("name", DEADLOCKS)
def test_pipe_deadlock_is_reported_at_once(rig: Rig, name: str) -> None:
    kernels, cause = DEADLOCKS[name]
    with pytest.raises(rig.module.RuntimeFault) as caught:
        rig.run(kernels, mixed(), [(floats(4, 8), "IN"), (floats(4, 8), "OUT")])
    fault = caught.value
    assert (fault.kind, fault.code, fault.task) == ("hang", 100, 0)
    assert fault.message.startswith(f"likely {cause}; AIC ")
    assert fault.hint == "make pushes, pops and frees of the members match"


def test_deadlock_message_shows_pipes_and_members(rig: Rig) -> None:
    with pytest.raises(rig.module.RuntimeFault) as caught:
        rig.run([PUSH_THREE, IDLE_VECTOR], mixed(), [(floats(4, 8), "IN"), (floats(4, 8), "OUT")])
    assert re.search(
        r"pipe 0 cube to vector: 2 slots of 64 bytes, 2 pushed \(last by AIC [\d.]+ [um]s before\), 0 popped, 0 freed; ",
        caught.value.message,
    )
    assert re.search(
        r"AIC pusher waits to push slot 2 of pipe 0 \(cube to vector\), which only AIV0 \(returned [\d.]+ [um]s before\) "
        "frees; AIV0 idle_vector has returned",
        caught.value.message,
    )


MEETS = Kernel("meets", "core->sync_all(core, 2);", "aic", pipe())


def test_a_circle_of_pipe_and_barrier_is_reported_at_once(rig: Rig) -> None:
    """The cube core is at the barrier, the vector core waits for the cube core's push."""
    with pytest.raises(rig.module.RuntimeFault) as caught:
        rig.run([MEETS, POP_ONLY], entry("(void)orch_args; CoreTaskArgs p; rt_submit_task({0, 1, -1}, p);"), [])
    assert caught.value.kind == "hang"
    assert without_occupancy(caught.value.message) == (
        "likely pop without push: the other side never filled a slot in this direction; AIC meets waits at SYNCALL; "
        "AIV0 popper waits to pop slot 0 of pipe 0 (cube to vector), which only AIC (waits itself) pushes; pipe 0 cube to "
        "vector: 2 slots of 64 bytes, 0 pushed, 0 popped, 0 freed; pipe 0 vector to cube: 2 slots of 64 bytes, 0 pushed, 0 popped, 0 freed"
    )
    assert caught.value.hint == ("call SYNCALL equally often in every block, and not while others wait for a pipe")


def test_a_lone_kernel_that_pops_is_a_deadlock(rig: Rig) -> None:
    body = "const ChipTensor& y = orch_args.tensor(0).ref(); CoreTaskArgs p; p.add_output(y); rt_submit_aiv_task(0, p);"
    with pytest.raises(rig.module.RuntimeFault, match="AIV0 popper waits to pop slot 0 of pipe 0"):
        rig.run([POP_ONLY], entry(body), [(floats(8), "OUT")])


def test_freeing_what_was_not_popped(rig: Rig) -> None:
    kernel = Kernel("freer", "core->pipe_release(core, core->pipe_open(core, &kSpec), 1);", "aiv", pipe())
    with pytest.raises(rig.module.RuntimeFault) as caught:
        rig.run([IDLE_CUBE, kernel], mixed(), [(floats(4, 8), "IN"), (floats(4, 8), "OUT")])
    assert (caught.value.code_name, caught.value.kernel) == ("KERNEL_FAULT", "freer")
    assert caught.value.message == "pipe 0: a slot is freed that was not popped"
