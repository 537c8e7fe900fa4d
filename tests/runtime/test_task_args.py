"""Marks, slots and initial values of a task besides its tensors, and reading them all back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime.rig import Kernel, Rig, entry, f32_bits, floats

COPY = Kernel("copy", "for (uint64_t i = 0; i < count(args, 1); ++i) data(args, 1)[i] = data(args, 0)[i];")
NOTHING = Kernel("nothing", "")

MARKS = entry("""
    const ChipTensor& x = orch_args.tensor(0).ref();
    uint32_t shape[1] = {4}; TensorCreateInfo info(shape, 1);
    float scale = 1.5f; uint32_t count = 4; int16_t other = -3;
    CoreTaskArgs p; p.add_input(x); p.add_output(info);
    p.add_scalar(scale); p.add_scalar(count, other); p.add_scalar(count); p.add_scalar(7);
    p.dump(info, scale, count); rt_submit_aiv_task(0, p);
    CoreTaskArgs q; q.add_input(x); q.add_scalar(int64_t{5}); q.dump(); rt_submit_aiv_task(0, q);
""")


def test_marks_of_tensors_scalars_and_whole_tasks(rig: Rig, tmp_path: Path) -> None:
    """A scalar is marked through the variable it was added from; of equal ones the first, and the dump says so."""
    rig.run([NOTHING], MARKS, [(floats(4), "IN")], output_dir=str(tmp_path), dump_args=1)
    dump = json.loads((tmp_path / "args_dump" / "args_dump.json").read_text())
    keys = ("arg_index", "kind", "role", "dtype", "value", "arg_index_ambiguous")
    assert [(int(item["task_id"], 16), *(item.get(key) for key in keys)) for item in dump["args"]] == [
        (0, 2, "scalar", "input", "FLOAT32", 1.5, None),
        (0, 3, "scalar", "input", "UINT32", 4, True),
        (0, 1, "tensor", "output", "FLOAT32", None, None),
        (1, 0, "tensor", "input", "FLOAT32", None, None),
        (1, 1, "scalar", "input", "INT64", 5, None),
    ]


READ_BACK = """
static void layer(const GraphTaskArgs &args, int64_t row) {
    uint32_t shape[2] = {1, 8}; uint32_t at[2] = {static_cast<uint32_t>(row), 0};
    ChipTensor from = args.tensor(0).ref().view(shape, at), to = args.tensor(1).ref().view(shape, at);
    CoreTaskArgs p; p.add_input(from); p.add_output(to);
    if (from_u64<float>(args.scalar(0)) != 2.5f || args.scalar(1) != 9) rt_report_fatal(9, "scalars differ");
    rt_submit_aiv_task(0, p);
}
"""
READ_BACK_ENTRY = entry("""
    const ChipTensor& x = orch_args.tensor(0).ref();
    const ChipTensor& y = orch_args.tensor(1).ref();
    GraphTaskArgs args; args.add_input(x); args.add_output(y); args.add_scalar(orch_args.scalar(0)); args.add_scalar(9);
    const GraphTaskArgs &constant = args;
    rt_submit_graph(layer, constant, int64_t{0});
    rt_submit_graph(GRAPH_KEY("row"), &layer, constant, int64_t{1});
    rt_submit_graph(&layer, args, int64_t{2});
""").replace('extern "C"', READ_BACK + '\nextern "C"', 1)


def test_arguments_are_read_back_by_functions_that_get_them(rig: Rig) -> None:
    x, y = floats(3, 8), np.zeros((3, 8), np.float32)
    rig.run([COPY], READ_BACK_ENTRY, [(x, "IN"), (y, "OUT")], [f32_bits(2.5)])
    np.testing.assert_array_equal(y, x)


MISUSED = {
    "timing slot 16": (
        "CoreTaskArgs p; p.set_task_timing_slot(16); rt_submit_aiv_task(0, p);",
        "task 0: timing slots are 0 to 15",
    ),
    "mark of a scalar that was not added": (
        "CoreTaskArgs p; int64_t a = 1, b = 1; p.add_scalar(a); p.dump(b); rt_submit_aiv_task(0, p);",
        "task 0: dump(...) names a scalar that was not added from that variable; add it first",
    ),
    "tensor that is not there": (
        "CoreTaskArgs p; p.add_scalar(1); p.tensor(0);",
        "after 0 tasks: tensor(i) of a task's arguments is out of range, or an output that is not yet allocated",
    ),
    "scalar that is not there": (
        "CoreTaskArgs p; p.add_input(x); p.scalar(0);",
        "after 0 tasks: scalar(i) of a task's arguments is out of range",
    ),
    "dependencies that are not there": (
        "CoreTaskArgs p; p.set_dependencies(nullptr, 4); rt_submit_aiv_task(0, p);",
        "task 0: set_dependencies has a count and no array of task ids",
    ),
    "element of a tensor of nobody's": (
        "ChipTensor t = x; t.owner_task_id = PTO2TaskId::make(0, 17); uint32_t at[1] = {0}; "
        "get_tensor_data<float>(t, 1, at);",
        "task 0: get_tensor_data: the tensor's owner is no task",
    ),
    "assertion": ("always_assert(x.ndims == 3);", "after 0 tasks: always_assert(x.ndims == 3) fails"),
}


@pytest.mark.parametrize("name", MISUSED)
def test_misuse(rig: Rig, name: str) -> None:
    body, message = MISUSED[name]
    with pytest.raises(rig.module.RuntimeFault) as caught:
        rig.run(
            [NOTHING], entry("const ChipTensor& x = orch_args.tensor(0).ref(); (void)x;" + body), [(floats(4), "IN")]
        )
    assert (caught.value.code_name, caught.value.message) == ("INVALID_ARGS", message)


def test_dependencies_can_be_emptied(rig: Rig, tmp_path: Path) -> None:
    """A count of zero clears what was set, so that a list built under conditions is passed as it is."""
    body = """
    (void)orch_args;
    CoreTaskArgs a; PTO2TaskId ids[2] = {rt_submit_aiv_task(0, a).task_id(), rt_submit_aiv_task(0, a).task_id()};
    CoreTaskArgs b; b.set_dependencies(ids, 2); b.set_dependencies(ids, 0); rt_submit_aiv_task(0, b);
    CoreTaskArgs c; c.set_dependencies(ids, 2); c.set_dependencies(ids, 0); c.set_dependencies(ids, 1);
    rt_submit_aiv_task(0, c);
    """
    assert rig.run([NOTHING], entry(body), [], directory=tmp_path).edges() == {(0, 3, "explicit")}


INITIAL = """
    TaskOutputTensors outs; uint32_t shape[1] = {{3}};
    TensorCreateInfo info(shape, 1, DataType::{dtype}); info.set_initial_value(static_cast<{ctype}>({value}));
    CoreTaskArgs p; p.add_output(info); p.add_inout(orch_args.tensor({slot}).ref());
    outs = rt_submit_aiv_task({slot}, p);
"""
TYPES = {
    "int8": ("INT8", "int8_t", -7),
    "uint8": ("UINT8", "uint8_t", 200),
    "int16": ("INT16", "int16_t", -300),
    "uint16": ("UINT16", "uint16_t", 60000),
    "int32": ("INT32", "int32_t", -70000),
    "uint32": ("UINT32", "uint32_t", 4_000_000_000),
    "int64": ("INT64", "int64_t", -5_000_000_000),
    "uint64": ("UINT64", "uint64_t", 2**63),
    "float32": ("FLOAT32", "float", 0.1),
    "bool": ("BOOL", "bool", 1),
}


def test_initial_values_of_every_type(rig: Rig) -> None:
    """The tensor a task allocates starts with the value; the kernel copies what it finds."""
    arrays = [np.zeros(3, dtype) for dtype in TYPES]
    parts = [
        f"{{{INITIAL.format(dtype=name, ctype=ctype, value=f'{value}u' if value > 2**62 else value, slot=slot)}}}"
        for slot, (name, ctype, value) in enumerate(TYPES.values())
    ]
    kernels = [
        Kernel(f"copy{width}", f"__builtin_memcpy(data(args, 1), data(args, 0), 3 * {width});")
        for width in (array.itemsize for array in arrays)
    ]
    rig.run(kernels, entry("\n".join(parts)), [(array, "INOUT") for array in arrays])
    for array, (_, _, value) in zip(arrays, TYPES.values(), strict=True):
        np.testing.assert_array_equal(array, np.full(3, value, array.dtype))


def test_elements_of_every_type(rig: Rig) -> None:
    """set_tensor_data writes, get_tensor_data reads back the second element of each parameter into the third."""
    arrays = [np.zeros(3, dtype) for dtype in TYPES]
    lines = ["uint32_t at[1] = {1}, to[1] = {2};"]
    for slot, (_, ctype, value) in enumerate(TYPES.values()):
        text = f"{value}u" if value > 2**62 else value
        tensor = f"orch_args.tensor({slot}).ref()"
        lines.append(f"set_tensor_data({tensor}, 1, at, static_cast<{ctype}>({text}));")
        lines.append(f"set_tensor_data({tensor}, 1, to, get_tensor_data<{ctype}>({tensor}, 1, at));")
    rig.run([], entry("\n".join(lines)), [(array, "INOUT") for array in arrays])
    for array, (_, _, value) in zip(arrays, TYPES.values(), strict=True):
        np.testing.assert_array_equal(array, np.array([0, value, value], array.dtype))


# Appends its scalar to the log in tensor 0.
LOG = Kernel("log", "float *log = data(args, 0); log[static_cast<int>(++log[0])] = static_cast<float>(args[1]);")


@pytest.mark.parametrize("seed", range(4))
def test_dummy_tasks_join_without_running(rig: Rig, seed: int) -> None:
    """Everything before the dummy task comes before everything after it; it is no task of the run."""
    body = """
    const ChipTensor& log = orch_args.tensor(0).ref();
    PTO2TaskId ids[6];
    for (int64_t i = 0; i < 3; i += 1) {
        CoreTaskArgs p; p.add_no_dep(log); p.add_scalar(i); ids[i] = rt_submit_aiv_task(0, p).task_id();
    }
    CoreTaskArgs joint; joint.set_dependencies(ids, 3); PTO2TaskId join = rt_submit_dummy_task(joint).task_id();
    for (int64_t i = 3; i < 6; i += 1) {
        CoreTaskArgs p; p.add_no_dep(log); p.add_scalar(i); p.set_dependencies(&join, 1); rt_submit_aiv_task(0, p);
    }
    """
    log = np.zeros(8, np.float32)
    options: dict[str, Any] = {"shuffle": True, "seed": seed}
    result = rig.run([LOG], entry(body), [(log, "INOUT")], **options).result
    assert (result.tasks, log[0]) == (6, 6)
    assert set(log[1:4]) == {0, 1, 2}


def test_a_reported_fatal_ends_the_orchestration_at_its_next_call(rig: Rig) -> None:
    body = """
    const ChipTensor& x = orch_args.tensor(0).ref(); uint32_t at[1] = {0}, second[1] = {1};
    set_tensor_data(x, 1, at, rt_is_fatal() ? 1.0f : 2.0f);
    rt_report_fatal(PTO2_ERROR_INVALID_ARGS, "batch %d", 3);
    if (rt_is_fatal()) x.data_as<float>()[2] = 4;
    rt_report_fatal(PTO2_ERROR_EXPLICIT_ORCH_FATAL, "only the first counts");
    set_tensor_data(x, 1, second, 3.0f);
    """
    x = np.zeros(3, np.float32)
    with pytest.raises(rig.module.RuntimeFault) as caught:
        rig.run([], entry(body), [(x, "INOUT")])
    fault = caught.value
    assert (fault.code, fault.code_name, fault.message) == (5, "INVALID_ARGS", "batch 3")
    assert x.tolist() == [2, 0, 4]


def test_small_helpers(rig: Rig) -> None:
    """Sizes, names and layouts that orchestrations ask for; the text of a tensor goes into a log line."""
    body = """
    const ChipTensor& x = orch_args.tensor(0).ref();
    uint32_t shape[2] = {2, 8};
    TensorCreateInfo info(shape, 2, DataType::INT16);
    ChipTensor placed; init_tensor_from_create_info(placed, info, x.data_as<void>(), 128);
    std::string_view text = x.dump();
    always_assert(info.buffer_size_bytes() == 32 && placed.strides[0] == 8 && placed.buffer.size == 128);
    always_assert(get_element_size(DataType::BFLOAT16) == 2 && text.find("INT32 at 0x") == 0);
    """
    text = entry(body + 'LOG_ERROR("%s, %s", x.dump().c_str(), get_dtype_name(x.dtype));')
    rig.run([], "#include <string_view>\n" + text, [(np.zeros((4, 8), np.int32), "INOUT")], log_level=60)
