// One executing thread: its on-chip memories and where it tells what it is doing.
#pragma once

#include "crash/report.h"
#include "execution/core_memory.h"
#include "execution/group.h"
#include "graph/task.h"

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
    int member;           // AIC, AIV0, AIV1
};

struct Core {
    Core(const Platform &platform, int number, RunningSlot *running_slot)
        : memory(platform), index(number), running(running_slot) {}

    CoreMemory memory;
    int index;
    RunningSlot *running; // null without a report buffer
    Activation activation;
};

/// What this thread executes; null outside kernels.
extern thread_local Activation *current_activation;

} // namespace pypto::runtime
