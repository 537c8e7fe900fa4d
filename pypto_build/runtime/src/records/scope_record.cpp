// Writes how full rings, heap and tensor map are where scopes begin and end.
#include "records/scope_record.h"

#include <cstring>

namespace pypto::runtime {

void ScopeRecord::scope(bool begin, uint32_t depth, uint32_t ring, const char *file, int line) {
    TaskGraph::Usage usage;
    {
        const Scheduler::Lock lock = scheduler_.lock();
        usage = graph_.usage(ring);
    }
    const uint64_t released = usage.heap_total - usage.heap;
    JsonWriter json;
    const char *base = std::strrchr(file, '/');
    const std::string name = *file == 0 ? "(unknown)" : base ? base + 1 : file;
    json.open('{').key("site").text(name + ":" + std::to_string(line));
    json.key("phase").text(begin ? "begin" : "end").key("depth").number(depth).key("ring").number(ring);
    json.key("task_window_start").number(usage.tasks_begin);
    json.key("task_window_end").number(usage.tasks_end);
    json.key("heap_start").number(released);
    json.key("heap_end").number(usage.heap_total);
    json.key("dep_pool_start").number(1);
    json.key("dep_pool_end").number(usage.dependencies + 1); // entry 0 is never used
    json.key("tensormap").number(orchestrator_.tensor_map_size()).close('}');
    lines_ += json.str() + "\n";
    ++count_;
}

void ScopeRecord::write(const std::string &directory, bool fatal) const {
    JsonWriter json;
    json.open('{').key("version").number(6).key("fatal").boolean(fatal).key("dropped").number(0);
    json.key("total").number(count_);
    json.key("task_window_max").list(limits_.task_window, kRings);
    json.key("heap_max").list(limits_.heap_bytes, kRings);
    json.key("dep_pool_max").list(limits_.dependency_pool, kRings);
    json.key("tensormap_max").number(limits_.tensor_map).close('}');
    make_directories(directory + "/scope_stats");
    write_file(directory + "/scope_stats/scope_stats.jsonl", json.str() + "\n" + lines_);
}

} // namespace pypto::runtime
