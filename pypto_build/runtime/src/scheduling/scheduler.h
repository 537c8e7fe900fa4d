// Runs ready tasks on a pool of threads.
//
// One lock guards the task graph and the ready queue. The orchestration's thread submits; whenever it has to wait it
// runs tasks itself, so a short run never starts a thread. Threads sleep when there is nothing to do, and are woken
// only for more work than waking costs. When nothing runs and nothing is ready, a waiting thread learns at once
// that it stalled. Kernels may wait for each other in memory, which a chip has cores for and a machine may not: when
// blocks are ready and for a while none has ended, or the orchestration itself waits in memory, as many threads are
// started as the chip has cores.
#pragma once

#include "base/call_set.h"
#include "execution/executor.h"
#include "graph/task_graph.h"
#include "records/observers.h"
#include "scheduling/ready_queue.h"
#include "scheduling/stall.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace pypto::runtime {

class Scheduler {
public:
    enum class Outcome { Done, Stalled, Failed };
    using Lock = std::unique_lock<std::mutex>;

    Scheduler(const Settings &settings, TaskGraph &graph, Executor &executor, int threads);
    /// Waits for the threads; a kernel that never returns keeps it waiting.
    ~Scheduler();

    void observe(TaskObserver *observer) { observers_.push_back(observer); }
    /// Times will be taken: the caller's core, which was there before anybody said so, gets its memory now.
    void touch_caller() { caller_core_->memory.touch(); }

    Lock lock() { return Lock(mutex_); }

    /// Queues a connected task that waits for nothing. Under the lock.
    void enqueue(Task *task);
    /// The orchestration has submitted something: starts or wakes threads, or runs tasks itself when plenty are ready.
    void submitted(Lock &lock);
    /// Runs tasks until done() holds; done() is called under the lock.
    template <typename Done> Outcome run_until(Lock &lock, Done done) {
        caller_core_->over_ns = 0;
        while (true) {
            if (failed_.load(std::memory_order_relaxed))
                return Outcome::Failed;
            if (done())
                return Outcome::Done;
            if (!ready_.empty() && !ranks_) {
                run_one(lock, *caller_core_);
                continue;
            }
            if (running_ == 0 && ready_.empty())
                return stalled();
            wait_for_progress(lock);
            caller_core_->over_ns = 0;
        }
    }

    /// So many more kernels wait for a value that others change: other threads take their place.
    void waits_for_value(int32_t more);
    /// The orchestration asks whether the run has failed, as it does while it waits for kernels in memory: after some
    /// of these questions what is ready gets threads at once. From its thread, without the lock.
    void caller_polls();
    /// Returns whether all that runs waits for a value in vain, nothing is ready, and the orchestration is stuck.
    bool all_wait();

    /// The orchestration has returned.
    void orchestration_done() { orchestration_done_.store(true, std::memory_order_relaxed); }
    /// Records the first fault and lets everybody stop. From any thread, without the lock.
    void fail(Fault fault);
    bool failed() const { return failed_.load(std::memory_order_acquire); }
    Fault fault();
    /// Waits until no kernel runs, at most `milliseconds`; false if one still does.
    bool quiesce(int milliseconds);

    uint64_t tasks_run() const { return tasks_run_; }
    /// Under the lock.
    const LastOver &last_over() const { return last_over_; }

private:
    void run_one(Lock &lock, Core &core);
    int64_t start_of(Core &core) const;
    Service::Kind execute(const Unit &unit, Core &core);
    void run_kernels(const Unit &unit, Core &core);
    void finish(const Unit &unit, int64_t now);
    void wake_if_worthwhile();
    void start_worker();
    void watch();
    void relieve();
    void start_relief();
    bool far_ahead() const;
    void wait_for_progress(Lock &lock);
    void wake_caller();
    Outcome stalled();
    void record(Fault fault);
    void publish();
    void serve(Core &core);

    TaskGraph &graph_;
    Executor &executor_;
    Report *const report_; // may be null
    const Order order_;
    TaskHook *const hook_;
    const CallSet only_, hooked_; // of the calls that are made, and of those that the hook stands in for
    RankSignals &signals_;
    const bool ranks_; // of several chips: kernels may wait for others, so the orchestration's thread runs none
    const size_t max_workers_;
    const bool may_relieve_; // not in a chosen order, nor when one thread was asked for

    std::mutex mutex_;
    std::condition_variable work_;     // for workers: something is ready
    std::condition_variable progress_; // for the orchestration's thread: a unit is over
    ReadyQueue ready_;
    std::vector<std::unique_ptr<Core>> cores_;
    std::vector<std::thread> workers_;
    std::thread watcher_;
    std::condition_variable watch_; // for the watcher: it is over
    std::unique_ptr<Core> caller_core_;
    std::vector<TaskObserver *> observers_;
    uint32_t running_ = 0;
    uint32_t idle_ = 0;
    size_t blocked_ = 0;          // kernels that wait for a value
    size_t relief_ = 0;           // threads beside max_workers_, since kernels may wait for those that are ready
    uint64_t polls_ = 0;          // of the orchestration since it last submitted; its thread's own
    uint64_t open_ = 0;           // tasks that are ready or running
    int64_t typical_ns_ = 10'000; // moving average of a unit's run time
    uint64_t tasks_run_ = 0;
    uint64_t units_over_ = 0;
    LastOver last_over_;
    bool caller_waits_ = false;
    bool caller_runs_ = false;    // it runs a unit itself
    bool caller_counted_ = false; // the thread that woke it has counted it already
    bool stop_ = false;
    std::atomic<bool> failed_{false};
    std::atomic<bool> orchestration_done_{false};
    Fault fault_;
};

} // namespace pypto::runtime
