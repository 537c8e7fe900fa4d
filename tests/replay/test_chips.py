"""Many chips on one machine: what they compute together, and what is said when they cannot go on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from pypto_build.facts.layouts import BOARD_BYTES
from pypto_build.replay.loading import load_embedded
from tests.replay.builder import embedded_module, of_any_core
from tests.replay.chips import COUNT, INOUT, NO_DEP, Chips

# y = the sum over ranks of x: each rank publishes its row, notifies all, waits for all, and reads.
_PUBLISH = "for (int i = 0; i < count; ++i) data[i] = x[i];"
_SUM = """
    for (int to = 0; to < ranks; ++to) notify(peer(signal + rank, to), 1);
    for (int from = 0; from < ranks; ++from) wait(signal + from, 1);
    for (int i = 0; i < count; ++i) {
        float sum = 0;
        for (int from = 0; from < ranks; ++from) sum += peer(data, from)[i];
        y[i] = sum / ranks - i;
    }
"""


def _all_reduce(root: Path, world: int) -> Chips:
    programs = {"publish": _PUBLISH, "sum": _SUM}
    rows = [(program, rank) for program in programs for rank in range(world)]
    return Chips(root, world, programs, rows, golden=[COUNT * (world - 1) / 2] * world)


@pytest.mark.parametrize("world", [1, 2, 5, 16])
def test_ranks_work_together(tmp_path: Path, world: int) -> None:
    run = _all_reduce(tmp_path, world).replay()
    assert run.status == 0, run.stdout + run.stderr
    assert run.verdict.tasks == 2 * world


def test_world_is_asked_for(tmp_path: Path) -> None:
    run = _all_reduce(tmp_path, 4).replay("--world", "4", "--rounds", "3")
    assert (run.status, run.verdict.rounds) == (0, 3), run.stdout
    run = _all_reduce(tmp_path, 4).replay("--world", "65")
    assert run.stdout.splitlines()[-1].endswith(
        "usage_error: WORLD=65: is too large: at most 64 ranks are supported; use a smaller number"
    )


def test_devices_name_the_ranks_and_say_how_many_there_are(tmp_path: Path) -> None:
    chips = _all_reduce(tmp_path, 2)
    run = chips.replay("--devices", "3,6", "--swimlane", "1")
    assert (run.status, run.verdict.tasks) == (0, 4), run.stdout
    written = json.loads((chips.out / "dfx_outputs" / "ranks.json").read_text())
    assert (written["world"], written["devices"]) == (2, [3, 6])
    # a timeline of several chips comes with the task graph of each
    assert (chips.out / "dfx_outputs" / "rank1" / "d0" / "deps.json").is_file()
    run = chips.replay("--devices", "3,6", "--world", "3")
    assert "DEVICES=3,6: names 2 devices, but WORLD= asks for 3 ranks; leave WORLD= out" in run.stdout + run.stderr


def test_a_deadlock_is_told_at_once(tmp_path: Path) -> None:
    """Rank 1 notifies a wrong address, and rank 2 notifies no rank."""
    body = """
        if (rank == 1) notify(peer(signal + 5, 0), 1);
        if (rank == 0) { wait(signal + 1, 1); }
        if (rank == 2) { wait(signal + 3, 2, EQ); }
        notify(signal + 3, 1);
    """
    chips = Chips(tmp_path, 3, {"step": body}, [("step", rank) for rank in range(3)])
    begun = time.monotonic()
    run = chips.replay("--timeout", "50")
    assert time.monotonic() - begun < 40
    assert run.status == 6, run.stdout
    assert run.verdict.error is not None
    assert run.verdict.error.message == (
        "the ranks wait for each other: rank 0 d0 'step' kernel 'step' (task 0) waits for comm_d0.signal+4 >= 1, it is 0 "
        "(no rank has notified it); rank 2 d0 'step' kernel 'step' (task 0) waits for comm_d0.signal+12 == 2, it is 0 "
        "(no rank has notified it); rank 1 has nothing left to run"
    )
    assert run.verdict.error.hint == (
        "look at the peer that each notifies, at offset and value of the signal, and at who skips its notify"
    )


def test_a_deadlock_names_who_notified(tmp_path: Path) -> None:
    body = "notify(peer(signal, 0), 1); if (rank == 0) { notify(signal, 1); wait(signal, 4); }"
    run = Chips(tmp_path, 3, {"step": body}, [("step", rank) for rank in (0, 1)]).replay()
    assert run.verdict.error is not None
    message = re.sub(r", [\d.]+ [mu]?s before", ", … before", run.verdict.error.message)
    by = "notified 2 times by rank 0 'step'; once by rank 1 'step'"
    assert message.partition(" waits for comm_d0.signal+0 >= 4, it is 3 ")[2] in (
        f"({latest}; never by rank 2); ranks 1, 2 have nothing left to run"
        for latest in (f"{by}, … before", by.replace("; once", ", … before; once"))
    )
    assert any("rank 0 core" in line and "waits for the signal at" in line for line in run.stdout.splitlines())


def test_a_rank_that_spins_is_asked_what_it_polls(tmp_path: Path) -> None:
    body = "if (rank == 1) { while (*(volatile int32_t *)(signal + 2) != 5) {} } else wait(signal, 1);"
    run = Chips(tmp_path, 2, {"step": body}, [("step", rank) for rank in range(2)]).replay("--timeout", "2")
    assert run.status == 6, run.stdout
    assert run.verdict.error is not None
    lines = [of_any_core(re.sub(r", since [\d.]+ s", "", line)) for line in run.verdict.error.detail]
    assert lines[0] == "rank 0 core N waits in task 0 block 0, kernel 'step'"
    polls = "rank 1 core N runs task 0 block 0, kernel 'step': it polls byte 8 of tensor comm_d0.signal (256 bytes)"
    assert lines[1].startswith(polls)
    assert lines[1].endswith(", which holds 0 (int32)")


def test_kernels_that_wait_leave_their_core_to_others(tmp_path: Path) -> None:
    """More tasks of a rank wait than it has threads; the last one lets all of them go on."""
    waits = ["wait(signal, 1); y[0] = 0;"] * 6
    chips = Chips(tmp_path, 1, {"many": [*waits, "notify(signal, 1);"]}, [("many", 0)])
    text = (chips.artifact / "next_levels/many/orchestration/one.cpp").read_text()
    for name, new in (("add_output", "add_no_dep"), ("add_inout", "add_no_dep")):
        text = text.replace(name, new)
    chips.write("next_levels/many/orchestration/one.cpp", text)
    run = chips.replay("--threads", "1", "--zero-fill")
    assert run.status == 0, run.stdout + run.stderr


def test_missing_tokens_are_explained(tmp_path: Path) -> None:
    """Rank 0's send waits for a dispatch of rank 1; its receive, submitted later, is ready at once and takes the rank."""
    programs = {
        "slow": "usleep(100000);",
        "send": "notify(peer(signal, 1), 1);",
        "receive": "wait(signal, 1);",
        "answer": "wait(signal, 1); notify(peer(signal, 0), 1);",
    }
    rows = [("slow", 1, INOUT), ("send", 0, INOUT), ("receive", 0), ("answer", 1)]
    without = [(*(*row, NO_DEP)[:3], False) for row in rows]
    run = Chips(tmp_path / "without", 2, programs, without).replay()
    assert run.status == 6, run.stdout
    assert run.verdict.error is not None
    assert (
        "rank 0 d0 'send' was submitted before rank 0 d1 'receive' and has not begun: nothing orders them, "
        "and a rank runs one dispatch at a time"
    ) in run.verdict.error.message
    assert run.verdict.error.hint == (
        "order the dispatches of a rank by a token: an INOUT tensor that all of them share"
    )
    with_tokens = [(*row[:3], True) for row in without]
    assert Chips(tmp_path / "with", 2, programs, with_tokens).replay().status == 0


def test_a_crash_names_its_rank(tmp_path: Path) -> None:
    body = "if (rank == 1) { *reinterpret_cast<volatile int *>(8) = 1; } wait(signal, 1);"
    run = Chips(tmp_path, 2, {"step": body}, [("step", 0), ("step", 1)]).replay("--timeout", "30")
    assert run.status == 5
    assert run.verdict.error is not None
    assert run.verdict.error.message.startswith("rank 1, d0 'step': kernel 'step' crashed")
    assert run.verdict.error.kernel == "step"


def test_a_fault_names_its_rank(tmp_path: Path) -> None:
    body = 'if (rank == 1) { core->fault(core, "no such expert", nullptr, 0); } wait(signal, 1);'
    run = Chips(tmp_path, 2, {"step": body}, [("step", 0), ("step", 1)]).replay("--timeout", "30")
    assert run.status == 5
    assert run.verdict.error is not None
    assert run.verdict.error.message.startswith("rank 1, d0 'step': ")
    assert "no such expert" in run.verdict.error.message


def test_a_window_is_left(tmp_path: Path) -> None:
    run = Chips(tmp_path, 2, {"step": "if (rank == 0) peer(signal, 1)[64] = 7;"}, [("step", 0)]).replay()
    assert run.verdict.error is not None
    assert run.verdict.error.message == "domain 'comm_d0': byte 320 of rank 1's window of 320 was written"
    in_the_page_behind = "peer(signal, 1)[1024] = 7;"
    run = Chips(tmp_path, 2, {"step": in_the_page_behind}, [("step", 0)]).replay()
    assert run.status == 5
    assert run.verdict.error is not None
    assert run.verdict.error.message.startswith("rank 0, d0 'step': kernel 'step' crashed")


def test_a_rank_that_is_killed_ends_all(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    body = f"""
        if (rank == 1) {{
            FILE *file = fopen("{mark}.tmp", "w");
            FILE *status = fopen("/proc/self/status", "r");
            char line[256];
            while (fgets(line, sizeof line, status)) if (!strncmp(line, "NSpid:", 6)) fputs(line, file);
            fclose(file);
            rename("{mark}.tmp", "{mark}");
        }}
        while (true) usleep(1000);
    """
    chips = Chips(tmp_path, 3, {"step": body}, [("step", rank) for rank in range(3)])
    kernel = "next_levels/step/kernels/aiv/step.cpp"
    chips.write(kernel, "#include <cstdio>\n#include <cstring>\n" + (chips.artifact / kernel).read_text())
    process = subprocess.Popen(chips.command("--timeout", "100"), stdout=subprocess.PIPE, text=True)
    try:
        while not mark.exists():
            assert process.poll() is None
            time.sleep(0.02)
        inner = mark.read_text().split()[-1]
        ours = [pid for pid in _descendants(process.pid) if _inner(pid) == inner]
        os.kill(ours[0], signal.SIGKILL)
        begun = time.monotonic()
        output, _ = process.communicate(timeout=30)
        assert time.monotonic() - begun < 25  # of a hundred
        last = [line for line in output.splitlines() if line.startswith("[RUN] ")][-1]
        assert "rank 1, d0 'step': " in last and "SIGKILL" in last
        assert "rank 1 core N: begins task 0 step" in of_any_core(output)
        assert process.returncode == 5
    finally:
        process.kill()


def _descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [each for child in map(int, children) for each in (child, *_descendants(child))]


def _inner(pid: int) -> str:
    """Return the process number in its own namespace."""
    text = Path(f"/proc/{pid}/status").read_text()
    return next(line.split()[-1] for line in text.splitlines() if line.startswith("NSpid:"))


# As the compiler wraps a host callable: its arguments come as one.
_WRAPPER = """

from pypto.runtime.distributed_runner import _tensor_from_continuous


def halve(args):
    _user_halve(*(_tensor_from_continuous(arg) for arg in args))
"""
_HALVE = """import torch


def halve(x, y, *scalars):
    y.copy_(x / 2 + torch.arange(16) * 0)
"""


def test_host_callables_run_between_dispatches(tmp_path: Path) -> None:
    """Rank 1 reads what the callable made of what rank 0 wrote: tags of host tensors order the three."""
    programs = {
        "first": "for (int i = 0; i < count; ++i) y[i] = 8;",
        "last": "for (int i = 0; i < count; ++i) y[i] = x[i];",
    }
    chips = Chips(tmp_path, 2, programs, [("first", 0)], golden=[8, 4])
    driver = (chips.artifact / "orchestration/host_orch.py").read_text()
    driver = driver.replace('tensors["y"][r]), TensorArgType.NO_DEP', 'tensors["y0"]), TensorArgType.OUTPUT')
    start, end = driver.index("            args = TaskArgs()"), driver.index("\n\n\nhost._pypto")
    second = (
        driver[start:end]
        .replace('tensors["x"][r]), tag', 'tensors["half"]), TensorArgType.INPUT')
        .replace('tensors["y0"]', 'tensors["y"][1]')
        .replace("callables[program]", 'callables["last"]')
        .replace("[r]", "[1]")
        .replace("config, r)", "config, 1)")
    )
    between = """
            sub = TaskArgs()
            sub.add_tensor(make_tensor_arg(orch._worker, tensors["y0"]), TensorArgType.INPUT)
            sub.add_tensor(make_tensor_arg(orch._worker, tensors["half"]), TensorArgType.OUTPUT)
            orch.submit_sub(sub_ids["halve"], sub)
"""
    driver = driver[:end] + between + second + driver[end:]
    driver = driver.replace(
        "    with (_domain",
        '    tensors["y0"] = tensors["y"][0]\n    tensors["half"] = torch.zeros((16,), dtype=torch.float32)\n    with (_domain',
    )
    chips.write("orchestration/host_orch.py", driver)
    chips.write("sub_workers/halve.py", _HALVE)
    run = chips.replay()
    assert run.status == 0, run.stdout + run.stderr
    chips.write("sub_workers/halve.py", _HALVE.replace("def halve", "def _user_halve") + _WRAPPER)
    run = chips.replay()
    assert run.status == 0, run.stdout + run.stderr
    chips.write("sub_workers/halve.py", _HALVE.replace("x / 2", "z / 2"))
    run = chips.replay()
    assert run.verdict.error is not None
    assert run.verdict.error.message == (
        "host callable 'halve': sub_workers/halve.py:5: NameError: name 'z' is not defined"
    )
    (chips.artifact / "sub_workers/halve.py").unlink()
    chips.write("sub_workers/__required__.json", '["halve"]')
    last = chips.replay().stdout.splitlines()[-1]
    assert last.endswith(
        "halve.py: is missing: the program expects its caller to define 'halve'; define the function in this file"
    )


def test_a_driver_copies_host_tensors() -> None:
    from pypto_build.replay.chips.memory import stand_in_torch

    torch = stand_in_torch()
    one, other = torch.zeros(3, 4, dtype=torch.int32), torch.zeros((4,), dtype=torch.int32)
    memory = memoryview(other.storage.owner).cast("i")
    memory[0], memory[3] = 7, 9
    one[1] = other
    one[2, 0:4:2] = other[1:4:2]
    assert list(memoryview(one.storage.owner).cast("i")) == [0, 0, 0, 0, 7, 0, 0, 9, 0, 0, 9, 0]
    with pytest.raises(ValueError, match="cannot be copied into tensor 'intermediate 0'"):
        one[0] = one
    assert (one[..., 1].shape, one[-1].offset, one.reshape(-1).shape) == ((3,), 8, (12,))


def test_the_board_has_one_layout() -> None:
    assert load_embedded(embedded_module()).BOARD_BYTES == BOARD_BYTES
