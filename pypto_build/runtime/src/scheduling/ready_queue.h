// Tasks that can run now, and which comes next.
#pragma once

#include "base/settings.h"
#include "graph/task.h"

#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <unordered_map>

namespace pypto::runtime {

/// One thing a thread can do: a block of a task, or all of its blocks together.
struct Unit {
    Task *task = nullptr;
    int32_t block = 0;
    static constexpr int32_t kAllBlocks = -1;
};

class ReadyQueue {
public:
    explicit ReadyQueue(const Settings &settings)
        : shuffled_(settings.order == Order::Shuffled), random_(settings.seed) {
        if (settings.order == Order::Listed)
            listed_ = settings.task_order;
        for (const uint64_t id : listed_)
            ready_of_listed_[id] = nullptr;
    }

    bool empty() const { return next_ < listed_.size() ? next_listed() == nullptr : tasks_.empty(); }
    size_t units() const { return units_; }
    /// The task that comes next in the given order, though it is not ready.
    std::optional<uint64_t> awaited() const {
        return next_ < listed_.size() && next_listed() == nullptr ? std::optional<uint64_t>(listed_[next_])
                                                                  : std::nullopt;
    }

    void push(Task *task) {
        task->state = TaskState::Ready;
        task->next_block = 0;
        task->blocks_left = task->sync_start ? 1 : task->block_num;
        units_ += static_cast<size_t>(task->blocks_left);
        const auto place = ready_of_listed_.find(task->id);
        if (place != ready_of_listed_.end())
            place->second = task;
        else
            tasks_.push_back(task);
    }

    Unit take() {
        const bool listed = next_ < listed_.size();
        if (shuffled_)
            std::swap(tasks_.front(), tasks_[random_() % tasks_.size()]);
        Task *task = listed ? next_listed() : tasks_.front();
        task->state = TaskState::Running;
        --units_;
        if (task->sync_start || task->next_block + 1 == task->block_num) {
            if (listed)
                ++next_;
            else
                tasks_.pop_front();
        }
        return {task, task->sync_start ? Unit::kAllBlocks : task->next_block++};
    }

private:
    Task *next_listed() const { return ready_of_listed_.find(listed_[next_])->second; }

    bool shuffled_;
    std::mt19937_64 random_;
    std::deque<Task *> tasks_;
    size_t units_ = 0;
    std::vector<uint64_t> listed_;
    size_t next_ = 0;
    std::unordered_map<uint64_t, Task *> ready_of_listed_;
};

} // namespace pypto::runtime
