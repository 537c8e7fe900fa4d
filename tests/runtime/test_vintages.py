"""Orchestrations of every generation since February 2026 run unchanged."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.runtime.rig import Kernel, Rig, f32_bits, floats, parameter
from tests.runtime.vintages import IN_ORDER, TENSORS_FIRST

ADD = Kernel(
    "add", "for (uint64_t i = 0; i < count(args, 2); ++i) data(args, 2)[i] = data(args, 0)[i] + data(args, 1)[i];"
)
SHIFT = Kernel(
    "shift",
    """
    const float by = scalar<float>(args, 2) * scalar<int32_t>(args, 3);
    for (uint64_t i = 0; i < count(args, 1); ++i) data(args, 1)[i] = data(args, 0)[i] + by;""",
)
SHIFT_SCALARS_FIRST = Kernel(
    "shift",
    """
    const float by = scalar<float>(args, 0) * scalar<int32_t>(args, 1);
    for (uint64_t i = 0; i < count(args, 3); ++i) data(args, 3)[i] = data(args, 2)[i] + by;""",
)


@pytest.mark.parametrize("vintage", [*TENSORS_FIRST, *IN_ORDER])
def test_vintage(rig: Rig, vintage: str, tmp_path: Path) -> None:
    shift, text = (
        (SHIFT, TENSORS_FIRST[vintage]) if vintage in TENSORS_FIRST else (SHIFT_SCALARS_FIRST, IN_ORDER[vintage])
    )
    a, b, f = floats(4, 8), floats(4, 8) * 2, np.zeros((4, 8), np.float32)
    outcome = rig.run([ADD, shift], text, [(a, "IN"), (b, "IN"), (f, "OUT")], [f32_bits(0.5), 3], tmp_path)
    np.testing.assert_array_equal(f, a + b + 1.5)
    assert outcome.result.tasks == 2
    assert [task["kernel_ids"] for task in outcome.graph["tasks"]] == [[-1, 0, -1], [-1, 1, -1]]
    assert (0, 1) in {(pred, succ) for pred, succ, _ in outcome.edges()}


def test_output_with_an_initial_value(rig: Rig) -> None:
    """2026-03-27 and 28: the value is an argument of add_output."""
    text = TENSORS_FIRST["2026-03-26"].replace(
        "p0.add_input(ext_b);", "Tensor start = make_tensor(shapes, 2, DataType::FLOAT32), *other[] = {&start, &ext_b};"
    )
    text = text.replace("p0.add_output(t);", "p0.add_output(*other[0], 0x40000000); p0.add_output(t);")
    a, b, f = floats(4, 8), floats(4, 8), np.zeros((4, 8), np.float32)
    rig.run([ADD, SHIFT], text, [(a, "IN"), (b, "IN"), (f, "OUT")], [f32_bits(0.5), 3])
    np.testing.assert_array_equal(f, a + 2 + 1.5)
    with pytest.raises(rig.module.RuntimeFault, match="initial value takes a tensor without storage; use add_inout"):
        rig.run([ADD, SHIFT], text.replace("other[0]", "other[1]"), [(a, "IN"), (b, "IN"), (f, "OUT")], [0, 0])


@pytest.mark.parametrize("vintage", ["2026-08", "2026-06", "2026-05", "2026-04"])
def test_too_few_arguments(rig: Rig, vintage: str) -> None:
    a, f = floats(4, 8), np.zeros((4, 8), np.float32)
    with pytest.raises(rig.module.RuntimeFault) as caught:
        rig.run([ADD, SHIFT], TENSORS_FIRST[vintage], [(a, "IN"), (f, "OUT")], [0, 0])
    assert caught.value.message == "the orchestration expects 5 arguments, 4 are given"
    assert caught.value.code_name == "INVALID_ARGS"


def test_parameter_order_places_scalars_between_tensors(rig: Rig) -> None:
    """The entries of February take one list of words in declaration order."""
    text = IN_ORDER["2026-02-24"].replace("args[3]", "args[S0]").replace("args[4]", "args[S1]")
    text = text.replace("args[2]", "args[4]").replace("args[1]", "args[2]")
    text = text.replace("S0", "1").replace("S1", "3")
    a, b, f = floats(4, 8), floats(4, 8) * 2, np.zeros((4, 8), np.float32)
    rig.run(
        [ADD, SHIFT_SCALARS_FIRST],
        text,
        [(a, "IN"), (b, "IN"), (f, "OUT")],
        [f32_bits(0.5), 3],
        parameter_order="tstst",
    )
    np.testing.assert_array_equal(f, a + b + 1.5)


def test_parameter_order_must_fit(rig: Rig) -> None:
    a = floats(4, 8)
    with pytest.raises(rig.module.RuntimeFault, match=r'reads 2 arguments \("tt"\), the entry has 3 tensors and 2 s'):
        rig.run([ADD, SHIFT], TENSORS_FIRST["2026-08"], [(a, "IN")] * 3, [0, 0], parameter_order="tt")


LISTED_GRAPH = """
#include <stddef.h>
#include <stdint.h>
#include "runtime.h"
#include "orchestration_api.h"
extern "C" __attribute__((visibility("default")))
int build_graph(OrchestrationRuntime* rt, const ChipStorageTaskArgs& orch_args) {
    const size_t bytes = 32 * sizeof(float);
    void* t = device_malloc(rt, bytes);
    void* d = device_malloc(rt, bytes);
    void* out = device_malloc(rt, bytes);
    copy_to_device(rt, d, orch_args.tensor(1).data_as<void>(), bytes);
    record_tensor_pair(rt, orch_args.tensor(2).data_as<void>(), out, bytes);
    uint64_t shift[5] = {(uint64_t)t, (uint64_t)out, orch_args.scalar(0), orch_args.scalar(1), 32};
    uint64_t add[4] = {(uint64_t)orch_args.tensor(0).data_as<void>(), (uint64_t)d, (uint64_t)t, 32};
    int second = add_task(rt, shift, 5, 1, CoreType::AIV);
    int first = add_task(rt, add, 4, 0, CoreType::AIV);
    add_successor(rt, first, second);
    EXTRA
    device_free(rt, d);
    return get_task_count(rt) == 2 ? 0 : -7;
}
"""
RAW_ADD = Kernel(
    "add",
    """
    float *a = reinterpret_cast<float *>(args[0]), *b = reinterpret_cast<float *>(args[1]);
    for (int64_t i = 0; i < args[3]; ++i) reinterpret_cast<float *>(args[2])[i] = a[i] + b[i];""",
)
RAW_SHIFT = Kernel(
    "shift",
    """
    float *a = reinterpret_cast<float *>(args[0]);
    const float by = scalar<float>(args, 2) * scalar<int32_t>(args, 3);
    for (int64_t i = 0; i < args[4]; ++i) reinterpret_cast<float *>(args[1])[i] = a[i] + by;""",
)


def listed_graph(rig: Rig, extra: str = "") -> np.ndarray:
    runtime = rig.module.Runtime("a2a3sim", 2)
    for func_id, kernel in enumerate((RAW_ADD, RAW_SHIFT)):
        runtime.load_kernel(func_id, kernel.name, "aiv", str(rig.compile_kernel(kernel)))
    runtime.load_orchestration(str(rig.compile(LISTED_GRAPH.replace("EXTRA", extra))), "build_graph")
    a, b, f = floats(4, 8), floats(4, 8) * 2, np.zeros((4, 8), np.float32)
    runtime.run([parameter(a, "IN"), parameter(b, "IN"), parameter(f, "OUT")], [f32_bits(0.5), 3])
    return f


def test_listed_graph(rig: Rig) -> None:
    """The first API of the host_build_graph runtime: raw words, explicit edges, results copied back."""
    np.testing.assert_array_equal(listed_graph(rig), floats(4, 8) * 3 + 1.5)


def test_listed_graph_failures(rig: Rig) -> None:
    with pytest.raises(rig.module.RuntimeFault, match="the orchestration returns -7"):
        listed_graph(rig, "add_task(rt, add, 4, 0, CoreType::AIV);")
    with pytest.raises(rig.module.RuntimeFault, match=r"add_successor\(0, 9\) names a task that was not added"):
        listed_graph(rig, "add_successor(rt, 0, 9);")
    with pytest.raises(rig.module.RuntimeFault, match="explicit dependencies form a cycle"):
        listed_graph(rig, "add_successor(rt, second, first);")


METHODS = """
#include "runtime.h"
#include "task_arg.h"
extern "C" __attribute__((visibility("default"))) int build_graph(Runtime* runtime, ENTRY) {
    const size_t bytes = 32 * sizeof(float);
    void* t = runtime->host_api.device_malloc(bytes);
    void* b = runtime->host_api.device_malloc(bytes);
    void* out = runtime->host_api.device_malloc(bytes);
    runtime->host_api.copy_to_device(b, B, bytes);
    runtime->record_tensor_pair(F, out, bytes);
    uint64_t shift[5] = {(uint64_t)t, (uint64_t)out, BY, TIMES, 32};
    uint64_t add[4] = {(uint64_t)A, (uint64_t)b, (uint64_t)t, 32};
    int second = runtime->add_task(shift, 5, 1, CoreType::AIV);
    int first = runtime->add_task(add, 4, 0, CoreType::AIV);
    runtime->add_successor(first, second);
    runtime->host_api.device_free(b);
    runtime->print_runtime();
    return runtime->get_task_count() - 2;
}
"""
METHOD_ENTRIES = {
    "words": ("uint64_t* args, int", "(void*)args[{}]", "args[{}]"),
    "array": ("const TaskArg* args, int", "args[{}].data<void>()", "args[{}].scalar"),
    "objects": ("const ChipStorageTaskArgs& args", "args.tensor({}).data_as<void>()", "args.scalar({} - 3)"),
}


@pytest.mark.parametrize("form", METHOD_ENTRIES)
def test_graph_listed_by_methods(rig: Rig, form: str) -> None:
    """Until 2026-04-03 the first API of the host_build_graph runtime has methods, and entries of three forms."""
    entry_args, pointer, scalar = METHOD_ENTRIES[form]
    text = METHODS.replace("ENTRY", entry_args).replace("BY", scalar.format(3)).replace("TIMES", scalar.format(4))
    for position, name in enumerate(("A", "B", "F")):
        text = re.sub(rf"\b{name}\b", pointer.format(position), text)
    runtime = rig.module.Runtime("a2a3sim", 2)
    for func_id, kernel in enumerate((RAW_ADD, RAW_SHIFT)):
        runtime.load_kernel(func_id, kernel.name, "aiv", str(rig.compile_kernel(kernel)))
    runtime.load_orchestration(str(rig.compile(text)), "build_graph")
    a, b, f = floats(4, 8), floats(4, 8) * 2, np.zeros((4, 8), np.float32)
    tensors = [parameter(a, "IN"), parameter(b, "IN"), parameter(f, "OUT")]
    runtime.run(tensors, [f32_bits(0.5), 3], {} if form == "objects" else {"parameter_order": "tttss"})
    np.testing.assert_array_equal(f, a + b + 1.5)


def test_submitted_graph(rig: Rig) -> None:
    """The host_build_graph runtime since July: functions that submit tasks, under a key."""
    text = TENSORS_FIRST["2026-08"].replace(
        'extern "C" {',
        """
    static void shift_twice(GraphTaskArgs&, const ChipTensor* x, int64_t times) {
        for (int64_t i = 0; i < times; i += 1) { CoreTaskArgs p; p.add_inout(*x); rt_submit_aiv_task(2, p); }
    }
    extern "C" {""",
        1,
    )
    text = text.replace(
        "rt_submit_aiv_task(1, params_t1);",
        """rt_submit_aiv_task(1, params_t1);
        GraphTaskArgs graph_args;
        rt_submit_graph(GRAPH_KEY("twice"), shift_twice, graph_args, &ext_f, (int64_t)2);
        rt_submit_graph(shift_twice, graph_args, &ext_f, (int64_t)1);""",
    )
    increment = Kernel("increment", "for (uint64_t i = 0; i < count(args, 0); ++i) data(args, 0)[i] += 1;")
    a, b, f = floats(4, 8), floats(4, 8) * 2, np.zeros((4, 8), np.float32)
    outcome = rig.run([ADD, SHIFT, increment], text, [(a, "IN"), (b, "IN"), (f, "OUT")], [f32_bits(0.5), 3])
    np.testing.assert_array_equal(f, a + b + 4.5)
    assert outcome.result.tasks == 5
