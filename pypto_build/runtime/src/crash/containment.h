// Keeps the process that runs kernels, and all that it starts, from leaving or outliving the run.
//
// A process namespace begins with the children of its creator, so a guard stands between the process that replays
// and its child. Where the system allows namespaces, the child sees no process outside of its own, neither the guard
// nor the parent, and all of them end with the first process in there. Elsewhere the guard inherits what the
// child leaves, and ends it one by one. The guard runs no Python: it would copy most of the interpreter's memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pypto::runtime {

/// Ends of pipes. The guard reads `control` and writes `news`; the others are the child's.
struct PipeEnds {
    int control, news, commands, results, output, errors;
};

/// Descriptors of `commands` and `results` in the child; of all open files it keeps these and its output.
constexpr int kCommands = 3, kResults = 4;

/// Rights that are taken from the child, besides all that it does not need.
struct Limits {
    bool hide_memory;                  // it gets a /dev/shm of its own
    std::string output;                // a directory that it cannot write to; empty: none
    std::vector<std::string> writable; // those in it to which it can
    std::string filter; // refuses system calls of it and all that it starts (`struct sock_filter`s); empty: none
};

/// Forks a guard, and from that the child. Returns the guard's process in the parent, 0 in the child, -1 on failure.
///
/// With `terminal`, what the child prints is let out line by line.
///
/// The guard tells, in lines: `child PID HIDDEN` (whether shared memory goes with the child), `ended STATUS PEAK_KB`,
/// and `over` when nothing is left. A `T` on `control` asks for the child's last words (SIGTERM); its end, which comes
/// with that of the parent too, for the end of everything.
int32_t fork_guarded(const PipeEnds &ends, const Limits &limits, bool terminal);

/// Lets out what was printed, unless a thread is just printing.
void flush_output();

/// Removes the System V shared memory that process `creator` made, and what other processes made since the time (in
/// seconds) and left; the number of segments.
int32_t remove_segments(int32_t creator, int64_t since);

} // namespace pypto::runtime
