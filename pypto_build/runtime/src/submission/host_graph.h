// A graph that an orchestration lists task by task before anything runs.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace pypto::runtime {

class Orchestrator;

class HostGraph {
public:
    /// Returns the task's number. Its kernel sees exactly these words as args[].
    int add_task(const uint64_t *words, int count, int32_t func_id, bool vector);
    /// False if one of them was not added.
    bool add_edge(int from, int to);
    /// False if there is no such task or slot.
    bool set_timing_slot(int task, int slot);
    int size() const { return static_cast<int>(tasks_.size()); }

    /// Zeroed memory for kernels, alive as long as the graph; null when there is none.
    void *allocate(uint64_t bytes);
    void add_result(void *host, const void *device, uint64_t bytes) { results_.push_back({host, device, bytes}); }

    /// Submits everything, each task after those it waits for.
    void submit(Orchestrator &orchestrator) const;
    /// Copies the results to where their owner wants them.
    void deliver() const;

private:
    struct ListedTask {
        std::vector<uint64_t> words;
        int32_t func_id;
        bool vector;
        std::vector<int> producers;
        int32_t timing_slot = -1;
    };
    struct Result {
        void *host;
        const void *device;
        uint64_t bytes;
    };
    std::vector<int> submission_order() const;

    std::vector<ListedTask> tasks_;
    std::vector<std::unique_ptr<uint8_t[]>> memory_;
    std::vector<Result> results_;
};

} // namespace pypto::runtime
