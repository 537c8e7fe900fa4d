// Runs kernels: builds the argument array, binds the core's memories, calls kernel_entry, serves its pipe calls.
#pragma once

#include "base/fault.h"
#include "chips/board.h"
#include "execution/core.h"
#include "execution/group.h"
#include "execution/kernel_library.h"
#include "execution/worker_pool.h"
#include "records/observers.h"

#include <atomic>
#include <functional>
#include <memory>

namespace pypto::runtime {

class Checker;

class Executor {
public:
    /// What the run is told, and asked, by kernels.
    struct Callbacks {
        std::function<void(Fault)> fault;
        std::function<void(int32_t)> waits_for_ranks; // so many more kernels do
        std::function<bool()> failed;
    };

    Executor(const Platform &platform, const KernelLibrary &kernels, Report *report, RankSignals &signals,
             Callbacks callbacks);

    /// From before the first task on.
    void observe(TaskObserver *observer) { observers_.push_back(observer); }
    /// Who is told what checked kernels touch; null: nobody.
    void check_with(Checker *checker) { checker_ = checker; }
    int cores() const { return cores_.load(); }
    /// How many kernels the chip runs at once.
    int chip_cores() const { return 3 * platform_.clusters; }
    Report *report() const { return report_; }
    RankSignals &signals() const { return signals_; }

    /// A core for a thread of the scheduler.
    std::unique_ptr<Core> make_core();

    /// Runs one block of a task on `core`, with workers of the pool for the other members of a group.
    void run_block(const Task &task, int32_t block, Core &core);
    /// Runs all blocks of a task at the same time.
    void run_together(const Task &task, Core &core);

    /// The group of one block of a task, among others or alone.
    Group *add_group(const Task &task, GroupSet &groups) const;

    /// Makes a fault of this activation that of the run. `kernel`: names of all of its task's, where it is not its own.
    void report_fault(const Activation &activation, Fault fault, const std::string &kernels = {});
    /// Ends the kernel of this activation with a fault; does not return.
    [[noreturn]] void end_with_fault(Activation &activation, Fault fault);
    /// Lets the kernel wait for another rank; false: the run has failed.
    bool wait_for_signal(const Activation &activation, const int32_t *signal, int32_t expected, uint32_t comparison);

private:
    struct Role {
        int member;
        int32_t block;
        int lanes;
        Group *group;
        GroupSet *groups;
    };
    void run_member(const Task &task, const Role &role, Core &core);
    void call(Activation &activation, const Task &task, const Role &role);
    void append_jobs(const Task &task, int32_t block, Group *group, GroupSet *groups,
                     std::vector<WorkerPool::Job> &jobs);
    void report_deadlock(const Activation &activation);
    void run_jobs(std::vector<WorkerPool::Job> jobs, Core &core);

    const Platform &platform_;
    const KernelLibrary &kernels_;
    Report *report_;
    RankSignals &signals_;
    Callbacks callbacks_;
    std::vector<TaskObserver *> observers_;
    Checker *checker_ = nullptr;
    WorkerPool pool_;
    std::atomic<int> cores_{0};
};

/// The argument array of a kernel call: slots, with both contexts where the kernel's generation looks for them.
void build_arguments(const Task &task, const void *local_context, const void *global_context, int64_t *slots);

} // namespace pypto::runtime
