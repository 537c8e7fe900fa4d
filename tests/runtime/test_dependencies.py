"""Dependencies of tasks: the rules of the tensor map, explicit dependencies and scopes, seen in deps.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime.rig import Kernel, Rig, entry, floats

TOUCH = Kernel("touch", "")
X = "const ChipTensor& x = orch_args.tensor(0).ref(); (void)x;\n"
HALVES = """
    uint32_t half[2] = {2, 8}; uint32_t top[2] = {0, 0}; uint32_t bottom[2] = {2, 0}; uint32_t middle[2] = {1, 0};
    ChipTensor xt = x.view(half, top); ChipTensor xb = x.view(half, bottom); ChipTensor xm = x.view(half, middle);
    (void)xt; (void)xb; (void)xm;
"""


def task(*calls: str, submit: str = "rt_submit_aiv_task(0, p);") -> str:
    """A task whose arguments are added by `calls`, like ``input(x)``."""
    return "{ CoreTaskArgs p; " + " ".join(f"p.add_{call};" for call in calls) + f" {submit} }}\n"


def edges(rig: Rig, body: str, directory: Path, **options: Any) -> set[tuple[int, int, str]]:
    x = floats(4, 8)
    return rig.run([TOUCH], entry(X + HALVES + body), [(x, "INOUT")], directory=directory, **options).edges()


CASES = {
    "read after write": (task("output(x)") + task("input(x)"), {(0, 1, "tensormap")}),
    "two readers": (task("input(x)") + task("input(x)"), set()),
    "write after read is not ordered": (task("input(x)") + task("output(x)"), set()),
    "output after output is not ordered": (task("output(x)") + task("output(x)"), set()),
    "inout after output": (task("output(x)") + task("inout(x)"), {(0, 1, "tensormap")}),
    "inout chain keeps the last writer only": (
        task("inout(x)") * 3,
        {(0, 1, "tensormap"), (1, 2, "tensormap")},
    ),
    "disjoint views": (task("output(xt)") + task("input(xb)"), set()),
    "overlapping views": (task("output(xt)") + task("input(xm)"), {(0, 1, "tensormap")}),
    "a reader of the whole waits for both halves": (
        task("output(xt)") + task("output(xb)") + task("input(x)"),
        {(0, 2, "tensormap"), (1, 2, "tensormap")},
    ),
    "a partial inout does not hide the writer of the rest": (
        task("output(x)") + task("inout(xt)") + task("input(x)"),
        {(0, 1, "tensormap"), (0, 2, "tensormap"), (1, 2, "tensormap")},
    ),
    "a covering inout hides earlier writers": (
        task("output(xt)") + task("inout(x)") + task("input(xt)"),
        {(0, 1, "tensormap"), (1, 2, "tensormap")},
    ),
    "no_dep neither waits nor publishes": (
        task("output(x)") + task("no_dep(x)") + task("input(xt)"),
        {(0, 2, "tensormap")},
    ),
    "transposed views overlap conservatively": (
        "ChipTensor t = xb.transpose(0, 1);\n" + task("output(xm)") + task("input(t)"),
        {(0, 1, "tensormap")},
    ),
    "manual_dep views are not tracked": (
        "ChipTensor m = x.view(half, top, true);\n" + task("output(m)") + task("input(x)") + task("input(m)"),
        set(),
    ),
    "slice of every other row": (
        "ChipTensor even = x.slice(0, 0, 4, 2); ChipTensor row1 = x.slice(0, 1, 2, 1);\n"
        + task("output(even)")
        + task("input(row1)"),
        {(0, 1, "tensormap")},
    ),
    "reshaped whole": (
        "uint32_t flat[1] = {32}; ChipTensor f = x.reshape(flat, 1);\n" + task("output(f)") + task("input(x)"),
        {(0, 1, "tensormap")},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_tensor_map(rig: Rig, name: str, tmp_path: Path) -> None:
    body, expected = CASES[name]
    assert edges(rig, body, tmp_path) == expected


STRICT_CASES = {
    "write after read": (task("input(x)") + task("output(x)"), {(0, 1, "strict")}),
    "output after output": (task("output(x)") + task("output(x)"), {(0, 1, "strict")}),
    "two readers": (task("input(x)") + task("input(x)"), set()),
    "disjoint": (task("output(xt)") + task("output(xb)"), set()),
    "two readers before a writer": (
        task("input(x)") + task("input(xt)") + task("output(x)"),
        {(0, 2, "strict"), (1, 2, "strict")},
    ),
    "manual scope": (
        "PTO2_SCOPE(PTO2ScopeMode::MANUAL) {" + task("output(x)") + task("input(x)") + "}",
        {(0, 1, "strict")},
    ),
}


@pytest.mark.parametrize("name", STRICT_CASES)
def test_strict_orders_what_upstream_does_not(rig: Rig, name: str, tmp_path: Path) -> None:
    body, expected = STRICT_CASES[name]
    assert edges(rig, body, tmp_path, strict=True) == expected


def test_creator_edges_come_from_the_owner(rig: Rig, tmp_path: Path) -> None:
    body = """
    uint32_t shape[2] = {4, 8}; TensorCreateInfo ci(shape, 2);
    CoreTaskArgs a; a.add_output(ci);
    TaskOutputTensors outs = rt_submit_aiv_task(0, a);
    const ChipTensor& t = outs.get_ref(0);
    CoreTaskArgs b; b.add_no_dep(t); rt_submit_aiv_task(0, b);
    CoreTaskArgs c; c.add_output(t); rt_submit_aiv_task(0, c);
    CoreTaskArgs d; d.add_input(t); rt_submit_aiv_task(0, d);
    """
    assert edges(rig, body, tmp_path) == {
        (0, 1, "creator"),
        (0, 2, "creator"),
        (0, 3, "creator"),
        (2, 3, "tensormap"),
    }


def test_named_producers_are_listed_once_and_overlaps_each(rig: Rig, tmp_path: Path) -> None:
    body = task("output(x)") + "CoreTaskArgs p; p.add_input(xt, xb); PTO2TaskId id = PTO2TaskId::make(0, 0);"
    body += "p.add_dep_wait(id); p.add_dep(id); rt_submit_aiv_task(0, p);"
    x = floats(4, 8)
    graph = rig.run([TOUCH], entry(X + HALVES + body), [(x, "INOUT")], directory=tmp_path).graph
    assert [(edge["arg"], edge["source"], edge["flags"]) for edge in graph["edges"]] == [
        (-1, "explicit", ["wait", "retain"]),
        (0, "tensormap", ["wait"]),
        (1, "tensormap", ["wait"]),
    ]


def test_manual_scope_has_explicit_edges_only(rig: Rig, tmp_path: Path) -> None:
    body = """
    PTO2_SCOPE(PTO2ScopeMode::MANUAL) {
        CoreTaskArgs a; a.add_output(x);
        TaskOutputTensors a_outs = rt_submit_aiv_task(0, a);
        CoreTaskArgs b; b.add_input(x); rt_submit_aiv_task(0, b);
        PTO2TaskId deps[1]; uint32_t count = 0;
        if (a_outs.task_id().is_valid()) deps[count++] = a_outs.task_id();
        CoreTaskArgs c; c.add_input(x); c.set_dependencies(deps, count); rt_submit_aiv_task(0, c);
        CoreTaskArgsWithDeps<> d; d.add_input(x); d.add_dep_wait(a_outs.task_id()); rt_submit_dummy_task(d);
    }
    """
    x = floats(4, 8)
    outcome = rig.run([TOUCH], entry(X + body), [(x, "INOUT")], directory=tmp_path)
    assert outcome.edges() == {(0, 2, "explicit"), (0, 3, "explicit")}
    assert [edge["flags"] for edge in outcome.graph["edges"]] == [["wait", "retain"], ["wait"]]
    assert {task["scope"] for task in outcome.graph["tasks"]} == {"manual"}
    assert outcome.graph["tasks"][3]["kernel_ids"] == [-1, -1, -1]


def test_explicit_edges_come_on_top_in_automatic_scopes(rig: Rig, tmp_path: Path) -> None:
    body = """
    CoreTaskArgs a; a.add_input(x);
    PTO2TaskId id = rt_submit_aiv_task(0, a).task_id();
    ArgWithDeps<4> b; b.add_output(x); b.add_dep(id); rt_submit_aiv_task(0, b);
    """
    assert edges(rig, body, tmp_path) == {(0, 1, "explicit")}


def test_graph_file_describes_tasks_tensors_and_edges(rig: Rig, tmp_path: Path) -> None:
    x = floats(4, 8)
    graph = rig.run(
        [TOUCH],
        entry(X + HALVES + task("output(xt)") + task("inout(xt)", "scalar(7)")),
        [(x, "INOUT")],
        directory=tmp_path,
    ).graph
    tensor = {"dtype": "FLOAT32", "shape": [2, 8], "start_offset": "0", "strides": [8, 1]}
    (identity,) = graph["tensors"]
    ident = identity["tensor_id"]
    assert identity | {"tensor_id": "", "buffer_addr": ""} == {
        "tensor_id": "",
        "buffer_addr": "",
        "version": 0,
        "dtype": "FLOAT32",
        "buffer_numel": "32",
    }
    assert graph["tasks"][1] == {
        "task_id": "1",
        "scope": "auto",
        "early_dispatch": False,
        "kernel_ids": [-1, 0, -1],
        "block_num": 1,
        "args": [{"idx": 0, "type": "INOUT", "tensor_id": ident, **tensor}],
    }
    assert graph["edges"] == [
        {
            "pred": "0",
            "succ": "1",
            "arg": 0,
            "source": "tensormap",
            "flags": ["wait"],
            "overlap": "covered",
            "tensor_id": ident,
            "consumer_dtype": "FLOAT32",
            "consumer_shape": [2, 8],
            "consumer_start_offset": "0",
            "consumer_strides": [8, 1],
            "producer_shape": [2, 8],
            "producer_start_offset": "0",
            "producer_strides": [8, 1],
        }
    ]


def test_rings_follow_scope_depth(rig: Rig, tmp_path: Path) -> None:
    t = task("input(x)")
    body = t + "PTO2_SCOPE() {" + t + "PTO2_SCOPE() {" + t + "PTO2_SCOPE() {" + t + "PTO2_SCOPE() {" + t + "}}}}"
    graph = rig.run([TOUCH], entry(X + body), [(floats(4, 8), "INOUT")], directory=tmp_path).graph
    assert [int(task["task_id"]) >> 32 for task in graph["tasks"]] == [0, 1, 2, 3, 3]


def test_many_tasks_keep_their_edges_when_slots_are_reused(rig: Rig, tmp_path: Path) -> None:
    """Small rings recycle tasks and memory; what is recorded does not depend on timing."""
    body = """
    for (int64_t i = 0; i < 50; i += 1) {
        PTO2_SCOPE() {
            uint32_t shape[1] = {64}; TensorCreateInfo ci(shape, 1);
            TaskOutputTensors outs = alloc_tensors(ci);
            const ChipTensor& t = outs.get_ref(0);
            CoreTaskArgs a; a.add_output(t); rt_submit_aiv_task(0, a);
            CoreTaskArgs b; b.add_input(t); b.add_inout(x); rt_submit_aiv_task(0, b);
        }
    }
    """
    actual = edges(rig, body, tmp_path, ring_task_window=8, ring_heap=4096)
    expected = set()
    for i in range(50):
        producer, consumer = 2 * i, 2 * i + 1
        expected |= {(-1, producer, "creator"), (-1, consumer, "creator"), (producer, consumer, "tensormap")}
        if i:
            expected.add((consumer - 2, consumer, "tensormap"))
    assert actual == expected


def test_results_are_right_in_every_order(rig: Rig) -> None:
    """y = ((x + 1) * 2) per row, through views; parallel, serial and shuffled runs agree."""
    add = Kernel("add1", "for (uint64_t i = 0; i < count(args, 0); ++i) data(args, 1)[i] = data(args, 0)[i] + 1;")
    double = Kernel("double", "for (uint64_t i = 0; i < count(args, 0); ++i) data(args, 0)[i] *= 2;")
    body = """
    const ChipTensor& x = orch_args.tensor(0).ref();
    const ChipTensor& y = orch_args.tensor(1).ref();
    for (int64_t i = 0; i < 16; i += 1) {
        PTO2_SCOPE() {
            uint32_t shape[2] = {1, 8}; uint32_t offset[2] = {static_cast<uint32_t>(i), 0};
            ChipTensor xi = x.view(shape, offset); ChipTensor yi = y.view(shape, offset);
            CoreTaskArgs a; a.add_input(xi); a.add_output(yi); rt_submit_aiv_task(0, a);
            CoreTaskArgs b; b.add_inout(yi); rt_submit_aiv_task(1, b);
        }
    }
    """
    x, y = floats(16, 8), np.zeros((16, 8), np.float32)
    runtime_options: list[dict[str, Any]] = [{}, {"serial": True}, *[{"shuffle": True, "seed": s} for s in range(5)]]
    for options in runtime_options:
        y[:] = 0
        rig.run([add, double], entry(body), [(x, "IN"), (y, "OUT")], **options)
        np.testing.assert_array_equal(y, (x + 1) * 2)
