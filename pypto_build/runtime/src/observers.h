// Who may watch a run: what the orchestration asks for, and what the tasks do.
#pragma once

#include "task.h"
#include "tensor_map.h"

namespace pypto::runtime {

/// Where a dependency comes from.
enum class EdgeSource { Explicit, Creator, TensorMap, Strict };

struct Edge {
    uint64_t producer;
    int arg; // index among the task's arguments, -1 for explicit edges
    EdgeSource source;
    uint8_t flags;
    Overlap overlap;
    const ChipTensor *consumer; // the argument, or null
    const ChipTensor *writer;   // the region the producer writes, or null
};

/// Called on the orchestration's thread.
class OrchestrationObserver {
public:
    virtual ~OrchestrationObserver() = default;
    virtual void edge(const Edge &) {}
    /// A task or an allocation is submitted; the edges since the last one are its own.
    virtual void submitted(const Task &) {}
    virtual void scope(bool /*begin*/, uint32_t /*depth*/, uint32_t /*ring*/, const char * /*file*/, int /*line*/) {}
    /// Writers of finished tasks must stay visible, so that what is recorded does not depend on timing.
    virtual bool keeps_history() const { return false; }
};

/// Called by whoever runs tasks.
class TaskObserver {
public:
    virtual ~TaskObserver() = default;
    /// The task can run now, and no kernel of it has started. Under the scheduler's lock.
    virtual void ready(const Task &) {}
    /// Every kernel of the task has returned, and no consumer has started. Under the scheduler's lock.
    virtual void over(const Task &) {}
    /// One kernel call returned. From any thread.
    virtual void called(const Task &, int /*member*/, int /*core*/, int64_t /*start_ns*/, int64_t /*end_ns*/) {}
};

} // namespace pypto::runtime
