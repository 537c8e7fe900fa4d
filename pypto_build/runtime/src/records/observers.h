// Observers of a run: of the orchestration's requests, and of the tasks' actions.
#pragma once

#include "base/fault.h"
#include "graph/task.h"
#include "submission/tensor_map.h"

#include <functional>

namespace pypto::runtime {

/// Origin of a dependency.
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
    /// The orchestration has waited for the end of these, and maybe of everybody who reads what they wrote.
    virtual void waited(const std::vector<ProducerEdge> &, bool /*and_readers*/) {}
    /// A task or an allocation is submitted; the edges since the last one are its own.
    virtual void submitted(const Task &) {}
    virtual void scope(bool /*begin*/, uint32_t /*depth*/, uint32_t /*ring*/, const char * /*file*/, int /*line*/) {}
    /// Writers of finished tasks must stay visible, so that what is recorded does not depend on timing.
    virtual bool keeps_history() const { return false; }
};

class RankSignals;

/// Stands in place of the kernels of every task. Called on the orchestration's thread, for one task at a time.
class TaskHook {
public:
    /// Runs the kernels; the fault that ended them, or none.
    using Kernels = std::function<Fault()>;

    virtual ~TaskHook() = default;
    /// `block` is that of an SPMD launch, -1 for all of a task whose blocks start together. `signals` are for what it
    /// tells other ranks in the kernels' place. False ends the run.
    virtual bool execute(const Task &task, int32_t block, const Kernels &kernels, RankSignals &signals) = 0;
};

/// Times at which a thread took a unit of a task, began and ended it, and had released its dependents.
struct Service {
    enum Kind { Kernels, Dummy, Skipped }; // it has no kernel; its predicate does not hold
    Kind kind;
    uint64_t task;
    int32_t timing_slot; // -1: none
    int core;
    int64_t taken_ns, begun_ns, ended_ns, done_ns;
};

/// Called by the threads that run tasks.
class TaskObserver {
public:
    virtual ~TaskObserver() = default;
    /// The task can run now, and no kernel of it has started. Under the scheduler's lock.
    virtual void ready(const Task &) {}
    /// Every kernel of the task has returned, and no consumer has started. Under the scheduler's lock.
    virtual void over(const Task &) {}
    /// Under the scheduler's lock.
    virtual void served(const Service &) {}
    /// One kernel call begins. From any thread.
    virtual void starting(const Task &, int /*member*/, int32_t /*block*/, int /*core*/) {}
    /// One kernel call returned. From any thread.
    virtual void called(const Task &, int /*member*/, int /*core*/, int64_t /*start_ns*/, int64_t /*end_ns*/) {}
};

} // namespace pypto::runtime
