// Threads for kernels that must run at the same time: members of a group, blocks that start together. They exist beside
// the scheduler's threads, as many as the largest such set needs, and sleep between jobs.
#pragma once

#include "execution/core.h"

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace pypto::runtime {

class WorkerPool {
public:
    using Job = std::function<void(Core &)>;
    using MakeCore = std::function<std::unique_ptr<Core>()>;

    explicit WorkerPool(MakeCore make_core) : make_core_(std::move(make_core)) {}
    ~WorkerPool();

    /// Runs all jobs at once, the first on the calling thread; returns when all are over.
    void run(const std::vector<Job> &jobs, Core &caller);

private:
    struct Worker {
        std::unique_ptr<Core> core;
        std::thread thread;
        std::condition_variable wake;
        const Job *job = nullptr;
        int *open = nullptr; // jobs of the same set that are not over
        std::condition_variable *all_done = nullptr;
        bool stop = false;
    };
    void serve(Worker &worker);

    MakeCore make_core_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<Worker>> workers_;
    std::vector<Worker *> idle_;
};

} // namespace pypto::runtime
