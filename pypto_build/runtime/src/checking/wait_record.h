// The producers that each task waits for, without those that another of its producers waits for already: a chain of n
// tasks over one buffer has n^2 edges, of which n are left.
#pragma once

#include "graph/task.h"
#include "pypto/orchestration_abi.h"

#include <vector>

namespace pypto::runtime {

class WaitRecord {
public:
    struct Row {
        uint64_t id;
        std::vector<uint32_t> producers; // numbers of tasks, the newest first
    };

    /// The next task that is submitted waits for this one.
    void edge(uint64_t producer);
    void submitted(const Task &task);
    /// By the number of the task.
    const std::vector<Row> &rows() const { return rows_; }

private:
    std::vector<Row> rows_;
    std::vector<std::vector<uint32_t>> numbers_; // by ring and by the number in it
    std::vector<uint32_t> pending_;
    std::vector<uint32_t> reached_; // by number: 1 + the last task whose producers lead there
};

} // namespace pypto::runtime
