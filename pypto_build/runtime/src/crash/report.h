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
inline constexpr uint32_t kReportVersion = 3;
inline constexpr uint32_t kReportThreads = 256;
inline constexpr uint32_t kReportFrames = 48;

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

struct CrashRecord {
    std::atomic<uint32_t> state; // 0 none, 1 being written, 2 complete
    int32_t signal;
    int32_t code; // si_code
    int32_t func_id;
    uint64_t address;
    uint64_t task;
    int32_t block;
    uint32_t frame_count;
    char kernel[64];      // or "orchestration"; empty for a thread that is neither's
    char nearest[256];    // tensor or memory the address belongs to or is nearest to
    char arguments[2048]; // one line an argument
    char exception[256];  // what escaped, when that is why the process was aborted
    uint64_t data_bytes;  // of the process, which the memory limit counts
    ReportFrame frames[kReportFrames];
};

/// The fault that ends the run, which code that never returns may keep from being returned.
struct FaultRecord {
    std::atomic<uint32_t> state; // 0 none, 1 being written, 2 complete
    int32_t code;
    uint64_t task;
    char kind[16];
    char kernel[64];
    char message[3072];
    char hint[512];
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
