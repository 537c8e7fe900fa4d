"""Kinds of faults that end a run: a row each, with the code of upstream's runtime, the verdict's status and the texts.

The runtime, or a stand-in for kernels, notices a fault. The fault travels as its kind and its fields; readers make the
text of both (`pypto_build.runtime.faults`). C++ has the same names and numbers, by `runtime/layouts.py`. In a message
and a hint, `{name}` stands for a field; `{place}`, `{code_hint}` and the like are made from several.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Literal, NamedTuple

Status = Literal["usage_error", "build_error", "runtime_error", "hang"]


class Code(NamedTuple):
    """A fault code of upstream's runtime, or one of ours from 200 on: number, name, and the usual remedy."""

    number: int
    name: str
    hint: str


SCOPE_DEADLOCK = Code(
    1,
    "SCOPE_DEADLOCK",
    "the open scope alone holds more tasks than the ring's window: close PTO2_SCOPE inside the loop, or raise "
    "PTO2_RING_TASK_WINDOW (a power of two)",
)
HEAP_RING_DEADLOCK = Code(
    2,
    "HEAP_RING_DEADLOCK",
    "the tensors alive at once need more than the ring's heap: close PTO2_SCOPE earlier, allocate inside the loop's "
    "scope, or raise PTO2_RING_HEAP (bytes)",
)
FLOW_CONTROL_DEADLOCK = Code(
    3,
    "FLOW_CONTROL_DEADLOCK",
    "the ring's task window is full and its oldest task cannot be released: raise PTO2_RING_TASK_WINDOW (a power of "
    "two)",
)
DEP_POOL_OVERFLOW = Code(
    4,
    "DEP_POOL_OVERFLOW",
    "the ring holds more dependency edges than its pool: raise PTO2_RING_DEP_POOL, or join dependencies with "
    "rt_submit_dummy_task",
)
INVALID_ARGS = Code(5, "INVALID_ARGS", "correct the call in the orchestration")
REQUIRE_SYNC_START_INVALID = Code(
    7,
    "REQUIRE_SYNC_START_INVALID",
    "blocks that start together cannot outnumber the cores: lower set_block_num or drop set_require_sync_start",
)
TENSOR_WAIT_TIMEOUT = Code(8, "TENSOR_WAIT_TIMEOUT", "a task that writes the tensor never finishes: see the tasks left")
EXPLICIT_ORCH_FATAL = Code(9, "EXPLICIT_ORCH_FATAL", "the orchestration itself reported this")
SCOPE_TASKS_OVERFLOW = Code(10, "SCOPE_TASKS_OVERFLOW", "close PTO2_SCOPE inside the loop")
TENSORMAP_OVERFLOW = Code(
    11,
    "TENSORMAP_OVERFLOW",
    "more tensor regions are written by unfinished tasks than the tensor map holds: write through fewer views, or mark "
    "private buffers manual_dep",
)
SCHEDULER_TIMEOUT = Code(100, "SCHEDULER_TIMEOUT", "see what each unfinished task waits for")
ASYNC_COMPLETION_INVALID = Code(
    101, "ASYNC_COMPLETION_INVALID", "look at what the kernel starts asynchronously, and on which engine"
)
ASYNC_WAIT_OVERFLOW = Code(102, "ASYNC_WAIT_OVERFLOW", "wait for some of them in the kernel, or use more tasks")
KERNEL_FAULT = Code(200, "KERNEL_FAULT", "correct the kernel")
LOAD_ERROR = Code(201, "LOAD_ERROR", "rebuild the artifact")

#: The first of our own codes, which upstream does not have.
OWN_CODES = 200

CODES = {code.number: code for code in list(globals().values()) if isinstance(code, Code)}


class FaultKind:
    """Numbers of the kinds, in the order of a run. They are plain integers, because creating such a large
    enumeration takes 2 ms.
    """

    # requests to a run
    UNKNOWN_PLATFORM = 1
    UNKNOWN_DTYPE = 2
    UNKNOWN_DIRECTION = 3
    TENSOR_FIELDS = 4
    BUFFER_TOO_SMALL = 5
    UNKNOWN_OPTION = 6
    RING_VALUES = 7
    RING_LIMIT = 8
    ORDER_REPEATS = 9
    ORDER_BROKEN = 10
    NO_OUTPUT_DIR = 11
    DUMP_LEVEL = 12
    SWIMLANE_LEVEL = 13
    DUMP_FORMAT = 14
    SELECTION_WITHOUT_DUMP = 15
    DUMP_SELECT = 16
    DUMP_TASKS = 17
    NOT_WRITABLE = 18
    # what it loads
    NOT_LOADABLE = 19
    KERNEL_NUMBER = 20
    KERNEL_CORE_TYPE = 21
    KERNEL_NUMBER_TAKEN = 22
    NO_KERNEL_ENTRY = 23
    KERNEL_ABI = 24
    NO_ORCHESTRATION = 25
    OTHER_ORCHESTRATION = 26
    NO_ORCHESTRATION_ENTRY = 27
    ORCHESTRATION_ABI = 28
    # what it starts with
    TENSOR_MEMORY = 29
    PARAMETER_ORDER = 30
    EXPECTED_ARGUMENTS = 31
    NO_MEMORY_FOR_INPUT = 32
    NO_MEMORY_FOR_CORE = 33
    # what the orchestration does
    REPORTED_FATAL = 34
    ORCHESTRATION_STATUS = 35
    MISUSE = 36
    ENTRY_ARGUMENT = 37
    SCOPE_LEFT_OPEN = 38
    AUTO_SCOPE_IN_MANUAL = 39
    SCOPES_TOO_DEEP = 40
    SCOPE_NEVER_BEGUN = 41
    ARGUMENT_MISUSE = 42
    TOO_MANY_ARGUMENTS = 43
    UNKNOWN_KERNEL = 44
    WRONG_CORE_TYPE = 45
    NO_BLOCKS = 46
    PREDICATE_WITHOUT_TENSOR = 47
    TOO_MANY_BLOCKS_TOGETHER = 48
    NULL_ARGUMENT = 49
    UNSET_ARGUMENT = 50
    ARGUMENT_TOO_LARGE = 51
    TENSOR_NOT_WRITTEN = 52
    TENSOR_WITHOUT_STORAGE = 53
    INVALID_DEPENDENCY = 54
    TOO_MANY_ALLOCATIONS = 55
    NOT_CREATE_INFO = 56
    INDEX_COUNT = 57
    INDEX_OUTSIDE = 58
    GRAPH_EDGE = 59
    GRAPH_TIMING_SLOT = 60
    # resources that are used up
    HEAP_FULL = 61
    DEPENDENCY_POOL_FULL = 62
    WINDOW_FULL = 63
    SCOPE_FILLS_WINDOW = 64
    TENSOR_MAP_FULL = 65
    NO_MEMORY = 66
    # what can no longer happen
    STALL = 67
    TENSOR_WAIT = 68
    GROUP_DEADLOCK = 69
    BARRIER_MISSED = 70
    # what kernels do
    KERNEL_REPORTED = 71
    KERNEL_ENDED_ITSELF = 72
    SLOT_NOT_ACQUIRED = 73
    SLOT_NOT_POPPED = 74
    BARRIER_WITHOUT_START = 75
    CHECK_FAILED = 76
    CALLBACK_ENDED = 77
    # what stands in for kernels does; noticed in Python
    REFERENCE = 78
    REFERENCE_DEADLOCK = 79
    ESCAPED_EXCEPTION = 80
    OUT_OF_MEMORY = 81
    UNUSABLE_INPUT = 82
    NOT_TRANSLATED = 83
    # what many chips do; noticed in Python
    DRIVER = 84
    WINDOW_OVERRUN = 85
    RANKS_DEADLOCK = 86
    # what a kernel leaves for its task to wait for
    ASYNC_INVALID = 87
    ASYNC_OVERFLOW = 88
    # what kernels of one chip wait for
    VALUE_WAIT = 89


class Kind(NamedTuple):
    """A row: fault code, message, hint, and the status of a verdict with this fault."""

    code: Code
    message: str
    hint: str = "{code_hint}"
    status: Status = "runtime_error"


def _request_fault(message: str, hint: str) -> Kind:
    return Kind(INVALID_ARGS, message, hint, "usage_error")


def _loaded(message: str, hint: str) -> Kind:
    return Kind(LOAD_ERROR, message, hint, "build_error")


def _submitted(message: str, hint: str) -> Kind:
    return Kind(INVALID_ARGS, message, hint)


def _run(message: str, hint: str = "{code_hint}") -> Kind:
    return Kind(KERNEL_FAULT, message, hint)


def _elsewhere(status: Status) -> Kind:
    return Kind(KERNEL_FAULT, "{text}", "{hint}", status)


_TENSOR_NOT_SUPPLIED = "task {number}: argument {argument} has no storage"

KINDS: dict[int, Kind] = {
    FaultKind.UNKNOWN_PLATFORM: _request_fault('platform "{name}" is unknown', "use a2a3sim or a5sim"),
    FaultKind.UNKNOWN_DTYPE: _request_fault('dtype "{name}" is unknown', "use torch's names, like float32 or bfloat16"),
    FaultKind.UNKNOWN_DIRECTION: _request_fault('direction "{name}" is unknown', "use IN, OUT or INOUT"),
    FaultKind.TENSOR_FIELDS: _request_fault(
        "tensor {index} has {count} fields", "give (memory, shape, dtype, direction[, name])"
    ),
    FaultKind.BUFFER_TOO_SMALL: _request_fault(
        "tensor {name} needs {bytes} bytes, its buffer has {given}", "pass a contiguous buffer of the tensor's shape"
    ),
    FaultKind.UNKNOWN_OPTION: _request_fault('option "{name}" is unknown', "see the options of Runtime.run"),
    FaultKind.RING_VALUES: _request_fault("option {name} has {count} values", "give one number or four, one a ring"),
    FaultKind.RING_LIMIT: _request_fault("{name} is {value}", "make it {allowed}"),
    FaultKind.ORDER_REPEATS: _request_fault("option order names a task twice", "name each task once"),
    FaultKind.ORDER_BROKEN: _request_fault(
        "option order cannot be followed: {awaited_task} {obstacle}",
        "name each task after those it waits for, and no task that does not exist",
    ),
    FaultKind.NO_OUTPUT_DIR: _request_fault(
        "option output_dir is missing", "name the directory for what the run leaves"
    ),
    FaultKind.DUMP_LEVEL: _request_fault("option dump_args is {value}", "use 0 to 3"),
    FaultKind.SWIMLANE_LEVEL: _request_fault("option swimlane is {value}", "use 0 to 4"),
    FaultKind.DUMP_FORMAT: _request_fault('option dump_format is "{value}"', "use args or tensor"),
    FaultKind.SELECTION_WITHOUT_DUMP: _request_fault(
        "dump_select and dump_tasks need a dump", "set option dump_args to 1, 2 or 3"
    ),
    FaultKind.DUMP_SELECT: _request_fault(
        'option dump_select is "{value}"', "use KERNEL or KERNEL:INDEX; KERNEL may hold * and ?"
    ),
    FaultKind.DUMP_TASKS: _request_fault(
        'option dump_tasks is "{value}"', "use task numbers N or N-M, or an id in hexadecimal, 0x..."
    ),
    FaultKind.NOT_WRITABLE: _request_fault("{path}: cannot be written: {reason}", "choose a writable output directory"),
    FaultKind.NOT_LOADABLE: _loaded("{path}: cannot be loaded: {reason}", "rebuild it for this machine"),
    FaultKind.KERNEL_NUMBER: _loaded(
        "kernel {name}: func_id {func_id} is outside 0..{last}", "number the kernels from 0 in kernel_config.py"
    ),
    FaultKind.KERNEL_CORE_TYPE: _loaded(
        'kernel {name}: core_type "{core_type}" is unknown', 'use "aic" or "aiv" in kernel_config.py'
    ),
    FaultKind.KERNEL_NUMBER_TAKEN: _loaded(
        "kernel {name}: func_id {func_id} is already that of {other}",
        "give each kernel its own func_id in kernel_config.py",
    ),
    FaultKind.NO_KERNEL_ENTRY: _loaded(
        "{path}: exports no kernel_entry",
        'keep the extern "C" kernel_entry wrapper at the end of the kernel\'s source',
    ),
    FaultKind.KERNEL_ABI: _loaded(
        "{path}: is built for ABI {abi} of a core, this runtime has {own}", "rebuild the kernel"
    ),
    FaultKind.NO_ORCHESTRATION: _loaded("no orchestration is loaded", "call load_orchestration first"),
    FaultKind.OTHER_ORCHESTRATION: _loaded(
        "{path}: was not compiled against this runtime's pto_orchestration_api.h", "rebuild the orchestration"
    ),
    FaultKind.NO_ORCHESTRATION_ENTRY: _loaded(
        "{path}: exports no function {name}", 'correct ORCHESTRATION["function_name"] in kernel_config.py'
    ),
    FaultKind.ORCHESTRATION_ABI: _loaded(
        "{path}: is built for ABI {abi} of the runtime, this one has {own}", "rebuild the orchestration"
    ),
    FaultKind.TENSOR_MEMORY: _submitted(
        "tensor {name}: {dimensions} dimensions and {bytes} bytes do not fit its {given} bytes of memory",
        "pass row-major memory of 1 to 5 dimensions; give scalars the shape (1,)",
    ),
    FaultKind.PARAMETER_ORDER: _submitted(
        'the orchestration reads {count} arguments ("{order}"), the entry has {tensors} tensors and {scalars} scalars',
        "correct the orchestration",
    ),
    FaultKind.EXPECTED_ARGUMENTS: _submitted(
        "the orchestration expects {expected} arguments, {given} are given",
        "pass every tensor and scalar its config function counts",
    ),
    FaultKind.NO_MEMORY_FOR_INPUT: Kind(
        HEAP_RING_DEADLOCK, "no memory is left for a copy of input {name}", "pass page-aligned input tensors"
    ),
    FaultKind.NO_MEMORY_FOR_CORE: Kind(
        LOAD_ERROR,
        "no address space is left for the on-chip memories of a core",
        "run fewer replays at once or raise the memory limit (ulimit -v)",
        "build_error",
    ),
    FaultKind.REPORTED_FATAL: Kind(EXPLICIT_ORCH_FATAL, "{text}"),
    FaultKind.ORCHESTRATION_STATUS: Kind(EXPLICIT_ORCH_FATAL, "the orchestration returns {value}"),
    FaultKind.MISUSE: _submitted("{before}: {text}", "correct the orchestration"),
    FaultKind.ENTRY_ARGUMENT: _submitted(
        "{before}: orch_args.{name}({index}) is out of range: the entry has {count} {name}{plural}",
        "correct the orchestration",
    ),
    FaultKind.SCOPE_LEFT_OPEN: _submitted(
        "the orchestration returns with an open scope", "end each rt_scope_begin with rt_scope_end"
    ),
    FaultKind.AUTO_SCOPE_IN_MANUAL: _submitted(
        "{file}:{line}: an automatic scope opens inside a manual one",
        "make the inner scope PTO2ScopeMode::MANUAL too, or end the outer one first",
    ),
    FaultKind.SCOPES_TOO_DEEP: _submitted(
        "{file}:{line}: scopes are nested deeper than {limit}", "close scopes before opening more"
    ),
    FaultKind.SCOPE_NEVER_BEGUN: _submitted(
        "{file}:{line}: a scope ends that was never begun",
        "pair rt_scope_begin with rt_scope_end, or use PTO2_SCOPE()",
    ),
    FaultKind.ARGUMENT_MISUSE: _submitted("task {number}: {text}", "correct the arguments in the orchestration"),
    FaultKind.TOO_MANY_ARGUMENTS: _submitted("task {number} has {count} arguments", "pass at most {limit}"),
    FaultKind.UNKNOWN_KERNEL: _submitted(
        "task {number} submits func_id {func_id}, but no kernel in the manifest has this func_id",
        "kernels of this artifact: {known}; correct the submission or add it to KERNELS",
    ),
    FaultKind.WRONG_CORE_TYPE: _submitted(
        "task {number} runs kernel {name} as {role}, but its core_type is {core_type}",
        "submit it with rt_submit_{core_type}_task",
    ),
    FaultKind.NO_BLOCKS: _submitted(
        "task {number} asks for {count} SPMD blocks", "launch at least one block, and no more than 32767 over all cores"
    ),
    FaultKind.PREDICATE_WITHOUT_TENSOR: _submitted(
        "task {number} has a predicate without a tensor", "set operand.tensor"
    ),
    FaultKind.TOO_MANY_BLOCKS_TOGETHER: Kind(
        REQUIRE_SYNC_START_INVALID, "task {number} starts {count} blocks together; {chip} has {limit} {cores}"
    ),
    FaultKind.NULL_ARGUMENT: _submitted(
        "task {number}: argument {argument} is a null reference", "pass a tensor or a TensorCreateInfo that exists"
    ),
    FaultKind.UNSET_ARGUMENT: _submitted(
        "task {number}: argument {argument} has {dimensions} dimensions and element type {dtype}",
        "pass a tensor that is set, of 1 to 5 dimensions and a known type",
    ),
    FaultKind.ARGUMENT_TOO_LARGE: _submitted(
        "task {number}: argument {argument} asks for more memory than any machine has",
        "correct its shape; sizes may have wrapped around",
    ),
    FaultKind.TENSOR_NOT_WRITTEN: _submitted(
        _TENSOR_NOT_SUPPLIED, "a task must write the tensor before another reads it: pass it as output first"
    ),
    FaultKind.TENSOR_WITHOUT_STORAGE: _submitted(
        _TENSOR_NOT_SUPPLIED, "pass a tensor from outside, from alloc_tensors, or from a task's outputs"
    ),
    FaultKind.INVALID_DEPENDENCY: _submitted(
        "task {number}: explicit dependency {index} is not a task", "add it only if (id.is_valid())"
    ),
    FaultKind.TOO_MANY_ALLOCATIONS: _submitted(
        "more than {limit} tensors are allocated at once", "allocate the rest in a second call"
    ),
    FaultKind.NOT_CREATE_INFO: _submitted(
        "alloc_tensors is given something that is not a TensorCreateInfo", "add_output only TensorCreateInfos"
    ),
    FaultKind.INDEX_COUNT: _submitted(
        "{count} indices are given for a tensor of {dimensions} dimensions", "give one for each"
    ),
    FaultKind.INDEX_OUTSIDE: _submitted(
        "index {index} is outside dimension {dimension} of size {size}",
        "correct the indices of get_tensor_data or set_tensor_data",
    ),
    FaultKind.GRAPH_EDGE: _submitted(
        "add_successor({producer}, {consumer}) names a task that was not added", "use the numbers add_task returned"
    ),
    FaultKind.GRAPH_TIMING_SLOT: _submitted(
        "set_task_timing_slot({number}, {slot}) names no task and slot",
        "use the numbers add_task returned, and slots 0 to 15",
    ),
    FaultKind.HEAP_FULL: Kind(
        HEAP_RING_DEADLOCK,
        "the heap of ring {ring}{scope} is full: {bytes} bytes are asked for, {used} of {limit} are held by tasks that "
        "cannot be released{oldest}",
        "{code_hint}, for example PTO2_RING_HEAP={enough}",
    ),
    FaultKind.DEPENDENCY_POOL_FULL: Kind(
        DEP_POOL_OVERFLOW,
        "ring {ring}{scope}: {used} of {limit} dependency edges are in use and {count} more are needed{oldest}",
    ),
    FaultKind.WINDOW_FULL: Kind(FLOW_CONTROL_DEADLOCK, "ring {ring}{scope}: all {limit} task slots are in use{oldest}"),
    FaultKind.SCOPE_FILLS_WINDOW: Kind(
        SCOPE_DEADLOCK,
        "one scope holds more tasks than its ring has slots: all {limit} of ring {ring}{scope} are in use, every task "
        "in them is over, and their scope is still open{oldest}",
    ),
    FaultKind.TENSOR_MAP_FULL: Kind(
        TENSORMAP_OVERFLOW, "the tensor map's {limit} entries all belong to unfinished tasks"
    ),
    FaultKind.NO_MEMORY: Kind(
        HEAP_RING_DEADLOCK,
        "this machine has no memory left for {bytes} bytes",
        "lower PTO2_RING_HEAP or the number of replays at once",
    ),
    FaultKind.STALL: Kind(SCHEDULER_TIMEOUT, "{tasks_left}; {occupancy}", "{stall_hint}", "hang"),
    FaultKind.TENSOR_WAIT: Kind(
        TENSOR_WAIT_TIMEOUT,
        "{name} waits for a task that cannot finish: {tasks_left}; {occupancy}",
        "{stall_hint}",
        "hang",
    ),
    FaultKind.GROUP_DEADLOCK: Kind(SCHEDULER_TIMEOUT, "{group}; {occupancy}", "{group_hint}", "hang"),
    FaultKind.BARRIER_MISSED: Kind(
        SCHEDULER_TIMEOUT,
        "SYNCALL waits for a block that has returned without calling it: {barrier}; {occupancy}",
        "call SYNCALL equally often in every block, and not while others wait for a pipe",
        "hang",
    ),
    FaultKind.KERNEL_REPORTED: _run("{text}{place}"),
    FaultKind.KERNEL_ENDED_ITSELF: _run("the kernel ended itself{place}"),
    FaultKind.SLOT_NOT_ACQUIRED: _run(
        "pipe {pipe}: a slot is committed that was not acquired", "acquire a slot before each push"
    ),
    FaultKind.SLOT_NOT_POPPED: _run("pipe {pipe}: a slot is freed that was not popped", "free each popped slot once"),
    FaultKind.BARRIER_WITHOUT_START: _run(
        "SYNCALL waits for all {count} blocks, which need not run at the same time",
        "launch them together with launch_spec.set_require_sync_start(true)",
    ),
    FaultKind.CHECK_FAILED: _run("{text}{written}{at}", "scons hazards shows every such place"),
    FaultKind.CALLBACK_ENDED: Kind(EXPLICIT_ORCH_FATAL, "the callback of a task ended the run"),
    FaultKind.REFERENCE: _elsewhere("runtime_error"),
    FaultKind.REFERENCE_DEADLOCK: _elsewhere("hang"),
    FaultKind.ESCAPED_EXCEPTION: _elsewhere("runtime_error"),
    FaultKind.OUT_OF_MEMORY: _elsewhere("runtime_error"),
    FaultKind.UNUSABLE_INPUT: _elsewhere("usage_error"),
    FaultKind.NOT_TRANSLATED: _elsewhere("build_error"),
    FaultKind.DRIVER: _elsewhere("runtime_error"),
    FaultKind.WINDOW_OVERRUN: _elsewhere("runtime_error"),
    FaultKind.RANKS_DEADLOCK: _elsewhere("hang"),
    FaultKind.ASYNC_INVALID: Kind(ASYNC_COMPLETION_INVALID, "the kernel reports that an asynchronous operation failed"),
    FaultKind.ASYNC_OVERFLOW: Kind(
        ASYNC_WAIT_OVERFLOW, "the kernel registers more completions to wait for than the {limit} of a task"
    ),
    FaultKind.VALUE_WAIT: Kind(SCHEDULER_TIMEOUT, "{values}; {occupancy}", "{values_hint}", "hang"),
}


class Nearness(IntEnum):
    """Position of a crash address relative to the nearest memory block."""

    UNKNOWN = 0
    NOTHING = 1
    STACK_USED_UP = 2
    MISSING_ARGUMENT = 3
    INSIDE = 4
    BEFORE = 5
    PAST = 6


class Escaped(IntEnum):
    """Kind of the uncaught exception that ended a run."""

    NOTHING = 0
    TEXT = 1
    TYPE_NAME = 2
    NO_MEMORY = 3
