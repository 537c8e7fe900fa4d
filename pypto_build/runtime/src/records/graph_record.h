// deps.json: the tasks of a run, their tensors, and every dependency with its reason; in simpler's format.
#pragma once

#include "base/json_writer.h"
#include "records/observers.h"

#include <set>

namespace pypto::runtime {

class GraphRecord : public OrchestrationObserver {
public:
    void edge(const Edge &edge) override;
    void submitted(const Task &task) override;
    bool keeps_history() const override { return true; }

    /// Writes deps.json into the directory.
    void write(const std::string &directory) const;
    std::string text() const;

private:
    struct PendingEdge {
        Edge edge;
        ChipTensor consumer;
        ChipTensor writer;
    };
    static ChipTensor copy(const ChipTensor *tensor) { return tensor ? *tensor : ChipTensor{}; }
    void add_task(const Task &task);
    void add_edge(const PendingEdge &pending, const Task &task);
    void add_tensor(const ChipTensor &tensor);

    std::vector<PendingEdge> pending_;
    std::set<uint64_t> known_tensors_;
    JsonWriter tasks_;
    JsonWriter tensors_;
    JsonWriter edges_;
};

} // namespace pypto::runtime
