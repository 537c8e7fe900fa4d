// The recordings of one run, as far as its settings ask for them.
#pragma once

#include "checking/check_record.h"
#include "data/staging.h"
#include "records/args_record.h"
#include "records/graph_record.h"
#include "records/scope_record.h"
#include "records/swimlane_record.h"
#include "records/timing_record.h"
#include "records/trace_record.h"

#include <memory>

namespace pypto::runtime {

class Records {
public:
    /// Throws FaultError: no output directory, unknown dump format or level.
    Records(const Settings &settings, const Platform &platform, const KernelLibrary &kernels, const Log &log);

    /// Starts watching. The parts must outlive the run, and this them.
    void attach(const TaskGraph &graph, Scheduler &scheduler, Executor &executor, Orchestrator &orchestrator);
    /// Writes every file. Throws FaultError naming the path.
    /// The run has ended well: nothing is held back any more.
    void finish();
    void write(bool fatal, int threads, const RunTimes &times);
    /// Tells the checked build's record, if there is one, what was left of the outputs.
    void outputs(const Staging &staging, const std::vector<Unwritten> &unwritten);
    /// The content of deps.json; empty unless Settings::graph asks for it.
    std::string graph() const { return settings_.graph ? graph_->text() : std::string(); }

    /// Returns the beginning of the timeline, in the machine's clock; 0 without one.
    int64_t timeline_ns() const { return swimlane_ ? swimlane_->origin_ns() : 0; }

private:
    const Settings &settings_;
    const Log &log_;
    std::unique_ptr<GraphRecord> graph_;
    std::unique_ptr<ScopeRecord> scopes_;
    std::unique_ptr<SwimlaneRecord> swimlane_;
    std::unique_ptr<TimingRecord> timing_;
    std::unique_ptr<TraceRecord> trace_;
    std::unique_ptr<ArgsRecord> args_;
    std::unique_ptr<Checker> checker_;
};

} // namespace pypto::runtime
