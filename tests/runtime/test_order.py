"""Serial and shuffled runs: legal, repeatable orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.runtime.rig import Kernel, Rig, entry

# Appends its scalar to the log in tensor 0: [count, entries...]. Unordered on purpose: the tensor is passed as no_dep.
LOG = Kernel("log", "float *log = data(args, 0); log[static_cast<int>(++log[0])] = static_cast<float>(args[1]);")

INDEPENDENT = entry("""
    const ChipTensor& log = orch_args.tensor(0).ref();
    for (int64_t i = 0; i < 8; i += 1) {
        CoreTaskArgs p; p.add_no_dep(log); p.add_scalar(i); rt_submit_aiv_task(0, p);
    }
""")

# 0 -> 2, 1 -> 3 by explicit edges, 4 waits for all.
DIAMOND = entry("""
    const ChipTensor& log = orch_args.tensor(0).ref();
    PTO2TaskId ids[4];
    for (int64_t i = 0; i < 4; i += 1) {
        CoreTaskArgsWithDeps<> p; p.add_no_dep(log); p.add_scalar(i);
        if (i >= 2) p.add_dep(ids[i - 2]);
        ids[i] = rt_submit_aiv_task(0, p).task_id();
    }
    CoreTaskArgs last; last.add_no_dep(log); last.add_scalar(4); last.set_dependencies(ids, 4);
    rt_submit_aiv_task(0, last);
""")


def order(rig: Rig, text: str, **options: Any) -> list[int]:
    log = np.zeros(16, np.float32)
    rig.run([LOG], text, [(log, "INOUT")], **options)
    return [int(value) for value in log[1 : 1 + int(log[0])]]


def test_serial_runs_in_submission_order(rig: Rig) -> None:
    assert order(rig, INDEPENDENT, serial=True) == list(range(8))


def test_shuffled_runs_repeat_by_seed_and_differ_between_seeds(rig: Rig) -> None:
    orders = [order(rig, INDEPENDENT, shuffle=True, seed=seed) for seed in range(6)]
    assert all(sorted(tasks) == list(range(8)) for tasks in orders)
    assert orders == [order(rig, INDEPENDENT, shuffle=True, seed=seed) for seed in range(6)]
    assert len({tuple(tasks) for tasks in orders}) > 1


@pytest.mark.parametrize("seed", range(8))
def test_shuffled_orders_are_legal(rig: Rig, seed: int) -> None:
    tasks = order(rig, DIAMOND, shuffle=True, seed=seed)
    assert tasks[-1] == 4
    assert tasks.index(0) < tasks.index(2)
    assert tasks.index(1) < tasks.index(3)


# Kernel 0 reads x into y, kernel 1 overwrites x: nothing but the order of submission keeps the reader first.
OVERWRITTEN = entry("""
    const ChipTensor& x = orch_args.tensor(0).ref(); const ChipTensor& y = orch_args.tensor(1).ref();
    CoreTaskArgs r; r.add_input(x); r.add_output(y); rt_submit_aiv_task(0, r);
    CoreTaskArgs w; w.add_output(x); rt_submit_aiv_task(1, w);
""")
READ = Kernel("read", "data(args, 1)[0] = data(args, 0)[0];")
OVERWRITE = Kernel("overwrite", "data(args, 0)[0] = -1;")


def test_strict_order_shows_that_a_dependency_is_missing(rig: Rig) -> None:
    """Some legal order gives the wrong result; with readers before writers none does."""

    def results(**options: Any) -> set[float]:
        tasks = set()
        for seed in range(8):
            x, y = np.full(1, 7, np.float32), np.zeros(1, np.float32)
            tensors = [(x, "INOUT"), (y, "OUT")]
            rig.run([READ, OVERWRITE], OVERWRITTEN, tensors, shuffle=True, seed=seed, **options)
            tasks.add(float(y[0]))
        return tasks

    assert (results(), results(strict=True)) == ({7.0, -1.0}, {7.0})
