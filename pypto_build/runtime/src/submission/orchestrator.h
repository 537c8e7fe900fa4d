// The orchestration's interface: turns its calls into tasks, dependencies and memory.
//
// Single-threaded. Dependencies follow simpler's rules: the creator of a tensor, then for reads the registered writers
// of overlapping regions, then explicit ones; INOUT and existing outputs register as writers. Nothing else is ordered.
#pragma once

#include "base/log.h"
#include "execution/kernel_library.h"
#include "records/observers.h"
#include "scheduling/scheduler.h"
#include "submission/access_history.h"
#include "submission/host_graph.h"
#include "submission/tensor_map.h"

#include <functional>
#include <string>
#include <vector>

namespace pypto::runtime {

/// The runtime allocates this argument when it is submitted.
inline bool is_new(const ArgEntry &entry) {
    return entry.kind == ArgEntry::CREATE ||
           (entry.kind == ArgEntry::TENSOR && entry.tag == TensorArgType::OUTPUT_EXISTING &&
            entry.tensor()->address_space == kUnallocated);
}

class Orchestrator {
public:
    Orchestrator(const Settings &settings, const Platform &platform, const KernelLibrary &kernels, TaskGraph &graph,
                 Scheduler &scheduler, const FlightRecorder &recorder, const Log &log);

    void observe(OrchestrationObserver *observer) { observers_.push_back(observer); }

    /// Runs an orchestration from its implicit outer scope on; returns when it has returned or failed.
    void run(const std::function<void()> &entry);

    static const Operations *operations();

    size_t tensor_map_size() const { return map_.size(); }
    uint64_t submitted() const { return numbered_; }

    // The operations.
    void submit(const Submission &submission, Outputs &outputs);
    void allocate(const ArgEntry *entries, uint32_t count, Outputs &outputs);
    void scope_begin(PTO2ScopeMode mode, const char *file, int line);
    void scope_end(const char *file, int line);
    void read(const ChipTensor &tensor, uint32_t ndims, const uint32_t *indices, void *value, uint32_t size);
    void write(const ChipTensor &tensor, uint32_t ndims, const uint32_t *indices, const void *value, uint32_t size);
    void report_fatal(int code, std::string message);
    bool is_fatal() const { return scheduler_.failed(); }
    /// The same, asked by the orchestration, which may be waiting for what kernels write.
    bool polled_fatal() {
        scheduler_.caller_polls();
        return scheduler_.failed();
    }
    void log(LogLevel level, const char *file, int line, const std::string &message) const;
    int cluster_count() const { return platform_.clusters; }
    int aiv_count() const { return 2 * platform_.clusters; }

    /// Records a fault and leaves the orchestration; does not return.
    [[noreturn]] void end_with(Fault fault);
    [[noreturn]] void end_with(FaultKind kind, std::initializer_list<FaultField> facts = {}) {
        end_with(Fault(kind, facts));
    }

private:
    struct Scope {
        PTO2ScopeMode mode;
        size_t first_task; // index into scope_tasks_
        const char *file;
        int line;
    };

    [[noreturn]] void leave();
    uint32_t ring() const;
    bool manual() const { return scopes_.back().mode == PTO2ScopeMode::MANUAL; }
    void check_kernels(const Submission &submission);
    void check_launch(const Submission &submission);
    void check_argument(const ArgEntry &entry, uint32_t arg);
    void check_tensor(const ChipTensor &tensor, uint32_t arg);
    void warn_of_poison(const uint8_t *element, DataType dtype);
    void collect_edges(const Submission &submission);
    void add_edge(const Edge &edge);
    void lookup(const ChipTensor &tensor, int arg, bool inout);
    void merge_edges();
    void writers_of(const ChipTensor &tensor); // into edges_
    void publish(const Submission &submission, uint64_t task);
    void strict_edges(const Task &task);
    Task *create(uint64_t heap_bytes);
    bool make_room(Scheduler::Lock &lock, uint64_t heap_bytes, uint32_t edges, Shortage &shortage);
    void add_oldest(Fault &fault, uint32_t ring) const;
    [[noreturn]] void out_of(Shortage shortage, uint64_t heap_bytes);
    void fill(Task &task, const ArgEntry *entries, uint32_t count, Outputs &outputs);
    ChipTensor allocate_tensor(const TensorCreateInfo &info, uint64_t owner, uint8_t *base) const;
    void start(Task &task);
    void wait_for_writers(const ChipTensor &tensor, bool and_readers, const char *what);
    uint8_t *element(const ChipTensor &tensor, uint32_t ndims, const uint32_t *indices);
    void make_map_room();

    const Settings &settings_;
    const Platform &platform_;
    const KernelLibrary &kernels_;
    TaskGraph &graph_;
    Scheduler &scheduler_;
    const FlightRecorder &recorder_;
    const Log &log_;
    std::vector<OrchestrationObserver *> observers_;
    bool keep_history_ = false;
    bool warned_of_poison_ = false;

    TensorMap map_;
    AccessHistory history_;
    std::vector<Scope> scopes_;
    std::vector<Task *> scope_tasks_;
    std::vector<ProducerEdge> edges_; // of the task being submitted
    uint64_t numbered_ = 0;
    int64_t looked_ns_ = 0; // at the clock, for the times of submissions
};

} // namespace pypto::runtime

struct PTO2Runtime {
    pypto::runtime::Orchestrator *orchestrator;
    pypto::runtime::HostGraph *graph;
};
