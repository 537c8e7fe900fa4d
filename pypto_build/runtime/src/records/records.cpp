// Makes the records that the settings ask for, and connects them with whom they watch.
#include "records/records.h"

namespace pypto::runtime {

Records::Records(const Settings &settings, const Platform &platform, const KernelLibrary &kernels, const Log &log)
    : settings_(settings), log_(log) {
    const bool any = settings.dep_gen || settings.scope_stats || settings.swimlane || settings.dump_args ||
                     settings.accesses || settings.instructions || !settings.trace.empty();
    const bool selected = !settings.dump_select.empty() || !settings.dump_tasks.empty();
    if (any && settings.output_dir.empty())
        throw_fault(FaultKind::NoOutputDir);
    if (settings.dump_args < 0 || settings.dump_args > 3)
        throw_fault(FaultKind::DumpLevel, {{"value", settings.dump_args}});
    if (settings.swimlane < 0 || settings.swimlane > 4)
        throw_fault(FaultKind::SwimlaneLevel, {{"value", settings.swimlane}});
    if (selected && !settings.dump_args)
        throw_fault(FaultKind::SelectionWithoutDump);
    if (settings.dep_gen || settings.graph)
        graph_ = std::make_unique<GraphRecord>();
    if (settings.accesses || kernels.any_checked())
        checker_ = std::make_unique<Checker>(platform, settings);
    if (log.wants(LogLevel::Timing))
        timing_ = std::make_unique<TimingRecord>();
    if (log.wants(TraceRecord::kLevel))
        trace_ = std::make_unique<TraceRecord>(log, kernels);
    if (settings.swimlane)
        swimlane_ = std::make_unique<SwimlaneRecord>(platform, settings.swimlane);
    if (!settings.dump_args)
        return;
    const DumpNames *names = dump_names(settings.dump_format);
    if (names == nullptr)
        throw_fault(FaultKind::DumpFormat, {{"value", settings.dump_format}});
    args_ = std::make_unique<ArgsRecord>(settings, *names, kernels);
}

void Records::attach(const TaskGraph &graph, Scheduler &scheduler, Executor &executor, Orchestrator &orchestrator) {
    if (settings_.scope_stats)
        scopes_ = std::make_unique<ScopeRecord>(settings_.limits, graph, scheduler, orchestrator);
    const auto watch = [](auto &whom, const auto &...observers) {
        const auto observe = [&whom](auto *observer) {
            if (observer)
                whom.observe(observer);
        };
        (observe(observers.get()), ...);
    };
    watch(orchestrator, graph_, scopes_, swimlane_, checker_, trace_);
    watch(executor, swimlane_, trace_);
    if (swimlane_ || trace_)
        scheduler.touch_caller();
    executor.check_with(checker_.get());
    if (swimlane_ && swimlane_->wants_services())
        scheduler.observe(swimlane_.get());
    watch(scheduler, timing_, trace_, args_);
}

void Records::finish() {
    if (checker_)
        checker_->finish();
}

void Records::outputs(const Staging &staging, const std::vector<Unwritten> &unwritten) {
    if (!checker_)
        return;
    const std::vector<TensorParameter> &parameters = staging.parameters();
    std::vector<OutputHole> holes;
    for (const Unwritten &left : unwritten) {
        const TensorParameter &output = parameters[left.tensor];
        holes.push_back({output.name, reinterpret_cast<uint64_t>(output.address), output.bytes, left.count,
                         left.first.empty() ? 0 : left.first[0], element_bytes(output.dtype)});
    }
    checker_->outputs(std::move(holes));
}

void Records::write(bool fatal, int threads, const RunTimes &times) {
    if (settings_.dep_gen)
        graph_->write(settings_.output_dir);
    if (scopes_)
        scopes_->write(settings_.output_dir, fatal);
    if (checker_)
        checker_->write(settings_.output_dir, !fatal);
    if (swimlane_)
        swimlane_->write(settings_.output_dir, threads);
    if (timing_)
        timing_->write(times, log_);
    if (!args_)
        return;
    args_->write();
    for (const std::string &name : args_->unsigned_kernels())
        log_.line(LogLevel::Warn, "args dump: kernel " + name +
                                      " has no signature; its arguments are labelled by what the task declares");
}

} // namespace pypto::runtime
