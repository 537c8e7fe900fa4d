// Tasks that can run now, and which comes next.
#pragma once

#include "settings.h"
#include "task.h"

#include <cstdint>
#include <deque>
#include <random>

namespace pypto::runtime {

/// One thing a thread can do: a block of a task, or all of its blocks together.
struct Unit {
    Task *task = nullptr;
    int32_t block = 0;
    static constexpr int32_t kAllBlocks = -1;
};

class ReadyQueue {
public:
    ReadyQueue(Order order, uint64_t seed) : shuffled_(order == Order::Shuffled), random_(seed) {}

    bool empty() const { return tasks_.empty(); }
    size_t units() const { return units_; }

    void push(Task *task) {
        task->state = TaskState::Ready;
        task->next_block = 0;
        task->blocks_left = task->sync_start ? 1 : task->block_num;
        units_ += static_cast<size_t>(task->blocks_left);
        tasks_.push_back(task);
    }

    Unit take() {
        if (shuffled_)
            std::swap(tasks_.front(), tasks_[random_() % tasks_.size()]);
        Task *task = tasks_.front();
        task->state = TaskState::Running;
        --units_;
        if (task->sync_start || task->next_block + 1 == task->block_num)
            tasks_.pop_front();
        return {task, task->sync_start ? Unit::kAllBlocks : task->next_block++};
    }

private:
    bool shuffled_;
    std::mt19937_64 random_;
    std::deque<Task *> tasks_;
    size_t units_ = 0;
};

} // namespace pypto::runtime
