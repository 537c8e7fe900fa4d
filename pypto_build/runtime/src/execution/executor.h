// Runs kernels: builds the argument array, binds the core's memories, calls kernel_entry, serves its pipe calls.
#pragma once

#include "base/fault.h"
#include "chips/board.h"
#include "crash/flight.h"
#include "execution/core.h"
#include "execution/group.h"
#include "execution/kernel_library.h"
#include "execution/value_waits.h"
#include "execution/worker_pool.h"
#include "records/observers.h"

#include <atomic>
#include <functional>
#include <memory>

namespace pypto::runtime {

class Checker;

class Executor {
public:
    /// Functions by which kernels report and query.
    struct Callbacks {
        std::function<void(Fault)> fault;
        std::function<void(int32_t)> waits_for_value; // so many more kernels do
        std::function<bool()> failed;
        std::function<bool()> all_wait; // whether only a change of a value could let any kernel go on
    };

    Executor(const Platform &platform, const KernelLibrary &kernels, Report *report, const FlightRecorder &recorder,
             RankSignals &signals, Callbacks callbacks);

    /// From before the first task on.
    void observe(TaskObserver *observer) { observers_.push_back(observer); }
    /// Sets the receiver of checked kernels' accesses, or null.
    void check_with(Checker *checker) { checker_ = checker; }
    int cores() const { return cores_.load(); }
    /// Returns how many kernels the chip runs at once.
    int chip_cores() const { return 3 * platform_.clusters; }
    Report *report() const { return report_; }
    const FlightRecorder &recorder() const { return recorder_; }
    RankSignals &signals() const { return signals_; }

    /// A core for a thread of the scheduler.
    std::unique_ptr<Core> make_core();

    /// Runs one block of a task on `core`, with workers of the pool for the other members of a group.
    void run_block(const Task &task, int32_t block, Core &core);
    /// Runs all blocks of a task at the same time.
    void run_together(const Task &task, Core &core);

    /// The group of one block of a task, among others or alone.
    Group *add_group(const Task &task, GroupSet &groups, int32_t block) const;

    /// Makes a fault of this activation that of the run. `kernel`: names of all of its task's, where it is not its own.
    void report_fault(const Activation &activation, Fault fault, const std::string &kernels = {});
    /// Ends the kernel of this activation with a fault; does not return.
    [[noreturn]] void end_with_fault(Activation &activation, Fault fault);
    /// Lets the kernel wait for a value that others change. Ends it when the run has failed, or no other is left.
    void wait_for_value(Activation &activation, const ValueWait &wait);
    /// Adds to a signal, or sets it.
    void notify(const Activation &activation, int32_t *signal, int32_t value, bool set);
    /// Kernels of this chip that wait for values.
    ValueWaits &values() { return values_; }

private:
    struct Role {
        int member;
        int32_t block;
        int lanes;
        Group *group;
        GroupSet *groups;
    };
    void run_member(const Task &task, const Role &role, Core &core);
    bool call(Activation &activation, const Task &task, const Role &role);
    void append_jobs(const Task &task, int32_t block, Group *group, GroupSet *groups,
                     std::vector<WorkerPool::Job> &jobs);
    bool poll(const ValueWait &wait);
    void run_jobs(std::vector<WorkerPool::Job> jobs, Core &core);

    const Platform &platform_;
    const KernelLibrary &kernels_;
    Report *report_;
    const FlightRecorder &recorder_;
    RankSignals &signals_;
    Callbacks callbacks_;
    std::vector<TaskObserver *> observers_;
    Checker *checker_ = nullptr;
    ValueWaits values_;
    WorkerPool pool_;
    std::atomic<int> cores_{0};
};

/// The argument array of a kernel call: slots, with both contexts where the kernel's generation looks for them.
void build_arguments(const Task &task, const void *local_context, const void *global_context, int64_t *slots);

} // namespace pypto::runtime
