// The table of error codes; faults as texts.
#include "base/fault.h"

#include <cstdarg>
#include <cstdio>
#include <string_view>

namespace pypto::runtime {

namespace {

struct CodeRow {
    Code code;
    const char *name;
    const char *hint;
};

constexpr CodeRow kCodes[] = {
    {Code::ScopeDeadlock, "SCOPE_DEADLOCK",
     "the open scope alone holds more tasks than the ring's window: close PTO2_SCOPE inside the loop, or raise "
     "PTO2_RING_TASK_WINDOW (a power of two)"},
    {Code::HeapRingDeadlock, "HEAP_RING_DEADLOCK",
     "the tensors alive at once need more than the ring's heap: close PTO2_SCOPE earlier, allocate inside the loop's "
     "scope, or raise PTO2_RING_HEAP (bytes)"},
    {Code::FlowControlDeadlock, "FLOW_CONTROL_DEADLOCK",
     "the ring's task window is full and its oldest task cannot be released: raise PTO2_RING_TASK_WINDOW (a power of "
     "two)"},
    {Code::DepPoolOverflow, "DEP_POOL_OVERFLOW",
     "the ring holds more dependency edges than its pool: raise PTO2_RING_DEP_POOL, or join dependencies with "
     "rt_submit_dummy_task"},
    {Code::InvalidArgs, "INVALID_ARGS", "correct the call in the orchestration"},
    {Code::RequireSyncStartInvalid, "REQUIRE_SYNC_START_INVALID",
     "blocks that start together cannot outnumber the cores: lower set_block_num or drop set_require_sync_start"},
    {Code::TensorWaitTimeout, "TENSOR_WAIT_TIMEOUT",
     "a task that writes the tensor never finishes: see the tasks left"},
    {Code::ExplicitOrchFatal, "EXPLICIT_ORCH_FATAL", "the orchestration itself reported this"},
    {Code::ScopeTasksOverflow, "SCOPE_TASKS_OVERFLOW", "close PTO2_SCOPE inside the loop"},
    {Code::TensorMapOverflow, "TENSORMAP_OVERFLOW",
     "more tensor regions are written by unfinished tasks than the tensor map holds: write through fewer views, or "
     "mark "
     "private buffers manual_dep"},
    {Code::SchedulerTimeout, "SCHEDULER_TIMEOUT", "see what each unfinished task waits for"},
    {Code::KernelFault, "KERNEL_FAULT", "correct the kernel"},
    {Code::LoadError, "LOAD_ERROR", "rebuild the artifact"},
};

const CodeRow *find(Code code) {
    for (const CodeRow &row : kCodes)
        if (row.code == code)
            return &row;
    return nullptr;
}

} // namespace

const char *code_name(Code code) {
    const CodeRow *row = find(code);
    return row ? row->name : "UNKNOWN";
}

const char *code_hint(Code code) {
    const CodeRow *row = find(code);
    return row ? row->hint : "";
}

Fault make_fault(Code code, std::string message) {
    return make_fault(code, std::move(message), code_hint(code));
}

Fault make_fault(Code code, std::string message, std::string hint) {
    Fault fault;
    fault.code = code;
    fault.message = std::move(message);
    fault.hint = std::move(hint);
    return fault;
}

template <size_t Size> void copy_text(char (&to)[Size], std::string_view from) {
    to[from.copy(to, Size - 1)] = 0;
}

void write_fault(FaultRecord &record, const Fault &fault) {
    record.state.store(1);
    record.code = static_cast<int32_t>(fault.code);
    record.task = fault.task;
    copy_text(record.kind, fault.kind);
    copy_text(record.kernel, fault.kernel);
    copy_text(record.message, fault.message);
    copy_text(record.hint, fault.hint);
    record.state.store(2);
}

Fault load_fault(std::string message, std::string hint) {
    Fault fault = make_fault(Code::LoadError, std::move(message), std::move(hint));
    fault.kind = "build_error";
    return fault;
}

void throw_usage_error(std::string message, std::string hint) {
    Fault fault = make_fault(Code::InvalidArgs, std::move(message), std::move(hint));
    fault.kind = "usage_error";
    throw FaultError{fault};
}

std::string format(const char *pattern, ...) {
    va_list arguments;
    va_start(arguments, pattern);
    va_list again;
    va_copy(again, arguments);
    const int length = std::vsnprintf(nullptr, 0, pattern, arguments);
    va_end(arguments);
    std::string text(static_cast<size_t>(length > 0 ? length : 0), '\0');
    std::vsnprintf(text.data(), text.size() + 1, pattern, again);
    va_end(again);
    return text;
}

} // namespace pypto::runtime
