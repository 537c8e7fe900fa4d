// The report buffer: shared memory in which a run leaves what its parent must know when the process does not return —
// what each thread executes now, how far the run is, the fault that ends it, and after a signal which task, address and
// stack it hit.
//
// pypto_build/runtime/report.py reads the same layout; all fields are little-endian and at fixed offsets.
#pragma once

#include <atomic>
#include <cstdint>

namespace pypto::runtime {

inline constexpr uint64_t kReportMagic = 0x54524f5045525050ull; // "PPREPORT"
inline constexpr uint32_t kReportVersion = 4;
inline constexpr uint32_t kReportThreads = 256;
inline constexpr uint32_t kReportFrames = 48;

/// Exit status of a process whose fault stands in the report: code that lets no exception pass kept it from ending.
inline constexpr int kFaultTold = 72;

/// What one thread executes. `task` is written last and cleared first.
struct RunningSlot {
    std::atomic<uint64_t> task; // number of the task, kNoTask when idle
    int32_t func_id;
    int32_t block;
    int64_t start_ns;            // CLOCK_MONOTONIC
    int32_t member;              // AIC, AIV0, AIV1
    std::atomic<uint32_t> waits; // for another member of its group, or at a barrier
    char kernel[64];
};

struct ReportFrame {
    uint64_t address;
    uint64_t offset; // in the module
    char module[176];
    char symbol[64];
};

/// Where the address that crashed a kernel lies.
enum class Nearness : uint32_t {
    Unknown,         // it was no such crash
    Nothing,         // no memory of the run is near
    StackUsedUp,     // just below the stack
    MissingArgument, // it stands for argument `distance` of a task that has `bytes` arguments
    Inside,          // byte `distance` of a memory of `bytes` bytes
    Before,          // `distance` bytes before such a memory
    Past,            // `distance` bytes past the end of one
};

/// What ended by an exception that nobody caught.
enum class Escaped : uint32_t {
    Nothing,
    Text,     // std::exception::what()
    TypeName, // of an object that is no std::exception
    NoMemory, // std::bad_alloc, with its text
};

struct CrashRecord {
    std::atomic<uint32_t> state; // 0 none, 1 being written, 2 complete
    int32_t signal;
    int32_t code; // si_code
    int32_t func_id;
    uint64_t address;
    uint64_t task;
    int32_t block;
    uint32_t frame_count;
    char kernel[64]; // or "orchestration"; empty for a thread that is neither's
    Nearness nearness;
    Escaped escaped;
    uint64_t distance;
    uint64_t bytes;
    char nearest[96];     // tensor or memory the address belongs to or is nearest to
    char arguments[2048]; // one line an argument
    char exception[256];  // what escaped
    uint64_t data_bytes;  // of the process, which the memory limit counts
    ReportFrame frames[kReportFrames];
};

/// The fault that ends the run, which code that never returns may keep from being returned.
struct FaultRecord {
    std::atomic<uint32_t> state; // 0 none, 1 being written, 2 complete
    uint32_t bytes;
    char json[16384]; // Fault::json(), whole if it fits
};

struct Report {
    uint64_t magic;
    uint32_t version;
    std::atomic<uint32_t> thread_count;  // slots in use
    std::atomic<uint32_t> orchestrating; // 1 while the orchestration's function runs
    uint32_t reserved;
    std::atomic<uint64_t> created;   // tasks
    std::atomic<uint64_t> completed; // tasks
    std::atomic<uint64_t> open;      // tasks that are ready or running
    RunningSlot threads[kReportThreads];
    CrashRecord crash;
    FaultRecord fault;
};

inline constexpr uint64_t kReportBytes = sizeof(Report);

} // namespace pypto::runtime
