// Rings, slots and edges: a task from its creation until nothing holds it.
#include "graph/task_graph.h"

namespace pypto::runtime {

TaskGraph::TaskGraph(const RingLimits &limits) : limits_(limits) {
    for (Ring &ring : rings_) {
        ring.slots.resize(64);
        ring.mask = ring.slots.size() - 1;
    }
}

Shortage TaskGraph::shortage(uint32_t ring_index, uint64_t heap_bytes, uint32_t dependencies) const {
    const Ring &ring = rings_[ring_index];
    if (ring.next - ring.oldest >= limits_.task_window[ring_index])
        return Shortage::Window;
    if (heap_bytes && ring.heap_used + heap_bytes > limits_.heap_bytes[ring_index])
        return Shortage::Heap;
    if (dependencies && ring.dependencies_used + dependencies > limits_.dependency_pool[ring_index])
        return Shortage::Dependencies;
    return Shortage::None;
}

Task *TaskGraph::create(uint32_t ring_index, uint64_t heap_bytes) {
    if (spare_.empty()) {
        storage_.push_back(std::make_unique<Task>());
        spare_.push_back(storage_.back().get());
    }
    Task *task = spare_.back();
    spare_.pop_back();
    task->recycle();
    Ring &ring = rings_[ring_index];
    if (ring.next - ring.oldest == ring.slots.size())
        grow(ring);
    task->id = PTO2TaskId::make(ring_index, static_cast<uint32_t>(ring.next)).raw;
    task->sequence = ++created_;
    task->holds = 2;
    if (heap_bytes) {
        task->memory = blocks_.take(heap_bytes);
        ring.heap_used += task->memory.bytes;
        ring.heap_total += task->memory.bytes;
    }
    ring.slots[ring.next & ring.mask] = task;
    ++ring.next;
    return task;
}

void TaskGraph::grow(Ring &ring) {
    std::vector<Task *> larger(ring.slots.size() * 2);
    const uint64_t mask = larger.size() - 1;
    for (uint64_t local = ring.oldest; local < ring.next; ++local)
        larger[local & mask] = ring.slots[local & ring.mask];
    ring.slots = std::move(larger);
    ring.mask = mask;
}

bool TaskGraph::connect(Task *task, const std::vector<ProducerEdge> &producers) {
    for (const ProducerEdge &edge : producers)
        wait_for(task, edge.task, edge.flags);
    if (!forward_.empty()) {
        const auto waiting = forward_.find(task->id);
        if (waiting != forward_.end()) {
            for (const ProducerLink &consumer : waiting->second) {
                task->consumers.push_back(consumer.task);
                ++task->unfinished_consumers;
                task->holds += consumer.retained;
                consumer.task->producers.push_back({task, task->id, consumer.retained});
            }
            forward_.erase(waiting);
        }
    }
    return task->waits_for == 0;
}

void TaskGraph::wait_for(Task *consumer, uint64_t producer_id, uint8_t flags) {
    Task *producer = find(producer_id);
    if (producer == consumer || producer == nullptr) {
        if (producer == consumer || !submitted(producer_id)) {
            forward_[producer_id].push_back({consumer, consumer->id, (flags & DEP_RETAIN) != 0});
            ++consumer->waits_for;
        }
        return;
    }
    link(consumer, producer, flags);
}

void TaskGraph::link(Task *consumer, Task *producer, uint8_t flags) {
    const bool retained = (flags & DEP_RETAIN) != 0;
    if (producer->state == TaskState::Done && !retained)
        return;
    consumer->producers.push_back({producer, producer->id, retained});
    producer->holds += retained;
    ++producer->unfinished_consumers;
    if (producer->state == TaskState::Done)
        return;
    producer->consumers.push_back(consumer);
    ++consumer->waits_for;
    ++consumer->dependency_slots;
    ++rings_[consumer->id >> 32].dependencies_used;
}

void TaskGraph::finish(Task *task) {
    task->state = TaskState::Done;
    ++finished_;
    for (const ProducerLink &link : task->producers) {
        if (link.task->id != link.id)
            continue; // reused since: it was only waited for
        --link.task->unfinished_consumers;
        if (link.retained)
            release(link.task);
    }
    task->producers.clear();
}

void TaskGraph::release(Task *task) {
    if (--task->holds != 0)
        return;
    Ring &ring = rings_[task->id >> 32];
    if (ring.slots[ring.oldest & ring.mask] == task)
        retire(ring);
}

void TaskGraph::retire(Ring &ring) {
    while (ring.oldest < ring.next) {
        Task *task = ring.slots[ring.oldest & ring.mask];
        if (task->holds != 0)
            break;
        if (task->memory.base) {
            ring.heap_used -= task->memory.bytes;
            blocks_.give(task->memory);
        }
        ring.dependencies_used -= task->dependency_slots;
        task->id = kNoId;
        spare_.push_back(task);
        ++ring.oldest;
    }
    ring.retired.store(ring.oldest, std::memory_order_release);
}

Task *TaskGraph::find(uint64_t id) const {
    const uint64_t ring_index = id >> 32;
    if (ring_index >= kRings)
        return nullptr;
    const Ring &ring = rings_[ring_index];
    const uint64_t local = id & 0xffffffffu;
    return local >= ring.oldest && local < ring.next ? ring.slots[local & ring.mask] : nullptr;
}

bool TaskGraph::submitted(uint64_t id) const {
    const uint64_t ring_index = id >> 32;
    return ring_index < kRings && (id & 0xffffffffu) < rings_[ring_index].next;
}

std::vector<uint64_t> TaskGraph::never_submitted(const Task &task) const {
    std::vector<uint64_t> ids;
    for (const auto &waiting : forward_)
        for (const ProducerLink &link : waiting.second)
            if (link.task == &task)
                ids.push_back(waiting.first);
    return ids;
}

const Task *TaskGraph::oldest(uint32_t ring_index) const {
    const Ring &ring = rings_[ring_index];
    return ring.oldest < ring.next ? ring.slots[ring.oldest & ring.mask] : nullptr;
}

TaskGraph::Usage TaskGraph::usage(uint32_t ring_index) const {
    const Ring &ring = rings_[ring_index];
    return {ring.oldest, ring.next, ring.heap_used, ring.heap_total, ring.dependencies_used};
}

} // namespace pypto::runtime
