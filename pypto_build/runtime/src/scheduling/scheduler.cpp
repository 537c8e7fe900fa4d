// Chooses the thread for the next ready task, wakes threads when worth it, and handles a stall.
#include "scheduling/scheduler.h"

#include "base/clock.h"
#include "crash/crash.h"
#include "crash/samples.h"
#include "scheduling/predicate.h"
#include "scheduling/stall.h"

#include <algorithm>
#include <chrono>

namespace pypto::runtime {

namespace {

constexpr int64_t kWakeCostNs = 10'000; // waking a thread pays off for more work than this
constexpr size_t kPlentyReady = 512;    // from here the orchestration's thread helps instead of submitting more
constexpr uint64_t kFarAhead = 1024;    // and, when it is the only one, from so many unfinished tasks
constexpr std::chrono::milliseconds kPatience(100); // for the next unit to end while others are ready
constexpr uint64_t kPolls = 32; // questions of an orchestration that submits nothing between them: it waits in memory

// Tasks whose arguments are dumped run one by one: else a dump would hold what other tasks are just writing.
Order order_of(const Settings &settings) {
    return settings.dump_args && settings.order == Order::Parallel ? Order::Serial : settings.order;
}

// With several ranks the orchestration's thread runs no kernels, so there is one worker at least.
size_t worker_count(int threads, Order order, bool ranks) {
    if (order != Order::Parallel)
        return ranks ? 1 : 0;
    const size_t machine = std::max(1u, std::thread::hardware_concurrency());
    return (threads > 0 ? static_cast<size_t>(threads) : machine) - (ranks ? 0 : 1);
}

} // namespace

Scheduler::Scheduler(const Settings &settings, TaskGraph &graph, Executor &executor, int threads)
    : graph_(graph), executor_(executor), report_(executor.report()), order_(order_of(settings)), hook_(settings.hook),
      only_(settings.only), hooked_(settings.hooked), signals_(executor.signals()), ranks_(static_cast<bool>(signals_)),
      max_workers_(worker_count(threads, order_, ranks_)),
      may_relieve_(order_ == Order::Parallel && (ranks_ || threads != 1)), ready_(settings),
      caller_core_(executor.make_core()) {}

Scheduler::~Scheduler() {
    {
        const Lock guard(mutex_);
        stop_ = true;
        work_.notify_all();
        watch_.notify_all();
    }
    if (watcher_.joinable())
        watcher_.join();
    for (std::thread &worker : workers_)
        worker.join();
}

void Scheduler::enqueue(Task *task) {
    for (TaskObserver *observer : observers_)
        observer->ready(*task);
    ready_.push(task);
    signals_.add_busy(task->blocks_left); // until each unit is over
    ++open_;
}

// Publishes the state for readers of the report of a run that does not end.
void Scheduler::publish() {
    if (report_ == nullptr)
        return;
    report_->created.store(graph_.created(), std::memory_order_relaxed);
    report_->completed.store(graph_.created() - graph_.unfinished(), std::memory_order_relaxed);
    report_->open.store(open_, std::memory_order_relaxed);
}

void Scheduler::submitted(Lock &lock) {
    publish();
    polls_ = 0;
    caller_core_->over_ns = 0;
    if (ranks_) {
        wake_if_worthwhile();
    } else if (order_ == Order::Parallel) {
        wake_if_worthwhile();
        while ((ready_.units() > kPlentyReady || far_ahead()) && !failed())
            run_one(lock, *caller_core_);
    } else if (order_ == Order::Serial) {
        while (!ready_.empty() && !failed())
            run_one(lock, *caller_core_);
    }
}

bool Scheduler::far_ahead() const {
    return max_workers_ == 0 && graph_.unfinished() > kFarAhead && !ready_.empty();
}

void Scheduler::wake_if_worthwhile() {
    const bool must = ranks_ || blocked_ > 0 || relief_ > 0;
    if (ready_.empty() || (!must && static_cast<int64_t>(ready_.units()) * typical_ns_ < kWakeCostNs))
        return;
    if (idle_ > 0)
        work_.notify_one();
    else if (workers_.size() < max_workers_ + blocked_ + relief_)
        start_worker();
    else
        watch();
}

void Scheduler::start_worker() {
    cores_.push_back(executor_.make_core());
    workers_.emplace_back([this, &core = *cores_.back()] { serve(core); });
}

void Scheduler::watch() {
    if (may_relieve_ && !watcher_.joinable())
        watcher_ = std::thread([this] { relieve(); });
}

void Scheduler::relieve() {
    Lock lock(mutex_);
    while (!stop_ && relief_ == 0) {
        const uint64_t before = units_over_;
        watch_.wait_for(lock, kPatience, [this] { return stop_; });
        if (stop_ || failed() || running_ == 0 || ready_.empty() || units_over_ != before)
            continue;
        start_relief();
    }
}

void Scheduler::start_relief() {
    relief_ = static_cast<size_t>(executor_.chip_cores());
    work_.notify_all();
    // All at once: among threads that spin, each would wait long for its turn to start the next.
    for (size_t more = std::min<size_t>(ready_.units(), relief_); more > idle_; --more)
        start_worker();
}

// Blocks that hold for less than the watcher's patience would be over one after the other, and never be seen at once.
void Scheduler::caller_polls() {
    if (!may_relieve_ || ++polls_ < kPolls || (polls_ & (polls_ - 1)) != 0)
        return;
    const Lock guard(mutex_);
    if (relief_ == 0 && !ready_.empty() && !failed())
        start_relief();
}

void Scheduler::serve(Core &core) {
    const SignalStack signal_stack;
    Lock lock(mutex_);
    while (!stop_) {
        if (!ready_.empty() && !failed()) {
            run_one(lock, core);
        } else {
            ++idle_;
            work_.wait(lock);
            --idle_;
            core.over_ns = 0;
        }
    }
}

void Scheduler::run_one(Lock &lock, Core &core) {
    const int64_t taken = observers_.empty() ? 0 : monotonic_ns();
    const Unit unit = ready_.take();
    const uint64_t task = unit.task->id; // the task may be gone when it is over
    const int32_t timing_slot = unit.task->timing_slot;
    wake_if_worthwhile(); // more than this thread can do?
    if (unit.task->block_num > 1)
        watch(); // they may wait for each other
    ++running_;
    const bool is_caller = &core == caller_core_.get();
    caller_runs_ = caller_runs_ || is_caller;
    lock.unlock();
    const int64_t start = start_of(core);
    core.taken_ns = hook_ ? 0 : start;
    const Service::Kind kind = execute(unit, core);
    const int64_t end = core.over_ns = monotonic_ns();
    if (core.returned.event != FlightEvent::None) {
        core.returned.ns = end;
        note(core.flight, core.returned);
        core.returned.event = FlightEvent::None;
    }
    lock.lock();
    --running_;
    caller_runs_ = caller_runs_ && !is_caller;
    ++units_over_;
    typical_ns_ += (end - start - typical_ns_) / 8;
    if (!failed())
        finish(unit, end);
    signals_.add_busy(-1);
    if (!observers_.empty()) {
        const Service service{kind, task, timing_slot, core.index, taken, start, end, monotonic_ns()};
        for (TaskObserver *observer : observers_)
            observer->served(service);
    }
    if (caller_waits_)
        wake_caller();
}

// A thread that goes from one unit to the next looks at the clock once for both.
int64_t Scheduler::start_of(Core &core) const {
    return observers_.empty() && core.over_ns ? core.over_ns : monotonic_ns();
}

Service::Kind Scheduler::execute(const Unit &unit, Core &core) {
    const Task &task = *unit.task;
    if (!task.has_kernel)
        return Service::Dummy;
    if (task.predicated && !predicate_holds(task.predicate, task.predicate_tensor))
        return Service::Skipped;
    if (!only_.empty() && !only_.contains(task.number, unit.block))
        return Service::Skipped;
    if (hook_ == nullptr || (!hooked_.empty() && !hooked_.contains(task.number, unit.block))) {
        run_kernels(unit, core);
        return Service::Kernels;
    }
    const TaskHook::Kernels kernels = [&] {
        run_kernels(unit, core);
        return failed() ? fault() : Fault{};
    };
    const bool go_on = hook_->execute(task, unit.block, kernels, signals_);
    if (!go_on)
        fail(Fault(FaultKind::CallbackEnded));
    return Service::Kernels;
}

void Scheduler::run_kernels(const Unit &unit, Core &core) {
    if (unit.block == Unit::kAllBlocks)
        executor_.run_together(*unit.task, core);
    else
        executor_.run_block(*unit.task, unit.block, core);
}

void Scheduler::finish(const Unit &unit, int64_t now) {
    Task *task = unit.task;
    if (--task->blocks_left > 0)
        return;
    tasks_run_ += task->has_kernel;
    last_over_ = {task->number, {task->kernels[0], task->kernels[1], task->kernels[2]}, now};
    for (TaskObserver *observer : observers_)
        observer->over(*task);
    graph_.complete(task, [this](Task *consumer) { enqueue(consumer); });
    --open_;
    publish();
}

void Scheduler::wait_for_progress(Lock &lock) {
    caller_waits_ = true;
    signals_.add_busy(-1);
    progress_.wait(lock);
    if (!caller_counted_)
        signals_.add_busy(1);
    caller_waits_ = caller_counted_ = false;
}

void Scheduler::wake_caller() {
    if (!caller_counted_)
        signals_.add_busy(1);
    caller_counted_ = true;
    progress_.notify_one();
}

bool Scheduler::all_wait() {
    const Lock guard(mutex_);
    const bool caller_rests = caller_runs_ || (caller_waits_ && !caller_counted_);
    return caller_rests && ready_.empty() && executor_.values().all_wait(running_);
}

void Scheduler::waits_for_value(int32_t more) {
    const Lock guard(mutex_);
    blocked_ += static_cast<size_t>(more);
    if (more > 0)
        wake_if_worthwhile();
}

// Nothing runs and nothing may: a deadlock, or an order that cannot be kept.
Scheduler::Outcome Scheduler::stalled() {
    const std::optional<uint64_t> awaited = ready_.awaited();
    if (!awaited)
        return Outcome::Stalled;
    record(broken_order_fault(graph_, *awaited));
    return Outcome::Failed;
}

void Scheduler::fail(Fault fault) {
    const Lock guard(mutex_);
    record(std::move(fault));
}

void Scheduler::record(Fault fault) {
    if (failed())
        return;
    fault_ = std::move(fault);
    if (fault_.kind == FaultKind::GroupDeadlock || fault_.kind == FaultKind::BarrierMissed ||
        fault_.kind == FaultKind::ValueWait) { // noticed inside one task
        add_occupancy(fault_, graph_, orchestration_done_.load());
        sample_threads(); // while those still wait who do
    }
    if (report_)
        write_fault(report_->fault, fault_);
    failed_.store(true, std::memory_order_release);
    progress_.notify_all();
}

Fault Scheduler::fault() {
    const Lock guard(mutex_);
    return fault_;
}

bool Scheduler::quiesce(int milliseconds) {
    Lock lock(mutex_);
    caller_waits_ = true;
    const bool quiet =
        progress_.wait_for(lock, std::chrono::milliseconds(milliseconds), [this] { return running_ == 0; });
    caller_waits_ = false;
    return quiet;
}

} // namespace pypto::runtime
