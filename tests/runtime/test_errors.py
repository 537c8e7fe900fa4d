"""Misuse and limits: upstream's codes and names, each with a sentence that says what to change."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime.rig import Kernel, Rig, entry, floats

TOUCH = Kernel("touch", "")
CUBE = Kernel("cube", "", "aic")
X = "const ChipTensor& x = orch_args.tensor(0).ref(); (void)x;\n"
TASK = "CoreTaskArgs p; p.add_input(x);"


def fault(rig: Rig, body: str, *kernels: Kernel, **options: Any) -> Any:
    """The fault that a run of `body` ends with."""
    with pytest.raises(rig.module.RuntimeFault) as caught:
        rig.run(kernels or [TOUCH], entry(X + body), [(floats(4, 8), "INOUT")], **options)
    return caught.value


INVALID = {
    "unknown kernel": (
        TASK + "rt_submit_aiv_task(7, p);",
        "task 0 submits func_id 7, but no kernel in the manifest has this func_id",
        "kernels of this artifact: 0 touch; correct the submission or add it to KERNELS",
    ),
    "tensor after scalar": (
        "CoreTaskArgs p; p.add_scalar(1); p.add_input(x); rt_submit_aiv_task(0, p);",
        "task 0: a tensor is added after a scalar; add all tensors first",
        "correct the arguments in the orchestration",
    ),
    "too many scalars": (
        "CoreTaskArgs p; for (int64_t i = 0; i < 17; ++i) p.add_scalar(i); rt_submit_aiv_task(0, p);",
        "task 0: too many scalars for one task; pack them into a tensor",
        "correct the arguments in the orchestration",
    ),
    "too many tensors": (
        "CoreTaskArgs p; for (int64_t i = 0; i < 33; ++i) p.add_input(x); rt_submit_aiv_task(0, p);",
        "task 0: too many tensors for one task; split the kernel or pass views of one buffer",
        "correct the arguments in the orchestration",
    ),
    "dependencies set twice": (
        TASK + "PTO2TaskId id = rt_submit_aiv_task(0, p).task_id();"
        "CoreTaskArgs q; q.set_dependencies(&id, 1); q.set_dependencies(&id, 1); rt_submit_aiv_task(0, q);",
        "task 1: set_dependencies is called once a task; collect the task ids in one array",
        "correct the arguments in the orchestration",
    ),
    "invalid dependency": (
        "CoreTaskArgs p; PTO2TaskId id = PTO2TaskId::invalid(); p.set_dependencies(&id, 1); rt_submit_aiv_task(0, p);",
        "task 0: explicit dependency 0 is not a task",
        "add it only if (id.is_valid())",
    ),
    "no blocks": (
        TASK + "p.launch_spec.set_block_num(0); rt_submit_aiv_task(0, p);",
        "task 0 asks for 0 SPMD blocks",
        "launch at least one block, and no more than 32767 over all cores",
    ),
    "too many blocks for the cores of a group": (
        TASK + "p.launch_spec.set_block_num(16384); rt_submit_task(MixedKernels{-1, 0, 0}, p);",
        "task 0 asks for 32768 SPMD blocks",
        "launch at least one block, and no more than 32767 over all cores",
    ),
    "automatic scope in a manual one": (
        'PTO2_SCOPE(PTO2ScopeMode::MANUAL) { rt_scope_begin(PTO2ScopeMode::AUTO, "o.cpp", 7); }',
        "o.cpp:7: an automatic scope opens inside a manual one",
        "make the inner scope PTO2ScopeMode::MANUAL too, or end the outer one first",
    ),
    "scopes too deep": (
        'for (int i = 0; i < 64; ++i) rt_scope_begin(PTO2ScopeMode::AUTO, "o.cpp", i);',
        "o.cpp:63: scopes are nested deeper than 64",
        "close scopes before opening more",
    ),
    "scope left open": (
        "rt_scope_begin();",
        "the orchestration returns with an open scope",
        "end each rt_scope_begin with rt_scope_end",
    ),
    "missing tensor parameter": (
        "orch_args.tensor(1);",
        "after 0 tasks: orch_args.tensor(1) is out of range: the entry has 1 tensor",
        "correct the orchestration",
    ),
    "missing scalar parameter": (
        "orch_args.scalar(0);",
        "after 0 tasks: orch_args.scalar(0) is out of range: the entry has 0 scalars",
        "correct the orchestration",
    ),
    "view outside": (
        "uint32_t shape[2] = {2, 8}; uint32_t offset[2] = {3, 0}; ChipTensor v = x.view(shape, offset); (void)v;",
        "after 0 tasks: view of [4, 8] reaches outside it: offset 3 + 2 of 4 in dimension 0; clamp its shape to what is "
        "left after the offset",
        "correct the orchestration",
    ),
    "reshape of a view": (
        "ChipTensor t = x.transpose(0, 1); uint32_t flat[1] = {32}; ChipTensor f = t.reshape(flat, 1); (void)f;",
        "after 0 tasks: reshape of [8, 4] needs a contiguous tensor; copy the view into a tensor of its own first",
        "correct the orchestration",
    ),
    "reshape to another size": (
        "uint32_t flat[1] = {31}; ChipTensor f = x.reshape(flat, 1); (void)f;",
        "after 0 tasks: reshape of [4, 8] to [31] changes the number of elements: 32 to 31",
        "correct the orchestration",
    ),
    "output that is not there": (
        TASK + "TaskOutputTensors outs = rt_submit_aiv_task(0, p); outs.get_ref(0);",
        "after 1 task: get_ref(0) is out of range: the runtime allocated 0 tensors in that call",
        "correct the orchestration",
    ),
    "tensor nobody allocated": (
        "uint32_t shape[1] = {4}; Tensor t = make_tensor(shape, 1); CoreTaskArgs p; p.add_input(t);"
        "rt_submit_aiv_task(0, p);",
        "task 0: argument 0 has no storage",
        "a task must write the tensor before another reads it: pass it as output first",
    ),
    "index outside": (
        "uint32_t index[2] = {4, 0}; get_tensor_data<float>(x, 2, index);",
        "index 4 is outside dimension 0 of size 4",
        "correct the indices of get_tensor_data or set_tensor_data",
    ),
    "too few indices": (
        "uint32_t index[1] = {0}; set_tensor_data<float>(x, 1, index, 1.0f);",
        "1 indices are given for a tensor of 2 dimensions",
        "give one for each",
    ),
    "mark for dump of something else": (
        TASK + "ChipTensor other = x; p.dump(other); rt_submit_aiv_task(0, p);",
        "task 0: dump(...) names a tensor that was not added; add it first",
        "correct the arguments in the orchestration",
    ),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_arguments(rig: Rig, name: str) -> None:
    body, message, hint = INVALID[name]
    error = fault(rig, body)
    assert (error.kind, error.code, error.code_name) == ("runtime_error", 5, "INVALID_ARGS")
    assert (error.message, error.hint) == (message, hint)
    assert str(error) == f"{message}; {hint}"


def test_kernel_on_the_wrong_core(rig: Rig) -> None:
    error = fault(rig, TASK + "rt_submit_aic_task(0, p);", TOUCH, CUBE)
    assert error.message == "task 0 runs kernel touch as AIC, but its core_type is aiv"
    assert error.hint == "submit it with rt_submit_aiv_task"
    error = fault(rig, TASK + "rt_submit_aiv_task(1, p);", TOUCH, CUBE)
    assert error.hint == "submit it with rt_submit_aic_task"


def test_nothing_runs_after_a_fault(rig: Rig) -> None:
    write = Kernel("write", "data(args, 0)[0] = 99;")
    x = np.zeros(4, np.float32)
    text = entry(
        X
        + "CoreTaskArgs p; p.add_output(x); p.add_output(x); p.launch_spec.set_block_num(-1); rt_submit_aiv_task(0, p);"
        "CoreTaskArgs q; q.add_output(x); rt_submit_aiv_task(0, q);"
    )
    with pytest.raises(rig.module.RuntimeFault):
        rig.run([write], text, [(x, "INOUT")])
    assert x[0] == 0


def test_reported_fatal(rig: Rig) -> None:
    body = 'if (!rt_is_fatal()) rt_report_fatal(9, "x has %u rows", x.shapes[0]);'
    error = fault(rig, body)
    assert (error.code_name, error.message) == ("EXPLICIT_ORCH_FATAL", "x has 4 rows")


def test_kernel_fault(rig: Rig) -> None:
    kernel = Kernel("checks", 'core->fault(core, "row 3 is outside the tile", "kernel.cpp", 12);')
    error = fault(rig, TASK + "rt_submit_aiv_task(0, p);", kernel)
    assert error.message == "row 3 is outside the tile (kernel.cpp:12)"
    assert (error.code_name, error.kernel, error.task, error.task_id) == ("KERNEL_FAULT", "checks", 0, 0)


# --- limits ---


def test_scopes_that_share_a_ring_fill_it(rig: Rig) -> None:
    body = "for (int d = 0; d < 8; ++d) { rt_scope_begin(); for (int i = 0; i < 3; ++i) { CoreTaskArgs p;"
    error = fault(
        rig, body + " rt_submit_dummy_task(p); } } for (int d = 0; d < 8; ++d) rt_scope_end();", ring_task_window=4
    )
    assert (error.code, error.code_name) == (3, "FLOW_CONTROL_DEADLOCK")


def test_scope_holds_the_whole_window(rig: Rig) -> None:
    body = "PTO2_SCOPE() { for (int i = 0; i < 5; ++i) {" + TASK + "rt_submit_aiv_task(0, p); } }"
    error = fault(rig, body, ring_task_window=4)
    assert (error.code, error.code_name) == (1, "SCOPE_DEADLOCK")
    assert error.message.startswith("one scope holds more tasks than its ring has slots: all 4 of ring 1 (scope at ")
    assert error.message.endswith(
        ") are in use, every task in them is over, and their scope is still open; the oldest of them, task 0 touch, is over "
        "and held by that scope"
    )
    assert error.hint == (
        "the open scope alone holds more tasks than the ring's window: close PTO2_SCOPE inside the loop, or raise "
        "PTO2_RING_TASK_WINDOW (a power of two)"
    )


def test_window_suffices_when_scopes_close(rig: Rig) -> None:
    body = "for (int i = 0; i < 100; ++i) { PTO2_SCOPE() {" + TASK + "rt_submit_aiv_task(0, p); } }"
    result = rig.run([TOUCH], entry(X + body), [(floats(4, 8), "INOUT")], ring_task_window=4).result
    assert result.tasks == 100


def test_heap_is_full(rig: Rig) -> None:
    body = """PTO2_SCOPE() { for (int i = 0; i < 5; ++i) {
        uint32_t shape[1] = {256}; TensorCreateInfo ci(shape, 1); TaskOutputTensors t = alloc_tensors(ci); (void)t; } }"""
    error = fault(rig, body, ring_heap=[4096, 4096, 4096, 4096])
    assert (error.code, error.code_name) == (2, "HEAP_RING_DEADLOCK")
    assert error.message.startswith("the heap of ring 1 (scope at ")
    assert error.message.endswith(
        "is full: 1024 bytes are asked for, 4096 of 4096 are held by tasks that cannot be released; the oldest of them, an "
        "allocation, is over and held by that scope"
    )
    assert error.hint == (
        "the tensors alive at once need more than the ring's heap: close PTO2_SCOPE earlier, allocate inside the loop's "
        "scope, or raise PTO2_RING_HEAP (bytes), for example PTO2_RING_HEAP=8192"
    )


def test_one_tensor_larger_than_the_heap(rig: Rig) -> None:
    """256 MiB fit by default, as they do in simpler; a mebibyte more does not. The value that is named suffices."""
    body = """PTO2_SCOPE() { uint32_t shape[1] = {static_cast<uint32_t>(orch_args.scalar(0)) << 20};
        TensorCreateInfo ci(shape, 1, DataType::INT8); TaskOutputTensors t = alloc_tensors(ci); (void)t; }"""
    rig.run([], entry(body), [], [256], poison=False)
    with pytest.raises(rig.module.RuntimeFault) as caught:
        rig.run([], entry(body), [], [257])
    assert caught.value.message.endswith(
        "269484032 bytes are asked for, 0 of 268435456 are held by tasks that cannot be released"
    )
    assert caught.value.hint.endswith("for example PTO2_RING_HEAP=536870912")
    rig.run([], entry(body), [], [257], poison=False, ring_heap=300_000_000)


def test_dependency_pool_is_full(rig: Rig) -> None:
    body = """PTO2TaskId ids[8]; for (int i = 0; i < 8; ++i) { CoreTaskArgs p; ids[i] = rt_submit_aiv_task(0, p).task_id(); }
        CoreTaskArgs p; p.set_dependencies(ids, 8); rt_submit_aiv_task(0, p);"""
    error = fault(rig, body, ring_dep_pool=4)
    assert (error.code, error.code_name) == (4, "DEP_POOL_OVERFLOW")
    assert error.message == "ring 0: 0 of 4 dependency edges are in use and 8 more are needed"


def test_flow_control_deadlock(rig: Rig) -> None:
    """The window is full of tasks that wait for one that is not submitted yet."""
    body = """
    PTO2TaskId later = PTO2TaskId::make(0, 4);
    for (int i = 0; i < 5; ++i) { CoreTaskArgs p; if (i < 4) p.set_dependencies(&later, 1); rt_submit_aiv_task(0, p); }
    """
    error = fault(rig, body, ring_task_window=4)
    assert (error.code, error.code_name) == (3, "FLOW_CONTROL_DEADLOCK")
    assert error.message == "ring 0: all 4 task slots are in use; the oldest of them, task 0 touch, has not run"


def test_tensor_map_overflow(rig: Rig) -> None:
    """More regions are written by unfinished tasks than the map holds."""
    body = """
    uint32_t one[2] = {1, 1}, at[2] = {0, 0}; ChipTensor part = x.view(one, at); PTO2TaskId never = PTO2TaskId::make(3, 9);
    for (int i = 0; i < 2100; ++i) {
        CoreTaskArgs p; for (int n = 0; n < 32; ++n) p.add_output(part);
        p.set_dependencies(&never, 1); rt_submit_aiv_task(0, p);
    }
    """
    error = fault(rig, body)
    assert (error.code, error.code_name) == (11, "TENSORMAP_OVERFLOW")
    assert error.message == "the tensor map's 65536 entries all belong to unfinished tasks"
    assert error.hint == (
        "more tensor regions are written by unfinished tasks than the tensor map holds: write through fewer views, or "
        "mark private buffers manual_dep"
    )


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("ring_task_window", 6, "ring_task_window is 6; make it a power of two of at least 4"),
        ("ring_heap", 512, "ring_heap is 512; make it at least 1024 bytes"),
        ("ring_dep_pool", 3, "ring_dep_pool is 3; make it at least 4"),
        ("ring_heap", [1024, 1024], "option ring_heap has 2 values; give one number or four, one a ring"),
        ("sed", 1, 'option "sed" is unknown; see the options of Runtime.run'),
        ("dump_args", 4, "option dump_args is 4; use 0 to 3"),
        ("dep_gen", True, "option output_dir is missing; name the directory for what the run leaves"),
    ],
)
def test_options_are_checked(rig: Rig, option: str, value: object, message: str) -> None:
    extra = {"output_dir": "/tmp"} if option == "dump_args" else {}
    error = fault(rig, "", **{option: value}, **extra)
    assert (error.kind, str(error)) == ("usage_error", message)


ENVIRONMENT = """
import sys
from pathlib import Path
from tests.runtime.rig import Kernel, Rig, entry, floats
from pypto_build.replay.loading import load_embedded
rig = Rig(load_embedded(Path(sys.argv[1])))
body = '''const ChipTensor& x = orch_args.tensor(0).ref(); PTO2TaskId ids[5]; uint32_t shape[1] = {256};
TensorCreateInfo info(shape, 1); PTO2_SCOPE() { for (int i = 0; i < 5; ++i) {
CoreTaskArgs p; p.add_input(x); p.add_output(info); if (i == 4) p.set_dependencies(ids, 4);
ids[i] = rt_submit_aiv_task(0, p).task_id(); } }'''
try:
    print(rig.run([Kernel("touch", "")], entry(body), [(floats(4, 8), "INOUT")], shuffle=True).result.tasks)
except rig.module.RuntimeFault as fault:
    print(fault.code_name)
"""


@pytest.mark.parametrize(
    ("knob", "value", "printed", "warning"),
    [
        ("TASK_WINDOW", "4", "SCOPE_DEADLOCK", ""),
        ("TASK_WINDOW", "4,16,16,16", "5", ""),
        ("TASK_WINDOW", "16,4,16,16", "SCOPE_DEADLOCK", ""),
        ("HEAP", "4096", "HEAP_RING_DEADLOCK", ""),
        ("HEAP", "1024,8192,1024,1024", "5", ""),
        ("DEP_POOL", "4", "5", ""),
        (
            "DEP_POOL",
            "3",
            "5",
            "[WARN] PTO2_RING_DEP_POOL=3 is ignored: give one number, or four separated by commas, each at least 4\n",
        ),
        (
            "TASK_WINDOW",
            "5",
            "5",
            "[WARN] PTO2_RING_TASK_WINDOW=5 is ignored: give one number, or four separated by commas, each a power of "
            "two of at least 4\n",
        ),
        (
            "TASK_WINDOW",
            "4,4",
            "5",
            "[WARN] PTO2_RING_TASK_WINDOW=4,4 is ignored: give one number, or four separated by commas, each a power of "
            "two of at least 4\n",
        ),
    ],
)
def test_limits_from_the_environment(rig: Rig, knob: str, value: str, printed: str, warning: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENVIRONMENT, rig.module.__file__ or ""],
        env={**os.environ, f"PTO2_RING_{knob}": value},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout.strip(), done.stderr) == (printed, warning)


# --- loading ---


OTHER_ABI = """
extern "C" { extern const unsigned pypto_core_abi; const unsigned pypto_core_abi = 9; void kernel_entry(long *) {} }
"""


def test_kernels_tell_their_abi(rig: Rig) -> None:
    library = rig.compile('#include "pto/pto-inst.hpp"\nextern "C" void kernel_entry(int64_t *) {}\n', ["-Wno-psabi"])
    assert ctypes.c_uint32.in_dll(ctypes.CDLL(str(library)), "pypto_core_abi").value == 1


def test_a_kernel_that_fails_when_it_is_bound(rig: Rig) -> None:
    text = """#include "pypto/core_context.h"
    extern "C" void pypto_bind_core(PyptoCoreContext *core) { core->fault(core, "not this one", nullptr, 0); }
    extern "C" void kernel_entry(int64_t *) {}
    """
    runtime = rig.module.Runtime("a2a3sim", 1)
    runtime.load_kernel(0, "k", "aiv", str(rig.compile(text)))
    runtime.load_orchestration(str(rig.compile(entry("(void)orch_args; CoreTaskArgs p; rt_submit_aiv_task(0, p);"))))
    with pytest.raises(rig.module.RuntimeFault, match="not this one"):
        runtime.run([], [])


def test_loading_errors(rig: Rig, tmp_path: Path) -> None:
    module = rig.module
    with pytest.raises(module.RuntimeFault, match='platform "a7" is unknown; use a2a3sim or a5sim'):
        module.Runtime("a7")
    runtime = module.Runtime("a2a3sim")
    path = str(rig.compile('extern "C" void kernel_entry(long *) {}'))
    runtime.load_kernel(0, "k", "aiv", path)
    for arguments, message in [
        ((0, "other", "aiv", path), "kernel other: func_id 0 is already that of k"),
        ((1, "k", "gpu", path), 'kernel k: core_type "gpu" is unknown'),
        ((16384, "k", "aiv", path), "kernel k: func_id 16384 is outside 0..16383"),
        ((1, "k", "aiv", str(rig.compile("int nothing;"))), "exports no kernel_entry"),
        ((1, "k", "aiv", str(tmp_path / "none.so")), "none.so: cannot be loaded"),
        ((1, "k", "aiv", str(rig.compile(OTHER_ABI))), "is built for ABI 9 of a core, this runtime has 1; rebuild"),
    ]:
        with pytest.raises(module.RuntimeFault, match=message) as caught:
            runtime.load_kernel(*arguments)
        assert caught.value.kind == "build_error"
    with pytest.raises(module.RuntimeFault, match=r"was not compiled against this runtime's pto_orchestration_api\.h"):
        runtime.load_orchestration(path)
    with pytest.raises(module.RuntimeFault, match="exports no function other_entry"):
        runtime.load_orchestration(str(rig.compile(entry(X))), "other_entry")
    with pytest.raises(module.RuntimeFault, match="no orchestration is loaded"):
        module.Runtime("a2a3sim").run([])


def test_tensors_are_checked(rig: Rig) -> None:
    runtime = rig.runtime([TOUCH], entry(X))
    x = floats(4)
    for tensor, message in [
        ((x, (8,), "float32", "IN"), "tensor #0 needs 32 bytes, its buffer has 16"),
        ((x, (4,), "float64", "IN"), 'dtype "float64" is unknown'),
        ((x, (4,), "float32", "INPUT"), 'direction "INPUT" is unknown'),
        ((x, (), "float32", "IN"), "tensor #0: 0 dimensions"),
        ((x, (1, 1, 1, 1, 2, 2), "float32", "IN", "deep"), "tensor deep: 6 dimensions"),
        ((x, (4,), "float32"), "tensor 0 has 3 fields"),
    ]:
        with pytest.raises(rig.module.RuntimeFault, match=message):
            runtime.run([tensor])
