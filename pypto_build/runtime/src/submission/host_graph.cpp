// Lists tasks and edges, and submits them in an order that the edges allow.
#include "submission/host_graph.h"

#include "submission/orchestrator.h"

#include <cstring>
#include <new>

namespace pypto::runtime {

int HostGraph::add_task(const uint64_t *words, int count, int32_t func_id, bool vector) {
    tasks_.push_back({std::vector<uint64_t>(words, words + count), func_id, vector, {}, -1});
    return size() - 1;
}

bool HostGraph::add_edge(int from, int to) {
    if (from < 0 || from >= size() || to < 0 || to >= size())
        return false;
    tasks_[static_cast<size_t>(to)].producers.push_back(from);
    return true;
}

bool HostGraph::set_timing_slot(int task, int slot) {
    if (task < 0 || task >= size() || slot < 0 || slot > 15)
        return false;
    tasks_[static_cast<size_t>(task)].timing_slot = slot;
    return true;
}

void *HostGraph::allocate(uint64_t bytes) {
    constexpr uint64_t kAlignment = 1024;
    uint8_t *memory = new (std::nothrow) uint8_t[bytes + kAlignment]();
    if (memory == nullptr)
        return nullptr;
    memory_.emplace_back(memory);
    return memory + (kAlignment - reinterpret_cast<uint64_t>(memory) % kAlignment) % kAlignment;
}

// In the order they were added as far as the edges allow; the members of a cycle come last.
std::vector<int> HostGraph::submission_order() const {
    std::vector<int> order;
    std::vector<bool> placed(tasks_.size());
    for (size_t before = ~size_t{0}; order.size() != before;) {
        before = order.size();
        for (int i = 0; i < size(); ++i) {
            bool free = !placed[static_cast<size_t>(i)];
            for (const int producer : tasks_[static_cast<size_t>(i)].producers)
                free = free && placed[static_cast<size_t>(producer)];
            if (!free)
                continue;
            placed[static_cast<size_t>(i)] = true;
            order.push_back(i);
        }
    }
    for (int i = 0; i < size(); ++i)
        if (!placed[static_cast<size_t>(i)])
            order.push_back(i);
    return order;
}

void HostGraph::submit(Orchestrator &orchestrator) const {
    const std::vector<int> order = submission_order();
    std::vector<PTO2TaskId> ids(tasks_.size());
    for (size_t place = 0; place < order.size(); ++place) // the outermost scope's ring counts from 0
        ids[static_cast<size_t>(order[place])] = PTO2TaskId::make(0, static_cast<uint32_t>(place));
    for (const int number : order) {
        const ListedTask &listed = tasks_[static_cast<size_t>(number)];
        std::vector<ArgEntry> entries;
        for (const uint64_t word : listed.words)
            entries.push_back({ArgEntry::SCALAR, 0, DataType::UINT64, TensorArgType::INPUT, word});
        std::vector<Dependency> dependencies;
        for (const int producer : listed.producers)
            dependencies.push_back({ids[static_cast<size_t>(producer)], DEP_WAIT});
        Submission submission{};
        submission.kernels[0] = listed.vector ? -1 : listed.func_id;
        submission.kernels[1] = listed.vector ? listed.func_id : -1;
        submission.kernels[2] = -1;
        submission.block_num = 1;
        submission.timing_slot = listed.timing_slot;
        submission.arg_count = static_cast<uint32_t>(entries.size());
        submission.args = entries.data();
        submission.dependency_count = static_cast<uint32_t>(dependencies.size());
        submission.dependencies = dependencies.data();
        Outputs outputs;
        orchestrator.submit(submission, outputs);
    }
}

void HostGraph::deliver() const {
    for (const Result &result : results_)
        std::memcpy(result.host, result.device, result.bytes);
}

} // namespace pypto::runtime
