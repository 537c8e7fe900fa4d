// The call of a kernel, and the calls it makes of the runtime.
#include "execution/executor.h"

#include "base/clock.h"
#include "checking/check_record.h"
#include "crash/samples.h"
#include "execution/artifact_code.h"
#include "execution/subnormals.h"
#include "pypto/error_codes.h"
#include "pypto/kernel_args.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

namespace pypto::runtime {

thread_local Activation *current_activation = nullptr;

namespace {

Activation &activation_of(PyptoCoreContext *context) {
    return *static_cast<Activation *>(context->runtime);
}

/// Tells, while it lives, that the thread waits for others.
class Waiting {
public:
    explicit Waiting(const Activation &activation) : activation_(activation) { set(1, 1); }
    ~Waiting() { set(0, -1); }
    Waiting(const Waiting &) = delete;
    Waiting &operator=(const Waiting &) = delete;

private:
    void set(uint32_t value, int32_t more) {
        if (activation_.running)
            activation_.running->waits.store(value, std::memory_order_relaxed);
        RankSignals &signals = activation_.executor->signals();
        signals.add_other_wait(more);
        signals.add_busy(-more);
    }
    const Activation &activation_;
};

/// An event of a kernel.
FlightRecord of_kernel(const Activation &activation, int64_t now, FlightEvent event, int32_t value = 0,
                       uint8_t detail = 0, uint64_t object = 0) {
    return {now,
            event,
            activation.executor->recorder().name(activation.kernel->func_id),
            static_cast<uint8_t>(activation.member),
            detail,
            static_cast<uint16_t>(activation.context.block_idx),
            static_cast<uint32_t>(activation.task->number),
            value,
            object};
}

/// A slot of a pipe, which a kernel waits for or passes on.
FlightRecord of_slot(const Activation &activation, int64_t now, FlightEvent event, const PyptoPipe &pipe, int to_vector,
                     bool producing, uint64_t slot) {
    const int way = (to_vector ? kToVector : 0) | (producing ? kProducing : 0);
    return of_kernel(activation, now, event, static_cast<int32_t>(slot), static_cast<uint8_t>(way), pipe.spec.flag_id);
}

Group::Result acquire(const Activation &activation, PyptoPipe *pipe, int to_vector, bool producing, uint64_t number,
                      uint8_t **slot) {
    const Waiting waiting(activation);
    FlightWait told(activation.flight,
                    of_slot(activation, 0, FlightEvent::WaitsForSlot, *pipe, to_vector, producing, number));
    return activation.group->acquire(activation.member, pipe, to_vector, producing, slot, told);
}

GroupSet::Result meet(const Activation &activation, uint32_t cores) {
    const Waiting waiting(activation);
    FlightWait told(activation.flight,
                    of_kernel(activation, 0, FlightEvent::WaitsAtBarrier, 0, static_cast<uint8_t>(cores)));
    return activation.groups->meet(*activation.group, activation.member, static_cast<GroupSet::Cores>(cores), told);
}

int vector_count(const Task &task) {
    return (task.kernels[1] >= 0) + (task.kernels[2] >= 0);
}

// Names a ring of a group for the instruction record: the pipe's flag, and the way it goes.
uint32_t ring_id(const PyptoPipe *pipe, int to_vector) {
    return 2 * pipe->spec.flag_id + static_cast<uint32_t>(to_vector);
}

template <bool producing> uint8_t *wait_for_slot(PyptoCoreContext *context, PyptoPipe *pipe, int to_vector) {
    Activation &activation = activation_of(context);
    uint8_t *slot = nullptr;
    PipeRing &ring = pipe->rings[to_vector];
    const int lane = Group::lane_of(ring, activation.member);
    const uint64_t number = producing ? ring.acquired[lane] : ring.fronted[lane]; // this lane's own counters
    switch (acquire(activation, pipe, to_vector, producing, number, &slot)) {
    case Group::Result::Ok:
        if (activation.check)
            activation.check->acquired(ring, ring_id(pipe, to_vector), pipe->spec.slot_count, producing, number, slot,
                                       pipe->spec.slot_bytes);
        return slot;
    case Group::Result::Aborted:
        throw CodeEnded{};
    case Group::Result::Deadlock:
        break;
    }
    activation.executor->end_with_fault(activation, activation.groups->deadlock(*activation.group));
}

template <bool producing> void advance_slot(PyptoCoreContext *context, PyptoPipe *pipe, int to_vector) {
    Activation &activation = activation_of(context);
    PipeRing &ring = pipe->rings[to_vector];
    const int lane = Group::lane_of(ring, activation.member);
    const uint64_t number = producing ? ring.committed[lane] : ring.released[lane];
    if (activation.check) {
        activation.check->hand_over(producing);
        activation.check->advances(ring, ring_id(pipe, to_vector), pipe->spec.slot_count, producing, number);
    }
    const int64_t now = monotonic_ns();
    note(activation.flight, of_slot(activation, now, FlightEvent::PassesSlot, *pipe, to_vector, producing, number));
    if (!activation.group->advance(activation.member, pipe, to_vector, producing, now))
        activation.executor->end_with_fault(
            activation,
            Fault(producing ? FaultKind::SlotNotAcquired : FaultKind::SlotNotPopped, {{"pipe", pipe->spec.flag_id}}));
}

PyptoPipe *pipe_open(PyptoCoreContext *context, const PyptoPipeSpec *spec) {
    Activation &activation = activation_of(context);
    if (activation.group == nullptr) {
        activation.own = std::make_unique<GroupSet>(false);
        activation.groups = activation.own.get();
        activation.group = activation.executor->add_group(*activation.task, *activation.groups, context->block_idx);
    }
    return activation.group->open(*spec);
}

void sync_all(PyptoCoreContext *context, uint32_t cores) {
    Activation &activation = activation_of(context);
    if (activation.groups == nullptr || !activation.groups->meets()) {
        if (context->block_num == 1 && !activation.task->is_group())
            return; // a lone kernel
        activation.executor->end_with_fault(activation,
                                            Fault(FaultKind::BarrierWithoutStart, {{"count", context->block_num}}));
    }
    switch (meet(activation, cores)) {
    case GroupSet::Result::Ok:
        if (activation.check)
            activation.check->passed_barrier(cores);
        return;
    case GroupSet::Result::Aborted:
        throw CodeEnded{};
    case GroupSet::Result::Deadlock:
        activation.executor->end_with_fault(activation, activation.groups->deadlock(*activation.group));
    }
}

void signal_wait(PyptoCoreContext *context, const int32_t *signal, int32_t expected, uint32_t comparison) {
    Activation &activation = activation_of(context);
    activation.executor->wait_for_value(activation, {&activation, signal, expected, comparison, false});
}

void signal_notify(PyptoCoreContext *context, int32_t *signal, int32_t value, int set) {
    Activation &activation = activation_of(context);
    activation.executor->notify(activation, signal, value, set != 0);
}

void kernel_fault(PyptoCoreContext *context, const char *message, const char *file, int line) {
    Activation &activation = activation_of(context);
    activation.executor->end_with_fault(
        activation, Fault(message ? FaultKind::KernelReported : FaultKind::KernelEndedItself,
                          {{"text", message ? message : ""}, {"file", file ? file : ""}, {"line", line}}));
}

constexpr uint32_t kAtLeast = 3; // WaitCmp GE

/// Conditions that a kernel leaves for the end of its task.
struct Deferred {
    uint32_t count = 0;
    int32_t error = 0;
    DeferredCompletionEntry entries[MAX_COMPLETIONS_PER_TASK];
};

/// Until every counter has reached its value. The block keeps its core meanwhile.
void await(Activation &activation, Deferred &deferred) {
    const uint32_t count = std::min<uint32_t>(deferred.count, MAX_COMPLETIONS_PER_TASK);
    for (uint32_t i = 0; i < count; ++i) {
        const DeferredCompletionEntry &entry = deferred.entries[i];
        const auto *counter = reinterpret_cast<const int32_t *>(entry.addr);
        if (entry.completion_type == 0)
            activation.executor->wait_for_value(
                activation, {&activation, counter, static_cast<int32_t>(entry.expected_value), kAtLeast, true});
        else
            deferred.error = PTO2_ERROR_ASYNC_COMPLETION_INVALID; // no engine here records events
    }
}

void announce(RunningSlot &slot, const Task &task, const Kernel &kernel, int32_t block, int member, int64_t now) {
    slot.func_id = kernel.func_id;
    slot.block = block;
    slot.member = member;
    slot.start_ns = now;
    std::strncpy(slot.kernel, kernel.name.c_str(), sizeof(slot.kernel) - 1);
    slot.task.store(task.number, std::memory_order_release);
}

} // namespace

void build_arguments(const Task &task, const void *local_context, const void *global_context, int64_t *slots) {
    uint32_t count = 0;
    if (task.interleaved) {
        for (const TaskArgument &argument : task.arguments)
            slots[count++] = argument.kind == ArgEntry::SCALAR
                                 ? static_cast<int64_t>(task.scalars[argument.index])
                                 : reinterpret_cast<int64_t>(&task.tensors[argument.index]);
    } else {
        for (const ChipTensor &tensor : task.tensors)
            slots[count++] = reinterpret_cast<int64_t>(&tensor);
        for (const uint64_t scalar : task.scalars)
            slots[count++] = static_cast<int64_t>(scalar);
    }
    for (uint32_t slot = count; slot < kLateContextSlot; ++slot)
        slots[slot] = no_argument(slot);
    for (const uint32_t slot : {kLateContextSlot, kEarlyContextSlot}) {
        if (count > slot)
            continue;
        slots[slot] = reinterpret_cast<int64_t>(local_context);
        slots[slot + 1] = reinterpret_cast<int64_t>(global_context);
    }
}

Executor::Executor(const Platform &platform, const KernelLibrary &kernels, Report *report,
                   const FlightRecorder &recorder, RankSignals &signals, Callbacks callbacks)
    : platform_(platform), kernels_(kernels), report_(report), recorder_(recorder), signals_(signals),
      callbacks_(std::move(callbacks)), pool_([this] { return make_core(); }) {}

std::unique_ptr<Core> Executor::make_core() {
    const int index = cores_.fetch_add(1);
    RunningSlot *slot = nullptr;
    if (report_ != nullptr && index < static_cast<int>(kReportThreads)) {
        slot = &report_->threads[index];
        slot->task.store(kNoTask);
        report_->thread_count.fetch_add(1);
    }
    auto core = std::make_unique<Core>(platform_, index, slot, recorder_.core(index));
    if (!observers_.empty())
        core->memory.touch(); // times are taken, which first touches would multiply
    return core;
}

Group *Executor::add_group(const Task &task, GroupSet &groups, int32_t block) const {
    std::string names[kMembers];
    for (int i = 0; i < kMembers; ++i)
        if (const Kernel *kernel = kernels_.find(task.kernels[i]))
            names[i] = kernel->name.empty() ? "?" : kernel->name;
    return groups.add_group(names, block);
}

void Executor::run_block(const Task &task, int32_t block, Core &core) {
    if (!task.is_group()) {
        for (int i = 0; i < kMembers; ++i)
            if (task.kernels[i] >= 0)
                run_member(task, {i, block, 1, nullptr, nullptr}, core);
        return;
    }
    GroupSet groups(task.block_num == 1);
    std::vector<WorkerPool::Job> jobs;
    append_jobs(task, block, add_group(task, groups, block), &groups, jobs);
    run_jobs(std::move(jobs), core);
}

// Any job can go on by itself, so all count; the last to end leaves what counts for the task.
void Executor::run_jobs(std::vector<WorkerPool::Job> jobs, Core &core) {
    if (!signals_) {
        pool_.run(jobs, core);
        return;
    }
    std::atomic<size_t> left{jobs.size()};
    signals_.add_busy(static_cast<int32_t>(jobs.size()) - 1);
    for (WorkerPool::Job &job : jobs)
        job = [this, &left, job](Core &own) {
            job(own);
            if (left.fetch_sub(1) > 1)
                signals_.add_busy(-1);
        };
    pool_.run(jobs, core);
}

void Executor::run_together(const Task &task, Core &core) {
    GroupSet groups(true);
    std::vector<WorkerPool::Job> jobs;
    for (int32_t block = 0; block < task.block_num; ++block)
        append_jobs(task, block, add_group(task, groups, block), &groups, jobs);
    run_jobs(std::move(jobs), core);
}

void Executor::append_jobs(const Task &task, int32_t block, Group *group, GroupSet *groups,
                           std::vector<WorkerPool::Job> &jobs) {
    const int lanes = vector_count(task);
    for (int i = 0; i < kMembers; ++i)
        if (task.kernels[i] >= 0)
            jobs.push_back([this, &task, role = Role{i, block, lanes, group, groups}](Core &core) {
                run_member(task, role, core);
            });
}

void Executor::run_member(const Task &task, const Role &role, Core &core) {
    Activation &activation = core.activation;
    activation.executor = this;
    activation.group = role.group;
    activation.groups = role.groups;
    activation.kernel = kernels_.find(task.kernels[role.member]);
    activation.task = &task;
    activation.member = role.member;
    activation.running = core.running;
    activation.flight = core.flight;
    PyptoCoreContext &context = activation.context;
    context.abi = PYPTO_CORE_ABI;
    context.is_vector = activation.kernel->vector ? 1 : 0;
    context.sub_block = role.member == 2 ? 1 : 0;
    context.sub_block_dim = role.lanes > 0 ? role.lanes : 1;
    context.block_idx = role.block;
    context.block_num = task.block_num;
    for (int i = 0; i < PYPTO_SPACE_COUNT; ++i)
        context.memory[i] = core.memory.space(i);
    context.pipe_open = pipe_open;
    context.pipe_acquire = wait_for_slot<true>;
    context.pipe_commit = advance_slot<true>;
    context.pipe_front = wait_for_slot<false>;
    context.pipe_release = advance_slot<false>;
    context.fault = kernel_fault;
    context.sync_all = sync_all;
    context.check = nullptr;
    context.signal_wait = signal_wait;
    context.signal_notify = signal_notify;
    context.runtime = &activation;
    activation.check = nullptr;
    if (checker_ && activation.kernel->checked)
        checker_->core(core.index)->begin(activation);

    current_activation = &activation;
    if (!core.watched)
        watch_thread(core.index);
    core.watched = true;
    const bool timed = role.group != nullptr || core.taken_ns == 0; // else the scheduler has looked at the clock
    const int64_t begun = timed ? monotonic_ns() : core.taken_ns;
    core.taken_ns = 0;
    if (core.running)
        announce(*core.running, task, *activation.kernel, role.block, role.member, begun);
    note(core.flight, of_kernel(activation, begun, FlightEvent::KernelBegins, activation.kernel->func_id));
    for (TaskObserver *observer : observers_)
        observer->starting(task, role.member, role.block, core.index);
    const int64_t start = observers_.empty() ? 0 : monotonic_ns();
    signals_.hold_back();
    const bool complete = call(activation, task, role);
    for (TaskObserver *observer : observers_)
        observer->called(task, role.member, core.index, start, monotonic_ns());
    if (activation.check)
        activation.check->end();
    if (core.running)
        core.running->task.store(kNoTask, std::memory_order_release);
    if (complete && timed)
        note(core.flight, of_kernel(activation, monotonic_ns(), FlightEvent::KernelReturns));
    else if (complete)
        core.returned = of_kernel(activation, 0, FlightEvent::KernelReturns);
    current_activation = nullptr;
    if (role.groups && role.groups->leave(*role.group, role.member))
        report_fault(activation, role.groups->deadlock(*role.group), kernels_.names(task.kernels));
    activation.own.reset();
}

/// Apart, so that other kernels pay nothing for it.
[[gnu::noinline]] static void flushed(const Kernel &kernel, int64_t *slots) {
    const FlushedSubnormals until_it_returns(true);
    kernel.entry(slots);
}

bool Executor::call(Activation &activation, const Task &task, const Role &role) {
    int64_t slots[kSlots];
    LocalContext local{};
    local.block_idx = role.block;
    local.block_num = task.block_num;
    Deferred deferred;
    local.async_ctx =
        AsyncCtx{&deferred.count, &deferred.error, deferred.entries, MAX_COMPLETIONS_PER_TASK, PTO2TaskId{task.id}};
    GlobalContext global{};
    global.sub_block_id = activation.context.sub_block;
    build_arguments(task, &local, &global, slots);
    const bool complete = complete_artifact_code([&activation, &slots, &deferred] {
        if (activation.kernel->bind_core)
            activation.kernel->bind_core(&activation.context);
        if (activation.kernel->flushes_subnormals) [[unlikely]]
            flushed(*activation.kernel, slots);
        else
            activation.kernel->entry(slots);
        if (activation.check)
            activation.check->returned();
        if (!deferred.error)
            await(activation, deferred); // the addresses are the kernel's
    });
    if (deferred.error == PTO2_ERROR_ASYNC_WAIT_OVERFLOW)
        report_fault(activation, Fault(FaultKind::AsyncOverflow, {{"limit", MAX_COMPLETIONS_PER_TASK}}));
    else if (deferred.error)
        report_fault(activation, Fault(FaultKind::AsyncInvalid));
    return complete;
}

void Executor::report_fault(const Activation &activation, Fault fault, const std::string &kernels) {
    fault.task = activation.task->number;
    fault.task_id = activation.task->id;
    fault.kernel = kernels.empty() ? activation.kernel->name : kernels;
    callbacks_.fault(std::move(fault)); // first, so that it stands before those end who wait
    if (activation.groups)
        activation.groups->abort(); // no member waits on for a failed one
}

void Executor::wait_for_value(Activation &activation, const ValueWait &wait) {
    if (wait.holds()) {
        if (signals_)
            signals_.wait(activation, wait.address, wait.expected, wait.comparison, callbacks_.failed);
        return;
    }
    FlightWait told(activation.flight,
                    of_kernel(activation, 0, wait.counter ? FlightEvent::WaitsForCounter : FlightEvent::WaitsForValue,
                              wait.expected, static_cast<uint8_t>(wait.comparison),
                              reinterpret_cast<uint64_t>(wait.address)));
    told.begins();
    if (activation.running)
        activation.running->waits.store(1, std::memory_order_relaxed);
    callbacks_.waits_for_value(1);
    const bool held = signals_
                          ? signals_.wait(activation, wait.address, wait.expected, wait.comparison, callbacks_.failed)
                          : poll(wait);
    callbacks_.waits_for_value(-1);
    if (activation.running)
        activation.running->waits.store(0, std::memory_order_relaxed);
    if (!held)
        throw CodeEnded{};
    told.ends();
}

// Plain stores wake no thread, so waiters look by themselves.
bool Executor::poll(const ValueWait &wait) {
    constexpr int kEager = 64;
    constexpr int64_t kLongestNs = 1'000'000;
    values_.add(wait);
    bool held = false;
    for (int64_t round = 0; !(held = wait.holds()) && !callbacks_.failed(); ++round) {
        if (round < kEager) {
            std::this_thread::yield();
            continue;
        }
        if (callbacks_.all_wait())
            report_fault(*wait.activation, values_.fault());
        std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(kLongestNs, (round - kEager + 1) * 20'000)));
    }
    values_.remove(wait);
    return held;
}

void Executor::notify(const Activation &activation, int32_t *signal, int32_t value, bool set) {
    const int64_t now = monotonic_ns();
    note(activation.flight, of_kernel(activation, now, set ? FlightEvent::SetsValue : FlightEvent::AddsValue, value, 0,
                                      reinterpret_cast<uint64_t>(signal)));
    if (signals_)
        signals_.notify(activation, signal, value, set, now);
    else
        values_.notify(activation, signal, value, set, now);
}

void Executor::end_with_fault(Activation &activation, Fault fault) {
    report_fault(activation, std::move(fault));
    throw CodeEnded{};
}

} // namespace pypto::runtime
