// The tasks of a run: which exist, in which ring, who waits for whom, and when a task and its memory can be reused.
//
// No locks of its own: the scheduler's lock guards every call. A ring hands out task numbers and gives slots and heap
// back strictly in submission order, so its limits behave as on the device.
#pragma once

#include "base/settings.h"
#include "graph/task.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace pypto::runtime {

/// The resource that a ring lacks for a new task.
enum class Shortage { None, Window, Heap, Dependencies };

class TaskGraph {
public:
    explicit TaskGraph(const RingLimits &limits);

    Shortage shortage(uint32_t ring, uint64_t heap_bytes, uint32_t dependencies) const;

    /// A new task of a ring that has room for it, held by its scope and by itself.
    Task *create(uint32_t ring, uint64_t heap_bytes);
    /// Makes `task` wait for its producers, each named once; true if it has to wait for none. A producer that was never
    /// submitted is waited for until it is.
    bool connect(Task *task, const std::vector<ProducerEdge> &producers);
    /// The task is over; calls ready(consumer) for each task that waited for it alone.
    template <typename Ready> void complete(Task *task, Ready ready) {
        finish(task);
        for (Task *consumer : task->consumers)
            if (--consumer->waits_for == 0)
                ready(consumer);
        task->consumers.clear();
        release(task);
    }
    /// Ends one hold on the task.
    void release(Task *task);

    /// The task of that id, or null if it is not yet there or already gone.
    Task *find(uint64_t id) const;
    bool submitted(uint64_t id) const;
    /// The task and its memory can be reused by now. The one question that needs no lock.
    bool retired(uint64_t id) const {
        return (id & 0xffffffffu) < rings_[id >> 32 & (kRings - 1)].retired.load(std::memory_order_acquire);
    }

    /// Producers a task waits for that do not exist.
    std::vector<uint64_t> never_submitted(const Task &task) const;

    uint64_t created() const { return created_; }
    uint64_t unfinished() const { return created_ - finished_; }
    const Task *oldest(uint32_t ring) const;
    const BlockPool &blocks() const { return blocks_; }

    struct Usage {
        uint64_t tasks_begin, tasks_end, heap, heap_total, dependencies;
    };
    Usage usage(uint32_t ring) const;

    template <typename Visit> void for_each_unfinished(Visit visit) const {
        for (const Ring &ring : rings_)
            for (uint64_t local = ring.oldest; local < ring.next; ++local)
                if (const Task *task = ring.slots[local & ring.mask]; task->state != TaskState::Done)
                    visit(*task);
    }

private:
    struct Ring {
        std::vector<Task *> slots; // grows up to the window
        uint64_t mask = 0;
        uint64_t next = 0;                // number of the next task
        uint64_t oldest = 0;              // number of the oldest one that still exists
        std::atomic<uint64_t> retired{0}; // the same, for readers without the lock
        uint64_t heap_used = 0;
        uint64_t heap_total = 0; // ever allocated
        uint64_t dependencies_used = 0;
    };

    static constexpr uint64_t kNoId = ~uint64_t{0};

    void finish(Task *task);
    void retire(Ring &ring);
    void grow(Ring &ring);
    void wait_for(Task *consumer, uint64_t producer, uint8_t flags);
    void link(Task *consumer, Task *producer, uint8_t flags);

    RingLimits limits_;
    Ring rings_[kRings];
    BlockPool blocks_;
    std::vector<std::unique_ptr<Task>> storage_;
    std::vector<Task *> spare_;
    std::unordered_map<uint64_t, std::vector<ProducerLink>> forward_; // consumers of tasks not yet submitted
    uint64_t created_ = 0;
    uint64_t finished_ = 0;
};

} // namespace pypto::runtime
