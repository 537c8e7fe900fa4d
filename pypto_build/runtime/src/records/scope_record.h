// scope_stats.jsonl: how full rings, heap, dependency pool and tensor map are at each scope boundary.
#pragma once

#include "base/json_writer.h"
#include "records/observers.h"
#include "submission/orchestrator.h"

namespace pypto::runtime {

class ScopeRecord : public OrchestrationObserver {
public:
    ScopeRecord(const RingLimits &limits, const TaskGraph &graph, Scheduler &scheduler,
                const Orchestrator &orchestrator)
        : limits_(limits), graph_(graph), scheduler_(scheduler), orchestrator_(orchestrator) {}

    void scope(bool begin, uint32_t depth, uint32_t ring, const char *file, int line) override;
    void write(const std::string &directory, bool fatal) const;

private:
    const RingLimits &limits_;
    const TaskGraph &graph_;
    Scheduler &scheduler_;
    const Orchestrator &orchestrator_;
    std::string lines_;
    int64_t count_ = 0;
};

} // namespace pypto::runtime
