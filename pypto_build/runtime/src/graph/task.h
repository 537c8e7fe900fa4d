// One submitted task, from submission until nothing refers to it any more.
#pragma once

#include "graph/block_pool.h"
#include "pypto/orchestration_abi.h"

#include <cstdint>
#include <vector>

namespace pypto::runtime {

struct Task;

inline constexpr uint64_t kNoNumber = ~uint64_t{0}; // of an allocation

/// One argument as the kernel sees it; tensors stand in Task::tensors, scalars in Task::scalars.
struct TaskArgument {
    ArgEntry::Kind kind;
    TensorArgType tag;
    uint8_t dump;   // as in ArgEntry
    DataType dtype; // of a scalar
    uint32_t index;
};

struct ProducerEdge {
    uint64_t task;
    uint8_t flags; // DepFlags
};

/// A producer this task still has to tell that it is over.
struct ProducerLink {
    Task *task;
    uint64_t id;
    bool retained;
};

enum class TaskState : uint8_t { Waiting, Ready, Running, Done };

struct Task {
    uint64_t id = 0;
    uint64_t sequence = 0; // counts submissions over all rings, from 1
    uint64_t number = 0;   // counts those with a kernel, from 0; kNoNumber for allocations
    TaskState state = TaskState::Waiting;
    bool interleaved = false;
    bool sync_start = false;
    bool early_dispatch = false;
    bool manual_scope = false;
    bool has_kernel = false;
    int32_t kernels[3] = {-1, -1, -1};
    int32_t block_num = 1;
    int32_t timing_slot = -1;

    std::vector<ChipTensor> tensors;
    std::vector<uint64_t> scalars;
    std::vector<TaskArgument> arguments; // in the order given
    bool predicated = false;
    Predicate predicate;
    ChipTensor predicate_tensor;
    Block memory; // packed outputs

    // Graph state, guarded by the scheduler's lock.
    uint32_t waits_for = 0;            // producers that are not over
    uint32_t holds = 0;                // scope, consumers that retain the memory, and the task itself until it is over
    uint32_t unfinished_consumers = 0; // of every kind
    uint32_t dependency_slots = 0;     // edges charged to the ring's pool
    std::vector<Task *> consumers;
    std::vector<ProducerLink> producers;
    int32_t next_block = 0;
    int32_t blocks_left = 0;

    /// Puts a recycled task into its first state; keeps the capacity of its vectors.
    void recycle() {
        state = TaskState::Waiting;
        interleaved = sync_start = early_dispatch = manual_scope = has_kernel = predicated = false;
        kernels[0] = kernels[1] = kernels[2] = -1;
        block_num = 1;
        timing_slot = -1;
        tensors.clear();
        scalars.clear();
        arguments.clear();
        memory = {};
        waits_for = holds = unfinished_consumers = dependency_slots = 0;
        consumers.clear();
        producers.clear();
        next_block = blocks_left = 0;
    }

    bool is_group() const { return (kernels[0] >= 0) + (kernels[1] >= 0) + (kernels[2] >= 0) > 1; }
};

} // namespace pypto::runtime
