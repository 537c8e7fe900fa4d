// The lines of the trace, each written before what it tells of goes on.
#include "records/trace_record.h"

#include "execution/group.h"

#include <algorithm>

namespace pypto::runtime {

namespace {

std::string id_text(uint64_t id) {
    return std::to_string(id >> 32) + ":" + std::to_string(id & 0xFFFFFFFF);
}

} // namespace

void TraceRecord::edge(const Edge &edge) {
    if (std::find(producers_.begin(), producers_.end(), edge.producer) == producers_.end())
        producers_.push_back(edge.producer);
}

void TraceRecord::submitted(const Task &task) {
    std::string more;
    if (task.block_num > 1)
        more += ", " + std::to_string(task.block_num) + " blocks";
    const char *separator = ", after ";
    for (const uint64_t producer : producers_) {
        more += separator + id_text(producer);
        separator = " ";
    }
    producers_.clear();
    line("submit", task, more);
}

void TraceRecord::starting(const Task &task, int member, int32_t block, int core) {
    std::string more = std::string(", ") + kMemberNames[member];
    if (task.block_num > 1)
        more += ", block " + std::to_string(block);
    line("dispatch", task, more + ", core " + std::to_string(core));
}

void TraceRecord::over(const Task &task) {
    line("complete", task, {});
}

void TraceRecord::line(const char *what, const Task &task, const std::string &more) const {
    const std::string name = task.number == kNoNumber ? "allocation"
                             : task.has_kernel
                                 ? "task " + std::to_string(task.number) + " " + kernels_.names(task.kernels)
                                 : "task " + std::to_string(task.number) + " without a kernel";
    log_.timed_line(kLevel, std::string(what) + ": " + name + ", id " + id_text(task.id) + more);
}

} // namespace pypto::runtime
