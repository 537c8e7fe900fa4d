#include "orchestrator.h"

#include "poison.h"
#include "predicate.h"
#include "pypto/kernel_args.h"
#include "pypto/tensor_views.h"
#include "stall.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace pypto::runtime {

namespace {

uint64_t aligned(uint64_t bytes) {
    return bytes == 0 ? BlockPool::kAlignment
                      : (bytes + BlockPool::kAlignment - 1) / BlockPool::kAlignment * BlockPool::kAlignment;
}

uint64_t info_bytes(const TensorCreateInfo &info) {
    uint64_t bytes = element_bytes(info.dtype);
    for (uint32_t d = 0; d < info.ndims; ++d)
        bytes *= info.shapes[d];
    return bytes;
}

bool is_new(const ArgEntry &entry) {
    return entry.kind == ArgEntry::CREATE ||
           (entry.kind == ArgEntry::TENSOR && entry.tag == TensorArgType::OUTPUT_EXISTING &&
            entry.tensor()->address_space == kUnallocated);
}

uint64_t new_bytes(const ArgEntry &entry) {
    return entry.kind == ArgEntry::CREATE ? info_bytes(*entry.create_info()) : entry.tensor()->nbytes();
}

uint64_t heap_bytes(const ArgEntry *entries, uint32_t count) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; ++i)
        if (is_new(entries[i]))
            bytes += aligned(new_bytes(entries[i]));
    return bytes;
}

TensorCreateInfo info_of(const ArgEntry &entry) {
    if (entry.kind == ArgEntry::CREATE)
        return *entry.create_info();
    const ChipTensor &tensor = *entry.tensor();
    return TensorCreateInfo(tensor.shapes, tensor.ndims, tensor.dtype, tensor.manual_dep, tensor.version);
}

uint64_t power_of_two_above(uint64_t bytes) {
    uint64_t power = 1024;
    while (power < bytes)
        power *= 2;
    return power;
}

bool reads(TensorArgType tag) {
    return tag == TensorArgType::INPUT || tag == TensorArgType::INOUT;
}
bool writes(TensorArgType tag) {
    return tag == TensorArgType::INOUT || tag == TensorArgType::OUTPUT_EXISTING;
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
        if (submission.args[i].kind == ArgEntry::TENSOR && !is_new(submission.args[i]))
            check_tensor(*submission.args[i].tensor(), i);

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

// --- dependencies ---

void Orchestrator::add_edge(const Edge &edge) {
    edges_.push_back({edge.producer, edge.flags});
    for (OrchestrationObserver *observer : observers_)
        observer->edge(edge);
}

void Orchestrator::collect_edges(const Submission &submission) {
    edges_.clear();
    for (uint32_t i = 0; i < submission.dependency_count + submission.listed_count; ++i) {
        const uint32_t listed = i - submission.dependency_count;
        const bool own = i < submission.dependency_count;
        const PTO2TaskId id = own ? submission.dependencies[i].task : submission.listed[listed];
        const uint8_t flags = own                       ? submission.dependencies[i].flags
                              : submission.listed_flags ? submission.listed_flags[listed]
                                                        : static_cast<uint8_t>(DEP_WAIT | DEP_RETAIN);
        if (!id.is_valid())
            invalid(format("task %llu: explicit dependency %u is not a task",
                           static_cast<unsigned long long>(numbered_), i),
                    "add it only if (id.is_valid())");
        add_edge({id.raw, -1, EdgeSource::Explicit, flags, Overlap::None, nullptr, nullptr});
    }
    if (manual())
        return;
    for (uint32_t i = 0; i < submission.arg_count; ++i) {
        const ArgEntry &entry = submission.args[i];
        if (entry.kind != ArgEntry::TENSOR || is_new(entry))
            continue;
        const ChipTensor &tensor = *entry.tensor();
        if (tensor.owner_task_id.is_valid())
            add_edge({tensor.owner_task_id.raw, static_cast<int>(i), EdgeSource::Creator, DEP_WAIT | DEP_RETAIN,
                      Overlap::None, &tensor, nullptr});
        if (reads(entry.tag) && !tensor.manual_dep)
            lookup(tensor, static_cast<int>(i), entry.tag == TensorArgType::INOUT);
    }
}

void Orchestrator::writers_of(const ChipTensor &tensor) {
    if (tensor.owner_task_id.is_valid())
        edges_.push_back({tensor.owner_task_id.raw, DEP_WAIT | DEP_RETAIN});
    const auto gone = [this](uint64_t task) { return !keep_history_ && graph_.retired(task); };
    map_.lookup(tensor, gone, [this](const WriterEntry &entry, Overlap) {
        edges_.push_back({entry.task, DEP_WAIT});
        return false;
    });
}

void Orchestrator::lookup(const ChipTensor &tensor, int arg, bool inout) {
    const auto gone = [this](uint64_t task) { return !keep_history_ && graph_.retired(task); };
    map_.lookup(tensor, gone, [&](const WriterEntry &entry, Overlap overlap) {
        add_edge({entry.task, arg, EdgeSource::TensorMap, DEP_WAIT, overlap, &tensor, &entry.region});
        return inout && overlap == Overlap::Covered;
    });
}

// One edge for each producer, of all kinds it was asked for; producers that are gone are left out.
void Orchestrator::merge_edges() {
    std::sort(edges_.begin(), edges_.end(),
              [](const ProducerEdge &a, const ProducerEdge &b) { return a.task < b.task; });
    size_t kept = 0;
    for (const ProducerEdge &edge : edges_) {
        if (kept > 0 && edges_[kept - 1].task == edge.task)
            edges_[kept - 1].flags |= edge.flags;
        else if (!graph_.retired(edge.task))
            edges_[kept++] = edge;
    }
    edges_.resize(kept);
}

void Orchestrator::publish(const Submission &submission, uint64_t task) {
    if (manual())
        return;
    for (uint32_t i = 0; i < submission.arg_count; ++i) {
        const ArgEntry &entry = submission.args[i];
        if (entry.kind != ArgEntry::TENSOR || entry.tag == TensorArgType::OUTPUT || !writes(entry.tag))
            continue;
        const ChipTensor &tensor = *entry.tensor();
        if (tensor.manual_dep || tensor.owner_task_id.raw == task || tensor.numel() == 0)
            continue;
        make_map_room();
        map_.insert(tensor, task);
    }
}

void Orchestrator::make_map_room() {
    if (map_.size() < settings_.limits.tensor_map || keep_history_)
        return;
    Scheduler::Lock lock = scheduler_.lock();
    const auto sweep = [this] {
        map_.sweep([this](uint64_t id) {
            const Task *task = graph_.find(id);
            return (task == nullptr && graph_.submitted(id)) || (task && task->state == TaskState::Done);
        });
        return map_.size() < settings_.limits.tensor_map;
    };
    const Scheduler::Outcome outcome = scheduler_.run_until(lock, sweep);
    lock.unlock();
    if (outcome == Scheduler::Outcome::Failed)
        leave();
    if (outcome == Scheduler::Outcome::Stalled)
        end_with(
            make_fault(Code::TensorMapOverflow, format("the tensor map's %u entries all belong to unfinished tasks",
                                                       settings_.limits.tensor_map)));
}

void Orchestrator::strict_edges(const Task &task) {
    const auto after = [this](uint64_t earlier) {
        add_edge({earlier, -1, EdgeSource::Strict, DEP_WAIT, Overlap::None, nullptr, nullptr});
    };
    for (const TaskArgument &argument : task.arguments) {
        if (argument.kind != ArgEntry::TENSOR)
            continue;
        const bool written = argument.tag != TensorArgType::INPUT;
        history_.access(task.tensors[argument.index], task.id, written, after);
    }
    if (task.predicated) // a condition is no dependency, but it reads
        history_.access(task.predicate_tensor, task.id, false, after);
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
            if (info.ndims == 0 || info.ndims > MAX_TENSOR_DIMS || outputs.count == kMaxOutputs)
                invalid(format("allocation %u has %u dimensions", outputs.count, info.ndims),
                        "allocate at most 32 tensors of 1 to 5 dimensions at once");
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
    for (uint32_t i = 0; i < count; ++i)
        if (entries[i].kind != ArgEntry::CREATE)
            invalid("alloc_tensors is given something that is not a TensorCreateInfo",
                    "add_output only TensorCreateInfos");
    edges_.clear();
    Task *task = create(heap_bytes(entries, count));
    task->number = kNoNumber;
    task->manual_scope = manual();
    fill(*task, entries, count, outputs);
    for (OrchestrationObserver *observer : observers_)
        observer->submitted(*task);
    start(*task);
}

// --- data ---

void Orchestrator::wait_for_writers(const ChipTensor &tensor, bool and_readers, const char *what) {
    if (is_fatal())
        leave();
    edges_.clear();
    writers_of(tensor);
    Scheduler::Lock lock = scheduler_.lock();
    const Scheduler::Outcome outcome = scheduler_.run_until(lock, [&] {
        for (const ProducerEdge &edge : edges_) {
            const Task *task = graph_.find(edge.task);
            if (task && (task->state != TaskState::Done || (and_readers && task->unfinished_consumers > 0)))
                return false;
        }
        return true;
    });
    const bool stalled = outcome == Scheduler::Outcome::Stalled;
    Fault fault;
    if (stalled) {
        fault = describe_stall(graph_, kernels_, false);
        fault.code = Code::TensorWaitTimeout;
        fault.message = std::string(what) + " waits for a task that cannot finish; " + fault.message;
    }
    lock.unlock();
    if (stalled)
        end_with(std::move(fault));
    if (outcome == Scheduler::Outcome::Failed)
        leave();
    for (OrchestrationObserver *observer : observers_)
        observer->waited(edges_, and_readers);
}

uint8_t *Orchestrator::element(const ChipTensor &tensor, uint32_t ndims, const uint32_t *indices) {
    if (ndims != tensor.ndims)
        invalid(format("%u indices are given for a tensor of %u dimensions", ndims, tensor.ndims), "give one for each");
    for (uint32_t d = 0; d < ndims; ++d)
        if (indices[d] >= tensor.shapes[d])
            invalid(format("index %u is outside dimension %u of size %u", indices[d], d, tensor.shapes[d]),
                    "correct the indices of get_tensor_data or set_tensor_data");
    check_tensor(tensor, 0);
    return element_address(tensor, ndims, indices);
}

void Orchestrator::read(const ChipTensor &tensor, uint32_t ndims, const uint32_t *indices, void *value, uint32_t size) {
    uint8_t *address = element(tensor, ndims, indices);
    wait_for_writers(tensor, false, "get_tensor_data");
    std::memcpy(value, address, std::min(size, element_bytes(tensor.dtype)));
}

void Orchestrator::write(const ChipTensor &tensor, uint32_t ndims, const uint32_t *indices, const void *value,
                         uint32_t size) {
    uint8_t *address = element(tensor, ndims, indices);
    wait_for_writers(tensor, true, "set_tensor_data");
    std::memcpy(address, value, std::min(size, element_bytes(tensor.dtype)));
}

void Orchestrator::report_fatal(int code, std::string message) {
    Fault fault = make_fault(static_cast<Code>(code), std::move(message));
    if (fault.hint.empty())
        fault.hint = code_hint(Code::ExplicitOrchFatal);
    scheduler_.fail(std::move(fault));
}

void Orchestrator::log(LogLevel level, const char *file, int line, const std::string &message) const {
    if (static_cast<int>(level) < settings_.log_level)
        return;
    const char *name = level >= LogLevel::Error    ? "ERROR"
                       : level >= LogLevel::Warn   ? "WARN"
                       : level >= LogLevel::Timing ? "TIMING"
                       : level >= LogLevel::Info   ? "INFO"
                                                   : "DEBUG";
    const char *base = std::strrchr(file, '/');
    std::fprintf(stderr, "[%s] orchestration: [%s:%d] %s\n", name, base ? base + 1 : file, line, message.c_str());
}

} // namespace pypto::runtime
