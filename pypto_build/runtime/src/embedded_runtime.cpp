// One run from its start to its end: what it is given, what it loads, who is told what it does, and what it leaves.
#include "embedded_runtime.h"

#include "base/clock.h"
#include "base/log.h"
#include "chips/board.h"
#include "crash/crash.h"
#include "crash/flight.h"
#include "crash/samples.h"
#include "execution/artifact_code.h"
#include "records/records.h"
#include "scheduling/stall.h"
#include "submission/orchestrator.h"

namespace pypto::runtime {

namespace {

constexpr uint32_t kShownUnwritten = 16;
constexpr int kQuiesceMs = 1000; // how long kernels may go on after a fault before they are left behind

Report *open_report(const Settings &settings) {
    if (settings.report == nullptr || settings.report_bytes < sizeof(Report))
        return nullptr;
    Report *report = static_cast<Report *>(settings.report);
    report->version = kReportVersion;
    report->thread_count.store(0);
    report->orchestrating.store(0);
    report->created.store(0);
    report->completed.store(0);
    report->open.store(0);
    report->crash.state.store(0);
    report->fault.state.store(0);
    for (HangSample &sample : report->samples)
        sample.state.store(0);
    report->magic = kReportMagic;
    return report;
}

/// Everything that lives as long as one run.
struct Run {
    RankSignals signals;
    FlightRecorder recorder;
    TaskGraph graph;
    std::unique_ptr<Scheduler> scheduler;
    Executor executor;
    Orchestrator orchestrator;
    HostGraph host_graph;
    PTO2Runtime handle{&orchestrator, &host_graph};

    Run(const Settings &settings, const Platform &platform, const KernelLibrary &kernels, int threads, Report *report,
        const Log &log)
        : signals(settings), recorder(settings.flight, settings.flight_bytes, kernels), graph(settings.limits),
          executor(platform, kernels, report, recorder, signals,
                   {[this](Fault fault) { scheduler->fail(std::move(fault)); },
                    [this](int32_t more) { scheduler->waits_for_value(more); }, [this] { return scheduler->failed(); },
                    [this] { return scheduler->all_wait(); }}),
          orchestrator(settings, platform, kernels, graph,
                       *(scheduler = std::make_unique<Scheduler>(settings, graph, executor, threads)), recorder, log) {}
};

void check_parameters(const std::vector<TensorParameter> &tensors) {
    for (const TensorParameter &tensor : tensors) {
        uint64_t bytes = element_bytes(tensor.dtype);
        for (const uint32_t size : tensor.shape)
            bytes *= size;
        if (tensor.shape.empty() || tensor.shape.size() > MAX_TENSOR_DIMS || bytes > tensor.bytes)
            throw_fault(FaultKind::TensorMemory, {{"name", tensor.name},
                                                  {"dimensions", tensor.shape.size()},
                                                  {"bytes", bytes},
                                                  {"given", tensor.bytes}});
    }
}

} // namespace

uint64_t flight_bytes(uint32_t cores) {
    return sizeof(FlightHead) + (cores + 1) * sizeof(FlightTrack);
}

EmbeddedRuntime::EmbeddedRuntime(const std::string &platform, int threads)
    : platform_(find_platform(platform)), threads_(threads) {
    if (platform_ == nullptr)
        throw_fault(FaultKind::UnknownPlatform, {{"name", platform}});
}

void EmbeddedRuntime::load_orchestration(const std::string &path, const std::string &function_name,
                                         const std::string &config_name) {
    orchestration_.load(path, function_name, config_name);
}

RunResult EmbeddedRuntime::run(const std::vector<TensorParameter> &tensors, const std::vector<uint64_t> &scalars,
                               const Settings &settings) {
    if (!orchestration_.loaded())
        throw_fault(FaultKind::NoOrchestration);
    check_parameters(tensors);
    Report *report = open_report(settings);
    auto staging = std::make_unique<Staging>(tensors, settings.poison, settings.protect_inputs);
    EntryParameters parameters;
    parameters.tensors = staging->entry_tensors();
    parameters.scalars = scalars;
    parameters.arrange(settings.parameter_order);

    auto log = std::make_unique<Log>(settings.log_level);
    auto records = std::make_unique<Records>(settings, *platform_, kernels_, *log);
    const SignalStack signal_stack;
    const CrashGuard crash_guard(report, *staging);
    auto run = std::make_unique<Run>(settings, *platform_, kernels_, threads_, report, *log);
    const Sampling sampling(report, *staging, run->graph.blocks(), settings.windows);
    run->signals.set_busy(true);
    records->attach(run->graph, *run->scheduler, run->executor, run->orchestrator);
    orchestration_.bind(&run->handle, Orchestrator::operations());
    Scheduler &scheduler = *run->scheduler;
    const auto orchestrate = [report](const auto &code) {
        if (report)
            report->orchestrating.store(1);
        const bool complete = complete_artifact_code(code);
        if (report)
            report->orchestrating.store(0);
        return complete;
    };
    int expected = 0;
    if (!orchestrate([&] { expected = orchestration_.expected_args(parameters); }))
        throw FaultError{scheduler.fault()};
    if (expected > static_cast<int>(parameters.words.size()))
        throw_fault(FaultKind::ExpectedArguments, {{"expected", expected}, {"given", parameters.words.size()}});

    RunTimes times{monotonic_ns(), 0, 0};
    FlightTrack *flight = run->recorder.orchestration();
    note(flight, {times.start_ns, FlightEvent::RunBegins, 0, 0, 0, 0, ~0u, static_cast<int32_t>(settings.rank), 0});
    run->orchestrator.run([&] {
        int status = 0;
        if (!orchestrate([&] { status = orchestration_.call(&run->handle, parameters); }))
            throw CodeEnded{};
        if (status != 0)
            run->orchestrator.end_with(FaultKind::OrchestrationStatus, {{"value", status}});
        run->host_graph.submit(run->orchestrator);
    });
    scheduler.orchestration_done();
    times.orchestrated_ns = monotonic_ns();
    Scheduler::Lock lock = scheduler.lock();
    const Scheduler::Outcome outcome = [&] {
        FlightWait told(flight, {0, FlightEvent::WaitsForEnd, 0, 0, 0, 0, ~0u, 0, 0});
        if (run->graph.unfinished() > 0)
            told.begins();
        return scheduler.run_until(lock, [&] { return run->graph.unfinished() == 0; });
    }();
    if (outcome == Scheduler::Outcome::Stalled) {
        Fault fault = stall_fault(FaultKind::Stall, {}, run->graph, kernels_, scheduler.last_over(), true);
        lock.unlock();
        scheduler.fail(std::move(fault));
    } else {
        lock.unlock();
    }
    run->signals.set_busy(false);
    RunResult result;
    times.end_ns = monotonic_ns();
    result.run_s = static_cast<double>(times.end_ns - times.start_ns) / 1e9;
    const bool failed = scheduler.failed();
    note(flight, {times.end_ns, failed ? FlightEvent::Fault : FlightEvent::RunEnds, 0, 0, 0, 0, ~0u,
                  failed ? static_cast<int32_t>(scheduler.fault().kind) : 0, 0});
    if (failed) {
        Fault fault = scheduler.fault();
        const bool quiet = scheduler.quiesce(kQuiesceMs);
        if (quiet) {
            run->signals.write(settings.output_dir, records->timeline_ns());
            records->write(true, run->executor.cores(), times);
        } else { // a kernel still runs: its thread and everything it uses stay behind
            (void)run.release();
            (void)records.release();
            (void)log.release();
            (void)staging.release();
        }
        throw FaultError{fault};
    }
    records->finish();
    run->host_graph.deliver();
    result.unwritten = staging->unwritten(kShownUnwritten);
    records->outputs(*staging, result.unwritten);
    run->signals.write(settings.output_dir, records->timeline_ns());
    records->write(false, run->executor.cores(), times);
    result.tasks = scheduler.tasks_run();
    result.graph = records->graph();
    result.input_writes = staging->input_writes();
    return result;
}

} // namespace pypto::runtime
