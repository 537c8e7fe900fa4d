// Finds the positions of kernels' threads when a run is stuck, and the memory that running ones touch.
//
// A signal makes each thread look at its own stack. For their accesses, all memory of tensors is closed for some
// moments, again and again: a reader or writer then faults, notes the address, and waits until it is open again.
// A loop that polls is at the same address each time. The parent says when (StopCommand), since any thread of this
// process may be one that never comes back.
#pragma once

#include "data/staging.h"
#include "layouts.h"

#include <csignal>
#include <cstdint>
#include <cstring>
#include <vector>

namespace pypto::runtime {

class BlockPool;

/// The receiver of samples and the memory to observe, for its own lifetime. One at a time in a process.
class Sampling {
public:
    /// `windows`: address and size of each, which other processes see too. `report` may be null: then nothing is asked.
    Sampling(Report *report, const Staging &staging, const BlockPool &blocks, const std::vector<uint64_t> &windows);
    ~Sampling();
    Sampling(const Sampling &) = delete;
    Sampling &operator=(const Sampling &) = delete;
};

/// This thread runs the kernels of a core from now on.
void watch_thread(int core);

/// Asks every thread that runs a kernel where it is; returns soon. Once in a run. `context`: of the signal that this
/// thread got, if it did.
void sample_threads(const void *context = nullptr);
/// Closes the memory of tensors, and opens it again.
void close_memory();
void open_memory();

/// Handles the signals of sampling, first in any handler; true if the signal was one. Runs in the signalled thread.
bool serve_sample(int signal, const siginfo_t *info, void *context);

/// Returns whether an object of this path belongs to the system, like the C library.
inline bool is_of_the_system(const char *path) {
    return std::strncmp(path, "/usr/", 5) == 0 || std::strncmp(path, "/lib", 4) == 0;
}

} // namespace pypto::runtime
