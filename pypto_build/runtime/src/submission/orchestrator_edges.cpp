// Finds the dependencies of a new task.
#include "submission/orchestrator.h"

#include <algorithm>

namespace pypto::runtime {

namespace {

bool reads(TensorArgType tag) {
    return tag == TensorArgType::INPUT || tag == TensorArgType::INOUT;
}
bool writes(TensorArgType tag) {
    return tag == TensorArgType::INOUT || tag == TensorArgType::OUTPUT_EXISTING;
}

} // namespace

void Orchestrator::add_edge(const Edge &edge) {
    if (!graph_.retired(edge.producer))
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
            end_with(FaultKind::InvalidDependency, {{"number", numbered_}, {"index", i}});
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
        end_with(FaultKind::TensorMapFull, {{"limit", settings_.limits.tensor_map}});
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

} // namespace pypto::runtime
