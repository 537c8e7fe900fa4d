#include "submission/orchestrator.h"

#include "data/poison.h"
#include "pypto/kernel_args.h"
#include "pypto/tensor_views.h"

#include <algorithm>

namespace pypto::runtime {

namespace {

constexpr uint64_t kTooLarge = uint64_t{1} << 48;

uint64_t aligned(uint64_t bytes) {
    return bytes == 0 ? BlockPool::kAlignment
                      : (bytes + BlockPool::kAlignment - 1) / BlockPool::kAlignment * BlockPool::kAlignment;
}

// At most kTooLarge, which no memory is.
uint64_t info_bytes(const TensorCreateInfo &info) {
    uint64_t bytes = element_bytes(info.dtype);
    for (uint32_t d = 0; d < info.ndims; ++d)
        if (__builtin_mul_overflow(bytes, info.shapes[d], &bytes) || bytes > kTooLarge)
            bytes = kTooLarge;
    return bytes;
}

TensorCreateInfo info_of(const ArgEntry &entry) {
    if (entry.kind == ArgEntry::CREATE)
        return *entry.create_info();
    const ChipTensor &tensor = *entry.tensor();
    TensorCreateInfo info(tensor.shapes, tensor.ndims, tensor.dtype, tensor.manual_dep, tensor.version);
    info.has_initial_value = initial_value(tensor, &info.initial_value);
    return info;
}

uint64_t heap_bytes(const ArgEntry *entries, uint32_t count) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; ++i)
        if (is_new(entries[i]))
            bytes += aligned(info_bytes(info_of(entries[i])));
    return bytes;
}

uint64_t power_of_two_above(uint64_t bytes) {
    uint64_t power = 1024;
    while (power < bytes)
        power *= 2;
    return power;
}

} // namespace

Orchestrator::Orchestrator(const Settings &settings, const Platform &platform, const KernelLibrary &kernels,
                           TaskGraph &graph, Scheduler &scheduler)
    : settings_(settings), platform_(platform), kernels_(kernels), graph_(graph), scheduler_(scheduler) {}

void Orchestrator::run(const std::function<void()> &entry) {
    for (const OrchestrationObserver *observer : observers_)
        keep_history_ |= observer->keeps_history();
    if (setjmp(exit_) == 0) {
        scope_begin(PTO2ScopeMode::AUTO, "", 0);
        entry();
        if (scopes_.size() > 1)
            invalid("the orchestration returns with an open scope", "end each rt_scope_begin with rt_scope_end");
        scope_end("", 0);
    }
}

void Orchestrator::leave() {
    std::longjmp(exit_, 1);
}

void Orchestrator::end_with(Fault fault) {
    scheduler_.fail(std::move(fault));
    leave();
}

void Orchestrator::invalid(const std::string &message, const std::string &hint) {
    end_with(make_fault(Code::InvalidArgs, message, hint));
}

uint32_t Orchestrator::ring() const {
    return static_cast<uint32_t>(std::min<size_t>(scopes_.size() - 1, kRings - 1));
}

// --- scopes ---

void Orchestrator::scope_begin(PTO2ScopeMode mode, const char *file, int line) {
    if (is_fatal())
        leave();
    if (!scopes_.empty() && manual() && mode == PTO2ScopeMode::AUTO)
        invalid(format("%s:%d: an automatic scope opens inside a manual one", file, line),
                "make the inner scope PTO2ScopeMode::MANUAL too, or end the outer one first");
    if (scopes_.size() >= settings_.limits.scope_depth)
        invalid(format("%s:%d: scopes are nested deeper than %u", file, line, settings_.limits.scope_depth),
                "close scopes before opening more");
    scopes_.push_back({mode, scope_tasks_.size(), file, line});
    for (OrchestrationObserver *observer : observers_)
        observer->scope(true, static_cast<uint32_t>(scopes_.size() - 1), ring(), file, line);
}

void Orchestrator::scope_end(const char *file, int line) {
    if (is_fatal())
        return; // from a guard's destructor
    if (scopes_.empty())
        invalid(format("%s:%d: a scope ends that was never begun", file, line),
                "pair rt_scope_begin with rt_scope_end, or use PTO2_SCOPE()");
    for (OrchestrationObserver *observer : observers_)
        observer->scope(false, static_cast<uint32_t>(scopes_.size() - 1), ring(), file, line);
    const size_t first = scopes_.back().first_task;
    scopes_.pop_back();
    if (scope_tasks_.size() == first)
        return;
    const Scheduler::Lock lock = scheduler_.lock();
    for (size_t i = first; i < scope_tasks_.size(); ++i)
        graph_.release(scope_tasks_[i]);
    scope_tasks_.resize(first);
}

// --- submission ---

void Orchestrator::submit(const Submission &submission, Outputs &outputs) {
    if (is_fatal())
        leave();
    if (submission.error)
        invalid(format("task %llu: %s", static_cast<unsigned long long>(numbered_), submission.error),
                "correct the arguments in the orchestration");
    if (submission.arg_count > kMaxArguments)
        invalid(format("task %llu has %u arguments", static_cast<unsigned long long>(numbered_), submission.arg_count),
                format("pass at most %u", kMaxArguments));
    check_kernels(submission);
    check_launch(submission);
    for (uint32_t i = 0; i < submission.arg_count; ++i)
        check_argument(submission.args[i], i);

    collect_edges(submission);
    merge_edges();
    Task *task = create(heap_bytes(submission.args, submission.arg_count));
    task->number = numbered_++;
    task->interleaved = submission.interleaved;
    task->block_num = submission.block_num;
    task->sync_start = submission.require_sync_start && submission.block_num > 1;
    task->early_dispatch = submission.allow_early_resolve;
    task->manual_scope = manual();
    task->timing_slot = submission.timing_slot;
    for (int i = 0; i < kMembers; ++i) {
        task->kernels[i] = submission.kernels[i];
        task->has_kernel |= submission.kernels[i] >= 0;
    }
    if (submission.predicate) {
        task->predicated = true;
        task->predicate = *submission.predicate;
        task->predicate_tensor = *submission.predicate->operand.tensor;
    }
    fill(*task, submission.args, submission.arg_count, outputs);
    publish(submission, task->id);
    if (settings_.strict) {
        strict_edges(*task);
        merge_edges();
    }
    for (OrchestrationObserver *observer : observers_)
        observer->submitted(*task);
    start(*task);
}

void Orchestrator::check_kernels(const Submission &submission) {
    static const char *const kRoles[kMembers] = {"AIC", "AIV0", "AIV1"};
    for (int i = 0; i < kMembers; ++i) {
        const int32_t id = submission.kernels[i];
        if (id == -1)
            continue;
        const Kernel *kernel = kernels_.find(id);
        const unsigned long long number = numbered_;
        if (kernel == nullptr)
            invalid(format("task %llu submits func_id %d, which no kernel has", number, id),
                    "kernels of this artifact: " + kernels_.list() + "; correct the submission or add it to KERNELS");
        if (kernel->vector != (i > 0))
            invalid(format("task %llu runs kernel %s as %s, but its core_type is %s", number, kernel->name.c_str(),
                           kRoles[i], kernel->vector ? "aiv" : "aic"),
                    kernel->vector ? "submit it with rt_submit_aiv_task" : "submit it with rt_submit_aic_task");
    }
}

void Orchestrator::check_launch(const Submission &submission) {
    const unsigned long long number = numbered_;
    if (submission.block_num < 1)
        invalid(format("task %llu asks for %d SPMD blocks", number, submission.block_num), "launch at least one block");
    const Predicate *predicate = submission.predicate;
    if (predicate && predicate->operand.tensor == nullptr)
        invalid(format("task %llu has a predicate without a tensor", number), "set operand.tensor");
    if (!submission.require_sync_start || submission.block_num <= 1)
        return;
    const bool vector_only = submission.kernels[0] < 0;
    const bool two_lanes = submission.kernels[1] >= 0 && submission.kernels[2] >= 0;
    const int limit = vector_only && !two_lanes ? aiv_count() : cluster_count();
    if (submission.block_num > limit)
        end_with(make_fault(Code::RequireSyncStartInvalid,
                            format("task %llu starts %d blocks together; %s has %d %s", number, submission.block_num,
                                   platform_.name, limit, limit == cluster_count() ? "clusters" : "vector cores")));
}

void Orchestrator::check_tensor(const ChipTensor &tensor, uint32_t arg) {
    if (tensor.buffer.addr == 0 && tensor.numel() != 0)
        invalid(format("task %llu: argument %u has no storage", static_cast<unsigned long long>(numbered_), arg),
                tensor.address_space == kUnallocated
                    ? "a task must write the tensor before another reads it: pass it as output first"
                    : "pass a tensor from outside, from alloc_tensors, or from a task's outputs");
}

// An argument may be anything: a reference to null, a variable that was never set, a size that overflowed.
void Orchestrator::check_argument(const ArgEntry &entry, uint32_t arg) {
    const unsigned long long number = numbered_;
    if (entry.kind == ArgEntry::SCALAR)
        return;
    if (entry.value == 0)
        invalid(format("task %llu: argument %u is a null reference", number, arg),
                "pass a tensor or a TensorCreateInfo that exists");
    const bool create = entry.kind == ArgEntry::CREATE;
    const uint32_t ndims = create ? entry.create_info()->ndims : entry.tensor()->ndims;
    const DataType dtype = create ? entry.create_info()->dtype : entry.tensor()->dtype;
    if (ndims == 0 || ndims > MAX_TENSOR_DIMS || static_cast<uint32_t>(dtype) >= kDataTypeCount)
        invalid(format("task %llu: argument %u has %u dimensions and element type %u", number, arg, ndims,
                       static_cast<uint32_t>(dtype)),
                "pass a tensor that is set, of 1 to 5 dimensions and a known type");
    if (!is_new(entry))
        check_tensor(*entry.tensor(), arg);
    else if (info_bytes(info_of(entry)) >= kTooLarge)
        invalid(format("task %llu: argument %u asks for more memory than any machine has", number, arg),
                "correct its shape; sizes may have wrapped around");
}

// --- tasks and memory ---

bool Orchestrator::make_room(Scheduler::Lock &lock, uint64_t bytes, uint32_t edges, Shortage &shortage) {
    const uint32_t target = ring();
    shortage = graph_.shortage(target, bytes, edges);
    if (shortage == Shortage::None)
        return true;
    const Scheduler::Outcome outcome = scheduler_.run_until(lock, [&] {
        shortage = graph_.shortage(target, bytes, edges);
        return shortage == Shortage::None;
    });
    return outcome == Scheduler::Outcome::Done;
}

Task *Orchestrator::create(uint64_t bytes) {
    const uint32_t edges = static_cast<uint32_t>(edges_.size());
    Scheduler::Lock lock = scheduler_.lock();
    Shortage shortage = Shortage::None;
    if (!make_room(lock, bytes, edges, shortage)) {
        lock.unlock();
        if (is_fatal())
            leave();
        out_of(shortage, bytes);
    }
    Task *task = graph_.create(ring(), bytes);
    lock.unlock();
    if (bytes && task->memory.base == nullptr)
        end_with(
            make_fault(Code::HeapRingDeadlock,
                       format("this machine has no memory left for %llu bytes", static_cast<unsigned long long>(bytes)),
                       "lower PTO2_RING_HEAP or the number of replays at once"));
    scope_tasks_.push_back(task);
    return task;
}

void Orchestrator::out_of(Shortage shortage, uint64_t bytes) {
    const uint32_t target = ring();
    const Scope &scope = scopes_.back();
    const std::string place = scope.line ? format(" (scope at %s:%d)", scope.file, scope.line) : std::string();
    const RingLimits &limits = settings_.limits;
    Code code = Code::FlowControlDeadlock;
    std::string message;
    std::string hint;
    bool scope_holds_all = false;
    TaskGraph::Usage usage;
    {
        const Scheduler::Lock lock = scheduler_.lock();
        usage = graph_.usage(target);
        scope_holds_all = graph_.unfinished() == 0;
    }
    switch (shortage) {
    case Shortage::Heap:
        code = Code::HeapRingDeadlock;
        message = format("ring %u%s: %llu bytes are asked for, %llu of %llu are held by tasks that cannot be released",
                         target, place.c_str(), static_cast<unsigned long long>(bytes),
                         static_cast<unsigned long long>(usage.heap),
                         static_cast<unsigned long long>(limits.heap_bytes[target]));
        hint = std::string(code_hint(code)) +
               format(", for example PTO2_RING_HEAP=%llu",
                      static_cast<unsigned long long>(power_of_two_above(usage.heap + bytes)));
        break;
    case Shortage::Dependencies:
        code = Code::DepPoolOverflow;
        message =
            format("ring %u%s: %llu of %u dependency edges are in use and %zu more are needed", target, place.c_str(),
                   static_cast<unsigned long long>(usage.dependencies), limits.dependency_pool[target], edges_.size());
        break;
    default:
        code = scope_holds_all ? Code::ScopeDeadlock : Code::FlowControlDeadlock;
        message = format("ring %u%s: all %u task slots are in use", target, place.c_str(), limits.task_window[target]);
        if (scope_holds_all)
            message += ", every task in them is over, and their scope is still open";
        break;
    }
    end_with(make_fault(code, message, hint.empty() ? code_hint(code) : hint));
}

ChipTensor Orchestrator::allocate_tensor(const TensorCreateInfo &info, uint64_t owner, uint8_t *base) const {
    ChipTensor tensor = make_tensor_external(base, info.shapes, info.ndims, info.dtype, info.manual_dep, info.version,
                                             AddressSpace::DEVICE);
    tensor.owner_task_id = PTO2TaskId{owner};
    tensor.buffer.size = aligned(tensor.buffer.size);
    if (info.has_initial_value)
        fill_with_value(base, tensor.numel(), info.dtype, info.initial_value);
    else if (settings_.poison)
        fill_with_poison(base, tensor.nbytes(), info.dtype);
    return tensor;
}

void Orchestrator::fill(Task &task, const ArgEntry *entries, uint32_t count, Outputs &outputs) {
    outputs.task = PTO2TaskId{task.id};
    outputs.count = 0;
    task.tensors.reserve(count);
    uint8_t *base = task.memory.base;
    uint8_t new_index[kMaxOutputs];
    for (uint32_t i = 0; i < count; ++i) {
        const ArgEntry &entry = entries[i];
        const bool scalar = entry.kind == ArgEntry::SCALAR;
        const size_t index = scalar ? task.scalars.size() : task.tensors.size();
        const bool fresh = is_new(entry);
        task.arguments.push_back({scalar ? ArgEntry::SCALAR : ArgEntry::TENSOR,
                                  fresh ? TensorArgType::OUTPUT : entry.tag, entry.dump, entry.dtype,
                                  static_cast<uint32_t>(index)});
        if (scalar) {
            task.scalars.push_back(entry.value);
        } else if (!fresh) {
            task.tensors.push_back(*entry.tensor());
        } else {
            const TensorCreateInfo info = info_of(entry);
            if (outputs.count == kMaxOutputs)
                invalid(format("more than %u tensors are allocated at once", kMaxOutputs),
                        "allocate the rest in a second call");
            task.tensors.push_back(allocate_tensor(info, task.id, base));
            base += aligned(info_bytes(info));
            if (entry.kind == ArgEntry::TENSOR)
                *entry.tensor() = task.tensors.back();
            new_index[outputs.count++] = static_cast<uint8_t>(index);
        }
    }
    for (uint32_t i = 0; i < outputs.count; ++i)
        outputs.tensors[i] = &task.tensors[new_index[i]];
}

void Orchestrator::start(Task &task) {
    Scheduler::Lock lock = scheduler_.lock();
    if (graph_.connect(&task, edges_)) {
        if (task.number != kNoNumber)
            scheduler_.enqueue(&task);
        else
            graph_.complete(&task, [this](Task *consumer) { scheduler_.enqueue(consumer); });
    }
    scheduler_.submitted(lock);
}

void Orchestrator::allocate(const ArgEntry *entries, uint32_t count, Outputs &outputs) {
    if (is_fatal())
        leave();
    for (uint32_t i = 0; i < count; ++i) {
        if (entries[i].kind != ArgEntry::CREATE)
            invalid("alloc_tensors is given something that is not a TensorCreateInfo",
                    "add_output only TensorCreateInfos");
        check_argument(entries[i], i);
    }
    edges_.clear();
    Task *task = create(heap_bytes(entries, count));
    task->number = kNoNumber;
    task->manual_scope = manual();
    fill(*task, entries, count, outputs);
    for (OrchestrationObserver *observer : observers_)
        observer->submitted(*task);
    start(*task);
}

} // namespace pypto::runtime
