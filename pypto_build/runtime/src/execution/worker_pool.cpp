// Hands out jobs that have to run at the same time.
#include "execution/worker_pool.h"

#include "crash/crash.h"

namespace pypto::runtime {

WorkerPool::~WorkerPool() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (const std::unique_ptr<Worker> &worker : workers_) {
            worker->stop = true;
            worker->wake.notify_one();
        }
    }
    for (const std::unique_ptr<Worker> &worker : workers_)
        worker->thread.join();
}

void WorkerPool::run(const std::vector<Job> &jobs, Core &caller) {
    int open = static_cast<int>(jobs.size()) - 1;
    std::condition_variable all_done;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (size_t i = 1; i < jobs.size(); ++i) {
            if (idle_.empty()) {
                workers_.push_back(std::make_unique<Worker>());
                Worker &fresh = *workers_.back();
                fresh.core = make_core_();
                fresh.thread = std::thread([this, &fresh] { serve(fresh); });
                idle_.push_back(&fresh);
            }
            Worker &worker = *idle_.back();
            idle_.pop_back();
            worker.job = &jobs[i];
            worker.open = &open;
            worker.all_done = &all_done;
            worker.wake.notify_one();
        }
    }
    jobs[0](caller);
    std::unique_lock<std::mutex> lock(mutex_);
    all_done.wait(lock, [&open] { return open == 0; });
}

void WorkerPool::serve(Worker &worker) {
    const SignalStack signal_stack;
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
        worker.wake.wait(lock, [&worker] { return worker.job != nullptr || worker.stop; });
        if (worker.job == nullptr)
            return;
        const Job &job = *worker.job;
        lock.unlock();
        job(*worker.core);
        lock.lock();
        worker.job = nullptr;
        idle_.push_back(&worker);
        if (--*worker.open == 0)
            worker.all_done->notify_one();
    }
}

} // namespace pypto::runtime
