// Scopes, submissions and their memory.
#include "submission/orchestrator.h"

#include "base/json_writer.h"
#include "data/poison.h"
#include "execution/artifact_code.h"
#include "pypto/kernel_args.h"
#include "pypto/tensor_views.h"
#include "submission/call_frames.h"

#include <algorithm>

namespace pypto::runtime {

namespace {

constexpr uint64_t kTooLarge = uint64_t{1} << 48;
// A look at the clock for every submission would be several percent of what a short task costs.
constexpr uint64_t kSubmissionsALook = 8;
constexpr int kMostBlocks = 32767; // of a task, counted for each core

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

int32_t first_kernel(const Task &task) {
    for (const int32_t kernel : task.kernels)
        if (kernel >= 0)
            return kernel;
    return -1;
}

uint64_t power_of_two_above(uint64_t bytes) {
    uint64_t power = 1024;
    while (power < bytes)
        power *= 2;
    return power;
}

} // namespace

Orchestrator::Orchestrator(const Settings &settings, const Platform &platform, const KernelLibrary &kernels,
                           TaskGraph &graph, Scheduler &scheduler, const FlightRecorder &recorder, const Log &log)
    : settings_(settings), platform_(platform), kernels_(kernels), graph_(graph), scheduler_(scheduler),
      recorder_(recorder), log_(log) {}

void Orchestrator::run(const std::function<void()> &entry) {
    for (const OrchestrationObserver *observer : observers_)
        keep_history_ |= observer->keeps_history();
    const auto whole = [&] {
        scope_begin(PTO2ScopeMode::AUTO, "", 0);
        entry();
        if (scopes_.size() > 1)
            end_with(FaultKind::ScopeLeftOpen);
        scope_end("", 0);
    };
    completes(whole);
}

void Orchestrator::leave() {
    throw CodeEnded{};
}

void Orchestrator::end_with(Fault fault) {
    fault.details += ",\"frames\":" + call_frames();
    scheduler_.fail(std::move(fault));
    leave();
}

uint32_t Orchestrator::ring() const {
    return static_cast<uint32_t>(std::min<size_t>(scopes_.size() - 1, kRings - 1));
}

// --- scopes ---

void Orchestrator::scope_begin(PTO2ScopeMode mode, const char *file, int line) {
    if (is_fatal())
        leave();
    if (!scopes_.empty() && manual() && mode == PTO2ScopeMode::AUTO)
        end_with(FaultKind::AutoScopeInManual, {{"file", file}, {"line", line}});
    if (scopes_.size() >= settings_.limits.scope_depth)
        end_with(FaultKind::ScopesTooDeep, {{"file", file}, {"line", line}, {"limit", settings_.limits.scope_depth}});
    scopes_.push_back({mode, scope_tasks_.size(), file, line});
    for (OrchestrationObserver *observer : observers_)
        observer->scope(true, static_cast<uint32_t>(scopes_.size() - 1), ring(), file, line);
}

void Orchestrator::scope_end(const char *file, int line) {
    if (is_fatal())
        return; // from a guard's destructor
    if (scopes_.empty())
        end_with(FaultKind::ScopeNeverBegun, {{"file", file}, {"line", line}});
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
        end_with(FaultKind::ArgumentMisuse, {{"number", numbered_}, {"text", submission.error}});
    if (submission.arg_count > kMaxArguments)
        end_with(FaultKind::TooManyArguments,
                 {{"number", numbered_}, {"count", submission.arg_count}, {"limit", kMaxArguments}});
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
    if (task->number % kSubmissionsALook == 0)
        looked_ns_ = monotonic_ns();
    note(recorder_.orchestration(),
         {looked_ns_, FlightEvent::Submits, recorder_.name(first_kernel(*task)), 0, 0, 0,
          static_cast<uint32_t>(task->number), static_cast<int32_t>(edges_.size()), task->id});
    start(*task);
}

void Orchestrator::check_kernels(const Submission &submission) {
    for (int i = 0; i < kMembers; ++i) {
        const int32_t id = submission.kernels[i];
        if (id == -1)
            continue;
        const Kernel *kernel = kernels_.find(id);
        if (kernel == nullptr)
            end_with(FaultKind::UnknownKernel, {{"number", numbered_}, {"func_id", id}, {"known", kernels_.list()}});
        if (kernel->vector != (i > 0))
            end_with(FaultKind::WrongCoreType, {{"number", numbered_},
                                                {"name", kernel->name},
                                                {"role", kMemberNames[i]},
                                                {"core_type", kernel->vector ? "aiv" : "aic"}});
    }
}

void Orchestrator::check_launch(const Submission &submission) {
    if (submission.block_num < 1)
        end_with(FaultKind::NoBlocks, {{"number", numbered_}, {"count", submission.block_num}});
    int members = 0;
    for (int32_t kernel : submission.kernels)
        members += kernel >= 0;
    if (submission.block_num * members > kMostBlocks)
        end_with(FaultKind::NoBlocks, {{"number", numbered_}, {"count", submission.block_num * members}});
    const Predicate *predicate = submission.predicate;
    if (predicate && predicate->operand.tensor == nullptr)
        end_with(FaultKind::PredicateWithoutTensor, {{"number", numbered_}});
    if (!submission.require_sync_start || submission.block_num <= 1)
        return;
    const bool vector_only = submission.kernels[0] < 0;
    const bool two_lanes = submission.kernels[1] >= 0 && submission.kernels[2] >= 0;
    const int limit = vector_only && !two_lanes ? aiv_count() : cluster_count();
    if (submission.block_num > limit)
        end_with(FaultKind::TooManyBlocksTogether, {{"number", numbered_},
                                                    {"count", submission.block_num},
                                                    {"chip", platform_.name},
                                                    {"limit", limit},
                                                    {"cores", limit == cluster_count() ? "clusters" : "vector cores"}});
}

void Orchestrator::check_tensor(const ChipTensor &tensor, uint32_t arg) {
    if (tensor.buffer.addr == 0 && tensor.numel() != 0)
        end_with(tensor.address_space == kUnallocated ? FaultKind::TensorNotWritten : FaultKind::TensorWithoutStorage,
                 {{"number", numbered_}, {"argument", arg}});
}

// An argument may be anything: a reference to null, a variable that was never set, a size that overflowed.
void Orchestrator::check_argument(const ArgEntry &entry, uint32_t arg) {
    if (entry.kind == ArgEntry::SCALAR)
        return;
    if (entry.value == 0)
        end_with(FaultKind::NullArgument, {{"number", numbered_}, {"argument", arg}});
    const bool create = entry.kind == ArgEntry::CREATE;
    const uint32_t ndims = create ? entry.create_info()->ndims : entry.tensor()->ndims;
    const DataType dtype = create ? entry.create_info()->dtype : entry.tensor()->dtype;
    if (ndims == 0 || ndims > MAX_TENSOR_DIMS || static_cast<uint32_t>(dtype) >= kDataTypeCount)
        end_with(
            FaultKind::UnsetArgument,
            {{"number", numbered_}, {"argument", arg}, {"dimensions", ndims}, {"dtype", static_cast<uint32_t>(dtype)}});
    if (!is_new(entry))
        check_tensor(*entry.tensor(), arg);
    else if (info_bytes(info_of(entry)) >= kTooLarge)
        end_with(FaultKind::ArgumentTooLarge, {{"number", numbered_}, {"argument", arg}});
}

// --- tasks and memory ---

bool Orchestrator::make_room(Scheduler::Lock &lock, uint64_t bytes, uint32_t edges, Shortage &shortage) {
    const uint32_t target = ring();
    shortage = graph_.shortage(target, bytes, edges);
    if (shortage == Shortage::None)
        return true;
    FlightWait told(recorder_.orchestration(), {0, FlightEvent::WaitsForRoom, 0, 0, static_cast<uint8_t>(shortage), 0,
                                                ~0u, static_cast<int32_t>(target), bytes});
    told.begins();
    const Scheduler::Outcome outcome = scheduler_.run_until(lock, [&] {
        shortage = graph_.shortage(target, bytes, edges);
        return shortage == Shortage::None;
    });
    if (outcome == Scheduler::Outcome::Done)
        told.ends();
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
        end_with(FaultKind::NoMemory, {{"bytes", bytes}});
    scope_tasks_.push_back(task);
    return task;
}

void Orchestrator::out_of(Shortage shortage, uint64_t bytes) {
    const uint32_t target = ring();
    const Scope &scope = scopes_.back();
    const RingLimits &limits = settings_.limits;
    bool scope_holds_all = false;
    TaskGraph::Usage usage;
    Fault fault;
    const auto end = [&](FaultKind kind, std::initializer_list<FaultField> facts) {
        Fault told(kind, facts);
        told.details = fault.details;
        end_with(std::move(told));
    };
    {
        const Scheduler::Lock lock = scheduler_.lock();
        usage = graph_.usage(target);
        // Among scopes that share a ring, the last alone may not fill it.
        const size_t in_scope = scope_tasks_.size() - scope.first_task;
        scope_holds_all = graph_.unfinished() == 0 && in_scope + 1 >= limits.task_window[target];
        if (shortage != Shortage::Dependencies || usage.dependencies)
            add_oldest(fault, target);
    }
    const FaultField ring{"ring", target}, file{"file", scope.file}, line{"line", scope.line};
    switch (shortage) {
    case Shortage::Heap:
        end(FaultKind::HeapFull, {ring,
                                  file,
                                  line,
                                  {"bytes", bytes},
                                  {"used", usage.heap},
                                  {"limit", limits.heap_bytes[target]},
                                  {"enough", power_of_two_above(usage.heap + bytes)}});
        break;
    case Shortage::Dependencies:
        end(FaultKind::DependencyPoolFull, {ring,
                                            file,
                                            line,
                                            {"used", usage.dependencies},
                                            {"limit", limits.dependency_pool[target]},
                                            {"count", edges_.size()}});
        break;
    default:
        end(scope_holds_all ? FaultKind::ScopeFillsWindow : FaultKind::WindowFull,
            {ring, file, line, {"limit", limits.task_window[target]}});
    }
    leave();
}

// Adds the task that holds back the others of its ring: slots and heap are given back in the order of submission.
void Orchestrator::add_oldest(Fault &fault, uint32_t ring) const {
    const Task *oldest = graph_.oldest(ring);
    if (oldest == nullptr)
        return;
    JsonWriter json;
    json.open('{').key("over").boolean(oldest->state == TaskState::Done);
    json.key("running").boolean(oldest->state == TaskState::Running);
    json.key("users").number(oldest->unfinished_consumers);
    if (oldest->number != kNoNumber)
        json.key("number").number(oldest->number).key("kernels").text(kernels_.names(oldest->kernels));
    const auto held = std::find(scope_tasks_.begin(), scope_tasks_.end(), oldest);
    if (held != scope_tasks_.end()) {
        const size_t place = static_cast<size_t>(held - scope_tasks_.begin());
        size_t depth = scopes_.size() - 1;
        while (depth > 0 && scopes_[depth].first_task > place)
            --depth;
        json.key("scope").boolean(true).key("file").text(scopes_[depth].file).key("line").number(scopes_[depth].line);
    }
    fault.details = ",\"oldest\":" + json.close('}').str();
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
                end_with(FaultKind::TooManyAllocations, {{"limit", kMaxOutputs}});
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
            end_with(FaultKind::NotCreateInfo);
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
