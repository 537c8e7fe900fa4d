// One executing thread: its on-chip memories and where it tells what it is doing.
#pragma once

#include "crash/flight.h"
#include "execution/core_memory.h"
#include "execution/group.h"
#include "graph/task.h"
#include "layouts.h"

#include <memory>

namespace pypto::runtime {

class CoreCheck;
class Executor;
struct Kernel;

/// One kernel call. Reached from the kernel's context, and from the signal handler.
struct Activation {
    PyptoCoreContext context;
    Executor *executor;
    Group *group;                  // null until a lone kernel opens a pipe
    GroupSet *groups;              // the same
    std::unique_ptr<GroupSet> own; // of a lone kernel
    const Kernel *kernel;
    const Task *task;
    CoreCheck *check;     // of a checked kernel, else null
    RunningSlot *running; // where the thread tells what it does; may be null
    FlightTrack *flight;  // where it keeps its last events; may be null
    int member;           // AIC, AIV0, AIV1
};

struct Core {
    Core(const Platform &platform, int number, RunningSlot *running_slot, FlightTrack *track)
        : memory(platform), index(number), running(running_slot), flight(track) {}

    CoreMemory memory;
    int index;
    RunningSlot *running; // null without a report buffer
    FlightTrack *flight;  // null without a recorder
    bool watched = false; // its thread is known to those who ask where it is
    // The scheduler looks at the clock before and after a unit, so that a lone kernel need not.
    int64_t over_ns = 0;        // of the unit before, if nothing came in between; else 0
    int64_t taken_ns = 0;       // of the unit whose kernel is called next; 0: not known
    FlightRecord returned = {}; // of the kernel that has just returned, without its time
    Activation activation;
};

/// The kernel that this thread executes; null outside kernels.
extern thread_local Activation *current_activation;

} // namespace pypto::runtime
