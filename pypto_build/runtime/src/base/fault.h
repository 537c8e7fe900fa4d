// What went wrong in a run: a code of the runtime's table, a place, a sentence and the way out.
#pragma once

#include "crash/report.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace pypto::runtime {

/// Error codes and names of simpler's runtime, so that its documentation applies.
enum class Code : int32_t {
    None = 0,
    ScopeDeadlock = 1,
    HeapRingDeadlock = 2,
    FlowControlDeadlock = 3,
    DepPoolOverflow = 4,
    InvalidArgs = 5,
    RequireSyncStartInvalid = 7,
    TensorWaitTimeout = 8,
    ExplicitOrchFatal = 9,
    ScopeTasksOverflow = 10,
    TensorMapOverflow = 11,
    SchedulerTimeout = 100, // nothing can run and something is left
    KernelFault = 200,      // ours: a kernel ended itself with a message
    LoadError = 201,        // ours: a kernel or orchestration cannot be loaded
};

inline constexpr uint64_t kNoTask = ~uint64_t{0};

struct Fault {
    Code code = Code::None;
    std::string_view kind = "runtime_error"; // or "hang", "usage_error", "build_error"; always a literal
    std::string message = {};
    std::string hint = {};
    uint64_t task = kNoTask;    // number of the task, counted from 0 in submission order
    uint64_t task_id = kNoTask; // ring << 32 | number in the ring
    std::string kernel = {};

    explicit operator bool() const { return code != Code::None; }
};

/// "INVALID_ARGS" and the like.
const char *code_name(Code code);
/// What to change, for codes that have one answer.
const char *code_hint(Code code);

/// A fault with the code's own hint.
Fault make_fault(Code code, std::string message);
Fault make_fault(Code code, std::string message, std::string hint);
/// Leaves the fault where it can be read from outside.
void write_fault(FaultRecord &record, const Fault &fault);
/// A file that cannot be loaded: kind "build_error".
Fault load_fault(std::string message, std::string hint);

/// Ends Runtime calls with a fault; never leaves the C++ library's own frames.
struct FaultError {
    Fault fault;
};
/// What the caller asked for makes no sense: kind "usage_error".
[[noreturn]] void throw_usage_error(std::string message, std::string hint);

/// printf into a string.
__attribute__((format(printf, 1, 2))) std::string format(const char *pattern, ...);

} // namespace pypto::runtime
