// Everything a run can be told, with its defaults.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pypto::runtime {

inline constexpr uint32_t kRings = 4;

/// Bytes of each on-chip memory and the number of cores of a chip.
struct Platform {
    const char *name;
    uint32_t memory_bytes[9]; // indexed by PyptoSpace
    int clusters;             // one AIC and two AIV cores each
    uint64_t clock_hz;        // unit of recorded times
    bool vector_barriers;     // whether dependent vector instructions need a pipe_barrier between them
};

/// The platform of that name ("a2a3", "a2a3sim", "a5", "a5sim"), or null.
const Platform *find_platform(const std::string &name);

enum class Order {
    Parallel, // ready tasks in submission order on all threads
    Serial,   // one after the other in submission order
    Shuffled, // one after the other in a seeded random legal order
    Listed,   // one after the other as Settings::task_order says, others last
};

struct RingLimits {
    uint32_t task_window[kRings] = {16384, 16384, 16384, 16384};
    uint64_t heap_bytes[kRings] = {256u << 20, 256u << 20, 256u << 20, 256u << 20};
    uint32_t dependency_pool[kRings] = {16384, 16384, 16384, 16384};
    uint32_t tensor_map = 65536;
    uint32_t scope_depth = 64;
};

/// The defaults, changed by PTO2_RING_TASK_WINDOW, PTO2_RING_HEAP and PTO2_RING_DEP_POOL: one value or four, separated
/// by commas. A value that makes no sense is ignored with a warning on stderr.
RingLimits limits_from_environment();
/// Throws FaultError naming the first limit that makes no sense.
void check_limits(const RingLimits &limits);

class TaskHook;

struct Settings {
    Order order = Order::Parallel;
    std::vector<uint64_t> task_order; // ids of tasks
    TaskHook *hook = nullptr;         // stands in place of the kernels
    uint64_t seed = 0;
    bool strict = false;        // also order readers before writers and overlapping outputs
    bool poison = true;         // outputs and allocated tensors start as NaN or a pattern
    bool protect_inputs = true; // notice writes to IN tensors
    RingLimits limits;
    std::string parameter_order; // 't' and 's' in declaration order; empty: tensors first
    int log_level = 30;
    std::string dump_format = "args";     // or "tensor", the names before 2026-06-18
    int dump_args = 0;                    // 0 off, 1 marked, 2 all, 3 all without payload
    std::vector<std::string> dump_select; // KERNEL or KERNEL:INDEX, with * and ?; empty: all
    std::vector<std::string> dump_tasks;  // N, N-M or 0xID; empty: all
    bool dep_gen = false;
    bool graph = false;            // the content of deps.json in the result
    std::vector<std::string> trap; // nan, inf, saturate, denormal: checked kernels end at what makes one of them
    // Calls, each as task and block, where block -1 stands for all of a task's.
    std::vector<int64_t> trace;  // their checked kernels leave trace.*: every instruction with its values
    std::vector<int64_t> only;   // unless empty, no others are made: they count as over at once
    std::vector<int64_t> hooked; // unless empty, `hook` stands in for these alone
    std::string memory;        // "weak": stores are visible when the device makes them so, lines of caches may be stale
    bool accesses = false;     // what checked kernels touch: accesses.json and accesses.bin
    bool operands = false;     // with which checked kernels executed instructions: executed.json
    bool judge = true;         // checked kernels say what is wrong; else they record loads, stores and traces, no more
    bool instructions = false; // checked kernels leave their instructions without values, in place of all this
    int swimlane = 0;
    bool scope_stats = false;
    std::string output_dir; // of what a run leaves
    void *report = nullptr; // shared memory for crash and progress reports
    uint64_t report_bytes = 0;
    void *flight = nullptr; // shared memory for the last events of every core (crash/flight.h)
    uint64_t flight_bytes = 0;
    void *board = nullptr; // shared memory of all ranks (chips/board.h)
    uint64_t board_bytes = 0;
    uint32_t rank = 0;             // whose run this is
    std::vector<uint64_t> windows; // address and size of those of all ranks
};

} // namespace pypto::runtime
