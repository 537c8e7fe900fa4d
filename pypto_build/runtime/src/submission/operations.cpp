// The operations table an orchestration calls through: C functions in front of the orchestrator.
#include "submission/orchestrator.h"

#include <cstdarg>
#include <cstdio>

namespace pypto::runtime {

namespace {

std::string print(const char *pattern, va_list arguments) {
    char text[1024];
    std::vsnprintf(text, sizeof(text), pattern, arguments);
    return text;
}

void submit(PTO2Runtime *runtime, const Submission *submission, Outputs *outputs) {
    runtime->orchestrator->submit(*submission, *outputs);
}
void allocate(PTO2Runtime *runtime, const ArgEntry *entries, uint32_t count, Outputs *outputs) {
    runtime->orchestrator->allocate(entries, count, *outputs);
}
void scope_begin(PTO2Runtime *runtime, PTO2ScopeMode mode, const char *file, int line) {
    runtime->orchestrator->scope_begin(mode, file, line);
}
void scope_end(PTO2Runtime *runtime, const char *file, int line) {
    runtime->orchestrator->scope_end(file, line);
}
void read(PTO2Runtime *runtime, const ChipTensor *tensor, uint32_t ndims, const uint32_t *indices, void *value,
          uint32_t size) {
    runtime->orchestrator->read(*tensor, ndims, indices, value, size);
}
void write(PTO2Runtime *runtime, const ChipTensor *tensor, uint32_t ndims, const uint32_t *indices, const void *value,
           uint32_t size) {
    runtime->orchestrator->write(*tensor, ndims, indices, value, size);
}
void done(PTO2Runtime *) {} // the entry's return says the same
int is_fatal(PTO2Runtime *runtime) {
    return runtime->orchestrator->polled_fatal();
}
void report_fatal(PTO2Runtime *runtime, int code, const char *pattern, va_list arguments) {
    runtime->orchestrator->report_fatal(code, print(pattern, arguments));
}
void log(PTO2Runtime *runtime, LogLevel level, const char *file, int line, const char *pattern, va_list arguments) {
    runtime->orchestrator->log(level, file, line, print(pattern, arguments));
}
int cluster_count(PTO2Runtime *runtime) {
    return runtime->orchestrator->cluster_count();
}
int aiv_count(PTO2Runtime *runtime) {
    return runtime->orchestrator->aiv_count();
}
void misuse(PTO2Runtime *runtime, const char *message) {
    Orchestrator &orchestrator = *runtime->orchestrator;
    orchestrator.end_with(FaultKind::Misuse, {{"submitted", orchestrator.submitted()}, {"text", message}});
}
void no_argument(PTO2Runtime *runtime, const char *kind, int32_t index, int32_t count) {
    Orchestrator &orchestrator = *runtime->orchestrator;
    orchestrator.end_with(
        FaultKind::EntryArgument,
        {{"submitted", orchestrator.submitted()}, {"name", kind}, {"index", index}, {"count", count}});
}

int graph_task(PTO2Runtime *runtime, const uint64_t *words, int count, int func_id, bool vector) {
    return runtime->graph->add_task(words, count, func_id, vector);
}
void graph_edge(PTO2Runtime *runtime, int from, int to) {
    if (!runtime->graph->add_edge(from, to))
        runtime->orchestrator->end_with(FaultKind::GraphEdge, {{"producer", from}, {"consumer", to}});
}
int graph_size(PTO2Runtime *runtime) {
    return runtime->graph->size();
}
void graph_timing_slot(PTO2Runtime *runtime, int task, int slot) {
    if (!runtime->graph->set_timing_slot(task, slot))
        runtime->orchestrator->end_with(FaultKind::GraphTimingSlot, {{"number", task}, {"slot", slot}});
}
void *graph_memory(PTO2Runtime *runtime, uint64_t bytes) {
    return runtime->graph->allocate(bytes);
}
void graph_result(PTO2Runtime *runtime, void *host, const void *device, uint64_t bytes) {
    runtime->graph->add_result(host, device, bytes);
}

} // namespace

const Operations *Orchestrator::operations() {
    static const Operations table = {
        kOrchestrationAbi,     runtime::submit,       runtime::allocate,
        runtime::scope_begin,  runtime::scope_end,    runtime::read,
        runtime::write,        runtime::done,         runtime::is_fatal,
        runtime::report_fatal, runtime::log,          runtime::cluster_count,
        runtime::aiv_count,    runtime::misuse,       runtime::graph_task,
        runtime::graph_edge,   runtime::graph_size,   runtime::graph_timing_slot,
        runtime::graph_memory, runtime::graph_result, runtime::no_argument,
    };
    return &table;
}

} // namespace pypto::runtime
