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
inline constexpr uint32_t kReportVersion = 5;
inline constexpr uint32_t kReportThreads = 256;
inline constexpr uint32_t kReportFrames = 48;
inline constexpr uint32_t kReportSamples = 16;
inline constexpr uint32_t kSampleFrames = 8;

/// Exit status of a process whose fault stands in the report: code that lets no exception pass kept it from ending.
inline constexpr int kFaultTold = 72;

/// A thread's running kernel. `task` is written last and cleared first.
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

/// Position of the address that crashed a kernel.
enum class Nearness : uint32_t {
    Unknown,         // it was no such crash
    Nothing,         // no memory of the run is near
    StackUsedUp,     // just below the stack
    MissingArgument, // it stands for argument `distance` of a task that has `bytes` arguments
    Inside,          // byte `distance` of a memory of `bytes` bytes
    Before,          // `distance` bytes before such a memory
    Past,            // `distance` bytes past the end of one
};

/// Kind of an uncaught exception.
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

/// The parent's commands to a run that it stops at the time limit.
enum class StopCommand : uint8_t {
    None,
    Ask,   // where every thread is
    Close, // the memory of tensors: who touches it notes that, and waits
    Open,  // the same again
    End,
};

/// Position of a thread at the moment when a run got stuck or was stopped.
struct HangSample {
    std::atomic<uint32_t> state; // 0 none, 1 being written, 2 complete
    int32_t core;                // number of its slot
    RunningSlot running;         // what was in that
    uint32_t frame_count;
    uint32_t closing; // of the tensors' memory, that it was last seen in
    uint32_t looks;   // how often it was seen to touch memory of tensors
    uint32_t polls;   // how often in a row, at last, at `address`
    uint64_t address;
    uint64_t at;   // the instruction
    int32_t value; // of the four bytes at `address`
    Nearness nearness;
    uint64_t distance; // as in CrashRecord
    uint64_t bytes;
    char nearest[96];
    ReportFrame frames[kSampleFrames];
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
    std::atomic<uint32_t> command;   // of the parent, for the next SIGTERM: a number << 8 | StopCommand
    std::atomic<uint32_t> answered;  // the last that was carried out
    RunningSlot threads[kReportThreads];
    CrashRecord crash;
    FaultRecord fault;
    HangSample samples[kReportSamples];
};

inline constexpr uint64_t kReportBytes = sizeof(Report);

} // namespace pypto::runtime
